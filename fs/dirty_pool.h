/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that written bytes wait in until they are flushed, with fs.write at "back": registered
 * pages, shared by all reactors of a mount, taken at start and never more.
 *
 * Shared, although reactors share nothing else, because a file's dirty pages belong to the file and
 * not to the reactor that took the write: any of them reads, overwrites and flushes them. So pages
 * go from hand to hand, and one lock (held for some 20 ns) guards the free ones.
 *
 * A writer takes all the pages it may need before it enters a file's gate. Who finds too few waits
 * in line, outside of every gate, so that the flushes which will free some can get on. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/rmem.h"
#include "engine/staging.h"

enum dirty_state {
	DIRTY_IDLE,    /* waits to be flushed */
	DIRTY_WRITING, /* its bytes are on their way: they don't change until they have arrived */
	DIRTY_STALE,   /* the same, and a newer version has taken its place in the file */
};

/* A page of a file that remote memory does not have yet, or bytes [from, to) of it. While it is
 * not free, all but `bytes` is the file's (see dirty.h). */
struct dirty_page {
	struct dirty_page *next; /* in the pool, and wherever pages are handed over */
	uint8_t *bytes;		 /* VOLUME_PAGE_BYTES, registered; constant */
	uint64_t number;	 /* file offset / VOLUME_PAGE_BYTES */
	uint64_t sequence;	 /* when it became dirty, in the order of the file */
	uint64_t size_before;	 /* if it is in the list of growth: the file's, before that */
	uint32_t since_ms;	 /* when it became dirty */
	uint16_t from, to;
	uint8_t state;		  /* enum dirty_state */
	bool grows;		  /* is in the list of growth */
	bool fresh;		  /* DIRTY_WRITING: remote memory held nothing of the page before */
	bool failed;		  /* flushing it failed before */
	struct dirty_page *chain; /* in a bucket of the index */
	struct dirty_page *older, *newer;  /* in order of sequence */
	struct dirty_page *before, *after; /* in the list of growth */
};

/* Somebody who wants pages. Owned by the caller until granted or cancelled. */
struct dirty_wait {
	struct dirty_wait *next;
	uint32_t count;		/* wanted */
	struct dirty_page *got; /* a list by ->next */
	/* Called by whatever thread gave pages back, without locks. */
	void (*granted)(struct dirty_wait *wait);
};

struct dirty_pool {
	struct rmem_arena arena;
	struct rmem_memory *memory;
	struct dirty_page *pages;
	uint32_t count; /* constant */

	pthread_mutex_t lock; /* guards this paragraph; innermost */
	struct dirty_page *free;
	uint32_t free_count;
	struct dirty_wait *wait_head, *wait_tail;

	/* Written under the lock, read by anybody, relaxed. */
	_Atomic(uint32_t) used;
	_Atomic(uint32_t) waiting;
	_Atomic(uint64_t) throttled; /* how often somebody had to wait */
};

/* options->slot_count pages, at least one; slot_bytes is set here. Errors: -ENOMEM. */
int dirty_pool_create(struct rmem_engine *engine, const struct rmem_arena_options *options,
		      struct dirty_pool **pool, struct rmem_error *error) RMEM_MUST_CHECK;
void dirty_pool_destroy(struct dirty_pool *pool); /* NULL is fine */

/* Takes wait->count pages (at most pool->count) into wait->got. False: in line, granted() will be
 * called. */
bool dirty_pool_take(struct dirty_pool *pool, struct dirty_wait *wait) RMEM_MUST_CHECK;
/* Leaves the line. False: too late, granted() is called or was. */
bool dirty_pool_cancel(struct dirty_pool *pool, struct dirty_wait *wait) RMEM_MUST_CHECK;

/* Gives back a list of pages; may call granted(). No lock of the caller's may be held. */
void dirty_pool_put(struct dirty_pool *pool, struct dirty_page *list);

static inline uint32_t dirty_pool_used(const struct dirty_pool *pool)
{
	return atomic_load_explicit(&pool->used, memory_order_relaxed);
}

static inline bool dirty_pool_is_short(const struct dirty_pool *pool)
{
	return atomic_load_explicit(&pool->waiting, memory_order_relaxed) > 0;
}
