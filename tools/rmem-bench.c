/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the engine: rmem-bench COMMAND [OPTION]... */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "tools/bench.h"
#include "tools/bench_worker.h"

enum { EXIT_USAGE = 2, EXIT_STOPPED = 130 };

static const struct command {
	const char *name;
	enum bench_command command;
	int (*run)(const struct bench_line *line, struct rmem_error *error);
	const char *what;
} commands[] = {
	{"ablate", BENCH_ABLATE, bench_ablate, "what each part of the engine's hot path is worth"},
	{"bw", BENCH_BW, bench_bw, "bandwidth and message rate, and what they cost"},
	{"echo", BENCH_ECHO, bench_echo, "the other end of lat --op send"},
	{"lat", BENCH_LAT, bench_lat, "latency in every poll mode, and what idling costs"},
	{"stream", BENCH_STREAM, bench_stream,
	 "filling and copying past the caches, and reading it back"},
};

static void print_usage(FILE *out)
{
	fputs("usage: rmem-bench COMMAND [OPTION]...\n"
	      "Measures the engine against memory servers: its own, or those that are named.\n\n",
	      out);
	for (size_t i = 0; i < RMEM_COUNT_OF(commands); i++)
		fprintf(out, "  %-6s %s\n", commands[i].name, commands[i].what);
	fputs("\n"
	      "  rmem-bench COMMAND --help    its options\n"
	      "  rmem-bench --version         the version\n",
	      out);
}

static void stop_on_signal(int signal_number)
{
	(void)signal_number;
	atomic_store_explicit(&bench_stop, true, memory_order_relaxed);
}

/* Once: a second one ends the process at once. */
static void handle_signals(void)
{
	struct sigaction action = {.sa_handler = stop_on_signal, .sa_flags = (int)SA_RESETHAND};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL); /* who reads the result may go; sockets must not stay */
}

/* As configured, but that what comes and goes is no news here unless somebody asks for it. */
static void set_up_log(const struct conf *conf)
{
	conf_apply_log(conf);
	if (strcmp(conf_origin(conf, "log.level"), "default") != 0)
		return;
	for (int module = 0; module < RMEM_LOG_MODULES; module++) {
		char key[32];

		snprintf(key, sizeof(key), "log.%s",
			 rmem_log_module_name((enum rmem_log_module)module));
		if (strcmp(conf_origin(conf, key), "default") == 0)
			rmem_log_set_level((enum rmem_log_module)module, RMEM_LOG_WARN);
	}
}

static int run(const struct command *command, int argc, char **argv)
{
	struct rmem_error error = {0};
	struct bench_line line;
	int rc;

	switch (bench_line_read(command->command, argc, argv, &line)) {
	case CONF_RUN:
		break;
	case CONF_DONE:
		return EXIT_SUCCESS;
	case CONF_FAIL:
		return EXIT_USAGE;
	}
	set_up_log(line.conf);
	handle_signals();
	rc = command->run(&line, &error);
	conf_destroy(line.conf);
	if (rc == 0 && fflush(stdout) != 0)
		rc = rmem_fail(&error, errno, "can't write the result: %s", strerror(errno));
	if (rc != 0 && rc != -ECANCELED)
		fprintf(stderr, "rmem-bench: %s\n", error.text);
	if (bench_is_stopped() && command->command != BENCH_ECHO) /* which ends in no other way */
		return EXIT_STOPPED;
	return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	static char program[] = "rmem-bench";
	const char *word = argc > 1 ? argv[1] : "";

	rmem_log_set_program(program);
	for (size_t i = 0; i < RMEM_COUNT_OF(commands); i++) {
		if (strcmp(commands[i].name, word) != 0)
			continue;
		argv[1] = program; /* as getopt wants it: options follow the name */
		return run(&commands[i], argc - 1, argv + 1);
	}
	if (strcmp(word, "--version") == 0) {
		puts("rmem-bench " RMEM_VERSION);
		return EXIT_SUCCESS;
	}
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
		print_usage(stdout);
		return EXIT_SUCCESS;
	}
	if (word[0] != '\0')
		fprintf(stderr, "rmem-bench: \"%s\" is no command\n", word);
	print_usage(stderr);
	return EXIT_USAGE;
}
