/* SPDX-License-Identifier: Apache-2.0 */
/* All reactors of a rig at one load, each on a thread of its own: a measurement. */
#pragma once

#include "engine/base/error.h"
#include "engine/base/hint.h"
#include "tools/bench_worker.h"

enum bench_metric {
	BENCH_ITERATIONS,     /* batches, of all reactors */
	BENCH_BANDWIDTH,      /* GB/s, of the whole measurement */
	BENCH_BANDWIDTH_PEAK, /* GB/s, of the best sixteenth of it */
	BENCH_LATENCY,	      /* us, from submitting a batch to its callback; mean */
	BENCH_LATENCY_P50,
	BENCH_LATENCY_P99,
	BENCH_OPS,	   /* messages a second */
	BENCH_CPU_PERCENT, /* of one processor, by the reactors' threads */
	BENCH_CPU_NS,	   /* per message */
	BENCH_DOORBELLS,   /* per message, as are the next */
	BENCH_WRS,
	BENCH_MERGES,
	BENCH_TICKS, /* of the time stamp counter while on a processor, per message; 0: no counter
		      */
	BENCH_METRICS,
};

struct bench_result {
	double values[BENCH_METRICS];
};

struct bench_crew;

/* For measurements of up to `samples` batches (and as many to warm up) of each reactor. -ENOMEM. */
int bench_crew_create(const struct bench_rig *rig, uint64_t samples, struct bench_crew **crew,
		      struct rmem_error *error) RMEM_MUST_CHECK;
void bench_crew_destroy(struct bench_crew *crew);

/* Runs the load on every reactor. -ECANCELED when it was stopped before it had measured
 * everything; -EBADMSG when verifying found something else than was written; -ENOTCONN and the
 * other errors of transfers; -EAGAIN and -ENOMEM for what it needs itself. */
int bench_crew_measure(struct bench_crew *crew, const struct bench_load *load,
		       struct bench_result *result, struct rmem_error *error) RMEM_MUST_CHECK;

struct bench_idle {
	double seconds;		/* looked at */
	double reactor_seconds; /* on a processor: the thread that waits in the reactor */
	double process_seconds; /* with the engines' other threads, and servers in this process */
};

/* Drives reactor 0 for `idle_us` with nothing to do. Errors: -EAGAIN (no thread), -ECANCELED. */
int bench_crew_idle(struct bench_crew *crew, uint64_t idle_us, struct bench_idle *idle,
		    struct rmem_error *error) RMEM_MUST_CHECK;
