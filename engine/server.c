/* SPDX-License-Identifier: Apache-2.0 */
/* The server's loop: one epoll set with its doors, the clients and the stop signal. */
#include "engine/server.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "engine/server_internal.h"

#define EVENTS_PER_TURN 64
#define TURNS_PER_LOOK	32 /* of a loop that polls */

void rmem_server_options_init(struct rmem_server_options *options)
{
	*options = (struct rmem_server_options){
		.pool = {.cancel_fd = -1,
			 .backing = RMEM_POOL_ANONYMOUS,
			 .huge_pages = RMEM_HUGE_AUTO,
			 .populate = RMEM_POPULATE_TOUCH},
		.clients_max = 1024,
		.handshake_ms = 5000,
		.socket_mode = 0600,
		.notices = 64,
		.poll = RMEM_POLL_EVENT,
		.spin_us = 50,
	};
}

/* Keys name the region in their low bits, so that a lookup is an index, and are random above, so
 * that one from before a restart, or made up, does not fit. */
static int make_key(uint32_t id, uint32_t *key, struct rmem_error *error)
{
	static_assert((RMEM_REGIONS_MAX & (RMEM_REGIONS_MAX - 1)) == 0,
		      "a mask selects the region");
	uint32_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return rmem_fail(error, EIO, "no random numbers from the kernel: %s",
				 strerror(errno));
	*key = (random & ~(uint32_t)(RMEM_REGIONS_MAX - 1)) | id;
	return 0;
}

static int make_regions(struct rmem_server *server, uint64_t region_max_bytes,
			struct rmem_error *error)
{
	const struct rmem_pool *pool = server->pool;
	struct rmem_welcome *welcome = &server->welcome;
	uint64_t step = pool->data_bytes;

	if (region_max_bytes != 0 && region_max_bytes < step)
		step = rmem_round_up(region_max_bytes, pool->page_bytes);
	if ((pool->data_bytes + step - 1) / step > RMEM_REGIONS_MAX)
		return rmem_fail(error, EINVAL,
				 "the pool would have more than %d regions: make regions larger",
				 RMEM_REGIONS_MAX);
	welcome->incarnation = pool->incarnation;
	welcome->pid = (uint32_t)getpid();
	if (server->options.notices > 0)
		welcome->features |= RMEM_WIRE_FEATURE_NOTICES;
	for (uint64_t at = 0; at < pool->data_bytes; at += step) {
		uint32_t id = welcome->region_count++;
		struct rmem_welcome_region *region = &welcome->regions[id];
		int rc;

		/* Addresses are of no place in particular; far apart and never 0, so that a wrong
		 * one is refused instead of hitting another region. */
		region->remote.address = ((uint64_t)id + 1) << 56;
		region->remote.length = rmem_min_u64(step, pool->data_bytes - at);
		region->remote.id = id;
		region->fd_offset = pool->data_offset + at;
		region->fd_index = 0;
		region->page_bytes = pool->page_bytes;
		rc = make_key(id, &region->remote.key, error);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static void stop_ready(struct server_source *source, uint32_t events)
{
	struct rmem_server *server = RMEM_CONTAINER_OF(source, struct rmem_server, stop);
	uint64_t stops;

	(void)events;
	if (read(source->fd, &stops, sizeof(stops)) == sizeof(stops))
		server->is_stopping = true;
}

int server_watch(struct rmem_server *server, struct server_source *source, struct rmem_error *error)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};

	if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) != 0)
		return rmem_fail(error, errno, "the server's event loop: %s", strerror(errno));
	return 0;
}

static int open_loop(struct rmem_server *server, struct rmem_error *error)
{
	server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	server->stop.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	server->stop.ready = stop_ready;
	server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (server->epoll_fd < 0 || server->stop.fd < 0 || server->spare_fd < 0)
		return rmem_fail(error, errno, "the server's event loop: %s", strerror(errno));
	return server_watch(server, &server->stop, error);
}

int rmem_server_create(const struct rmem_server_options *options, struct rmem_server **server,
		       struct rmem_error *error)
{
	struct rmem_server *made = calloc(1, sizeof(*made));
	int rc;

	if (made == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	made->epoll_fd = made->stop.fd = made->spare_fd = -1;
	made->options = *options;
	rmem_spin_init(&made->spin, (uint64_t)options->spin_us * RMEM_NS_PER_US);
	TAILQ_INIT(&made->waiting);
	TAILQ_INIT(&made->greeted);
	SLIST_INIT(&made->doors);
	SLIST_INIT(&made->intakes);
	made->options.pool.backing = strdup(options->pool.backing);
	if (made->options.pool.backing == NULL)
		rc = rmem_fail(error, ENOMEM, "out of memory");
	else
		rc = open_loop(made, error);
	if (rc != 0) {
		rmem_server_destroy(made);
		return rc;
	}
	*server = made;
	return 0;
}

static const struct server_door_kind *const door_kinds[] = {
	&server_door_local,
#if RMEM_VERBS
	&server_door_verbs,
#endif
};

static const struct server_door_kind *kind_of(const char *url)
{
	for (size_t i = 0; i < RMEM_COUNT_OF(door_kinds); i++) {
		size_t length = strlen(door_kinds[i]->scheme);

		if (strncmp(url, door_kinds[i]->scheme, length) == 0 && url[length] == ':')
			return door_kinds[i];
	}
	return NULL;
}

int rmem_server_listen(struct rmem_server *server, const char *url, struct rmem_error *error)
{
	const struct server_door_kind *kind = kind_of(url);
	struct server_door *door;
	int rc;

	if (kind == NULL)
		return rmem_fabric_unknown(url, error);
	rc = kind->claim(server, url, &door, error);
	if (rc != 0)
		return rc;
	door->kind = kind;
	door->server = server;
	SLIST_INSERT_HEAD(&server->doors, door, link);
	return 0;
}

int rmem_server_start(struct rmem_server *server, struct rmem_error *error)
{
	struct server_door *door;
	int rc;

	server->options.pool.cancel_fd = server->stop.fd;
	rc = rmem_pool_create(&server->options.pool, &server->pool, error);
	if (rc == 0)
		rc = make_regions(server, server->options.region_max_bytes, error);
	if (rc != 0)
		return rc;
	server->started_ns = rmem_now_ns();
	SLIST_FOREACH(door, &server->doors, link)
	{
		rc = door->kind->open(door, error);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* --- The loop --------------------------------------------------------------------------------- */

/* Looks at descriptors, and waits for them up to `timeout_ms`. */
static int look(struct rmem_server *server, int timeout_ms)
{
	struct epoll_event events[EVENTS_PER_TURN];
	int expiry_ms = server_client_expire(server);
	int count;

	if (timeout_ms < 0 || (expiry_ms >= 0 && expiry_ms < timeout_ms))
		timeout_ms = expiry_ms;
	count = epoll_wait(server->epoll_fd, events, EVENTS_PER_TURN, timeout_ms);
	if (count < 0 && errno != EINTR)
		return -EIO;
	/* A handler may end its own client, which has one event here, and no other. */
	for (int i = 0; i < count; i++) {
		struct server_source *source = events[i].data.ptr;

		source->ready(source, events[i].events);
	}
	return 0;
}

static unsigned take_in(struct rmem_server *server)
{
	struct server_intake *intake;
	unsigned came = 0;

	SLIST_FOREACH(intake, &server->intakes, link)
	came += intake->poll(intake);
	return came;
}

/* Notices came: a wait is over. */
static void note_came(struct rmem_server *server)
{
	if (server->has_slept)
		rmem_spin_learn(&server->spin, rmem_now_ns() - server->idle_ns, true);
	server->has_slept = false;
	server->idle_ns = 0;
}

/* Waits for descriptors, which tell of notices, too. What came before is seen by the last look. */
static int sleep_until_event(struct rmem_server *server, int timeout_ms)
{
	struct server_intake *intake;
	bool came;
	int rc;

	SLIST_FOREACH(intake, &server->intakes, link)
	intake->arm(intake);
	came = take_in(server) > 0;
	if (came)
		note_came(server);
	rc = look(server, came ? 0 : timeout_ms);
	SLIST_FOREACH(intake, &server->intakes, link)
	intake->disarm(intake);
	return rc;
}

/* Whether the time to spin is not over; reads the clock. */
static bool may_spin(struct rmem_server *server)
{
	uint64_t now_ns = rmem_now_ns();

	if (server->options.poll == RMEM_POLL_BUSY)
		return true;
	if (server->idle_ns == 0)
		server->idle_ns = now_ns;
	return now_ns - server->idle_ns < server->spin.limit_ns;
}

/* One turn of `TURNS_PER_LOOK` looks at the clock and the descriptors. */
int server_turn(struct rmem_server *server, int timeout_ms)
{
	if (server->options.poll == RMEM_POLL_EVENT || server->peer_count == 0)
		return sleep_until_event(server, timeout_ms);
	if (take_in(server) > 0)
		note_came(server);
	if (++server->turns % TURNS_PER_LOOK != 0 && !server->has_slept)
		return 0;
	if (may_spin(server))
		return look(server, 0);
	server->has_slept = true;
	return sleep_until_event(server, timeout_ms);
}

int rmem_server_run(struct rmem_server *server, struct rmem_error *error)
{
	int rc = look(server, 0); /* it may have been stopped already */

	while (rc == 0 && !server->is_stopping)
		rc = server_turn(server, -1);
	server->is_stopping = false;
	if (rc != 0)
		return rmem_fail(error, EIO, "the server's event loop: %s", strerror(errno));
	return 0;
}

unsigned rmem_server_poll(struct rmem_server *server)
{
	unsigned came = take_in(server);

	if (++server->turns % TURNS_PER_LOOK == 0 && look(server, 0) != 0 &&
	    server_may_complain(server))
		rmem_log_error(RMEM_LOG_SERVER, "the server's event loop: %s", strerror(errno));
	return came;
}

void rmem_server_stop(struct rmem_server *server)
{
	const uint64_t one = 1;
	int saved = errno;

	(void)!write(server->stop.fd, &one, sizeof(one));
	errno = saved;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void rmem_server_destroy(struct rmem_server *server)
{
	struct server_door *door;

	if (server == NULL)
		return;
	server_client_close_all(server);
	while ((door = SLIST_FIRST(&server->doors)) != NULL) {
		SLIST_REMOVE_HEAD(&server->doors, link);
		door->kind->close(door);
	}
	server_mail_destroy(server);
	rmem_pool_destroy(server->pool);
	close_fd(server->spare_fd);
	close_fd(server->stop.fd);
	close_fd(server->epoll_fd);
	free((char *)(uintptr_t)server->options.pool.backing); /* our copy */
	free(server);
}

void rmem_server_status(const struct rmem_server *server, struct rmem_status *status)
{
	const struct rmem_pool *pool = server->pool;

	*status = (struct rmem_status){
		.incarnation = pool->incarnation,
		.pool_bytes = pool->data_bytes,
		.uptime_ms = (rmem_now_ns() - server->started_ns) / RMEM_NS_PER_MS,
		.pid = (uint32_t)getpid(),
		.page_bytes = pool->page_bytes,
		.region_count = server->welcome.region_count,
		.client_count = server->greeted_count,
		.flags = pool->flags,
		.program = "rmemd " RMEM_VERSION,
	};
	snprintf(status->backing, sizeof(status->backing), "%s", pool->backing);
	memcpy(status->owner, pool->owner, sizeof(status->owner));
}

int rmem_server_query_status(const char *url, unsigned timeout_ms, struct rmem_status *status,
			     struct rmem_error *error)
{
	const struct server_door_kind *kind = kind_of(url);
	struct rmem_control_message answer;
	int rc;

	if (kind == NULL)
		return rmem_fabric_unknown(url, error);
	rc = kind->ask(url, rmem_deadline_in_ms(timeout_ms), &answer, error);
	if (rc != 0)
		return rc;
	rmem_control_close_fds(&answer);
	if (rmem_wire_get_status(answer.bytes, answer.length, status) != 0)
		return rmem_fail(error, EPROTO, "%s: a garbled answer", url);
	return 0;
}
