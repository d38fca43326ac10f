/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/staging.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "engine/stream.h"
#include "tests/support/runner.h"

#define SLOTS	   70u /* more than one word of the bitmap */
#define SLOT_BYTES (2 * RMEM_PAGE_BYTES)
#define HUGE_BYTES ((size_t)2 << 20)

static struct rmem_arena arena;
static struct rmem_error error;

static void start(unsigned slot_count, size_t slot_bytes, enum rmem_huge_pages policy)
{
	struct rmem_arena_options options = {
		.slot_bytes = slot_bytes, .slot_count = slot_count, .huge_pages = policy};
	int rc = rmem_arena_init(&arena, &options, &error);

	ck_assert_msg(rc == 0, "%s", error.text);
}

static void setup(void)
{
	start(SLOTS, SLOT_BYTES, RMEM_HUGE_OFF);
}

static void teardown(void)
{
	rmem_arena_finish(&arena);
}

static int refused(unsigned slot_count, size_t slot_bytes, enum rmem_huge_pages policy)
{
	struct rmem_arena_options options = {
		.slot_bytes = slot_bytes, .slot_count = slot_count, .huge_pages = policy};
	int rc = rmem_arena_init(&arena, &options, &error);

	ck_assert_int_ne(rc, 0);
	ck_assert_int_eq(error.code, rc);
	ck_assert_ptr_null(arena.base);
	rmem_arena_finish(&arena);
	return rc;
}

START_TEST(slots_are_distinct_aligned_and_inside)
{
	bool seen[SLOTS] = {false};

	for (unsigned i = 0; i < SLOTS; i++) {
		unsigned char *slot = rmem_arena_get(&arena);
		size_t offset = (size_t)(slot - arena.base);

		ck_assert_ptr_nonnull(slot);
		ck_assert_uint_eq((uintptr_t)slot % RMEM_PAGE_BYTES, 0);
		ck_assert_uint_eq(offset % SLOT_BYTES, 0);
		ck_assert_uint_le(offset + SLOT_BYTES, arena.length);
		ck_assert(!seen[offset / SLOT_BYTES]);
		seen[offset / SLOT_BYTES] = true;
		memset(slot, (int)i, SLOT_BYTES);
	}
}
END_TEST

START_TEST(exhaustion_returns_null_until_a_slot_comes_back)
{
	void *slot = NULL;

	for (unsigned i = 0; i < SLOTS; i++)
		slot = rmem_arena_get(&arena);
	ck_assert_ptr_null(rmem_arena_get(&arena));
	ck_assert_ptr_null(rmem_arena_get(&arena));
	rmem_arena_put(&arena, slot);
	ck_assert_ptr_eq(rmem_arena_get(&arena), slot);
	ck_assert_ptr_null(rmem_arena_get(&arena));
}
END_TEST

START_TEST(the_slot_put_back_last_is_taken_first)
{
	void *a = rmem_arena_get(&arena), *b = rmem_arena_get(&arena), *c = rmem_arena_get(&arena);

	rmem_arena_put(&arena, c);
	rmem_arena_put(&arena, a);
	rmem_arena_put(&arena, b);
	ck_assert_ptr_eq(rmem_arena_get(&arena), b);
	ck_assert_ptr_eq(rmem_arena_get(&arena), a);
	ck_assert_ptr_eq(rmem_arena_get(&arena), c);
}
END_TEST

START_TEST(random_gets_and_puts_never_hand_out_a_slot_twice)
{
	void *held[SLOTS];
	unsigned count = 0;

	srandom(11);
	for (unsigned round = 0; round < 100000; round++) {
		if (random() % 2 == 0) {
			unsigned char *slot = rmem_arena_get(&arena);

			if ((slot == NULL) != (count == SLOTS))
				ck_abort_msg("%u held, get gave %p", count, (void *)slot);
			for (unsigned i = 0; slot != NULL && i < count; i++) {
				if (held[i] == slot)
					ck_abort_msg("slot handed out twice");
			}
			if (slot != NULL)
				held[count++] = slot;
		} else if (count > 0) {
			unsigned i = (unsigned)random() % count;

			rmem_arena_put(&arena, held[i]);
			held[i] = held[--count];
		}
	}
}
END_TEST

START_TEST(statistics_tell_use_its_maximum_and_refusals)
{
	struct rmem_arena_stats stats;
	void *slots[SLOTS];

	for (unsigned i = 0; i < SLOTS; i++)
		slots[i] = rmem_arena_get(&arena);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_ptr_null(rmem_arena_get(&arena));
	for (unsigned i = 5; i < SLOTS; i++)
		rmem_arena_put(&arena, slots[i]);
	rmem_arena_read(&arena, &stats);
	ck_assert_uint_eq(stats.slots, SLOTS);
	ck_assert_uint_eq(stats.used, 5);
	ck_assert_uint_eq(stats.used_max, SLOTS);
	ck_assert_uint_eq(stats.refused, 3);
}
END_TEST

static void *take_and_return(void *unused)
{
	(void)unused;
	for (unsigned i = 0; i < 100000; i++)
		rmem_arena_put(&arena, rmem_arena_get(&arena));
	return NULL;
}

START_TEST(statistics_can_be_read_beside_the_owner)
{
	struct rmem_arena_stats stats;
	pthread_t owner;

	ck_assert_int_eq(pthread_create(&owner, NULL, take_and_return, NULL), 0);
	for (unsigned i = 0; i < 10000; i++) {
		rmem_arena_read(&arena, &stats);
		if (stats.used > 1 || stats.used_max > 1)
			ck_abort_msg("%u used, %u at most", stats.used, stats.used_max);
	}
	pthread_join(owner, NULL);
	rmem_arena_read(&arena, &stats);
	ck_assert_uint_eq(stats.used, 0);
	ck_assert_uint_eq(stats.used_max, 1);
}
END_TEST

START_TEST(put_of_a_free_slot_is_caught)
{
	void *slot = rmem_arena_get(&arena);

	rmem_arena_put(&arena, slot);
	rmem_arena_put(&arena, slot);
}
END_TEST

START_TEST(put_of_a_slot_never_taken_is_caught)
{
	rmem_arena_get(&arena);
	rmem_arena_put(&arena, arena.base + SLOT_BYTES);
}
END_TEST

START_TEST(put_of_a_pointer_into_a_slot_is_caught)
{
	unsigned char *slot = rmem_arena_get(&arena);

	rmem_arena_put(&arena, slot + RMEM_PAGE_BYTES);
}
END_TEST

START_TEST(put_of_foreign_memory_is_caught)
{
	static unsigned char foreign[SLOT_BYTES];

	rmem_arena_get(&arena);
	rmem_arena_put(&arena, foreign);
}
END_TEST

START_TEST(put_beyond_the_last_slot_is_caught)
{
	rmem_arena_get(&arena);
	rmem_arena_put(&arena, arena.base + (size_t)SLOTS * SLOT_BYTES);
}
END_TEST

START_TEST(put_in_front_of_the_first_slot_is_caught)
{
	rmem_arena_get(&arena);
	rmem_arena_put(&arena, arena.base - SLOT_BYTES);
}
END_TEST

START_TEST(memory_is_there_before_the_first_use)
{
	unsigned char resident[SLOTS * SLOT_BYTES / RMEM_PAGE_BYTES];

	ck_assert_int_eq(mincore(arena.base, SLOTS * SLOT_BYTES, resident), 0);
	for (unsigned i = 0; i < sizeof(resident); i++)
		ck_assert_uint_eq(resident[i] & 1, 1);
}
END_TEST

START_TEST(finish_takes_zeroed_and_finished_arenas)
{
	struct rmem_arena empty = {0};

	rmem_arena_finish(&empty);
	rmem_arena_finish(&arena);
	rmem_arena_finish(&arena);
	setup();
	ck_assert_ptr_nonnull(rmem_arena_get(&arena));
}
END_TEST

START_TEST(sizes_that_make_no_arena_are_refused)
{
	ck_assert_int_eq(refused(1, 0, RMEM_HUGE_OFF), -EINVAL);
	ck_assert_int_eq(refused(1, RMEM_PAGE_BYTES + 512, RMEM_HUGE_OFF), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.text, "4608"));
	ck_assert_int_eq(refused(0, RMEM_PAGE_BYTES, RMEM_HUGE_OFF), -EINVAL);
	ck_assert_int_eq(refused(UINT32_MAX, SIZE_MAX / 4 / RMEM_PAGE_BYTES * RMEM_PAGE_BYTES,
				 RMEM_HUGE_OFF),
			 -EINVAL);
}
END_TEST

START_TEST(more_than_the_memory_of_the_machine_is_refused_with_both_figures)
{
	/* 64 TiB */
	ck_assert_int_eq(refused(1u << 24, (size_t)1 << 22, RMEM_HUGE_AUTO), -ENOMEM);
	ck_assert_ptr_nonnull(strstr(error.text, "67108864 MiB"));
	ck_assert_ptr_nonnull(strstr(error.text, "free here"));
}
END_TEST

/* Sanitizers map terabytes of their own and cannot live under such a limit. */
#if defined(__has_feature)
#define CLANG_SANITIZER (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define CLANG_SANITIZER 0
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !CLANG_SANITIZER
START_TEST(a_limit_on_memory_is_named)
{
	struct rlimit limit = {.rlim_cur = 256 << 20, .rlim_max = 256 << 20};

	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	ck_assert_int_eq(refused(256, 1 << 20, RMEM_HUGE_OFF), -ENOMEM);
	ck_assert_ptr_nonnull(strstr(error.text, "ulimit"));
	ck_assert_ptr_nonnull(strstr(error.text, "262144 KiB"));
}
END_TEST
#endif

START_TEST(off_takes_normal_pages)
{
	ck_assert_int_eq((int)arena.pages, RMEM_ARENA_NORMAL);
	ck_assert_uint_eq(arena.length, SLOTS * SLOT_BYTES);
}
END_TEST

START_TEST(auto_takes_huge_pages_or_starts_where_one_could)
{
	start(5, 1 << 20, RMEM_HUGE_AUTO);
	ck_assert_uint_ge(arena.length, 5 << 20);
	if (arena.pages != RMEM_ARENA_NORMAL)
		ck_assert_uint_eq((uintptr_t)arena.base % HUGE_BYTES, 0);
	if (arena.pages == RMEM_ARENA_HUGETLB)
		ck_assert_uint_eq(arena.length % HUGE_BYTES, 0);
	for (unsigned i = 0; i < 5; i++)
		memset(rmem_arena_get(&arena), 1, 1 << 20);
	ck_assert_ptr_null(rmem_arena_get(&arena));
}
END_TEST

START_TEST(auto_wastes_no_huge_page_on_a_small_arena)
{
	start(4, RMEM_PAGE_BYTES, RMEM_HUGE_AUTO);
	ck_assert_int_eq((int)arena.pages, RMEM_ARENA_NORMAL);
	ck_assert_uint_eq(arena.length, 4 * RMEM_PAGE_BYTES);
}
END_TEST

/* Whichever way this machine is set up, and although others may take the pages meanwhile. */
START_TEST(require_gets_huge_pages_or_says_how_many_are_missing)
{
	struct rmem_arena_options options = {
		.slot_bytes = 1 << 20, .slot_count = 3, .huge_pages = RMEM_HUGE_REQUIRE};
	int rc = rmem_arena_init(&arena, &options, &error);

	if (rc == 0) {
		ck_assert_int_eq((int)arena.pages, RMEM_ARENA_HUGETLB);
		ck_assert_uint_eq(arena.length, 2 * HUGE_BYTES);
		return;
	}
	ck_assert_int_eq(rc, -ENOMEM);
	ck_assert_ptr_nonnull(strstr(error.text, "needs 2 huge pages of 2 MiB"));
	ck_assert_ptr_nonnull(strstr(error.text, "vm.nr_hugepages"));
}
END_TEST

START_TEST(each_kind_of_page_has_a_name)
{
	ck_assert_str_eq(rmem_arena_pages_name(RMEM_ARENA_NORMAL), "normal");
	ck_assert_str_eq(rmem_arena_pages_name(RMEM_ARENA_TRANSPARENT), "transparent huge");
	ck_assert_str_eq(rmem_arena_pages_name(RMEM_ARENA_HUGETLB), "huge");
}
END_TEST

/* So many pages go out, never to be seen again, that the policy trusts the next ones. */
static void stage_cold_pages(void)
{
	for (uintptr_t i = 0; i < 2048; i++)
		rmem_stream_policy_note_write(&rmem_staging_policy,
					      (void *)((0x10000 + i) * RMEM_PAGE_BYTES),
					      RMEM_PAGE_BYTES);
}

START_TEST(whole_pages_from_the_threshold_on_are_streamed)
{
	struct rmem_arena_options options = {
		.slot_bytes = SLOT_BYTES, .slot_count = 1, .stream_threshold_bytes = 8192};

	ck_assert_int_eq(rmem_arena_init(&arena, &options, &error), 0);
	ck_assert(!rmem_staging_should_stream(&arena, 8192));
	stage_cold_pages();
	ck_assert(!rmem_staging_should_stream(&arena, 0));
	ck_assert(!rmem_staging_should_stream(&arena, 4096));
	ck_assert(rmem_staging_should_stream(&arena, 8192));
	ck_assert(rmem_staging_should_stream(&arena, 1 << 20));
	ck_assert(!rmem_staging_should_stream(&arena, 8193));
	ck_assert(!rmem_staging_should_stream(&arena, 12287));
}
END_TEST

START_TEST(staged_bytes_are_the_same_streamed_or_not)
{
	static unsigned char from[SLOT_BYTES], back[SLOT_BYTES];
	struct rmem_arena_options options = {
		.slot_bytes = SLOT_BYTES, .slot_count = 1, .stream_threshold_bytes = 4096};
	unsigned char *slot;

	ck_assert_int_eq(rmem_stream_select(RMEM_STREAM_AUTO, &error), 0);
	ck_assert_int_eq(rmem_arena_init(&arena, &options, &error), 0);
	slot = rmem_arena_get(&arena);
	for (unsigned i = 0; i < SLOT_BYTES; i++)
		from[i] = (unsigned char)(i * 31 + i / 256);
	for (int i = 0; i < 2; i++) {
		ck_assert(rmem_staging_should_stream(&arena, SLOT_BYTES) == (i == 1));
		rmem_staging_copy_out(&arena, slot, from, SLOT_BYTES);
		ck_assert_mem_eq(slot, from, SLOT_BYTES);
		rmem_staging_copy_in(back, slot, SLOT_BYTES);
		ck_assert_mem_eq(back, from, SLOT_BYTES);
		rmem_staging_fill_out(&arena, slot + 1, 0x5a, SLOT_BYTES - 1);
		ck_assert_uint_eq(slot[0], from[0]);
		for (unsigned k = 1; k < SLOT_BYTES; k++)
			ck_assert_uint_eq(slot[k], 0x5a);
		stage_cold_pages();
	}
}
END_TEST

START_TEST(staged_pages_that_are_read_back_end_streaming)
{
	static unsigned char from[SLOT_BYTES];
	struct rmem_arena_options options = {
		.slot_bytes = SLOT_BYTES, .slot_count = 16, .stream_threshold_bytes = 4096};

	ck_assert_int_eq(rmem_arena_init(&arena, &options, &error), 0);
	stage_cold_pages();
	ck_assert(rmem_staging_should_stream(&arena, SLOT_BYTES));
	for (unsigned i = 0; i < 64; i++) {
		unsigned char *slot = arena.base + i % 16 * SLOT_BYTES;

		rmem_staging_copy_out(&arena, slot, from, SLOT_BYTES);
		rmem_staging_copy_in(from, slot, SLOT_BYTES);
	}
	ck_assert(!rmem_staging_should_stream(&arena, SLOT_BYTES));
}
END_TEST

START_TEST(threshold_zero_means_the_measured_one)
{
	ck_assert_uint_eq(arena.stream_threshold_bytes, rmem_stream_threshold_bytes());
}
END_TEST

static void add_misuse_cases(TCase *tc)
{
	tcase_add_test_raise_signal(tc, put_of_a_free_slot_is_caught, SIGABRT);
	tcase_add_test_raise_signal(tc, put_of_a_slot_never_taken_is_caught, SIGABRT);
	tcase_add_test_raise_signal(tc, put_of_a_pointer_into_a_slot_is_caught, SIGABRT);
	tcase_add_test_raise_signal(tc, put_of_foreign_memory_is_caught, SIGABRT);
	tcase_add_test_raise_signal(tc, put_beyond_the_last_slot_is_caught, SIGABRT);
	tcase_add_test_raise_signal(tc, put_in_front_of_the_first_slot_is_caught, SIGABRT);
}

int main(void)
{
	Suite *suite = suite_create("staging");
	TCase *started = tcase_create("arena"), *bare = tcase_create("start");

	tcase_add_checked_fixture(started, setup, teardown);
	tcase_add_test(started, slots_are_distinct_aligned_and_inside);
	tcase_add_test(started, exhaustion_returns_null_until_a_slot_comes_back);
	tcase_add_test(started, the_slot_put_back_last_is_taken_first);
	tcase_add_test(started, random_gets_and_puts_never_hand_out_a_slot_twice);
	tcase_add_test(started, statistics_tell_use_its_maximum_and_refusals);
	tcase_add_test(started, statistics_can_be_read_beside_the_owner);
	tcase_add_test(started, memory_is_there_before_the_first_use);
	tcase_add_test(started, finish_takes_zeroed_and_finished_arenas);
	tcase_add_test(started, off_takes_normal_pages);
	tcase_add_test(started, threshold_zero_means_the_measured_one);
	add_misuse_cases(started);
	suite_add_tcase(suite, started);

	tcase_add_checked_fixture(bare, NULL, teardown);
	tcase_add_test(bare, sizes_that_make_no_arena_are_refused);
	tcase_add_test(bare, more_than_the_memory_of_the_machine_is_refused_with_both_figures);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !CLANG_SANITIZER
	tcase_add_test(bare, a_limit_on_memory_is_named);
#endif
	tcase_add_test(bare, auto_takes_huge_pages_or_starts_where_one_could);
	tcase_add_test(bare, auto_wastes_no_huge_page_on_a_small_arena);
	tcase_add_test(bare, require_gets_huge_pages_or_says_how_many_are_missing);
	tcase_add_test(bare, each_kind_of_page_has_a_name);
	tcase_add_test(bare, whole_pages_from_the_threshold_on_are_streamed);
	tcase_add_test(bare, staged_bytes_are_the_same_streamed_or_not);
	tcase_add_test(bare, staged_pages_that_are_read_back_end_streaming);
	suite_add_tcase(suite, bare);
	return run_suite(suite);
}
