/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/memtouch_report.h"

#include <string.h>

#include "tests/support/runner.h"

#define MIB TOUCH_MIB

static struct touch_rates rates;
static struct touch_result result;
static struct touch_options options;

static void clear(void)
{
	memset(&rates, 0, sizeof(rates));
	memset(&result, 0, sizeof(result));
	options = (struct touch_options){.thread_mib = 8, .threads = 2, .ratio = 25, .seed = 3};
	result.options = &options;
	result.stores = "avx2";
	result.ended_by = "duration";
}

START_TEST(no_rates_have_no_spread)
{
	struct touch_spread spread = {.p50 = 7};

	touch_rates_spread(&rates, &spread);
	ck_assert_double_eq(spread.p50, 0);
	ck_assert_double_eq(spread.min, 0);
}
END_TEST

START_TEST(percentiles_are_those_of_the_intervals)
{
	struct touch_spread spread;

	for (uint64_t i = 100; i > 0; i--)
		touch_rates_add(&rates, i * MIB);
	touch_rates_spread(&rates, &spread);
	ck_assert_double_eq(spread.min, 1);
	ck_assert_double_eq(spread.p50, 50);
	ck_assert_double_eq(spread.p99, 99);
	ck_assert_double_eq(spread.max, 100);
}
END_TEST

/* Far more than are kept, rising: what is kept must still be spread evenly. */
START_TEST(a_long_run_is_thinned_out_evenly)
{
	struct touch_spread spread;
	uint64_t count = UINT64_C(10) * TOUCH_RATES_MAX + 77;

	for (uint64_t i = 1; i <= count; i++)
		touch_rates_add(&rates, i * MIB);
	ck_assert_uint_eq(rates.seen, count);
	ck_assert_uint_le(rates.count, TOUCH_RATES_MAX);
	ck_assert_uint_ge(rates.count, TOUCH_RATES_MAX / 2);
	touch_rates_spread(&rates, &spread);
	ck_assert_double_eq(spread.min, 1);
	ck_assert_double_eq(spread.max, (double)count);
	ck_assert_double_eq_tol(spread.p50 / (double)count, 0.5, 0.001);
	ck_assert_double_eq_tol(spread.p99 / (double)count, 0.99, 0.001);
}
END_TEST

START_TEST(kept_rates_are_a_stride_apart)
{
	for (uint64_t i = 0; i < 3 * TOUCH_RATES_MAX; i++)
		touch_rates_add(&rates, i);
	for (size_t i = 1; i < rates.count; i++)
		ck_assert_uint_eq(rates.values[i] - rates.values[i - 1], rates.stride);
}
END_TEST

START_TEST(a_rate_is_bytes_by_time_and_zero_without)
{
	ck_assert_uint_eq(touch_rate(256, 1000000000), MIB);
	ck_assert_uint_eq(touch_rate(256, 500000000), 2 * MIB);
	ck_assert_uint_eq(touch_rate(256, 0), 0);
}
END_TEST

START_TEST(the_log_line_is_the_usual_one)
{
	struct timespec when = {.tv_sec = 1730235063, .tv_nsec = 315999999};
	char line[160];

	setenv("TZ", "CET-1", 1);
	tzset();
	touch_log_line(&when, 16809 * MIB + MIB / 2, 17834 * MIB + MIB * 99 / 100, line,
		       sizeof(line));
	ck_assert_str_eq(line, "2024-10-29T21:51:03.315+0100 read_mibps:16809.50 "
			       "write_mibps:17834.99\n");
	setenv("TZ", "NST3:30", 1);
	tzset();
	when.tv_nsec = 5000000;
	touch_log_line(&when, 0, 0, line, sizeof(line));
	ck_assert_str_eq(line, "2024-10-29T17:21:03.005-0330 read_mibps:0.00 write_mibps:0.00\n");
}
END_TEST

START_TEST(progress_tells_rate_and_time_left)
{
	char line[120];

	touch_progress_line(256 * 1024, 256 * 4096, UINT64_C(1000000000), line, sizeof(line));
	ck_assert_str_eq(line, "warm-up: 25 %, 1024 of 4096 MiB, 1024 MiB/s, 3 s left");
	touch_progress_line(0, 256, 5, line, sizeof(line));
	ck_assert_str_eq(line, "warm-up: 0 %, 0 of 1 MiB, 0 MiB/s");
}
END_TEST

/* The result as the function writes it; the caller frees. */
static char *written(void (*write)(struct touch_result *, FILE *))
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	write(&result, out);
	fclose(out);
	return text;
}

static void says(const char *text, const char *part)
{
	ck_assert_msg(strstr(text, part) != NULL, "no \"%s\" in: %s", part, text);
}

static void add_run(void)
{
	result.warm_pages = 4096;
	result.warm_ns = 500000000;
	result.run_ns = UINT64_C(2000000000);
	result.read_pages = 1024;
	result.write_pages = 512;
	for (unsigned i = 1; i <= 2; i++) {
		touch_rates_add(&result.reads, i * MIB);
		touch_rates_add(&result.writes, i * 2 * MIB);
	}
	options.stat_ival_ms = 1000;
}

START_TEST(the_summary_has_totals_means_and_percentiles)
{
	char *text;

	add_run();
	text = written(touch_result_print);
	says(text, "2 x 8 MiB of memory, sequential, 25 % writes, avx2 stores");
	says(text, "warm-up: 16.00 MiB in 0.50 s, 32.00 MiB/s");
	says(text, "run: 2.00 s, 2 intervals of 1000 ms");
	says(text,
	     "read           4.00         2.00        1.00        2.00        1.00        2.00");
	says(text,
	     "write          2.00         1.00        2.00        4.00        2.00        4.00");
	says(text, "ended by: duration");
	free(text);
}
END_TEST

START_TEST(a_run_that_never_began_has_no_rows)
{
	char *text = written(touch_result_print);

	ck_assert_ptr_null(strstr(text, "read"));
	free(text);
}
END_TEST

START_TEST(json_has_the_same)
{
	char *text;

	options.file = "/mnt/a \"b\"";
	add_run();
	text = written(touch_result_json);
	says(text, "\"file\": \"/mnt/a \\\"b\\\"\"");
	says(text, "\"error\": null");
	says(text, "\"intervals\": 2");
	says(text, "\"mean_mibps\": 2,");
	says(text, "\"p99_mibps\": 4,");
	free(text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("memtouch_report");
	TCase *tcase = tcase_create("report");

	tcase_add_checked_fixture(tcase, clear, NULL);
	tcase_add_test(tcase, no_rates_have_no_spread);
	tcase_add_test(tcase, percentiles_are_those_of_the_intervals);
	tcase_add_test(tcase, a_long_run_is_thinned_out_evenly);
	tcase_add_test(tcase, kept_rates_are_a_stride_apart);
	tcase_add_test(tcase, a_rate_is_bytes_by_time_and_zero_without);
	tcase_add_test(tcase, the_log_line_is_the_usual_one);
	tcase_add_test(tcase, progress_tells_rate_and_time_left);
	tcase_add_test(tcase, the_summary_has_totals_means_and_percentiles);
	tcase_add_test(tcase, a_run_that_never_began_has_no_rows);
	tcase_add_test(tcase, json_has_the_same);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
