/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes against a scripted fabric: one case for each thing that can go wrong with a chain. The
 * random walk through all of them together is test_dispatch_random.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/dispatch_script.h"
#include "tests/support/runner.h"

/* --- Partial posts ---------------------------------------------------------------------------- */

START_TEST(a_chain_that_is_cut_anywhere_is_completed_later)
{
	struct drig_batch *first, *a, *b, *c;

	script_start_plain();
	script_paint(0, 40);
	first = script_batch(RMEM_WRITE, 30, 1);
	drig_submit(&rig, first);
	drig_turn(&rig); /* outstanding: its completion makes room */
	a = script_batch(RMEM_WRITE, 0, 3);
	b = script_batch(RMEM_WRITE, 3, 4);
	c = script_batch(RMEM_WRITE, 7, 2);
	drig_submit(&rig, a);
	drig_submit(&rig, b);
	script.accept = (uint32_t)_i;
	script.rc = -EAGAIN;
	script.times = 1;
	drig_turn(&rig);
	ck_assert_uint_eq(fake_lane_waiting(0), 1 + (unsigned)_i);
	drig_submit(&rig, c); /* joins what was left */
	drig_turn(&rig);
	ck_assert_uint_eq(fake_lane_waiting(0), 1 + (unsigned)_i);
	fake_run(0, 1);
	script_run_all();
	ck_assert_uint_eq(script_stat(RMEM_STAT_COMPLETIONS), 2); /* a signal for each tail */
	for (unsigned i = 0; i < 9; i++)
		ck_assert(script_arrived(i));
	script_expect_end(first, 0);
	script_expect_end(a, 0);
	script_expect_end(b, 0);
	script_expect_end(c, 0);
	drig_finish(&rig);
}
END_TEST

START_TEST(full_with_nothing_outstanding_is_tried_again)
{
	struct drig_batch *batch;

	script_start_plain();
	batch = script_batch(RMEM_WRITE, 0, 6);
	drig_submit(&rig, batch);
	script.accept = (uint32_t)_i;
	script.rc = -EAGAIN;
	script.times = 1;
	drig_turn(&rig);
	ck_assert(rmem_dispatch_is_restless(&rig.dispatch));
	script_run_all();
	ck_assert(!rmem_dispatch_is_restless(&rig.dispatch));
	script_expect_end(batch, 0);
	drig_finish(&rig);
}
END_TEST

START_TEST(full_for_ever_is_given_up_after_detect_ms)
{
	const struct timespec ms = {.tv_nsec = 1000000};
	struct drig_batch *batch;

	script_start_plain();
	batch = script_batch(RMEM_WRITE, 0, 6);
	drig_submit(&rig, batch);
	script.accept = 0;
	script.rc = -EAGAIN;
	script.times = UINT32_MAX;
	for (int i = 0; i < 1000 && !batch->ended; i++) {
		drig_turn(&rig);
		nanosleep(&ms, NULL);
	}
	script_expect_end(batch, -EIO);
	ck_assert_int_eq(atomic_load(&drig_endpoint(&rig, 0)->failure), -ETIMEDOUT);
	drig_finish(&rig);
}
END_TEST

START_TEST(a_refused_chain_fails_what_was_in_it_and_nothing_twice)
{
	struct drig_batch *before, *a, *b;

	script_start_plain();
	before = script_batch(RMEM_WRITE, 30, 2);
	drig_submit(&rig, before);
	drig_turn(&rig);
	a = script_batch(RMEM_WRITE, 0, 3);
	b = script_batch(RMEM_WRITE, 3, 3);
	drig_submit(&rig, a);
	drig_submit(&rig, b);
	script.accept = (uint32_t)_i;
	script.rc = -EINVAL;
	script.times = 1;
	drig_turn(&rig);
	script_run_all();
	/* The lane was put in error while `before` waited in it. */
	script_expect_end(before, -ENOTCONN);
	script_expect_end(a, _i < 3 ? -EIO : -ENOTCONN);
	script_expect_end(b, -EIO);
	ck_assert_int_eq(atomic_load(&drig_endpoint(&rig, 0)->failure), -EINVAL);
	ck_assert(drig_collect(&rig, 0));
	drig_finish(&rig);
}
END_TEST

/* --- Failed requests -------------------------------------------------------------------------- */

START_TEST(a_request_that_fails_fails_its_batch_and_loses_the_lane)
{
	struct drig_batch *batches[3];
	const int failed = _i / 4; /* which batch the request is in */

	script_start_plain();
	script_paint(0, 12);
	script.fail_remote = (uint64_t)_i * 1024;
	script.status = RMEM_WC_REMOTE_ACCESS;
	for (unsigned i = 0; i < 3; i++) {
		batches[i] = script_batch(RMEM_WRITE, i * 4, 4);
		drig_submit(&rig, batches[i]);
	}
	script_run_all();
	for (int i = 0; i < 3; i++) {
		ck_assert_uint_eq(batches[i]->batch.failed_server, 0);
		script_expect_end(batches[i], i < failed ? 0 : i == failed ? -EIO : -ENOTCONN);
	}
	for (int i = 0; i < 12; i++)
		ck_assert_int_eq(script_arrived((unsigned)i), i < _i);
	ck_assert_uint_gt(rig.notified, 0);
	ck_assert(drig_collect(&rig, 0));
	drig_finish(&rig);
}
END_TEST

START_TEST(each_kind_of_failure_has_its_status)
{
	static const struct {
		enum rmem_wc_status wc;
		int status;
	} kinds[] = {
		{RMEM_WC_FLUSHED, -ENOTCONN}, {RMEM_WC_REMOTE_ACCESS, -EIO},
		{RMEM_WC_LOCAL_ERROR, -EIO},  {RMEM_WC_PEER_LOST, -ENOTCONN},
		{RMEM_WC_OTHER, -EIO},
	};
	struct drig_batch *batch;

	script_start_plain();
	script.fail_remote = 0;
	script.status = kinds[_i].wc;
	batch = script_batch(RMEM_WRITE, 0, 1);
	drig_submit(&rig, batch);
	script_run_all();
	script_expect_end(batch, kinds[_i].status);
	drig_finish(&rig);
}
END_TEST

START_TEST(silent_requests_of_a_failed_lane_end_too)
{
	struct drig_batch *silent, *rest;

	/* The first batch is taken and executed without a signal; then the lane breaks, and no
	 * completion will ever speak of it. */
	script_start_plain();
	silent = script_batch(RMEM_WRITE, 0, 4);
	rest = script_batch(RMEM_WRITE, 4, 2);
	drig_submit(&rig, silent);
	drig_submit(&rig, rest);
	script.accept = 4;
	script.rc = -EAGAIN;
	script.times = 1;
	drig_turn(&rig);
	fake_run(0, 4);
	rmem_dispatch_detach(&rig.dispatch, drig_endpoint(&rig, 0));
	script_run_all();
	script_expect_end(silent, -ENOTCONN);
	script_expect_end(rest, -ENOTCONN);
	drig_finish(&rig);
}
END_TEST

START_TEST(what_is_listed_for_the_next_turn_can_be_lost_before_it)
{
	struct drig_batch *batch, *waiting;

	script_start(&(struct drig_shape){.servers = 1, .lanes = 1, .depth = 4, .post_batch = 4});
	batch = script_batch(RMEM_WRITE, 0, 4);
	waiting = script_batch(RMEM_WRITE, 4, 4);
	drig_submit(&rig, batch);
	if (_i) { /* the lane, to be tried again */
		script.accept = 0;
		script.rc = -EAGAIN;
		script.times = 1;
	} else { /* the endpoint, because it got room */
		drig_submit(&rig, waiting);
	}
	rmem_dispatch_flush(&rig.dispatch);
	fake_run(0, UINT32_MAX);
	drig_poll(&rig);
	rmem_dispatch_detach(&rig.dispatch, drig_endpoint(&rig, 0));
	ck_assert(drig_collect(&rig, 0));
	script_run_all();
	script_expect_end(batch, _i ? -ENOTCONN : 0);
	if (_i == 0)
		script_expect_end(waiting, -ENOTCONN);
	else
		free(waiting);
	drig_finish(&rig);
}
END_TEST

START_TEST(a_batch_over_two_servers_ends_when_both_have_let_go)
{
	struct drig_batch *batch;

	script_start(&(struct drig_shape){.servers = 2, .lanes = 1, .depth = 8, .post_batch = 4});
	batch = script_batch(RMEM_WRITE, 0, 40);
	for (unsigned i = 0; i < 40; i++)
		batch->segments[i].server = (uint16_t)(i & 1);
	drig_submit(&rig, batch);
	drig_turn(&rig);
	fake_server_stop(rig.urls[1]);
	fake_run(1, UINT32_MAX);
	drig_turn(&rig);
	fake_run(1, UINT32_MAX);
	drig_turn(&rig);
	ck_assert_uint_eq(batch->ended, 0); /* server 0 still has requests of it */
	script_run_all();
	ck_assert_uint_eq(batch->batch.failed_server, 1);
	script_expect_end(batch, -ENOTCONN);
	drig_finish(&rig);
}
END_TEST

START_TEST(death_fails_what_waits_for_room_at_once)
{
	struct drig_batch *batches[5];

	script_start(&(struct drig_shape){.servers = 1, .lanes = 2, .depth = 4, .post_batch = 4});
	for (unsigned i = 0; i < 5; i++) {
		batches[i] = script_batch(RMEM_WRITE, i * 20, 20);
		drig_submit(&rig, batches[i]);
	}
	drig_turn(&rig);
	rmem_dispatch_detach(&rig.dispatch, drig_endpoint(&rig, 0));
	drig_turn(&rig);
	for (unsigned i = 1; i < 5; i++)
		script_expect_end(batches[i], -ENOTCONN);
	ck_assert_uint_eq(batches[0]->ended, 0); /* has requests that were not flushed yet */
	ck_assert(!drig_collect(&rig, 0));
	script_run_all();
	script_expect_end(batches[0], -ENOTCONN);
	ck_assert(drig_collect(&rig, 0));
	drig_finish(&rig);
}
END_TEST

START_TEST(a_new_connection_works_while_the_old_one_drains)
{
	struct rmem_connection *old;
	struct drig_batch *lost, *fresh, *later;

	script_start_plain();
	script_paint(0, 20);
	lost = script_batch(RMEM_WRITE, 0, 10);
	drig_submit(&rig, lost);
	drig_turn(&rig);
	fake_server_stop(rig.urls[0]);
	rmem_dispatch_detach(&rig.dispatch, drig_endpoint(&rig, 0));
	fake_server_start(rig.urls[0], 2, DRIG_REGION_BYTES);
	old = rig.connections[0];
	rig.connections[0] = NULL;
	drig_connect(&rig, 0);
	fresh = script_batch(RMEM_WRITE, 10, 10);
	drig_submit(&rig, fresh);
	drig_turn(&rig);
	fake_run(1, UINT32_MAX);
	drig_turn(&rig);
	script_expect_end(fresh, 0);
	ck_assert_uint_eq(lost->ended, 0);
	script_run_all();
	script_expect_end(lost, -ENOTCONN);
	later = script_batch(RMEM_WRITE, 20, 10);
	drig_submit(&rig, later); /* what the old one flushed was not taken for the new one's */
	script_run_all();
	script_expect_end(later, 0);
	for (unsigned i = 0; i < 20; i++)
		ck_assert_int_eq(script_arrived(i), i >= 10);
	ck_assert(!atomic_load(&old->endpoints[0]->is_attached));
	rmem_connection_destroy(old);
	drig_finish(&rig);
}
END_TEST

START_TEST(a_drain_that_finds_the_lane_full_is_tried_again)
{
	struct fake_hooks also_drains = script_hooks;
	struct drig_batch *batch;

	script_start_plain();
	also_drains.covers_drains = true;
	fake_set_hooks(&also_drains);
	batch = script_batch(RMEM_WRITE, 0, 3);
	drig_submit(&rig, batch);
	drig_turn(&rig);
	script.accept = 0;
	script.rc = -EAGAIN;
	script.times = 5;
	rmem_dispatch_detach(&rig.dispatch, drig_endpoint(&rig, 0));
	ck_assert(rmem_dispatch_is_restless(&rig.dispatch));
	script_run_all();
	script_expect_end(batch, -ENOTCONN);
	ck_assert(drig_collect(&rig, 0));
	drig_finish(&rig);
}
END_TEST

START_TEST(a_lane_that_takes_nothing_any_more_is_let_go)
{
	struct fake_hooks also_drains = script_hooks;
	struct drig_batch *batch;

	script_start_plain();
	also_drains.covers_drains = true;
	fake_set_hooks(&also_drains);
	batch = script_batch(RMEM_WRITE, 0, 3);
	drig_submit(&rig, batch);
	drig_turn(&rig);
	fake_lane_break(0);
	fake_run(0, UINT32_MAX); /* flushed, so that nothing is outstanding */
	script.accept = 0;
	script.rc = -EIO;
	script.times = 1;
	drig_turn(&rig);
	drig_turn(&rig);
	script_expect_end(batch, -ENOTCONN);
	ck_assert(drig_collect(&rig, 0));
	drig_finish(&rig);
}
END_TEST

static void add_cases(TCase *tcase)
{
	tcase_add_loop_test(tcase, a_chain_that_is_cut_anywhere_is_completed_later, 0, 7);
	tcase_add_loop_test(tcase, full_with_nothing_outstanding_is_tried_again, 0, 6);
	tcase_add_test(tcase, full_for_ever_is_given_up_after_detect_ms);
	tcase_add_loop_test(tcase, a_refused_chain_fails_what_was_in_it_and_nothing_twice, 0, 6);
	tcase_add_loop_test(tcase, a_request_that_fails_fails_its_batch_and_loses_the_lane, 0, 12);
	tcase_add_loop_test(tcase, each_kind_of_failure_has_its_status, 0, 5);
	tcase_add_test(tcase, silent_requests_of_a_failed_lane_end_too);
	tcase_add_loop_test(tcase, what_is_listed_for_the_next_turn_can_be_lost_before_it, 0, 2);
	tcase_add_test(tcase, a_batch_over_two_servers_ends_when_both_have_let_go);
	tcase_add_test(tcase, death_fails_what_waits_for_room_at_once);
	tcase_add_test(tcase, a_new_connection_works_while_the_old_one_drains);
	tcase_add_test(tcase, a_drain_that_finds_the_lane_full_is_tried_again);
	tcase_add_test(tcase, a_lane_that_takes_nothing_any_more_is_let_go);
}

int main(void)
{
	Suite *suite = suite_create("lane");
	TCase *tcase = tcase_create("scripted");

	tcase_set_timeout(tcase, 60);
	add_cases(tcase);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
