/* SPDX-License-Identifier: Apache-2.0 */
#include "config/value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hint.h"
#include "tests/support/runner.h"

static const char *const words[] = {"busy", "event", NULL};
static const char *const path_words[] = {"auto", NULL};
/* One byte less than what does not fit. */
#define TEN_BYTES "0123456789"
#define LONG_SOCKET                                                                                \
	"shm:/" TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES    \
		TEN_BYTES TEN_BYTES "012345"

static const char *const forms[] = {"shm:/PATH", "verbs://HOST:PORT", NULL};

static const struct conf_key size_key = {.type = CONF_SIZE, .max = UINT64_MAX};
static const struct conf_key chunk_key = {
	.type = CONF_SIZE, .min = 4096, .max = 1 << 20, .multiple = 4096};
static const struct conf_key duration_key = {.type = CONF_DURATION, .max = UINT64_MAX};
static const struct conf_key pause_key = {.type = CONF_DURATION, .min = 1000, .max = 60000000};
static const struct conf_key count_key = {.type = CONF_COUNT, .min = 1, .max = 64};
static const struct conf_key mode_key = {.type = CONF_MODE, .max = 0777};
static const struct conf_key bool_key = {.type = CONF_BOOL};
static const struct conf_key enum_key = {.type = CONF_ENUM, .words = words};
static const struct conf_key path_key = {.type = CONF_PATH, .words = path_words};
static const struct conf_key url_key = {.type = CONF_URL, .words = forms};
static const struct conf_key list_key = {.type = CONF_URL_LIST, .max = 3, .words = forms};

struct row {
	const struct conf_key *key;
	const char *text;
	uint64_t number;
};

static const struct row good_rows[] = {
	{&size_key, "0", 0},
	{&size_key, "4096", 4096},
	{&size_key, "7B", 7},
	{&size_key, "64KiB", 65536},
	{&size_key, "64K", 65536},
	{&size_key, "64 KiB", 65536},
	{&size_key, "1MiB", 1 << 20},
	{&size_key, "1M", 1 << 20},
	{&size_key, "2GiB", UINT64_C(2) << 30},
	{&size_key, "2G", UINT64_C(2) << 30},
	{&size_key, "1TiB", UINT64_C(1) << 40},
	{&size_key, "1T", UINT64_C(1) << 40},
	{&size_key, "18446744073709551615", UINT64_MAX},
	{&size_key, "16777215TiB", UINT64_C(16777215) << 40},
	{&chunk_key, "4KiB", 4096},
	{&chunk_key, "1MiB", 1 << 20},
	{&chunk_key, "12288", 12288},
	{&duration_key, "0", 0},
	{&duration_key, "0s", 0},
	{&duration_key, "200us", 200},
	{&duration_key, "5ms", 5000},
	{&duration_key, "2s", 2000000},
	{&duration_key, "1min", 60000000},
	{&duration_key, "2h", UINT64_C(7200000000)},
	{&pause_key, "1ms", 1000},
	{&pause_key, "1min", 60000000},
	{&count_key, "1", 1},
	{&count_key, "64", 64},
	{&mode_key, "0600", 0600},
	{&mode_key, "660", 0660},
	{&mode_key, "0", 0},
	{&bool_key, "true", 1},
	{&bool_key, "false", 0},
	{&bool_key, "yes", 1},
	{&bool_key, "no", 0},
	{&bool_key, "on", 1},
	{&bool_key, "off", 0},
	{&bool_key, "1", 1},
	{&bool_key, "0", 0},
	{&enum_key, "busy", 0},
	{&enum_key, "event", 1},
};

START_TEST(good_text_becomes_its_number)
{
	const struct row *row = &good_rows[_i];
	struct conf_value value = {0};
	struct rmem_error error = {0};

	ck_assert_msg(conf_value_parse(row->key, row->text, &value, &error) == 0, "%s: %s",
		      row->text, error.text);
	ck_assert_uint_eq(value.number, row->number);
	conf_value_finish(&value);
}
END_TEST

struct bad_row {
	const struct conf_key *key;
	const char *text, *complaint; /* what the message has to say */
};

static const struct bad_row bad_rows[] = {
	{&size_key, "", "found \"\""},
	{&size_key, "KiB", "whole number"},
	{&size_key, "64KB", "may mean 1000 or 1024"},
	{&size_key, "64kB", "may mean 1000 or 1024"},
	{&size_key, "64kb", "may mean 1000 or 1024"},
	{&size_key, "64MB", "may mean 1000 or 1024"},
	{&size_key, "64kib", "KiB, MiB, GiB or TiB"},
	{&size_key, "1.5GiB", "whole number"},
	{&size_key, "-1", "whole number"},
	{&size_key, "+1", "whole number"},
	{&size_key, " 1", "whole number"},
	{&size_key, "0x10", "whole number"},
	{&size_key, "1KiB ", "whole number"},
	{&size_key, "1KiBs", "whole number"},
	{&size_key, "5s", "whole number"},
	{&size_key, "16777216TiB", "out of range"},
	{&size_key, "18446744073709551616", "out of range"},
	{&size_key, "99999999999999999999999999999999KiB", "out of range"},
	{&chunk_key, "4095", "out of range; allowed: a size from 4KiB to 1MiB, a multiple of 4KiB"},
	{&chunk_key, "2MiB", "out of range; allowed: a size from 4KiB to 1MiB"},
	{&chunk_key, "5000", "not a multiple; allowed: a size from 4KiB to 1MiB, a multiple of"},
	{&duration_key, "5", "needs a unit: us, ms, s, min or h"},
	{&duration_key, "5m", "whole number with us, ms, s, min or h"},
	{&duration_key, "5S", "whole number with us, ms, s, min or h"},
	{&duration_key, "5KiB", "whole number with us, ms, s, min or h"},
	{&duration_key, "5ns", "whole number with us, ms, s, min or h"},
	{&duration_key, "0.5s", "whole number with us, ms, s, min or h"},
	{&duration_key, "-5s", "whole number with us, ms, s, min or h"},
	{&duration_key, "5124095577h", "out of range"},
	{&pause_key, "999us", "out of range; allowed: a duration from 1ms to 1min"},
	{&pause_key, "0", "out of range; allowed: a duration from 1ms to 1min"},
	{&count_key, "0", "out of range; allowed: a whole number from 1 to 64"},
	{&count_key, "65", "out of range; allowed: a whole number from 1 to 64"},
	{&count_key, "-1", "allowed: a whole number from 1 to 64"},
	{&count_key, "1x", "allowed: a whole number from 1 to 64"},
	{&count_key, "", "allowed: a whole number from 1 to 64"},
	{&count_key, "18446744073709551617", "allowed: a whole number from 1 to 64"},
	{&mode_key, "0800", "allowed: octal access rights from 0000 to 0777"},
	{&mode_key, "1777", "out of range; allowed: octal access rights from 0000 to 0777"},
	{&mode_key, "rw", "allowed: octal access rights"},
	{&bool_key, "maybe", "found \"maybe\"; allowed: true or false"},
	{&bool_key, "TRUE", "allowed: true or false"},
	{&bool_key, "2", "allowed: true or false"},
	{&enum_key, "Busy", "found \"Busy\"; allowed: busy or event"},
	{&enum_key, "bus", "allowed: busy or event"},
	{&path_key, "relative/path", "allowed: an absolute path or auto"},
	{&path_key, "", "allowed: an absolute path or auto"},
	{&path_key, "/a\nb", "control characters"},
	{&url_key, "smh:/run/x", "found \"smh:/run/x\"; allowed: shm:/PATH or verbs://HOST:PORT"},
	{&url_key, "shm:relative", "allowed: shm:/PATH"},
	{&url_key, "shm:/", "allowed: shm:/PATH"},
	{&url_key, "shm:", "allowed: shm:/PATH"},
	{&url_key, "verbs:/host", "allowed: shm:/PATH or verbs://HOST:PORT"},
	{&url_key, "", "allowed: shm:/PATH"},
	{&url_key, "verbs://[::1]:0", "port is no number from 1 to 65535; allowed"},
	{&url_key, "verbs://[::1]7471", "a port or nothing should follow"},
	{&url_key, "verbs://host:", "port is no number"},
	{&url_key, "verbs://host:0", "port is no number"},
	{&url_key, "verbs://host:65536", "port is no number"},
	{&url_key, "verbs://host:7471x", "port is no number"},
	{&url_key, LONG_SOCKET "x", "longer than the 107 bytes of a socket's; allowed"},
	{&url_key, "shm:/a\tb", "control characters"},
	{&list_key, "shm:/a", "not a list"},
};

START_TEST(bad_text_is_refused_with_what_is_allowed)
{
	const struct bad_row *row = &bad_rows[_i];
	struct conf_value value = {.number = 12345};
	struct rmem_error error = {0};

	ck_assert_int_eq(conf_value_parse(row->key, row->text, &value, &error), -EINVAL);
	ck_assert_int_eq(error.code, -EINVAL);
	ck_assert_msg(strstr(error.text, row->complaint) != NULL, "\"%s\": %s", row->text,
		      error.text);
	ck_assert_uint_eq(value.number, 12345);
}
END_TEST

START_TEST(paths_and_urls_are_kept_as_text)
{
	struct conf_value value = {0};

	ck_assert_int_eq(conf_value_parse(&path_key, "/run/x", &value, NULL), 0);
	ck_assert_str_eq(value.text, "/run/x");
	ck_assert_int_eq(conf_value_parse(&path_key, "auto", &value, NULL), 0);
	ck_assert_str_eq(value.text, "auto");
	ck_assert_int_eq(conf_value_parse(&url_key, "shm:/run/\xc3\xa4 b", &value, NULL), 0);
	ck_assert_str_eq(value.text, "shm:/run/\xc3\xa4 b");
	ck_assert_int_eq(conf_value_parse(&url_key, LONG_SOCKET, &value, NULL), 0);
	ck_assert_int_eq(conf_value_parse(&url_key, "verbs://[::1]:65535", &value, NULL), 0);
	/* With the port of verbs.port. */
	ck_assert_int_eq(conf_value_parse(&url_key, "verbs://[fe80::1]", &value, NULL), 0);
	ck_assert_int_eq(conf_value_parse(&url_key, "verbs://h", &value, NULL), 0);
	ck_assert_int_eq(conf_value_parse(&url_key, "verbs://h:1", &value, NULL), 0);
	ck_assert_str_eq(value.text, "verbs://h:1");
	ck_assert_int_eq(conf_value_parse(&url_key, "bad", &value, NULL), -EINVAL);
	ck_assert_str_eq(value.text, "verbs://h:1");
	conf_value_finish(&value);
}
END_TEST

START_TEST(a_path_as_long_as_the_system_allows_is_taken_and_no_longer_one)
{
	struct conf_value value = {0};
	struct rmem_error error = {0};
	char text[4097];

	memset(text, 'a', sizeof(text));
	text[0] = '/';
	text[4095] = '\0';
	ck_assert_int_eq(conf_value_parse(&path_key, text, &value, NULL), 0);
	text[4095] = 'a';
	text[4096] = '\0';
	ck_assert_int_eq(conf_value_parse(&path_key, text, &value, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.text, "too long"));
	ck_assert_ptr_nonnull(strstr(error.text, "allowed"));
	conf_value_finish(&value);
}
END_TEST

START_TEST(numbers_are_taken_in_the_unit_that_is_kept)
{
	struct conf_value value = {0};

	ck_assert_int_eq(conf_value_from_number(&size_key, 4096, &value, NULL), 0);
	ck_assert_uint_eq(value.number, 4096);
	ck_assert_int_eq(conf_value_from_number(&size_key, INT64_MAX, &value, NULL), 0);
	ck_assert_uint_eq(value.number, INT64_MAX);
	ck_assert_int_eq(conf_value_from_number(&count_key, 5, &value, NULL), 0);
	ck_assert_uint_eq(value.number, 5);
	ck_assert_int_eq(conf_value_from_number(&duration_key, 0, &value, NULL), 0);
	ck_assert_uint_eq(value.number, 0);
}
END_TEST

START_TEST(numbers_out_of_range_or_without_a_needed_unit_are_refused)
{
	struct conf_value value = {0};
	struct rmem_error error = {0};

	ck_assert_int_eq(conf_value_from_number(&size_key, -1, &value, &error), -EINVAL);
	ck_assert_str_eq(error.text,
			 "found \"-1\", which is out of range; allowed: a size from 0 to "
			 "18446744073709551615B");
	ck_assert_int_eq(conf_value_from_number(&count_key, INT64_MIN, &value, NULL), -EINVAL);
	ck_assert_int_eq(conf_value_from_number(&count_key, 65, &value, NULL), -EINVAL);
	ck_assert_int_eq(conf_value_from_number(&duration_key, 5, &value, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.text, "needs a unit"));
	ck_assert_int_eq(conf_value_from_number(&pause_key, 0, &value, NULL), -EINVAL);
	ck_assert_int_eq(conf_value_from_number(&mode_key, 600, &value, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.text, "string, such as \"0600\""));
	ck_assert_int_eq(conf_value_from_number(&bool_key, 1, &value, NULL), -EINVAL);
}
END_TEST

START_TEST(a_list_takes_each_item_once_and_up_to_its_limit)
{
	struct conf_value value = {0};
	struct rmem_error error = {0};

	ck_assert_int_eq(conf_value_add(&list_key, "shm:/a", &value, NULL), 0);
	ck_assert_int_eq(conf_value_add(&list_key, "shm:/b", &value, NULL), 0);
	ck_assert_int_eq(conf_value_add(&list_key, "shm:/a", &value, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.text, "in the list already"));
	ck_assert_int_eq(conf_value_add(&list_key, "nonsense", &value, NULL), -EINVAL);
	ck_assert_int_eq(conf_value_add(&list_key, "shm:/c", &value, NULL), 0);
	ck_assert_int_eq(conf_value_add(&list_key, "shm:/d", &value, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.text, "one too many"));
	ck_assert_uint_eq(value.count, 3);
	ck_assert_str_eq(value.items[1], "shm:/b");
	conf_value_finish(&value);
	ck_assert_uint_eq(value.count, 0);
}
END_TEST

START_TEST(numbers_are_shown_with_the_largest_unit_that_fits)
{
	static const struct row rows[] = {
		{&size_key, "0", 0},
		{&size_key, "1B", 1},
		{&size_key, "1000B", 1000},
		{&size_key, "1KiB", 1024},
		{&size_key, "1025B", 1025},
		{&size_key, "64MiB", 64 << 20},
		{&size_key, "1536MiB", UINT64_C(1536) << 20},
		{&size_key, "3TiB", UINT64_C(3) << 40},
		{&duration_key, "0", 0},
		{&duration_key, "50us", 50},
		{&duration_key, "1500us", 1500},
		{&duration_key, "90s", 90000000},
		{&duration_key, "2min", 120000000},
		{&duration_key, "1h", UINT64_C(3600000000)},
		{&mode_key, "0640", 0640},
		{&count_key, "42", 42},
		{&bool_key, "true", 1},
		{&enum_key, "event", 1},
	};
	char text[32];

	for (unsigned i = 0; i < RMEM_COUNT_OF(rows); i++) {
		conf_number_text(rows[i].key, rows[i].number, text, sizeof(text));
		ck_assert_str_eq(text, rows[i].text);
	}
}
END_TEST

/* Every number that is shown reads back as itself. */
START_TEST(shown_numbers_read_back)
{
	static const struct conf_key *const keys[] = {&size_key, &duration_key};
	struct conf_value value = {0};
	char text[32];

	srandom(1);
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t number =
			((uint64_t)random() << 33 ^ (uint64_t)random() << 11 ^ (uint64_t)random())
				<< random() % 64 >>
			random() % 64;

		conf_number_text(keys[i % 2], number, text, sizeof(text));
		ck_assert_int_eq(conf_value_parse(keys[i % 2], text, &value, NULL), 0);
		ck_assert_msg(value.number == number, "%" PRIu64 " came back from %s as %" PRIu64,
			      number, text, value.number);
	}
}
END_TEST

START_TEST(messages_show_only_the_start_of_a_long_value)
{
	struct conf_value value = {0};
	struct rmem_error error = {0};
	char text[2000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	ck_assert_int_eq(conf_value_parse(&enum_key, text, &value, &error), -EINVAL);
	ck_assert_uint_lt(strlen(error.text), 200);
	ck_assert_ptr_nonnull(strstr(error.text, "x...\"; allowed: busy or event"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config_value");
	TCase *tcase = tcase_create("value");

	tcase_add_loop_test(tcase, good_text_becomes_its_number, 0, (int)RMEM_COUNT_OF(good_rows));
	tcase_add_loop_test(tcase, bad_text_is_refused_with_what_is_allowed, 0,
			    (int)RMEM_COUNT_OF(bad_rows));
	tcase_add_test(tcase, paths_and_urls_are_kept_as_text);
	tcase_add_test(tcase, a_path_as_long_as_the_system_allows_is_taken_and_no_longer_one);
	tcase_add_test(tcase, numbers_are_taken_in_the_unit_that_is_kept);
	tcase_add_test(tcase, numbers_out_of_range_or_without_a_needed_unit_are_refused);
	tcase_add_test(tcase, a_list_takes_each_item_once_and_up_to_its_limit);
	tcase_add_test(tcase, numbers_are_shown_with_the_largest_unit_that_fits);
	tcase_add_test(tcase, shown_numbers_read_back);
	tcase_add_test(tcase, messages_show_only_the_start_of_a_long_value);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
