/* SPDX-License-Identifier: Apache-2.0 */
/* Runs rmem-bench bw in a process of its own: this program's or a sibling's, which is the same with
 * one module of the engine replaced (tools/ablation/), and reads what it measured. */
#pragma once

#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/hint.h"
#include "tools/bench_crew.h"
#include "tools/bench_settings.h"

struct bench_sibling_result {
	uint64_t bytes; /* size of a message */
	struct bench_result result;
};

/* Where the sibling of that name lies: next to this program, in ablation/; NULL is this program.
 * -ENOENT (says how siblings are made). */
#define BENCH_SIBLING_PATH 512
int bench_sibling_find(const char *name, char path[BENCH_SIBLING_PATH],
		       struct rmem_error *error) RMEM_MUST_CHECK;

/* Runs it with `arguments` (those of bw, NULL-terminated, at most BENCH_SIBLING_ARGUMENTS) and
 * --json. Returns the number of results, at most BENCH_SIZES_MAX; -ECANCELED when this process was
 * told to stop; or what went wrong. */
#define BENCH_SIBLING_ARGUMENTS 48
int bench_sibling_run(const char *path, const char *const *arguments,
		      struct bench_sibling_result results[BENCH_SIZES_MAX],
		      struct rmem_error *error) RMEM_MUST_CHECK;

/* The same under callgrind: how many instructions bench_worker_drive() and all below it took,
 * divided by `operations`. -ENOENT: no valgrind here. */
int bench_sibling_count(const char *path, const char *const *arguments, double operations,
			double *instructions, struct rmem_error *error) RMEM_MUST_CHECK;

/* What bw --json wrote, in results. Returns how many. */
unsigned bench_sibling_parse(const char *json,
			     struct bench_sibling_result results[BENCH_SIZES_MAX]);
