/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

#include <errno.h>
#include <signal.h>

#include "engine/base/log.h"
#include "tests/support/config_file.h"
#include "tests/support/runner.h"

static struct conf *conf;
static struct conf_errors errors;

static void set_up(void)
{
	conf_errors_init(&errors);
	conf = conf_create(CONF_RMEMFS);
	ck_assert_ptr_nonnull(conf);
}

static void tear_down(void)
{
	conf_destroy(conf);
	conf_errors_finish(&errors);
}

static void expect_refused(const char *assignment, const char *complaint)
{
	conf_errors_finish(&errors);
	ck_assert_int_eq(conf_set(conf, assignment, &errors), -EINVAL);
	ck_assert_uint_eq(errors.count, 1);
	ck_assert_str_eq(errors.list[0].text, complaint);
}

START_TEST(set_takes_every_type)
{
	static const char *const assignments[] = {
		"engine.chunk=128KiB", "engine.spin=0",	  "engine.depth=16",   "engine.poll=event",
		"fs.allow_other=yes",  "fs.control=/c=d", "store.url=lmdb:/s",
	};

	for (unsigned i = 0; i < RMEM_COUNT_OF(assignments); i++)
		ck_assert_int_eq(conf_set(conf, assignments[i], &errors), 0);
	ck_assert_uint_eq(conf_size_bytes(conf, "engine.chunk"), 131072);
	ck_assert_uint_eq(conf_duration_us(conf, "engine.spin"), 0);
	ck_assert_uint_eq(conf_count(conf, "engine.depth"), 16);
	ck_assert_uint_eq(conf_enum(conf, "engine.poll"), CONF_POLL_EVENT);
	ck_assert(conf_bool(conf, "fs.allow_other"));
	ck_assert_str_eq(conf_text(conf, "fs.control"), "/c=d");
	ck_assert_str_eq(conf_text(conf, "store.url"), "lmdb:/s");
	ck_assert_str_eq(conf_origin(conf, "engine.depth"), "--set");
}
END_TEST

START_TEST(the_last_set_of_a_key_counts)
{
	ck_assert_int_eq(conf_set(conf, "engine.depth=16", &errors), 0);
	ck_assert_int_eq(conf_set(conf, "engine.depth=32", &errors), 0);
	ck_assert_uint_eq(conf_count(conf, "engine.depth"), 32);
}
END_TEST

START_TEST(set_replaces_a_files_list_and_further_ones_add_to_it)
{
	struct config_folder folder;
	const char *const *servers;
	size_t count;

	config_folder_init(&folder);
	ck_assert_int_eq(
		conf_load(conf, config_file(&folder, "x.cfg", "servers = \"shm:/file\";"), &errors),
		0);
	config_folder_finish(&folder);
	ck_assert_int_eq(conf_set(conf, "servers=shm:/a,shm:/b", &errors), 0);
	ck_assert_int_eq(conf_set(conf, "servers=shm:/c", &errors), 0);
	servers = conf_list(conf, "servers", &count);
	ck_assert_uint_eq(count, 3);
	ck_assert_str_eq(servers[0], "shm:/a");
	ck_assert_str_eq(servers[2], "shm:/c");
}
END_TEST

START_TEST(set_empties_a_list)
{
	size_t count;

	ck_assert_int_eq(conf_set(conf, "servers=", &errors), 0);
	conf_list(conf, "servers", &count);
	ck_assert_uint_eq(count, 0);
}
END_TEST

START_TEST(a_bad_set_names_key_and_value_and_changes_nothing)
{
	size_t count;

	expect_refused("engine.depth=1", "--set engine.depth: found \"1\", which is out of range; "
					 "allowed: a whole number from 2 to 32768");
	expect_refused("engine.poll=", "--set engine.poll: found \"\"; allowed: busy, event or "
				       "adaptive");
	ck_assert_uint_eq(conf_count(conf, "engine.depth"), 256);
	ck_assert_int_eq(conf_set(conf, "servers=shm:/a", &errors), 0);
	expect_refused("servers=shm:/b,,shm:/c", "--set servers: found \"\"; allowed: a list of "
						 "shm:/PATH or verbs://HOST:PORT, up to 256");
	expect_refused("servers=shm:/b,shm:/a",
		       "--set servers: found \"shm:/a\", which is in the "
		       "list already; allowed: a list of shm:/PATH or verbs://HOST:PORT, up to "
		       "256");
	conf_list(conf, "servers", &count);
	ck_assert_uint_eq(count, 1);
}
END_TEST

START_TEST(a_set_of_what_is_no_key_is_told)
{
	char longest[300];

	expect_refused("engine.chnk=1", "--set engine.chnk: there is no such setting; did you mean "
					"engine.chunk?");
	expect_refused("engine=1", "--set engine: this is a group: write engine.NAME");
	expect_refused("engine.chunk", "--set engine.chunk: write --set KEY=VALUE");
	expect_refused("=5", "--set =5: write --set KEY=VALUE");
	expect_refused("", "--set : write --set KEY=VALUE");
	memset(longest, 'x', sizeof(longest));
	longest[250] = '=';
	longest[299] = '\0';
	conf_errors_finish(&errors);
	ck_assert_int_eq(conf_set(conf, longest, &errors), -EINVAL);
	ck_assert_uint_lt(strlen(errors.list[0].text), 200);
}
END_TEST

START_TEST(a_set_that_would_have_no_effect_is_refused)
{
	expect_refused("server.size=1GiB",
		       "--set server.size: rmemfs does not use this setting (rmemd)");
}
END_TEST

START_TEST(an_option_of_the_programs_own_sets_its_key_and_is_named)
{
	struct conf *server = conf_create(CONF_RMEMD);
	const char *const *urls;
	size_t count;

	ck_assert_int_eq(conf_override(server, "--listen", "server.listen", "shm:/a,b", &errors),
			 0);
	ck_assert_int_eq(conf_override(server, "--listen", "server.listen", "shm:/c", &errors), 0);
	ck_assert_int_eq(conf_override(server, "--size", "server.size", "2MiB", &errors), 0);
	urls = conf_list(server, "server.listen", &count);
	ck_assert_uint_eq(count, 2);
	ck_assert_str_eq(urls[0], "shm:/a,b");
	ck_assert_uint_eq(conf_size_bytes(server, "server.size"), 2 << 20);
	ck_assert_str_eq(conf_origin(server, "server.size"), "--size");
	ck_assert_int_eq(conf_override(server, "--size", "server.size", "2MB", &errors), -EINVAL);
	ck_assert_ptr_nonnull(strstr(errors.list[0].text, "--size: found \"2MB\""));
	conf_destroy(server);
}
END_TEST

START_TEST(what_a_program_needs_and_has_not_is_told)
{
	ck_assert_int_eq(conf_check(conf, &errors), -EINVAL);
	ck_assert_uint_eq(errors.count, 2);
	ck_assert_str_eq(errors.list[0].text, "servers: not set, but rmemfs needs it; allowed: a "
					      "list of shm:/PATH or verbs://HOST:PORT, up to 256");
	ck_assert_str_eq(errors.list[1].text,
			 "store.url: not set, but rmemfs needs it; allowed: lmdb:/PATH");
	ck_assert_int_eq(conf_set(conf, "servers=shm:/a", &errors), 0);
	ck_assert_int_eq(conf_set(conf, "store.url=lmdb:/s", &errors), 0);
	ck_assert_int_eq(conf_check(conf, &errors), 0);
}
END_TEST

START_TEST(values_that_contradict_each_other_are_told_with_their_origins)
{
	ck_assert_int_eq(conf_set(conf, "servers=shm:/a", &errors), 0);
	ck_assert_int_eq(conf_set(conf, "store.url=lmdb:/s", &errors), 0);
	ck_assert_int_eq(conf_set(conf, "engine.depth=8", &errors), 0);
	ck_assert_int_eq(conf_set(conf, "engine.reconnect_min=10s", &errors), 0);
	ck_assert_int_eq(conf_set(conf, "fs.dirty_limit=124KiB", &errors), 0);
	ck_assert_int_eq(conf_check(conf, &errors), -EINVAL);
	ck_assert_uint_eq(errors.count, 3);
	ck_assert_str_eq(errors.list[0].text, "engine.reconnect_min is 10s (--set), which is more "
					      "than engine.reconnect_max, 5s (default)");
	ck_assert_str_eq(errors.list[1].text, "engine.post_batch is 32 (default), which is more "
					      "than engine.depth, 8 (--set)");
	ck_assert_str_eq(errors.list[2].text, "fs.stage_max is 128KiB (default), which is more "
					      "than fs.dirty_limit, 124KiB (--set)");
}
END_TEST

START_TEST(what_only_follows_from_an_error_is_not_told)
{
	struct config_folder folder;

	ck_assert_int_eq(conf_set(conf, "servers=bad", &errors), -EINVAL);
	ck_assert_int_eq(conf_set(conf, "engine.depth=8", &errors), 0);
	ck_assert_int_eq(conf_set(conf, "engine.post_batch=bad", &errors), -EINVAL);
	config_folder_init(&folder);
	ck_assert_int_eq(conf_load(conf,
				   config_file(&folder, "x.cfg", "stor: { url = \"lmdb:/s\"; };"),
				   &errors),
			 -EINVAL);
	config_folder_finish(&folder);
	ck_assert_uint_eq(errors.count, 3);
	ck_assert_int_eq(conf_check(conf, &errors), 0);
	ck_assert_uint_eq(errors.count, 3);
}
END_TEST

START_TEST(another_programs_settings_are_not_asked_for)
{
	struct conf *server = conf_create(CONF_RMEMD);

	ck_assert_int_eq(conf_check(server, &errors), 0);
	ck_assert_int_eq(conf_set(server, "server.listen=", &errors), 0);
	ck_assert_int_eq(conf_check(server, &errors), -EINVAL);
	ck_assert_uint_eq(errors.count, 1);
	conf_destroy(server);
}
END_TEST

START_TEST(log_levels_follow_the_common_one_unless_they_have_their_own)
{
	ck_assert_int_eq(conf_set(conf, "log.level=warn", &errors), 0);
	ck_assert_int_eq(conf_set(conf, "log.engine=debug", &errors), 0);
	ck_assert_int_eq(conf_set(conf, "log.store=error", &errors), 0);
	conf_apply_log(conf);
	ck_assert(rmem_log_is_on(RMEM_LOG_FS, RMEM_LOG_WARN));
	ck_assert(!rmem_log_is_on(RMEM_LOG_FS, RMEM_LOG_INFO));
	ck_assert(rmem_log_is_on(RMEM_LOG_ENGINE, RMEM_LOG_DEBUG));
	ck_assert(rmem_log_is_on(RMEM_LOG_STORE, RMEM_LOG_ERROR));
	ck_assert(!rmem_log_is_on(RMEM_LOG_STORE, RMEM_LOG_WARN));
}
END_TEST

/* The levels' words have to stand as in the log's own enum, and each module to have its key. */
START_TEST(log_words_are_those_of_the_log)
{
	const struct conf_key *common = conf_key_find("log.level");

	for (unsigned i = 0; i < RMEM_LOG_MODULES; i++) {
		const struct conf_key *own;
		char name[32];

		snprintf(name, sizeof(name), "log.%s",
			 rmem_log_module_name((enum rmem_log_module)i));
		own = conf_key_find(name);
		ck_assert_ptr_nonnull(own);
		ck_assert_str_eq(own->words[0], "default");
		for (unsigned j = 0; common->words[j] != NULL; j++) {
			enum rmem_log_level level;

			ck_assert_int_eq(rmem_log_level_from_name(common->words[j], &level), 0);
			ck_assert_uint_eq(level, j);
			ck_assert_str_eq(own->words[j + 1], common->words[j]);
		}
	}
}
END_TEST

START_TEST(a_getter_aborts_for_a_key_that_is_not_there)
{
	conf_count(conf, "engine.dept");
}
END_TEST

START_TEST(a_getter_aborts_for_a_key_of_another_type)
{
	conf_count(conf, "engine.chunk");
}
END_TEST

START_TEST(an_option_aborts_for_a_key_that_is_not_there)
{
	int rc = conf_override(conf, "--x", "engine.dept", "5", &errors);

	ck_abort_msg("came back with %d", rc);
}
END_TEST

START_TEST(destroying_nothing_is_allowed)
{
	conf_destroy(NULL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config");
	TCase *tcase = tcase_create("config");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, set_takes_every_type);
	tcase_add_test(tcase, the_last_set_of_a_key_counts);
	tcase_add_test(tcase, set_replaces_a_files_list_and_further_ones_add_to_it);
	tcase_add_test(tcase, set_empties_a_list);
	tcase_add_test(tcase, a_bad_set_names_key_and_value_and_changes_nothing);
	tcase_add_test(tcase, a_set_of_what_is_no_key_is_told);
	tcase_add_test(tcase, a_set_that_would_have_no_effect_is_refused);
	tcase_add_test(tcase, an_option_of_the_programs_own_sets_its_key_and_is_named);
	tcase_add_test(tcase, what_a_program_needs_and_has_not_is_told);
	tcase_add_test(tcase, values_that_contradict_each_other_are_told_with_their_origins);
	tcase_add_test(tcase, what_only_follows_from_an_error_is_not_told);
	tcase_add_test(tcase, another_programs_settings_are_not_asked_for);
	tcase_add_test(tcase, log_levels_follow_the_common_one_unless_they_have_their_own);
	tcase_add_test(tcase, log_words_are_those_of_the_log);
	tcase_add_test_raise_signal(tcase, a_getter_aborts_for_a_key_that_is_not_there, SIGABRT);
	tcase_add_test_raise_signal(tcase, a_getter_aborts_for_a_key_of_another_type, SIGABRT);
	tcase_add_test_raise_signal(tcase, an_option_aborts_for_a_key_that_is_not_there, SIGABRT);
	tcase_add_test(tcase, destroying_nothing_is_allowed);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
