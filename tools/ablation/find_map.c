/* SPDX-License-Identifier: Apache-2.0 */
/* What a completion is for, found as it was: in a hash map, under a mutex. In place of
 * engine/dispatch_find.c, behind its header.
 *
 * Each reactor's thread has a mutex and a map of its own, so that nobody ever waits for the lock.
 * The map leads from connection to server and is filled as connections are met; what it says is
 * never wrong, so nothing is ever taken out of it. */
#include <pthread.h>

#include "engine/dispatch.h"
#include "tools/ablation/map.h"

struct entry {
	struct map_node map;
	unsigned server;
};

static _Thread_local struct {
	pthread_mutex_t lock;
	struct map map;
} contexts = {.lock = PTHREAD_MUTEX_INITIALIZER};

static RMEM_COLD const struct entry *enter(uint64_t key, unsigned server)
{
	struct entry *entry = malloc(sizeof(*entry));

	if (entry == NULL ||
	    (contexts.map.buckets == NULL && !map_init(&contexts.map, RMEM_SERVERS_MAX)))
		abort();
	*entry = (struct entry){.map.key = key, .server = server};
	map_insert(&contexts.map, &entry->map);
	return entry;
}

static unsigned look_up(uint64_t id)
{
	/* Server and generation, the server in the low bits: buckets are as many. */
	uint64_t key = (uint64_t)rmem_id_generation(id) * RMEM_SERVERS_MAX + rmem_id_server(id);
	const struct entry *entry = NULL;
	unsigned server;

	pthread_mutex_lock(&contexts.lock);
	if (RMEM_LIKELY(contexts.map.buckets != NULL))
		entry = (const struct entry *)map_find(&contexts.map, key);
	if (RMEM_UNLIKELY(entry == NULL))
		entry = enter(key, rmem_id_server(id));
	server = entry->server;
	pthread_mutex_unlock(&contexts.lock);
	return server;
}

struct rmem_endpoint *rmem_dispatch_find(const struct rmem_dispatch *dispatch, uint64_t id)
{
	struct rmem_endpoint *endpoint = dispatch->endpoints[look_up(id)];

	if (RMEM_LIKELY(endpoint && endpoint->generation == rmem_id_generation(id)))
		return endpoint;
	endpoint = dispatch->draining;
	while (endpoint && (endpoint->target.server != rmem_id_server(id) ||
			    endpoint->generation != rmem_id_generation(id)))
		endpoint = endpoint->next_draining;
	return endpoint;
}
