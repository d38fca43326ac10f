/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/serve.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "fs/channel.h"
#include "fs/ops.h"
#include "fs/session.h"

#define DRAIN_SECONDS 10 /* what is in flight gets this long when the mount is gone */
#define IDLE_MS	      1000

struct serve_thread {
	struct server_threads *all;
	struct channel *channel;
	struct rmem_reactor *reactor;
	struct rmem_call wake;
	pthread_t thread;
	bool started;
};

struct server_threads {
	struct mount *mount;
	int event_fd; /* written by reactor threads: ready, or over */
	/* Stored by reactor threads before event_fd is written, read by the main thread after it
	 * was read: the system calls order them. */
	_Atomic(bool) is_ready, is_over;
	/* Stored by the main thread; reactors are woken by a call afterwards. */
	_Atomic(bool) stop;
	unsigned count;
	struct serve_thread threads[];
};

static void tell_main(struct server_threads *all, _Atomic(bool) *what)
{
	uint64_t one = 1;

	atomic_store(what, true);
	if (write(all->event_fd, &one, sizeof(one)) < 0)
		rmem_log_error(RMEM_LOG_FS, "eventfd: %s", strerror(errno));
}

static void mount_ready(struct mount *mount)
{
	struct server_threads *all = mount->user;

	tell_main(all, &all->is_ready);
}

static bool is_over(const struct timespec *deadline)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > deadline->tv_sec;
}

/* The mount is gone: ends what is in flight, and flushes what nobody closed. */
static void drain(struct serve_thread *self)
{
	struct data_thread *data = channel_data(self->channel);
	struct timespec deadline;

	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += DRAIN_SECONDS;
	while (channel_in_flight(self->channel) > 0 && !is_over(&deadline))
		rmem_reactor_run(self->reactor, 10);
	if (channel_in_flight(self->channel) > 0)
		rmem_log_warn(RMEM_LOG_FS, "%u requests did not end",
			      channel_in_flight(self->channel));
	deadline.tv_sec += DRAIN_SECONDS;
	while (!data_thread_drain(data, false) && !is_over(&deadline))
		rmem_reactor_run(self->reactor, 10);
	deadline.tv_sec += DRAIN_SECONDS;
	while (!data_thread_drain(data, true) && !is_over(&deadline))
		rmem_reactor_run(self->reactor, 10);
}

static void *serve(void *argument)
{
	struct serve_thread *self = argument;
	struct server_threads *all = self->all;

	while (!fuse_session_exited(all->mount->session) && !atomic_load(&all->stop))
		rmem_reactor_run(self->reactor, IDLE_MS);
	tell_main(all, &all->is_over);
	drain(self);
	return NULL;
}

static void woken(struct rmem_call *call)
{
	(void)call; /* the loop looks at its condition again */
}

static int start_threads(struct server_threads *all, struct rmem_engine *engine,
			 struct rmem_error *error)
{
	int result = 0;

	for (unsigned i = 0; result == 0 && i < all->count; i++) {
		struct serve_thread *thread = &all->threads[i];

		thread->all = all;
		thread->wake.fn = woken;
		thread->reactor = rmem_engine_reactor(engine, i);
		result = channel_create(all->mount, thread->reactor,
					i == 0 ? NULL : all->threads[0].channel, &thread->channel,
					error);
	}
	for (unsigned i = 0; result == 0 && i < all->count; i++) {
		struct serve_thread *thread = &all->threads[i];
		char name[16];

		result = -pthread_create(&thread->thread, NULL, serve, thread);
		if (result != 0)
			return rmem_fail(error, -result, "starting a reactor thread: %s",
					 strerror(-result));
		thread->started = true;
		snprintf(name, sizeof(name), "rmemfs-io%u", i % 1000);
		pthread_setname_np(thread->thread, name);
	}
	return result;
}

int serve_start(struct mount *mount, struct rmem_engine *engine, struct server_threads **result,
		struct rmem_error *error)
{
	unsigned count = rmem_engine_reactor_count(engine);
	struct server_threads *all = calloc(1, sizeof(*all) + count * sizeof(all->threads[0]));
	int status;

	if (all == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	all->mount = mount;
	all->count = count;
	all->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	mount->user = all;
	mount->ready = mount_ready;
	if (all->event_fd < 0)
		status = rmem_fail(error, errno, "eventfd: %s", strerror(errno));
	else
		status = start_threads(all, engine, error);
	if (status != 0) {
		serve_stop(all);
		return status;
	}
	*result = all;
	return 0;
}

/* The signals are blocked in every thread, so this is where they come out. */
static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

void serve_wait(struct server_threads *all, const char *mountpoint, void (*ready)(void *user),
		void *user)
{
	struct signalfd_siginfo info;
	struct pollfd fds[2] = {
		{.fd = all->event_fd, .events = POLLIN},
		{.fd = open_signals(), .events = POLLIN},
	};
	bool told = false;
	uint64_t count;

	while (!atomic_load(&all->is_over)) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if (read(all->event_fd, &count, sizeof(count)) == (ssize_t)sizeof(count) &&
		    atomic_load(&all->is_ready) && !told) {
			ready(user);
			told = true;
		}
		if (read(fds[1].fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
			rmem_log_info(RMEM_LOG_FS, "%s: unmounting %s",
				      strsignal((int)info.ssi_signo), mountpoint);
			session_unmount(all->mount, mountpoint, fds[1].fd);
			atomic_store(&all->stop, fuse_session_exited(all->mount->session) != 0);
			if (atomic_load(&all->stop))
				break;
		}
	}
	if (fds[1].fd >= 0)
		close(fds[1].fd);
}

void serve_stop(struct server_threads *all)
{
	if (all == NULL)
		return;
	atomic_store(&all->stop, true);
	for (unsigned i = 0; i < all->count; i++) {
		if (!all->threads[i].started)
			continue;
		rmem_reactor_call(all->threads[i].reactor, &all->threads[i].wake);
		pthread_join(all->threads[i].thread, NULL);
	}
	for (unsigned i = 0; i < all->count; i++)
		channel_destroy(all->threads[i].channel);
	if (all->event_fd >= 0)
		close(all->event_fd);
	free(all);
}
