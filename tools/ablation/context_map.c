/* SPDX-License-Identifier: Apache-2.0 */
/* The notification context of a queue, looked up as it was: every poll, in a hash map, under a
 * mutex. In place of engine/fabric_shm_context.c, behind its header.
 *
 * Each reactor's thread has a mutex and a map of its own, so that nobody ever waits for the lock.
 * The map is filled as queues are met, and what it says is never wrong, so nothing is taken out of
 * it. */
#include "engine/fabric_shm.h"
#include "tools/ablation/map.h"

#define QUEUES 64 /* that a thread may meet; 2^n */

struct entry {
	struct map_node map;
	const struct rmem_cq *cq;
};

static _Thread_local struct {
	pthread_mutex_t lock;
	struct map_node *buckets[QUEUES];
	struct entry entries[QUEUES];
	unsigned count;
} contexts = {.lock = PTHREAD_MUTEX_INITIALIZER};

static RMEM_COLD const struct entry *enter(struct map *map, uint64_t key, const struct rmem_cq *cq)
{
	struct entry *entry = &contexts.entries[contexts.count++];

	if (contexts.count > QUEUES)
		abort();
	*entry = (struct entry){.map.key = key, .cq = cq};
	map_insert(map, &entry->map);
	return entry;
}

struct shm_mail *shm_mail_of(const struct rmem_cq *cq)
{
	struct map map = {.buckets = contexts.buckets, .mask = QUEUES - 1};
	uint64_t key = (uintptr_t)cq / sizeof(void *);
	const struct entry *entry;
	struct shm_mail *mail;

	pthread_mutex_lock(&contexts.lock);
	entry = (const struct entry *)map_find(&map, key);
	if (RMEM_UNLIKELY(entry == NULL))
		entry = enter(&map, key, cq);
	mail = atomic_load_explicit(&entry->cq->mail, memory_order_relaxed);
	pthread_mutex_unlock(&contexts.lock);
	return mail;
}
