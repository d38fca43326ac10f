/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/dispatch_internal.h"

#include <errno.h>
#include <string.h>

void rmem_dispatch_init(struct rmem_dispatch *dispatch, struct rmem_metrics *metrics,
			void (*notify)(void *user), void *user)
{
	*dispatch = (struct rmem_dispatch){
		.metrics = metrics,
		.notify = notify,
		.user = user,
	};
}

/* --- Endpoints that come and go --------------------------------------------------------------- */

void rmem_dispatch_attach(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint)
{
	atomic_store_explicit(&endpoint->is_attached, true, memory_order_relaxed);
	dispatch->endpoints[endpoint->target.server] = endpoint;
	if (endpoint->notify)
		endpoint->lanes[0].fabric->notices_start(endpoint->lanes[0].link,
							 endpoint->lanes[0].id_base);
}

static void unlist_lane(struct rmem_lane **list, struct rmem_lane *lane)
{
	while (*list) {
		if (*list == lane) {
			*list = lane->next_open;
			return;
		}
		list = &(*list)->next_open;
	}
}

static void unlist_endpoint(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint)
{
	for (struct rmem_endpoint **at = &dispatch->ready; *at; at = &(*at)->next_ready) {
		if (*at == endpoint) {
			*at = endpoint->next_ready;
			break;
		}
	}
	endpoint->is_ready = false;
	for (uint32_t i = 0; i < endpoint->lane_count; i++) {
		struct rmem_lane *lane = &endpoint->lanes[i];

		if (lane->listed == RMEM_LANE_TO_POST)
			unlist_lane(&dispatch->open, lane);
		else if (lane->listed == RMEM_LANE_TO_RETRY)
			unlist_lane(&dispatch->retry, lane);
		lane->listed = RMEM_LANE_UNLISTED;
	}
}

/* Tries to finish with an endpoint that is draining; true when that was it. The control thread may
 * free it from then on. */
static bool drain(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint)
{
	bool is_drained = true;

	for (uint32_t i = 0; i < endpoint->lane_count; i++) {
		rmem_lane_drain(&endpoint->lanes[i], &dispatch->done);
		if (endpoint->lanes[i].state != RMEM_LANE_DRAINED)
			is_drained = false;
	}
	if (!is_drained)
		return false;
	for (struct rmem_endpoint **at = &dispatch->draining; *at; at = &(*at)->next_draining) {
		if (*at == endpoint) {
			*at = endpoint->next_draining;
			break;
		}
	}
	if (endpoint->notify)
		endpoint->lanes[0].fabric->notices_stop(endpoint->lanes[0].link);
	if (endpoint->cq_wanted)
		*endpoint->cq_wanted -= endpoint->cq_depth;
	/* Pairs with the acquire of the control thread before it frees the endpoint. */
	atomic_store_explicit(&endpoint->is_attached, false, memory_order_release);
	dispatch->notify(dispatch->user);
	return true;
}

void dispatch_fail(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint, int reason)
{
	unsigned server = endpoint->target.server;
	struct rmem_batch *batch;

	if (dispatch->endpoints[server] != endpoint)
		return; /* is draining already */
	dispatch->endpoints[server] = NULL;
	endpoint->next_draining = dispatch->draining;
	dispatch->draining = endpoint;
	unlist_endpoint(dispatch, endpoint);
	rmem_stats_add(&dispatch->metrics->stats, RMEM_STAT_LANES_LOST, endpoint->lane_count);
	for (uint32_t i = 0; i < endpoint->lane_count; i++)
		rmem_lane_fail(&endpoint->lanes[i], -ENOTCONN, &dispatch->done);
	while ((batch = rmem_batch_take(&endpoint->pending)) ||
	       (batch = rmem_batch_take(&endpoint->unsent))) {
		rmem_batch_fail(batch, server, -ENOTCONN);
		rmem_batch_release(&dispatch->done, batch, 1);
	}
	/* Pairs with the acquire of the control thread, which reads wc_* then. */
	atomic_store_explicit(&endpoint->failure, reason, memory_order_release);
	dispatch->notify(dispatch->user);
	drain(dispatch, endpoint);
}

void rmem_dispatch_detach(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint)
{
	dispatch_fail(dispatch, endpoint, -ENOTCONN);
}

/* --- From batches to chains ------------------------------------------------------------------- */

void dispatch_post(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint,
		   struct rmem_lane *lane)
{
	int rc = rmem_lane_post(lane, &dispatch->metrics->stats);

	if (RMEM_LIKELY(rc == RMEM_LANE_POSTED || rc == RMEM_LANE_STALLED))
		return;
	if (rc == RMEM_LANE_RETRY) {
		if (lane->listed == RMEM_LANE_UNLISTED) {
			lane->listed = RMEM_LANE_TO_RETRY;
			lane->next_open = dispatch->retry;
			dispatch->retry = lane;
		}
		return;
	}
	rmem_lane_fail(lane, rc == -ENOTCONN ? rc : -EIO, &dispatch->done);
	dispatch_fail(dispatch, endpoint, rc);
}

/* The lane that is to take the next requests; NULL when none has room. */
static struct rmem_lane *pick_lane(struct rmem_endpoint *endpoint)
{
	for (uint32_t i = 0; i < endpoint->lane_count; i++) {
		struct rmem_lane *lane = &endpoint->lanes[endpoint->lane_current];

		if (RMEM_LIKELY(endpoint->lane_bytes < endpoint->spread_bytes &&
				rmem_lane_room(lane) > 0))
			return lane;
		endpoint->lane_bytes = 0;
		if (++endpoint->lane_current == endpoint->lane_count)
			endpoint->lane_current = 0;
	}
	return rmem_lane_room(&endpoint->lanes[endpoint->lane_current]) > 0
		       ? &endpoint->lanes[endpoint->lane_current]
		       : NULL;
}

/* Puts as much of the batch as one chain takes on one of the endpoint's lanes. */
static enum dispatch_outcome place(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint,
				   struct rmem_batch *batch)
{
	struct rmem_lane *lane = pick_lane(endpoint);
	uint32_t segment = batch->engine.segment;

	if (RMEM_UNLIKELY(!lane)) {
		rmem_stats_count(&dispatch->metrics->stats, RMEM_STAT_CREDITS_EMPTY);
		return NO_ROOM;
	}
	struct rmem_plan_budget budget = {
		.wr_max = rmem_lane_room(lane),
		.bytes_max = endpoint->spread_bytes - endpoint->lane_bytes,
	};
	int rc = rmem_lane_fill(lane, &endpoint->target, batch, &budget);

	if (RMEM_UNLIKELY(rc < 0))
		rmem_batch_fail(batch, endpoint->target.server, rc);
	dispatch_count_planned(&dispatch->metrics->stats, batch, batch->engine.segment - segment,
			       &budget);
	if (endpoint->lane_count > 1)
		endpoint->lane_bytes += budget.bytes;
	dispatch_settle(dispatch, endpoint, lane);
	return PLACED;
}

/* Plans the batch until all of it is placed or it has to wait. `room` is the endpoint whose list it
 * comes from, if any: there it needs not queue again. True when it waits, in some endpoint's list.
 */
static bool plan(struct rmem_dispatch *dispatch, struct rmem_batch *batch,
		 const struct rmem_endpoint *room)
{
	const struct rmem_segment *segment;

	if (RMEM_UNLIKELY(batch->notice != NULL))
		return dispatch_plan_noticed(dispatch, batch, room);
	while (batch->engine.status == 0 && (segment = rmem_plan_next(batch))) {
		struct rmem_endpoint *endpoint = NULL;

		if (RMEM_LIKELY(segment->server < dispatch->server_count))
			endpoint = dispatch->endpoints[segment->server];
		if (RMEM_UNLIKELY(!endpoint)) {
			rmem_batch_fail(batch, segment->server,
					segment->server < dispatch->server_count ? -ENOTCONN
										 : -EINVAL);
			break;
		}
		if (RMEM_UNLIKELY(endpoint->pending.first && endpoint != room)) {
			rmem_batch_append(&endpoint->pending, batch);
			return true;
		}
		if (RMEM_UNLIKELY(place(dispatch, endpoint, batch) == NO_ROOM)) {
			rmem_batch_prepend(&endpoint->pending, batch);
			return true;
		}
	}
	rmem_batch_release(&dispatch->done, batch, 1);
	return false;
}

/* Goes on with the batches that wait for the endpoint. */
static void resume(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint)
{
	unsigned server = endpoint->target.server;

	/* Posting may fail it and take it away meanwhile. */
	dispatch_resume_notices(dispatch, endpoint);
	while (dispatch->endpoints[server] == endpoint && endpoint->pending.first &&
	       pick_lane(endpoint)) {
		struct rmem_batch *batch = rmem_batch_take(&endpoint->pending);

		/* There was room, but not on the lane that it must have. */
		if (plan(dispatch, batch, endpoint) && endpoint->pending.first == batch)
			return;
	}
	if (dispatch->endpoints[server] == endpoint)
		dispatch_resume_notices(dispatch, endpoint);
}

static void post_all(struct rmem_dispatch *dispatch)
{
	struct rmem_lane *lane;

	while ((lane = dispatch->open)) {
		dispatch->open = lane->next_open;
		lane->listed = RMEM_LANE_UNLISTED;
		if (lane->open > 0 && !lane->is_stalled)
			dispatch_post(dispatch, dispatch->endpoints[rmem_id_server(lane->id_base)],
				      lane);
	}
}

/* What nobody announces is tried again, once a flush. */
static RMEM_COLD void try_again(struct rmem_dispatch *dispatch)
{
	struct rmem_endpoint *next;
	struct rmem_lane *lane;

	while ((lane = dispatch->retry)) {
		dispatch->retry = lane->next_open;
		lane->listed = RMEM_LANE_UNLISTED;
		dispatch_list_lane(dispatch, lane);
	}
	for (struct rmem_endpoint *at = dispatch->draining; at; at = next) {
		next = at->next_draining;
		drain(dispatch, at);
	}
}

void rmem_dispatch_flush(struct rmem_dispatch *dispatch)
{
	struct rmem_endpoint *endpoint;
	struct rmem_batch *batch;

	if (RMEM_UNLIKELY(dispatch->retry || dispatch->draining))
		try_again(dispatch);
	while ((endpoint = dispatch->ready)) {
		dispatch->ready = endpoint->next_ready;
		endpoint->is_ready = false;
		resume(dispatch, endpoint);
	}
	while ((batch = rmem_batch_take(&dispatch->submitted)))
		plan(dispatch, batch, NULL);
	post_all(dispatch);
}

bool rmem_dispatch_is_restless(const struct rmem_dispatch *dispatch)
{
	if (dispatch->submitted.first || dispatch->done.first || dispatch->ready ||
	    dispatch->open || dispatch->retry)
		return true;
	for (struct rmem_endpoint *at = dispatch->draining; at; at = at->next_draining) {
		for (uint32_t i = 0; i < at->lane_count; i++) {
			if (at->lanes[i].state == RMEM_LANE_DRAINING &&
			    !at->lanes[i].is_drain_posted)
				return true;
		}
	}
	return false;
}

/* --- From completions to callbacks ------------------------------------------------------------ */

static int status_of(enum rmem_wc_status status)
{
	switch (status) {
	case RMEM_WC_OK:
		return 0;
	case RMEM_WC_FLUSHED:
	case RMEM_WC_PEER_LOST:
		return -ENOTCONN;
	default:
		return -EIO;
	}
}

/* The endpoint is not its server's current one: it is draining, or this is nobody's. */
static RMEM_COLD struct rmem_endpoint *find_draining(const struct rmem_dispatch *dispatch,
						     uint64_t id)
{
	struct rmem_endpoint *at = dispatch->draining;

	while (at && (at->target.server != rmem_id_server(id) ||
		      at->generation != rmem_id_generation(id)))
		at = at->next_draining;
	return at;
}

static RMEM_COLD void complete_failed(struct rmem_dispatch *dispatch,
				      struct rmem_endpoint *endpoint, struct rmem_lane *lane,
				      const struct rmem_completion *completion)
{
	bool is_flushed = completion->status == RMEM_WC_FLUSHED;

	if (completion->status != RMEM_WC_OK)
		rmem_stats_count(&dispatch->metrics->stats,
				 is_flushed ? RMEM_STAT_FLUSHED : RMEM_STAT_ERRORS);
	rmem_lane_complete_failed(lane, rmem_id_sequence(completion->id),
				  status_of(completion->status), &dispatch->done);
	if (lane->state == RMEM_LANE_OPEN) {
		endpoint->wc_status = completion->status;
		endpoint->wc_provider_status = completion->provider_status;
		dispatch_fail(dispatch, endpoint, -ENOTCONN);
	} else {
		drain(dispatch, endpoint);
	}
}

static void complete_one(struct rmem_dispatch *dispatch, const struct rmem_completion *completion)
{
	uint64_t id = completion->id;
	struct rmem_endpoint *endpoint = dispatch->endpoints[rmem_id_server(id)];

	if (RMEM_UNLIKELY(!endpoint || endpoint->generation != rmem_id_generation(id)))
		endpoint = find_draining(dispatch, id);
	if (RMEM_UNLIKELY(!endpoint || rmem_id_lane(id) >= endpoint->lane_count))
		return;
	struct rmem_lane *lane = &endpoint->lanes[rmem_id_lane(id)];

	if (RMEM_UNLIKELY(completion->status != RMEM_WC_OK || lane->state != RMEM_LANE_OPEN)) {
		if (completion->status >= RMEM_WC_NOTICE) {
			dispatch_complete_notice(dispatch, endpoint, completion);
			return;
		}
		complete_failed(dispatch, endpoint, lane, completion);
		return;
	}
	rmem_lane_retire(lane, rmem_id_sequence(id), &dispatch->done);
	lane->is_stalled = false;
	if (lane->open > 0)
		dispatch_list_lane(dispatch, lane);
	if (endpoint->pending.first)
		dispatch_make_ready(dispatch, endpoint);
}

void rmem_dispatch_complete(struct rmem_dispatch *dispatch,
			    const struct rmem_completion *completions, unsigned count)
{
	dispatch->inbox_head = dispatch->inbox_tail = 0;
	for (unsigned i = 0; i < count; i++)
		complete_one(dispatch, &completions[i]);
	rmem_stats_add(&dispatch->metrics->stats, RMEM_STAT_COMPLETIONS, count);
}

unsigned rmem_dispatch_run_done(struct rmem_dispatch *dispatch)
{
	struct rmem_batch_list ended = dispatch->done;
	struct rmem_batch *batch;
	unsigned count = 0;

	dispatch->done.first = NULL;
	while ((batch = rmem_batch_take(&ended))) {
		int status = batch->engine.status;

		if (RMEM_UNLIKELY(status != 0))
			rmem_stats_count(&dispatch->metrics->stats, RMEM_STAT_BATCHES_FAILED);
		if (RMEM_UNLIKELY(batch->engine.submitted_ns != 0))
			rmem_histogram_record(&dispatch->metrics->latency_ns[batch->op],
					      rmem_now_ns() - batch->engine.submitted_ns);
		count++;
		dispatch->under_way--;
		batch->engine.next = batch; /* has ended, for rmem_batch_status() */
		if (RMEM_LIKELY(batch->done != NULL))
			batch->done(batch, status);
	}
	return count;
}

/* --- Cancelling ------------------------------------------------------------------------------- */

/* Takes the batch out of the list that it waits in, if it waits. */
static bool unlink_batch(struct rmem_dispatch *dispatch, struct rmem_batch *batch)
{
	if (rmem_batch_unlink(&dispatch->submitted, batch))
		return true;
	for (unsigned i = 0; i < RMEM_SERVERS_MAX; i++) {
		struct rmem_endpoint *endpoint = dispatch->endpoints[i];

		if (endpoint && (rmem_batch_unlink(&endpoint->pending, batch) ||
				 rmem_batch_unlink(&endpoint->unsent, batch)))
			return true;
	}
	return false;
}

int rmem_dispatch_cancel(struct rmem_dispatch *dispatch, struct rmem_batch *batch)
{
	if (batch->engine.pending == 0)
		return -EALREADY;
	if (!unlink_batch(dispatch, batch))
		return -EBUSY;
	rmem_batch_fail(batch, 0, -ECANCELED);
	rmem_batch_release(&dispatch->done, batch, 1);
	return 0;
}

/* --- The end ---------------------------------------------------------------------------------- */

/* Makes the records of a lane nobody's: their batches may be gone. */
static void disown(struct rmem_dispatch *dispatch, struct rmem_endpoint *endpoint)
{
	endpoint->pending.first = NULL;
	endpoint->unsent.first = NULL;
	for (uint32_t i = 0; i < endpoint->lane_count; i++)
		rmem_ledger_disown(&endpoint->lanes[i].ledger, &dispatch->nobody);
}

void rmem_dispatch_abandon(struct rmem_dispatch *dispatch)
{
	dispatch->nobody.engine.pending = UINT32_MAX; /* never ends */
	dispatch->notice = NULL;
	dispatch->submitted.first = NULL;
	dispatch->done.first = NULL;
	for (struct rmem_endpoint *at = dispatch->draining; at; at = at->next_draining)
		disown(dispatch, at);
	for (unsigned i = 0; i < RMEM_SERVERS_MAX; i++) {
		struct rmem_endpoint *endpoint = dispatch->endpoints[i];

		if (!endpoint)
			continue;
		disown(dispatch, endpoint);
		rmem_dispatch_detach(dispatch, endpoint);
	}
}
