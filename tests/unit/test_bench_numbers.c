/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_numbers.h"

#include "engine/base/hint.h"
#include "tests/support/runner.h"

START_TEST(the_median_of_an_odd_number_is_the_middle_one)
{
	double values[] = {5, 1, 100, 3, 2};
	struct bench_summary summary;

	bench_summarize(values, 5, &summary);
	ck_assert_double_eq(summary.median, 3);
	ck_assert_double_eq(summary.min, 1);
	ck_assert_double_eq(summary.max, 100);
	ck_assert_double_eq_tol(summary.spread_percent, 3300, 1e-9);
}
END_TEST

START_TEST(the_median_of_an_even_number_is_the_mean_of_the_middle_two)
{
	double values[] = {8, 2, 4, 100};
	struct bench_summary summary;

	bench_summarize(values, 4, &summary);
	ck_assert_double_eq(summary.median, 6);
}
END_TEST

START_TEST(one_value_is_its_own_summary_without_spread)
{
	double value = 7;
	struct bench_summary summary;

	bench_summarize(&value, 1, &summary);
	ck_assert_double_eq(summary.median, 7);
	ck_assert_double_eq(summary.min, 7);
	ck_assert_double_eq(summary.max, 7);
	ck_assert_double_eq(summary.spread_percent, 0);
}
END_TEST

START_TEST(nothing_and_zeroes_have_no_spread)
{
	double zeroes[] = {0, 0};
	struct bench_summary summary = {.median = 9};

	bench_summarize(NULL, 0, &summary);
	ck_assert_double_eq(summary.median, 0);
	bench_summarize(zeroes, 2, &summary);
	ck_assert_double_eq(summary.spread_percent, 0);
}
END_TEST

START_TEST(a_percentile_is_the_least_value_that_covers_its_share)
{
	uint64_t values[100];

	for (unsigned i = 0; i < 100; i++)
		values[i] = 100 - i;
	bench_sort(values, 100);
	ck_assert_uint_eq(bench_percentile(values, 100, 0), 1);
	ck_assert_uint_eq(bench_percentile(values, 100, 0.5), 50);
	ck_assert_uint_eq(bench_percentile(values, 100, 0.501), 51);
	ck_assert_uint_eq(bench_percentile(values, 100, 0.99), 99);
	ck_assert_uint_eq(bench_percentile(values, 100, 1), 100);
	ck_assert_uint_eq(bench_percentile(values, 1, 0.99), 1);
	ck_assert_uint_eq(bench_percentile(values, 0, 0.5), 0);
}
END_TEST

START_TEST(percentiles_agree_with_counting)
{
	uint64_t values[37];

	for (unsigned i = 0; i < 37; i++)
		values[i] = i * i * 2654435761u % 50;
	bench_sort(values, 37);
	for (unsigned percent = 1; percent <= 100; percent++) {
		uint64_t found = bench_percentile(values, 37, percent / 100.0);
		unsigned at_most = 0, below = 0;

		for (unsigned i = 0; i < 37; i++) {
			at_most += values[i] <= found;
			below += values[i] < found;
		}
		ck_assert_uint_ge(at_most * 100, percent * 37);
		ck_assert_uint_lt(below * 100, percent * 37);
	}
}
END_TEST

START_TEST(means_are_means)
{
	const uint64_t values[] = {1, 2, 6};

	ck_assert_double_eq(bench_mean(values, 3), 3);
	ck_assert_double_eq(bench_mean(values, 0), 0);
}
END_TEST

/* Ten events a second, but for three that come in a row after 10 ms each. */
START_TEST(the_peak_rate_is_that_of_the_shortest_stretch)
{
	uint64_t times_ns[13], now_ns = 1000;

	for (unsigned i = 0; i < 13; i++) {
		now_ns += i >= 5 && i < 8 ? 10000000 : 100000000;
		times_ns[i] = now_ns;
	}
	ck_assert_double_eq_tol(bench_peak_rate(1000, times_ns, 13, 1), 100, 1e-6);
	ck_assert_double_eq_tol(bench_peak_rate(1000, times_ns, 13, 3), 100, 1e-6);
	ck_assert_double_eq_tol(bench_peak_rate(1000, times_ns, 13, 4), 4 / 0.13, 1e-6);
	/* The first stretch counts from the start. */
	ck_assert_double_eq_tol(bench_peak_rate(1000, times_ns, 2, 1), 10, 1e-6);
	ck_assert_double_eq_tol(bench_peak_rate(times_ns[0] - 1000000, times_ns, 2, 1), 1000, 1e-6);
}
END_TEST

START_TEST(with_few_events_the_peak_rate_is_that_of_all)
{
	const uint64_t times_ns[] = {500000000, 2000000000};

	ck_assert_double_eq_tol(bench_peak_rate(0, times_ns, 2, 99), 1, 1e-9);
	ck_assert_double_eq(bench_peak_rate(0, times_ns, 0, 1), 0);
	ck_assert_double_eq(bench_peak_rate(500000000, times_ns, 1, 1), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("bench_numbers");
	TCase *tcase = tcase_create("numbers");

	tcase_add_test(tcase, the_median_of_an_odd_number_is_the_middle_one);
	tcase_add_test(tcase, the_median_of_an_even_number_is_the_mean_of_the_middle_two);
	tcase_add_test(tcase, one_value_is_its_own_summary_without_spread);
	tcase_add_test(tcase, nothing_and_zeroes_have_no_spread);
	tcase_add_test(tcase, a_percentile_is_the_least_value_that_covers_its_share);
	tcase_add_test(tcase, percentiles_agree_with_counting);
	tcase_add_test(tcase, means_are_means);
	tcase_add_test(tcase, the_peak_rate_is_that_of_the_shortest_stretch);
	tcase_add_test(tcase, with_few_events_the_peak_rate_is_that_of_all);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
