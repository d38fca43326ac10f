/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator.
 *
 * A region is cut into groups of 128 MiB, each with a bitmap and a count of its free pages, so a
 * search skips full groups without looking at them. Searching is next-fit: it goes on where the
 * last one ended, takes the first run that is long enough, and after RUNS_SEEN shorter ones is
 * content with the longest of them. That keeps files contiguous while there is room, and bounds the
 * work when there is not. The memory for it is 4 KiB per 128 MiB of pool.
 *
 * Not chosen: buddy lists or a tree of free runs. They find best fits faster, but the store would
 * have to hold them too, or they would have to be built at every mount. */
#include "fs/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/checked.h"
#include "fs/alloc_parts.h"
#include "fs/bitmap.h"

#define RUNS_SEEN 64

/* --- A change and its end --------------------------------------------------------------------- */

static int remember(struct runs *runs, const struct alloc_run *run)
{
	if (runs->count == runs->capacity) {
		size_t capacity = runs->capacity == 0 ? 64 : 2 * runs->capacity;
		struct alloc_run *items = realloc(runs->items, capacity * sizeof(*items));

		if (items == NULL)
			return -ENOMEM;
		runs->items = items;
		runs->capacity = capacity;
	}
	runs->items[runs->count++] = *run;
	return 0;
}

/* A run never crosses a group: alloc_take() makes none that does, and alloc_give() cuts. */
static struct group *group_of(struct region *region, const struct alloc_run *run, uint32_t *page)
{
	*page = (uint32_t)(run->page % RECORD_GROUP_PAGES);
	return &region->groups[run->page / RECORD_GROUP_PAGES];
}

static void free_runs(struct allocator *allocator, struct runs *runs)
{
	for (size_t i = 0; i < runs->count; i++) {
		const struct alloc_run *run = &runs->items[i];
		struct region *region = alloc_find_region(allocator, run->region);
		uint32_t page, pages;
		struct group *group = group_of(region, run, &page);

		/* In a damaged store two files may have given the same page. */
		pages = bitmap_count(group->words, page, page + run->pages);
		bitmap_clear(group->words, page, page + run->pages);
		alloc_count_free(region, group, pages);
	}
}

static void clear_changed(struct allocator *allocator, const struct runs *runs)
{
	uint32_t page;

	for (size_t i = 0; i < runs->count; i++)
		group_of(alloc_find_region(allocator, runs->items[i].region), &runs->items[i],
			 &page)
			->changed = false;
}

static void transaction_ended(struct store_hook *hook, bool committed)
{
	struct allocator *allocator = RMEM_CONTAINER_OF(hook, struct allocator, hook);

	free_runs(allocator, committed ? &allocator->given : &allocator->taken);
	clear_changed(allocator, &allocator->given);
	clear_changed(allocator, &allocator->taken);
	allocator->given.count = allocator->taken.count = 0;
	allocator->txn = NULL;
	pthread_mutex_unlock(&allocator->lock);
}

void alloc_begin(struct allocator *allocator, struct store_txn *txn)
{
	/* Only the thread that runs `txn` can see it here: it owns the lock in that case. */
	if (store_has_hook(txn, &allocator->hook))
		return;
	pthread_mutex_lock(&allocator->lock);
	allocator->txn = txn;
	allocator->hook.ended = transaction_ended;
	store_at_end(txn, &allocator->hook);
}

/* What the record of a group says after the commit: memory, less what was given back. */
static int put_group(struct allocator *allocator, struct store_txn *txn, struct region *region,
		     uint32_t index)
{
	struct group *group = &region->groups[index];
	uint64_t words[RECORD_GROUP_WORDS];
	struct record_bitmap value;
	struct record_key key;
	int result;

	memcpy(words, group->words, sizeof(words));
	for (size_t i = 0; i < allocator->given.count; i++) {
		const struct alloc_run *run = &allocator->given.items[i];
		uint32_t page = (uint32_t)(run->page % RECORD_GROUP_PAGES);

		if (run->region == region->id && run->page / RECORD_GROUP_PAGES == index)
			bitmap_clear(words, page, page + run->pages);
	}
	group->changed = false;
	record_key_pair(&key, RECORD_BITMAP, region->id, index);
	if (bitmap_find_set(words, 0, RECORD_GROUP_PAGES) < RECORD_GROUP_PAGES)
		return store_put(txn, record_key_pair(&key, RECORD_BITMAP, region->id, index),
				 record_encode_bitmap(&value, words));
	result = store_delete(txn, record_key_pair(&key, RECORD_BITMAP, region->id, index));
	return result == -ENOENT ? 0 : result;
}

static int put_groups(struct allocator *allocator, struct store_txn *txn, const struct runs *runs)
{
	for (size_t i = 0; i < runs->count; i++) {
		const struct alloc_run *run = &runs->items[i];
		struct region *region = alloc_find_region(allocator, run->region);
		uint32_t index = (uint32_t)(run->page / RECORD_GROUP_PAGES);

		if (region->groups[index].changed) {
			int result = put_group(allocator, txn, region, index);

			if (result != 0)
				return result;
		}
	}
	return 0;
}

int alloc_store(struct allocator *allocator, struct store_txn *txn)
{
	int result = put_groups(allocator, txn, &allocator->taken);

	return result != 0 ? result : put_groups(allocator, txn, &allocator->given);
}

/* --- Giving back ------------------------------------------------------------------------------ */

static int give_in_group(struct allocator *allocator, struct region *region,
			 const struct alloc_run *run)
{
	uint32_t page;
	struct group *group = group_of(region, run, &page);

	if (group->damaged)
		return 0;
	if (group->words == NULL ||
	    bitmap_count(group->words, page, page + run->pages) != run->pages)
		return -EIO;
	group->changed = true;
	return remember(&allocator->given, run);
}

int alloc_give(struct allocator *allocator, const struct alloc_run *run)
{
	const struct volume_region *entry = volume_region(allocator->volume, run->region);
	struct alloc_run rest = *run;
	struct region *region;
	int result;

	if (entry == NULL || entry->lost)
		return 0;
	result = alloc_load_region(allocator, allocator->txn, run->region,
				   entry->length / VOLUME_PAGE_BYTES, &region);
	if (result != 0)
		return result;
	if (!rmem_range_ok(run->page, run->pages, region->pages))
		return -EIO;
	while (rest.pages > 0) {
		struct alloc_run part = rest;

		part.pages = (uint32_t)rmem_min_u64(
			rest.pages, RECORD_GROUP_PAGES - rest.page % RECORD_GROUP_PAGES);
		result = give_in_group(allocator, region, &part);
		if (result != 0)
			return result;
		rest.page += part.pages;
		rest.pages -= part.pages;
	}
	return 0;
}

/* --- Taking ----------------------------------------------------------------------------------- */

static int take(struct allocator *allocator, struct region *region, struct alloc_run *run)
{
	uint32_t page;
	struct group *group = group_of(region, run, &page);
	int result = alloc_group_words(group);

	if (result == 0)
		result = remember(&allocator->taken, run);
	if (result != 0)
		return result;
	bitmap_set(group->words, page, page + run->pages);
	group->changed = true;
	alloc_count_free(region, group, -(int64_t)run->pages);
	region->cursor_group = (uint32_t)(run->page / RECORD_GROUP_PAGES);
	region->cursor_page = page + run->pages;
	return 0;
}

/* The free run that begins at page `from` of a group, at most `wanted` long; 0: taken. */
static uint32_t free_run_at(const struct group *group, uint32_t from, uint32_t wanted)
{
	uint32_t to = (uint32_t)rmem_min_u64((uint64_t)from + wanted, group->pages);

	if (from >= group->pages || group->damaged)
		return 0;
	if (group->words == NULL)
		return to - from;
	return bitmap_find_set(group->words, from, to) - from;
}

struct search {
	uint32_t wanted;
	unsigned seen;
	uint32_t best_group, best_page, best_pages;
};

/* True: enough was found, or looked at. */
static bool search_group(const struct region *region, uint32_t index, uint32_t from, uint32_t to,
			 struct search *search)
{
	const struct group *group = &region->groups[index];

	while (from < to) {
		uint32_t page =
			group->words == NULL ? from : bitmap_find_clear(group->words, from, to);
		uint32_t pages = page >= to ? 0 : free_run_at(group, page, search->wanted);

		if (pages == 0)
			return false;
		if (pages > search->best_pages) {
			search->best_group = index;
			search->best_page = page;
			search->best_pages = pages;
		}
		if (pages == search->wanted || ++search->seen == RUNS_SEEN)
			return true;
		from = page + pages;
	}
	return false;
}

static void search_region(const struct region *region, struct search *search)
{
	uint32_t index = region->cursor_group;
	uint32_t start = region->cursor_page;

	/* From the cursor around to it; the first group is visited in two parts. */
	for (uint32_t i = 0; i <= region->group_count; i++) {
		const struct group *group = &region->groups[index];
		uint32_t from = i == 0 ? start : 0;
		uint32_t to = i == region->group_count ? (uint32_t)rmem_min_u64(start, group->pages)
						       : group->pages;

		if (group->free > 0 && search_group(region, index, from, to, search))
			return;
		index = index + 1 == region->group_count ? 0 : index + 1;
	}
}

static int take_anywhere(struct allocator *allocator, struct region *region, uint32_t wanted,
			 struct alloc_run *run)
{
	struct search search = {.wanted = wanted};

	if (alloc_free_pages(region) == 0)
		return -ENOSPC;
	search_region(region, &search);
	if (search.best_pages == 0)
		return -ENOSPC;
	*run = (struct alloc_run){
		.region = region->id,
		.pages = search.best_pages,
		.page = (uint64_t)search.best_group * RECORD_GROUP_PAGES + search.best_page,
	};
	return take(allocator, region, run);
}

static int take_behind(struct allocator *allocator, struct region *region,
		       const struct alloc_run *hint, struct alloc_run *run)
{
	const struct group *group;
	uint32_t page;

	if (hint->page >= region->pages)
		return -ENOSPC;
	group = group_of(region, hint, &page);
	*run = *hint;
	run->pages = free_run_at(group, page, hint->pages);
	return run->pages == 0 ? -ENOSPC : take(allocator, region, run);
}

int alloc_take(struct allocator *allocator, const struct alloc_run *hint, struct alloc_run *run)
{
	struct region *preferred = alloc_find_region(allocator, hint->region), *roomiest = NULL;
	int result = -ENOSPC;

	if (preferred != NULL && alloc_is_usable(allocator, preferred)) {
		if (hint->page != ALLOC_ANYWHERE)
			result = take_behind(allocator, preferred, hint, run);
		if (result == -ENOSPC)
			result = take_anywhere(allocator, preferred, hint->pages, run);
		if (result != -ENOSPC)
			return result;
	}
	for (uint32_t i = 0; i < allocator->region_count; i++) {
		struct region *region = allocator->regions[i];

		if (alloc_is_usable(allocator, region) &&
		    (roomiest == NULL || alloc_free_pages(region) > alloc_free_pages(roomiest)))
			roomiest = region;
	}
	if (roomiest == NULL)
		return allocator->region_count > 0 ? -ENOTCONN : -ENOSPC;
	return take_anywhere(allocator, roomiest, hint->pages, run);
}
