/* SPDX-License-Identifier: Apache-2.0 */
/* What the dispatcher's own files share: dispatch.c has the way of a batch, dispatch_notice.c what
 * is special about notices. */
#pragma once

#include "engine/dispatch.h"

enum dispatch_outcome {
	PLACED,	 /* something of the batch was, or it turned out to be bad: look again */
	NO_ROOM, /* the endpoint can take nothing now */
};

/* The endpoint is over, for `reason`. It may be gone when this returns. */
RMEM_COLD void dispatch_fail(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint,
			     int reason);

/* Posts the lane's open chain. The endpoint may be gone afterwards, if it is no longer its
 * server's. */
void dispatch_post(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint,
		   struct rmem_lane *lane);

/* As for any batch; true when it waits. Notices are sent in the order of their batches. `room` is
 * the endpoint whose list it comes from, if any. */
bool dispatch_plan_noticed(struct rmem_dispatch *dispatch, struct rmem_batch *batch,
			   const struct rmem_endpoint *room);
/* Goes on with the batches whose notices wait for credit. */
void dispatch_resume_notices(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint);
/* A completion that is about no request. */
void dispatch_complete_notice(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint,
			      const struct rmem_completion *completion);

static inline void dispatch_list_lane(struct rmem_dispatch *dispatch, struct rmem_lane *lane)
{
	if (lane->listed != RMEM_LANE_UNLISTED || lane->is_stalled)
		return;
	lane->listed = RMEM_LANE_TO_POST;
	lane->next_open = dispatch->open;
	dispatch->open = lane;
}

static inline void dispatch_make_ready(struct rmem_dispatch *dispatch,
				       struct rmem_endpoint *endpoint)
{
	if (endpoint->is_ready)
		return;
	endpoint->is_ready = true;
	endpoint->next_ready = dispatch->ready;
	dispatch->ready = endpoint;
}

static inline void dispatch_count_planned(struct rmem_stats *stats, const struct rmem_batch *batch,
					  uint32_t segments, const struct rmem_plan_budget *budget)
{
	bool is_read = batch->op == RMEM_READ;

	rmem_stats_add(stats, is_read ? RMEM_STAT_READS : RMEM_STAT_WRITES, segments);
	rmem_stats_add(stats, is_read ? RMEM_STAT_READ_BYTES : RMEM_STAT_WRITE_BYTES,
		       budget->bytes);
	if (segments > budget->wr_count)
		rmem_stats_add(stats, RMEM_STAT_MERGES, segments - budget->wr_count);
	else if (segments < budget->wr_count)
		rmem_stats_add(stats, RMEM_STAT_CHUNKS, budget->wr_count - segments);
}

/* Posts the lane's chain if it is full; or else later, with what comes until then. */
static inline void dispatch_settle(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint,
				   struct rmem_lane *lane)
{
	if (lane->open == lane->post_batch && !lane->is_stalled &&
	    lane->listed != RMEM_LANE_TO_RETRY)
		dispatch_post(dispatch, endpoint, lane);
	else if (lane->open > 0)
		dispatch_list_lane(dispatch, lane);
}
