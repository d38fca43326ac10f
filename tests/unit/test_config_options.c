/* SPDX-License-Identifier: Apache-2.0 */
#include "config/options.h"

#include "engine/base/hint.h"
#include "tests/support/config_file.h"
#include "tests/support/runner.h"

enum { OPTION_SIZE = CONF_OPTION_FREE, OPTION_LISTEN };

static const struct option long_options[] = {
	CONF_LONG_OPTIONS,
	{"size", required_argument, NULL, OPTION_SIZE},
	{"listen", required_argument, NULL, OPTION_LISTEN},
	{0},
};

static struct config_folder folder;
static struct conf *conf;
/* What the last run() printed. */
static char out[32768], err[4096];

static void set_up(void)
{
	config_folder_init(&folder);
	conf = NULL;
}

static void tear_down(void)
{
	conf_destroy(conf);
	config_folder_finish(&folder);
}

struct capture {
	FILE *file;
	int fd, saved;
};

static void capture_start(struct capture *capture, int fd)
{
	fflush(NULL);
	capture->fd = fd;
	capture->file = tmpfile();
	ck_assert_ptr_nonnull(capture->file);
	capture->saved = dup(fd);
	ck_assert_int_ge(capture->saved, 0);
	ck_assert_int_eq(dup2(fileno(capture->file), fd), fd);
}

static void capture_end(struct capture *capture, char *text, size_t size)
{
	fflush(NULL);
	ck_assert_int_eq(dup2(capture->saved, capture->fd), capture->fd);
	close(capture->saved);
	rewind(capture->file);
	text[fread(text, 1, size - 1, capture->file)] = '\0';
	fclose(capture->file);
}

/* What a program's main() does with its command line. */
static enum conf_verdict run(enum conf_program program, const char *const *arguments)
{
	struct conf_options options;
	struct capture captured_out, captured_err;
	enum conf_verdict verdict;
	char *argv[16] = {(char *)(uintptr_t) "program"};
	int argc = 1, option;

	while (arguments[argc - 1] != NULL && argc < 15) {
		argv[argc] = (char *)arguments[argc - 1]; /* getopt moves them, no more */
		argc++;
	}
	conf_options_init(&options, program);
	optind = 0;
	while ((option = getopt_long(argc, argv, "c:", long_options, NULL)) != -1) {
		if (conf_options_take(&options, option, optarg))
			continue;
		ck_assert_int_ge(option, CONF_OPTION_FREE);
		if (option == OPTION_SIZE)
			conf_options_override(&options, "--size", "server.size", optarg);
		else
			conf_options_override(&options, "--listen", "server.listen", optarg);
	}
	capture_start(&captured_out, STDOUT_FILENO);
	capture_start(&captured_err, STDERR_FILENO);
	verdict = conf_options_load(&options, &conf);
	capture_end(&captured_err, err, sizeof(err));
	capture_end(&captured_out, out, sizeof(out));
	return verdict;
}

#define RUN(program, ...) run(program, (const char *const[]){__VA_ARGS__, NULL})

START_TEST(options_alone_make_a_configuration)
{
	ck_assert_int_eq(RUN(CONF_RMEMD, "--size", "2MiB", "--set", "log.level=debug"), CONF_RUN);
	ck_assert_uint_eq(conf_size_bytes(conf, "server.size"), 2 << 20);
	ck_assert_str_eq(conf_word(conf, "log.level"), "debug");
	ck_assert_str_eq(out, "");
	ck_assert_str_eq(err, "");
}
END_TEST

START_TEST(options_count_more_than_the_file_wherever_they_stand)
{
	const char *path =
		config_file(&folder, "x.cfg", "server: { size = \"4MiB\"; listen = \"shm:/f\"; };");
	size_t count;

	ck_assert_int_eq(
		RUN(CONF_RMEMD, "--size=2MiB", "--listen=shm:/a", "-c", path, "--listen=shm:/b"),
		CONF_RUN);
	ck_assert_uint_eq(conf_size_bytes(conf, "server.size"), 2 << 20);
	ck_assert_str_eq(conf_list(conf, "server.listen", &count)[1], "shm:/b");
	ck_assert_uint_eq(count, 2);
}
END_TEST

START_TEST(of_two_options_for_one_setting_the_later_counts)
{
	ck_assert_int_eq(RUN(CONF_RMEMD, "--size=2MiB", "--set", "server.size=3MiB"), CONF_RUN);
	ck_assert_uint_eq(conf_size_bytes(conf, "server.size"), 3 << 20);
}
END_TEST

START_TEST(all_errors_of_file_and_options_are_printed)
{
	const char *path = config_file(&folder, "x.cfg", "engine: { depth = 1; };");
	char expected[1024];

	ck_assert_int_eq(RUN(CONF_RMEMFS, "--config", path, "--set", "bogus=1", "--set",
			     "store.url=lmdb:/s"),
			 CONF_FAIL);
	ck_assert_ptr_null(conf);
	snprintf(expected, sizeof(expected),
		 "rmemfs: %s:1: engine.depth: found \"1\", which is out of range; allowed: a whole "
		 "number from 2 to 32768\n"
		 "rmemfs: --set bogus: there is no such setting; --help-config lists all\n"
		 "rmemfs: servers: not set, but rmemfs needs it; allowed: a list of shm:/PATH or "
		 "verbs://HOST:PORT, up "
		 "to 256\n",
		 path);
	ck_assert_str_eq(err, expected);
	ck_assert_str_eq(out, "");
}
END_TEST

START_TEST(a_missing_file_is_the_only_error)
{
	ck_assert_int_eq(RUN(CONF_RMEMFS, "-c", "/nowhere/x.cfg"), CONF_FAIL);
	ck_assert_str_eq(err,
			 "rmemfs: /nowhere/x.cfg: cannot be read: No such file or directory\n");
}
END_TEST

START_TEST(check_config_says_that_a_file_is_good)
{
	const char *path = config_file(&folder, "x.cfg", "server: { size = \"4MiB\"; };");
	char expected[200];

	ck_assert_int_eq(RUN(CONF_RMEMD, "-c", path, "--check-config"), CONF_DONE);
	snprintf(expected, sizeof(expected), "rmemd: %s: the configuration is good\n", path);
	ck_assert_str_eq(out, expected);
	ck_assert_str_eq(err, "");
	ck_assert_ptr_null(conf);
}
END_TEST

START_TEST(check_config_fails_for_a_bad_file)
{
	const char *path = config_file(&folder, "x.cfg", "server: { size = 1; };");

	ck_assert_int_eq(RUN(CONF_RMEMD, "-c", path, "--check-config"), CONF_FAIL);
	ck_assert_str_eq(out, "");
	ck_assert_ptr_nonnull(strstr(err, "x.cfg:1: server.size"));
}
END_TEST

START_TEST(help_config_explains_the_programs_settings_and_only_them)
{
	ck_assert_int_eq(RUN(CONF_RMEMD, "--help-config", "-c", "/nowhere/x.cfg"), CONF_DONE);
	ck_assert_str_eq(err, "");
	ck_assert_ptr_nonnull(strstr(out, "\nserver.size = \"1GiB\"\n"
					  "    a size from 1MiB to 64TiB, a multiple of 4KiB\n"));
	ck_assert_ptr_nonnull(strstr(out, "\nserver.listen = [\"shm:/run/rmemd.sock\"]\n"));
	ck_assert_ptr_null(strstr(out, "store.url"));
	ck_assert_int_eq(RUN(CONF_RMEMFS, "--help-config"), CONF_DONE);
	ck_assert_ptr_nonnull(
		strstr(out, "\nstore.url = \"\"    (has to be set)\n    lmdb:/PATH\n"));
	ck_assert_ptr_null(strstr(out, "server.size"));
	ck_assert_ptr_nonnull(strstr(out, "\nservers = []    (has to be set)\n"));
	/* Which has servers of its own. */
	ck_assert_int_eq(RUN(CONF_BENCH, "--help-config"), CONF_DONE);
	ck_assert_ptr_nonnull(strstr(out, "\nservers = []\n"));
}
END_TEST

START_TEST(help_config_fits_a_terminal)
{
	ck_assert_int_eq(RUN(CONF_BENCH, "--help-config"), CONF_DONE);
	for (const char *line = out; *line != '\0'; line += strcspn(line, "\n") + 1)
		ck_assert_msg(strcspn(line, "\n") <= 80, "%.*s", (int)strcspn(line, "\n"), line);
}
END_TEST

START_TEST(other_options_are_left_to_the_program)
{
	struct conf_options options;

	conf_options_init(&options, CONF_RMEMFS);
	ck_assert(!conf_options_take(&options, 'h', NULL));
	ck_assert(!conf_options_take(&options, '?', NULL));
	ck_assert(!conf_options_take(&options, CONF_OPTION_FREE, "x"));
	ck_assert(conf_options_take(&options, CONF_OPTION_SET, "engine.depth=4"));
	conf_options_finish(&options);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config_options");
	TCase *tcase = tcase_create("options");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, options_alone_make_a_configuration);
	tcase_add_test(tcase, options_count_more_than_the_file_wherever_they_stand);
	tcase_add_test(tcase, of_two_options_for_one_setting_the_later_counts);
	tcase_add_test(tcase, all_errors_of_file_and_options_are_printed);
	tcase_add_test(tcase, a_missing_file_is_the_only_error);
	tcase_add_test(tcase, check_config_says_that_a_file_is_good);
	tcase_add_test(tcase, check_config_fails_for_a_bad_file);
	tcase_add_test(tcase, help_config_explains_the_programs_settings_and_only_them);
	tcase_add_test(tcase, help_config_fits_a_terminal);
	tcase_add_test(tcase, other_options_are_left_to_the_program);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
