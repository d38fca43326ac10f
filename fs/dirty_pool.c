/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/dirty_pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "fs/volume.h"

static int init_pages(struct dirty_pool *pool, struct rmem_error *error)
{
	pool->pages = calloc(pool->count, sizeof(*pool->pages));
	if (pool->pages == NULL)
		return rmem_fail(error, ENOMEM, "no memory to manage %u dirty pages", pool->count);
	for (uint32_t i = pool->count; i-- > 0;) {
		struct dirty_page *page = &pool->pages[i];

		page->bytes = pool->arena.base + (size_t)i * VOLUME_PAGE_BYTES;
		page->next = pool->free;
		pool->free = page;
	}
	pool->free_count = pool->count;
	return 0;
}

int dirty_pool_create(struct rmem_engine *engine, const struct rmem_arena_options *options,
		      struct dirty_pool **result, struct rmem_error *error)
{
	struct rmem_arena_options arena = *options;
	struct dirty_pool *pool = calloc(1, sizeof(*pool));
	int status;

	if (pool == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	pthread_mutex_init(&pool->lock, NULL);
	arena.slot_bytes = VOLUME_PAGE_BYTES;
	pool->count = arena.slot_count;
	status = rmem_arena_init(&pool->arena, &arena, error);
	if (status == 0)
		status = rmem_memory_register(engine, pool->arena.base, pool->arena.length,
					      &pool->memory, error);
	if (status == 0)
		status = init_pages(pool, error);
	if (status != 0) {
		dirty_pool_destroy(pool);
		return status;
	}
	*result = pool;
	return 0;
}

void dirty_pool_destroy(struct dirty_pool *pool)
{
	if (pool == NULL)
		return;
	if (pool->memory != NULL)
		rmem_memory_unregister(pool->memory);
	rmem_arena_finish(&pool->arena);
	pthread_mutex_destroy(&pool->lock);
	free(pool->pages);
	free(pool);
}

/* Lock held. */
static void set_used(struct dirty_pool *pool)
{
	atomic_store_explicit(&pool->used, pool->count - pool->free_count, memory_order_relaxed);
}

/* Lock held, and there are enough. */
static void grant(struct dirty_pool *pool, struct dirty_wait *wait)
{
	wait->got = NULL;
	for (uint32_t i = 0; i < wait->count; i++) {
		struct dirty_page *page = pool->free;

		pool->free = page->next;
		page->next = wait->got;
		wait->got = page;
	}
	pool->free_count -= wait->count;
	set_used(pool);
}

/* Lock held. */
static void add_waiting(struct dirty_pool *pool, int by)
{
	uint32_t waiting = atomic_load_explicit(&pool->waiting, memory_order_relaxed);

	atomic_store_explicit(&pool->waiting, waiting + (uint32_t)by, memory_order_relaxed);
}

bool dirty_pool_take(struct dirty_pool *pool, struct dirty_wait *wait)
{
	bool granted;

	assert(wait->count <= pool->count);
	pthread_mutex_lock(&pool->lock);
	granted = pool->wait_head == NULL && wait->count <= pool->free_count;
	if (granted) {
		grant(pool, wait);
	} else {
		wait->next = NULL;
		wait->got = NULL;
		if (pool->wait_head == NULL)
			pool->wait_head = wait;
		else
			pool->wait_tail->next = wait;
		pool->wait_tail = wait;
		add_waiting(pool, 1);
		atomic_fetch_add_explicit(&pool->throttled, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&pool->lock);
	return granted;
}

/* Lock held: serves the line from its head as far as pages reach. Returns those served. */
static struct dirty_wait *serve(struct dirty_pool *pool)
{
	struct dirty_wait *first = pool->wait_head, *last = NULL;

	while (pool->wait_head != NULL && pool->wait_head->count <= pool->free_count) {
		last = pool->wait_head;
		pool->wait_head = last->next;
		grant(pool, last);
		add_waiting(pool, -1);
	}
	if (last == NULL)
		return NULL;
	last->next = NULL;
	return first;
}

static void tell(struct dirty_wait *served)
{
	while (served != NULL) {
		struct dirty_wait *next = served->next; /* granted() may free it */

		served->granted(served);
		served = next;
	}
}

bool dirty_pool_cancel(struct dirty_pool *pool, struct dirty_wait *wait)
{
	struct dirty_wait **at = &pool->wait_head, *before = NULL, *served = NULL;
	bool found;

	pthread_mutex_lock(&pool->lock);
	while (*at != NULL && *at != wait) {
		before = *at;
		at = &before->next;
	}
	found = *at != NULL;
	if (found) {
		*at = wait->next;
		if (pool->wait_tail == wait)
			pool->wait_tail = before;
		add_waiting(pool, -1);
		served = serve(pool); /* those behind may want less */
	}
	pthread_mutex_unlock(&pool->lock);
	tell(served);
	return found;
}

void dirty_pool_put(struct dirty_pool *pool, struct dirty_page *list)
{
	struct dirty_wait *served = NULL;

	if (list == NULL)
		return;
	pthread_mutex_lock(&pool->lock);
	while (list != NULL) {
		struct dirty_page *next = list->next;

		list->next = pool->free;
		pool->free = list;
		pool->free_count++;
		list = next;
	}
	set_used(pool);
	if (pool->wait_head != NULL)
		served = serve(pool);
	pthread_mutex_unlock(&pool->lock);
	tell(served);
}
