/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions that give pages back: unmapping, trimming, reclaiming. */
#include <errno.h>

#include "engine/base/checked.h"
#include "fs/alloc.h"
#include "fs/extent_change.h"

#define FILE_PAGES (VOLUME_SIZE_MAX / VOLUME_PAGE_BYTES)

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
		/* Cut off, what was reserved behind is gone too. */
		if (change->to == FILE_PAGES)
			change->attr.reserved_end = rmem_min_u64(change->attr.reserved_end,
								 change->from * VOLUME_PAGE_BYTES);
	}
	return change_put(change, txn);
}

int extent_unmap(struct volume *volume, struct inode *inode, uint64_t offset, uint64_t length,
		 const struct inode_attr *attr)
{
	struct change change = {.volume = volume, .inode = inode, .final_attr = attr};
	int result = 0;

	change.from = rmem_round_up(offset, VOLUME_PAGE_BYTES) / VOLUME_PAGE_BYTES;
	change.to = length > VOLUME_SIZE_MAX - offset ? FILE_PAGES
						      : (offset + length) / VOLUME_PAGE_BYTES;
	if (change.from >= change.to) {
		uint64_t pages = inode->attr.pages;

		inode->attr = *attr;
		inode->attr.pages = pages;
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

/* From here on nothing but what growing took ahead. */
static uint64_t kept_end(const struct inode_attr *attr)
{
	return rmem_round_up(rmem_max_u64(attr->size, attr->reserved_end), VOLUME_PAGE_BYTES);
}

/* Of a file that was not trimmed because its mount was killed, the number of pages tells. */
bool extent_wants_trim(const struct inode *inode)
{
	return (inode->map != NULL && inode->map->ahead) ||
	       inode->attr.pages > kept_end(&inode->attr) / VOLUME_PAGE_BYTES;
}

int extent_trim(struct volume *volume, struct inode *inode)
{
	struct inode_attr attr = inode->attr;
	int result;

	if (!extent_wants_trim(inode))
		return 0;
	result = extent_unmap(volume, inode, kept_end(&attr), UINT64_MAX, &attr);
	if (result == 0 && inode->map != NULL)
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
