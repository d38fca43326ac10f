/* SPDX-License-Identifier: Apache-2.0 */
/* The endpoint table as reactors looked at it before: every turn, under a shared lock, each makes a
 * list of the connections for itself. In place of engine/table.c, behind its header. The lock is
 * one for all reactors, as the table is. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/peers.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

const struct rmem_table *rmem_table_look(const struct rmem_peers *peers)
{
	const struct rmem_table *table;
	struct rmem_connection **snapshot;
	size_t bytes;

	pthread_rwlock_rdlock(&lock);
	table = atomic_load_explicit(&peers->table, memory_order_acquire);
	bytes = table->server_count * sizeof(struct rmem_connection *);
	snapshot = malloc(bytes + 1);
	if (snapshot == NULL)
		abort();
	memcpy(snapshot, table->connections, bytes);
	pthread_rwlock_unlock(&lock);
	__asm__ volatile("" : : "r"(snapshot) : "memory"); /* somebody uses it */
	free(snapshot);
	return table;
}
