/* SPDX-License-Identifier: Apache-2.0 */
#define FUSE_USE_VERSION 314
#include "fs/channel.h"

#include <assert.h>
#include <errno.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/log.h"

/* The kernel hands a write over as these two headers and the payload. */
#define HEADER_BYTES (sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))
static_assert(HEADER_BYTES == 80, "the payload of a write would not be page aligned");

#define READS_PER_TURN 32
#define BACKLOG	       8  /* requests found in one turn that call for help */
#define HELP_IDLE      64 /* turns without a request after which a helper goes; some 20 us */

struct channel {
	struct mount *mount;
	struct rmem_reactor *reactor;
	struct data_thread *data;
	int fd;
	struct rmem_watch watch;
	bool watching;
	bool starved; /* not watching, for want of free requests */
	bool found;   /* the last turn found a request */
	bool more;    /* and the one before as well: several wait at a time */
	struct channel_request *free;
	unsigned in_flight;
	unsigned request_count;
	struct channel_request *requests;

	/* The first channel reads the device all the time, the others when they are called. A
	 * single reader is quickest at low depth, where more of them would only wake each other up.
	 */
	struct channel *helper; /* whom we call */
	bool is_helper;
	unsigned idle_turns;
	struct rmem_call help;
	_Atomic(bool) helping; /* set by the caller, cleared by the helper's own thread */
};

static _Thread_local struct channel_request *current;

struct channel_request *channel_current(void)
{
	return current;
}

struct mount *channel_mount(struct channel *channel)
{
	return channel->mount;
}

struct data_thread *channel_data(struct channel *channel)
{
	return channel->data;
}

struct rmem_reactor *channel_reactor(struct channel *channel)
{
	return channel->reactor;
}

unsigned channel_in_flight(const struct channel *channel)
{
	return channel->in_flight;
}

void channel_keep(struct channel_request *request, struct fuse_req *fuse)
{
	request->kept = true;
	request->fuse = fuse;
}

static int watch_device(struct channel *channel)
{
	int result = rmem_reactor_watch(channel->reactor, &channel->watch);

	if (result == 0)
		channel->watching = true;
	return result;
}

static void unwatch_device(struct channel *channel)
{
	rmem_reactor_unwatch(channel->reactor, &channel->watch);
	channel->watching = false;
}

static void start_watching(struct channel *channel)
{
	if (!channel->watching && !fuse_session_exited(channel->mount->session) &&
	    watch_device(channel) != 0)
		rmem_log_error(RMEM_LOG_FS, "cannot watch the FUSE device again: out of memory");
}

void channel_release(struct channel_request *request)
{
	struct channel *channel = request->channel;

	request->next = channel->free;
	channel->free = request;
	channel->in_flight--;
	if (RMEM_UNLIKELY(channel->starved)) {
		channel->starved = false;
		start_watching(channel);
	}
}

static void release_call(struct rmem_call *call)
{
	channel_release(RMEM_CONTAINER_OF(call, struct channel_request, data.call));
}

void channel_release_remote(struct channel_request *request)
{
	request->data.call.fn = release_call;
	rmem_reactor_call(request->channel->reactor, &request->data.call);
}

static void handle(struct channel *channel, struct channel_request *request, size_t size)
{
	struct fuse_buf buf = {
		.size = size,
		.mem = (void *)(uintptr_t)request->message,
		.fd = -1,
	};

	channel->free = request->next;
	channel->in_flight++;
	request->kept = false;
	current = request;
	fuse_session_process_buf(channel->mount->session, &buf);
	current = NULL;
	if (!request->kept)
		channel_release(request);
}

/* 1: a request was read and handled. 0: none there, or the session is over. */
static unsigned read_one(struct channel *channel)
{
	struct channel_request *request = channel->free;
	ssize_t size;

	/* Not read(): in a program with threads that is a cancellation point, which costs as much
	 * as the bookkeeping of a request. */
	size = syscall(SYS_read, channel->fd, request->message, HEADER_BYTES + DATA_TRANSFER_MAX);
	if (RMEM_LIKELY(size > 0)) {
		handle(channel, request, (size_t)size);
		return 1;
	}
	/* ENOENT: the request was interrupted before we took it. */
	if (size < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOENT))
		return 0;
	if (size < 0 && errno != ENODEV)
		rmem_log_error(RMEM_LOG_FS, "reading the FUSE device: %s", strerror(errno));
	fuse_session_exit(channel->mount->session); /* unmounted */
	unwatch_device(channel);
	return 0;
}

static void start_helping(struct rmem_call *call)
{
	struct channel *channel = RMEM_CONTAINER_OF(call, struct channel, help);

	channel->idle_turns = 0;
	if (!channel->starved)
		start_watching(channel);
}

static void call_helper(struct channel *helper)
{
	/* Acquire, for the release below: the helper is done with the call before it is made again.
	 * What it works on comes from the kernel. */
	if (helper != NULL && !atomic_load_explicit(&helper->helping, memory_order_acquire)) {
		atomic_store_explicit(&helper->helping, true, memory_order_relaxed);
		rmem_reactor_call(helper->reactor, &helper->help);
	}
}

static void stop_helping(struct channel *channel)
{
	unwatch_device(channel);
	atomic_store_explicit(&channel->helping, false, memory_order_release);
}

/* Takes what waits at the device. A single request per turn is read until two turns in a row find one:
 * at queue depth 1 a second read would only delay the answer. */
static unsigned take_requests(struct rmem_watch *watch)
{
	struct channel *channel = watch->user;
	unsigned limit = channel->more ? READS_PER_TURN : 1, count = 0;

	while (count < limit) {
		if (RMEM_UNLIKELY(channel->free == NULL)) {
			unwatch_device(channel); /* until channel_release() */
			channel->starved = true;
			break;
		}
		if (read_one(channel) == 0)
			break;
		count++;
		if (count == BACKLOG)
			call_helper(channel->helper);
	}
	if (count == 0)
		data_thread_idle(channel->data);
	channel->more = count > 0 && (channel->found || count > 1);
	channel->found = count > 0;
	if (count > 0) {
		channel->idle_turns = 0;
		rmem_reactor_flush(channel->reactor);
	} else if (channel->is_helper && channel->watching && ++channel->idle_turns == HELP_IDLE) {
		stop_helping(channel);
	}
	return count;
}

static void device_ready(struct rmem_watch *watch, uint32_t events)
{
	(void)events; /* an error shows in read() */
	take_requests(watch);
}

static int create_requests(struct channel *channel)
{
	uint8_t *slot, *slots = NULL;
	unsigned count = 0;

	/* The arena is all ours: chain its slots through their first bytes, then count. */
	while ((slot = rmem_staging_get(channel->reactor)) != NULL) {
		memcpy(slot, &slots, sizeof(slots));
		slots = slot;
		count++;
	}
	channel->requests = calloc(count, sizeof(*channel->requests));
	if (count == 0 || channel->requests == NULL)
		return -ENOMEM;
	channel->request_count = count;
	for (unsigned i = 0; i < count; i++) {
		struct channel_request *request = &channel->requests[i];

		slot = slots;
		memcpy(&slots, slot, sizeof(slots));
		request->channel = channel;
		request->payload = slot + VOLUME_PAGE_BYTES;
		request->message = request->payload - HEADER_BYTES;
		request->next = channel->free;
		channel->free = request;
	}
	return 0;
}

int channel_create(struct mount *mount, struct rmem_reactor *reactor, struct channel *first,
		   struct channel **result, struct rmem_error *error)
{
	struct channel *channel = calloc(1, sizeof(*channel));
	int status = -ENOMEM;

	if (channel != NULL) {
		channel->mount = mount;
		channel->reactor = reactor;
		channel->fd = fuse_session_fd(mount->session);
		channel->is_helper = first != NULL;
		channel->help.fn = start_helping;
		channel->watch = (struct rmem_watch){
			.fd = channel->fd,
			.events = EPOLLIN,
			.fn = device_ready,
			.spin_fn = take_requests,
			.user = channel,
		};
		status = data_thread_create(mount->data, reactor, &channel->data);
	}
	if (status == 0)
		status = create_requests(channel);
	if (status == 0 && !channel->is_helper)
		status = watch_device(channel);
	if (status != 0) {
		channel_destroy(channel);
		return rmem_fail(error, -status, "preparing to read the FUSE device: %s",
				 strerror(-status));
	}
	while (first != NULL && first->helper != NULL)
		first = first->helper;
	if (first != NULL)
		first->helper = channel;
	*result = channel;
	return 0;
}

void channel_destroy(struct channel *channel)
{
	if (channel == NULL)
		return;
	if (channel->watching)
		unwatch_device(channel);
	for (unsigned i = 0; i < channel->request_count; i++)
		rmem_staging_put(channel->reactor,
				 channel->requests[i].payload - VOLUME_PAGE_BYTES);
	data_thread_destroy(channel->data);
	free(channel->requests);
	free(channel);
}
