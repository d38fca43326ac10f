/* SPDX-License-Identifier: Apache-2.0 */
/* The planner: turns the segments of a batch into work requests.
 *
 * Pure computation: no fabric, no allocation, nothing remembered but the cursor in the batch. The
 * caller gives a target (one server, reached through one port), an array to write requests to and
 * a budget; the planner fills in as many as the budget allows and the batch has for that server,
 * and can go on later from where it stopped, on any lane.
 *
 *  - A segment up to chunk_bytes stays whole; a longer one is cut into pieces of chunk_bytes, or
 *    of as many more whole pages as keep it within chunks_max pieces.
 *  - Neighbours in the array merge while they continue each other remotely and the sum stays within
 *    chunk_bytes: into one SGE where they continue each other locally too, into several SGEs
 *    otherwise. Segments that are neighbours only after sorting do not: callers build them in
 * order.
 *  - Segments of zero length are done before they begin.
 *
 * Used by a reactor on batches it owns. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/fabric.h"
#include "engine/memory.h"
#include "engine/rmem.h"

struct rmem_plan_limits {
	uint32_t chunk_bytes; /* multiple of a page */
	uint32_t chunks_max;
	uint32_t piece_max_bytes; /* what one request can carry; wins over chunks_max */
	uint32_t sge_max;	  /* 1..RMEM_SGE_MAX */
	uint32_t inline_bytes;	  /* writes up to this go inline; 0: none */
};

struct rmem_plan_target {
	const struct rmem_remote *regions;
	uint32_t region_count;
	uint32_t server;
	struct rmem_plan_limits limits;
	struct rmem_memory_view memory;
};

struct rmem_plan_budget {
	uint32_t wr_max;    /* in: at most so many requests */
	uint64_t bytes_max; /* in: no new request once so many bytes are planned */
	uint64_t id;	    /* in: goes into each request */
	uint32_t wr_count;  /* out */
	uint64_t bytes;	    /* out */
};

enum rmem_plan_stop {
	RMEM_PLAN_END, /* nothing is left of the batch */
	RMEM_PLAN_BUDGET,
	RMEM_PLAN_SERVER, /* what comes next is for another server */
};

/* The segment at the cursor, past any of zero length; NULL at the end. */
static inline const struct rmem_segment *rmem_plan_next(struct rmem_batch *batch)
{
	while (batch->engine.segment < batch->segment_count) {
		const struct rmem_segment *segment = &batch->segments[batch->engine.segment];

		if (RMEM_LIKELY(segment->length != 0))
			return segment;
		batch->engine.segment++;
	}
	return NULL;
}

/* --- What becomes of a batch ------------------------------------------------------------------ */

/* Batches linked through engine.next. */
struct rmem_batch_list {
	struct rmem_batch *first;
	struct rmem_batch *last; /* valid when there is a first */
};

static inline void rmem_batch_append(struct rmem_batch_list *list, struct rmem_batch *batch)
{
	batch->engine.next = NULL;
	if (list->first)
		list->last->engine.next = batch;
	else
		list->first = batch;
	list->last = batch;
}

static inline void rmem_batch_prepend(struct rmem_batch_list *list, struct rmem_batch *batch)
{
	batch->engine.next = list->first;
	if (!list->first)
		list->last = batch;
	list->first = batch;
}

static inline struct rmem_batch *rmem_batch_take(struct rmem_batch_list *list)
{
	struct rmem_batch *batch = list->first;

	if (batch)
		list->first = batch->engine.next;
	return batch;
}

/* Takes the batch out; false when it isn't there. Looks through the list. */
bool rmem_batch_unlink(struct rmem_batch_list *list, struct rmem_batch *batch);

/* `count` of what is pending has ended; with the last of it the batch goes to `done`. */
static inline void rmem_batch_release(struct rmem_batch_list *done, struct rmem_batch *batch,
				      uint32_t count)
{
	batch->engine.pending -= count;
	if (batch->engine.pending == 0)
		rmem_batch_append(done, batch);
}

/* Notes a failure; the first one counts. */
static inline void rmem_batch_fail(struct rmem_batch *batch, unsigned server, int status)
{
	if (batch->engine.status != 0)
		return;
	batch->engine.status = status;
	batch->failed_server = (uint16_t)server;
}

/* --- The planner itself ----------------------------------------------------------------------- */

/* Writes requests to `wrs`, everything but `next`, and moves the cursor behind them. Returns why it
 * stopped, or -EINVAL (no such region, memory not registered) or -ERANGE (outside the region) for
 * the segment at the cursor; what was planned before it counts. */
int rmem_plan_fill(struct rmem_plan_target *target, struct rmem_batch *batch, struct rmem_wr *wrs,
		   struct rmem_plan_budget *budget);
