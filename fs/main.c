/* SPDX-License-Identifier: Apache-2.0 */
/* rmemfs: builds the parts from the bottom up, serves until the mount is gone, takes them down in
 * reverse. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/streaming_options.h"
#include "config/verbs_options.h"
#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "fs/control.h"
#include "fs/daemon.h"
#include "fs/mountpoint.h"
#include "fs/options.h"
#include "fs/serve.h"
#include "fs/session.h"

#define LEAVING_MS	3000u
#define LEAVING_STEP_MS 100u

struct process {
	struct options options;
	char mountpoint[PATH_MAX];
	char config_path[PATH_MAX];
	char holder[PATH_MAX + 64];
	struct volume *volume;
	struct rmem_engine *engine;
	struct mount mount;
	struct server_threads *threads;
	struct control *control;
	bool syslog_when_ready; /* a daemon has no stderr */
};

/* On the engine's control thread. */
static void server_changed(void *user, unsigned server, enum rmem_server_state state)
{
	struct process *process = user;
	struct rmem_server_info info;
	struct rmem_error error;

	if (rmem_server_info(process->engine, server, &info) != 0)
		return;
	if (state != RMEM_SERVER_UP) {
		volume_detach(process->volume, server);
		rmem_log_warn(RMEM_LOG_FS, "server %s is down: %s", info.url, info.last_error);
		return;
	}
	if (volume_attach(process->volume, server, &info, &error) != 0)
		rmem_log_error(RMEM_LOG_FS, "server %s: %s", info.url, error.text);
}

static int add_servers(struct process *process, unsigned *indexes, size_t *count,
		       struct rmem_error *error)
{
	const char *const *urls = conf_list(process->options.conf, "servers", count);
	int result = 0;

	if (*count > RMEM_SERVERS_MAX)
		return rmem_fail(error, EINVAL, "servers: more than %d", RMEM_SERVERS_MAX);
	for (size_t i = 0; i < *count && result == 0; i++)
		result = rmem_server_add(process->engine, urls[i], &indexes[i], error);
	return result;
}

static void mask_signals(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(how, &set, NULL);
}

/* This may take long, and nothing is mounted: a signal ends us on the spot, as it may at any time.
 * No other thread takes them. */
static int wait_for_server(struct process *process, unsigned server, unsigned timeout_ms,
			   struct rmem_error *error)
{
	int result;

	mask_signals(SIG_UNBLOCK);
	result = rmem_server_wait(process->engine, server, timeout_ms, error);
	mask_signals(SIG_BLOCK);
	return result;
}

/* Attaches a server that came up until the deadline. -ETIMEDOUT: it did not. */
static int connect_server(struct process *process, unsigned server, uint64_t deadline_ns,
			  struct rmem_error *error)
{
	unsigned left_ms = (unsigned)rmem_deadline_left_ms(deadline_ns);
	struct rmem_server_info info;
	int result = wait_for_server(process, server, left_ms, error);

	if (result == 0)
		result = rmem_server_info(process->engine, server, &info);
	if (result == 0)
		result = volume_attach(process->volume, server, &info, error);
	return result;
}

/* All have the same time. Those that don't come up then are missed, as they would be if they went
 * down later: what files have there can't be read until they come. But one has to be there. */
static int connect_servers(struct process *process, struct rmem_error *error)
{
	unsigned timeout_ms =
		(unsigned)(conf_duration_us(process->options.conf, "engine.connect_timeout") /
			   1000);
	uint64_t deadline_ns = rmem_deadline_in_ms(timeout_ms);
	struct rmem_server_info info = {.url = ""};
	unsigned indexes[RMEM_SERVERS_MAX] = {0};
	size_t count = 0, missing = 0;
	int result = add_servers(process, indexes, &count, error);

	for (size_t i = 0; i < count && result == 0; i++) {
		result = connect_server(process, indexes[i], deadline_ns, error);
		if (result != -ETIMEDOUT || count == 1)
			continue;
		result = rmem_server_info(process->engine, indexes[i], &info);
		missing++;
		rmem_log_warn(RMEM_LOG_FS, "server %s is not reachable: %s", info.url,
			      info.last_error);
	}
	if (result == 0 && missing == count)
		return rmem_fail(error, ETIMEDOUT, "none of the %zu servers is reachable; %s: %s",
				 count, info.url, info.last_error);
	if (result == 0 && missing > 0)
		rmem_log_warn(RMEM_LOG_FS,
			      "mounting without %zu of %zu servers; they are taken up when they "
			      "come",
			      missing, count);
	return result;
}

static int start_engine(struct process *process, struct rmem_error *error)
{
	struct rmem_engine_options options;
	int result;

	result = conf_apply_streaming(process->options.conf, error);
	if (result != 0)
		return result;
	result = conf_apply_verbs(process->options.conf, error);
	if (result == 0)
		result = conf_apply_key(process->options.conf, error);
	if (result != 0)
		return result;
	options_engine(process->options.conf, &options);
	options.server_event = server_changed;
	options.user = process;
	return rmem_engine_create(&options, &process->engine, error);
}

/* A mount works without its control socket: say so, and go on. */
static void start_control(struct process *process)
{
	const struct control_options options = {
		.path = conf_text(process->options.conf, "fs.control"),
		.store_url = conf_text(process->options.conf, "store.url"),
		.mountpoint = process->mountpoint,
		.engine = process->engine,
		.volume = process->volume,
		.data = process->mount.data,
	};
	struct rmem_error error;

	if (control_start(&options, &process->control, &error) != 0)
		rmem_log_warn(RMEM_LOG_FS, "%s", error.text);
}

/* umount returns before the daemon behind the mount has stored everything: wait for one that is
 * just leaving, so that a remount works right away. */
static int open_volume(struct process *process, const struct volume_options *options,
		       struct rmem_error *error)
{
	int result = volume_open(options, &process->volume, error);

	for (unsigned i = 0; result == -EBUSY && i < LEAVING_MS / LEAVING_STEP_MS; i++) {
		usleep(LEAVING_STEP_MS * 1000);
		result = volume_open(options, &process->volume, error);
	}
	return result;
}

static int start(struct process *process, struct rmem_error *error)
{
	const struct conf *conf = process->options.conf;
	struct volume_options volume;
	struct data_options data;
	struct session_options session = {
		.mountpoint = process->mountpoint,
		.source = process->config_path,
		.options = process->options.mount_options,
		.option_count = process->options.mount_option_count,
		.allow_other = conf_bool(conf, "fs.allow_other"),
		.default_permissions = conf_bool(conf, "fs.default_permissions"),
	};
	int result;

	snprintf(process->holder, sizeof(process->holder), "rmemfs mounted on %s",
		 process->mountpoint);
	options_volume(conf, process->holder, &volume);
	volume.mountpoint = process->mountpoint;
	result = session_create(&process->mount, &session, error);
	if (result == 0)
		result = open_volume(process, &volume, error);
	if (result == 0) {
		rmem_owner_set(process->volume->uuid);
		result = start_engine(process, error);
	}
	if (result == 0)
		result = connect_servers(process, error);
	if (result == 0)
		(void)!volume_report_missing(process->volume); /* warns */
	options_data(conf, &data);
	if (result == 0)
		result = data_shared_create(process->engine, process->volume, &data,
					    &process->mount.data, error);
	if (result != 0)
		return result;
	process->mount.volume = process->volume;
	process->mount.cache = options_cache(conf);
	process->mount.writeback_wanted = conf_bool(conf, "fs.writeback_cache");
	process->mount.default_permissions = session.default_permissions;
	result = session_mount(&process->mount, &session, error);
	if (result == 0)
		result = serve_start(&process->mount, process->engine, &process->threads, error);
	if (result == 0)
		start_control(process);
	return result;
}

static int finish(struct process *process)
{
	int result = 0;

	control_stop(process->control);
	serve_stop(process->threads);
	session_destroy(&process->mount);
	data_shared_destroy(process->mount.data);
	/* No server event may find the volume gone. */
	rmem_engine_destroy(process->engine);
	if (process->volume != NULL)
		result = volume_close(process->volume);
	options_finish(&process->options);
	return result;
}

static void mounted(void *user)
{
	const struct process *process = user;

	session_set_readahead(process->mountpoint);
	rmem_log_info(RMEM_LOG_FS, "mounted on %s", process->mountpoint);
	if (process->syslog_when_ready)
		rmem_log_to_syslog();
	daemon_ready();
}

/* Blocked here for every thread to come; serve_wait() takes them one at a time. */
static void block_signals(void)
{
	mask_signals(SIG_BLOCK);
	signal(SIGPIPE, SIG_IGN);
}

/* In the background stderr ends when the mount is usable. */
static void choose_log(struct process *process)
{
	unsigned sink = conf_enum(process->options.conf, "log.sink");

	if (process->options.foreground)
		return;
	process->syslog_when_ready = sink == CONF_LOG_AUTO;
	if (sink == CONF_LOG_STDERR)
		rmem_log_warn(RMEM_LOG_FS,
			      "log.sink is stderr: once the mount is in the background nothing is "
			      "logged any more; take auto or syslog, or -f");
}

static int run(struct process *process)
{
	struct rmem_error error = {0};
	int result;

	result = mountpoint_check(process->options.mountpoint, process->mountpoint, &error);
	if (result == 0 && realpath(process->options.config_path, process->config_path) == NULL)
		result = rmem_fail(&error, errno, "%s: %s", process->options.config_path,
				   strerror(errno));
	if (result == 0 && !process->options.foreground)
		result = daemon_start(&error);
	if (result == 0) {
		block_signals();
		choose_log(process);
		result = start(process, &error);
	}
	if (result != 0) {
		fprintf(stderr, "rmemfs: %s\n",
			error.text[0] != '\0' ? error.text : strerror(-result));
		finish(process);
		return 1;
	}
	serve_wait(process->threads, process->mountpoint, mounted, process);
	result = finish(process);
	if (result != 0)
		rmem_log_error(RMEM_LOG_FS, "not everything could be stored: %s",
			       strerror(-result));
	else
		rmem_log_info(RMEM_LOG_FS, "unmounted");
	return result == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	static struct process process;
	int result;

	rmem_log_set_program("rmemfs");
	result = options_parse(&process.options, argc, argv);
	if (result != 0)
		return result > 0 ? 0 : 1;
	conf_apply_log(process.options.conf);
	conf_apply_telemetry(process.options.conf);
	return run(&process);
}
