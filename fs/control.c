/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/control.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "engine/stats.h"
#include "fs/control_set.h"

#define SEND_TIMEOUT_S 1   /* a reader that does not read is left */
#define LISTEN_MS      200 /* for a request: who wants to read only need not say so */

struct control {
	struct control_options options;
	struct sockaddr_un address;
	int listen_fd, stop_fd;
	bool bound, started;
	pthread_t thread;
};

int control_default_path(const char *store_url, char *path, size_t size)
{
	const char *folder = strchr(store_url, ':');
	int length = snprintf(path, size, "%s/control.sock", folder == NULL ? "" : folder + 1);

	if (folder == NULL || length < 0 || (size_t)length >= size ||
	    (size_t)length >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return -ENAMETOOLONG;
	return 0;
}

static void print_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20)
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

static void print_servers(FILE *out, struct rmem_engine *engine)
{
	static const char *const states[] = {
		[RMEM_SERVER_CONNECTING] = "connecting",
		[RMEM_SERVER_UP] = "up",
		[RMEM_SERVER_DOWN] = "down",
	};
	struct rmem_server_info info;

	for (unsigned i = 0; rmem_server_info(engine, i, &info) == 0; i++) {
		fprintf(out, "%s\n    {\"url\": ", i == 0 ? "" : ",");
		print_string(out, info.url);
		fprintf(out,
			", \"state\": \"%s\", \"incarnation\": \"%016" PRIx64 "\", \"error\": ",
			states[info.state], info.incarnation);
		print_string(out, info.last_error);
		fputc('}', out);
	}
}

static void print_latency(FILE *out, const struct rmem_reactor *reactor)
{
	static const char *const names[] = {[RMEM_READ] = "read", [RMEM_WRITE] = "write"};

	for (unsigned op = 0; op < RMEM_COUNT_OF(names); op++) {
		const struct rmem_histogram *latency =
			rmem_reactor_latency(reactor, (enum rmem_op)op);

		fprintf(out,
			", \"%s_sampled\": %" PRIu64 ", \"%s_p50_ns\": %" PRIu64
			", \"%s_p99_ns\": %" PRIu64,
			names[op], (uint64_t)atomic_load(&latency->count), names[op],
			rmem_histogram_quantile(latency, 0.5), names[op],
			rmem_histogram_quantile(latency, 0.99));
	}
}

static void print_reactors(FILE *out, struct rmem_engine *engine)
{
	for (unsigned i = 0; i < rmem_engine_reactor_count(engine); i++) {
		struct rmem_stats_snapshot snapshot;

		rmem_stats_read(rmem_reactor_stats(rmem_engine_reactor(engine, i)), &snapshot);
		fprintf(out, "%s\n    {", i == 0 ? "" : ",");
		for (unsigned stat = 0; stat < RMEM_STAT_COUNT; stat++)
			fprintf(out, "%s\"%s\": %" PRIu64, stat == 0 ? "" : ", ",
				rmem_stats_name(stat), snapshot.values[stat]);
		print_latency(out, rmem_engine_reactor(engine, i));
		fputc('}', out);
	}
}

static void print_writing(FILE *out, const struct data_shared *data)
{
	struct data_stats stats;

	if (data == NULL || !data_stats_read(data, &stats)) {
		fprintf(out, "{\"mode\": \"through\"}");
		return;
	}
	fprintf(out,
		"{\"mode\": \"back\", \"dirty_bytes\": %" PRIu64 ", \"dirty_bytes_max\": %" PRIu64
		", \"flushed_bytes\": %" PRIu64 ", \"flush_batches\": %" PRIu64
		", \"flush_errors\": %" PRIu64 ", \"throttled_writes\": %" PRIu64 "}",
		stats.dirty_bytes, stats.dirty_bytes_max, stats.flushed_bytes, stats.flush_batches,
		stats.flush_errors, stats.throttled);
}

static void print_document(const struct control *control, FILE *out)
{
	struct volume_usage usage;

	volume_usage(control->options.volume, &usage);
	fprintf(out, "{\n  \"version\": \"%s\",\n  \"pid\": %ld,\n  \"mountpoint\": ", RMEM_VERSION,
		(long)getpid());
	print_string(out, control->options.mountpoint);
	fprintf(out,
		",\n  \"bytes_total\": %" PRIu64 ",\n  \"bytes_free\": %" PRIu64
		",\n  \"inodes\": %" PRIu64 ",\n  \"write\": ",
		usage.pages_total * VOLUME_PAGE_BYTES, usage.pages_available * VOLUME_PAGE_BYTES,
		usage.inodes);
	print_writing(out, control->options.data);
	fprintf(out, ",\n  \"servers\": [");
	print_servers(out, control->options.engine);
	fprintf(out, "\n  ],\n  \"reactors\": [");
	print_reactors(out, control->options.engine);
	fprintf(out, "\n  ]\n}\n");
}

/* The line that the other side says, without its end; "" when it says nothing in time. */
static void listen_for_line(int fd, char line[CONTROL_LINE_BYTES])
{
	uint64_t deadline_ns = rmem_deadline_in_ms(LISTEN_MS);
	size_t used = 0;

	while (used < CONTROL_LINE_BYTES - 1 && memchr(line, '\n', used) == NULL) {
		struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
		int left_ms = rmem_deadline_left_ms(deadline_ns);
		ssize_t length;

		if (left_ms == 0 || poll(&poll_fd, 1, left_ms) < 0)
			break;
		length = recv(fd, line + used, CONTROL_LINE_BYTES - 1 - used, MSG_DONTWAIT);
		if (length <= 0)
			break;
		used += (size_t)length;
	}
	line[used] = '\0';
	line[strcspn(line, "\r\n")] = '\0';
}

static void print_answer(const struct control *control, const char *line, FILE *out)
{
	struct rmem_error error = {0};

	if (line[0] == '\0') {
		print_document(control, out);
	} else if (strncmp(line, "set ", 4) != 0) {
		fputs("not a request: there is \"set KEY=VALUE\"\n", out);
	} else if (control_set(line + 4, &error) != 0) {
		fprintf(out, "%s\n", error.text);
	} else {
		rmem_log_info(RMEM_LOG_FS, "set %s", line + 4);
		fputs("ok\n", out);
	}
}

static void answer(const struct control *control, int fd)
{
	struct timeval timeout = {.tv_sec = SEND_TIMEOUT_S};
	char line[CONTROL_LINE_BYTES];
	char *text = NULL;
	size_t size = 0, sent = 0;
	FILE *out;

	listen_for_line(fd, line);
	out = open_memstream(&text, &size);
	if (out == NULL)
		return;
	print_answer(control, line, out);
	if (fclose(out) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) == 0) {
		while (sent < size) {
			ssize_t length = send(fd, text + sent, size - sent, MSG_NOSIGNAL);

			if (length < 0)
				break;
			sent += (size_t)length;
		}
	}
	free(text);
}

static void *control_thread(void *argument)
{
	const struct control *control = argument;
	struct pollfd fds[2] = {
		{.fd = control->listen_fd, .events = POLLIN},
		{.fd = control->stop_fd, .events = POLLIN},
	};

	while (fds[1].revents == 0) {
		int fd;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if (!(fds[0].revents & POLLIN))
			continue;
		fd = accept4(control->listen_fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0) {
			answer(control, fd);
			close(fd);
		} else if (errno == EMFILE || errno == ENFILE) {
			usleep(100000); /* until a descriptor is free */
		}
	}
	return NULL;
}

static bool somebody_listens(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool alive;

	if (fd < 0)
		return false;
	alive = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
		errno == EAGAIN;
	close(fd);
	return alive;
}

static int bind_socket(struct control *control)
{
	const struct sockaddr *address = (const struct sockaddr *)&control->address;
	mode_t mask;
	int result;

	if (somebody_listens(&control->address))
		return -EADDRINUSE;
	if (unlink(control->address.sun_path) != 0 && errno != ENOENT)
		return -errno;
	/* No other thread creates files yet. */
	mask = umask(0177);
	result = bind(control->listen_fd, address, sizeof(control->address)) == 0 ? 0 : -errno;
	umask(mask);
	if (result != 0)
		return result;
	control->bound = true;
	return listen(control->listen_fd, 16) == 0 ? 0 : -errno;
}

static int open_socket(struct control *control)
{
	char *path = control->address.sun_path;
	int result = 0;

	control->address.sun_family = AF_UNIX;
	if (strcmp(control->options.path, "auto") == 0)
		result = control_default_path(control->options.store_url, path,
					      sizeof(control->address.sun_path));
	else if (strlen(control->options.path) >= sizeof(control->address.sun_path))
		result = -ENAMETOOLONG;
	else
		strcpy(path, control->options.path);
	if (result != 0)
		return result;
	control->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	control->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (control->listen_fd < 0 || control->stop_fd < 0)
		return -errno;
	return bind_socket(control);
}

int control_start(const struct control_options *options, struct control **result,
		  struct rmem_error *error)
{
	struct control *control = calloc(1, sizeof(*control));
	int status;

	if (control == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	control->options = *options;
	control->listen_fd = control->stop_fd = -1;
	status = open_socket(control);
	if (status == 0) {
		status = -pthread_create(&control->thread, NULL, control_thread, control);
		control->started = status == 0;
	}
	if (status != 0) {
		rmem_fail(error, -status, "control socket %s: %s; name another one in fs.control",
			  control->address.sun_path, strerror(-status));
		control_stop(control);
		return status;
	}
	*result = control;
	return 0;
}

void control_stop(struct control *control)
{
	uint64_t one = 1;

	if (control == NULL)
		return;
	if (control->started && write(control->stop_fd, &one, sizeof(one)) == sizeof(one))
		pthread_join(control->thread, NULL);
	if (control->bound)
		unlink(control->address.sun_path);
	if (control->listen_fd >= 0)
		close(control->listen_fd);
	if (control->stop_fd >= 0)
		close(control->stop_fd);
	free(control);
}
