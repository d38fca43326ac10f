/* SPDX-License-Identifier: Apache-2.0 */
/* A reactor's data path: batches in, chains out, completions in, callbacks out.
 *
 * Knows endpoints and lanes, nothing of threads, tables or descriptors. Every batch that was
 * submitted and has not ended is in exactly one place: in `submitted`, waiting in one endpoint's
 * `pending` list for room, in `done`, or, when all of it is planned, only in ledgers. While it
 * is being planned it holds one count of its own `pending`, so it can't end early.
 *
 * A batch is planned in the order of its segments. Requests for different servers go to those
 * servers' open chains, which are posted together at the end of a flush; a batch that meets a
 * server without room waits there, and batches for other servers pass it.
 *
 * No cost here grows with the number of servers or lanes: lanes are visited when they have a chain
 * to post, endpoints when a completion made room on them. Used by one thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/timer.h"
#include "engine/batch.h"
#include "engine/lane.h"
#include "engine/notify.h"
#include "engine/rmem.h"
#include "engine/stats.h"

/* One reactor's connection to one server. Made by the control thread, then the reactor's from
 * attach until `is_attached` is false again. */
struct rmem_endpoint {
	struct rmem_plan_target target;
	struct rmem_batch_list pending; /* wait for room, oldest first */
	uint64_t spread_bytes;		/* so much to one lane before it is the next one's turn */
	uint64_t lane_bytes;		/* so much went to the current one */
	uint32_t generation;
	uint32_t lane_count;
	uint32_t lane_current;
	uint32_t cq_depth;   /* completions it may cause at once */
	uint32_t *cq_wanted; /* the sum of those on its queue; NULL: nobody counts */
	bool is_ready;	     /* in the list of endpoints that got room */
	/* The books of the notices, which all go over the first lane; NULL: none are exchanged. */
	struct rmem_notify *notify;
	struct rmem_batch_list unsent; /* all done but for their notices, which wait for credit */
	struct rmem_endpoint *next_ready;
	struct rmem_endpoint *next_draining;

	/* Read by the control thread. `is_attached` is set relaxed before the reactor passes an
	 * epoch (that store is the release) and cleared with release when the reactor will not
	 * touch the endpoint again. `failure` is set with release once `wc_*` are filled in. */
	_Atomic(bool) is_attached;
	_Atomic(int) failure; /* 0, or -errno: the connection is over, says the reactor */
	uint32_t wc_status;
	uint32_t wc_provider_status;

	struct rmem_lane lanes[];
};

/* What is counted and measured; written by the reactor, read by anybody. */
struct rmem_metrics {
	struct rmem_stats stats;
	struct rmem_histogram latency_ns[2]; /* of batches, by enum rmem_op; sampled */
	struct rmem_sampler sampler;
};

/* Completions taken in at a time at most. */
#define RMEM_COMPLETIONS_MAX 64

/* A notice that came and is still to be called back. */
struct rmem_inbound {
	uint32_t server;
	struct rmem_notice notice;
};

struct rmem_dispatch {
	struct rmem_batch_list submitted;
	struct rmem_batch_list done;
	struct rmem_lane *open;	 /* lanes with a chain to post */
	struct rmem_lane *retry; /* those that could not be posted and have nothing outstanding */
	struct rmem_endpoint *ready;
	struct rmem_endpoint *draining;
	struct rmem_metrics *metrics;
	uint32_t server_count; /* servers that exist, connected or not */
	uint32_t under_way;    /* batches submitted whose end was not called back */
	/* Tells the control thread to look at `failure` and `is_attached`. */
	void (*notify)(void *user);
	void *user;
	uint32_t inbox_head, inbox_tail;
	/* Gets the notices that come in; may be NULL. */
	void (*notice)(void *user, unsigned server, const struct rmem_notice *notice);
	void *notice_user;
	struct rmem_endpoint *endpoints[RMEM_SERVERS_MAX]; /* NULL: not connected */
	struct rmem_batch nobody;			   /* owns what was abandoned */
	struct rmem_inbound inbox[RMEM_COMPLETIONS_MAX];
};

void rmem_dispatch_init(struct rmem_dispatch *dispatch, struct rmem_metrics *metrics,
			void (*notify)(void *user), void *user);

static inline void rmem_dispatch_submit(struct rmem_dispatch *dispatch, struct rmem_batch *batch)
{
	struct rmem_timer timer;

	batch->engine.segment = 0;
	batch->engine.offset = 0;
	batch->engine.pending = 1;
	batch->engine.status = 0;
	rmem_sampler_start(&dispatch->metrics->sampler, &timer, RMEM_LOG_ENGINE);
	batch->engine.submitted_ns = timer.start_ns;
	rmem_batch_append(&dispatch->submitted, batch);
	dispatch->under_way++;
	rmem_stats_count(&dispatch->metrics->stats, RMEM_STAT_BATCHES);
}

/* Whether a flush has anything to do. */
static inline bool rmem_dispatch_has_work(const struct rmem_dispatch *dispatch)
{
	return dispatch->submitted.first || dispatch->ready || dispatch->open || dispatch->retry ||
	       dispatch->draining;
}

/* Plans what was submitted and what waited for room that is there now, and posts it. */
void rmem_dispatch_flush(struct rmem_dispatch *dispatch);

/* Takes in what a queue completed, RMEM_COMPLETIONS_MAX at most. What notices were among it must be
 * called back before the next time. */
void rmem_dispatch_complete(struct rmem_dispatch *dispatch,
			    const struct rmem_completion *completions, unsigned count);

/* Calls back the batches that have ended, and returns how many. A callback may submit and flush;
 * what ends by that is called back next time. */
unsigned rmem_dispatch_run_done(struct rmem_dispatch *dispatch);

static inline bool rmem_dispatch_has_notices(const struct rmem_dispatch *dispatch)
{
	return dispatch->inbox_head != dispatch->inbox_tail;
}

/* Calls back for the notices that came in; returns how many. The callback may do as that of a
 * batch. */
unsigned rmem_dispatch_run_notices(struct rmem_dispatch *dispatch);

/* As rmem_batch_cancel(). */
int rmem_dispatch_cancel(struct rmem_dispatch *dispatch, struct rmem_batch *batch) RMEM_MUST_CHECK;

/* Whether something must be tried again that no completion will announce: don't sleep. */
bool rmem_dispatch_is_restless(const struct rmem_dispatch *dispatch);

/* The endpoint takes its server's place, which must be free. */
void rmem_dispatch_attach(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint);

/* Fails an attached endpoint: its batches end with -ENOTCONN or, once its lanes have drained,
 * with what they met. Nothing if it failed before. */
void rmem_dispatch_detach(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint);

/* Ends the use of everything: forgets all batches, without calling back or touching them, and
 * detaches what is attached. Poll and complete until nothing is draining. */
void rmem_dispatch_abandon(struct rmem_dispatch *dispatch);
