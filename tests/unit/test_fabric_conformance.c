/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of engine/fabric.h, held against every provider: how bytes move and how their
 * completions come. test_fabric_errors.c has what happens when something fails. */
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

START_TEST(bytes_written_are_read_back)
{
	static const struct rig_place places[] = {
		{0, 0, 0, 1},
		{0, 4096, 4096, 4096},
		{1, 777, 33, 1000},
		{0, RIG_REGION_BYTES - 1, 5, 1},
		{1, RIG_REGION_BYTES - 65536, 65536, 65536},
		{1, 3, 1, RIG_MEMORY_BYTES / 2 - 1},
	};

	open_rig(_i);
	for (unsigned i = 0; i < RMEM_COUNT_OF(places); i++) {
		struct rig_place back = places[i];
		struct rmem_wr out = rig_wr(&rig, RMEM_WR_WRITE, i, &places[i]);
		struct rmem_wr in;

		rig_fill(rig.memory + places[i].local, places[i].length, i);
		rig_do(&rig, 0, &out, RMEM_WC_OK);
		back.local = RIG_MEMORY_BYTES - places[i].length;
		in = rig_wr(&rig, RMEM_WR_READ, 100 + i, &back);
		memset(rig.memory + back.local, 0xee, back.length);
		rig_fill(rig.memory + places[i].local, places[i].length, i);
		rig_do(&rig, 0, &in, RMEM_WC_OK);
		ck_assert_mem_eq(rig.memory + back.local, rig.memory + places[i].local,
				 back.length);
	}
	rig_close(&rig);
}
END_TEST

START_TEST(a_write_touches_nothing_beside_its_range)
{
	struct rmem_wr wr;

	open_rig(_i);
	memset(rig.memory, 0xff, 8192);
	wr = rig_wr(&rig, RMEM_WR_WRITE, 1, &(struct rig_place){0, 100, 0, 4000});
	rig_do(&rig, 0, &wr, RMEM_WC_OK);
	wr = rig_wr(&rig, RMEM_WR_READ, 2, &(struct rig_place){0, 0, 16384, 8192});
	rig_do(&rig, 0, &wr, RMEM_WC_OK);
	for (unsigned i = 0; i < 8192; i++)
		ck_assert_uint_eq(rig.memory[16384 + i], i >= 100 && i < 4100 ? 0xff : 0);
	rig_close(&rig);
}
END_TEST

START_TEST(regions_are_apart)
{
	struct rmem_wr wr;

	open_rig(_i);
	ck_assert_uint_eq(rig.info.region_count, RIG_REGIONS);
	for (uint32_t region = 0; region < RIG_REGIONS; region++) {
		rig_fill(rig.memory, 512, region);
		wr = rig_wr(&rig, RMEM_WR_WRITE, region, &(struct rig_place){region, 64, 0, 512});
		rig_do(&rig, 0, &wr, RMEM_WC_OK);
	}
	for (uint32_t region = 0; region < RIG_REGIONS; region++) {
		rig_fill(rig.memory, 512, region);
		wr = rig_wr(&rig, RMEM_WR_READ, region, &(struct rig_place){region, 64, 4096, 512});
		rig_do(&rig, 0, &wr, RMEM_WC_OK);
		ck_assert_mem_eq(rig.memory, rig.memory + 4096, 512);
	}
	rig_close(&rig);
}
END_TEST

START_TEST(a_second_connection_sees_the_same_pool)
{
	struct rig_place place = {1, 5000, 0, 300};
	struct rmem_conn *first;
	struct rmem_conn_info info;
	struct rmem_wr wr;

	open_rig(_i);
	rig_fill(rig.memory, 300, 9);
	wr = rig_wr(&rig, RMEM_WR_WRITE, 1, &place);
	rig_do(&rig, 0, &wr, RMEM_WC_OK);
	first = rig.conn;
	info = rig.info;
	rig_connect(&rig);
	ck_assert_uint_ne(rig.info.incarnation, 0);
	ck_assert_uint_eq(rig.info.incarnation, info.incarnation);
	ck_assert_uint_eq(rig.info.region_count, info.region_count);
	for (uint32_t i = 0; i < info.region_count; i++) {
		ck_assert_uint_eq(rig.info.regions[i].length, RIG_REGION_BYTES);
		ck_assert_uint_eq(rig.info.regions[i].id, i);
	}
	rig.fabric->lane_close(rig.lanes[0]);
	rig.fabric->disconnect(first);
	ck_assert_int_eq(rig.fabric->lane_open(rig.conn, rig.cq,
					       &(struct rmem_lane_options){.depth = 8},
					       &rig.lanes[0], NULL),
			 0);
	place.local = 4096;
	wr = rig_wr(&rig, RMEM_WR_READ, 2, &place);
	rig_do(&rig, 0, &wr, RMEM_WC_OK);
	ck_assert_mem_eq(rig.memory, rig.memory + 4096, 300);
	rig_close(&rig);
}
END_TEST

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

START_TEST(requests_of_a_lane_run_and_complete_in_order)
{
	struct rmem_completion completions[30];
	struct rmem_wr wrs[30];

	open_rig(_i);
	/* Each round overwrites the place and reads it into a place of its own. */
	for (size_t i = 0; i < 30; i += 3) {
		memset(rig.memory + i * 512, 0xa0, 512);
		memset(rig.memory + (i + 1) * 512, (int)i + 1, 512);
		wrs[i] = rig_wr(&rig, RMEM_WR_WRITE, i, &(struct rig_place){0, 8, i * 512, 512});
		wrs[i + 1] = rig_wr(&rig, RMEM_WR_WRITE, i + 1,
				    &(struct rig_place){0, 8, (i + 1) * 512, 512});
		wrs[i + 2] = rig_wr(&rig, RMEM_WR_READ, i + 2,
				    &(struct rig_place){0, 8, (i + 2) * 512, 512});
	}
	rig_chain(wrs, 30);
	rig_post(&rig, 0, wrs);
	ck_assert_uint_eq(rig_reap(&rig, completions, 30), 30);
	for (size_t i = 0; i < 30; i++) {
		ck_assert_uint_eq(completions[i].id, i);
		ck_assert_int_eq(completions[i].status, RMEM_WC_OK);
	}
	for (size_t i = 0; i < 30; i += 3)
		ck_assert_mem_eq(rig.memory + (i + 1) * 512, rig.memory + (i + 2) * 512, 512);
	rig_close(&rig);
}
END_TEST

START_TEST(pieces_are_gathered_and_scattered_in_order)
{
	static const uint32_t lengths[] = {1, 4096, 64, 333, 0, 2, 5000, 9};
	struct rmem_wr wr;
	size_t total = 0;

	open_rig(_i);
	rig_fill(rig.memory, 65536, 3);
	wr = rig_wr(&rig, RMEM_WR_WRITE, 1, &(struct rig_place){0, 50, 0, 0});
	wr.sge_count = 8;
	for (size_t i = 0; i < 8; i++) {
		wr.sge[i] = wr.sge[0];
		wr.sge[i].address = rig.memory + i * 8192;
		wr.sge[i].length = lengths[i];
	}
	rig_do(&rig, 0, &wr, RMEM_WC_OK);
	for (size_t i = 0; i < 8; i++) {
		memcpy(rig.memory + 131072 + total, rig.memory + i * 8192, lengths[i]);
		total += lengths[i];
	}
	wr = rig_wr(&rig, RMEM_WR_READ, 2, &(struct rig_place){0, 50, 262144, (uint32_t)total});
	wr.sge_count = 2;
	wr.sge[0].length = 1000;
	wr.sge[1] = wr.sge[0];
	wr.sge[1].address = rig.memory + 262144 + 1000;
	wr.sge[1].length = (uint32_t)total - 1000;
	rig_do(&rig, 0, &wr, RMEM_WC_OK);
	ck_assert_mem_eq(rig.memory + 131072, rig.memory + 262144, total);
	rig_close(&rig);
}
END_TEST

START_TEST(inline_bytes_are_taken_when_posted_from_any_memory)
{
	struct rmem_completion completion;
	char text[33] = "an inline write from the stack..";
	struct rmem_wr wr;

	open_rig(_i);
	wr = rig_wr(&rig, RMEM_WR_WRITE, 1, &(struct rig_place){0, 0, 0, 32});
	wr.flags |= RMEM_WR_INLINE;
	wr.sge[0].address = text;
	wr.sge[0].key = 0;
	rig_post(&rig, 0, &wr);
	memset(text, 'x', sizeof(text));
	ck_assert_uint_eq(rig_reap(&rig, &completion, 1), 1);
	ck_assert_int_eq(completion.status, RMEM_WC_OK);
	wr = rig_wr(&rig, RMEM_WR_READ, 2, &(struct rig_place){0, 0, 0, 32});
	rig_do(&rig, 0, &wr, RMEM_WC_OK);
	ck_assert_mem_eq(rig.memory, "an inline write from the stack..", 32);
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
	Suite *suite = suite_create("fabric");
	TCase *moving = tcase_create("moving"), *queues = tcase_create("queues");

	tcase_add_unchecked_fixture(moving, rig_folder_make, rig_folder_remove);
	tcase_add_unchecked_fixture(queues, rig_folder_make, rig_folder_remove);
	tcase_set_timeout(moving, 60);
	tcase_set_timeout(queues, 60);
	tcase_add_loop_test(moving, bytes_written_are_read_back, 0, rig_provider_count);
	tcase_add_loop_test(moving, a_write_touches_nothing_beside_its_range, 0,
			    rig_provider_count);
	tcase_add_loop_test(moving, regions_are_apart, 0, rig_provider_count);
	tcase_add_loop_test(moving, a_second_connection_sees_the_same_pool, 0, rig_provider_count);
	tcase_add_loop_test(moving, requests_of_a_lane_run_and_complete_in_order, 0,
			    rig_provider_count);
	tcase_add_loop_test(moving, pieces_are_gathered_and_scattered_in_order, 0,
			    rig_provider_count);
	tcase_add_loop_test(moving, inline_bytes_are_taken_when_posted_from_any_memory, 0,
			    rig_provider_count);
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
	suite_add_tcase(suite, moving);
	suite_add_tcase(suite, queues);
	return run_suite(suite);
}
