/* SPDX-License-Identifier: Apache-2.0 */
/* A lane and its ledger in every state that they can reach, for small depths.
 *
 * From an empty lane, every move that is possible is made in every state that is met for the first
 * time: adding requests of a batch (all or some of it), posting with the fabric taking all, some or
 * none, or refusing; executing, failing and flushing; taking in a completion; giving the lane up;
 * and opening it anew when it has drained. States that differ only in names of batches and in how
 * often sequence numbers went round are one, so this ends, and covers histories of any length.
 *
 * In each state: a batch ends once, when none of its requests is outstanding, and well only if all
 * of them were executed; room is exactly the depth less what was added and has not ended; the
 * fabric never holds more than the depth and the one request that ends a drain; and where nothing
 * is left to happen, nothing is left that has not ended. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lane.h"
#include "tests/support/runner.h"

#define DEPTH_MAX   4
#define BATCHES	    (DEPTH_MAX + 2)
#define NOBODY	    255 /* whose the request that ends a drain is */
#define MOVES_MAX   64
#define STATES_MAX  (1u << 22)
#define REGION_SIZE 65536

/* Check's own assertions tell the parent process each time: too slow for millions. */
#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			ck_abort_msg("%s", #condition);                                            \
	} while (0)

enum request_state { WAITING, EXECUTED };

struct request {
	uint32_t sequence;
	uint8_t owner;
	uint8_t state;
	bool is_signaled;
};

struct completion {
	uint32_t sequence;
	bool is_ok;
};

/* What the test knows of a batch. */
struct owner {
	bool is_live;
	uint8_t added;	  /* requests */
	uint8_t executed; /* of them */
};

/* All that a move may change; pointers in it stay what they are. */
struct world {
	struct rmem_lane lane;
	struct rmem_ledger_record records[DEPTH_MAX];
	struct rmem_wr wrs[DEPTH_MAX];
	struct rmem_batch batches[BATCHES];
	struct rmem_batch_list done;
	struct owner owners[BATCHES];
	uint8_t planning; /* the batch that waits for room; NOBODY: none */
	uint8_t open[DEPTH_MAX];
	unsigned open_count;
	struct request queue[DEPTH_MAX + 1]; /* the fabric's */
	unsigned queue_count;
	struct completion completions[DEPTH_MAX + 1];
	unsigned completion_count;
	bool is_error;
	uint32_t generation;
};

enum kind {
	ADD,
	ADD_PART,
	POST,
	REFUSE,
	EXECUTE,
	FAIL_ONE,
	FLUSH,
	FLUSH_RUN,
	COMPLETE,
	GIVE_UP,
	REOPEN
};

struct move {
	enum kind kind;
	uint32_t count;
};

static struct world now;
static uint32_t depth, post_batch, first_sequence;
static struct rmem_plan_target target;
static struct rmem_remote region = {.length = REGION_SIZE, .key = 1};
static struct rmem_segment segments[2 * DEPTH_MAX];
static unsigned char local[REGION_SIZE];
static uint32_t accepted; /* of the next post */
static int refusal;
static bool was_full;

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

static unsigned list_moves(struct move moves[MOVES_MAX])
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

static void make(const struct move *move)
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

static void check(void)
{
	const struct rmem_ledger *ledger = &now.lane.ledger;
	uint32_t sum = recorded();
	bool is_idle = now.lane.open == 0 && now.queue_count == 0 && now.completion_count == 0;

	REQUIRE(rmem_ledger_room(ledger) == depth - sum);
	REQUIRE(now.open_count == now.lane.open);
	was_full |= sum == depth && now.lane.state == RMEM_LANE_OPEN;
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

/* --- States ----------------------------------------------------------------------------------- */

struct key {
	uint8_t bytes[256];
	unsigned length;
	uint8_t names[BATCHES];
	uint8_t name_count;
};

static void put(struct key *key, uint32_t value)
{
	REQUIRE(key->length < sizeof(key->bytes));
	key->bytes[key->length++] = (uint8_t)value;
}

/* Batches are called by the order in which they are met. */
static void put_owner(struct key *key, uint8_t owner)
{
	uint8_t name = 0;

	if (owner == NOBODY) {
		put(key, NOBODY);
		return;
	}
	while (name < key->name_count && key->names[name] != owner)
		name++;
	put(key, name);
	if (name < key->name_count)
		return;
	key->names[key->name_count++] = owner;
	put(key, now.batches[owner].engine.pending);
	put(key, now.batches[owner].engine.status != 0);
	put(key, now.batches[owner].segment_count - now.batches[owner].engine.segment);
	put(key, (uint32_t)now.owners[owner].added - now.owners[owner].executed);
}

static void put_sequence(struct key *key, uint32_t sequence)
{
	put(key, sequence - now.lane.ledger.head + 128);
}

static void put_lane(struct key *key)
{
	const struct rmem_lane *lane = &now.lane;
	const struct rmem_ledger *ledger = &lane->ledger;

	put(key, ledger->head & ledger->mask);
	put_sequence(key, ledger->posted);
	put_sequence(key, ledger->tail);
	for (uint32_t at = ledger->head; at != ledger->tail; at++) {
		put(key, rmem_ledger_at(ledger, at)->count);
		put_owner(key, (uint8_t)((struct rmem_batch *)rmem_ledger_at(ledger, at)->owner -
					 now.batches));
	}
	put(key, lane->open);
	for (uint32_t i = 0; i < lane->open; i++)
		put_sequence(key, rmem_id_sequence(lane->wrs[i].id));
	put(key, lane->state);
	put(key, lane->is_stalled);
	put(key, lane->is_drain_posted);
	put(key, lane->stuck_since_ns != 0);
	put(key, rmem_ledger_is_posted(ledger, lane->signaled));
	if (rmem_ledger_is_posted(ledger, lane->signaled))
		put_sequence(key, lane->signaled);
}

static void make_key(struct key *key)
{
	*key = (struct key){0};
	put_lane(key);
	for (unsigned i = 0; i < now.open_count; i++)
		put_owner(key, now.open[i]);
	put(key, now.queue_count);
	for (unsigned i = 0; i < now.queue_count; i++) {
		put_sequence(key, now.queue[i].sequence);
		put_owner(key, now.queue[i].owner);
		put(key, now.queue[i].state);
		put(key, now.queue[i].is_signaled);
	}
	put(key, now.completion_count);
	for (unsigned i = 0; i < now.completion_count; i++) {
		put_sequence(key, now.completions[i].sequence);
		put(key, now.completions[i].is_ok);
	}
	put(key, now.is_error);
	put_owner(key, now.planning);
}

static uint64_t *seen; /* hashes of keys; 0: free */
static uint32_t seen_count;

/* Whether the state is met for the first time. Two of them that share 64 bits of hash: once in a
 * million runs. */
static bool is_new(void)
{
	uint64_t hash = 0xcbf29ce484222325;
	struct key key;
	uint32_t at;

	make_key(&key);
	for (unsigned i = 0; i < key.length; i++)
		hash = (hash ^ key.bytes[i]) * 0x100000001b3;
	hash |= 1;
	for (at = (uint32_t)(hash >> 40) % STATES_MAX; seen[at] != 0; at = (at + 1) % STATES_MAX) {
		if (seen[at] == hash)
			return false;
	}
	seen[at] = hash;
	REQUIRE(++seen_count < STATES_MAX / 2);
	return true;
}

/* States still to be looked at. */
static struct world *stack;
static size_t stack_count, stack_size;

static void push(void)
{
	if (stack_count == stack_size) {
		stack_size = stack_size ? 2 * stack_size : 64;
		stack = realloc(stack, stack_size * sizeof(*stack));
		REQUIRE(stack != NULL);
	}
	stack[stack_count++] = now;
}

static unsigned long explore(void)
{
	struct move moves[MOVES_MAX];
	unsigned long made = 0;

	check();
	is_new();
	push();
	while (stack_count > 0) {
		struct world from = stack[--stack_count];
		unsigned count;

		now = from;
		count = list_moves(moves);
		REQUIRE(count > 0);
		for (unsigned i = 0; i < count; i++) {
			now = from;
			make(&moves[i]);
			made++;
			check();
			if (is_new())
				push();
		}
	}
	return made;
}

/* --- Cases ------------------------------------------------------------------------------------ */

static void set_up(void)
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
	seen_count = 0;
	was_full = false;
}

START_TEST(every_state_of_a_lane_keeps_its_promises)
{
	static const uint32_t shapes[][2] = {{1, 1}, {2, 1}, {2, 2}, {4, 1},
					     {4, 2}, {4, 3}, {4, 4}};
	unsigned long moves;

	depth = shapes[_i / 2][0];
	post_batch = shapes[_i / 2][1];
	first_sequence = _i % 2 ? UINT32_MAX - 1 : 0; /* goes round soon */
	seen = calloc(STATES_MAX, sizeof(*seen));
	ck_assert_ptr_nonnull(seen);
	set_up();
	open_lane();
	moves = explore();
	printf("# depth %u, post_batch %u: %u states, %lu moves\n", depth, post_batch, seen_count,
	       moves);
	ck_assert(was_full);
	ck_assert_uint_ge(seen_count, 20);
	free(seen);
	free(stack);
	stack = NULL;
	stack_size = 0;
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("lane_explore");
	TCase *tcase = tcase_create("lane");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, every_state_of_a_lane_keeps_its_promises, 0, 14);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
