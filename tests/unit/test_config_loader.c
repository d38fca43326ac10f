/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

#include <errno.h>

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

/* Loads `text`, and expects exactly these complaints, up to a NULL. */
static void expect(const char *text, const char *const *complaints)
{
	size_t count = 0;

	ck_assert_int_eq(load(text), -EINVAL);
	for (; complaints[count] != NULL; count++)
		ck_assert_str_eq(config_complaint(&folder, &errors, count), complaints[count]);
	if (errors.count != count)
		ck_abort_msg("also: %s", config_complaint(&folder, &errors, count));
}

/* NOLINTBEGIN(bugprone-suspicious-missing-comma): long messages are split, not forgotten */
#define EXPECT(text, ...) expect(text, (const char *const[]){__VA_ARGS__, NULL})

START_TEST(an_empty_file_leaves_the_defaults)
{
	size_t count;

	ck_assert_int_eq(load(""), 0);
	ck_assert_int_eq(load("# nothing here\n/* nor\nhere */ // nor here\n"), 0);
	ck_assert_uint_eq(conf_size_bytes(conf, "engine.chunk"), 65536);
	ck_assert_uint_eq(conf_duration_us(conf, "engine.detect"), 2000000);
	ck_assert_uint_eq(conf_mode(conf, "server.socket_mode"), 0600);
	ck_assert_uint_eq(conf_enum(conf, "engine.poll"), CONF_POLL_ADAPTIVE);
	ck_assert(conf_bool(conf, "fs.default_permissions"));
	ck_assert_str_eq(conf_text(conf, "store.url"), "");
	ck_assert_str_eq(conf_text(conf, "server.backing"), "anonymous");
	conf_list(conf, "servers", &count);
	ck_assert_uint_eq(count, 0);
	ck_assert_str_eq(conf_list(conf, "server.listen", &count)[0], "shm:/run/rmemd.sock");
	ck_assert_uint_eq(count, 1);
	ck_assert_str_eq(conf_origin(conf, "engine.chunk"), "default");
}
END_TEST

START_TEST(every_type_is_read_and_remembers_its_line)
{
	const char *const *servers;
	char expected[160];
	size_t count;

	ck_assert_int_eq(load("servers = [ \"shm:/a\", \"shm:/b\" ];\n"
			      "engine: {\n"
			      "  chunk = \"128KiB\"; spin = \"1ms\"\n"
			      "  depth = 512, poll = \"busy\" };\n"
			      "store = { url = \"lmdb:/s\"; map_size = 8589934592; };\n"
			      "fs: { allow_other = true; wait = 0; control = \"/run/c\"; };\n"
			      "server: { socket_mode = \"0660\"; size = 0x100000; };\n"),
			 0);
	servers = conf_list(conf, "servers", &count);
	ck_assert_uint_eq(count, 2);
	ck_assert_str_eq(servers[1], "shm:/b");
	ck_assert_uint_eq(conf_size_bytes(conf, "engine.chunk"), 131072);
	ck_assert_uint_eq(conf_duration_us(conf, "engine.spin"), 1000);
	ck_assert_uint_eq(conf_count(conf, "engine.depth"), 512);
	ck_assert_uint_eq(conf_enum(conf, "engine.poll"), CONF_POLL_BUSY);
	ck_assert_str_eq(conf_word(conf, "engine.poll"), "busy");
	ck_assert_str_eq(conf_text(conf, "store.url"), "lmdb:/s");
	ck_assert_uint_eq(conf_size_bytes(conf, "store.map_size"), UINT64_C(8589934592));
	ck_assert(conf_bool(conf, "fs.allow_other"));
	ck_assert_str_eq(conf_text(conf, "fs.control"), "/run/c");
	ck_assert_uint_eq(conf_mode(conf, "server.socket_mode"), 0660);
	ck_assert_uint_eq(conf_size_bytes(conf, "server.size"), 1 << 20);
	snprintf(expected, sizeof(expected), "%s/x.cfg:4", folder.path);
	ck_assert_str_eq(conf_origin(conf, "engine.poll"), expected);
}
END_TEST

START_TEST(a_list_of_one_may_be_the_string_alone)
{
	size_t count;

	ck_assert_int_eq(load("servers = \"shm:/a\";"), 0);
	ck_assert_str_eq(conf_list(conf, "servers", &count)[0], "shm:/a");
	ck_assert_uint_eq(count, 1);
	ck_assert_int_eq(load("servers = ( \"shm:/b\", \"shm:/c\" );"), 0);
	conf_list(conf, "servers", &count);
	ck_assert_uint_eq(count, 2);
}
END_TEST

START_TEST(a_list_in_a_file_replaces_the_default)
{
	size_t count;

	ck_assert_int_eq(load("server: { listen = [ \"shm:/a\" ]; };"), 0);
	ck_assert_str_eq(conf_list(conf, "server.listen", &count)[0], "shm:/a");
	ck_assert_uint_eq(count, 1);
}
END_TEST

START_TEST(a_second_file_counts_more_than_the_first)
{
	ck_assert_int_eq(load("engine: { depth = 16; lanes = 2; };"), 0);
	ck_assert_int_eq(load("engine: { depth = 32; };"), 0);
	ck_assert_uint_eq(conf_count(conf, "engine.depth"), 32);
	ck_assert_uint_eq(conf_count(conf, "engine.lanes"), 2);
}
END_TEST

START_TEST(comments_and_strings_may_contain_each_other)
{
	ck_assert_int_eq(
		load("# engine: { depth = oops\n"
		     "store: { /* } url = \"lmdb:/no\"; { */ url = "
		     "\"lmdb:/a#b//c/*d*/e\\\\\\\"f\";\n"
		     "// \" unclosed\n"
		     "};\n"
		     "/* \" */ engine /* here: */ : { depth /**/ = /* 1 */ 16 /***/ ; }\n"),
		0);
	ck_assert_str_eq(conf_text(conf, "store.url"), "lmdb:/a#b//c/*d*/e\\\"f");
	ck_assert_uint_eq(conf_count(conf, "engine.depth"), 16);
}
END_TEST

START_TEST(lines_may_end_as_on_windows)
{
	ck_assert_int_eq(load("engine: {\r\n  depth = 16;\r\n};\r\n"), 0);
	ck_assert_uint_eq(conf_count(conf, "engine.depth"), 16);
}
END_TEST

START_TEST(every_error_of_a_file_is_told_in_the_order_of_its_lines)
{
	EXPECT("servers = [ \"smh:/x\" ];\n"
	       "engine: {\n"
	       "  chunk = \"64KB\";\n"
	       "  dept = 5;\n"
	       "  lanes = \"5\"; spin = 50us; depth = 1;\n"
	       "  poll = = \"busy\";\n"
	       "  detect = \"1h\";\n"
	       "};\n"
	       "fs: { cache = alwys; wait = true;\n"
	       "  wait = \"5s\"; };\n",
	       "x.cfg:1: servers: found \"smh:/x\"; allowed: a list of shm:/PATH or "
	       "verbs://HOST:PORT, up to 256",
	       "x.cfg:3: engine.chunk: found \"64KB\", which may mean 1000 or 1024: write KiB, "
	       "MiB, "
	       "GiB or TiB; allowed: a size from 4KiB to 64MiB, a multiple of 4KiB",
	       "x.cfg:4: engine.dept: there is no such setting; did you mean engine.depth?",
	       "x.cfg:5: engine.spin: found 50us, a value with a unit is written in quotes",
	       "x.cfg:5: engine.lanes: found the string \"5\"; allowed: a whole number from 1 to "
	       "16",
	       "x.cfg:5: engine.depth: found \"1\", which is out of range; allowed: a whole number "
	       "from 2 to 32768",
	       "x.cfg:6: syntax error in \"poll = = \"busy\";\"",
	       "x.cfg:7: engine.detect: found \"1h\", which is out of range; allowed: a duration "
	       "from 10ms to 10min",
	       "x.cfg:9: fs.cache: found alwys, a word is written in quotes",
	       "x.cfg:9: fs.wait: found true; allowed: a duration from 0 to 1h",
	       "x.cfg:10: fs.wait: set a second time, first on line 9");
}
END_TEST

START_TEST(a_value_of_the_wrong_type_is_named)
{
	EXPECT("servers = 5;\n"
	       "store: { url = true; map_size = 1.5; sync_interval = ( \"1s\" ); };\n"
	       "fs: { reactors = true; allow_other = \"true\"; cache = 1; control = { }; };\n"
	       "server: { listen = [ 1, 2 ]; socket_mode = 600; };\n",
	       "x.cfg:1: servers: found the number 5; allowed: a list of shm:/PATH or "
	       "verbs://HOST:PORT, up to 256",
	       "x.cfg:2: store.url: found true; allowed: lmdb:/PATH",
	       "x.cfg:2: store.map_size: found 1.5; allowed: a size from 16MiB to 16TiB, a "
	       "multiple "
	       "of 4KiB",
	       "x.cfg:2: store.sync_interval: found a list; allowed: a duration from 10ms to 1h",
	       "x.cfg:3: fs.reactors: found true; allowed: a whole number from 0 to 64",
	       "x.cfg:3: fs.allow_other: found the string \"true\"; allowed: true or false",
	       "x.cfg:3: fs.cache: found the number 1; allowed: default, none, auto or always",
	       "x.cfg:3: fs.control: found a group; allowed: an absolute path or auto",
	       "x.cfg:4: server.listen: found the number 1; allowed: a list of shm:/PATH or "
	       "verbs://HOST:PORT, up to 16",
	       "x.cfg:4: server.socket_mode: found \"600\", which has to be a string, such as "
	       "\"0600\"; allowed: octal access rights from 0000 to 0777");
}
END_TEST

START_TEST(an_unknown_key_is_told_with_the_nearest_one)
{
	EXPECT("servres = [ \"shm:/a\" ];\n"
	       "engin: { chunk = 4; bogus = 1; };\n"
	       "fs: { chunk = \"4KiB\"; deep: { deeper: { x = 1; }; }; };\n"
	       "xyzzyxyzzy = 1;\n",
	       "x.cfg:1: servres: there is no such setting; did you mean servers?",
	       "x.cfg:2: engin: there is no such setting; did you mean engine?",
	       "x.cfg:3: fs.chunk: there is no such setting; did you mean engine.chunk?",
	       "x.cfg:3: fs.deep: there is no such setting; --help-config lists all",
	       "x.cfg:4: xyzzyxyzzy: there is no such setting; --help-config lists all");
}
END_TEST

START_TEST(a_group_that_is_set_like_a_key_is_told)
{
	EXPECT("engine = 5;\nlog = \"debug\";\n",
	       "x.cfg:1: engine: is a group: write engine: { NAME = VALUE; };",
	       "x.cfg:2: log: is a group: write log: { NAME = VALUE; };");
}
END_TEST

START_TEST(a_key_with_a_dot_is_told_how_groups_are_written)
{
	EXPECT("engine.chunk = \"64KiB\";\nlog.level: \"debug\";\nfs: { reactors = 99; };\n",
	       "x.cfg:1: found engine.chunk; a setting in a group is written GROUP: { NAME = "
	       "VALUE; };",
	       "x.cfg:2: found log.level; a setting in a group is written GROUP: { NAME = VALUE; "
	       "};",
	       "x.cfg:3: fs.reactors: found \"99\", which is out of range; allowed: a whole number "
	       "from 0 to 64");
}
END_TEST

START_TEST(settings_and_groups_that_come_twice_are_told)
{
	EXPECT("fs: { wait = 0; wait = 0; };\n"
	       "engine: { lanes = 1;\n"
	       "  lanes = 1; lanes = 99; };\n"
	       "fs: { wait = 5; };\n"
	       "log: { fs = \"debug\"; };\n",
	       "x.cfg:1: fs.wait: set a second time, first on line 1",
	       "x.cfg:3: engine.lanes: set a second time, first on line 2",
	       "x.cfg:3: engine.lanes: set a second time, first on line 2",
	       "x.cfg:4: fs: set a second time, first on line 1");
}
END_TEST

START_TEST(one_name_in_two_groups_is_no_repetition)
{
	ck_assert_int_eq(load("server: { size = \"1GiB\"; huge_pages = \"off\"; };\n"
			      "staging: { size = \"1MiB\"; huge_pages = \"off\"; };\n"),
			 0);
	ck_assert_uint_eq(conf_size_bytes(conf, "staging.size"), 1 << 20);
}
END_TEST

START_TEST(large_numbers_do_not_wrap_around)
{
	ck_assert_int_eq(load("store: { map_size = 4294967296; };\n"
			      "server: { size = 0x200000000; };\n"
			      "staging: { size = 8589934592L; stream_threshold = 4096LL; };"),
			 0);
	ck_assert_uint_eq(conf_size_bytes(conf, "store.map_size"), UINT64_C(4294967296));
	ck_assert_uint_eq(conf_size_bytes(conf, "server.size"), UINT64_C(0x200000000));
	ck_assert_uint_eq(conf_size_bytes(conf, "staging.size"), UINT64_C(8589934592));
	ck_assert_uint_eq(conf_size_bytes(conf, "staging.stream_threshold"), 4096);
}
END_TEST

START_TEST(numbers_that_do_not_fit_are_told)
{
	EXPECT("engine: { depth = 4294967298;\n"
	       "  lanes = 18446744073709551617; post_batch = -9223372036854775809L;\n"
	       "  max_chunks = 0xFFFFFFFFFFFFFFFF;\n"
	       "  chunk = 1111111111222222222233333333334444444444555555; };\n",
	       "x.cfg:1: engine.depth: found \"4294967298\", which is out of range; allowed: a "
	       "whole "
	       "number from 2 to 32768",
	       "x.cfg:2: engine.lanes: found 18446744073709551617, a number that is too large",
	       "x.cfg:2: engine.post_batch: found -9223372036854775809, a number that is too large",
	       "x.cfg:3: engine.max_chunks: found 0xFFFFFFFFFFFFFFFF, a number that is too large",
	       "x.cfg:4: engine.chunk: found 111111111122222222223333333333444444444..., a number "
	       "that is too large");
}
END_TEST

START_TEST(values_without_quotes_are_told_and_the_rest_is_checked)
{
	EXPECT("engine: { chunk = 64KiB; spin = -5us; poll = busy };\n"
	       "fs: { cache = none, wait = 1_000; reactors = 99; };\n"
	       "server: { huge_pages = off; listen = [ 50us ]; };\n",
	       "x.cfg:1: engine.chunk: found 64KiB, a value with a unit is written in quotes",
	       "x.cfg:1: engine.spin: found -5us, a value with a unit is written in quotes",
	       "x.cfg:1: engine.poll: found busy, a word is written in quotes",
	       "x.cfg:2: fs.cache: found none, a word is written in quotes",
	       "x.cfg:2: fs.wait: found 1_000, a value with a unit is written in quotes",
	       "x.cfg:2: fs.reactors: found \"99\", which is out of range; allowed: a whole number "
	       "from 0 to 64",
	       "x.cfg:3: server.huge_pages: found off, a word is written in quotes",
	       "x.cfg:3: server.listen: found 50us, a value with a unit is written in quotes");
}
END_TEST

START_TEST(a_missing_quote_is_told_where_it_is_missing)
{
	EXPECT("store: {\n"
	       "  url = \"lmdb:/x;\n"
	       "  sync = \"always\";\n"
	       "};\n"
	       "fs: { control = \"/run/\\\n"
	       "};\n",
	       "x.cfg:2: store.url: the string has no closing quote on its line",
	       "x.cfg:3: store.sync: found \"always\"; allowed: fsync or commit",
	       "x.cfg:5: fs.control: the string has no closing quote on its line");
}
END_TEST

START_TEST(a_missing_brace_is_told_at_the_end)
{
	EXPECT("engine: { depth = 1;\nfs: { reactors = 99; };\n",
	       "x.cfg:1: engine.depth: found \"1\", which is out of range; allowed: a whole number "
	       "from 2 to 32768",
	       "x.cfg:2: engine.fs: is a group of its own: is the } of engine missing before it?",
	       "x.cfg:3: syntax error at the end: is a } or ; missing?");
}
END_TEST

START_TEST(a_missing_value_is_told_and_what_is_not_checked)
{
	EXPECT("fs: { reactors = 99;\n  wait =\n  cache = \"none\"; };\nengine: { depth = 1; };\n",
	       "x.cfg:1: fs.reactors: found \"99\", which is out of range; allowed: a whole number "
	       "from 0 to 64",
	       "x.cfg:3: syntax error in \"cache = \"none\"; };\"; the file is not checked from "
	       "here "
	       "on");
}
END_TEST

START_TEST(a_comment_without_an_end_is_told_where_it_starts)
{
	EXPECT("engine: { depth = 1; };\nfs: {\n  /* reactors = 5;\n};\n",
	       "x.cfg:1: engine.depth: found \"1\", which is out of range; allowed: a whole number "
	       "from 2 to 32768",
	       "x.cfg:3: the comment that starts here, \"/* reactors = 5;\", never ends");
}
END_TEST

START_TEST(a_value_that_looks_like_the_scanners_mark_is_told_too)
{
	EXPECT("log: { level = \"\\x01\"; };\n",
	       "x.cfg:1: log.level: found \"?\"; allowed: error, warn, info or debug");
}
END_TEST

START_TEST(a_good_part_of_a_bad_file_is_taken)
{
	ck_assert_int_eq(load("engine: { depth = 16; lanes = 0; };"), -EINVAL);
	ck_assert_uint_eq(conf_count(conf, "engine.depth"), 16);
	ck_assert_uint_eq(conf_count(conf, "engine.lanes"), 1);
}
END_TEST

/* NOLINTEND(bugprone-suspicious-missing-comma) */

int main(void)
{
	Suite *suite = suite_create("config_loader");
	TCase *good = tcase_create("good"), *bad = tcase_create("bad");

	tcase_add_checked_fixture(good, set_up, tear_down);
	tcase_add_test(good, an_empty_file_leaves_the_defaults);
	tcase_add_test(good, every_type_is_read_and_remembers_its_line);
	tcase_add_test(good, a_list_of_one_may_be_the_string_alone);
	tcase_add_test(good, a_list_in_a_file_replaces_the_default);
	tcase_add_test(good, a_second_file_counts_more_than_the_first);
	tcase_add_test(good, comments_and_strings_may_contain_each_other);
	tcase_add_test(good, lines_may_end_as_on_windows);
	tcase_add_test(good, one_name_in_two_groups_is_no_repetition);
	tcase_add_test(good, large_numbers_do_not_wrap_around);
	suite_add_tcase(suite, good);
	tcase_add_checked_fixture(bad, set_up, tear_down);
	tcase_add_test(bad, every_error_of_a_file_is_told_in_the_order_of_its_lines);
	tcase_add_test(bad, a_value_of_the_wrong_type_is_named);
	tcase_add_test(bad, an_unknown_key_is_told_with_the_nearest_one);
	tcase_add_test(bad, a_group_that_is_set_like_a_key_is_told);
	tcase_add_test(bad, a_key_with_a_dot_is_told_how_groups_are_written);
	tcase_add_test(bad, settings_and_groups_that_come_twice_are_told);
	tcase_add_test(bad, numbers_that_do_not_fit_are_told);
	tcase_add_test(bad, values_without_quotes_are_told_and_the_rest_is_checked);
	tcase_add_test(bad, a_missing_quote_is_told_where_it_is_missing);
	tcase_add_test(bad, a_missing_brace_is_told_at_the_end);
	tcase_add_test(bad, a_missing_value_is_told_and_what_is_not_checked);
	tcase_add_test(bad, a_comment_without_an_end_is_told_where_it_starts);
	tcase_add_test(bad, a_value_that_looks_like_the_scanners_mark_is_told_too);
	tcase_add_test(bad, a_good_part_of_a_bad_file_is_taken);
	suite_add_tcase(suite, bad);
	return run_suite(suite);
}
