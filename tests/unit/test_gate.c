/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "engine/base/hint.h"
#include "fs/gate.h"
#include "tests/support/runner.h"

struct actor {
	struct io_waiter waiter;
	enum { OUTSIDE, QUEUED, INSIDE } state;
	unsigned ticket; /* order of arrival */
};

static void now_inside(struct io_waiter *waiter)
{
	struct actor *actor = RMEM_CONTAINER_OF(waiter, struct actor, waiter);

	ck_assert_int_eq(actor->state, QUEUED);
	actor->state = INSIDE;
}

static void arrive(struct io_gate *gate, struct actor *actor, bool exclusive)
{
	actor->waiter.exclusive = exclusive;
	actor->waiter.resume = now_inside;
	actor->state = QUEUED;
	if (gate_enter(gate, &actor->waiter))
		actor->state = INSIDE;
}

static void depart(struct io_gate *gate, struct actor *actor)
{
	actor->state = OUTSIDE;
	gate_resume(gate_leave(gate, &actor->waiter));
}

START_TEST(shared_ones_enter_together)
{
	struct io_gate gate;
	struct actor a, b;

	gate_init(&gate);
	arrive(&gate, &a, false);
	arrive(&gate, &b, false);
	ck_assert_int_eq(a.state, INSIDE);
	ck_assert_int_eq(b.state, INSIDE);
}
END_TEST

START_TEST(exclusive_one_waits_for_all_and_keeps_later_ones_out)
{
	struct io_gate gate;
	struct actor a, b, alone, late;

	gate_init(&gate);
	arrive(&gate, &a, false);
	arrive(&gate, &b, false);
	arrive(&gate, &alone, true);
	arrive(&gate, &late, false);
	ck_assert_int_eq(alone.state, QUEUED);
	ck_assert_int_eq(late.state, QUEUED);
	depart(&gate, &a);
	ck_assert_int_eq(alone.state, QUEUED);
	depart(&gate, &b);
	ck_assert_int_eq(alone.state, INSIDE);
	ck_assert_int_eq(late.state, QUEUED);
	depart(&gate, &alone);
	ck_assert_int_eq(late.state, INSIDE);
}
END_TEST

#define ACTORS 12

static void check_rules(const struct actor *actors)
{
	unsigned shared = 0, exclusive = 0, queued_oldest = ~0u, inside_newest = 0;

	for (unsigned i = 0; i < ACTORS; i++) {
		if (actors[i].state == INSIDE) {
			shared += !actors[i].waiter.exclusive;
			exclusive += actors[i].waiter.exclusive;
			if (actors[i].ticket > inside_newest)
				inside_newest = actors[i].ticket;
		} else if (actors[i].state == QUEUED && actors[i].ticket < queued_oldest) {
			queued_oldest = actors[i].ticket;
		}
	}
	ck_assert(exclusive <= 1);
	ck_assert(exclusive == 0 || shared == 0);
	if (queued_oldest != ~0u) {
		ck_assert(shared + exclusive > 0);	    /* nobody waits for nothing */
		ck_assert(inside_newest < queued_oldest); /* and nobody is overtaken */
	}
}

START_TEST(random_traffic_keeps_the_rules)
{
	struct actor actors[ACTORS] = {0};
	struct io_gate gate;
	unsigned ticket = 0;

	srand(7);
	gate_init(&gate);
	for (unsigned step = 0; step < 200000; step++) {
		struct actor *actor = &actors[rand() % ACTORS];

		if (actor->state == OUTSIDE) {
			actor->ticket = ++ticket;
			arrive(&gate, actor, rand() % 4 == 0);
		} else if (actor->state == INSIDE) {
			depart(&gate, actor);
		}
		check_rules(actors);
	}
	for (unsigned left = ACTORS; left > 0;) {
		left = 0;
		for (unsigned i = 0; i < ACTORS; i++) {
			if (actors[i].state == INSIDE)
				depart(&gate, &actors[i]);
			left += actors[i].state != OUTSIDE;
		}
	}
	ck_assert(gate.head == NULL && gate.shared == 0 && !gate.exclusive);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("gate");
	TCase *tcase = tcase_create("gate");

	tcase_add_test(tcase, shared_ones_enter_together);
	tcase_add_test(tcase, exclusive_one_waits_for_all_and_keeps_later_ones_out);
	tcase_add_test(tcase, random_traffic_keeps_the_rules);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
