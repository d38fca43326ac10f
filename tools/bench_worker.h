/* SPDX-License-Identifier: Apache-2.0 */
/* One reactor at work: keeps a number of batches under way, each followed by the next as soon as it
 * ends, or when its time has come, and notes when. The clock is read once a batch. Batches and
 * segments are made before, and nothing is allocated while the clock runs. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/hint.h"
#include "engine/rmem.h"
#include "engine/stats.h"
#include "tools/bench_layout.h"
#include "tools/bench_rig.h"
#include "tools/bench_settings.h"

/* Set by a signal handler and never cleared: what is running ends with the batch it is at. Relaxed:
 * it says nothing about other memory. */
extern _Atomic(bool) bench_stop;

static inline bool bench_is_stopped(void)
{
	return atomic_load_explicit(&bench_stop, memory_order_relaxed);
}

/* What to do. */
struct bench_load {
	enum rmem_op op;
	uint64_t size_bytes;
	uint32_t batch;	     /* messages */
	uint32_t in_flight;  /* batches */
	uint64_t iterations; /* batches */
	uint64_t warmup;
	uint64_t limit_ns; /* 0: none */
	uint64_t rate;	   /* messages a second of each reactor; 0: as many as it can */
	enum bench_layout_kind layout;
	enum bench_spread spread;
	bool verify;
	bool bare; /* no engine: a loop that copies the same messages, of rigs that have a twin */
	uint64_t seed; /* of the content to verify: another for each measurement */
};

struct bench_transfer {
	struct rmem_batch batch;
	struct bench_worker *worker;
	struct bench_transfer *next; /* that follows when this one ends */
	struct bench_transfer *after;
	uint64_t start_ns;
	bool has_run;
};

struct bench_worker {
	const struct bench_rig *rig;
	const struct bench_load *load;
	struct rmem_reactor *reactor;
	unsigned index;	 /* of the reactor */
	unsigned chains; /* transfers that follow each other in a circle: one a server, or one */
	struct bench_layout layout;
	struct rmem_segment *segments;
	struct bench_transfer *transfers; /* chains of each flight stand together */
	/* When each batch ended and what it took; the caller's, with room for iterations and
	 * warmup. */
	uint64_t *ends_ns;
	uint64_t *latencies_ns;

	uint64_t goal, started, ended;
	uint64_t deadline_ns;
	uint32_t in_flight;
	uint64_t interval_ns;		/* between the starts of batches; 0: none */
	uint64_t due_ns;		/* the next start */
	struct bench_transfer *waiting; /* for it; linked through `after` */

	/* Of the measurement. */
	uint64_t start_ns, end_ns;	    /* from the first batch to the end of the last */
	uint64_t from_ns, until_ns, cpu_ns; /* around what cpu_ns is of */
	uint64_t ticks;			    /* of the time stamp counter, likewise */
	struct rmem_stats_snapshot counted;
	int rc; /* with `error` */
	struct rmem_error error;
};

/* Prepares reactor `index` of the rig. Any thread. -ENOMEM. */
int bench_worker_init(struct bench_worker *worker, const struct bench_rig *rig,
		      const struct bench_load *load, unsigned index,
		      struct rmem_error *error) RMEM_MUST_CHECK;
void bench_worker_finish(struct bench_worker *worker);

/* Where workers that are ready wait for the others, so that they begin together. */
enum bench_gate_state { BENCH_GATE_SHUT, BENCH_GATE_GO, BENCH_GATE_GO_HOME };

struct bench_gate {
	pthread_mutex_t lock; /* over the rest */
	pthread_cond_t changed;
	unsigned waiting;
	enum bench_gate_state state;
};

/* Waits for `count` workers to wait, and lets them go: to measure, or home. */
void bench_gate_open(struct bench_gate *gate, unsigned count, enum bench_gate_state state);

/* The whole of a measurement, on a thread that may drive the reactor: warms up, waits at the gate,
 * measures, verifies. The result is in the worker. */
void bench_worker_run(struct bench_worker *worker, struct bench_gate *gate);

/* What is measured: runs `count` batches, or as many as fit into `limit_ns` (0: no limit), through
 * the engine or as bare copies. Functions by themselves, so that a profiler can be told to look at
 * nothing else. */
void bench_worker_drive(struct bench_worker *worker, uint64_t count, uint64_t limit_ns);
void bench_worker_copy(struct bench_worker *worker, uint64_t count, uint64_t limit_ns);

/* Nanoseconds that the calling thread, or the process, spent on a processor. */
uint64_t bench_thread_cpu_ns(void);
uint64_t bench_process_cpu_ns(void);
