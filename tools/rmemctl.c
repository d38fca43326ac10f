/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at a volume from outside: from its store and its servers, never through the mount, so that
 * it answers while a mount hangs. */
#include "tools/rmemctl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/options.h"
#include "config/verbs_options.h"
#include "engine/base/log.h"
#include "fs/control.h"

enum { OPTION_JSON = CONF_OPTION_FREE, OPTION_REPAIR, OPTION_VERSION };

static const char usage[] =
	"usage: rmemctl -c CONFIG [OPTION]... COMMAND\n"
	"\n"
	"  status   servers, space, and who has the volume mounted\n"
	"  df       size, used and free space\n"
	"  check    verify every invariant of the store; exits with 0 when it is clean, 1 when\n"
	"           something was found (repaired or not), 2 when it could not be checked\n"
	"  set KEY=VALUE\n"
	"           change a setting of the mount while it runs: engine.telemetry, log.level or\n"
	"           log.MODULE\n"
	"\n" CONF_OPTIONS_HELP "      --json            output for programs\n"
	"      --repair          with check: mend what can be; nobody may have it mounted\n"
	"  -h, --help            this text\n"
	"      --version         the version\n";

int open_store(const struct command_options *options, bool writing, struct store **store,
	       struct rmem_error *error)
{
	struct store_options store_options = {
		.url = conf_text(options->conf, "store.url"),
		.read_only = !writing,
		.map_bytes = conf_size_bytes(options->conf, "store.map_size"),
		.holder = "rmemctl check --repair",
	};

	return store_open(&store_options, store, error);
}

/* A server that doesn't answer us is not known to be up or down: that is no success. */
static int tell_refusals(const struct volume_view *view)
{
	int status = RMEMCTL_OK;

	for (size_t i = 0; i < view->server_count; i++) {
		if (view->servers[i].health != SERVER_REFUSES)
			continue;
		fprintf(stderr, "rmemctl: %s\n", view->servers[i].error.text);
		status = RMEMCTL_FAILED;
	}
	return status;
}

static int command_view(const struct command_options *options, enum view_ask ask,
			void (*show)(const struct volume_view *, const struct command_options *))
{
	struct volume_view view;
	struct rmem_error error = {0};
	int status;

	if (conf_apply_key(options->conf, &error) != 0 ||
	    volume_view_init(&view, options->conf, ask, &error) != 0) {
		fprintf(stderr, "rmemctl: %s\n", error.text);
		return RMEMCTL_FAILED;
	}
	show(&view, options);
	status = tell_refusals(&view);
	volume_view_finish(&view);
	return status;
}

static int command_set(const struct command_options *options)
{
	struct rmem_error error = {0};
	char request[CONTROL_LINE_BYTES];
	char *answer = NULL;
	int length = snprintf(request, sizeof(request), "set %s\n", options->argument), status;

	if (length < 0 || (size_t)length >= sizeof(request)) {
		fprintf(stderr, "rmemctl: %s: too long\n", options->argument);
		return RMEMCTL_FAILED;
	}
	if (ask_mount(options->conf, request, &answer, &error) != 0) {
		fprintf(stderr, "rmemctl: the mount %s%s\n", error.text,
			error.code == -ENOENT || error.code == -ECONNREFUSED
				? "; is the volume mounted?"
				: "");
		return RMEMCTL_FAILED;
	}
	status = strcmp(answer, "ok\n") == 0 ? RMEMCTL_OK : RMEMCTL_FAILED;
	if (status != RMEMCTL_OK)
		fprintf(stderr, "rmemctl: %s", answer);
	free(answer);
	return status;
}

static int run(const char *command, const struct command_options *options)
{
	if (strcmp(command, "status") == 0)
		return command_view(options, VIEW_ASK_ALL, show_status);
	if (strcmp(command, "df") == 0)
		return command_view(options, VIEW_ASK_SERVERS, show_df);
	if (strcmp(command, "set") == 0)
		return command_set(options);
	return command_check(options);
}

static bool is_command(const char *text)
{
	return strcmp(text, "status") == 0 || strcmp(text, "df") == 0 ||
	       strcmp(text, "check") == 0 || strcmp(text, "set") == 0;
}

struct arguments {
	struct conf_options conf;
	struct command_options command;
	const char *name; /* of the command */
};

/* -1 to go on, or the exit status. */
static int take_option(struct arguments *arguments, int option, const char *value)
{
	if (conf_options_take(&arguments->conf, option, value))
		return -1;
	switch (option) {
	case OPTION_JSON:
		arguments->command.json = true;
		return -1;
	case OPTION_REPAIR:
		arguments->command.repair = true;
		return -1;
	case 'h':
		fputs(usage, stdout);
		return RMEMCTL_OK;
	case OPTION_VERSION:
		puts("rmemctl " RMEM_VERSION);
		return RMEMCTL_OK;
	default:
		fputs("Try rmemctl --help.\n", stderr);
		return RMEMCTL_FAILED;
	}
}

static int take_command(struct arguments *arguments, int argc, char **argv)
{
	/* Settings can be checked and explained without a command. */
	if (arguments->conf.check || arguments->conf.help)
		return -1;
	if (optind == argc) {
		fputs("rmemctl: no command; try rmemctl --help\n", stderr);
		return RMEMCTL_FAILED;
	}
	arguments->name = argv[optind];
	if (!is_command(arguments->name)) {
		fprintf(stderr, "rmemctl: %s: not a command; try rmemctl --help\n",
			arguments->name);
		return RMEMCTL_FAILED;
	}
	if (strcmp(arguments->name, "set") == 0) {
		if (optind + 1 == argc) {
			fputs("rmemctl: set what? For instance: set log.engine=debug\n", stderr);
			return RMEMCTL_FAILED;
		}
		arguments->command.argument = argv[++optind];
	}
	if (optind + 1 < argc) {
		fprintf(stderr, "rmemctl: %s: one command at a time\n", argv[optind + 1]);
		return RMEMCTL_FAILED;
	}
	if (arguments->command.repair && strcmp(arguments->name, "check") != 0) {
		fputs("rmemctl: --repair goes with check\n", stderr);
		return RMEMCTL_FAILED;
	}
	/* With --set it can do without a file; conf_options_load() says what is missing then. */
	if (arguments->conf.file == NULL && arguments->conf.value_count == 0) {
		fprintf(stderr,
			"rmemctl: which volume? Give the configuration that it is mounted with: "
			"rmemctl -c /etc/rmemfs.cfg %s\n",
			arguments->name);
		return RMEMCTL_FAILED;
	}
	return -1;
}

static int take_arguments(struct arguments *arguments, int argc, char **argv)
{
	static const struct option long_options[] = {
		CONF_LONG_OPTIONS,
		{"json", no_argument, NULL, OPTION_JSON},
		{"repair", no_argument, NULL, OPTION_REPAIR},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, OPTION_VERSION},
		{NULL, 0, NULL, 0},
	};
	int option, status = -1;

	while (status == -1 && (option = getopt_long(argc, argv, "c:h", long_options, NULL)) != -1)
		status = take_option(arguments, option, optarg);
	return status == -1 ? take_command(arguments, argc, argv) : status;
}

int main(int argc, char **argv)
{
	struct arguments arguments = {0};
	struct rmem_error error;
	struct conf *conf;
	int status;

	rmem_log_set_program("rmemctl");
	conf_options_init(&arguments.conf, CONF_RMEMCTL);
	arguments.conf.inspect = conf_apply_key;
	status = take_arguments(&arguments, argc, argv);
	if (status != -1) {
		conf_options_finish(&arguments.conf);
		return status;
	}
	switch (conf_options_load(&arguments.conf, &conf)) {
	case CONF_RUN:
		break;
	case CONF_DONE:
		return RMEMCTL_OK;
	case CONF_FAIL:
		return RMEMCTL_FAILED;
	}
	conf_apply_log(conf);
	arguments.command.conf = conf;
	if (conf_apply_verbs(conf, &error) == 0) {
		status = run(arguments.name, &arguments.command);
	} else {
		fprintf(stderr, "rmemctl: %s\n", error.text);
		status = RMEMCTL_FAILED;
	}
	conf_destroy(conf);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "rmemctl: standard output: %s\n", strerror(errno));
		return RMEMCTL_FAILED;
	}
	return status;
}
