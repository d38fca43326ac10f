/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of engine/fabric.h, held against every provider: how bytes move. How their
 * completions come is in test_fabric_queues.c, and what happens when something fails in
 * test_fabric_errors.c. */
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

/* The filesystem does not stage writes for such a fabric: there is nothing to wait for. */
START_TEST(a_fabric_that_copies_is_done_when_it_is_posted_to)
{
	struct rmem_completion completions[2];
	struct rmem_wr wrs[2];

	open_rig(_i);
	ck_assert(rig.fabric->is_copy == (strcmp(rig.fabric->scheme, "shm") == 0));
	rig_fill(rig.memory, 65536, 4);
	wrs[0] = rig_wr(&rig, RMEM_WR_WRITE, 1, &(struct rig_place){0, 0, 0, 65536});
	wrs[1] = rig_wr(&rig, RMEM_WR_READ, 2, &(struct rig_place){0, 0, 65536, 65536});
	rig_chain(wrs, 2);
	rig_post(&rig, 0, wrs);
	if (rig.fabric->is_copy)
		ck_assert_mem_eq(rig.memory, rig.memory + 65536, 65536);
	ck_assert_uint_eq(rig_reap(&rig, completions, 2), 2);
	rig_close(&rig);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fabric");
	TCase *moving = tcase_create("moving");

	tcase_add_unchecked_fixture(moving, rig_folder_make, rig_folder_remove);
	tcase_set_timeout(moving, 60);
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
	tcase_add_loop_test(moving, a_fabric_that_copies_is_done_when_it_is_posted_to, 0,
			    rig_provider_count);
	suite_add_tcase(suite, moving);
	return run_suite(suite);
}
