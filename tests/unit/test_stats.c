/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/stats.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/runner.h"

START_TEST(each_counter_has_a_name_of_its_own)
{
	for (unsigned i = 0; i < RMEM_STAT_COUNT; i++) {
		ck_assert_ptr_nonnull(rmem_stats_name(i));
		for (unsigned j = 0; j < i; j++)
			ck_assert_str_ne(rmem_stats_name(i), rmem_stats_name(j));
	}
	ck_assert_ptr_null(rmem_stats_name(RMEM_STAT_COUNT));
	ck_assert_str_eq(rmem_stats_name(RMEM_STAT_READ_BYTES), "read_bytes");
}
END_TEST

START_TEST(counters_count_apart_from_each_other)
{
	struct rmem_stats stats;
	struct rmem_stats_snapshot now;

	rmem_stats_init(&stats);
	rmem_stats_count(&stats, RMEM_STAT_POLLS);
	rmem_stats_count(&stats, RMEM_STAT_POLLS);
	rmem_stats_add(&stats, RMEM_STAT_WRITE_BYTES, 1ull << 40);
	rmem_stats_read(&stats, &now);
	for (unsigned i = 0; i < RMEM_STAT_COUNT; i++) {
		uint64_t want = i == RMEM_STAT_POLLS	     ? 2
				: i == RMEM_STAT_WRITE_BYTES ? 1ull << 40
							     : 0;

		ck_assert_uint_eq(now.values[i], want);
	}
}
END_TEST

START_TEST(difference_is_what_was_counted_between)
{
	struct rmem_stats stats;
	struct rmem_stats_snapshot before, after;

	rmem_stats_init(&stats);
	rmem_stats_add(&stats, RMEM_STAT_WRS, 10);
	rmem_stats_read(&stats, &before);
	rmem_stats_add(&stats, RMEM_STAT_WRS, 7);
	rmem_stats_count(&stats, RMEM_STAT_CHAINS);
	rmem_stats_read(&stats, &after);
	rmem_stats_difference(&after, &before, &after);
	ck_assert_uint_eq(after.values[RMEM_STAT_WRS], 7);
	ck_assert_uint_eq(after.values[RMEM_STAT_CHAINS], 1);
	ck_assert_uint_eq(after.values[RMEM_STAT_POLLS], 0);
}
END_TEST

START_TEST(sum_adds_reactors_up)
{
	struct rmem_stats_snapshot total = {0}, part = {0};

	part.values[RMEM_STAT_READS] = 3;
	rmem_stats_sum(&total, &part);
	part.values[RMEM_STAT_SLEEPS] = 1;
	rmem_stats_sum(&total, &part);
	ck_assert_uint_eq(total.values[RMEM_STAT_READS], 6);
	ck_assert_uint_eq(total.values[RMEM_STAT_SLEEPS], 1);
}
END_TEST

static struct rmem_stats shared_stats;
static struct rmem_histogram shared_histogram;

#define THREAD_ROUNDS 200000u

static void *write_on(void *unused)
{
	(void)unused;
	for (unsigned i = 0; i < THREAD_ROUNDS; i++) {
		rmem_stats_count(&shared_stats, RMEM_STAT_POLLS);
		rmem_histogram_record(&shared_histogram, i % 1000);
	}
	return NULL;
}

START_TEST(a_reader_beside_the_writer_never_sees_a_counter_go_back)
{
	struct rmem_stats_snapshot last = {0}, now;
	uint64_t count = 0;
	pthread_t writer;

	rmem_stats_init(&shared_stats);
	rmem_histogram_init(&shared_histogram);
	ck_assert_int_eq(pthread_create(&writer, NULL, write_on, NULL), 0);
	do {
		rmem_stats_read(&shared_stats, &now);
		ck_assert_uint_ge(now.values[RMEM_STAT_POLLS], last.values[RMEM_STAT_POLLS]);
		last = now;
		ck_assert_uint_ge(rmem_histogram_count(&shared_histogram), count);
		count = rmem_histogram_count(&shared_histogram);
		ck_assert_uint_le(rmem_histogram_quantile(&shared_histogram, 0.5), 999);
	} while (count < THREAD_ROUNDS);
	pthread_join(writer, NULL);
	rmem_stats_read(&shared_stats, &now);
	ck_assert_uint_eq(now.values[RMEM_STAT_POLLS], THREAD_ROUNDS);
}
END_TEST

START_TEST(empty_histogram_answers_zero)
{
	struct rmem_histogram *histogram = &shared_histogram;

	rmem_histogram_init(histogram);
	ck_assert_uint_eq(rmem_histogram_count(histogram), 0);
	ck_assert_uint_eq(rmem_histogram_quantile(histogram, 0.99), 0);
	ck_assert_uint_eq(rmem_histogram_max(histogram), 0);
	ck_assert_double_eq(rmem_histogram_mean(histogram), 0);
}
END_TEST

START_TEST(values_below_32_are_exact)
{
	struct rmem_histogram *histogram = &shared_histogram;

	rmem_histogram_init(histogram);
	for (unsigned i = 0; i < 32; i++)
		rmem_histogram_record(histogram, i);
	for (unsigned i = 0; i < 32; i++)
		ck_assert_uint_eq(rmem_histogram_quantile(histogram, (i + 1) / 32.0), i);
	ck_assert_uint_eq(rmem_histogram_quantile(histogram, 0), 0);
	ck_assert_double_eq_tol(rmem_histogram_mean(histogram), 15.5, 1e-9);
}
END_TEST

/* The value is the first of two, so that the maximum does not stand in for the bucket's end. */
static void check_within_bucket(uint64_t value)
{
	struct rmem_histogram *histogram = &shared_histogram;
	uint64_t found;

	rmem_histogram_init(histogram);
	rmem_histogram_record(histogram, value);
	rmem_histogram_record(histogram, 1ull << 50);
	found = rmem_histogram_quantile(histogram, 0.5);
	ck_assert_uint_ge(found, value);
	ck_assert_uint_le(found - value, value / 32);
}

START_TEST(values_of_any_size_are_known_to_a_32nd)
{
	for (unsigned bits = 0; bits < RMEM_HISTOGRAM_VALUE_BITS; bits++) {
		uint64_t power = 1ull << bits;

		check_within_bucket(power);
		check_within_bucket(power + power / 3);
		/* The very last bucket is shared with all that is beyond. */
		if (bits < RMEM_HISTOGRAM_VALUE_BITS - 1)
			check_within_bucket(power * 2 - 1);
	}
}
END_TEST

START_TEST(values_beyond_the_last_bucket_keep_the_maximum_exact)
{
	struct rmem_histogram *histogram = &shared_histogram;

	rmem_histogram_init(histogram);
	rmem_histogram_record(histogram, UINT64_MAX / 3);
	ck_assert_uint_eq(rmem_histogram_quantile(histogram, 0.99), UINT64_MAX / 3);
	ck_assert_uint_eq(rmem_histogram_max(histogram), UINT64_MAX / 3);
}
END_TEST

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

START_TEST(quantiles_agree_with_a_sorted_list)
{
	enum { N = 10000 };
	static const double quantiles[] = {0, 0.01, 0.5, 0.9, 0.99, 0.999, 1};
	static uint64_t values[N];
	struct rmem_histogram *histogram = &shared_histogram;

	srandom(7);
	rmem_histogram_init(histogram);
	for (unsigned i = 0; i < N; i++) {
		values[i] = (uint64_t)random() >> (random() % 31);
		rmem_histogram_record(histogram, values[i]);
	}
	qsort(values, N, sizeof(values[0]), compare);
	for (unsigned i = 0; i < RMEM_COUNT_OF(quantiles); i++) {
		double rank = quantiles[i] * N;
		unsigned index = rank < 1 ? 0 : (unsigned)(rank + 0.999999) - 1;
		uint64_t found = rmem_histogram_quantile(histogram, quantiles[i]);

		ck_assert_uint_ge(found, values[index]);
		ck_assert_uint_le(found - values[index], values[index] / 32);
	}
}
END_TEST

START_TEST(merge_is_the_same_as_recording_everything_in_one)
{
	static struct rmem_histogram parts[2], merged, whole;

	for (unsigned i = 0; i < 2; i++)
		rmem_histogram_init(&parts[i]);
	rmem_histogram_init(&merged);
	rmem_histogram_init(&whole);
	for (unsigned i = 0; i < 5000; i++) {
		rmem_histogram_record(&parts[i % 2], i * i);
		rmem_histogram_record(&whole, i * i);
	}
	for (unsigned i = 0; i < 2; i++)
		rmem_histogram_merge(&merged, &parts[i]);
	ck_assert_int_eq(memcmp(&merged, &whole, sizeof(whole)), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("stats");
	TCase *tc = tcase_create("stats");

	tcase_add_test(tc, each_counter_has_a_name_of_its_own);
	tcase_add_test(tc, counters_count_apart_from_each_other);
	tcase_add_test(tc, difference_is_what_was_counted_between);
	tcase_add_test(tc, sum_adds_reactors_up);
	tcase_add_test(tc, a_reader_beside_the_writer_never_sees_a_counter_go_back);
	tcase_add_test(tc, empty_histogram_answers_zero);
	tcase_add_test(tc, values_below_32_are_exact);
	tcase_add_test(tc, values_of_any_size_are_known_to_a_32nd);
	tcase_add_test(tc, values_beyond_the_last_bucket_keep_the_maximum_exact);
	tcase_add_test(tc, quantiles_agree_with_a_sorted_list);
	tcase_add_test(tc, merge_is_the_same_as_recording_everything_in_one);
	suite_add_tcase(suite, tc);
	return run_suite(suite);
}
