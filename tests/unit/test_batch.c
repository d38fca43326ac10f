/* SPDX-License-Identifier: Apache-2.0 */
/* The planner: an example for each rule. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/batch.h"
#include "tests/support/runner.h"

#define KIB	      ((uint64_t)1 << 10)
#define LOCAL	      ((char *)0x10000000)
#define LOCAL_BYTES   ((uint64_t)64 << 20)
#define SEGMENTS_MAX  32
#define REQUESTS_MAX  100
#define REGION_BYTES  ((uint64_t)8 << 20)
#define REGION_KEY(n) (100 + (n))

static const struct rmem_remote regions[] = {
	{.address = (uint64_t)1 << 40, .length = REGION_BYTES, .key = REGION_KEY(0)},
	{.address = 4096, .length = REGION_BYTES, .key = REGION_KEY(1)},
	{.address = 0, .length = 3000, .key = REGION_KEY(2)},
};

/* Two pieces of memory that touch: contiguous, but with keys of their own. */
static struct rmem_memory_map *memory;

static struct rmem_plan_target target;
static struct rmem_batch batch;
static struct rmem_segment segments[SEGMENTS_MAX];
static struct rmem_wr wrs[REQUESTS_MAX];

static void make_memory(void)
{
	memory = calloc(1, sizeof(*memory) + 2 * sizeof(memory->ranges[0]));
	ck_assert_ptr_nonnull(memory);
	memory->count = 2;
	for (uint32_t i = 0; i < 2; i++)
		memory->ranges[i] = (struct rmem_memory_range){
			.start = (uintptr_t)LOCAL + i * LOCAL_BYTES / 2,
			.length = LOCAL_BYTES / 2,
			.keys = {1 + i, 11 + i},
		};
}

static void free_memory(void)
{
	free(memory);
}

static void setup(void)
{
	memset(&target, 0, sizeof(target));
	target.regions = regions;
	target.region_count = RMEM_COUNT_OF(regions);
	target.server = 3;
	target.limits = (struct rmem_plan_limits){
		.chunk_bytes = 64 << 10,
		.chunks_max = 64,
		.piece_max_bytes = 1 << 30,
		.sge_max = RMEM_SGE_MAX,
	};
	rmem_memory_view_set(&target.memory, memory);
	memset(&batch, 0, sizeof(batch));
	batch.op = RMEM_WRITE;
	batch.segments = segments;
	memset(segments, 0, sizeof(segments));
}

static void add(uint64_t local, uint64_t remote, uint64_t length)
{
	segments[batch.segment_count++] = (struct rmem_segment){
		.local = LOCAL + local, .remote = remote, .length = length, .server = 3};
}

/* Plans with a budget; returns the stop. */
static int plan(struct rmem_plan_budget *budget, uint32_t wr_max)
{
	budget->wr_max = wr_max;
	budget->bytes_max = UINT64_MAX;
	budget->id = 77;
	return rmem_plan_fill(&target, &batch, wrs, budget);
}

static uint32_t plan_all(void)
{
	struct rmem_plan_budget budget;

	ck_assert_int_eq(plan(&budget, REQUESTS_MAX), RMEM_PLAN_END);
	return budget.wr_count;
}

static uint64_t wr_bytes(const struct rmem_wr *wr)
{
	uint64_t bytes = 0;

	for (uint64_t i = 0; i < wr->sge_count; i++)
		bytes += wr->sge[i].length;
	return bytes;
}

/* --- Rules ------------------------------------------------------------------------------------ */

START_TEST(a_segment_becomes_a_request_with_keys_and_addresses)
{
	add(512, 8192, 4096);
	ck_assert_uint_eq(plan_all(), 1);
	ck_assert_uint_eq(wrs[0].id, 77);
	ck_assert_uint_eq(wrs[0].op, RMEM_WR_WRITE);
	ck_assert_uint_eq(wrs[0].flags, 0);
	ck_assert_uint_eq(wrs[0].remote_address, ((uint64_t)1 << 40) + 8192);
	ck_assert_uint_eq(wrs[0].remote_key, REGION_KEY(0));
	ck_assert_uint_eq(wrs[0].sge_count, 1);
	ck_assert_ptr_eq(wrs[0].sge[0].address, LOCAL + 512);
	ck_assert_uint_eq(wrs[0].sge[0].length, 4096);
	ck_assert_uint_eq(wrs[0].sge[0].key, 1);
}
END_TEST

START_TEST(neighbours_on_both_sides_become_one_piece)
{
	for (uint64_t i = 0; i < 16; i++)
		add(i * 4096, i * 4096, 4096);
	ck_assert_uint_eq(plan_all(), 1);
	ck_assert_uint_eq(wrs[0].sge_count, 1);
	ck_assert_uint_eq(wrs[0].sge[0].length, 64 << 10);
}
END_TEST

START_TEST(scattered_memory_to_one_remote_run_becomes_one_request)
{
	for (uint64_t i = 0; i < 8; i++)
		add((8 - i) * 8192, i * 4096, 4096);
	ck_assert_uint_eq(plan_all(), 1);
	ck_assert_uint_eq(wrs[0].sge_count, 8);
	for (uint64_t i = 0; i < 8; i++)
		ck_assert_ptr_eq(wrs[0].sge[i].address, LOCAL + (8 - i) * 8192);
}
END_TEST

START_TEST(the_limit_of_pieces_begins_a_new_request)
{
	target.limits.sge_max = 3;
	for (uint64_t i = 0; i < 7; i++)
		add((8 - i) * 8192, i * 4096, 4096);
	ck_assert_uint_eq(plan_all(), 3);
	ck_assert_uint_eq(wrs[0].sge_count, 3);
	ck_assert_uint_eq(wrs[1].sge_count, 3);
	ck_assert_uint_eq(wrs[2].sge_count, 1);
	ck_assert_uint_eq(wrs[1].remote_address, regions[0].address + 3ul * 4096);
}
END_TEST

START_TEST(merging_stops_at_the_chunk)
{
	for (uint64_t i = 0; i < 20; i++)
		add(i * 4096, i * 4096, 4096);
	ck_assert_uint_eq(plan_all(), 2);
	ck_assert_uint_eq(wr_bytes(&wrs[0]), 64 << 10);
	ck_assert_uint_eq(wr_bytes(&wrs[1]), 16 << 10);
}
END_TEST

START_TEST(memory_with_another_key_is_another_piece)
{
	add(LOCAL_BYTES / 2 - 4096, 0, 4096);
	add(LOCAL_BYTES / 2, 4096, 4096);
	ck_assert_uint_eq(plan_all(), 1);
	ck_assert_uint_eq(wrs[0].sge_count, 2);
	ck_assert_uint_eq(wrs[0].sge[0].key, 1);
	ck_assert_uint_eq(wrs[0].sge[1].key, 2);
}
END_TEST

START_TEST(the_port_decides_which_key)
{
	target.memory.port = 1;
	add(0, 0, 10);
	add(LOCAL_BYTES / 2, 100, 10);
	ck_assert_uint_eq(plan_all(), 2);
	ck_assert_uint_eq(wrs[0].sge[0].key, 11);
	ck_assert_uint_eq(wrs[1].sge[0].key, 12);
}
END_TEST

START_TEST(different_regions_and_servers_do_not_merge)
{
	struct rmem_plan_budget budget;

	add(0, 0, 4096);
	add(4096, 4096, 4096);
	segments[1].region = 1;
	add(8192, 8192, 4096);
	segments[2].region = 1;
	segments[2].server = 4;
	ck_assert_int_eq(plan(&budget, 10), RMEM_PLAN_SERVER);
	ck_assert_uint_eq(budget.wr_count, 2);
	ck_assert_uint_eq(wrs[0].remote_key, REGION_KEY(0));
	ck_assert_uint_eq(wrs[1].remote_key, REGION_KEY(1));
	ck_assert_uint_eq(batch.engine.segment, 2);
	target.server = 4;
	ck_assert_int_eq(plan(&budget, 10), RMEM_PLAN_END);
	ck_assert_uint_eq(budget.wr_count, 1);
}
END_TEST

START_TEST(a_chunk_stays_whole_and_more_is_cut)
{
	add(0, 0, 64 * KIB);
	ck_assert_uint_eq(plan_all(), 1);
	setup();
	add(0, 0, 64 * KIB + 1);
	ck_assert_uint_eq(plan_all(), 2);
	ck_assert_uint_eq(wr_bytes(&wrs[0]), 64 * KIB);
	ck_assert_uint_eq(wr_bytes(&wrs[1]), 1);
	ck_assert_uint_eq(wrs[1].remote_address - wrs[0].remote_address, 64 * KIB);
	ck_assert_ptr_eq(wrs[1].sge[0].address, LOCAL + 64 * KIB);
}
END_TEST

START_TEST(the_limit_of_chunks_makes_them_larger)
{
	target.limits.chunks_max = 4;
	add(0, 0, 256 * KIB);
	ck_assert_uint_eq(plan_all(), 4);
	setup();
	target.limits.chunks_max = 4;
	add(0, 0, 256 * KIB + 1);
	ck_assert_uint_eq(plan_all(), 4);
	ck_assert_uint_eq(wr_bytes(&wrs[0]), 68 * KIB); /* whole pages */
	ck_assert_uint_eq(wr_bytes(&wrs[3]), 52 * KIB + 1);
	setup();
	target.limits.chunks_max = 1;
	add(0, 0, REGION_BYTES);
	ck_assert_uint_eq(plan_all(), 1);
}
END_TEST

START_TEST(what_a_request_can_carry_wins_over_the_limit_of_chunks)
{
	target.limits.chunks_max = 2;
	target.limits.piece_max_bytes = 128 << 10;
	add(0, 0, 1024 * KIB);
	ck_assert_uint_eq(plan_all(), 8);
}
END_TEST

START_TEST(small_writes_go_inline_and_reads_do_not)
{
	target.limits.inline_bytes = 100;
	for (uint64_t i = 0; i < 6; i++)
		add(i * 4096, i * 8192, 98 + i);
	ck_assert_uint_eq(plan_all(), 6);
	for (uint64_t i = 0; i < 6; i++)
		ck_assert_uint_eq(wrs[i].flags, i <= 2 ? RMEM_WR_INLINE : 0);
	batch.op = RMEM_READ;
	batch.engine.segment = 0;
	ck_assert_uint_eq(plan_all(), 6);
	for (uint64_t i = 0; i < 6; i++) {
		ck_assert_uint_eq(wrs[i].flags, 0);
		ck_assert_uint_eq(wrs[i].op, RMEM_WR_READ);
	}
}
END_TEST

START_TEST(nothing_is_nothing)
{
	ck_assert_uint_eq(plan_all(), 0);
	add(0, 0, 0);
	add(0, UINT64_MAX, 0);
	ck_assert_uint_eq(plan_all(), 0);
	add(0, 0, 1);
	add(0, 0, 0);
	ck_assert_uint_eq(plan_all(), 1);
}
END_TEST

START_TEST(what_is_wrong_is_found_at_its_turn)
{
	static const struct {
		uint64_t local, remote, length;
		uint32_t region;
		int rc;
	} bad[] = {
		{0, REGION_BYTES, 1, 0, -ERANGE},
		{0, REGION_BYTES - 4095, 4096, 0, -ERANGE},
		{0, UINT64_MAX, 4096, 0, -ERANGE},
		{0, 0, UINT64_MAX, 0, -ERANGE},
		{0, 0, 3001, 2, -ERANGE},
		{0, 0, 1, 3, -EINVAL},
		{0, 0, 4096, 3, -EINVAL},
		{0, 0, 1, UINT32_MAX, -EINVAL},
		{LOCAL_BYTES, 0, 1, 0, -EINVAL},
		{LOCAL_BYTES - 1, 0, 2, 0, -EINVAL},
		{LOCAL_BYTES - 4095, 0, 4096, 0, -EINVAL},
		{UINT64_MAX, 0, 4096, 0, -EINVAL},
		{LOCAL_BYTES / 2 - 1, 0, 2, 0, -EINVAL}, /* two keys for one segment */
		{UINT64_MAX, 0, 1, 0, -EINVAL},
	};
	struct rmem_plan_budget budget;

	for (unsigned good = 0; good < 4; good++) {
		for (size_t i = 0; i < RMEM_COUNT_OF(bad); i++) {
			setup();
			for (uint64_t n = 0; n < good; n++)
				add(n * 4096, n * 8192, 4096);
			add(bad[i].local, bad[i].remote, bad[i].length);
			segments[good].region = bad[i].region;
			add(0, 0, 1);
			ck_assert_int_eq(plan(&budget, 100), bad[i].rc);
			ck_assert_uint_eq(budget.wr_count, good);
			ck_assert_uint_eq(batch.engine.segment, good);
		}
	}
}
END_TEST

START_TEST(a_budget_of_bytes_ends_after_the_request_that_reaches_it)
{
	for (uint64_t bytes_max = 1024; bytes_max <= 6 * 4096; bytes_max += 1024) {
		struct rmem_plan_budget budget = {.wr_max = 100, .bytes_max = bytes_max};
		uint64_t count = (bytes_max + 4095) / 4096;

		setup();
		for (uint64_t i = 0; i < 10; i++)
			add(i * 4096, i * 8192, 4096);
		ck_assert_int_eq(rmem_plan_fill(&target, &batch, wrs, &budget), RMEM_PLAN_BUDGET);
		ck_assert_uint_eq(budget.wr_count, count);
		ck_assert_uint_eq(budget.bytes, count * 4096);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("batch");
	TCase *tcase = tcase_create("planner");

	tcase_set_timeout(tcase, 60);
	tcase_add_unchecked_fixture(tcase, make_memory, free_memory);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_test(tcase, a_segment_becomes_a_request_with_keys_and_addresses);
	tcase_add_test(tcase, neighbours_on_both_sides_become_one_piece);
	tcase_add_test(tcase, scattered_memory_to_one_remote_run_becomes_one_request);
	tcase_add_test(tcase, the_limit_of_pieces_begins_a_new_request);
	tcase_add_test(tcase, merging_stops_at_the_chunk);
	tcase_add_test(tcase, memory_with_another_key_is_another_piece);
	tcase_add_test(tcase, the_port_decides_which_key);
	tcase_add_test(tcase, different_regions_and_servers_do_not_merge);
	tcase_add_test(tcase, a_chunk_stays_whole_and_more_is_cut);
	tcase_add_test(tcase, the_limit_of_chunks_makes_them_larger);
	tcase_add_test(tcase, what_a_request_can_carry_wins_over_the_limit_of_chunks);
	tcase_add_test(tcase, small_writes_go_inline_and_reads_do_not);
	tcase_add_test(tcase, nothing_is_nothing);
	tcase_add_test(tcase, what_is_wrong_is_found_at_its_turn);
	tcase_add_test(tcase, a_budget_of_bytes_ends_after_the_request_that_reaches_it);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
