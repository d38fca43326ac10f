/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/memtouch_options.h"

#include <errno.h>
#include <string.h>

#include "tests/support/runner.h"

#define ARGS_MAX 32

static struct touch_options options;
static struct rmem_error error;
static enum touch_action action;

/* Words are split at spaces. */
static int parse(const char *line)
{
	static char copy[512];
	static char program[] = "memtouch";
	char *argv[ARGS_MAX] = {program};
	int argc = 1;

	error = (struct rmem_error){0};
	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "))
		argv[argc++] = word;
	return touch_options_parse(argc, argv, &options, &action, &error);
}

static void refuses(const char *line, const char *text)
{
	ck_assert_msg(parse(line) == -EINVAL, "%s: should be refused", line);
	ck_assert_msg(strstr(error.text, text) != NULL, "%s: said \"%s\"", line, error.text);
}

START_TEST(nothing_gives_defaults)
{
	ck_assert_int_eq(parse(""), 0);
	ck_assert_int_eq(action, TOUCH_RUN);
	ck_assert_uint_eq(options.thread_mib, 64);
	ck_assert_uint_eq(options.threads, 1);
	ck_assert_uint_eq(options.ratio, 50);
	ck_assert_uint_eq(options.stat_ival_ms, 1000);
	ck_assert_uint_eq(options.duration_ms, 0);
	ck_assert_ptr_null(options.stat_file);
	ck_assert_ptr_null(options.file);
	ck_assert(!options.nt_stores && !options.random && !options.once && !options.verify);
	ck_assert(!options.no_avx512 && !options.json);
}
END_TEST

START_TEST(every_option_is_taken)
{
	ck_assert_int_eq(parse("--thread_mem 256 --num_threads 4 --rw_ratio 0 --random "
			       "--stat_file /tmp/log --stat_ival 100 --page_log_ival 7 --nt_stores "
			       "--no_avx512 --file /mnt/f --verify --duration 5m --seed "
			       "18446744073709551615 --json"),
			 0);
	ck_assert_uint_eq(options.thread_mib, 256);
	ck_assert_uint_eq(options.threads, 4);
	ck_assert_uint_eq(options.ratio, 0);
	ck_assert_uint_eq(options.stat_ival_ms, 100);
	ck_assert_uint_eq(options.page_log_ival, 7);
	ck_assert_uint_eq(options.duration_ms, 300000);
	ck_assert_uint_eq(options.seed, UINT64_MAX);
	ck_assert_str_eq(options.stat_file, "/tmp/log");
	ck_assert_str_eq(options.file, "/mnt/f");
	ck_assert(options.random && options.nt_stores && options.no_avx512 && options.verify);
	ck_assert(options.json && !options.once);
	ck_assert_int_eq(parse("--once"), 0);
	ck_assert(options.once);
}
END_TEST

START_TEST(values_may_follow_an_equals_sign_and_names_have_hyphens)
{
	ck_assert_int_eq(parse("--thread-mem=3 --rw_ratio=100 --file=a=b"), 0);
	ck_assert_uint_eq(options.thread_mib, 3);
	ck_assert_uint_eq(options.ratio, 100);
	ck_assert_str_eq(options.file, "a=b");
}
END_TEST

START_TEST(the_last_of_two_counts)
{
	ck_assert_int_eq(parse("--seed 1 --seed 2"), 0);
	ck_assert_uint_eq(options.seed, 2);
}
END_TEST

START_TEST(times_have_units)
{
	static const struct {
		const char *line;
		uint64_t ms;
	} rows[] = {{"--duration 90", 90000},
		    {"--duration 90s", 90000},
		    {"--duration 1ms", 1},
		    {"--duration 2m", 120000},
		    {"--duration 24h", 86400000}};

	for (size_t i = 0; i < RMEM_COUNT_OF(rows); i++) {
		ck_assert_int_eq(parse(rows[i].line), 0);
		ck_assert_uint_eq(options.duration_ms, rows[i].ms);
	}
	refuses("--duration 5d", "not a time");
	refuses("--duration s", "not a time");
	refuses("--duration -1s", "not a time");
	refuses("--duration 1.5", "not a time");
	refuses("--duration 0", "out of range");
	refuses("--duration 99999999999999999999", "out of range");
	refuses("--duration 18446744073709551615h", "out of range");
}
END_TEST

START_TEST(limits_are_told)
{
	refuses("--rw_ratio 101", "from 0 to 100");
	refuses("--num_threads 0", "from 1 to 1024");
	refuses("--num_threads 1025", "from 1 to 1024");
	refuses("--thread_mem 0", "from 1 to 4194304");
	refuses("--thread_mem 4194305", "out of range");
	refuses("--stat_ival 0", "from 1");
	refuses("--page_log_ival 0", "from 1");
}
END_TEST

START_TEST(numbers_that_overflow_are_out_of_range_not_wrapped)
{
	refuses("--seed 18446744073709551616", "out of range");
	refuses("--thread_mem 18446744073709551617", "out of range");
	refuses("--thread_mem 340282366920938463463374607431768211457", "out of range");
}
END_TEST

START_TEST(junk_is_no_number)
{
	refuses("--rw_ratio -1", "not a number");
	refuses("--rw_ratio +1", "not a number");
	refuses("--rw_ratio 5x", "not a number");
	refuses("--rw_ratio 0x10", "not a number");
	refuses("--rw_ratio 1e1", "not a number");
	refuses("--rw_ratio=", "not a number");
}
END_TEST

START_TEST(what_is_no_option_is_named)
{
	refuses("--fast", "\"--fast\" is no option");
	refuses("--thread", "\"--thread\" is no option");
	refuses("--thread_memory 3", "\"--thread_memory\" is no option");
	refuses("word", "\"word\" is no option");
	refuses("-x", "\"-x\" is no option");
	refuses("--", "\"--\" is no option");
	refuses("--=3", "is no option");
	refuses("--once=1", "takes no value");
	refuses("--seed", "--seed N");
	refuses("--file=", "empty path");
	refuses("--once --duration 3", "makes no sense");
}
END_TEST

START_TEST(help_and_version_end_the_reading)
{
	ck_assert_int_eq(parse("--help --junk"), 0);
	ck_assert_int_eq(action, TOUCH_HELP);
	ck_assert_int_eq(parse("--random -h"), 0);
	ck_assert_int_eq(action, TOUCH_HELP);
	ck_assert_int_eq(parse("--version"), 0);
	ck_assert_int_eq(action, TOUCH_VERSION);
}
END_TEST

START_TEST(the_largest_sizes_do_not_overflow)
{
	ck_assert_int_eq(parse("--thread_mem 4194304 --num_threads 1024"), 0);
	ck_assert_uint_eq(touch_options_bytes(&options), UINT64_C(1) << 52);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("memtouch_options");
	TCase *tcase = tcase_create("options");

	tcase_add_test(tcase, nothing_gives_defaults);
	tcase_add_test(tcase, every_option_is_taken);
	tcase_add_test(tcase, values_may_follow_an_equals_sign_and_names_have_hyphens);
	tcase_add_test(tcase, the_last_of_two_counts);
	tcase_add_test(tcase, times_have_units);
	tcase_add_test(tcase, limits_are_told);
	tcase_add_test(tcase, numbers_that_overflow_are_out_of_range_not_wrapped);
	tcase_add_test(tcase, junk_is_no_number);
	tcase_add_test(tcase, what_is_no_option_is_named);
	tcase_add_test(tcase, help_and_version_end_the_reading);
	tcase_add_test(tcase, the_largest_sizes_do_not_overflow);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
