/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions on extents: what they have in common, and allocating. Giving back is in
 * extent_release.c.
 *
 * Each works on a few chunks at a time. In the transaction a new array of extents is built for each
 * of them (from scratch in every attempt), the runs are taken from or given to the allocator, and
 * chunks, bitmaps and the inode's record are put together. Memory follows after the commit; after
 * an error it is as it was.
 *
 * Costs: a chunk's record is written whole, 16 bytes an extent. Random writes into a hole would
 * make up to 16,384 of them, so once a chunk has CLUSTER_EXTENTS they take CLUSTER_PAGES at a time:
 * that is the most a sparse file takes too much, and at most some 1,500 extents. */
#include "fs/extent_change.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/base/checked.h"
#include "fs/alloc.h"

#define CLUSTER_PAGES	16u  /* 64 KiB */
#define CLUSTER_EXTENTS 256u /* that a chunk has before holes in it are filled in clusters */
#define AHEAD_FILE	16u  /* pages that a file has before it is given more than it needs */
#define AHEAD_OF_FREE	32u  /* at most this part of what is free */

void change_reset(struct change *change)
{
	for (unsigned i = 0; i < change->count; i++)
		extent_array_finish(&change->extents[i]);
	change->count = 0;
	change->attr = change->inode->attr;
	change->more = false;
}

void change_follow(struct change *change)
{
	for (unsigned i = 0; i < change->count; i++) {
		chunk_replace(change->chunks[i], &change->extents[i]);
		/* The record was put with the written state as it is in memory, or what of it may
		 * be in the store. */
		change->chunks[i]->dirty = !chunk_is_whole(change->inode, change->chunks[i]);
	}
	change->count = 0;
	change->inode->attr = change->attr;
}

int change_put(struct change *change, struct store_txn *txn)
{
	int result = alloc_store(change->volume->allocator, txn);

	for (unsigned i = 0; result == 0 && i < change->count; i++)
		result = chunk_put(txn, change->inode, change->chunks[i], &change->extents[i]);
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
	return result != 0 ? result : change_put(change, txn);
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
	struct alloc_usage usage;
	uint64_t extra = inode->attr.pages / 2;
	uint64_t chunk_end = rmem_round_up(to, CHUNK_PAGES);

	if (inode->attr.pages < AHEAD_FILE)
		return to;
	alloc_usage(volume->allocator, &usage);
	extra = rmem_min_u64(extra, usage.available / AHEAD_OF_FREE);
	return rmem_min_u64(to + extra, chunk_end);
}

/* Whether the chunk that holds `page` is in many pieces already. */
static bool is_scattered(const struct inode *inode, uint64_t page)
{
	const struct chunk *chunk = chunk_peek(inode, page / CHUNK_PAGES);

	return chunk != NULL && chunk->extents.count >= CLUSTER_EXTENTS;
}

static uint64_t size_in_pages(const struct inode *inode)
{
	return rmem_round_up(inode->attr.size, VOLUME_PAGE_BYTES) / VOLUME_PAGE_BYTES;
}

/* Whether an operation that begins at page `begin` leaves a hole behind it. What is taken ahead of
 * a file that grows in leaps lies between its pages in the end, where no trimming finds it: 4 KiB
 * of data a MiB would take all of the MiB. When several operations are under way, the one that
 * fills the gap may just be late. */
static bool leaps(const struct inode *inode, uint64_t begin)
{
	return begin > size_in_pages(inode) && inode->gate.shared <= 1;
}

/* Pages [from, to), of an operation that begins at page `begin`. */
static int allocate_growing(struct volume *volume, struct inode *inode, uint64_t begin,
			    uint64_t from, uint64_t to)
{
	uint64_t size_pages = size_in_pages(inode);
	uint64_t more_from = from, more_to = to;
	int result;

	if (to >= size_pages && leaps(inode, begin)) {
		more_to = to;
	} else if (to >= size_pages) {
		more_to = ahead(volume, inode, to);
	} else if (is_scattered(inode, from)) {
		more_from = rmem_round_down(from, CLUSTER_PAGES);
		more_to = rmem_min_u64(rmem_round_up(to, CLUSTER_PAGES), size_pages);
	}
	if (more_from == from && more_to == to)
		return allocate_range(volume, inode, from, to);
	result = allocate_range(volume, inode, more_from, more_to);
	if (result == -ENOSPC)
		return allocate_range(volume, inode, from, to);
	if (result == 0 && more_to > to && to >= size_pages)
		inode->map->ahead = true;
	return result;
}

/* Room that could be used better when an allocation fails: what this file took ahead. Other
 * operations at the gate may have bytes on their way to pages beyond the end, so only when there
 * are none. */
static int give_up_ahead(struct volume *volume, struct inode *inode)
{
	if (!extent_wants_trim(inode) || inode->gate.shared > 1)
		return -ENOSPC;
	return extent_trim(volume, inode);
}

/* How many pages of [from, to) are holes. */
static int count_holes(struct volume *volume, struct inode *inode, uint64_t from, uint64_t to,
		       uint64_t *holes)
{
	*holes = 0;
	while (from < to) {
		uint64_t base = rmem_round_down(from, CHUNK_PAGES);
		uint32_t at = (uint32_t)(from - base);
		uint32_t end = (uint32_t)(rmem_min_u64(to, base + CHUNK_PAGES) - base);
		struct chunk *chunk;
		int result = chunk_get(volume, inode, base / CHUNK_PAGES, &chunk);

		if (result != 0)
			return result;
		*holes += end - at - extent_array_count(&chunk->extents, at, end);
		from = base + end;
	}
	return 0;
}

static int allocate_exactly(struct volume *volume, struct inode *inode, uint64_t from, uint64_t to)
{
	struct alloc_usage usage;
	uint64_t holes, step = (uint64_t)(CHUNKS_PER_TXN - 1) * CHUNK_PAGES;
	int result;

	/* Known before anything is taken, and before thousands of chunks are looked at. */
	alloc_usage(volume->allocator, &usage);
	if (to - from > usage.available + inode->attr.pages)
		return -ENOSPC;
	result = count_holes(volume, inode, from, to, &holes);
	if (result != 0)
		return result;
	if (holes > usage.available)
		return -ENOSPC;
	while (from < to) {
		uint64_t end = rmem_min_u64(to, from + step);

		result = allocate_range(volume, inode, from, end);
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
	result = allocate_growing(volume, inode, from, hole, to);
	/* What was taken ahead may have been pages of the range itself. */
	if (result == -ENOSPC && give_up_ahead(volume, inode) == 0)
		result = allocate_range(volume, inode, from, to);
	return result;
}
