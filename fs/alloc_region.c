/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator's regions: loading their bitmaps, counting their pages.
 *
 * A region is loaded when its server comes, or when pages of it are given back before that: orphans
 * are reclaimed before the first server is there, and files whose server is down can be removed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/checked.h"
#include "engine/base/log.h"
#include "fs/alloc_parts.h"
#include "fs/bitmap.h"

struct region *alloc_find_region(const struct allocator *allocator, uint32_t id)
{
	struct region *region;

	HASH_FIND (hh, allocator->by_id, &id, sizeof(id), region)
		;
	return region;
}

bool alloc_is_usable(const struct allocator *allocator, const struct region *region)
{
	const struct volume_region *entry = volume_region(allocator->volume, region->id);

	return entry != NULL && entry->attached && !entry->lost;
}

void alloc_count_free(struct region *region, struct group *group, int64_t pages)
{
	group->free = (uint32_t)(group->free + pages);
	atomic_store_explicit(&region->free, alloc_free_pages(region) + (uint64_t)pages,
			      memory_order_relaxed);
}

int alloc_group_words(struct group *group)
{
	if (group->words != NULL)
		return 0;
	group->words = calloc(RECORD_GROUP_WORDS, sizeof(group->words[0]));
	return group->words == NULL ? -ENOMEM : 0;
}

/* --- Loading ---------------------------------------------------------------------------------- */

static void give_group_up(struct region *region, uint64_t index)
{
	struct group *group = &region->groups[index];

	rmem_log_error(
		RMEM_LOG_FS,
		"the bitmap of group %llu of region %u is damaged: its free pages are not used "
		"until \"rmemctl check --repair\"",
		(unsigned long long)index, (unsigned)region->id);
	group->damaged = true;
	alloc_count_free(region, group, -(int64_t)group->free);
}

static int load_group(void *user, struct store_slice key, struct store_slice value)
{
	struct region *region = user;
	struct group *group;
	uint64_t id, index;
	uint32_t taken;
	int result = record_parse_pair(key, RECORD_BITMAP, &id, &index);

	if (result != 0 || index >= region->group_count)
		return result; /* a group beyond the region: the checker tells */
	group = &region->groups[index];
	result = alloc_group_words(group);
	if (result != 0)
		return result;
	if (record_decode_bitmap(value, group->words) != 0) {
		give_group_up(region, index);
		return 0;
	}
	taken = bitmap_count(group->words, 0, group->pages);
	if (taken != bitmap_count(group->words, 0, RECORD_GROUP_PAGES))
		give_group_up(region, index);
	else
		alloc_count_free(region, group, -(int64_t)taken);
	return 0;
}

static void destroy_region(struct region *region)
{
	for (uint32_t i = 0; i < region->group_count; i++)
		free(region->groups[i].words);
	free(region);
}

static struct region *create_region(uint32_t id, uint64_t pages)
{
	uint64_t groups = (pages + RECORD_GROUP_PAGES - 1) / RECORD_GROUP_PAGES;
	struct region *region = calloc(1, sizeof(*region) + groups * sizeof(region->groups[0]));

	if (region == NULL)
		return NULL;
	region->id = id;
	region->pages = pages;
	region->group_count = (uint32_t)groups;
	atomic_init(&region->free, pages);
	for (uint64_t i = 0; i < groups; i++) {
		region->groups[i].pages =
			(uint32_t)rmem_min_u64(RECORD_GROUP_PAGES, pages - i * RECORD_GROUP_PAGES);
		region->groups[i].free = region->groups[i].pages;
	}
	return region;
}

int alloc_load_region(struct allocator *allocator, struct store_txn *txn, uint32_t id,
		      uint64_t pages, struct region **result)
{
	uint32_t count = atomic_load_explicit(&allocator->region_count, memory_order_relaxed);
	struct region *region = alloc_find_region(allocator, id);
	struct record_key key;
	int error;

	*result = region;
	if (region != NULL)
		return region->pages == pages ? 0 : -EIO;
	if (pages == 0 || pages > RECORD_REGION_PAGES_MAX || count == ALLOC_REGIONS_MAX)
		return -EIO;
	*result = region = create_region(id, pages);
	if (region == NULL)
		return -ENOMEM;
	error = store_scan(txn, record_key_number(&key, RECORD_BITMAP, id), (struct store_slice){0},
			   load_group, region);
	if (error != 0) {
		destroy_region(region);
		return error;
	}
	HASH_ADD(hh, allocator->by_id, id, sizeof(region->id), region);
	allocator->regions[count] = region;
	atomic_store_explicit(&allocator->region_count, count + 1, memory_order_release);
	return 0;
}

int alloc_add_region(struct allocator *allocator, uint32_t id, uint64_t pages)
{
	struct region *region;
	struct store_txn *txn;
	int result;

	pthread_mutex_lock(&allocator->lock);
	result = store_begin(allocator->volume->store, STORE_READ, &txn);
	if (result == 0) {
		result = alloc_load_region(allocator, txn, id, pages, &region);
		store_abort(txn);
	}
	pthread_mutex_unlock(&allocator->lock);
	return result;
}

/* --- Beginning and end ------------------------------------------------------------------------ */

int alloc_create(struct volume *volume, struct allocator **result)
{
	struct allocator *allocator = calloc(1, sizeof(*allocator));

	if (allocator == NULL)
		return -ENOMEM;
	allocator->volume = volume;
	pthread_mutex_init(&allocator->lock, NULL);
	*result = allocator;
	return 0;
}

void alloc_destroy(struct allocator *allocator)
{
	if (allocator == NULL)
		return;
	HASH_CLEAR(hh, allocator->by_id);
	for (uint32_t i = 0; i < allocator->region_count; i++)
		destroy_region(allocator->regions[i]);
	free(allocator->taken.items);
	free(allocator->given.items);
	pthread_mutex_destroy(&allocator->lock);
	free(allocator);
}

/* --- Looking ---------------------------------------------------------------------------------- */

uint32_t alloc_region_at(const struct allocator *allocator, uint64_t index)
{
	uint32_t usable = 0, count = allocator->region_count;

	for (uint32_t i = 0; i < count; i++)
		usable += alloc_is_usable(allocator, allocator->regions[i]);
	if (usable == 0)
		return 0;
	index %= usable;
	for (uint32_t i = 0; i < count; i++)
		if (alloc_is_usable(allocator, allocator->regions[i]) && index-- == 0)
			return allocator->regions[i]->id;
	return 0;
}

void alloc_usage(const struct allocator *allocator, struct alloc_usage *usage)
{
	uint32_t count = atomic_load_explicit(&allocator->region_count, memory_order_acquire);

	*usage = (struct alloc_usage){0};
	for (uint32_t i = 0; i < count; i++) {
		const struct region *region = allocator->regions[i];
		const struct volume_region *entry = volume_region(allocator->volume, region->id);
		uint64_t pages = alloc_free_pages(region);

		if (entry == NULL || entry->lost)
			continue;
		usage->total += region->pages;
		usage->free += pages;
		if (entry->attached)
			usage->available += pages;
	}
}
