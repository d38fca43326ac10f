/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/runner.h"
#include "tools/bench_plot.h"

static char *text;
static size_t text_length;
static FILE *out;
static struct rmem_error error;

static void set_up(void)
{
	out = open_memstream(&text, &text_length);
	ck_assert_ptr_nonnull(out);
}

static void tear_down(void)
{
	if (out != NULL)
		fclose(out);
	free(text);
	text = NULL;
}

static const char *written(void)
{
	ck_assert_int_eq(fclose(out), 0);
	out = NULL;
	return text;
}

START_TEST(json_has_commas_between_values_and_nowhere_else)
{
	struct bench_json json;

	bench_json_init(&json, out);
	bench_json_open_object(&json, NULL);
	bench_json_count(&json, "a", 1);
	bench_json_open_array(&json, "b");
	bench_json_number(&json, NULL, 0.5);
	bench_json_bool(&json, NULL, true);
	bench_json_open_object(&json, NULL);
	bench_json_close_object(&json);
	bench_json_close_array(&json);
	bench_json_open_array(&json, "c");
	bench_json_close_array(&json);
	bench_json_text(&json, "d", "e");
	bench_json_close_object(&json);
	ck_assert_str_eq(written(), "{\n"
				    "  \"a\": 1,\n"
				    "  \"b\": [\n"
				    "    0.5,\n"
				    "    true,\n"
				    "    {}\n"
				    "  ],\n"
				    "  \"c\": [],\n"
				    "  \"d\": \"e\"\n"
				    "}\n");
}
END_TEST

START_TEST(json_escapes_what_it_has_to)
{
	struct bench_json json;

	bench_json_init(&json, out);
	bench_json_open_array(&json, NULL);
	bench_json_text(&json, NULL, "a\"b\\c\n\x01\xc3\xa4");
	bench_json_text(&json, NULL, NULL);
	bench_json_number(&json, NULL, (double)NAN);
	bench_json_number(&json, NULL, (double)INFINITY);
	bench_json_count(&json, NULL, UINT64_MAX);
	bench_json_close_array(&json);
	ck_assert_str_eq(written(), "[\n"
				    "  \"a\\\"b\\\\c\\u000a\\u0001\xc3\xa4\",\n"
				    "  null,\n"
				    "  null,\n"
				    "  null,\n"
				    "  18446744073709551615\n"
				    "]\n");
}
END_TEST

START_TEST(a_point_reports_medians_of_its_runs)
{
	struct bench_point point;
	struct bench_summary summary;

	ck_assert_int_eq(bench_point_init(&point, 512, 3, &error), 0);
	for (unsigned run = 0; run < 4; run++) { /* the last has no room */
		struct bench_result result;

		for (unsigned i = 0; i < BENCH_METRICS; i++)
			result.values[i] = i * 100 + (double[]){3, 1, 2, 99}[run];
		bench_point_add(&point, &result);
	}
	ck_assert_uint_eq(point.runs, 3);
	for (unsigned i = 0; i < BENCH_METRICS; i++)
		ck_assert_double_eq(bench_point_median(&point, (enum bench_metric)i), i * 100 + 2);
	bench_point_summary(&point, BENCH_OPS, &summary);
	ck_assert_double_eq(summary.min, BENCH_OPS * 100 + 1);
	ck_assert_double_eq(summary.max, BENCH_OPS * 100 + 3);
	bench_point_finish(&point);
}
END_TEST

START_TEST(every_metric_has_a_name_of_its_own)
{
	for (unsigned i = 0; i < BENCH_METRICS; i++) {
		ck_assert_ptr_nonnull(bench_metric_name((enum bench_metric)i));
		for (unsigned k = 0; k < i; k++)
			ck_assert_str_ne(bench_metric_name((enum bench_metric)i),
					 bench_metric_name((enum bench_metric)k));
	}
}
END_TEST

START_TEST(facts_and_notes_are_comments_of_bounded_width)
{
	struct bench_facts facts = {0};
	char *line;

	for (unsigned i = 0; i < 20; i++)
		bench_fact_count(&facts, "a_parameter", i);
	bench_fact_size(&facts, "size", 4096);
	bench_fact_note(&facts,
			"%0200d and some more words to fill up more than one line, which "
			"is broken between words then",
			7);
	bench_facts_print(&facts, "bw", out);
	written();
	ck_assert_ptr_nonnull(strstr(text, "a_parameter 19, size 4KiB\n"));
	for (line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
		ck_assert_msg(line[0] == '#', "%s", line);
		ck_assert_msg(strlen(line) <= 100 || strstr(line, "0000") != NULL, "%s", line);
	}
}
END_TEST

START_TEST(more_facts_and_notes_than_there_is_room_for_do_no_harm)
{
	struct bench_facts facts = {0};

	for (unsigned i = 0; i < 2 * BENCH_FACTS_MAX; i++)
		bench_fact_count(&facts, "n", i);
	for (unsigned i = 0; i < 2 * BENCH_NOTES_MAX; i++)
		bench_fact_note(&facts, "%u", i);
	ck_assert_uint_eq(facts.count, BENCH_FACTS_MAX);
	ck_assert_uint_eq(facts.note_count, BENCH_NOTES_MAX);
}
END_TEST

START_TEST(a_plot_script_quotes_names_and_holds_all_points)
{
	const struct bench_plot_point points[] = {{1, 2, 1.5, 2.5}, {2, 4, 3, 5}};
	const struct bench_plot_curve curves[] = {{"left", points, 2, false},
						  {"it's right", points, 2, true}};
	struct bench_plot plot = {
		.path = "/tmp/it's.svg",
		.title = "a_title",
		.y_label = "GB/s",
		.y2_label = "us",
		.curves = curves,
		.curve_count = 2,
	};

	bench_plot_script(&plot, out);
	written();
	ck_assert_ptr_nonnull(strstr(text, "set terminal svg "));
	ck_assert_ptr_nonnull(strstr(text, "set xtics ('1B' 1, '2B' 2)\n"));
	ck_assert_ptr_null(strstr(text, "xrange"));
	ck_assert_ptr_nonnull(strstr(text, "set output '/tmp/it''s.svg'\n"));
	ck_assert_ptr_nonnull(strstr(text, "$curve1 << END\n1 2 1.5 2.5\n2 4 3 5\nEND\n"));
	ck_assert_ptr_nonnull(strstr(text, "axes x1y1 with yerrorlines title 'left', "));
	ck_assert_ptr_nonnull(strstr(text, "axes x1y2 with yerrorlines title 'it''s right'\n"));
}
END_TEST

START_TEST(a_png_is_drawn_as_one)
{
	const struct bench_plot_point point = {1, 1, 1, 1};
	const struct bench_plot_curve curve = {"curve", &point, 1, false};
	struct bench_plot plot = {.path = "a.png",
				  .title = "t",
				  .y_label = "y",
				  .is_logarithmic = true,
				  .curves = &curve,
				  .curve_count = 1};

	bench_plot_script(&plot, out);
	written();
	ck_assert_ptr_nonnull(strstr(text, "set terminal pngcairo "));
	ck_assert_ptr_nonnull(strstr(text, "set logscale y 10\n"));
	ck_assert_ptr_null(strstr(text, "y2"));
	ck_assert_ptr_nonnull(strstr(text, "set xrange [0.5:2]\n")); /* of one size alone */
}
END_TEST

START_TEST(a_plot_of_one_point_has_ranges)
{
	const struct bench_plot_point point = {4, 1, 1, 1}, other = {4, 6, 6, 6};
	const struct bench_plot_curve curves[] = {{"left", &point, 1, false},
						  {"right", &other, 1, true}};
	struct bench_plot plot = {.path = "a.png",
				  .title = "t",
				  .y_label = "y",
				  .y2_label = "y2",
				  .curves = curves,
				  .curve_count = 2};

	bench_plot_script(&plot, out);
	written();
	ck_assert_ptr_nonnull(strstr(text, "set xrange [2:8]\n"));
	ck_assert_ptr_nonnull(strstr(text, "set y2range [3:12]\n"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("bench_report");
	TCase *tcase = tcase_create("report");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, json_has_commas_between_values_and_nowhere_else);
	tcase_add_test(tcase, json_escapes_what_it_has_to);
	tcase_add_test(tcase, a_point_reports_medians_of_its_runs);
	tcase_add_test(tcase, every_metric_has_a_name_of_its_own);
	tcase_add_test(tcase, facts_and_notes_are_comments_of_bounded_width);
	tcase_add_test(tcase, more_facts_and_notes_than_there_is_room_for_do_no_harm);
	tcase_add_test(tcase, a_plot_script_quotes_names_and_holds_all_points);
	tcase_add_test(tcase, a_png_is_drawn_as_one);
	tcase_add_test(tcase, a_plot_of_one_point_has_ranges);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
