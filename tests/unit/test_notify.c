/* SPDX-License-Identifier: Apache-2.0 */
/* The books of notices, and the dispatcher's way with them on a fabric whose every move the test
 * decides: first by examples, then by random walks. However deliveries, grants, failures, server
 * losses and cancels interleave, every batch ends exactly once; no notice is sent without credit;
 * notices arrive at most once, in the order of their batches and behind what they are about; and
 * those of batches that ended well have arrived. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/notify.h"
#include "tests/support/dispatch_script.h"
#include "tests/support/runner.h"

/* --- The books -------------------------------------------------------------------------------- */

static struct rmem_notify books[2];

START_TEST(credits_run_out_at_the_depth_and_come_back_by_grants)
{
	uint32_t depth = 1u << _i;

	rmem_notify_init(&books[0], depth);
	for (uint32_t i = 0; i < depth; i++)
		ck_assert(rmem_notify_send(&books[0]));
	ck_assert(!rmem_notify_send(&books[0]));
	ck_assert(rmem_notify_granted(&books[0], 1));
	ck_assert(rmem_notify_send(&books[0]));
	ck_assert(!rmem_notify_send(&books[0]));
	ck_assert(rmem_notify_granted(&books[0], depth));
	ck_assert(!rmem_notify_granted(&books[0], 1)); /* more than there can be */
	ck_assert_uint_eq(books[0].credits, depth);
}
END_TEST

START_TEST(two_sides_never_block_and_never_have_more_than_two_grants_under_way)
{
	uint32_t depth = 1u << (_i % 6);
	uint32_t wire = 0; /* sent, not taken */
	uint32_t grants[8], grant_count = 0, transfer = 0;
	unsigned seed = (unsigned)_i;

	rmem_notify_init(&books[0], depth);
	rmem_notify_init(&books[1], depth);
	for (unsigned step = 0; step < 20000; step++) {
		switch ((unsigned)rand_r(&seed) % 3) {
		case 0:
			wire += rmem_notify_send(&books[0]);
			break;
		case 1:
			if (wire > 0) {
				uint32_t grant = rmem_notify_take(&books[1], transfer++);

				wire--;
				if (grant > 0)
					grants[grant_count++] = grant;
			}
			break;
		default:
			if (grant_count > 0)
				ck_assert(rmem_notify_granted(&books[0], grants[--grant_count]));
			break;
		}
		ck_assert_uint_le(grant_count, 2);
		ck_assert_uint_le(wire, depth);
		/* Something can always happen. */
		ck_assert(wire > 0 || grant_count > 0 || books[0].credits > 0);
	}
	ck_assert_uint_gt(transfer, 1000);
}
END_TEST

START_TEST(arrivals_are_known_for_good_if_they_are_numbered_in_order)
{
	static const uint32_t firsts[] = {0, 1000, UINT32_MAX - 3000};
	uint32_t first = firsts[_i];

	rmem_notify_init(&books[0], 64);
	ck_assert(!rmem_notify_has_arrived(&books[0], first));
	for (uint32_t i = 0; i < 3 * RMEM_ARRIVALS; i++) {
		(void)rmem_notify_take(&books[0], first + i);
		ck_assert(rmem_notify_has_arrived(&books[0], first));
		ck_assert(rmem_notify_has_arrived(&books[0], first + i / 2));
		ck_assert(rmem_notify_has_arrived(&books[0], first + i));
		ck_assert(!rmem_notify_has_arrived(&books[0], first + i + 1));
		ck_assert(!rmem_notify_has_arrived(&books[0], first + i + RMEM_ARRIVALS));
	}
}
END_TEST

/* --- The dispatcher, by examples -------------------------------------------------------------- */

static void start(unsigned lanes, unsigned notices)
{
	script_start(&(struct drig_shape){
		.servers = 1, .lanes = lanes, .depth = 64, .post_batch = 32, .notices = notices});
}

static struct drig_batch *noticed(enum rmem_op op, unsigned first, unsigned count,
				  uint32_t transfer)
{
	struct drig_batch *batch = script_batch(op, first, count);

	batch->notice.transfer = transfer;
	batch->batch.notice = &batch->notice;
	return batch;
}

START_TEST(an_empty_notice_travels_with_the_last_write)
{
	struct drig_batch *batch;

	start(2, 4);
	script_paint(0, 5);
	batch = noticed(RMEM_WRITE, 0, 5, 77);
	drig_submit(&rig, batch);
	drig_turn(&rig);
	ck_assert_uint_eq(fake_lane_waiting(0), 5);
	fake_run(0, 4);
	ck_assert_uint_eq(fake_far_arrived(0), 0);
	fake_run(0, 1);
	ck_assert_uint_eq(fake_far_arrived(0), 1);
	ck_assert_uint_eq(fake_far_transfer(0, 0), 77);
	ck_assert(script_arrived(4));
	drig_turn(&rig);
	script_expect_end(batch, 0);
	drig_finish(&rig);
}
END_TEST

START_TEST(other_notices_travel_behind_in_the_same_chain)
{
	struct drig_batch *read, *full, *alone;

	start(1, 4);
	read = noticed(RMEM_READ, 0, 3, 1);
	full = noticed(RMEM_WRITE, 3, 3, 2);
	full->notice.length = 5;
	alone = noticed(RMEM_WRITE, 6, 0, 3);
	drig_submit(&rig, read);
	drig_submit(&rig, full);
	drig_submit(&rig, alone);
	drig_turn(&rig);
	ck_assert_uint_eq(script_stat(RMEM_STAT_CHAINS), 1);
	ck_assert_uint_eq(fake_lane_waiting(0), 9);
	script_run_all();
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_uint_eq(fake_far_transfer(0, i), i + 1);
	script_expect_end(read, 0);
	script_expect_end(full, 0);
	script_expect_end(alone, 0);
	drig_finish(&rig);
}
END_TEST

START_TEST(without_credit_only_notices_wait)
{
	struct drig_batch *batches[4], *plain;

	start(1, 2);
	for (uint32_t i = 0; i < 4; i++) {
		batches[i] = noticed(RMEM_WRITE, i * 2, i % 2 ? 2 : 0, i);
		drig_submit(&rig, batches[i]);
	}
	plain = script_batch(RMEM_WRITE, 20, 1);
	drig_submit(&rig, plain);
	script_run_all();
	script_expect_end(plain, 0);
	script_expect_end(batches[0], 0);
	script_expect_end(batches[1], 0);
	ck_assert_uint_eq(batches[2]->ended, 0);
	ck_assert_uint_eq(batches[3]->ended, 0);
	ck_assert(!rmem_dispatch_has_work(&rig.dispatch)); /* a grant will tell */
	ck_assert(!rmem_dispatch_is_restless(&rig.dispatch));
	ck_assert(fake_far_grant(0, 1));
	script_run_all();
	script_expect_end(batches[2], 0);
	ck_assert_uint_eq(batches[3]->ended, 0);
	ck_assert(fake_far_grant(0, 1));
	script_run_all();
	script_expect_end(batches[3], 0);
	drig_finish(&rig);
}
END_TEST

START_TEST(a_batch_that_fails_sends_no_notice)
{
	struct drig_batch *outside, *failing, *behind;

	start(1, 4);
	outside = noticed(RMEM_WRITE, 0, 2, 1);
	outside->segments[1].remote = DRIG_REGION_BYTES;
	drig_submit(&rig, outside);
	script_run_all();
	ck_assert_uint_eq(fake_far_arrived(0), 0);
	script_expect_end(outside, -ERANGE);
	failing = noticed(RMEM_WRITE, 4, 2, 2);
	behind = noticed(RMEM_WRITE, 0, 0, 3);
	script.fail_remote = failing->segments[0].remote;
	script.status = RMEM_WC_REMOTE_ACCESS;
	drig_submit(&rig, failing);
	drig_submit(&rig, behind);
	drig_turn(&rig);
	fake_run(0, UINT32_MAX);
	ck_assert_uint_eq(fake_far_arrived(0), 0);
	script_run_all();
	script_expect_end(failing, -EIO);
	script_expect_end(behind, -ENOTCONN);
	drig_finish(&rig);
}
END_TEST

/* --- Cancelling ------------------------------------------------------------------------------- */

START_TEST(what_waits_can_be_cancelled_and_what_is_on_its_way_can_not)
{
	struct drig_batch *batches[4];

	script_start(&(struct drig_shape){
		.servers = 1, .lanes = 1, .depth = 4, .post_batch = 4, .notices = 1});
	for (unsigned i = 0; i < 4; i++) {
		batches[i] = noticed(RMEM_WRITE, i * 8, i == 2 ? 8 : 0, i);
		drig_submit(&rig, batches[i]);
		ck_assert_int_eq(rmem_batch_status(&batches[i]->batch), -EINPROGRESS);
	}
	ck_assert_int_eq(rmem_dispatch_cancel(&rig.dispatch, &batches[3]->batch), 0);
	rmem_dispatch_flush(&rig.dispatch);
	/* The first is on its way, the second waits for credit, the third for room. */
	ck_assert_int_eq(rmem_dispatch_cancel(&rig.dispatch, &batches[0]->batch), -EBUSY);
	ck_assert_int_eq(rmem_dispatch_cancel(&rig.dispatch, &batches[1]->batch), 0);
	ck_assert_int_eq(rmem_dispatch_cancel(&rig.dispatch, &batches[2]->batch), 0);
	ck_assert_int_eq(rmem_dispatch_cancel(&rig.dispatch, &batches[1]->batch), -EALREADY);
	ck_assert_uint_eq(rmem_dispatch_run_done(&rig.dispatch), 2);
	ck_assert_int_eq(rmem_batch_status(&batches[2]->batch), -EINPROGRESS); /* in part */
	script_run_all();
	ck_assert_int_eq(rmem_batch_status(&batches[2]->batch), -ECANCELED);
	ck_assert_int_eq(rmem_dispatch_cancel(&rig.dispatch, &batches[0]->batch), -EALREADY);
	ck_assert_uint_eq(fake_far_arrived(0), 1);
	script_expect_end(batches[0], 0);
	for (unsigned i = 1; i < 4; i++)
		script_expect_end(batches[i], -ECANCELED);
	drig_finish(&rig);
}
END_TEST

START_TEST(a_batch_without_a_callback_is_followed_by_its_status)
{
	struct drig_batch *batch;

	start(1, 1);
	batch = script_batch(RMEM_WRITE, 0, 4);
	batch->batch.done = NULL;
	drig_submit(&rig, batch);
	drig_turn(&rig);
	ck_assert_int_eq(rmem_batch_status(&batch->batch), -EINPROGRESS);
	script_run_all();
	ck_assert_int_eq(rmem_batch_status(&batch->batch), 0);
	free(batch);
	drig_finish(&rig);
}
END_TEST

/* --- Random walks ----------------------------------------------------------------------------- */

#define LIVE_MAX    16
#define SERVERS	    2
#define CELLS_BATCH 24 /* of 512 bytes; a batch has those of its slot */

static unsigned seed;
static unsigned trouble;
static bool is_up[SERVERS];
static int lane_of[SERVERS]; /* the first lane of the present connection */
static struct drig_batch *live[LIVE_MAX];
static uint32_t next_transfer[SERVERS];
static uint32_t seen[SERVERS];	   /* arrivals looked at on the present lane */
static int64_t last_seen[SERVERS]; /* their numbers only grow */
static bool has_arrived[SERVERS][1 << 16];
static uint32_t far_next[SERVERS], near_next[SERVERS];

static unsigned below(unsigned limit)
{
	return (unsigned)rand_r(&seed) % limit;
}

static uint32_t walk_accept(void *user, unsigned lane, uint32_t count, int *rc)
{
	(void)user;
	(void)lane;
	(void)rc;
	return below(4) == 0 ? below(count + 1) : count;
}

static enum rmem_wc_status walk_execute(void *user, unsigned lane, const struct rmem_wr *wr)
{
	(void)user;
	(void)lane;
	(void)wr;
	return trouble > 0 && below(trouble) == 0 ? RMEM_WC_REMOTE_ACCESS : RMEM_WC_OK;
}

static void note_notice(void *user, unsigned server, const struct rmem_notice *notice)
{
	(void)user;
	ck_assert_uint_ge(notice->transfer, near_next[server]); /* some are lost with a server */
	near_next[server] = notice->transfer + 1;
}

static void submit_one(void)
{
	unsigned slot = below(LIVE_MAX);
	enum rmem_op op = below(2) ? RMEM_READ : RMEM_WRITE;
	uint16_t server = (uint16_t)below(SERVERS);
	struct drig_batch *batch;

	if (live[slot])
		return;
	batch = script_batch(op, slot * CELLS_BATCH, below(3) ? below(CELLS_BATCH) : 0);
	for (uint32_t i = 0; i < batch->batch.segment_count; i++)
		batch->segments[i].server = server;
	if (below(4)) {
		batch->notice.transfer = next_transfer[server]++;
		batch->notice.length = below(2) ? below(RMEM_NOTICE_BYTES_MAX + 1) : 0;
		batch->batch.notice = &batch->notice;
		batch->batch.notice_server = server;
	}
	live[slot] = batch;
	drig_submit(&rig, batch);
}

static void reap(void)
{
	for (unsigned i = 0; i < LIVE_MAX; i++) {
		struct drig_batch *batch = live[i];

		if (!batch || batch->ended == 0)
			continue;
		ck_assert_uint_eq(batch->ended, 1);
		ck_assert(!batch->was_outstanding);
		ck_assert_int_eq(rmem_batch_status(&batch->batch), batch->status);
		if (batch->status == 0 && batch->batch.notice)
			ck_assert(has_arrived[batch->batch.notice_server][batch->notice.transfer]);
		live[i] = NULL;
		free(batch);
	}
}

/* Whether what a notice is about is still to be done. */
static bool is_early(unsigned server, uint32_t transfer)
{
	for (unsigned i = 0; i < LIVE_MAX; i++) {
		const struct drig_batch *batch = live[i];

		if (!batch || !batch->batch.notice || batch->batch.notice_server != server ||
		    batch->notice.transfer != transfer)
			continue;
		for (uint32_t n = 0; n < batch->batch.segment_count; n++) {
			if (fake_is_outstanding(batch->segments[n].local, 512))
				return true;
		}
	}
	return false;
}

static void look_at_arrivals(unsigned server)
{
	unsigned lane = (unsigned)lane_of[server];

	for (; seen[server] < fake_far_arrived(lane); seen[server]++) {
		uint32_t transfer = fake_far_transfer(lane, seen[server]);

		ck_assert_int_gt(transfer, last_seen[server]);
		ck_assert(!is_early(server, transfer));
		last_seen[server] = transfer;
		has_arrived[server][transfer] = true;
	}
}

static void lose_or_return(unsigned server)
{
	if (is_up[server]) {
		fake_server_stop(rig.urls[server]);
		rmem_dispatch_detach(&rig.dispatch, drig_endpoint(&rig, server));
		is_up[server] = false;
	} else if (drig_collect(&rig, server)) {
		fake_server_start(rig.urls[server], 2, DRIG_REGION_BYTES);
		lane_of[server] = (int)fake_lane_count();
		seen[server] = 0;
		drig_connect(&rig, server);
		is_up[server] = true;
	}
}

/* One that failed by itself is over, too. */
static void notice_losses(void)
{
	for (unsigned i = 0; i < SERVERS; i++) {
		if (is_up[i] && !rig.dispatch.endpoints[i]) {
			fake_server_stop(rig.urls[i]);
			is_up[i] = false;
		}
	}
}

static void step(void)
{
	unsigned server = below(SERVERS);
	unsigned lane = (unsigned)lane_of[server];

	switch (below(10)) {
	case 0:
	case 1:
		submit_one();
		break;
	case 2:
		fake_run((unsigned)below(fake_lane_count()), 1);
		break;
	case 3:
		for (unsigned i = below(8); i > 0; i--) {
			fake_run(lane, 1);
			look_at_arrivals(server);
		}
		break;
	case 4:
	case 5:
		drig_turn(&rig);
		break;
	case 6:
		fake_far_grant(lane, 1 + below(3));
		break;
	case 7:
		if (fake_far_send(lane, far_next[server]))
			far_next[server]++;
		break;
	case 8:
		if (live[lane % LIVE_MAX] && live[lane % LIVE_MAX]->ended == 0)
			(void)!rmem_dispatch_cancel(&rig.dispatch, &live[lane % LIVE_MAX]->batch);
		break;
	default:
		if (below(40) == 0 || !is_up[server])
			lose_or_return(server);
		break;
	}
	for (unsigned i = 0; i < SERVERS; i++)
		look_at_arrivals(i);
	notice_losses();
	reap();
}

static void settle(void)
{
	trouble = 0;
	for (unsigned i = 0; i < 400; i++) {
		for (unsigned lane = 0; lane < fake_lane_count(); lane++)
			fake_run(lane, UINT32_MAX);
		for (unsigned s = 0; s < SERVERS; s++) {
			look_at_arrivals(s);
			fake_far_grant((unsigned)lane_of[s], 1);
		}
		drig_turn(&rig);
		notice_losses();
		reap();
	}
	for (unsigned i = 0; i < LIVE_MAX; i++)
		ck_assert_ptr_null(live[i]);
}

START_TEST(walks_end_every_batch_once_with_its_notice_in_order)
{
	const struct drig_shape shape = {
		.servers = SERVERS,
		.lanes = 1 + (unsigned)_i % 3,
		.depth = 1u << (1 + _i % 5),
		.post_batch = 1u << (_i % 4),
		.notices = 1u << (_i % 5),
	};

	script_start(&shape);
	fake_set_hooks(&(struct fake_hooks){.accept = walk_accept, .execute = walk_execute});
	rig.dispatch.notice = note_notice;
	seed = (unsigned)_i + 1;
	for (unsigned i = 0; i < SERVERS; i++) {
		is_up[i] = true;
		lane_of[i] = (int)(i * shape.lanes);
		last_seen[i] = -1;
	}
	for (unsigned round = 0; round < 6; round++) {
		trouble = round % 2 ? 60 : 0;
		for (unsigned i = 0; i < 2500; i++)
			step();
		settle();
	}
	ck_assert_uint_gt(next_transfer[0], 200);
	ck_assert_uint_gt(near_next[0] + near_next[1], 50);
	drig_finish(&rig);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("notify");
	TCase *all = tcase_create("all");

	tcase_set_timeout(all, 60);
	tcase_add_loop_test(all, credits_run_out_at_the_depth_and_come_back_by_grants, 0, 11);
	tcase_add_loop_test(
		all, two_sides_never_block_and_never_have_more_than_two_grants_under_way, 0, 12);
	tcase_add_loop_test(all, arrivals_are_known_for_good_if_they_are_numbered_in_order, 0, 3);
	tcase_add_test(all, an_empty_notice_travels_with_the_last_write);
	tcase_add_test(all, other_notices_travel_behind_in_the_same_chain);
	tcase_add_test(all, without_credit_only_notices_wait);
	tcase_add_test(all, a_batch_that_fails_sends_no_notice);
	tcase_add_test(all, what_waits_can_be_cancelled_and_what_is_on_its_way_can_not);
	tcase_add_test(all, a_batch_without_a_callback_is_followed_by_its_status);
	tcase_add_loop_test(all, walks_end_every_batch_once_with_its_notice_in_order, 0, 20);
	suite_add_tcase(suite, all);
	return run_suite(suite);
}
