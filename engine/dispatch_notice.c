/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>

#include "engine/dispatch_internal.h"

/* --- Going out -------------------------------------------------------------------------------- */

/* Where the notice has been placed the cursor is behind the end. */
static inline bool is_noticed(const struct rmem_batch *batch)
{
	return batch->engine.segment > batch->segment_count;
}

static void note_noticed(struct rmem_dispatch *dispatch, struct rmem_batch *batch)
{
	batch->engine.segment = batch->segment_count + 1;
	rmem_stats_count(&dispatch->metrics->stats, RMEM_STAT_NOTICES_SENT);
}

/* 0, or why the notice can't be sent. */
static int check_notice(const struct rmem_dispatch *dispatch, const struct rmem_batch *batch)
{
	const struct rmem_endpoint *endpoint;

	if (batch->notice_server >= dispatch->server_count ||
	    batch->notice->length > RMEM_NOTICE_BYTES_MAX)
		return -EINVAL;
	endpoint = dispatch->endpoints[batch->notice_server];
	if (!endpoint)
		return -ENOTCONN;
	return endpoint->notify ? 0 : -EOPNOTSUPP;
}

/* Puts as much of the batch as one chain takes on the lane, and at the end its notice: with the
 * last request if it can travel with that. */
static enum dispatch_outcome place_noticed(struct rmem_dispatch *dispatch,
					   struct rmem_endpoint *endpoint, struct rmem_batch *batch)
{
	struct rmem_lane *lane = &endpoint->lanes[0];
	uint32_t segment = batch->engine.segment;
	struct rmem_plan_budget budget = {
		.wr_max = rmem_lane_room(lane),
		.bytes_max = UINT64_MAX,
	};

	if (budget.wr_max == 0) {
		rmem_stats_count(&dispatch->metrics->stats, RMEM_STAT_CREDITS_EMPTY);
		return NO_ROOM;
	}
	if (rmem_plan_next(batch)) {
		int rc = rmem_lane_fill(lane, &endpoint->target, batch, &budget);

		if (rc < 0 || rc == RMEM_PLAN_SERVER)
			rmem_batch_fail(batch, endpoint->target.server, rc < 0 ? rc : -EINVAL);
		dispatch_count_planned(&dispatch->metrics->stats, batch,
				       batch->engine.segment - segment, &budget);
		if (batch->engine.status == 0 && !rmem_plan_next(batch) &&
		    batch->op == RMEM_WRITE && batch->notice->length == 0 &&
		    !endpoint->unsent.first && rmem_notify_send(endpoint->notify)) {
			rmem_lane_join_notice(lane, batch);
			note_noticed(dispatch, batch);
		}
	} else if (rmem_notify_send(endpoint->notify)) {
		rmem_lane_add_notice(lane, batch);
		note_noticed(dispatch, batch);
	}
	dispatch_settle(dispatch, endpoint, lane);
	return PLACED;
}

/* Whether nothing is left of the batch but its notice, and it is next to be sent: the cursor says
 * so by an offset where there is no segment. */
static inline bool is_its_turn(struct rmem_batch *batch)
{
	return batch->engine.offset != 0 && !rmem_plan_next(batch);
}

bool dispatch_plan_noticed(struct rmem_dispatch *dispatch, struct rmem_batch *batch,
			   const struct rmem_endpoint *room)
{
	int rc = 0;

	while (batch->engine.status == 0 && !is_noticed(batch) &&
	       (rc = check_notice(dispatch, batch)) == 0) {
		struct rmem_endpoint *endpoint = dispatch->endpoints[batch->notice_server];

		if (endpoint->pending.first && endpoint != room) {
			rmem_batch_append(&endpoint->pending, batch);
			return true;
		}
		if (!rmem_plan_next(batch) && !is_its_turn(batch) &&
		    (endpoint->notify->credits == 0 || endpoint->unsent.first)) {
			rmem_stats_count(&dispatch->metrics->stats, RMEM_STAT_NOTICES_HELD);
			rmem_batch_append(&endpoint->unsent, batch);
			return true;
		}
		if (place_noticed(dispatch, endpoint, batch) == NO_ROOM) {
			if (!rmem_plan_next(batch))
				batch->engine.offset = 1;
			rmem_batch_prepend(&endpoint->pending, batch);
			return true;
		}
	}
	if (rc != 0)
		rmem_batch_fail(batch, batch->notice_server, rc);
	rmem_batch_release(&dispatch->done, batch, 1);
	return false;
}

void dispatch_resume_notices(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint)
{
	unsigned server = endpoint->target.server;

	while (dispatch->endpoints[server] == endpoint && endpoint->unsent.first &&
	       !endpoint->pending.first && endpoint->notify->credits > 0) {
		struct rmem_batch *batch = rmem_batch_take(&endpoint->unsent);

		batch->engine.offset = 1; /* it is its turn */
		dispatch_plan_noticed(dispatch, batch, endpoint);
	}
}

/* --- Coming in -------------------------------------------------------------------------------- */

void dispatch_complete_notice(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint,
			      const struct rmem_completion *completion)
{
	struct rmem_lane *lane = &endpoint->lanes[0];
	struct rmem_inbound *inbound;
	uint32_t grant;

	if (completion->status == RMEM_WC_GRANT) {
		if (!rmem_notify_granted(endpoint->notify, completion->provider_status))
			dispatch_fail(dispatch, endpoint, -EPROTO);
		else if (endpoint->unsent.first)
			dispatch_make_ready(dispatch, endpoint);
		return;
	}
	assert(dispatch->inbox_tail < RMEM_COMPLETIONS_MAX);
	inbound = &dispatch->inbox[dispatch->inbox_tail++];
	inbound->server = endpoint->target.server;
	lane->fabric->notice_take(lane->link, &inbound->notice);
	grant = rmem_notify_take(endpoint->notify, inbound->notice.transfer);
	if (grant > 0 && lane->state == RMEM_LANE_OPEN)
		lane->fabric->notices_grant(lane->link, grant);
	rmem_stats_count(&dispatch->metrics->stats, RMEM_STAT_NOTICES_TAKEN);
}

unsigned rmem_dispatch_run_notices(struct rmem_dispatch *dispatch)
{
	unsigned count = 0;

	while (rmem_dispatch_has_notices(dispatch)) {
		/* A copy: the callback may poll. */
		struct rmem_inbound inbound = dispatch->inbox[dispatch->inbox_head++];

		count++;
		if (dispatch->notice)
			dispatch->notice(dispatch->notice_user, inbound.server, &inbound.notice);
	}
	return count;
}
