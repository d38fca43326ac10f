/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/lane.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/timer.h"

static void link_requests(struct rmem_lane *lane, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		lane->wrs[i].next = &lane->wrs[i + 1];
}

int rmem_lane_init(struct rmem_lane *lane, const struct rmem_fabric *fabric,
		   struct rmem_lane_link *link, const struct rmem_lane_config *config)
{
	*lane = (struct rmem_lane){
		.fabric = fabric,
		.link = link,
		.post = fabric->lane_post,
		.id_base = config->id_base,
		.post_batch = config->post_batch,
		.stuck_ms = config->detect_ms,
		.signaled = UINT32_MAX, /* before the first */
	};
	lane->wrs = aligned_alloc(
		RMEM_CACHE_LINE,
		rmem_round_up(sizeof(*lane->wrs) * config->post_batch, RMEM_CACHE_LINE));
	if (!lane->wrs)
		return -ENOMEM;
	link_requests(lane, config->post_batch);
	return rmem_ledger_init(&lane->ledger, config->depth);
}

void rmem_lane_finish(struct rmem_lane *lane)
{
	if (lane->link)
		lane->fabric->lane_close(lane->link);
	rmem_ledger_finish(&lane->ledger);
	free(lane->wrs);
	*lane = (struct rmem_lane){0};
}

int rmem_lane_fill(struct rmem_lane *lane, struct rmem_plan_target *target,
		   struct rmem_batch *batch, struct rmem_plan_budget *budget)
{
	budget->id = lane->id_base | lane->ledger.tail;
	int rc = rmem_plan_fill(target, batch, &lane->wrs[lane->open], budget);

	if (RMEM_LIKELY(budget->wr_count > 0)) {
		rmem_ledger_add(&lane->ledger, batch, budget->wr_count);
		batch->engine.pending += budget->wr_count;
		lane->open += budget->wr_count;
	}
	return rc;
}

void rmem_lane_add_notice(struct rmem_lane *lane, struct rmem_batch *batch)
{
	const struct rmem_notice *notice = batch->notice;
	struct rmem_wr *wr = &lane->wrs[lane->open];

	wr->id = lane->id_base | lane->ledger.tail;
	wr->remote_address = 0;
	wr->remote_key = 0;
	wr->op = RMEM_WR_NOTICE;
	/* Not before what is to be read has come: the peer may write over it then. */
	wr->flags = batch->op == RMEM_READ ? RMEM_WR_FENCE : 0;
	wr->sge_count = notice->length > 0;
	wr->sge[0].address = (void *)(uintptr_t)notice->bytes;
	wr->sge[0].length = notice->length;
	wr->sge[0].key = 0;
	wr->transfer = notice->transfer;
	rmem_ledger_add(&lane->ledger, batch, 1);
	batch->engine.pending++;
	lane->open++;
}

void rmem_lane_join_notice(struct rmem_lane *lane, const struct rmem_batch *batch)
{
	struct rmem_wr *wr = &lane->wrs[lane->open - 1];

	wr->op = RMEM_WR_WRITE_NOTICE;
	wr->transfer = batch->notice->transfer;
}

/* --- Posting ---------------------------------------------------------------------------------- */

/* Gives the requests of the open chain the ids of the records they are in now. */
static void renumber(struct rmem_lane *lane)
{
	uint32_t at = 0;

	for (uint32_t sequence = lane->ledger.posted; sequence != lane->ledger.tail; sequence++) {
		uint32_t end = at + rmem_ledger_at(&lane->ledger, sequence)->count;

		while (at < end)
			lane->wrs[at++].id = lane->id_base | sequence;
	}
	assert(at == lane->open);
}

/* The fabric says "full" although no signaled request is outstanding whose completion would make
 * room: it may make room by itself, but not for ever. */
static int retry_or_give_up(struct rmem_lane *lane)
{
	uint64_t now_ns = rmem_now_ns();

	if (lane->stuck_since_ns == 0)
		lane->stuck_since_ns = now_ns;
	if (now_ns - lane->stuck_since_ns > (uint64_t)lane->stuck_ms * RMEM_NS_PER_MS)
		return -ETIMEDOUT;
	return RMEM_LANE_RETRY;
}

static RMEM_COLD int post_part(struct rmem_lane *lane, const struct rmem_wr *bad, int rc)
{
	uint32_t accepted = (uint32_t)(bad - lane->wrs);

	assert(accepted < lane->open);
	lane->wrs[lane->open - 1].flags &= (uint8_t)~RMEM_WR_SIGNALED;
	rmem_ledger_post(&lane->ledger, accepted);
	lane->open -= accepted;
	memmove(lane->wrs, &lane->wrs[accepted], lane->open * sizeof(*lane->wrs));
	link_requests(lane, lane->open);
	renumber(lane);
	if (accepted > 0)
		lane->stuck_since_ns = 0;
	if (rc != -EAGAIN)
		return rc;
	if (!rmem_ledger_is_posted(&lane->ledger, lane->signaled))
		return retry_or_give_up(lane);
	lane->is_stalled = true;
	return RMEM_LANE_STALLED;
}

int rmem_lane_post(struct rmem_lane *lane, struct rmem_stats *stats)
{
	uint32_t count = lane->open;
	struct rmem_wr *tail = &lane->wrs[count - 1];
	struct rmem_wr *bad = NULL;

	tail->flags |= RMEM_WR_SIGNALED;
	tail->next = NULL;
	int rc = lane->post(lane->link, lane->wrs, &bad);

	tail->next = tail + 1;
	if (RMEM_UNLIKELY(rc != 0)) {
		rmem_stats_count(stats, RMEM_STAT_PARTIAL_POSTS);
		return post_part(lane, bad, rc);
	}
	rmem_ledger_post(&lane->ledger, count);
	lane->open = 0;
	lane->signaled = lane->ledger.posted - 1;
	lane->stuck_since_ns = 0;
	rmem_stats_count(stats, RMEM_STAT_CHAINS);
	rmem_stats_add(stats, RMEM_STAT_WRS, count);
	return RMEM_LANE_POSTED;
}

/* --- Failing ---------------------------------------------------------------------------------- */

static void end_all(struct rmem_lane *lane, struct rmem_batch_list *done)
{
	struct rmem_ledger_record record;
	unsigned server = rmem_id_server(lane->id_base);

	while (rmem_ledger_retire(&lane->ledger, lane->ledger.posted - 1, &record)) {
		rmem_batch_fail(record.owner, server, -ENOTCONN);
		rmem_batch_release(done, record.owner, record.count);
	}
	lane->state = RMEM_LANE_DRAINED;
}

void rmem_lane_drain(struct rmem_lane *lane, struct rmem_batch_list *done)
{
	struct rmem_wr *last = &lane->wrs[0];
	struct rmem_wr *bad = NULL;

	if (lane->state != RMEM_LANE_DRAINING || lane->is_drain_posted)
		return;
	*last = (struct rmem_wr){
		.id = lane->id_base | lane->ledger.tail,
		.op = RMEM_WR_WRITE,
		.flags = RMEM_WR_SIGNALED,
	};
	int rc = lane->post(lane->link, last, &bad);

	if (rc == 0)
		lane->is_drain_posted = true;
	else if (rc != -EAGAIN) /* it takes nothing any more, not even to flush it */
		end_all(lane, done);
}

void rmem_lane_fail(struct rmem_lane *lane, int status, struct rmem_batch_list *done)
{
	struct rmem_ledger_record record;

	if (lane->state != RMEM_LANE_OPEN)
		return;
	lane->state = RMEM_LANE_DRAINING;
	lane->open = 0;
	lane->fabric->lane_abort(lane->link);
	while (rmem_ledger_cancel(&lane->ledger, &record)) {
		rmem_batch_fail(record.owner, rmem_id_server(lane->id_base), status);
		rmem_batch_release(done, record.owner, record.count);
	}
	if (lane->ledger.head == lane->ledger.tail)
		lane->state = RMEM_LANE_DRAINED;
	else
		rmem_lane_drain(lane, done);
}

void rmem_lane_complete_failed(struct rmem_lane *lane, uint32_t sequence, int status,
			       struct rmem_batch_list *done)
{
	if (lane->state == RMEM_LANE_DRAINING && lane->is_drain_posted &&
	    sequence == lane->ledger.tail) {
		end_all(lane, done);
		return;
	}
	if (!rmem_ledger_is_posted(&lane->ledger, sequence))
		return;
	if (status == 0) {
		rmem_lane_retire(lane, sequence, done);
		return;
	}
	rmem_lane_retire(lane, sequence - 1, done);
	rmem_batch_fail(rmem_ledger_at(&lane->ledger, sequence)->owner,
			rmem_id_server(lane->id_base), status);
}
