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
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/config.h"
#include "config/options.h"
#include "config/verbs_options.h"
#include "engine/base/log.h"
#include "engine/server.h"

#define MIB ((uint64_t)1 << 20)

enum { EXIT_USAGE = 2 };

enum { OPTION_LISTEN = CONF_OPTION_FREE, OPTION_SIZE, OPTION_BACKING, OPTION_OPEN, OPTION_VERSION };

static const char usage[] =
	"usage: rmemd [OPTION]...\n"
	"Exports a pool of this machine's memory until it is stopped (SIGTERM, SIGINT).\n"
	"\n" CONF_OPTIONS_HELP
	"      --listen URL      wait for clients there: shm:/PATH or verbs://HOST:PORT; may\n"
	"                        be given again\n"
	"      --size SIZE       of the pool: 512MiB, 2GiB; by default that of the pool file\n"
	"                        that is there, or 1GiB\n"
	"      --backing WHAT    anonymous (memory), or the PATH of a pool file\n"
	"      --allow-unauthenticated\n"
	"                        without auth.key_file, whoever reaches a verbs:// address may\n"
	"                        read and write the pool\n"
	"  -h, --help            this text\n"
	"      --version         the version\n";

static struct rmem_server *running; /* for the signal handler */

static void stop_on_signal(int signal_number)
{
	(void)signal_number;
	rmem_server_stop(running);
}

/* EXIT_SUCCESS to go on, or -1 when all is done, or the exit status. */
static int take_option(struct conf_options *options, int option)
{
	if (conf_options_take(options, option, optarg))
		return EXIT_SUCCESS;
	switch (option) {
	case OPTION_LISTEN:
		conf_options_override(options, "--listen", "server.listen", optarg);
		return EXIT_SUCCESS;
	case OPTION_SIZE:
		conf_options_override(options, "--size", "server.size", optarg);
		return EXIT_SUCCESS;
	case OPTION_BACKING:
		conf_options_override(options, "--backing", "server.backing", optarg);
		return EXIT_SUCCESS;
	case OPTION_OPEN:
		conf_options_override(options, "--allow-unauthenticated",
				      "server.allow_unauthenticated", "true");
		return EXIT_SUCCESS;
	case 'h':
		fputs(usage, stdout);
		return -1;
	case OPTION_VERSION:
		puts("rmemd " RMEM_VERSION);
		return -1;
	default:
		fputs("Try rmemd --help.\n", stderr);
		return EXIT_USAGE;
	}
}

static int take_arguments(int argc, char **argv, struct conf_options *options)
{
	static const struct option long_options[] = {
		CONF_LONG_OPTIONS,
		{"listen", required_argument, NULL, OPTION_LISTEN},
		{"size", required_argument, NULL, OPTION_SIZE},
		{"backing", required_argument, NULL, OPTION_BACKING},
		{"allow-unauthenticated", no_argument, NULL, OPTION_OPEN},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, OPTION_VERSION},
		{NULL, 0, NULL, 0},
	};
	int option, rc;

	while ((option = getopt_long(argc, argv, "c:h", long_options, NULL)) != -1) {
		rc = take_option(options, option);
		if (rc != EXIT_SUCCESS)
			return rc;
	}
	if (optind == argc)
		return EXIT_SUCCESS;
	fprintf(stderr, "rmemd: %s: not an option\nTry rmemd --help.\n", argv[optind]);
	return EXIT_USAGE;
}

static enum rmem_huge_pages huge_pages(const struct conf *conf)
{
	switch ((enum conf_huge_pages)conf_enum(conf, "server.huge_pages")) {
	case CONF_HUGE_OFF:
		return RMEM_HUGE_OFF;
	case CONF_HUGE_REQUIRE:
		return RMEM_HUGE_REQUIRE;
	case CONF_HUGE_AUTO:
		break;
	}
	return RMEM_HUGE_AUTO;
}

static void server_options(const struct conf *conf, struct rmem_server_options *options)
{
	rmem_server_options_init(options);
	options->pool.size_bytes = conf_size_bytes(conf, "server.size");
	/* Nobody chose it: then it is for new pools only. */
	options->pool.any_size = strcmp(conf_origin(conf, "server.size"), "default") == 0;
	options->pool.backing = conf_text(conf, "server.backing");
	options->pool.huge_pages = huge_pages(conf);
	options->pool.populate =
		conf_bool(conf, "server.populate") ? RMEM_POPULATE_TOUCH : RMEM_POPULATE_RESERVE;
	options->socket_mode = conf_mode(conf, "server.socket_mode");
	options->allow_unauthenticated = conf_bool(conf, "server.allow_unauthenticated");
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
	sigaction(SIGHUP, &action, NULL); /* the terminal it was started from may go */
}

/* Tells a service manager, if one started this, over the datagram socket that it named. */
static void notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t size;
	int fd;

	if (path == NULL || (path[0] != '/' && path[0] != '@') ||
	    strlen(path) >= sizeof(address.sun_path))
		return;
	memcpy(address.sun_path, path, strlen(path));
	size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	if (path[0] == '@')
		address.sun_path[0] = '\0'; /* how an abstract name is written */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, size) < 0)
		rmem_log_warn(RMEM_LOG_TOOL, "%s: can't notify the service manager: %s", path,
			      strerror(errno));
	close(fd);
}

static const char *pages_text(const struct rmem_status *status, char *text, size_t size)
{
	if (status->flags & RMEM_STATUS_HUGE_PAGES)
		snprintf(text, size, "huge pages of %u KiB", status->page_bytes / 1024);
	else if (status->flags & RMEM_STATUS_TRANSPARENT)
		snprintf(text, size, "transparent huge pages");
	else
		snprintf(text, size, "pages of %u KiB", status->page_bytes / 1024);
	return text;
}

static void tell_what(const struct rmem_server *server, const char *const *urls, size_t url_count)
{
	struct rmem_status status;
	char pages[64];

	rmem_server_status(server, &status);
	rmem_log_info(RMEM_LOG_SERVER,
		      "exports %" PRIu64 " MiB (%s, %s) as %u region%s, incarnation %016" PRIx64,
		      status.pool_bytes / MIB, status.backing,
		      pages_text(&status, pages, sizeof(pages)), status.region_count,
		      status.region_count == 1 ? "" : "s", status.incarnation);
	for (size_t i = 0; i < url_count; i++)
		rmem_log_info(RMEM_LOG_SERVER, "listens at %s", urls[i]);
}

static int serve(const struct conf *conf, struct rmem_error *error)
{
	struct rmem_server_options options;
	struct rmem_server *server;
	size_t url_count;
	const char *const *urls = conf_list(conf, "server.listen", &url_count);
	int rc;

	server_options(conf, &options);
	rc = rmem_server_create(&options, &server, error);
	if (rc != 0)
		return rc;
	handle_signals(server);
	for (size_t i = 0; rc == 0 && i < url_count; i++)
		rc = rmem_server_listen(server, urls[i], error);
	if (rc == 0)
		rc = rmem_server_start(server, error);
	if (rc == 0) {
		tell_what(server, urls, url_count);
		notify("READY=1");
		rc = rmem_server_run(server, error);
		notify("STOPPING=1");
		rmem_log_info(RMEM_LOG_SERVER, "stops");
	}
	/* A second signal while a pool file is written back must not find a server that is gone. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	rmem_server_destroy(server);
	return rc == -ECANCELED ? 0 : rc; /* by a signal: as it was told */
}

int main(int argc, char **argv)
{
	struct conf_options options;
	struct rmem_error error;
	struct conf *conf;
	int rc;

	rmem_log_set_program("rmemd");
	conf_options_init(&options, CONF_RMEMD);
	options.inspect = conf_apply_key;
	rc = take_arguments(argc, argv, &options);
	if (rc != EXIT_SUCCESS) {
		conf_options_finish(&options);
		return rc == -1 ? EXIT_SUCCESS : rc;
	}
	switch (conf_options_load(&options, &conf)) {
	case CONF_RUN:
		break;
	case CONF_DONE:
		return EXIT_SUCCESS;
	case CONF_FAIL:
		return EXIT_FAILURE;
	}
	conf_apply_log(conf);
	raise_descriptor_limit();
	rc = conf_apply_verbs(conf, &error);
	if (rc == 0)
		rc = conf_apply_key(conf, &error);
	if (rc == 0)
		rc = serve(conf, &error);
	conf_destroy(conf);
	if (rc == 0)
		return EXIT_SUCCESS;
	rmem_log_error(RMEM_LOG_SERVER, "%s", error.text);
	return EXIT_FAILURE;
}
