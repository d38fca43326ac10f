/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions on extents: allocating, unmapping, reclaiming.
 *
 * Each works on a few chunks at a time. In the transaction a new array of extents is built for each
 * of them (from scratch in every attempt), the runs are taken from or given to the allocator, and
 * chunks, bitmaps and the inode's record are put together. Memory follows after the commit; after
 * an error it is as it was.
 *
 * Costs: a chunk's record is written whole, 16 bytes an extent. Random writes into a hole of a
 * large file would make up to 16,384 of them, so once there are many they take CLUSTER_PAGES at a time. */
#include <errno.h>
#include <stdlib.h>

#include "engine/base/checked.h"
#include "fs/alloc.h"
#include "fs/extent_map.h"

#define CHUNK_PAGES    RECORD_CHUNK_PAGES
#define CHUNKS_PER_TXN 16u
#define CLUSTER_PAGES  16u   /* 64 KiB */
#define CLUSTER_EXTENTS 256u /* chunks with fewer extents take single pages */
#define AHEAD_FILE     16u   /* pages that a file has before it is given more than it needs */
#define AHEAD_OF_FREE  32u   /* at most this part of what is free */

struct change {
	struct volume *volume;
	struct inode *inode;
	uint64_t from, to;		     /* pages of the file */
	uint64_t cursor;		     /* unmap: first page that is not done yet, */
	uint64_t next;			     /* and after this step */
	struct inode_attr attr;		     /* as it will be */
	const struct inode_attr *final_attr; /* unmap: what the inode becomes with the last step */
	bool more;
	unsigned count;
	struct chunk *chunks[CHUNKS_PER_TXN];
	struct extent_array extents[CHUNKS_PER_TXN]; /* of the chunks, as they will be */
};

static void change_reset(struct change *change)
{
	for (unsigned i = 0; i < change->count; i++)
		extent_array_finish(&change->extents[i]);
	change->count = 0;
	change->attr = change->inode->attr;
	change->more = false;
}

static void change_follow(struct change *change)
{
	for (unsigned i = 0; i < change->count; i++) {
		chunk_replace(change->chunks[i], &change->extents[i]);
		/* The record was put with the written state as it is in memory. */
		change->chunks[i]->dirty = false;
	}
	change->count = 0;
	change->inode->attr = change->attr;
}

static int put_all(struct change *change, struct store_txn *txn)
{
	int result = alloc_store(change->volume->allocator, txn);

	for (unsigned i = 0; result == 0 && i < change->count; i++)
		result = chunk_put(txn, change->inode->ino, change->chunks[i], &change->extents[i]);
	if (result == 0)
		result = inode_put_record(txn, change->inode, &change->attr);
	return result;
}

/* --- Allocating ------------------------------------------------------------------------------- */

/* Where the pages from `page` of the file on should come from, and how many may come from there. */
static void choose(const struct change *change, uint64_t page, uint64_t pages,
		   const struct extent_array *extents, struct alloc_run *hint)
{
	const struct volume *volume = change->volume;
	uint64_t stripe_pages = volume->stripe_bytes / VOLUME_PAGE_BYTES;
	uint64_t stripe = page / stripe_pages;
	uint32_t in_chunk = (uint32_t)(page % CHUNK_PAGES);
	uint32_t first = alloc_region_at(volume->allocator, 0);

	hint->region = alloc_region_at(volume->allocator, stripe + change->inode->ino);
	hint->page = ALLOC_ANYWHERE;
	if (hint->region != first || alloc_region_at(volume->allocator, 1) != first)
		pages = rmem_min_u64(pages, (stripe + 1) * stripe_pages - page);
	hint->pages = (uint32_t)pages;
	if (extents->count > 0) {
		const struct record_extent *last = &extents->items[extents->count - 1];

		if (last->page + last->pages == in_chunk && last->region == hint->region)
			hint->page = last->region_page + last->pages;
	}
}

/* Fills the hole of a chunk at [from, to), in pages of the chunk, and appends to `extents`. */
static int fill_hole(struct change *change, const struct chunk *chunk, uint32_t from, uint32_t to,
		     struct extent_array *extents)
{
	while (from < to) {
		struct record_extent extent;
		struct alloc_run hint, run;
		int result;

		choose(change, chunk->index * CHUNK_PAGES + from, to - from, extents, &hint);
		result = alloc_take(change->volume->allocator, &hint, &run);
		if (result != 0)
			return result;
		extent = (struct record_extent){
			.page = from,
			.pages = run.pages,
			.region = run.region,
			.region_page = run.page,
		};
		result = extent_array_append(extents, &extent);
		if (result != 0)
			return result;
		from += run.pages;
		change->attr.pages += run.pages;
	}
	return 0;
}

/* The chunk's extents with all holes of [from, to) filled. */
static int fill_chunk(struct change *change, const struct chunk *chunk, uint32_t from, uint32_t to,
		      struct extent_array *extents)
{
	uint32_t at = from;
	int result = 0;

	for (uint32_t i = 0; result == 0 && i < chunk->extents.count; i++) {
		const struct record_extent *extent = &chunk->extents.items[i];
		uint32_t hole_end = extent->page < to ? extent->page : to;

		if (at < hole_end)
			result = fill_hole(change, chunk, at, hole_end, extents);
		if (extent->page + extent->pages > at)
			at = extent->page + extent->pages;
		if (result == 0)
			result = extent_array_append(extents, extent);
	}
	if (result == 0 && at < to)
		result = fill_hole(change, chunk, at, to, extents);
	return result;
}

static int allocate_in(struct store_txn *txn, void *user)
{
	struct change *change = user;
	uint64_t page = change->from;
	int result = 0;

	change_reset(change);
	alloc_begin(change->volume->allocator, txn);
	while (result == 0 && page < change->to) {
		uint64_t index = page / CHUNK_PAGES, base = index * CHUNK_PAGES;
		uint32_t to = (uint32_t)(rmem_min_u64(change->to, base + CHUNK_PAGES) - base);
		struct chunk **chunk = &change->chunks[change->count];

		result = chunk_get_in(txn, change->inode, index, chunk);
		if (result == 0)
			result = chunk_reserve_written(*chunk, to);
		if (result == 0)
			result = fill_chunk(change, *chunk, (uint32_t)(page - base), to,
					    &change->extents[change->count++]);
		page = base + to;
	}
	return result != 0 ? result : put_all(change, txn);
}

/* [from, to) lies within CHUNKS_PER_TXN chunks. */
static int allocate_range(struct volume *volume, struct inode *inode, uint64_t from, uint64_t to)
{
	struct change change = {.volume = volume, .inode = inode, .from = from, .to = to};
	int result = store_update(volume->store, allocate_in, &change);

	if (result == 0)
		change_follow(&change);
	else
		change_reset(&change);
	return result;
}

/* The first hole in pages [from, to); `to` if there is none. */
static int find_hole(struct volume *volume, struct inode *inode, uint64_t from, uint64_t to,
		     uint64_t *hole)
{
	while (from < to) {
		uint64_t index = from / CHUNK_PAGES, base = index * CHUNK_PAGES;
		uint32_t page = (uint32_t)(from - base), i;
		struct chunk *chunk;
		int result = chunk_get(volume, inode, index, &chunk);

		if (result != 0)
			return result;
		i = extent_array_find(&chunk->extents, page);
		for (; i < chunk->extents.count && chunk->extents.items[i].page <= page; i++)
			page = chunk->extents.items[i].page + chunk->extents.items[i].pages;
		from = base + page;
		if (page < CHUNK_PAGES)
			break;
	}
	*hole = from < to ? from : to;
	return 0;
}

/* How far beyond `to` a growing file takes pages: half of what it has, within the chunk. */
static uint64_t ahead(const struct volume *volume, const struct inode *inode, uint64_t to)
{
	uint64_t total, free, extra = inode->attr.pages / 2;
	uint64_t chunk_end = rmem_round_up(to, CHUNK_PAGES);

	if (inode->attr.pages < AHEAD_FILE)
		return to;
	alloc_usage(volume->allocator, &total, &free);
	extra = rmem_min_u64(extra, free / AHEAD_OF_FREE);
	return rmem_min_u64(to + extra, chunk_end);
}

static bool is_fragmented(const struct inode *inode, uint64_t page)
{
	const struct chunk *chunk = chunk_peek(inode, page / CHUNK_PAGES);

	return chunk != NULL && chunk->extents.count >= CLUSTER_EXTENTS;
}

static int allocate_growing(struct volume *volume, struct inode *inode, uint64_t from, uint64_t to)
{
	uint64_t size_pages =
		rmem_round_up(inode->attr.size, VOLUME_PAGE_BYTES) / VOLUME_PAGE_BYTES;
	uint64_t more_from = from, more_to = to;
	int result;

	if (to >= size_pages) {
		more_to = ahead(volume, inode, to);
	} else if (is_fragmented(inode, from)) {
		more_from = rmem_round_down(from, CLUSTER_PAGES);
		more_to = rmem_min_u64(rmem_round_up(to, CLUSTER_PAGES), size_pages);
	}
	if (more_from == from && more_to == to)
		return allocate_range(volume, inode, from, to);
	result = allocate_range(volume, inode, more_from, more_to);
	if (result == -ENOSPC)
		return allocate_range(volume, inode, from, to);
	if (result == 0 && to >= size_pages)
		inode->map->ahead = true;
	return result;
}

/* Room that could be used better when an allocation fails: what this file took ahead. */
static int give_up_ahead(struct volume *volume, struct inode *inode)
{
	if (!extent_wants_trim(inode))
		return -ENOSPC;
	return extent_trim(volume, inode);
}

static int allocate_exactly(struct volume *volume, struct inode *inode, uint64_t from, uint64_t to)
{
	uint64_t total, free, step = (uint64_t)(CHUNKS_PER_TXN - 1) * CHUNK_PAGES;

	alloc_usage(volume->allocator, &total, &free);
	if (to - from > free + inode->attr.pages)
		return -ENOSPC; /* known before anything is taken */
	while (from < to) {
		uint64_t end = rmem_min_u64(to, from + step);
		int result = allocate_range(volume, inode, from, end);

		if (result != 0)
			return result;
		from = end;
	}
	return 0;
}

int extent_allocate(struct volume *volume, struct inode *inode, uint64_t offset, uint64_t length,
		    enum extent_reserve reserve)
{
	uint64_t from = offset / VOLUME_PAGE_BYTES;
	uint64_t to = rmem_round_up(offset + length, VOLUME_PAGE_BYTES) / VOLUME_PAGE_BYTES;
	uint64_t hole;
	int result;

	if (reserve == EXTENT_EXACT) {
		result = allocate_exactly(volume, inode, from, to);
		if (result == 0 && offset + length > inode->attr.reserved_end) {
			inode->attr.reserved_end = offset + length;
			inode_mark_dirty(volume, inode, INODE_DIRTY_ATTR);
		}
		return result;
	}
	result = find_hole(volume, inode, from, to, &hole);
	if (RMEM_LIKELY(result != 0 || hole == to))
		return result;
	result = allocate_growing(volume, inode, hole, to);
	if (result == -ENOSPC && give_up_ahead(volume, inode) == 0)
		result = allocate_range(volume, inode, hole, to);
	return result;
}

/* --- Giving back ------------------------------------------------------------------------------ */

static int give_part(struct change *change, const struct record_extent *extent, uint32_t from,
		     uint32_t to)
{
	struct alloc_run run = {
		.region = extent->region,
		.pages = to - from,
		.page = extent->region_page + (from - extent->page),
	};

	change->attr.pages -= run.pages;
	return alloc_give(change->volume->allocator, &run);
}

static int keep_part(struct extent_array *extents, const struct record_extent *extent,
		     uint32_t from, uint32_t to)
{
	struct record_extent part = {
		.page = from,
		.pages = to - from,
		.region = extent->region,
		.region_page = extent->region_page + (from - extent->page),
	};

	return from < to ? extent_array_append(extents, &part) : 0;
}

/* The chunk's extents without what lies in [from, to). */
static int cut_chunk(struct change *change, const struct chunk *chunk, uint32_t from, uint32_t to,
		     struct extent_array *extents)
{
	int result = 0;

	for (uint32_t i = 0; result == 0 && i < chunk->extents.count; i++) {
		const struct record_extent *extent = &chunk->extents.items[i];
		uint32_t end = extent->page + extent->pages;
		uint32_t cut_from = extent->page > from ? extent->page : from;
		uint32_t cut_to = end < to ? end : to;

		if (cut_from >= cut_to) {
			result = extent_array_append(extents, extent);
			continue;
		}
		result = keep_part(extents, extent, extent->page, cut_from);
		if (result == 0)
			result = give_part(change, extent, cut_from, cut_to);
		if (result == 0)
			result = keep_part(extents, extent, cut_to, end);
	}
	return result;
}

struct chunk_list {
	uint64_t indexes[CHUNKS_PER_TXN];
	uint64_t last; /* the last one that is wanted */
	unsigned count;
	bool more;
};

static int list_chunk(void *user, struct store_slice key, struct store_slice value)
{
	struct chunk_list *list = user;
	uint64_t ino, index;
	int result = record_parse_pair(key, RECORD_CHUNK, &ino, &index);

	(void)value;
	if (result != 0)
		return result;
	if (index > list->last)
		return 1;
	if (list->count == CHUNKS_PER_TXN) {
		list->more = true;
		return 1;
	}
	list->indexes[list->count++] = index;
	return 0;
}

/* Chunks with extents from `first` to list->last: all those have a record. */
static int list_chunks(struct store_txn *txn, uint64_t ino, uint64_t first, struct chunk_list *list)
{
	struct record_key prefix, after;
	struct store_slice after_slice = {0};
	int result;

	list->count = 0;
	list->more = false;
	if (first > 0)
		after_slice = record_key_pair(&after, RECORD_CHUNK, ino, first - 1);
	result = store_scan(txn, record_key_number(&prefix, RECORD_CHUNK, ino), after_slice,
			    list_chunk, list);
	return result < 0 ? result : 0;
}

static int cut_listed(struct change *change, struct store_txn *txn, uint64_t index)
{
	uint64_t base = index * CHUNK_PAGES;
	uint64_t from = rmem_max_u64(change->from, base);
	uint64_t to = rmem_min_u64(change->to, base + CHUNK_PAGES);
	struct chunk **chunk = &change->chunks[change->count];
	int result = chunk_get_in(txn, change->inode, index, chunk);

	if (result != 0)
		return result;
	return cut_chunk(change, *chunk, (uint32_t)(from - base), (uint32_t)(to - base),
			 &change->extents[change->count++]);
}

static int unmap_in(struct store_txn *txn, void *user)
{
	struct change *change = user;
	struct chunk_list list = {.last = (change->to - 1) / CHUNK_PAGES};
	uint64_t pages;
	int result;

	change_reset(change);
	result = list_chunks(txn, change->inode->ino, change->cursor / CHUNK_PAGES, &list);
	alloc_begin(change->volume->allocator, txn);
	for (unsigned i = 0; result == 0 && i < list.count; i++)
		result = cut_listed(change, txn, list.indexes[i]);
	if (result != 0)
		return result;
	change->more = list.more;
	if (list.more) {
		change->next = (list.indexes[list.count - 1] + 1) * CHUNK_PAGES;
	} else {
		pages = change->attr.pages;
		change->attr = *change->final_attr;
		change->attr.pages = pages;
	}
	return put_all(change, txn);
}

int extent_unmap(struct volume *volume, struct inode *inode, uint64_t offset, uint64_t length,
		 const struct inode_attr *attr)
{
	struct change change = {.volume = volume, .inode = inode, .final_attr = attr};
	int result = 0;

	change.from = rmem_round_up(offset, VOLUME_PAGE_BYTES) / VOLUME_PAGE_BYTES;
	change.to = length > VOLUME_SIZE_MAX - offset ? VOLUME_SIZE_MAX / VOLUME_PAGE_BYTES
						      : (offset + length) / VOLUME_PAGE_BYTES;
	if (change.from >= change.to) {
		inode->attr = *attr;
		inode_mark_dirty(volume, inode, INODE_DIRTY_ATTR);
		return 0;
	}
	change.cursor = change.from;
	do {
		result = store_shrink(volume->store, unmap_in, &change);
		if (result == 0) {
			change_follow(&change);
			change.cursor = change.next;
		}
	} while (result == 0 && change.more);
	change_reset(&change);
	return result;
}

bool extent_wants_trim(const struct inode *inode)
{
	return inode->map != NULL && inode->map->ahead;
}

int extent_trim(struct volume *volume, struct inode *inode)
{
	struct inode_attr attr = inode->attr;
	int result;

	if (!extent_wants_trim(inode))
		return 0;
	result = extent_unmap(volume, inode, rmem_max_u64(attr.size, attr.reserved_end), UINT64_MAX,
			      &attr);
	if (result == 0)
		inode->map->ahead = false;
	return result;
}

/* --- Reclaiming ------------------------------------------------------------------------------- */

static int reclaim_chunk(struct volume *volume, struct store_txn *txn, uint64_t ino, uint64_t index)
{
	struct record_chunk_view view;
	struct record_extent extent;
	struct store_slice value;
	struct record_key key;
	int result = store_get(txn, record_key_pair(&key, RECORD_CHUNK, ino, index), &value);

	if (result == 0)
		result = record_decode_chunk(value, &view);
	for (uint32_t i = 0; result == 0 && i < view.extent_count; i++) {
		struct alloc_run run;

		record_chunk_extent_at(&view, i, &extent);
		run = (struct alloc_run){
			.region = extent.region,
			.pages = extent.pages,
			.page = extent.region_page,
		};
		result = alloc_give(volume->allocator, &run);
	}
	if (result == 0)
		result = store_delete(txn, record_key_pair(&key, RECORD_CHUNK, ino, index));
	return result;
}

int extent_reclaim(struct volume *volume, uint64_t ino, struct store_txn *txn)
{
	struct chunk_list list = {.last = UINT64_MAX};
	int result = list_chunks(txn, ino, 0, &list);

	if (result != 0 || list.count == 0)
		return result;
	alloc_begin(volume->allocator, txn);
	for (unsigned i = 0; result == 0 && i < list.count; i++)
		result = reclaim_chunk(volume, txn, ino, list.indexes[i]);
	if (result == 0)
		result = alloc_store(volume->allocator, txn);
	return result != 0 ? result : list.more;
}
