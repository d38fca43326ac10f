/* SPDX-License-Identifier: Apache-2.0 */
/* The dispatcher when all goes well, and with batches that are not well formed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/dispatch_script.h"
#include "tests/support/runner.h"

/* --- Going well ------------------------------------------------------------------------------- */

START_TEST(nothing_happens_before_a_flush_and_one_chain_is_posted_by_it)
{
	struct drig_batch *a, *b;

	script_start_plain();
	script_paint(0, 8);
	a = script_batch(RMEM_WRITE, 0, 3);
	b = script_batch(RMEM_WRITE, 3, 5);
	drig_submit(&rig, a);
	drig_submit(&rig, b);
	ck_assert_uint_eq(fake_lane_waiting(0), 0);
	rmem_dispatch_flush(&rig.dispatch);
	ck_assert_uint_eq(fake_lane_waiting(0), 8);
	ck_assert_uint_eq(script_stat(RMEM_STAT_CHAINS), 1); /* waiting together, posted together */
	script_run_all();
	ck_assert_uint_eq(script_stat(RMEM_STAT_COMPLETIONS), 1); /* only the tail had a signal */
	for (unsigned i = 0; i < 8; i++)
		ck_assert(script_arrived(i));
	script_expect_end(a, 0);
	script_expect_end(b, 0);
	drig_finish(&rig);
}
END_TEST

START_TEST(batches_of_nothing_end_well_from_the_next_turn)
{
	struct drig_batch *none, *empty;

	script_start_plain();
	none = drig_batch(RMEM_READ, 0);
	empty = drig_batch(RMEM_READ, 4);
	drig_submit(&rig, none);
	drig_submit(&rig, empty);
	ck_assert_uint_eq(none->ended, 0);
	ck_assert_uint_eq(drig_turn(&rig), 2);
	script_expect_end(none, 0);
	script_expect_end(empty, 0);
	drig_finish(&rig);
}
END_TEST

START_TEST(any_depth_carries_any_batch)
{
	static const unsigned depths[] = {1, 2, 4, 8, 64};
	struct drig_batch *writes, *reads;

	script_start(&(struct drig_shape){.servers = 1,
					  .lanes = 1 + (unsigned)_i % 2,
					  .depth = depths[_i],
					  .post_batch = 32});
	script_paint(0, 500);
	writes = script_batch(RMEM_WRITE, 0, 500);
	drig_submit(&rig, writes);
	for (int i = 0; i < 2000 && !writes->ended; i++) {
		fake_run((unsigned)i % 2, 1 + (unsigned)i % 3);
		drig_turn(&rig);
	}
	reads = script_batch(RMEM_READ, 0, 500);
	memset(rig.local, 0, 500ul * 512);
	drig_submit(&rig, reads);
	for (unsigned i = 0; i < 1000; i++)
		script_run_all();
	for (unsigned i = 0; i < 500; i++) {
		ck_assert(script_arrived(i));
		ck_assert_uint_ne(rig.local[i * 512 + 5], 0);
	}
	script_expect_end(writes, 0);
	script_expect_end(reads, 0);
	drig_finish(&rig);
}
END_TEST

START_TEST(a_large_transfer_is_spread_over_all_lanes)
{
	struct drig_batch *batch = drig_batch(RMEM_WRITE, 1);

	script_start(&(struct drig_shape){.servers = 1, .lanes = 4, .depth = 64, .post_batch = 32});
	batch->segments[0] = (struct rmem_segment){.local = rig.local, .length = 1 << 20};
	drig_submit(&rig, batch);
	rmem_dispatch_flush(&rig.dispatch);
	for (unsigned lane = 0; lane < 4; lane++)
		ck_assert_uint_eq(fake_lane_waiting(lane), 4);
	ck_assert_uint_eq(script_stat(RMEM_STAT_CHAINS), 4);
	ck_assert_uint_eq(script_stat(RMEM_STAT_CHUNKS), 15);
	script_run_all();
	script_expect_end(batch, 0);
	drig_finish(&rig);
}
END_TEST

START_TEST(small_transfers_share_a_lane_until_they_are_a_chunk)
{
	struct drig_batch *batch;

	script_start(
		&(struct drig_shape){.servers = 1, .lanes = 4, .depth = 256, .post_batch = 256});
	batch = script_batch(RMEM_WRITE, 0, 256); /* twice 64 KiB */
	drig_submit(&rig, batch);
	rmem_dispatch_flush(&rig.dispatch);
	ck_assert_uint_eq(fake_lane_waiting(0), 128);
	ck_assert_uint_eq(fake_lane_waiting(1), 128);
	script_run_all();
	script_expect_end(batch, 0);
	drig_finish(&rig);
}
END_TEST

START_TEST(lanes_may_complete_in_any_order)
{
	struct drig_batch *batches[12];

	script_start(&(struct drig_shape){
		.servers = 1, .lanes = 3, .depth = 16, .post_batch = 4, .chunk_bytes = 4096});
	for (unsigned i = 0; i < 12; i++) {
		batches[i] = script_batch(RMEM_WRITE, i * 10, 10);
		drig_submit(&rig, batches[i]);
	}
	for (unsigned lane = 3; lane-- > 0;) {
		for (int i = 0; i < 50; i++) {
			drig_turn(&rig);
			fake_run(lane, 1);
		}
	}
	script_run_all();
	for (unsigned i = 0; i < 12; i++)
		script_expect_end(batches[i], 0);
	drig_finish(&rig);
}
END_TEST

START_TEST(a_server_that_is_slow_holds_up_only_its_own)
{
	struct drig_batch *slow, *quick, *both;

	script_start(&(struct drig_shape){.servers = 2, .lanes = 1, .depth = 4, .post_batch = 4});
	slow = script_batch(RMEM_WRITE, 0, 20);
	both = script_batch(RMEM_WRITE, 20, 20);
	quick = script_batch(RMEM_WRITE, 40, 20);
	for (unsigned i = 0; i < 20; i++) {
		both->segments[i].server = (uint16_t)(i % 2);
		quick->segments[i].server = 1;
	}
	drig_submit(&rig, slow);
	drig_submit(&rig, both);
	drig_submit(&rig, quick);
	for (int i = 0; i < 100; i++) {
		fake_run(1, 1);
		drig_turn(&rig);
	}
	ck_assert_uint_eq(slow->ended, 0);
	ck_assert_uint_eq(both->ended, 0);
	script_expect_end(quick, 0);
	script_run_all();
	script_expect_end(slow, 0);
	script_expect_end(both, 0);
	drig_finish(&rig);
}
END_TEST

START_TEST(batches_that_wait_for_room_end_in_order)
{
	struct drig_batch *batches[4];

	script_start(&(struct drig_shape){.servers = 1, .lanes = 1, .depth = 4, .post_batch = 2});
	for (unsigned i = 0; i < 4; i++) {
		batches[i] = script_batch(RMEM_WRITE, i * 40, 32u >> i); /* shorter and shorter */
		drig_submit(&rig, batches[i]);
	}
	for (unsigned turns = 0; turns < 200; turns++) {
		fake_run(0, 1);
		drig_turn(&rig);
		for (unsigned i = 1; i < 4; i++)
			ck_assert_uint_le(batches[i]->ended, batches[i - 1]->ended);
	}
	for (unsigned i = 0; i < 4; i++)
		script_expect_end(batches[i], 0);
	drig_finish(&rig);
}
END_TEST

START_TEST(servers_that_alternate_still_get_chains)
{
	struct drig_batch *batch;

	script_start(&(struct drig_shape){.servers = 4, .lanes = 1, .depth = 64, .post_batch = 32});
	batch = script_batch(RMEM_WRITE, 0, 40);
	for (unsigned i = 0; i < 40; i++)
		batch->segments[i].server = (uint16_t)(i % 4);
	drig_submit(&rig, batch);
	rmem_dispatch_flush(&rig.dispatch);
	ck_assert_uint_eq(script_stat(RMEM_STAT_CHAINS), 4);
	script_run_all();
	script_expect_end(batch, 0);
	drig_finish(&rig);
}
END_TEST

/* --- Bad batches ------------------------------------------------------------------------------ */

START_TEST(bad_segments_fail_the_batch_after_the_good_ones_before_them)
{
	static const struct {
		struct rmem_segment segment;
		int status;
	} bad[] = {
		{{.length = 1, .server = 1}, -EINVAL},
		{{.length = 1, .server = UINT16_MAX}, -EINVAL},
		{{.length = 1, .region = 2}, -EINVAL},
		{{.length = 1, .remote = DRIG_REGION_BYTES}, -ERANGE},
		{{.length = DRIG_LOCAL_BYTES + 1}, -ERANGE},
	};
	struct drig_batch *batch, *after;

	script_start_plain();
	batch = script_batch(RMEM_WRITE, 0, 4);
	batch->segments[2] = bad[_i].segment;
	batch->segments[2].local = rig.local;
	after = script_batch(RMEM_WRITE, 10, 4);
	drig_submit(&rig, batch);
	drig_submit(&rig, after);
	drig_turn(&rig);
	ck_assert_uint_eq(batch->ended, 0); /* two requests of it are on their way */
	script_run_all();
	script_expect_end(batch, bad[_i].status);
	script_expect_end(after, 0);
	drig_finish(&rig);
}
END_TEST

START_TEST(servers_that_are_not_connected_fail_batches_from_the_next_turn)
{
	struct drig_batch *batch;

	script_start_plain();
	rig.dispatch.server_count = 2;
	batch = script_batch(RMEM_WRITE, 0, 4);
	batch->segments[0].server = 1;
	drig_submit(&rig, batch);
	rmem_dispatch_flush(&rig.dispatch);
	ck_assert_uint_eq(batch->ended, 0);
	ck_assert_uint_eq(rmem_dispatch_run_done(&rig.dispatch), 1);
	ck_assert_uint_eq(batch->batch.failed_server, 1);
	script_expect_end(batch, -ENOTCONN);
	drig_finish(&rig);
}
END_TEST

START_TEST(completions_of_nobody_are_ignored)
{
	static const uint64_t ids[] = {0,
				       1,
				       UINT32_MAX,
				       UINT64_MAX,
				       (uint64_t)255 << 56,
				       (uint64_t)15 << 52 | (uint64_t)1 << 32,
				       (uint64_t)2 << 32,
				       (uint64_t)1 << 32 | 7};
	struct drig_batch *batch;

	script_start_plain();
	batch = script_batch(RMEM_WRITE, 0, 4);
	drig_submit(&rig, batch);
	drig_turn(&rig);
	for (size_t i = 0; i < RMEM_COUNT_OF(ids); i++) {
		struct rmem_completion completion = {.id = ids[i]};

		rmem_dispatch_complete(&rig.dispatch, &completion, 1);
	}
	drig_turn(&rig);
	ck_assert_uint_eq(batch->ended, 0);
	script_run_all();
	script_expect_end(batch, 0);
	drig_finish(&rig);
}
END_TEST

/* --- Callbacks and the end -------------------------------------------------------------------- */

static unsigned resubmitted;

static void again(struct rmem_batch *batch, int status)
{
	ck_assert_int_eq(status, 0);
	if (++resubmitted < 100) {
		rmem_dispatch_submit(&rig.dispatch, batch);
		if (resubmitted % 2)
			rmem_dispatch_flush(&rig.dispatch);
	}
}

START_TEST(a_callback_may_submit_its_batch_again_and_flush)
{
	struct drig_batch *batch;

	script_start(&(struct drig_shape){
		.mode = FAKE_AT_ONCE, .servers = 1, .lanes = 1, .depth = 64, .post_batch = 32});
	batch = script_batch(RMEM_WRITE, 0, 4);
	batch->batch.done = again;
	resubmitted = 0;
	drig_submit(&rig, batch);
	for (int i = 0; i < 200; i++)
		drig_turn(&rig);
	ck_assert_uint_eq(resubmitted, 100);
	free(batch);
	drig_finish(&rig);
}
END_TEST

START_TEST(abandoned_batches_are_neither_called_back_nor_touched)
{
	struct drig_batch *batches[10];

	script_start(&(struct drig_shape){.servers = 1, .lanes = 2, .depth = 4, .post_batch = 2});
	for (unsigned i = 0; i < 10; i++) {
		batches[i] = script_batch(RMEM_WRITE, i * 8, 8);
		drig_submit(&rig, batches[i]);
		if (i == 7) {
			drig_turn(&rig);
			fake_run(0, 1);
		}
	}
	rmem_dispatch_abandon(&rig.dispatch);
	for (unsigned i = 0; i < 10; i++) {
		ck_assert_uint_eq(batches[i]->ended, 0);
		free(batches[i]); /* a touch is a fault under the address sanitizer */
	}
	drig_finish(&rig);
}
END_TEST

static void add_cases(TCase *tcase)
{
	tcase_add_test(tcase, nothing_happens_before_a_flush_and_one_chain_is_posted_by_it);
	tcase_add_test(tcase, batches_of_nothing_end_well_from_the_next_turn);
	tcase_add_loop_test(tcase, any_depth_carries_any_batch, 0, 5);
	tcase_add_test(tcase, a_large_transfer_is_spread_over_all_lanes);
	tcase_add_test(tcase, small_transfers_share_a_lane_until_they_are_a_chunk);
	tcase_add_test(tcase, lanes_may_complete_in_any_order);
	tcase_add_test(tcase, a_server_that_is_slow_holds_up_only_its_own);
	tcase_add_test(tcase, batches_that_wait_for_room_end_in_order);
	tcase_add_test(tcase, servers_that_alternate_still_get_chains);
	tcase_add_loop_test(tcase, bad_segments_fail_the_batch_after_the_good_ones_before_them, 0,
			    5);
	tcase_add_test(tcase, servers_that_are_not_connected_fail_batches_from_the_next_turn);
	tcase_add_test(tcase, completions_of_nobody_are_ignored);
	tcase_add_test(tcase, a_callback_may_submit_its_batch_again_and_flush);
	tcase_add_test(tcase, abandoned_batches_are_neither_called_back_nor_touched);
}

int main(void)
{
	Suite *suite = suite_create("dispatch");
	TCase *tcase = tcase_create("scripted");

	tcase_set_timeout(tcase, 60);
	add_cases(tcase);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
