/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/lane_world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REGION_SIZE 65536

struct world now;
static uint32_t depth, post_batch, first_sequence;
static struct rmem_plan_target target;
static struct rmem_remote region = {.length = REGION_SIZE, .key = 1};
static struct rmem_segment segments[2 * DEPTH_MAX];
static unsigned char local[REGION_SIZE];
static uint32_t accepted; /* of the next post */
static int refusal;
bool world_was_full;

/* --- The fabric ------------------------------------------------------------------------------- */

static void enqueue(const struct rmem_wr *wr, uint8_t owner)
{
	REQUIRE(now.queue_count < depth + 1);
	REQUIRE(owner == NOBODY || now.queue_count < depth);
	now.queue[now.queue_count++] = (struct request){
		.sequence = rmem_id_sequence(wr->id),
		.owner = owner,
		.is_signaled = wr->flags & RMEM_WR_SIGNALED,
	};
}

static int fabric_post(struct rmem_lane_link *link, struct rmem_wr *chain, struct rmem_wr **bad)
{
	uint32_t count = 0;

	(void)link;
	if (chain->sge_count == 0) {
		REQUIRE(now.is_error);
		enqueue(chain, NOBODY);
		return 0;
	}
	for (struct rmem_wr *wr = chain; wr; wr = wr->next) {
		REQUIRE(rmem_id_generation(wr->id) == now.generation);
		if (count == accepted) {
			*bad = wr;
			break;
		}
		enqueue(wr, now.open[count++]);
	}
	now.open_count -= count;
	memmove(now.open, &now.open[count], now.open_count);
	return count == accepted && *bad ? refusal : 0;
}

static void fabric_abort(struct rmem_lane_link *link)
{
	(void)link;
	now.is_error = true;
}

static const struct rmem_fabric fabric = {.lane_post = fabric_post, .lane_abort = fabric_abort};

static struct request *next_request(void)
{
	for (unsigned i = 0; i < now.queue_count; i++) {
		if (now.queue[i].state == WAITING)
			return &now.queue[i];
	}
	return NULL;
}

/* The request and all before it leave the queue. */
static void announce(const struct request *request, bool is_ok)
{
	unsigned count = (unsigned)(request - now.queue) + 1;

	REQUIRE(now.completion_count <= depth);
	now.completions[now.completion_count++] =
		(struct completion){.sequence = request->sequence, .is_ok = is_ok};
	now.queue_count -= count;
	memmove(now.queue, &now.queue[count], now.queue_count * sizeof(now.queue[0]));
}

static void execute(void)
{
	struct request *request = next_request();

	request->state = EXECUTED;
	now.owners[request->owner].executed++;
	if (request->is_signaled)
		announce(request, true);
}

static void fail_one(void)
{
	now.is_error = true;
	announce(next_request(), false);
}

/* --- What a dispatcher does with a lane ------------------------------------------------------- */

static bool has_requests(uint8_t owner)
{
	for (unsigned i = 0; i < now.queue_count; i++) {
		if (now.queue[i].owner == owner)
			return true;
	}
	return memchr(now.open, owner, now.lane.open) != NULL;
}

/* Batches that ended. */
static void collect(void)
{
	struct rmem_batch *batch;

	while ((batch = rmem_batch_take(&now.done))) {
		uint8_t owner = (uint8_t)(batch - now.batches);

		REQUIRE(now.owners[owner].is_live); /* once */
		REQUIRE(batch->engine.pending == 0);
		REQUIRE(owner != now.planning);
		REQUIRE(!has_requests(owner));
		REQUIRE(batch->engine.status != 0 ||
			now.owners[owner].executed == batch->segment_count);
		now.owners[owner].is_live = false;
		memset(batch, 0, sizeof(*batch));
	}
}

static void give_up(int status)
{
	if (now.lane.state != RMEM_LANE_OPEN)
		return;
	rmem_lane_fail(&now.lane, status, &now.done);
	now.open_count = 0;
	if (now.planning != NOBODY) {
		struct rmem_batch *batch = &now.batches[now.planning];

		now.planning = NOBODY;
		rmem_batch_fail(batch, 0, -ENOTCONN);
		rmem_batch_release(&now.done, batch, 1);
	}
}

static uint8_t begin_batch(uint32_t count)
{
	uint8_t owner = 0;

	while (now.owners[owner].is_live)
		owner++;
	REQUIRE(owner < BATCHES);
	now.owners[owner] = (struct owner){.is_live = true};
	now.batches[owner] = (struct rmem_batch){
		.op = RMEM_WRITE,
		.segments = segments,
		.segment_count = count,
		.engine.pending = 1,
	};
	return owner;
}

/* Plans `count` requests of a batch that has `more` behind them. */
static void add(uint32_t count, uint32_t more)
{
	uint8_t owner = now.planning != NOBODY ? now.planning : begin_batch(count + more);
	struct rmem_batch *batch = &now.batches[owner];
	struct rmem_plan_budget budget = {.wr_max = count, .bytes_max = UINT64_MAX};

	REQUIRE(rmem_lane_fill(&now.lane, &target, batch, &budget) >= 0);
	memset(&now.open[now.open_count], owner, budget.wr_count);
	now.open_count += budget.wr_count;
	now.owners[owner].added = (uint8_t)(now.owners[owner].added + budget.wr_count);
	now.planning = owner;
	if (batch->engine.segment < batch->segment_count)
		return;
	now.planning = NOBODY;
	rmem_batch_release(&now.done, batch, 1);
}

static void post(uint32_t count, int rc)
{
	static struct rmem_stats stats;
	int posted;

	accepted = count;
	refusal = rc;
	posted = rmem_lane_post(&now.lane, &stats);
	if (posted == RMEM_LANE_POSTED || posted == RMEM_LANE_STALLED || posted == RMEM_LANE_RETRY)
		REQUIRE(rc == -EAGAIN || posted == RMEM_LANE_POSTED);
	else
		give_up(-EIO);
}

static void complete(void)
{
	struct completion completion = now.completions[0];
	struct rmem_lane *lane = &now.lane;

	now.completion_count--;
	memmove(now.completions, &now.completions[1],
		now.completion_count * sizeof(now.completions[0]));
	if (completion.is_ok && lane->state == RMEM_LANE_OPEN) {
		rmem_lane_retire(lane, completion.sequence, &now.done);
		lane->is_stalled = false;
		return;
	}
	rmem_lane_complete_failed(lane, completion.sequence, completion.is_ok ? 0 : -EIO,
				  &now.done);
	give_up(-ENOTCONN);
	rmem_lane_drain(lane, &now.done);
}

/* A lane as rmem_lane_init() makes it, in memory of the world's own. */
static void open_lane(void)
{
	struct rmem_lane_config config = {
		.id_base = rmem_id_base(0, 0, now.generation),
		.depth = depth,
		.post_batch = post_batch,
		.detect_ms = 1u << 30,
	};
	void *wrs, *records;

	REQUIRE(rmem_lane_init(&now.lane, &fabric, NULL, &config) == 0);
	wrs = now.lane.wrs;
	records = now.lane.ledger.records;
	now.lane.wrs = now.wrs;
	now.lane.ledger.records = now.records;
	for (uint32_t i = 0; i < post_batch; i++)
		now.wrs[i].next = &now.wrs[i + 1];
	free(wrs);
	free(records);
	now.lane.ledger.head = now.lane.ledger.posted = now.lane.ledger.tail = first_sequence;
	now.lane.signaled = first_sequence - 1;
}

static void reopen(void)
{
	REQUIRE(now.queue_count == 0);
	now.completion_count = 0; /* of the old lane: the generation tells */
	now.is_error = false;
	now.generation++;
	open_lane();
}

/* --- Moves ------------------------------------------------------------------------------------ */

unsigned world_moves(struct move moves[MOVES_MAX])
{
	bool is_open = now.lane.state == RMEM_LANE_OPEN;
	uint32_t room = is_open ? rmem_lane_room(&now.lane) : 0;
	uint32_t open = is_open && !now.lane.is_stalled ? now.lane.open : 0;
	unsigned count = 0;

	if (now.planning != NOBODY && room > 0)
		moves[count++] = (struct move){ADD, 1};
	for (uint32_t n = 1; n <= room && now.planning == NOBODY; n++) {
		moves[count++] = (struct move){ADD, n};
		moves[count++] = (struct move){ADD_PART, n};
	}
	for (uint32_t n = 0; n <= open && open > 0; n++) {
		moves[count++] = (struct move){POST, n};
		if (n < open)
			moves[count++] = (struct move){REFUSE, n};
	}
	if (next_request() && now.is_error)
		moves[count++] = (struct move){FLUSH, 0};
	/* What ran without a signal may end silently or be flushed. */
	if (now.is_error && now.queue_count > 0 && now.queue[0].state == EXECUTED)
		moves[count++] = (struct move){FLUSH_RUN, 0};
	if (next_request() && !now.is_error) {
		moves[count++] = (struct move){EXECUTE, 0};
		moves[count++] = (struct move){FAIL_ONE, 0};
	}
	if (now.completion_count > 0)
		moves[count++] = (struct move){COMPLETE, 0};
	if (is_open)
		moves[count++] = (struct move){GIVE_UP, 0};
	if (now.lane.state == RMEM_LANE_DRAINED)
		moves[count++] = (struct move){REOPEN, 0};
	return count;
}

void world_make(const struct move *move)
{
	switch (move->kind) {
	case ADD:
		add(move->count, 0);
		break;
	case ADD_PART:
		add(move->count, 1);
		break;
	case POST:
		post(move->count, -EAGAIN);
		break;
	case REFUSE:
		post(move->count, -EINVAL);
		break;
	case EXECUTE:
		execute();
		break;
	case FAIL_ONE:
	case FLUSH:
		fail_one();
		break;
	case FLUSH_RUN:
		announce(&now.queue[0], false);
		break;
	case COMPLETE:
		complete();
		break;
	case GIVE_UP:
		give_up(-ENOTCONN);
		break;
	case REOPEN:
		reopen();
		break;
	}
	collect();
}

/* --- What holds in every state ---------------------------------------------------------------- */

/* Requests that were added and have not ended, by the records. */
static uint32_t recorded(void)
{
	const struct rmem_ledger *ledger = &now.lane.ledger;
	uint32_t sum = 0;

	REQUIRE(ledger->tail - ledger->head <= depth);
	REQUIRE(ledger->posted - ledger->head <= ledger->tail - ledger->head);
	for (uint32_t at = ledger->head; at != ledger->tail; at++)
		sum += rmem_ledger_at(ledger, at)->count;
	return sum;
}

/* Whether a completion will come of what the fabric has. */
static bool will_complete(void)
{
	for (unsigned i = 0; i < now.queue_count; i++) {
		if (now.queue[i].is_signaled)
			return true;
	}
	return now.is_error && next_request();
}

void world_check(void)
{
	const struct rmem_ledger *ledger = &now.lane.ledger;
	uint32_t sum = recorded();
	bool is_idle = now.lane.open == 0 && now.queue_count == 0 && now.completion_count == 0;

	REQUIRE(rmem_ledger_room(ledger) == depth - sum);
	REQUIRE(now.open_count == now.lane.open);
	world_was_full |= sum == depth && now.lane.state == RMEM_LANE_OPEN;
	for (unsigned i = 0; i < BATCHES; i++)
		REQUIRE(!now.owners[i].is_live || now.batches[i].engine.pending > 0);
	if (is_idle || now.lane.state == RMEM_LANE_DRAINED) {
		REQUIRE(sum == 0);
		for (uint8_t i = 0; i < BATCHES; i++)
			REQUIRE(!now.owners[i].is_live || i == now.planning);
	}
	if (now.lane.state == RMEM_LANE_DRAINED)
		REQUIRE(now.queue_count == 0);
	/* What waits is never stuck. */
	if (now.lane.state == RMEM_LANE_DRAINING)
		REQUIRE(next_request() || now.completion_count > 0);
	if (now.lane.state == RMEM_LANE_OPEN && now.lane.is_stalled)
		REQUIRE(will_complete() || now.completion_count > 0);
}

/* --- The beginning ---------------------------------------------------------------------------- */

void world_start(uint32_t new_depth, uint32_t new_post_batch, uint32_t sequence)
{
	static struct rmem_memory_map *map;

	map = realloc(map, sizeof(*map) + sizeof(map->ranges[0]));
	ck_assert_ptr_nonnull(map);
	map->count = 1;
	map->ranges[0] = (struct rmem_memory_range){
		.start = (uintptr_t)local, .length = sizeof(local), .keys = {1}};
	target = (struct rmem_plan_target){
		.regions = &region,
		.region_count = 1,
		.limits = {.chunk_bytes = 4096,
			   .chunks_max = 1,
			   .piece_max_bytes = 4096,
			   .sge_max = 1},
	};
	rmem_memory_view_set(&target.memory, map);
	for (unsigned i = 0; i < RMEM_COUNT_OF(segments); i++) /* none continues another */
		segments[i] = (struct rmem_segment){
			.local = local + 1024 * i, .remote = 1024 * i, .length = 512};
	memset(&now, 0, sizeof(now));
	now.planning = NOBODY;
	world_was_full = false;
	depth = new_depth;
	post_batch = new_post_batch;
	first_sequence = sequence;
	open_lane();
}
