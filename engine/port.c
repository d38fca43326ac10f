/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void rmem_registry_init(struct rmem_registry *registry, unsigned reactor_count,
			int (*publish)(void *user, struct rmem_memory_map *map), void *user)
{
	*registry = (struct rmem_registry){
		.reactor_count = reactor_count,
		.publish = publish,
		.user = user,
	};
	pthread_mutex_init(&registry->lock, NULL);
}

/* Makes the map of what is registered now and publishes it. */
static int publish(struct rmem_registry *registry, struct rmem_error *error)
{
	struct rmem_memory_map *map =
		calloc(1, sizeof(*map) + registry->memory_count * sizeof(map->ranges[0]));

	if (!map)
		return rmem_fail(error, ENOMEM, "no memory for a list of registered memory");
	for (const struct rmem_memory *at = registry->memories; at; at = at->next) {
		struct rmem_memory_range *range = &map->ranges[map->count++];

		range->start = (uintptr_t)at->address;
		range->length = at->length;
		for (unsigned i = 0; i < registry->port_count; i++)
			range->keys[i] = registry->ports[i]->fabric->mr_key(at->mrs[i]);
	}
	if (!rmem_memory_sort(map)) {
		free(map);
		return rmem_fail(error, EINVAL, "the memory is registered already, or part of it");
	}
	int rc = registry->publish(registry->user, map);

	return rc ? rmem_fail(error, -rc, "no memory for a new endpoint table") : 0;
}

/* --- Memory ----------------------------------------------------------------------------------- */

/* Takes back the registrations with the first `count` ports. */
static void unregister(struct rmem_memory *memory, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (memory->mrs[i])
			memory->registry->ports[i]->fabric->mr_unregister(memory->mrs[i]);
		memory->mrs[i] = NULL;
	}
}

static int register_with(struct rmem_memory *memory, const struct rmem_port_entry *entry,
			 struct rmem_error *error)
{
	return entry->fabric->mr_register(entry->port, memory->address, memory->length,
					  &memory->mrs[entry->index], error);
}

static void unlist(struct rmem_registry *registry, struct rmem_memory *memory)
{
	for (struct rmem_memory **at = &registry->memories; *at; at = &(*at)->next) {
		if (*at == memory) {
			*at = memory->next;
			registry->memory_count--;
			return;
		}
	}
}

static int add_locked(struct rmem_registry *registry, struct rmem_memory *memory,
		      struct rmem_error *error)
{
	int rc;

	if (registry->memory_count == RMEM_MEMORIES_MAX)
		return rmem_fail(error, ENOSPC, "more than %d pieces of memory to register",
				 RMEM_MEMORIES_MAX);
	for (unsigned i = 0; i < registry->port_count; i++) {
		rc = register_with(memory, registry->ports[i], error);
		if (rc) {
			unregister(memory, i);
			return rc;
		}
	}
	memory->next = registry->memories;
	registry->memories = memory;
	registry->memory_count++;
	rc = publish(registry, error);
	if (rc) {
		unlist(registry, memory);
		unregister(memory, registry->port_count);
	}
	return rc;
}

int rmem_registry_add(struct rmem_registry *registry, void *address, size_t length,
		      struct rmem_memory **memory, struct rmem_error *error)
{
	struct rmem_memory *made;
	int rc;

	*memory = NULL;
	if (((uintptr_t)address | length) % RMEM_PAGE_BYTES || length == 0)
		return rmem_fail(error, EINVAL, "memory to register must be whole pages");
	made = calloc(1, sizeof(*made));
	if (!made)
		return rmem_fail(error, ENOMEM, "no memory to register memory");
	made->registry = registry;
	made->address = address;
	made->length = length;
	pthread_mutex_lock(&registry->lock);
	rc = add_locked(registry, made, error);
	pthread_mutex_unlock(&registry->lock);
	if (rc) {
		free(made);
		return rc;
	}
	*memory = made;
	return 0;
}

void rmem_registry_remove(struct rmem_memory *memory)
{
	struct rmem_registry *registry;

	if (!memory)
		return;
	registry = memory->registry;
	pthread_mutex_lock(&registry->lock);
	unlist(registry, memory);
	/* When that fails the old map stays, with a range that nobody uses any more. */
	(void)publish(registry, NULL);
	unregister(memory, registry->port_count);
	pthread_mutex_unlock(&registry->lock);
	free(memory);
}

/* --- Ports ------------------------------------------------------------------------------------ */

static void port_destroy(struct rmem_registry *registry, struct rmem_port_entry *entry)
{
	if (!entry)
		return;
	for (unsigned i = 0; i < entry->cq_count; i++)
		entry->fabric->cq_destroy(entry->cqs[i]);
	for (struct rmem_memory *at = registry->memories; at; at = at->next) {
		if (at->mrs[entry->index])
			entry->fabric->mr_unregister(at->mrs[entry->index]);
		at->mrs[entry->index] = NULL;
	}
	entry->fabric->port_close(entry->port);
	free(entry);
}

/* Sets up a port that was opened: registers all memory, makes a queue for each reactor. */
static int port_fill(struct rmem_registry *registry, struct rmem_port_entry *entry,
		     struct rmem_error *error)
{
	int rc;

	entry->fabric->port_limits(entry->port, &entry->limits);
	for (struct rmem_memory *at = registry->memories; at; at = at->next) {
		rc = register_with(at, entry, error);
		if (rc)
			return rc;
	}
	while (entry->cq_count < registry->reactor_count) {
		/* A small one: reactors grow theirs as endpoints come. */
		rc = entry->fabric->cq_create(entry->port, 1, &entry->cqs[entry->cq_count], error);
		if (rc)
			return rc;
		entry->cq_count++;
	}
	return 0;
}

static int port_add(struct rmem_registry *registry, struct rmem_port_entry *entry,
		    struct rmem_error *error)
{
	int rc;

	entry->index = registry->port_count;
	rc = port_fill(registry, entry, error);
	if (rc)
		return rc;
	registry->ports[registry->port_count++] = entry;
	rc = publish(registry, error);
	if (rc)
		registry->port_count--;
	return rc;
}

/* Finds the port among those there are, or NULL. */
static struct rmem_port_entry *find(const struct rmem_registry *registry,
				    const struct rmem_port *port)
{
	for (unsigned i = 0; i < registry->port_count; i++) {
		if (registry->ports[i]->port == port)
			return registry->ports[i];
	}
	return NULL;
}

static int port_locked(struct rmem_registry *registry, const char *url,
		       struct rmem_port_entry **entry, struct rmem_error *error)
{
	const struct rmem_fabric *fabric = rmem_fabric_find(url);
	struct rmem_port_entry *made;
	struct rmem_port *port;
	int rc = fabric->port_open(url, &port, error);

	if (rc)
		return rc;
	*entry = find(registry, port);
	if (*entry) {
		fabric->port_close(port); /* one reference is enough */
		return 0;
	}
	made = registry->port_count < RMEM_PORTS_MAX ? calloc(1, sizeof(*made)) : NULL;
	if (!made) {
		fabric->port_close(port);
		return rmem_fail(error, ENOSPC, "more than %d local devices", RMEM_PORTS_MAX);
	}
	made->fabric = fabric;
	made->port = port;
	rc = port_add(registry, made, error);
	if (rc)
		port_destroy(registry, made);
	else
		*entry = made;
	return rc;
}

int rmem_registry_check(struct rmem_registry *registry, const char *url, struct rmem_error *error)
{
	const struct rmem_fabric *fabric = rmem_fabric_find(url);
	struct rmem_port *port;
	int rc;

	if (!fabric)
		return rmem_fabric_unknown(url, error);
	pthread_mutex_lock(&registry->lock);
	rc = fabric->port_open(url, &port, error);
	if (rc == 0)
		fabric->port_close(port);
	pthread_mutex_unlock(&registry->lock);
	return rc == -EINVAL ? rc : 0; /* anything else may be different later */
}

int rmem_registry_port(struct rmem_registry *registry, const char *url,
		       struct rmem_port_entry **entry, struct rmem_error *error)
{
	int rc;

	pthread_mutex_lock(&registry->lock);
	rc = port_locked(registry, url, entry, error);
	pthread_mutex_unlock(&registry->lock);
	return rc;
}

void rmem_registry_finish(struct rmem_registry *registry)
{
	while (registry->port_count > 0)
		port_destroy(registry, registry->ports[--registry->port_count]);
	while (registry->memories) {
		struct rmem_memory *memory = registry->memories;

		registry->memories = memory->next;
		free(memory);
	}
	pthread_mutex_destroy(&registry->lock);
}
