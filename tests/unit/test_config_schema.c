/* SPDX-License-Identifier: Apache-2.0 */
#include "config/schema.h"

#include <ctype.h>
#include <string.h>

#include "config/config.h"
#include "config/value.h"
#include "tests/support/runner.h"

static size_t group_length(const char *name)
{
	const char *dot = strchr(name, '.');

	return dot != NULL ? (size_t)(dot - name) : 0;
}

static bool is_key_name(const char *name)
{
	size_t dots = 0;

	for (const char *c = name; *c != '\0'; c++) {
		if (*c == '.')
			dots++;
		else if (!islower((unsigned char)*c) && *c != '_')
			return false;
	}
	return dots <= 1;
}

START_TEST(names_are_unique_and_of_one_form)
{
	for (size_t i = 0; i < conf_schema_count; i++) {
		ck_assert_msg(is_key_name(conf_schema[i].name), "%s", conf_schema[i].name);
		ck_assert_uint_lt(strlen(conf_schema[i].name), 32);
		ck_assert_ptr_eq(conf_key_find(conf_schema[i].name), &conf_schema[i]);
		ck_assert_msg(!conf_group_exists(conf_schema[i].name), "%s is also a group",
			      conf_schema[i].name);
	}
}
END_TEST

START_TEST(groups_stand_together)
{
	for (size_t i = 2; i < conf_schema_count; i++) {
		size_t length = group_length(conf_schema[i].name);

		if (length == group_length(conf_schema[i - 1].name) &&
		    strncmp(conf_schema[i].name, conf_schema[i - 1].name, length) == 0)
			continue;
		for (size_t j = 0; j < i - 1; j++)
			ck_assert_msg(
				strncmp(conf_schema[i].name, conf_schema[j].name, length + 1) != 0,
				"%s is far from its group", conf_schema[i].name);
	}
}
END_TEST

START_TEST(rows_are_complete)
{
	for (size_t i = 0; i < conf_schema_count; i++) {
		const struct conf_key *key = &conf_schema[i];
		bool worded = key->type == CONF_ENUM || key->type == CONF_PATH ||
			      key->type == CONF_URL || key->type == CONF_URL_LIST;

		ck_assert_ptr_nonnull(key->initial);
		ck_assert_ptr_nonnull(key->help);
		ck_assert_msg(key->help[strlen(key->help) - 1] == '.', "%s", key->name);
		ck_assert_uint_ne(key->programs, 0);
		ck_assert_uint_eq(key->required & ~key->programs, 0);
		ck_assert_msg(worded == (key->words != NULL), "%s", key->name);
		if (key->type != CONF_BOOL && !worded)
			ck_assert_msg(key->min < key->max, "%s", key->name);
	}
}
END_TEST

/* conf_create() aborts for a default that its own key would refuse. */
START_TEST(defaults_lie_in_their_ranges)
{
	static const enum conf_program programs[] = {CONF_RMEMFS, CONF_RMEMD, CONF_RMEMCTL,
						     CONF_BENCH};

	for (unsigned i = 0; i < RMEM_COUNT_OF(programs); i++) {
		struct conf *conf = conf_create(programs[i]);

		ck_assert_ptr_nonnull(conf);
		conf_destroy(conf);
	}
}
END_TEST

START_TEST(defaults_are_written_as_values_are_shown)
{
	for (size_t i = 0; i < conf_schema_count; i++) {
		const struct conf_key *key = &conf_schema[i];
		struct conf_value value = {0};
		char shown[64];

		if (key->type > CONF_ENUM)
			continue;
		ck_assert_int_eq(conf_value_parse(key, key->initial, &value, NULL), 0);
		conf_number_text(key, value.number, shown, sizeof(shown));
		ck_assert_str_eq(shown, key->initial);
		conf_value_finish(&value);
	}
}
END_TEST

START_TEST(defaults_do_not_contradict_each_other)
{
	struct conf *conf = conf_create(CONF_BENCH);
	struct conf_errors errors;

	conf_errors_init(&errors);
	ck_assert_int_eq(conf_check(conf, &errors), 0);
	ck_assert_uint_eq(errors.count, 0);
	conf_destroy(conf);
}
END_TEST

START_TEST(ordered_pairs_are_numbers_of_one_kind)
{
	for (const struct conf_order *order = conf_orders; order->lesser != NULL; order++) {
		const struct conf_key *lesser = conf_key_find(order->lesser);
		const struct conf_key *greater = conf_key_find(order->greater);

		ck_assert_ptr_nonnull(lesser);
		ck_assert_ptr_nonnull(greater);
		ck_assert_int_eq(lesser->type, greater->type);
		ck_assert_uint_eq(lesser->programs, greater->programs);
	}
}
END_TEST

START_TEST(enums_in_the_header_follow_the_words)
{
	static const struct {
		const char *key, *word;
		unsigned index;
	} rows[] = {
		{"fs.cache", "default", CONF_CACHE_DEFAULT},
		{"fs.cache", "none", CONF_CACHE_NONE},
		{"fs.cache", "auto", CONF_CACHE_AUTO},
		{"fs.cache", "always", CONF_CACHE_ALWAYS},
		{"fs.write", "through", CONF_WRITE_THROUGH},
		{"fs.write", "back", CONF_WRITE_BACK},
		{"store.sync", "fsync", CONF_SYNC_FSYNC},
		{"store.sync", "commit", CONF_SYNC_COMMIT},
		{"engine.poll", "busy", CONF_POLL_BUSY},
		{"engine.poll", "event", CONF_POLL_EVENT},
		{"engine.poll", "adaptive", CONF_POLL_ADAPTIVE},
		{"staging.huge_pages", "auto", CONF_HUGE_AUTO},
		{"staging.huge_pages", "off", CONF_HUGE_OFF},
		{"server.huge_pages", "require", CONF_HUGE_REQUIRE},
		{"staging.streaming", "auto", CONF_STREAMING_AUTO},
		{"staging.streaming", "avx512", CONF_STREAMING_AVX512},
		{"staging.streaming", "avx2", CONF_STREAMING_AVX2},
		{"staging.streaming", "sse2", CONF_STREAMING_SSE2},
		{"staging.streaming", "off", CONF_STREAMING_OFF},
		{"log.sink", "auto", CONF_LOG_AUTO},
		{"log.sink", "stderr", CONF_LOG_STDERR},
		{"log.sink", "syslog", CONF_LOG_SYSLOG},
	};

	for (unsigned i = 0; i < RMEM_COUNT_OF(rows); i++)
		ck_assert_str_eq(conf_key_find(rows[i].key)->words[rows[i].index], rows[i].word);
}
END_TEST

static void check_nearest(const char *name, const char *expected)
{
	struct conf_nearest nearest = conf_nearest_key(name);

	if (expected == NULL) {
		ck_assert_msg(nearest.text == NULL, "%s is near %.*s", name, (int)nearest.length,
			      nearest.text);
		return;
	}
	ck_assert_msg(nearest.text != NULL, "nothing is near %s", name);
	ck_assert_uint_eq(nearest.length, strlen(expected));
	ck_assert_msg(strncmp(nearest.text, expected, nearest.length) == 0, "%s is near %.*s", name,
		      (int)nearest.length, nearest.text);
}

START_TEST(a_misspelt_key_is_near_the_right_one)
{
	check_nearest("engine.chnk", "engine.chunk");
	check_nearest("engine.chukn", "engine.chunk");
	check_nearest("engine.chunks", "engine.chunk");
	check_nearest("engine.max_chunk", "engine.max_chunks");
	check_nearest("engin.chunk", "engine.chunk");
	check_nearest("server", "servers");
	check_nearest("severs", "servers");
	check_nearest("fs.chace", "fs.cache");
}
END_TEST

START_TEST(a_key_in_the_wrong_group_is_near_the_one_in_its_own)
{
	check_nearest("chunk", "engine.chunk");
	check_nearest("fs.chunk", "engine.chunk");
	check_nearest("engine.socket_mode", "server.socket_mode");
}
END_TEST

START_TEST(a_misspelt_group_is_near_a_group)
{
	check_nearest("engin", "engine");
	check_nearest("stagin", "staging");
	check_nearest("sotre", "store");
}
END_TEST

START_TEST(what_is_like_no_key_is_near_none)
{
	char longest[500];

	check_nearest("zzzzzzzz", NULL);
	check_nearest("replicas", NULL);
	check_nearest("", NULL);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	check_nearest(longest, NULL);
	longest[200] = '.';
	check_nearest(longest, NULL);
}
END_TEST

START_TEST(programs_are_listed_by_name)
{
	char text[80], small[8];

	conf_programs_text(CONF_RMEMFS | CONF_RMEMCTL, text, sizeof(text));
	ck_assert_str_eq(text, "rmemfs, rmemctl");
	conf_programs_text(CONF_RMEMD, text, sizeof(text));
	ck_assert_str_eq(text, "rmemd");
	conf_programs_text(CONF_RMEMFS | CONF_RMEMD | CONF_RMEMCTL | CONF_BENCH, text,
			   sizeof(text));
	ck_assert_str_eq(text, "all programs");
	conf_programs_text(CONF_RMEMFS | CONF_RMEMD, small, sizeof(small));
	ck_assert_uint_lt(strlen(small), sizeof(small));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config_schema");
	TCase *rows = tcase_create("rows"), *lookup = tcase_create("lookup");

	tcase_add_test(rows, names_are_unique_and_of_one_form);
	tcase_add_test(rows, groups_stand_together);
	tcase_add_test(rows, rows_are_complete);
	tcase_add_test(rows, defaults_lie_in_their_ranges);
	tcase_add_test(rows, defaults_are_written_as_values_are_shown);
	tcase_add_test(rows, defaults_do_not_contradict_each_other);
	tcase_add_test(rows, ordered_pairs_are_numbers_of_one_kind);
	tcase_add_test(rows, enums_in_the_header_follow_the_words);
	suite_add_tcase(suite, rows);
	tcase_add_test(lookup, a_misspelt_key_is_near_the_right_one);
	tcase_add_test(lookup, a_key_in_the_wrong_group_is_near_the_one_in_its_own);
	tcase_add_test(lookup, a_misspelt_group_is_near_a_group);
	tcase_add_test(lookup, what_is_like_no_key_is_near_none);
	tcase_add_test(lookup, programs_are_listed_by_name);
	suite_add_tcase(suite, lookup);
	return run_suite(suite);
}
