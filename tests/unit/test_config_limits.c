/* SPDX-License-Identifier: Apache-2.0 */
/* What no person would write into a configuration, and how much of it is borne. */
#include <errno.h>

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

START_TEST(a_file_that_is_not_text_is_told)
{
	static const char bytes[] = "engine: { depth = 1; };\n\0\0\0fs = 1;";

	ck_assert_int_eq(
		conf_load(conf, config_file_bytes(&folder, "x.cfg", bytes, sizeof(bytes)), &errors),
		-EINVAL);
	ck_assert_uint_eq(errors.count, 2);
	ck_assert_str_eq(config_complaint(&folder, &errors, 1),
			 "x.cfg:2: the file is not text: a NUL byte is in it");
}
END_TEST

START_TEST(control_characters_do_not_reach_the_terminal)
{
	ck_assert_int_eq(load("log: { level = \"\\x1b[2Jdebug\"; };\n]\x1b[J\n"), -EINVAL);
	ck_assert_uint_eq(errors.count, 2);
	ck_assert_str_eq(
		config_complaint(&folder, &errors, 0),
		"x.cfg:1: log.level: found \"?[2Jdebug\"; allowed: error, warn, info or debug");
	ck_assert_str_eq(config_complaint(&folder, &errors, 1),
			 "x.cfg:2: syntax error in \"]?[J\"; the file is not checked from here on");
}
END_TEST

START_TEST(more_errors_than_are_kept_are_counted)
{
	char text[8192] = "engine: {\n", *end = text + strlen(text), *print = NULL;
	size_t print_size;
	FILE *stream = open_memstream(&print, &print_size);

	for (unsigned i = 0; i < 150; i++)
		end += sprintf(end, "bogus_%c%c = %u;\n", 'a' + i / 26, 'a' + i % 26, i);
	sprintf(end, "};\n");
	ck_assert_int_eq(load(text), -EINVAL);
	ck_assert_uint_eq(errors.count, 150);
	ck_assert_uint_eq(errors.kept, CONF_ERRORS_MAX);
	conf_errors_print(&errors, "test", stream);
	fclose(stream);
	ck_assert_ptr_nonnull(strstr(print, "x.cfg:101: engine.bogus_dv: there is no such"));
	ck_assert_ptr_null(strstr(print, "x.cfg:102:"));
	ck_assert_ptr_nonnull(strstr(print, "test: and 50 more\n"));
	free(print);
}
END_TEST

START_TEST(more_syntax_errors_than_are_kept_end_the_reading)
{
	char text[8192], *end = text;

	for (unsigned i = 0; i < 150; i++)
		end += sprintf(end, "bogus_%c%c = = %u;\n", 'a' + i / 26, 'a' + i % 26, i);
	ck_assert_int_eq(load(text), -EINVAL);
	ck_assert_uint_eq(errors.count, CONF_ERRORS_MAX);
}
END_TEST

START_TEST(nesting_without_end_is_an_error)
{
	size_t length = 200000;
	char *text = malloc(length + 1);

	ck_assert_ptr_nonnull(text);
	memset(text, '(', length);
	memcpy(text, "servers = ", 10);
	text[length] = '\0';
	ck_assert_int_eq(load(text), -EINVAL);
	ck_assert_uint_ge(errors.count, 1);
	for (size_t i = 0; i + 4 <= length; i += 4)
		memcpy(text + i, "a:{ ", 4);
	ck_assert_int_eq(load(text), -EINVAL);
	free(text);
}
END_TEST

START_TEST(what_cannot_be_read_is_told_with_the_reason)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/none.cfg", folder.path);
	ck_assert_int_eq(conf_load(conf, path, &errors), -ENOENT);
	ck_assert_str_eq(config_complaint(&folder, &errors, 0),
			 "none.cfg: cannot be read: No such file or directory");
	ck_assert_int_eq(conf_load(conf, folder.path, &errors), -EISDIR);
	ck_assert_ptr_nonnull(strstr(errors.list[1].text, "cannot be read: Is a directory"));
}
END_TEST

START_TEST(a_file_without_end_is_refused)
{
	char *text = malloc(CONF_SOURCE_BYTES + 1);

	ck_assert_ptr_nonnull(text);
	memset(text, ' ', CONF_SOURCE_BYTES + 1);
	ck_assert_int_eq(conf_load(conf, "/dev/zero", &errors), -EFBIG);
	ck_assert_int_eq(conf_load(conf,
				   config_file_bytes(&folder, "x.cfg", text, CONF_SOURCE_BYTES + 1),
				   &errors),
			 -EFBIG);
	ck_assert_str_eq(config_complaint(&folder, &errors, 1),
			 "x.cfg: cannot be read: File too large");
	free(text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config_limits");
	TCase *tcase = tcase_create("limits");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, a_file_that_is_not_text_is_told);
	tcase_add_test(tcase, control_characters_do_not_reach_the_terminal);
	tcase_add_test(tcase, more_errors_than_are_kept_are_counted);
	tcase_add_test(tcase, more_syntax_errors_than_are_kept_end_the_reading);
	tcase_add_test(tcase, nesting_without_end_is_an_error);
	tcase_add_test(tcase, what_cannot_be_read_is_told_with_the_reason);
	tcase_add_test(tcase, a_file_without_end_is_refused);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
