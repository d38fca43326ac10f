/* SPDX-License-Identifier: Apache-2.0 */
/* The policy over addresses that it never touches: which traffic makes it stream, which keeps it
 * from that, and how soon it changes its mind. */
#include "engine/stream_policy.h"

#include <pthread.h>

#include "engine/base/hint.h"
#include "engine/stream.h"
#include "tests/support/runner.h"

#define PAGE  ((uintptr_t)RMEM_PAGE_BYTES)
#define CHUNK (16 * PAGE)

static struct rmem_stream_policy policy;
static uintptr_t cold = 1u << 20; /* the next page that nobody has seen yet */

static void set_up(void)
{
	rmem_stream_policy_init(&policy);
}

static void *pages_at(uintptr_t page)
{
	return (void *)(page * PAGE);
}

static void write_cold(unsigned chunks)
{
	for (; chunks > 0; chunks--, cold += CHUNK / PAGE)
		rmem_stream_policy_note_write(&policy, pages_at(cold), CHUNK);
}

/* Reads `percent` of what it writes right back. */
static void write_and_read(unsigned chunks, unsigned percent)
{
	for (unsigned i = 0; i < chunks; i++) {
		write_cold(1);
		if (i * percent / 100 != (i + 1) * percent / 100)
			rmem_stream_policy_note_read(&policy, pages_at(cold - CHUNK / PAGE), CHUNK);
	}
}

START_TEST(it_begins_with_ordinary_stores)
{
	ck_assert(!rmem_stream_policy_wants(&policy));
}
END_TEST

START_TEST(bytes_that_only_go_out_are_streamed_after_some_megabytes)
{
	write_cold(64);
	ck_assert(rmem_stream_policy_wants(&policy));
	write_cold(1000);
	ck_assert(rmem_stream_policy_wants(&policy));
}
END_TEST

START_TEST(bytes_that_are_read_back_are_not)
{
	write_and_read(1000, 100);
	ck_assert(!rmem_stream_policy_wants(&policy));
}
END_TEST

/* Half of the requests are reads of what was just written. */
START_TEST(a_quarter_read_back_is_too_much)
{
	write_and_read(1000, 25);
	ck_assert(!rmem_stream_policy_wants(&policy));
}
END_TEST

START_TEST(a_few_read_back_are_not)
{
	write_and_read(2000, 3);
	ck_assert(rmem_stream_policy_wants(&policy));
}
END_TEST

START_TEST(it_changes_its_mind_both_ways_within_some_megabytes)
{
	for (unsigned i = 0; i < 5; i++) {
		write_cold(96);
		ck_assert(rmem_stream_policy_wants(&policy));
		write_and_read(8, 100);
		ck_assert(!rmem_stream_policy_wants(&policy));
	}
}
END_TEST

START_TEST(what_is_written_again_soon_is_not_streamed)
{
	for (unsigned i = 0; i < 1000; i++)
		rmem_stream_policy_note_write(&policy, pages_at(4096 + i % 8 * 16), CHUNK);
	ck_assert(!rmem_stream_policy_wants(&policy));
}
END_TEST

START_TEST(what_was_read_just_before_is_not_streamed)
{
	write_cold(1);
	for (unsigned i = 0; i < 100; i++, cold += CHUNK / PAGE) {
		rmem_stream_policy_note_read(&policy, pages_at(cold), CHUNK);
		rmem_stream_policy_note_write(&policy, pages_at(cold), CHUNK);
	}
	ck_assert(!rmem_stream_policy_wants(&policy));
}
END_TEST

START_TEST(what_is_read_after_it_left_the_caches_is_streamed)
{
	unsigned behind = 2 * policy.window_pages / (CHUNK / PAGE);

	write_cold(behind);
	for (unsigned i = 0; i < 1000; i++) {
		write_cold(1);
		rmem_stream_policy_note_read(&policy,
					     pages_at(cold - (behind + 1) * (CHUNK / PAGE)), CHUNK);
	}
	ck_assert(rmem_stream_policy_wants(&policy));
}
END_TEST

START_TEST(a_read_counts_once_however_small_its_pieces)
{
	for (unsigned i = 0; i < 1000; i++) {
		write_cold(1);
		if (i % 32 != 0)
			continue;
		for (unsigned again = 0; again < 8; again++) {
			for (uintptr_t page = cold - CHUNK / PAGE; page < cold; page++)
				rmem_stream_policy_note_read(&policy, pages_at(page), PAGE);
		}
	}
	ck_assert(rmem_stream_policy_wants(&policy));
}
END_TEST

START_TEST(single_pages_are_watched_as_well)
{
	for (unsigned i = 0; i < 4000; i++, cold++) {
		rmem_stream_policy_note_write(&policy, pages_at(cold), PAGE);
		if (i > 2000)
			rmem_stream_policy_note_read(&policy, pages_at(cold), PAGE);
		if (i == 2000)
			ck_assert(rmem_stream_policy_wants(&policy));
	}
	ck_assert(!rmem_stream_policy_wants(&policy));
}
END_TEST

START_TEST(reads_before_any_write_cost_nothing)
{
	rmem_stream_policy_note_read(&policy, pages_at(4096), CHUNK);
	ck_assert_uint_eq(atomic_load(&policy.clock), 0);
}
END_TEST

static void *traffic(void *argument)
{
	uintptr_t from = (uintptr_t)argument;

	for (uintptr_t i = 0; i < 20000; i++) {
		rmem_stream_policy_note_write(&policy, pages_at(from + i * 16), CHUNK);
		rmem_stream_policy_note_read(&policy, pages_at(from + i * 16), CHUNK);
	}
	return NULL;
}

START_TEST(threads_may_share_it)
{
	pthread_t threads[3];

	for (uintptr_t i = 0; i < 3; i++)
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL, traffic, (void *)((i + 1) << 24)), 0);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	ck_assert(!rmem_stream_policy_wants(&policy));
	write_cold(1000);
	ck_assert(rmem_stream_policy_wants(&policy));
}
END_TEST

START_TEST(without_streaming_stores_nothing_is_long_enough)
{
	ck_assert_int_eq(rmem_stream_select(RMEM_STREAM_OFF, NULL), 0);
	ck_assert_uint_eq(rmem_stream_threshold_bytes(), RMEM_STREAM_NEVER);
}
END_TEST

START_TEST(the_measured_threshold_is_whole_pages_and_stays)
{
	size_t found;

	ck_assert_int_eq(rmem_stream_select(RMEM_STREAM_AUTO, NULL), 0);
	found = rmem_stream_threshold_bytes();
	if (found != RMEM_STREAM_NEVER) {
		ck_assert_uint_eq(found % RMEM_PAGE_BYTES, 0);
		ck_assert_uint_ge(found, RMEM_PAGE_BYTES);
		ck_assert_uint_le(found, 64 << 10);
	}
	ck_assert_uint_eq(rmem_stream_threshold_bytes(), found);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("stream_policy");
	TCase *tc = tcase_create("policy");

	tcase_add_checked_fixture(tc, set_up, NULL);
	tcase_add_test(tc, it_begins_with_ordinary_stores);
	tcase_add_test(tc, bytes_that_only_go_out_are_streamed_after_some_megabytes);
	tcase_add_test(tc, bytes_that_are_read_back_are_not);
	tcase_add_test(tc, a_quarter_read_back_is_too_much);
	tcase_add_test(tc, a_few_read_back_are_not);
	tcase_add_test(tc, it_changes_its_mind_both_ways_within_some_megabytes);
	tcase_add_test(tc, what_is_written_again_soon_is_not_streamed);
	tcase_add_test(tc, what_was_read_just_before_is_not_streamed);
	tcase_add_test(tc, what_is_read_after_it_left_the_caches_is_streamed);
	tcase_add_test(tc, a_read_counts_once_however_small_its_pieces);
	tcase_add_test(tc, single_pages_are_watched_as_well);
	tcase_add_test(tc, reads_before_any_write_cost_nothing);
	tcase_add_test(tc, threads_may_share_it);
	tcase_add_test(tc, without_streaming_stores_nothing_is_long_enough);
	tcase_add_test(tc, the_measured_threshold_is_whole_pages_and_stays);
	suite_add_tcase(suite, tc);
	return run_suite(suite);
}
