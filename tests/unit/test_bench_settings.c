/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/runner.h"
#include "tools/bench_line.h"
#include "tools/bench_rig.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

static struct bench_settings settings;
static struct rmem_error error;

static const struct bench_option *find(enum bench_command command, const char *name)
{
	for (size_t i = 0; i < bench_option_count; i++) {
		if ((bench_options[i].commands & command) != 0 &&
		    strcmp(bench_options[i].name, name) == 0)
			return &bench_options[i];
	}
	ck_abort_msg("no option %s", name);
}

static int take(enum bench_command command, const char *name, const char *text)
{
	return bench_settings_take(&settings, find(command, name), text, &error);
}

/* --- The table -------------------------------------------------------------------------------- */

START_TEST(every_default_is_within_its_own_bounds)
{
	for (size_t i = 0; i < bench_option_count; i++) {
		const struct bench_option *option = &bench_options[i];

		if (option->key.initial == NULL)
			continue;
		ck_assert_msg(bench_settings_take(&settings, option, option->key.initial, &error) ==
				      0,
			      "%s", error.text);
	}
}
END_TEST

START_TEST(every_option_is_complete_and_stands_once_in_a_command)
{
	for (size_t i = 0; i < bench_option_count; i++) {
		const struct bench_option *option = &bench_options[i];

		ck_assert_int_eq(strncmp(option->name, "--", 2), 0);
		ck_assert_ptr_nonnull(option->help);
		ck_assert_int_eq(option->kind == BENCH_OPTION_FLAG, option->argument == NULL);
		if (option->kind == BENCH_OPTION_SETTING)
			ck_assert_ptr_nonnull(conf_key_find(option->setting));
		for (size_t k = 0; k < i; k++)
			ck_assert(strcmp(bench_options[k].name, option->name) != 0 ||
				  (bench_options[k].commands & option->commands) == 0);
	}
}
END_TEST

START_TEST(the_defaults_measure_something)
{
	bench_settings_init(&settings, BENCH_BW);
	ck_assert_int_eq(bench_settings_check(&settings, &error), 0);
	ck_assert_uint_eq(settings.op, BENCH_WRITE);
	ck_assert_uint_eq(settings.layout, BENCH_SCATTERED);
	ck_assert_uint_eq(settings.in_flight, 1);
	ck_assert_ptr_null(settings.preset);
	bench_settings_init(&settings, BENCH_LAT);
	ck_assert_int_eq(bench_settings_check(&settings, &error), 0);
	ck_assert_uint_eq(settings.op, BENCH_BOTH);
	ck_assert_uint_eq(settings.batch, 1);
	ck_assert_uint_eq(settings.reactors, 1);
	ck_assert_uint_eq(settings.size_min, 1);
	ck_assert_uint_eq(settings.size_max, MIB);
}
END_TEST

/* --- Values ----------------------------------------------------------------------------------- */

START_TEST(sizes_are_one_or_doubled_from_one_to_another)
{
	uint64_t sizes[BENCH_SIZES_MAX];

	bench_settings_init(&settings, BENCH_BW);
	ck_assert_int_eq(take(BENCH_BW, "--size", "512"), 0);
	ck_assert_uint_eq(bench_settings_sizes(&settings, sizes), 1);
	ck_assert_uint_eq(sizes[0], 512);
	ck_assert_int_eq(take(BENCH_BW, "--size", "1KiB:16MiB"), 0);
	ck_assert_uint_eq(bench_settings_sizes(&settings, sizes), 15);
	ck_assert_uint_eq(sizes[0], KIB);
	ck_assert_uint_eq(sizes[14], 16 * MIB);
	ck_assert_int_eq(take(BENCH_BW, "--size", "3:20"), 0);
	ck_assert_uint_eq(bench_settings_sizes(&settings, sizes), 3);
	ck_assert_uint_eq(sizes[2], 12);
	ck_assert_int_eq(take(BENCH_BW, "--size", "1:1GiB"), 0);
	ck_assert_uint_eq(bench_settings_sizes(&settings, sizes), 31);
}
END_TEST

START_TEST(wrong_values_are_refused_and_named)
{
	static const struct {
		const char *option, *text, *says;
	} wrong[] = {
		{"--size", "0", "--size: found \"0\""},
		{"--size", "", "--size: found \"\""},
		{"--size", ":4", "--size: found \"\""},
		{"--size", "4:", "--size: found \"\""},
		{"--size", "8KiB:4KiB", "end is before its start"},
		{"--size", "2GiB", "from 1B to 1GiB"},
		{"--size", "4KB", "--size: found \"4KB\""},
		{"--size", "4:8:16", "--size: found \"8:16\""},
		{"--batch", "0", "--batch: found \"0\""},
		{"--batch", "-1", "--batch: found \"-1\""},
		{"--reactors", "65", "from 1 to 64"},
		{"--op", "send", "allowed: write or read"},
		{"--op", "both", "allowed: write or read"},
		{"--layout", "random", "scattered or contiguous"},
		{"--limit", "5", "--limit: found \"5\""},
		{"--preset", "fast", "mw-chunkoff, mw-chunkon, hi-iops"},
	};
	const struct bench_settings before = settings;

	for (size_t i = 0; i < RMEM_COUNT_OF(wrong); i++) {
		memset(&error, 0, sizeof(error));
		ck_assert_msg(take(BENCH_BW, wrong[i].option, wrong[i].text) == -EINVAL, "%s %s",
			      wrong[i].option, wrong[i].text);
		ck_assert_msg(strstr(error.text, wrong[i].says) != NULL, "%s", error.text);
	}
	ck_assert_int_eq(memcmp(&settings, &before, sizeof(settings)), 0);
}
END_TEST

START_TEST(what_only_fails_together_is_refused)
{
	bench_settings_init(&settings, BENCH_BW);
	settings.plot = "out.pdf";
	ck_assert_int_eq(bench_settings_check(&settings, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.text, ".svg or .png"));
	settings.plot = ".png";
	ck_assert_int_eq(bench_settings_check(&settings, &error), -EINVAL);
	settings.plot = "out.png";
	ck_assert_int_eq(bench_settings_check(&settings, &error), 0);
	settings.reactors = 2;
	settings.iterations = BENCH_SAMPLES_MAX;
	ck_assert_int_eq(bench_settings_check(&settings, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.text, "--iterations"));
	settings.iterations = BENCH_SAMPLES_MAX / 2;
	ck_assert_int_eq(bench_settings_check(&settings, &error), 0);
	settings.batch = 65536;
	settings.in_flight = 257;
	ck_assert_int_eq(bench_settings_check(&settings, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.text, "--in-flight"));
}
END_TEST

START_TEST(sizes_are_shown_with_their_unit)
{
	char text[BENCH_SIZE_TEXT];

	ck_assert_str_eq(bench_size_text(64 * KIB, text), "64KiB");
	ck_assert_str_eq(bench_size_text(1, text), "1B");
	ck_assert_str_eq(bench_size_text(1000, text), "1000B");
}
END_TEST

/* --- The command line ------------------------------------------------------------------------- */

static struct bench_line line;

static enum conf_verdict read_line(enum bench_command command, const char *words)
{
	char copy[512], *argv[32] = {(char[]){"rmem-bench"}};
	int argc = 1;

	conf_destroy(line.conf);
	line.conf = NULL;
	snprintf(copy, sizeof(copy), "%s", words);
	for (char *word = strtok(copy, " "); word != NULL && argc < 31; word = strtok(NULL, " "))
		argv[argc++] = word;
	return bench_line_read(command, argc, argv, &line);
}

static void finish_line(void)
{
	conf_destroy(line.conf);
	line.conf = NULL;
}

START_TEST(presets_are_those_of_the_table)
{
	static const struct {
		const char *name;
		uint64_t reactors, batch, size_min, size_max, iterations;
		unsigned lanes;
		uint64_t chunk_bytes;
	} table[] = {
		{"mw-chunkoff", 2, 64, KIB, 16 * MIB, 128, 4, 64 * MIB},
		{"mw-chunkon", 4, 64, KIB, 16 * MIB, 256, 4, 64 * KIB},
		{"hi-iops", 8, 256, 512, 512, 512, 8, 64 * MIB},
		{"single", 1, 1, 512, 512, 200000, 1, 64 * KIB},
	};
	char words[64];

	for (size_t i = 0; i < RMEM_COUNT_OF(table); i++) {
		snprintf(words, sizeof(words), "--preset %s", table[i].name);
		ck_assert_int_eq(read_line(BENCH_BW, words), CONF_RUN);
		ck_assert_str_eq(line.settings.preset->name, table[i].name);
		ck_assert_uint_eq(line.settings.op, BENCH_WRITE);
		ck_assert_uint_eq(line.settings.reactors, table[i].reactors);
		ck_assert_uint_eq(line.settings.batch, table[i].batch);
		ck_assert_uint_eq(line.settings.size_min, table[i].size_min);
		ck_assert_uint_eq(line.settings.size_max, table[i].size_max);
		ck_assert_uint_eq(line.settings.iterations, table[i].iterations);
		ck_assert_uint_eq(line.settings.repeat, 5);
		ck_assert_uint_eq(conf_count(line.conf, "engine.lanes"), table[i].lanes);
		ck_assert_uint_eq(conf_size_bytes(line.conf, "engine.chunk"), table[i].chunk_bytes);
	}
}
END_TEST

START_TEST(other_options_count_more_than_a_preset_wherever_they_stand)
{
	static const char *const lines[] = {
		"--preset hi-iops --batch 7 --lanes 3 --size 64 --chunk 8KiB",
		"--batch 7 --lanes 3 --size 64 --chunk 8KiB --preset hi-iops",
	};

	for (size_t i = 0; i < RMEM_COUNT_OF(lines); i++) {
		ck_assert_int_eq(read_line(BENCH_BW, lines[i]), CONF_RUN);
		ck_assert_uint_eq(line.settings.reactors, 8);
		ck_assert_uint_eq(line.settings.batch, 7);
		ck_assert_uint_eq(line.settings.size_max, 64);
		ck_assert_uint_eq(conf_count(line.conf, "engine.lanes"), 3);
		ck_assert_uint_eq(conf_size_bytes(line.conf, "engine.chunk"), 8 * KIB);
	}
}
END_TEST

START_TEST(engine_options_reach_the_engine)
{
	struct rmem_engine_options engine;

	ck_assert_int_eq(read_line(BENCH_BW, "--lanes 2 --chunk off --max-chunks 9 --post-batch 16 "
					     "--depth 512 --poll busy --reactors 3 "
					     "--set engine.spin=7us --set engine.detect=3s"),
			 CONF_RUN);
	ck_assert_int_eq(bench_line_engine(&line, &engine, &error), 0);
	ck_assert_uint_eq(engine.lanes, 2);
	ck_assert_uint_eq(engine.chunk_bytes, 64 * MIB);
	ck_assert_uint_eq(engine.chunks_max, 9);
	ck_assert_uint_eq(engine.post_batch, 16);
	ck_assert_uint_eq(engine.depth, 512);
	ck_assert_int_eq(engine.poll, RMEM_POLL_BUSY);
	ck_assert_uint_eq(engine.reactor_count, 3);
	ck_assert_uint_eq(engine.spin_us, 7);
	ck_assert_uint_eq(engine.detect_ms, 3000);
	ck_assert_int_eq(read_line(BENCH_BW, "--poll event"), CONF_RUN);
	ck_assert_int_eq(bench_line_engine(&line, &engine, &error), 0);
	ck_assert_int_eq(engine.poll, RMEM_POLL_EVENT);
}
END_TEST

START_TEST(servers_are_given_or_made_not_both)
{
	size_t count;

	ck_assert_int_eq(read_line(BENCH_BW, "--server shm:/a --server shm:/b"), CONF_RUN);
	ck_assert_str_eq(conf_list(line.conf, "servers", &count)[1], "shm:/b");
	ck_assert_uint_eq(count, 2);
	ck_assert_int_eq(read_line(BENCH_BW, "--servers 4"), CONF_RUN);
	ck_assert_uint_eq(line.settings.servers, 4);
	ck_assert_int_eq(read_line(BENCH_BW, "--servers 1 --server shm:/a"), CONF_FAIL);
	ck_assert_ptr_null(line.conf);
}
END_TEST

START_TEST(a_wrong_command_line_is_refused)
{
	ck_assert_int_eq(read_line(BENCH_BW, "--frobnicate"), CONF_FAIL);
	ck_assert_int_eq(read_line(BENCH_BW, "word"), CONF_FAIL);
	ck_assert_int_eq(read_line(BENCH_BW, "--batch"), CONF_FAIL);
	ck_assert_int_eq(read_line(BENCH_BW, "--size 0"), CONF_FAIL);
	ck_assert_int_eq(read_line(BENCH_BW, "--preset none"), CONF_FAIL);
	ck_assert_int_eq(read_line(BENCH_BW, "--server nowhere"), CONF_FAIL);
	ck_assert_int_eq(read_line(BENCH_BW, "--set engine.lanes=99"), CONF_FAIL);
	ck_assert_int_eq(read_line(BENCH_BW, "--idle 1s"), CONF_FAIL);
	ck_assert_int_eq(read_line(BENCH_LAT, "--batch 2"), CONF_FAIL);
	ck_assert_int_eq(read_line(BENCH_LAT, "--op swap"), CONF_FAIL);
	ck_assert_int_eq(read_line(BENCH_LAT, "--idle 1s --op read --verify"), CONF_RUN);
	ck_assert_uint_eq(line.settings.idle_us, 1000000);
}
END_TEST

/* --- Memory ----------------------------------------------------------------------------------- */

START_TEST(each_message_gets_memory_of_its_own_where_there_is_enough)
{
	struct bench_budget budget;

	ck_assert_int_eq(read_line(BENCH_BW, "--preset mw-chunkon --in-flight 2"), CONF_RUN);
	ck_assert_int_eq(bench_budget_make(&line.settings, 1, 64 * GIB, &budget, &error), 0);
	ck_assert_uint_eq(budget.wanted_bytes, 2 * 64 * 16 * MIB);
	ck_assert_uint_eq(budget.share_bytes, budget.wanted_bytes);
	ck_assert_int_eq(read_line(BENCH_BW, "--size 100 --batch 3"), CONF_RUN);
	ck_assert_int_eq(bench_budget_make(&line.settings, 1, MIB, &budget, &error), 0);
	ck_assert_uint_eq(budget.share_bytes, 4096);
}
END_TEST

START_TEST(memory_is_shared_out_where_it_is_short)
{
	struct bench_budget budget;

	ck_assert_int_eq(read_line(BENCH_BW, "--preset mw-chunkoff"), CONF_RUN);
	/* Two reactors, here and on three servers. */
	ck_assert_int_eq(bench_budget_make(&line.settings, 3, GIB, &budget, &error), 0);
	ck_assert_uint_eq(budget.share_bytes, GIB / 8);
	ck_assert_uint_eq(budget.wanted_bytes, GIB);
	ck_assert_int_eq(bench_budget_make(&line.settings, 0, GIB, &budget, &error), 0);
	ck_assert_uint_eq(budget.share_bytes, GIB / 2);
	ck_assert_int_eq(read_line(BENCH_BW, "--preset mw-chunkoff --copy"), CONF_RUN);
	ck_assert_int_eq(bench_budget_make(&line.settings, 2, GIB, &budget, &error), 0);
	ck_assert_uint_eq(budget.share_bytes, GIB / 8);
}
END_TEST

START_TEST(a_message_that_does_not_fit_is_refused)
{
	struct bench_budget budget;

	ck_assert_int_eq(read_line(BENCH_BW, "--size 1MiB --reactors 4"), CONF_RUN);
	ck_assert_int_eq(bench_budget_make(&line.settings, 1, 8 * MIB, &budget, &error), 0);
	ck_assert_int_eq(bench_budget_make(&line.settings, 1, 8 * MIB - 1, &budget, &error),
			 -ENOMEM);
	ck_assert_ptr_nonnull(strstr(error.text, "1MiB"));
	ck_assert_ptr_nonnull(strstr(error.text, "--memory"));
}
END_TEST

START_TEST(the_limit_is_the_one_given_or_half_of_what_is_free)
{
	ck_assert_int_eq(read_line(BENCH_BW, "--memory 5MiB"), CONF_RUN);
	ck_assert_uint_eq(bench_budget_limit(&line.settings), 5 * MIB);
	ck_assert_int_eq(read_line(BENCH_BW, ""), CONF_RUN);
	ck_assert_uint_gt(bench_budget_limit(&line.settings), MIB);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("bench_settings");
	TCase *table = tcase_create("settings");
	TCase *lines = tcase_create("command line");

	tcase_add_test(table, every_default_is_within_its_own_bounds);
	tcase_add_test(table, every_option_is_complete_and_stands_once_in_a_command);
	tcase_add_test(table, the_defaults_measure_something);
	tcase_add_test(table, sizes_are_one_or_doubled_from_one_to_another);
	tcase_add_test(table, wrong_values_are_refused_and_named);
	tcase_add_test(table, what_only_fails_together_is_refused);
	tcase_add_test(table, sizes_are_shown_with_their_unit);
	suite_add_tcase(suite, table);
	tcase_add_checked_fixture(lines, NULL, finish_line);
	tcase_add_test(lines, presets_are_those_of_the_table);
	tcase_add_test(lines, other_options_count_more_than_a_preset_wherever_they_stand);
	tcase_add_test(lines, engine_options_reach_the_engine);
	tcase_add_test(lines, servers_are_given_or_made_not_both);
	tcase_add_test(lines, a_wrong_command_line_is_refused);
	tcase_add_test(lines, each_message_gets_memory_of_its_own_where_there_is_enough);
	tcase_add_test(lines, memory_is_shared_out_where_it_is_short);
	tcase_add_test(lines, a_message_that_does_not_fit_is_refused);
	tcase_add_test(lines, the_limit_is_the_one_given_or_half_of_what_is_free);
	suite_add_tcase(suite, lines);
	return run_suite(suite);
}
