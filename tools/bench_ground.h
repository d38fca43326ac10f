/* SPDX-License-Identifier: Apache-2.0 */
/* What both commands set up first: servers, of their own or given, and how much memory to use. */
#pragma once

#include "tools/bench_line.h"
#include "tools/bench_report.h"
#include "tools/bench_rig.h"
#include "tools/bench_servers.h"

struct bench_ground {
	const struct bench_line *line;
	struct bench_servers *own; /* NULL: others' */
	const char *urls[RMEM_SERVERS_MAX];
	unsigned url_count;
	struct rmem_engine_options engine;
	struct bench_budget budget;
};

/* Checks what can be checked, and starts servers if none are given. Errors: -EPERM (it would
 * overwrite what is on somebody's server), -ENOMEM, -ENOENT (no gnuplot for --plot), and those of
 * servers. */
int bench_ground_init(struct bench_ground *ground, const struct bench_line *line,
		      struct rmem_error *error) RMEM_MUST_CHECK;
void bench_ground_finish(struct bench_ground *ground);

/* A rig on it that polls in `mode`. Errors: as for bench_rig_create(). */
int bench_ground_rig(const struct bench_ground *ground, enum rmem_poll_mode mode,
		     struct bench_rig **rig, struct rmem_error *error) RMEM_MUST_CHECK;

/* The load of the settings, but for `op`, `size_bytes` and `seed`. */
void bench_ground_load(const struct bench_ground *ground, struct bench_load *load);

/* How many batches a reactor may have to note. */
uint64_t bench_ground_samples(const struct bench_ground *ground);

/* What both commands say of a run. */
void bench_ground_facts(const struct bench_ground *ground, const struct bench_rig *rig,
			struct bench_facts *facts);

/* Whether every server is reached over shm. */
bool bench_ground_is_shm(const struct bench_ground *ground);
