/* SPDX-License-Identifier: Apache-2.0 */
/* The table and the queries; the control thread itself is in peers_control.c. */
#include "engine/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/timer.h"
#include "engine/peers_internal.h"

/* --- The table -------------------------------------------------------------------------------- */

static struct rmem_memory_map *copy_map(const struct rmem_memory_map *map)
{
	size_t bytes = sizeof(*map) + map->count * sizeof(map->ranges[0]);
	struct rmem_memory_map *copy = malloc(bytes);

	if (copy)
		memcpy(copy, map, bytes);
	return copy;
}

static void table_destroy(struct rmem_table *table)
{
	if (!table)
		return;
	free(table->memory);
	free(table);
}

int rmem_peers_publish(struct rmem_peers *peers)
{
	struct rmem_table *old = atomic_load_explicit(&peers->table, memory_order_relaxed);
	struct rmem_table *table = calloc(1, sizeof(*table));

	if (table)
		table->memory = copy_map(peers->memory);
	if (!table || !table->memory) {
		table_destroy(table);
		return -ENOMEM;
	}
	table->epoch = old ? old->epoch + 1 : 1;
	table->server_count = peers->server_count;
	table->port_count = peers->port_count;
	memcpy(table->ports, peers->ports, sizeof(table->ports));
	for (unsigned i = 0; i < peers->server_count; i++)
		table->connections[i] = peers->servers[i]->connection;
	if (old) {
		old->next = peers->retired_tables;
		peers->retired_tables = old;
	}
	/* Pairs with the acquire of each reactor's look, and is ordered before the look whether
	 * it sleeps. */
	atomic_store(&peers->table, table);
	for (unsigned i = 0; i < peers->reactor_count; i++)
		peers->reactors[i].wake(peers->reactors[i].reactor);
	return 0;
}

int rmem_peers_publish_memory(void *user, struct rmem_memory_map *map)
{
	struct rmem_peers *peers = user;
	struct rmem_memory_map *before;
	int rc;

	pthread_mutex_lock(&peers->lock);
	before = peers->memory;
	peers->memory = map;
	memcpy(peers->ports, peers->registry->ports, sizeof(peers->ports));
	peers->port_count = peers->registry->port_count;
	rc = rmem_peers_publish(peers);
	if (rc) {
		free(map);
		peers->memory = before;
	} else {
		free(before);
	}
	pthread_mutex_unlock(&peers->lock);
	return rc;
}

/* The epoch that every reactor has reached. */
static uint64_t reached(const struct rmem_peers *peers)
{
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < peers->reactor_count; i++) {
		/* Acquire: a reactor that is past an epoch is done with what came before. */
		uint64_t epoch =
			atomic_load_explicit(peers->reactors[i].epoch, memory_order_acquire);

		if (epoch < least)
			least = epoch;
	}
	return least;
}

/* Whether no reactor uses the connection or can still come to use it. */
static bool is_unused(const struct rmem_connection *connection, uint64_t epoch)
{
	if (epoch < connection->retired_epoch)
		return false;
	for (unsigned i = 0; i < connection->endpoint_count; i++) {
		/* Pairs with the release of the reactor that let go. */
		if (atomic_load_explicit(&connection->endpoints[i]->is_attached,
					 memory_order_acquire))
			return false;
	}
	return true;
}

struct rmem_connection *rmem_peers_reclaim(struct rmem_peers *peers)
{
	struct rmem_connection *unused = NULL;
	uint64_t epoch = reached(peers);

	for (struct rmem_table **at = &peers->retired_tables; *at;) {
		struct rmem_table *table = *at;

		if (table->epoch >= epoch) { /* its successor has not been reached by all */
			at = &table->next;
			continue;
		}
		*at = table->next;
		table_destroy(table);
	}
	for (struct rmem_connection **at = &peers->retired; *at;) {
		struct rmem_connection *connection = *at;

		if (!is_unused(connection, epoch)) {
			at = &connection->next;
			continue;
		}
		*at = connection->next;
		connection->next = unused;
		unused = connection;
		peers->servers[connection->server]->retired_count--;
	}
	return unused;
}

/* --- Life ------------------------------------------------------------------------------------- */

static int make_descriptors(struct rmem_peers *peers, struct rmem_error *error)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
	int code;

	peers->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	peers->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (peers->epoll_fd < 0 || peers->wake_fd < 0 ||
	    epoll_ctl(peers->epoll_fd, EPOLL_CTL_ADD, peers->wake_fd, &event)) {
		code = errno;
		return rmem_fail(error, code, "no descriptors for the control thread: %s",
				 strerror(code));
	}
	return 0;
}

int rmem_peers_init(struct rmem_peers *peers, const struct rmem_engine_options *options,
		    struct rmem_registry *registry, struct rmem_error *error)
{
	pthread_condattr_t attributes;
	int rc;

	memset(peers, 0, sizeof(*peers));
	pthread_mutex_init(&peers->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&peers->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	peers->options = options;
	peers->registry = registry;
	peers->epoll_fd = -1;
	peers->wake_fd = -1;
	rc = make_descriptors(peers, error);
	if (rc)
		return rc;
	peers->memory = calloc(1, sizeof(*peers->memory));
	if (!peers->memory || rmem_peers_publish(peers))
		return rmem_fail(error, ENOMEM, "no memory for the endpoint table");
	return 0;
}

static void free_all(struct rmem_peers *peers)
{
	struct rmem_table *table = atomic_load_explicit(&peers->table, memory_order_relaxed);

	table_destroy(table);
	while ((table = peers->retired_tables)) {
		peers->retired_tables = table->next;
		table_destroy(table);
	}
	while (peers->retired) {
		struct rmem_connection *connection = peers->retired;

		peers->retired = connection->next;
		rmem_connection_destroy(connection);
	}
	for (unsigned i = 0; i < peers->server_count; i++) {
		rmem_connection_destroy(peers->servers[i]->connection);
		free(peers->servers[i]);
	}
	free(peers->memory);
}

void rmem_peers_finish(struct rmem_peers *peers)
{
	free_all(peers);
	if (peers->epoll_fd >= 0)
		close(peers->epoll_fd);
	if (peers->wake_fd >= 0)
		close(peers->wake_fd);
	pthread_cond_destroy(&peers->changed);
	pthread_mutex_destroy(&peers->lock);
}

void rmem_peers_notify(void *user)
{
	struct rmem_peers *peers = user;
	const uint64_t one = 1;

	(void)!write(peers->wake_fd, &one, sizeof(one)); /* full means it is awake already */
}

/* --- Queries ---------------------------------------------------------------------------------- */

int rmem_peers_add(struct rmem_peers *peers, const char *url, unsigned *server,
		   struct rmem_error *error)
{
	struct rmem_server *made;
	int rc;

	if (strlen(url) >= sizeof(made->url))
		return rmem_fail(error, EINVAL, "the server's address is longer than %zu bytes",
				 sizeof(made->url) - 1);
	rc = rmem_registry_check(peers->registry, url, error);
	if (rc)
		return rc;
	made = calloc(1, sizeof(*made));
	if (!made)
		return rmem_fail(error, ENOMEM, "no memory for one more server");
	made->peers = peers;
	made->backoff_ms = peers->options->reconnect_min_ms;
	memcpy(made->url, url, strlen(url) + 1);
	pthread_mutex_lock(&peers->lock);
	if (peers->server_count == RMEM_SERVERS_MAX) {
		rmem_fail(error, ENOSPC, "more than %d servers", RMEM_SERVERS_MAX);
		rc = -ENOSPC;
	} else {
		made->index = peers->server_count;
		peers->servers[peers->server_count++] = made;
		if (rmem_peers_publish(peers)) {
			peers->server_count--;
			rmem_fail(error, ENOMEM, "no memory for a new endpoint table");
			rc = -ENOMEM;
		}
	}
	pthread_mutex_unlock(&peers->lock);
	if (rc) {
		free(made);
		return rc;
	}
	*server = made->index;
	rmem_peers_notify(peers);
	return 0;
}

/* The first attempt may take as long as its caller waits, and begins a moment later: it is about to
 * say why it failed. */
#define REASON_MS 1000

static struct timespec deadline_in(unsigned timeout_ms)
{
	struct timespec at;
	uint64_t ns;

	clock_gettime(CLOCK_MONOTONIC, &at);
	ns = (uint64_t)at.tv_nsec + (uint64_t)timeout_ms * RMEM_NS_PER_MS;
	at.tv_sec += (time_t)(ns / RMEM_NS_PER_S);
	at.tv_nsec = (long)(ns % RMEM_NS_PER_S);
	return at;
}

/* Lock held. The pause that an attempt began before anybody waited may be much longer. */
static void hurry(struct rmem_server *server)
{
	uint64_t soon_ns = rmem_now_ns() + (uint64_t)RMEM_PAUSE_WAITED_MS * RMEM_NS_PER_MS;

	if (server->state == RMEM_SERVER_UP || server->due_ns <= soon_ns)
		return;
	server->due_ns = soon_ns;
	rmem_peers_notify(server->peers);
}

int rmem_peers_wait(struct rmem_peers *peers, unsigned server, unsigned timeout_ms,
		    struct rmem_error *error)
{
	struct timespec deadline = deadline_in(timeout_ms);
	struct rmem_server *at;
	int rc = 0;

	pthread_mutex_lock(&peers->lock);
	if (server >= peers->server_count) {
		pthread_mutex_unlock(&peers->lock);
		return rmem_fail(error, ENOENT, "there is no server %u", server);
	}
	at = peers->servers[server];
	at->waiters++;
	hurry(at);
	while (at->state != RMEM_SERVER_UP && rc == 0)
		rc = pthread_cond_timedwait(&peers->changed, &peers->lock, &deadline);
	deadline = deadline_in(timeout_ms > 0 ? REASON_MS : 0);
	rc = 0;
	while (at->state != RMEM_SERVER_UP && at->error.code == 0 && rc == 0)
		rc = pthread_cond_timedwait(&peers->changed, &peers->lock, &deadline);
	at->waiters--;
	if (at->state == RMEM_SERVER_UP)
		rc = 0;
	else
		rc = rmem_fail(error, ETIMEDOUT, "%s: not connected after %u ms%s%s", at->url,
			       timeout_ms, at->error.code ? ": " : "", at->error.text);
	pthread_mutex_unlock(&peers->lock);
	return rc;
}

int rmem_peers_info(struct rmem_peers *peers, unsigned server, struct rmem_server_info *info)
{
	const struct rmem_server *at;

	memset(info, 0, sizeof(*info));
	pthread_mutex_lock(&peers->lock);
	if (server >= peers->server_count) {
		pthread_mutex_unlock(&peers->lock);
		return -ENOENT;
	}
	at = peers->servers[server];
	memcpy(info->url, at->url, sizeof(info->url));
	info->is_copy = rmem_fabric_find(at->url)->is_copy; /* there is one: it was added */
	info->state = at->state;
	info->incarnation = at->incarnation;
	info->region_count = at->region_count;
	for (unsigned i = 0; i < at->region_count; i++)
		info->regions[i].length = at->lengths[i];
	if (at->state != RMEM_SERVER_UP) {
		memcpy(info->last_error, at->error.text, sizeof(info->last_error) - 1);
	}
	pthread_mutex_unlock(&peers->lock);
	return 0;
}
