/* SPDX-License-Identifier: Apache-2.0 */
/* The local side of the engine: ports, and the memory that is registered with every one of them.
 *
 * A port appears with the first server that is reached through it and stays until the engine ends.
 * All memory, the reactors' staging arenas included, is registered with each port as it appears,
 * and each port with new memory. Both are slow and happen under one lock, by whichever thread asks.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "engine/fabric.h"
#include "engine/memory.h"
#include "engine/rmem.h"

#define RMEM_MEMORIES_MAX 256

struct rmem_port_entry {
	const struct rmem_fabric *fabric;
	struct rmem_port *port;
	unsigned index; /* of the keys in a memory map */
	struct rmem_port_limits limits;
	atomic_bool is_told; /* which settings the limits force down */
	unsigned cq_count;
	struct rmem_cq *cqs[RMEM_REACTORS_MAX]; /* each its reactor's */
};

struct rmem_registry;

struct rmem_memory {
	struct rmem_registry *registry;
	void *address;
	size_t length;
	struct rmem_mr *mrs[RMEM_PORTS_MAX];
	struct rmem_memory *next;
};

struct rmem_registry {
	pthread_mutex_t lock; /* taken before the lock of the peers */
	unsigned reactor_count;
	unsigned port_count;
	unsigned memory_count;
	struct rmem_port_entry *ports[RMEM_PORTS_MAX];
	struct rmem_memory *memories;
	/* Makes a new set of ports and memory known to the reactors; under the lock. The map is the
	 * callee's from then on. */
	int (*publish)(void *user, struct rmem_memory_map *map);
	void *user;
};

void rmem_registry_init(struct rmem_registry *registry, unsigned reactor_count,
			int (*publish)(void *user, struct rmem_memory_map *map), void *user);
/* Closes every port. All connections are gone, and all memory but what the engine itself added. */
void rmem_registry_finish(struct rmem_registry *registry);

/* Whether the URL can be one of a server of some fabric. Errors: -EINVAL. */
int rmem_registry_check(struct rmem_registry *registry, const char *url,
			struct rmem_error *error) RMEM_MUST_CHECK;

/* The port that leads to `url`, made and published if it is new. Any thread. Errors: -EINVAL,
 * -ENODEV, -ENOMEM, -ENOSPC (more than RMEM_PORTS_MAX), those of the fabric. */
int rmem_registry_port(struct rmem_registry *registry, const char *url,
		       struct rmem_port_entry **entry, struct rmem_error *error) RMEM_MUST_CHECK;

/* Registers memory with every port and publishes it. Any thread. Errors: -EINVAL (not page
 * aligned, overlaps), -ENOMEM, -ENOSPC. */
int rmem_registry_add(struct rmem_registry *registry, void *address, size_t length,
		      struct rmem_memory **memory, struct rmem_error *error) RMEM_MUST_CHECK;
void rmem_registry_remove(struct rmem_memory *memory);
