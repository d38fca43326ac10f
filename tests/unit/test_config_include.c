/* SPDX-License-Identifier: Apache-2.0 */
/* Files that include others: @include of the loader. */
#include <errno.h>
#include <sys/stat.h>

#include "config/config.h"
#include "config/source.h"
#include "tests/support/config_file.h"
#include "tests/support/runner.h"

static struct config_folder folder;
static struct conf *conf;
static struct conf_errors errors;

static void set_up(void)
{
	config_folder_init(&folder);
	conf_errors_init(&errors);
	conf = conf_create(CONF_RMEMFS);
	ck_assert_ptr_nonnull(conf);
}

static void tear_down(void)
{
	conf_destroy(conf);
	conf_errors_finish(&errors);
	config_folder_finish(&folder);
}

static int load(const char *text)
{
	return conf_load(conf, config_file(&folder, "x.cfg", text), &errors);
}

static void expect_one(const char *text, const char *complaint)
{
	ck_assert_int_eq(load(text), -EINVAL);
	ck_assert_str_eq(config_complaint(&folder, &errors, 0), complaint);
	ck_assert_uint_eq(errors.count, 1);
}

START_TEST(an_included_file_is_found_beside_the_one_that_includes_it)
{
	config_file(&folder, "a.cfg", "engine: { depth = 16; };\n@include \"b.cfg\"\n");
	config_file(&folder, "b.cfg", "fs: { reactors = 3; };");
	ck_assert_int_eq(load("  @include \"a.cfg\" # both\nlog: { level = \"warn\"; };\n"), 0);
	ck_assert_uint_eq(conf_count(conf, "engine.depth"), 16);
	ck_assert_uint_eq(conf_count(conf, "fs.reactors"), 3);
	ck_assert_str_eq(conf_word(conf, "log.level"), "warn");
}
END_TEST

START_TEST(an_included_file_may_be_named_by_its_whole_path)
{
	char text[200];

	config_file(&folder, "a.cfg", "engine: { depth = 16; };");
	snprintf(text, sizeof(text), "@include \"%s/a.cfg\"", folder.path);
	ck_assert_int_eq(load(text), 0);
	ck_assert_uint_eq(conf_count(conf, "engine.depth"), 16);
}
END_TEST

START_TEST(a_file_may_be_included_within_a_group)
{
	config_file(&folder, "a.cfg", "depth = 16;");
	ck_assert_int_eq(load("engine: {\n@include \"a.cfg\"\nlanes = 2; };"), 0);
	ck_assert_uint_eq(conf_count(conf, "engine.depth"), 16);
	ck_assert_uint_eq(conf_count(conf, "engine.lanes"), 2);
}
END_TEST

START_TEST(origins_name_the_included_file_and_its_lines)
{
	char expected[160];

	config_file(&folder, "a.cfg", "engine: {\ndepth = 16; };");
	ck_assert_int_eq(load("\n\n@include \"a.cfg\"\nfs: {\nreactors = 3; };"), 0);
	snprintf(expected, sizeof(expected), "%s/a.cfg:2", folder.path);
	ck_assert_str_eq(conf_origin(conf, "engine.depth"), expected);
	snprintf(expected, sizeof(expected), "%s/x.cfg:5", folder.path);
	ck_assert_str_eq(conf_origin(conf, "fs.reactors"), expected);
}
END_TEST

START_TEST(errors_name_the_included_file_and_stand_in_the_order_of_reading)
{
	/* NOLINTBEGIN(bugprone-suspicious-missing-comma): one message is split */
	static const char *const expected[] = {
		"x.cfg:1: bogus: there is no such setting; --help-config lists all",
		"a.cfg:3: fs.chace: there is no such setting; did you mean fs.cache?",
		"b.cfg:1: engine.depth: found \"1\", which is out of range; allowed: a whole "
		"number "
		"from 2 to 32768",
		"a.cfg:7: syntax error in \"log: = { };\"",
		"x.cfg:4: store.sync: found \"no\"; allowed: fsync or commit",
	};
	/* NOLINTEND(bugprone-suspicious-missing-comma) */

	config_file(&folder, "a.cfg",
		    "\nfs: {\nchace = 1;\n};\n@include \"b.cfg\"\n\nlog: = { };\n");
	config_file(&folder, "b.cfg", "engine: { depth = 1; };");
	ck_assert_int_eq(load("bogus = 1;\n\n@include \"a.cfg\"\nstore: { sync = \"no\"; };\n"),
			 -EINVAL);
	for (unsigned i = 0; i < RMEM_COUNT_OF(expected); i++)
		ck_assert_str_eq(config_complaint(&folder, &errors, i), expected[i]);
	ck_assert_uint_eq(errors.count, RMEM_COUNT_OF(expected));
}
END_TEST

START_TEST(a_setting_that_an_included_file_has_too_is_told_with_both_files)
{
	char expected[200];

	config_file(&folder, "a.cfg", "servers = \"shm:/a\";");
	snprintf(expected, sizeof(expected),
		 "x.cfg:2: servers: set a second time, first on line 1 of %s/a.cfg", folder.path);
	expect_one("@include \"a.cfg\"\nservers = \"shm:/b\";\n", expected);
}
END_TEST

START_TEST(a_missing_include_is_told_and_the_rest_is_checked)
{
	ck_assert_int_eq(load("@include \"none.cfg\"\nfs: { reactors = 99; };\n"), -EINVAL);
	ck_assert_uint_eq(errors.count, 2);
	ck_assert_ptr_nonnull(strstr(errors.list[0].text, "x.cfg:1: cannot include /tmp/"));
	ck_assert_ptr_nonnull(strstr(errors.list[0].text, "none.cfg: No such file or directory"));
	ck_assert_ptr_nonnull(strstr(errors.list[1].text, "x.cfg:2: fs.reactors"));
}
END_TEST

/* libconfig itself would end the process here. */
START_TEST(a_folder_cannot_be_included)
{
	ck_assert_int_eq(load("@include \"/tmp\"\n"), -EINVAL);
	ck_assert_str_eq(config_complaint(&folder, &errors, 0),
			 "x.cfg:1: cannot include /tmp: Is a directory");
}
END_TEST

START_TEST(an_include_of_another_form_is_told)
{
	static const char complaint[] =
		"x.cfg:1: found @include %s; write @include \"FILE\" on a line of its own";
	static const char *const forms[] = {"a.cfg", "\"a.cfg", "\"\"", "\"a.cfg\" x = 1;", ""};
	char text[64], expected[160];

	config_file(&folder, "a.cfg", "");
	for (unsigned i = 0; i < RMEM_COUNT_OF(forms); i++) {
		conf_errors_finish(&errors);
		snprintf(text, sizeof(text), "@include %s\n", forms[i]);
		snprintf(expected, sizeof(expected), complaint, forms[i]);
		expect_one(text, expected);
	}
}
END_TEST

START_TEST(a_file_that_includes_itself_is_told)
{
	ck_assert_int_eq(load("@include \"x.cfg\"\n"), -EINVAL);
	ck_assert_uint_eq(errors.count, 1);
	ck_assert_ptr_nonnull(strstr(errors.list[0].text, "it is being read already"));
}
END_TEST

START_TEST(two_files_that_include_each_other_are_told)
{
	config_file(&folder, "a.cfg", "@include \"x.cfg\"\nfs: { reactors = 3; };\n");
	ck_assert_int_eq(load("@include \"a.cfg\"\n"), -EINVAL);
	ck_assert_uint_eq(errors.count, 1);
	ck_assert_ptr_nonnull(strstr(errors.list[0].text, "a.cfg:1: cannot include"));
	ck_assert_uint_eq(conf_count(conf, "fs.reactors"), 3);
}
END_TEST

static void write_chain(unsigned links)
{
	char name[32], text[64];

	for (unsigned i = 0; i < links; i++) {
		snprintf(name, sizeof(name), "%u.cfg", i);
		snprintf(text, sizeof(text), "@include \"%u.cfg\"\n", i + 1);
		config_file(&folder, name, text);
	}
	snprintf(name, sizeof(name), "%u.cfg", links);
	config_file(&folder, name, "fs: { reactors = 3; };\n");
}

START_TEST(includes_go_as_deep_as_the_limit_and_no_deeper)
{
	char path[160];

	write_chain(CONF_INCLUDE_DEPTH);
	snprintf(path, sizeof(path), "%s/0.cfg", folder.path);
	ck_assert_int_eq(conf_load(conf, path, &errors), 0);
	ck_assert_uint_eq(conf_count(conf, "fs.reactors"), 3);
	write_chain(CONF_INCLUDE_DEPTH + 1);
	ck_assert_int_eq(conf_load(conf, path, &errors), -EINVAL);
	ck_assert_str_eq(config_complaint(&folder, &errors, 0),
			 "10.cfg:1: too many includes: 10 within each other, 256 in all");
}
END_TEST

/* Each file includes the next twice: 2^10 files without a bound on all of them. */
START_TEST(files_that_multiply_are_stopped)
{
	char name[32], text[64];

	for (unsigned i = 1; i <= CONF_INCLUDE_DEPTH; i++) {
		snprintf(name, sizeof(name), "%u.cfg", i);
		snprintf(text, sizeof(text), "@include \"%u.cfg\"\n@include \"%u.cfg\"\n", i + 1,
			 i + 1);
		config_file(&folder, name, text);
	}
	config_file(&folder, "11.cfg", "\n");
	ck_assert_int_eq(load("@include \"1.cfg\"\n@include \"1.cfg\"\n"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(errors.list[0].text, "too many includes"));
}
END_TEST

START_TEST(files_that_are_too_long_together_are_refused)
{
	size_t length = CONF_SOURCE_BYTES / 2;
	char *text = malloc(length + 1);

	ck_assert_ptr_nonnull(text);
	memset(text, ' ', length);
	text[length] = '\0';
	config_file(&folder, "a.cfg", text);
	free(text);
	ck_assert_int_eq(load("@include \"a.cfg\"\n@include \"a.cfg\"\n"), -EINVAL);
	ck_assert_uint_eq(errors.count, 1);
	ck_assert_ptr_nonnull(strstr(errors.list[0].text, "longer than 1048576 bytes"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config_include");
	TCase *tcase = tcase_create("include");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, an_included_file_is_found_beside_the_one_that_includes_it);
	tcase_add_test(tcase, an_included_file_may_be_named_by_its_whole_path);
	tcase_add_test(tcase, a_file_may_be_included_within_a_group);
	tcase_add_test(tcase, origins_name_the_included_file_and_its_lines);
	tcase_add_test(tcase, errors_name_the_included_file_and_stand_in_the_order_of_reading);
	tcase_add_test(tcase, a_setting_that_an_included_file_has_too_is_told_with_both_files);
	tcase_add_test(tcase, a_missing_include_is_told_and_the_rest_is_checked);
	tcase_add_test(tcase, a_folder_cannot_be_included);
	tcase_add_test(tcase, an_include_of_another_form_is_told);
	tcase_add_test(tcase, a_file_that_includes_itself_is_told);
	tcase_add_test(tcase, two_files_that_include_each_other_are_told);
	tcase_add_test(tcase, includes_go_as_deep_as_the_limit_and_no_deeper);
	tcase_add_test(tcase, files_that_multiply_are_stopped);
	tcase_add_test(tcase, files_that_are_too_long_together_are_refused);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
