/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator's own view of itself. Private to alloc*.c. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <uthash.h>

#include "fs/alloc.h"
#include "fs/record.h"

struct group {
	uint64_t *words; /* bit set: taken; NULL: all free */
	uint32_t pages;	 /* of the last group fewer */
	uint32_t free;
	bool changed; /* since the last alloc_store() */
	bool damaged; /* its record can't be read: nothing is taken, and what is given stays taken
		       */
};

struct region {
	UT_hash_handle hh;
	uint32_t id;
	uint64_t pages;
	_Atomic(uint64_t) free; /* stored under the lock, read relaxed for statfs */
	uint32_t group_count;
	uint32_t cursor_group, cursor_page;
	struct group groups[];
};

struct runs {
	struct alloc_run *items;
	size_t count, capacity;
};

#define ALLOC_REGIONS_MAX (RMEM_SERVERS_MAX * RMEM_REGIONS_MAX)

struct allocator {
	struct volume *volume;
	/* From alloc_begin() to the end of the transaction. */
	pthread_mutex_t lock;
	struct store_txn *txn; /* that has the change */
	struct store_hook hook;
	struct runs taken, given;
	struct region *by_id; /* lock: hash */
	/* The same ones. Entries appear and stay; release by who adds one, acquire by
	 * alloc_usage(). */
	_Atomic(uint32_t) region_count;
	struct region *regions[ALLOC_REGIONS_MAX];
};

/* NULL: not loaded, and lock held. */
struct region *alloc_find_region(const struct allocator *allocator, uint32_t id);

/* The region, loaded through `txn` if need be; lock held. -EIO, -ENOMEM. */
int alloc_load_region(struct allocator *allocator, struct store_txn *txn, uint32_t id,
		      uint64_t pages, struct region **region) RMEM_MUST_CHECK;

/* Pages can be taken from it now. */
bool alloc_is_usable(const struct allocator *allocator, const struct region *region);

static inline uint64_t alloc_free_pages(const struct region *region)
{
	return atomic_load_explicit(&region->free, memory_order_relaxed);
}

/* `pages` more are free, or fewer. */
void alloc_count_free(struct region *region, struct group *group, int64_t pages);
int alloc_group_words(struct group *group) RMEM_MUST_CHECK; /* there from now on, or -ENOMEM */
