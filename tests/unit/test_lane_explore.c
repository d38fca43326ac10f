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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/lane_world.h"
#include "tests/support/runner.h"

#define STATES_MAX (1u << 22)

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

	world_check();
	is_new();
	push();
	while (stack_count > 0) {
		struct world from = stack[--stack_count];
		unsigned count;

		now = from;
		count = world_moves(moves);
		REQUIRE(count > 0);
		for (unsigned i = 0; i < count; i++) {
			now = from;
			world_make(&moves[i]);
			made++;
			world_check();
			if (is_new())
				push();
		}
	}
	return made;
}

START_TEST(every_state_of_a_lane_keeps_its_promises)
{
	static const uint32_t shapes[][2] = {{1, 1}, {2, 1}, {2, 2}, {4, 1},
					     {4, 2}, {4, 3}, {4, 4}};
	unsigned long moves;
	uint32_t depth = shapes[_i / 2][0], post_batch = shapes[_i / 2][1];

	seen = calloc(STATES_MAX, sizeof(*seen));
	ck_assert_ptr_nonnull(seen);
	seen_count = 0;
	world_start(depth, post_batch, _i % 2 ? UINT32_MAX - 1 : 0); /* or goes round soon */
	moves = explore();
	printf("# depth %u, post_batch %u: %u states, %lu moves\n", depth, post_batch, seen_count,
	       moves);
	ck_assert(world_was_full);
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
