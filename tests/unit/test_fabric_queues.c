/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of engine/fabric.h, held against every provider: queues, credits and events. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/fabric_rig.h"
#include "tests/support/runner.h"

static struct rig rig;

static void open_rig(int provider)
{
	rig_open(&rig, &(struct rig_shape){
			       .provider = provider, .lanes = 1, .depth = 64, .cq_depth = 64});
}

START_TEST(a_chain_completes_with_its_signaled_tail_alone)
{
	struct rmem_completion completion;
	struct rmem_wr wrs[8];

	open_rig(_i);
	for (size_t i = 0; i < 8; i++) {
		wrs[i] = rig_wr(&rig, RMEM_WR_WRITE, i, &(struct rig_place){0, i * 100, 0, 100});
		wrs[i].flags = i == 7 ? RMEM_WR_SIGNALED : 0;
	}
	rig_chain(wrs, 8);
	rig_post(&rig, 0, wrs);
	ck_assert_uint_eq(rig_reap(&rig, &completion, 1), 1);
	ck_assert_uint_eq(completion.id, 7);
	ck_assert_int_eq(completion.status, RMEM_WC_OK);
	rig_expect_silence(&rig);
	rig_close(&rig);
}
END_TEST

START_TEST(a_full_lane_says_where_to_resume)
{
	enum { COUNT = 1024 };
	static struct rmem_wr wrs[COUNT];
	struct rmem_wr *next = wrs;
	unsigned refusals = 0, completed = 0;

	rig_open(&rig, &(struct rig_shape){_i, 1, 4, COUNT, NULL});
	for (unsigned i = 0; i < COUNT; i++) {
		rig.memory[i] = (uint8_t)(i * 3);
		wrs[i] = rig_wr(&rig, RMEM_WR_WRITE, i, &(struct rig_place){0, i, i, 1});
	}
	rig_chain(wrs, COUNT);
	while (completed < COUNT) {
		struct rmem_completion completions[3];
		struct rmem_wr *bad = NULL;
		unsigned came;
		int rc = next == NULL ? 0 : rig.fabric->lane_post(rig.lanes[0], next, &bad);

		if (rc != 0) {
			ck_assert_int_eq(rc, -EAGAIN);
			ck_assert_ptr_nonnull(bad);
			ck_assert(bad >= next);
			refusals++;
		}
		next = bad;
		/* Those that were refused have not run, whatever was polled. */
		came = rig_reap(&rig, completions, COUNT - completed < 3 ? COUNT - completed : 3);
		for (unsigned i = 0; i < came; i++) {
			ck_assert_int_eq(completions[i].status, RMEM_WC_OK);
			ck_assert_uint_eq(completions[i].id, completed++);
		}
		ck_assert_uint_gt(came, 0);
	}
	ck_assert_uint_gt(refusals, 0);
	rig_expect_silence(&rig);
	wrs[0] = rig_wr(&rig, RMEM_WR_READ, 0, &(struct rig_place){0, 0, 4096, COUNT});
	rig_do(&rig, 0, &wrs[0], RMEM_WC_OK);
	ck_assert_mem_eq(rig.memory, rig.memory + 4096, COUNT);
	rig_close(&rig);
}
END_TEST

START_TEST(one_completion_makes_room_for_all_before_it)
{
	struct rmem_completion completion;
	struct rmem_wr wrs[4];

	rig_open(&rig, &(struct rig_shape){_i, 1, 4, 16, NULL});
	for (unsigned round = 0; round < 100; round++) {
		for (unsigned i = 0; i < 4; i++) {
			wrs[i] = rig_wr(&rig, RMEM_WR_WRITE, i, &(struct rig_place){0, 0, 0, 8});
			wrs[i].flags = i == 3 ? RMEM_WR_SIGNALED : 0;
		}
		rig_chain(wrs, 4);
		rig_post(&rig, 0, wrs);
		ck_assert_uint_eq(rig_reap(&rig, &completion, 1), 1);
		ck_assert_uint_eq(completion.id, 3);
	}
	rig_close(&rig);
}
END_TEST

START_TEST(lanes_complete_into_their_own_queue)
{
	const struct rmem_lane_options options = {.depth = 16};
	struct rmem_completion completions[8];
	struct rmem_lane_link *other_lane;
	struct rmem_cq *other;
	struct rmem_wr wr, *bad;

	rig_open(&rig, &(struct rig_shape){_i, 3, 8, 24, NULL});
	ck_assert_int_eq(rig.fabric->cq_create(rig.port, 16, &other, NULL), 0);
	ck_assert_int_eq(rig.fabric->lane_open(rig.conn, other, &options, &other_lane, NULL), 0);
	for (unsigned i = 0; i < 3; i++) {
		wr = rig_wr(&rig, RMEM_WR_WRITE, 10 + i, &(struct rig_place){0, i, 0, 1});
		rig_post(&rig, i, &wr);
	}
	wr = rig_wr(&rig, RMEM_WR_WRITE, 20, &(struct rig_place){0, 9, 0, 1});
	ck_assert_int_eq(rig.fabric->lane_post(other_lane, &wr, &bad), 0);
	ck_assert_uint_eq(rig_reap(&rig, completions, 3), 3);
	rig_expect_silence(&rig);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_lt(completions[i].id, 13);
	while (rig.fabric->cq_poll(other, completions, 8) == 0)
		;
	ck_assert_uint_eq(completions[0].id, 20);
	rig.fabric->lane_close(other_lane);
	rig.fabric->cq_destroy(other);
	rig_close(&rig);
}
END_TEST

/* Fills two lanes with signaled requests: as many as the queue has room for. */
static void fill_queue(void)
{
	static struct rmem_wr wrs[64];

	for (unsigned lane = 0; lane < 2; lane++) {
		for (unsigned i = 0; i < 32; i++)
			wrs[i] = rig_wr(&rig, RMEM_WR_WRITE, lane * 32 + i,
					&(struct rig_place){0, i, 0, 1});
		rig_chain(wrs, 32);
		rig_post(&rig, lane, wrs);
	}
}

static void expect_all_of(unsigned count)
{
	struct rmem_completion completions[256];
	unsigned seen[256] = {0};

	ck_assert_uint_eq(rig_reap(&rig, completions, count), count);
	for (unsigned i = 0; i < count; i++) {
		ck_assert_int_eq(completions[i].status, RMEM_WC_OK);
		ck_assert_uint_lt(completions[i].id, count);
		ck_assert_uint_eq(seen[completions[i].id]++, 0);
	}
	rig_expect_silence(&rig);
}

START_TEST(a_queue_holds_as_many_completions_as_its_depth)
{
	rig_open(&rig, &(struct rig_shape){_i, 2, 32, 64, NULL});
	for (unsigned round = 0; round < 10; round++) {
		fill_queue();
		expect_all_of(64);
	}
	rig_close(&rig);
}
END_TEST

START_TEST(a_queue_that_grows_loses_nothing)
{
	struct rmem_completion completions[5];

	rig_open(&rig, &(struct rig_shape){_i, 2, 32, 64, NULL});
	/* Off the beginning of the ring first, so that what is moved wraps around. */
	fill_queue();
	expect_all_of(64);
	fill_queue();
	ck_assert_uint_eq(rig_reap(&rig, completions, 5), 5);
	ck_assert_int_eq(rig.fabric->cq_resize(rig.cq, 1000, NULL), 0);
	for (unsigned i = 0; i < 59; i++) {
		struct rmem_completion completion;

		ck_assert_uint_eq(rig_reap(&rig, &completion, 1), 1);
		ck_assert_uint_eq(completion.id, 5 + i);
	}
	rig_expect_silence(&rig);
	fill_queue();
	expect_all_of(64);
	rig_close(&rig);
}
END_TEST

START_TEST(an_armed_queue_announces_the_next_completion)
{
	struct rmem_wr wr;

	open_rig(_i);
	wr = rig_wr(&rig, RMEM_WR_WRITE, 1, &(struct rig_place){0, 0, 0, 8});
	for (unsigned round = 0; round < 50; round++) {
		struct rmem_completion completion;
		int fd = rig.fabric->cq_fd(rig.cq);

		ck_assert_int_eq(rig.fabric->cq_arm(rig.cq), 0);
		ck_assert_int_eq(rig.fabric->cq_poll(rig.cq, &completion, 1), 0);
		ck_assert(!rig_readable(fd, 0));
		rig_post(&rig, 0, &wr);
		ck_assert(rig_readable(fd, RIG_TIMEOUT_MS));
		rig.fabric->cq_ack(rig.cq);
		ck_assert_uint_eq(rig_reap(&rig, &completion, 1), 1);
		ck_assert(!rig_readable(fd, 0));
	}
	rig_close(&rig);
}
END_TEST

START_TEST(a_queue_announces_once_for_each_time_it_was_armed)
{
	struct rmem_wr wr;

	open_rig(_i);
	wr = rig_wr(&rig, RMEM_WR_WRITE, 1, &(struct rig_place){0, 0, 0, 8});
	rig_do(&rig, 0, &wr, RMEM_WC_OK);
	ck_assert(!rig_readable(rig.fabric->cq_fd(rig.cq), 20)); /* never armed */
	ck_assert_int_eq(rig.fabric->cq_arm(rig.cq), 0);
	rig_do(&rig, 0, &wr, RMEM_WC_OK);
	ck_assert(rig_readable(rig.fabric->cq_fd(rig.cq), RIG_TIMEOUT_MS));
	rig.fabric->cq_ack(rig.cq);
	rig_do(&rig, 0, &wr, RMEM_WC_OK);
	ck_assert(!rig_readable(rig.fabric->cq_fd(rig.cq), 20));
	rig_close(&rig);
}
END_TEST

START_TEST(what_completed_before_arming_is_found_by_polling)
{
	struct rmem_completion completion;
	struct rmem_wr wr;

	open_rig(_i);
	wr = rig_wr(&rig, RMEM_WR_WRITE, 7, &(struct rig_place){0, 0, 0, 8});
	rig_post(&rig, 0, &wr);
	ck_assert_int_eq(rig.fabric->cq_arm(rig.cq), 0);
	ck_assert_uint_eq(rig_reap(&rig, &completion, 1), 1);
	ck_assert_uint_eq(completion.id, 7);
	rig_close(&rig);
}
END_TEST

START_TEST(limits_are_such_that_a_lane_can_be_opened_with_them)
{
	struct rmem_port_limits limits;
	struct rmem_lane_link *lane;
	struct rmem_cq *cq;

	open_rig(_i);
	rig.fabric->port_limits(rig.port, &limits);
	ck_assert_uint_ge(limits.sge_max, 1);
	ck_assert_uint_le(limits.sge_max, RMEM_SGE_MAX);
	ck_assert_uint_ge(limits.message_max_bytes, 65536);
	ck_assert_int_eq(rig.fabric->cq_create(rig.port, limits.depth_max, &cq, NULL), 0);
	ck_assert_int_eq(rig.fabric->lane_open(rig.conn, cq,
					       &(struct rmem_lane_options){
						       .depth = limits.depth_max,
						       .inline_bytes = limits.inline_max_bytes},
					       &lane, NULL),
			 0);
	rig.fabric->lane_close(lane);
	rig.fabric->cq_destroy(cq);
	ck_assert_int_ne(
		rig.fabric->lane_open(rig.conn, rig.cq,
				      &(struct rmem_lane_options){.depth = limits.depth_max + 1},
				      &lane, NULL),
		0);
	rig_close(&rig);
}
END_TEST

START_TEST(the_provider_is_found_by_the_scheme_of_a_url)
{
	char url[32];

	snprintf(url, sizeof(url), "%s:/some/where", rig_providers[_i].fabric->scheme);
	ck_assert_ptr_eq(rmem_fabric_find(url), rig_providers[_i].fabric);
	snprintf(url, sizeof(url), "%s", rig_providers[_i].fabric->scheme);
	ck_assert_ptr_null(rmem_fabric_find(url));
	ck_assert_ptr_null(rmem_fabric_find("no-such:/fabric"));
	ck_assert_ptr_null(rmem_fabric_find(""));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fabric_queues");
	TCase *queues = tcase_create("queues");

	tcase_add_unchecked_fixture(queues, rig_folder_make, rig_folder_remove);
	tcase_set_timeout(queues, 60);
	tcase_add_loop_test(queues, a_chain_completes_with_its_signaled_tail_alone, 0,
			    rig_provider_count);
	tcase_add_loop_test(queues, a_full_lane_says_where_to_resume, 0, rig_provider_count);
	tcase_add_loop_test(queues, one_completion_makes_room_for_all_before_it, 0,
			    rig_provider_count);
	tcase_add_loop_test(queues, lanes_complete_into_their_own_queue, 0, rig_provider_count);
	tcase_add_loop_test(queues, a_queue_holds_as_many_completions_as_its_depth, 0,
			    rig_provider_count);
	tcase_add_loop_test(queues, a_queue_that_grows_loses_nothing, 0, rig_provider_count);
	tcase_add_loop_test(queues, an_armed_queue_announces_the_next_completion, 0,
			    rig_provider_count);
	tcase_add_loop_test(queues, a_queue_announces_once_for_each_time_it_was_armed, 0,
			    rig_provider_count);
	tcase_add_loop_test(queues, what_completed_before_arming_is_found_by_polling, 0,
			    rig_provider_count);
	tcase_add_loop_test(queues, limits_are_such_that_a_lane_can_be_opened_with_them, 0,
			    rig_provider_count);
	tcase_add_loop_test(queues, the_provider_is_found_by_the_scheme_of_a_url, 0,
			    rig_provider_count);
	suite_add_tcase(suite, queues);
	return run_suite(suite);
}
