/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of rmem-bench. Each runs on the main thread, prints its result to stdout, and undoes
 * what it set up. */
#pragma once

#include <stdbool.h>

#include "engine/base/error.h"
#include "engine/base/hint.h"
#include "tools/bench_line.h"

/* Both: 0, also when stopped early with something to report; -ECANCELED with nothing; the errors of
 * bench_ground_init(), bench_ground_rig() and bench_crew_measure(). */
/* As bw and lat, and -ENOENT when its siblings or valgrind are not there. */
int bench_ablate(const struct bench_line *line, struct rmem_error *error) RMEM_MUST_CHECK;
int bench_bw(const struct bench_line *line, struct rmem_error *error) RMEM_MUST_CHECK;
/* Until it is stopped. Errors: those of servers, and -EINVAL. */
int bench_echo(const struct bench_line *line, struct rmem_error *error) RMEM_MUST_CHECK;
int bench_lat(const struct bench_line *line, struct rmem_error *error) RMEM_MUST_CHECK;
/* Needs no server. Also -ENOTSUP (staging.streaming). */
int bench_stream(const struct bench_line *line, struct rmem_error *error) RMEM_MUST_CHECK;
