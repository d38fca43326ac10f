/* SPDX-License-Identifier: Apache-2.0 */
/* The memory server: exports a pool of memory in the foreground until it is told to stop. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/base/log.h"
#include "engine/server.h"

#define LISTEN_MAX 16
#define MIB	   ((uint64_t)1 << 20)

struct settings {
	struct rmem_server_options server;
	const char *listen[LISTEN_MAX];
	unsigned listen_count;
};

static struct rmem_server *running; /* for the signal handler */

static void stop_on_signal(int signal_number)
{
	(void)signal_number;
	rmem_server_stop(running);
}

static const char usage[] =
	"usage: rmemd [OPTION]...\n"
	"Exports a pool of this machine's memory until it is stopped (SIGTERM, SIGINT).\n"
	"\n"
	"      --listen URL      where to wait for clients: shm:/PATH; may be given again\n"
	"      --size SIZE       of the pool: 64MiB, 2GiB\n"
	"      --backing WHAT    anonymous memory, or the PATH of a pool file\n"
	"  -h, --help            this text\n"
	"  -V, --version         the version\n";

/* Bytes from "64MiB", "2G" or a plain number; 0 when it is none. */
static uint64_t parse_size(const char *text)
{
	static const char units[] = "KMGT";
	char *end;
	uint64_t value;
	const char *unit;
	unsigned shift;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno != 0 || end == text || *text == '-')
		return 0;
	if (*end == '\0' || strcmp(end, "B") == 0)
		return value;
	unit = strchr(units, *end);
	if (unit == NULL || (end[1] != '\0' && strcmp(end + 1, "iB") != 0))
		return 0;
	shift = 10 * (unsigned)(unit - units + 1);
	return value > UINT64_MAX >> shift ? 0 : value << shift;
}

/* 0: go on; otherwise the exit status plus 1. */
static int parse_option(int option, struct settings *settings)
{
	switch (option) {
	case 'l':
		if (settings->listen_count == LISTEN_MAX) {
			fprintf(stderr, "rmemd: more than %d times --listen\n", LISTEN_MAX);
			return 1 + 2;
		}
		settings->listen[settings->listen_count++] = optarg;
		return 0;
	case 's':
		settings->server.pool.size_bytes = parse_size(optarg);
		if (settings->server.pool.size_bytes != 0)
			return 0;
		fprintf(stderr, "rmemd: --size %s: not a size such as 64MiB or 2GiB\n", optarg);
		return 1 + 2;
	case 'b':
		settings->server.pool.backing = optarg;
		return 0;
	case 'h':
		fputs(usage, stdout);
		return 1;
	case 'V':
		puts("rmemd " RMEM_VERSION);
		return 1;
	default:
		fputs("Try rmemd --help.\n", stderr);
		return 1 + 2;
	}
}

static int parse_arguments(int argc, char **argv, struct settings *settings)
{
	static const struct option options[] = {
		{"listen", required_argument, NULL, 'l'},  {"size", required_argument, NULL, 's'},
		{"backing", required_argument, NULL, 'b'}, {"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},	   {NULL, 0, NULL, 0},
	};
	int option, rc;

	while ((option = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
		rc = parse_option(option, settings);
		if (rc != 0)
			return rc;
	}
	if (optind < argc) {
		fprintf(stderr, "rmemd: %s: no such option\nTry rmemd --help.\n", argv[optind]);
		return 1 + 2;
	}
	if (settings->listen_count == 0)
		settings->listen[settings->listen_count++] = "shm:/run/rmemd.sock";
	return 0;
}

/* A client is a descriptor: use what the system allows. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void handle_signals(struct rmem_server *server)
{
	struct sigaction action = {.sa_handler = stop_on_signal};

	running = server;
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
}

static void tell_what(const struct rmem_server *server, const struct settings *settings)
{
	struct rmem_status status;

	rmem_server_status(server, &status);
	for (unsigned i = 0; i < settings->listen_count; i++)
		rmem_log_info(RMEM_LOG_SERVER,
			      "exporting %" PRIu64
			      " MiB (%s) in %u regions at %s, incarnation %016" PRIx64,
			      status.pool_bytes / MIB, status.backing, status.region_count,
			      settings->listen[i], status.incarnation);
}

static int serve(const struct settings *settings, struct rmem_error *error)
{
	struct rmem_server *server;
	int rc;

	rc = rmem_server_create(&settings->server, &server, error);
	if (rc != 0)
		return rc;
	handle_signals(server);
	for (unsigned i = 0; rc == 0 && i < settings->listen_count; i++)
		rc = rmem_server_listen(server, settings->listen[i], error);
	if (rc == 0) {
		tell_what(server, settings);
		rc = rmem_server_run(server, error);
	}
	rmem_server_destroy(server);
	return rc;
}

int main(int argc, char **argv)
{
	struct settings settings = {0};
	struct rmem_error error;
	int rc;

	rmem_log_set_program("rmemd");
	rmem_server_options_init(&settings.server);
	settings.server.pool.size_bytes = 1024 * MIB;
	rc = parse_arguments(argc, argv, &settings);
	if (rc != 0)
		return rc - 1;
	raise_descriptor_limit();
	if (serve(&settings, &error) != 0) {
		rmem_log_error(RMEM_LOG_SERVER, "%s", error.text);
		return 1;
	}
	return 0;
}
