/* SPDX-License-Identifier: Apache-2.0 */
/* The reactor: a single-threaded polled loop over its own queues, lanes, descriptors and timers.
 *
 * A turn posts what was submitted, polls each completion queue once (one a port: usually one),
 * calls back, runs calls and spin functions, and posts what all that submitted: what was waiting
 * together goes out together. It takes no lock, allocates nothing, and reads the clock only in one
 * turn of TICK_TURNS, and there only if something is timed.
 *
 * rmem_reactor_run() adds the waiting: see waiter.h for why no wake-up is lost between the last
 * look and the sleep. Completion queues are armed before that look. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "engine/base/spin.h"
#include "engine/dispatch.h"
#include "engine/peers.h"
#include "engine/rmem.h"
#include "engine/staging.h"
#include "engine/waiter.h"

/* One completion queue, as the reactor drives it. */
struct rmem_queue {
	int (*poll)(struct rmem_cq *cq, struct rmem_completion *completions, unsigned count);
	struct rmem_cq *cq;
	const struct rmem_port_entry *port;
	uint32_t depth;	 /* that it was made or grown to */
	uint32_t wanted; /* by the endpoints attached or draining */
	bool is_broken;
	struct rmem_watch watch; /* of its descriptor */
};

struct rmem_reactor {
	struct rmem_dispatch dispatch;
	const struct rmem_table *table; /* the one taken in last */
	struct rmem_peers *peers;
	unsigned queue_count;
	uint32_t turn;
	uint32_t progress; /* moves when completions come */
	enum rmem_poll_mode poll;
	struct rmem_spin spin;
	bool is_awaiting; /* somebody waits for a notice */
	/* Since when nothing came, nor was submitted, over all runs that ended so; 0: not known.
	 * And what had come and been submitted when that was looked at last. */
	uint64_t idle_ns, idle_batches;
	uint32_t idle_progress;
	unsigned index;
	struct rmem_queue queues[RMEM_PORTS_MAX];
	struct rmem_arena arena;
	struct rmem_metrics metrics;
	struct rmem_waiter waiter;
	const struct rmem_engine_options *options;
	/* Written here, read by the control thread. */
	_Alignas(RMEM_CACHE_PAIR) _Atomic(uint64_t) epoch;
};

struct rmem_reactor_options {
	const struct rmem_engine_options *engine;
	struct rmem_peers *peers;
	unsigned index;
};

/* Before the control thread starts. Errors: -ENOMEM, -EMFILE. */
int rmem_reactor_create(const struct rmem_reactor_options *options, struct rmem_reactor **reactor,
			struct rmem_error *error) RMEM_MUST_CHECK;
void rmem_reactor_destroy(struct rmem_reactor *reactor);

/* After the control thread stopped: lets go of all endpoints without calling back, and waits for
 * what they have outstanding. */
void rmem_reactor_quiesce(struct rmem_reactor *reactor);

/* Any thread. Takes a reactor. */
void rmem_reactor_wake(void *reactor);
