/* SPDX-License-Identifier: Apache-2.0 */
/* Looking ranges up, and the written state of their pages. What changes extents is in
 * extent_change.c. */
#include "fs/extent.h"

#include <errno.h>
#include <string.h>

#include "engine/base/checked.h"
#include "engine/base/log.h"
#include "fs/dirty.h"
#include "fs/extent_map.h"

#define CHUNK_PAGES RECORD_CHUNK_PAGES

/* The piece of a chunk that begins at `page`, as far as it goes, at most to `to`. In pages. */
static void chunk_piece(const struct chunk *chunk, uint32_t page, uint32_t to,
			struct extent_piece *piece)
{
	uint32_t index = extent_array_find(&chunk->extents, page);
	const struct record_extent *extent =
		index < chunk->extents.count ? &chunk->extents.items[index] : NULL;
	uint64_t base = chunk->index * CHUNK_PAGES;
	uint32_t end = to;

	piece->kind = EXTENT_HOLE;
	piece->region = 0;
	piece->region_offset = 0;
	if (extent != NULL && extent->page > page) {
		end = extent->page < to ? extent->page : to;
	} else if (extent != NULL) {
		bool written = chunk_is_written(chunk, page);

		if (extent->page + extent->pages < end)
			end = extent->page + extent->pages;
		end = chunk_find_change(chunk, page, end, written);
		piece->kind = written ? EXTENT_WRITTEN : EXTENT_UNWRITTEN;
		piece->region = extent->region;
		piece->region_offset =
			(extent->region_page + (page - extent->page)) * VOLUME_PAGE_BYTES;
	}
	piece->offset = (base + page) * VOLUME_PAGE_BYTES;
	piece->length = (uint64_t)(end - page) * VOLUME_PAGE_BYTES;
}

/* Makes `last` longer by `piece` if it goes on where that ends. */
static bool merge(struct extent_piece *last, const struct extent_piece *piece)
{
	if (last->kind != piece->kind)
		return false;
	if (last->kind != EXTENT_HOLE &&
	    (last->region != piece->region ||
	     last->region_offset + last->length != piece->region_offset))
		return false;
	last->length += piece->length;
	return true;
}

static void clip(struct extent_piece *piece, uint64_t begin, uint64_t end)
{
	if (piece->offset < begin) {
		piece->length -= begin - piece->offset;
		if (piece->kind != EXTENT_HOLE)
			piece->region_offset += begin - piece->offset;
		piece->offset = begin;
	}
	if (piece->offset + piece->length > end)
		piece->length = end - piece->offset;
}

int extent_lookup(struct volume *volume, struct inode *inode, uint64_t offset, uint64_t length,
		  struct extent_piece *pieces, unsigned capacity)
{
	uint64_t at = offset, end = offset + length;
	unsigned count = 0;

	while (at < end) {
		uint64_t index = at / VOLUME_CHUNK_BYTES;
		uint64_t chunk_end = (index + 1) * VOLUME_CHUNK_BYTES;
		struct extent_piece piece;
		struct chunk *chunk;
		uint64_t to = rmem_min_u64(end, chunk_end) - index * VOLUME_CHUNK_BYTES;
		int result = chunk_get(volume, inode, index, &chunk);

		if (result != 0)
			return result;
		chunk_piece(chunk, (uint32_t)(at % VOLUME_CHUNK_BYTES / VOLUME_PAGE_BYTES),
			    (uint32_t)((to + VOLUME_PAGE_BYTES - 1) / VOLUME_PAGE_BYTES), &piece);
		clip(&piece, at, end);
		at += piece.length;
		if (count > 0 && merge(&pieces[count - 1], &piece))
			continue;
		if (count == capacity)
			break;
		pieces[count++] = piece;
	}
	return (int)count;
}

/* Calls `change` for the part of each chunk in memory that lies in pages [from, to). */
static void for_chunks(struct inode *inode, uint64_t from, uint64_t to,
		       void (*change)(struct chunk *chunk, uint32_t from, uint32_t to))
{
	while (from < to) {
		uint64_t index = from / CHUNK_PAGES, base = index * CHUNK_PAGES;
		uint64_t end = rmem_min_u64(to, base + CHUNK_PAGES);
		struct chunk *chunk = chunk_peek(inode, index);

		if (chunk != NULL)
			change(chunk, (uint32_t)(from - base), (uint32_t)(end - base));
		from = end;
	}
}

static void set_written(struct chunk *chunk, uint32_t from, uint32_t to)
{
	/* Room was made when the pages were allocated. */
	if (chunk_set_written(chunk, from, to) != 0)
		rmem_log_error(RMEM_LOG_FS, "out of memory: pages that were written read as zeros");
	chunk->dirty = true;
}

static void clear_written(struct chunk *chunk, uint32_t from, uint32_t to)
{
	chunk_clear_written(chunk, from, to);
	chunk->dirty = true;
}

void extent_mark_written(struct volume *volume, struct inode *inode, uint64_t offset,
			 uint64_t length)
{
	(void)volume;
	for_chunks(inode, offset / VOLUME_PAGE_BYTES,
		   rmem_round_up(offset + length, VOLUME_PAGE_BYTES) / VOLUME_PAGE_BYTES,
		   set_written);
}

void extent_mark_unwritten(struct volume *volume, struct inode *inode, uint64_t offset,
			   uint64_t length)
{
	(void)volume;
	for_chunks(inode, rmem_round_up(offset, VOLUME_PAGE_BYTES) / VOLUME_PAGE_BYTES,
		   (offset + length) / VOLUME_PAGE_BYTES, clear_written);
}

int extent_flush(struct volume *volume, struct inode *inode, struct store_txn *txn)
{
	struct chunk *chunk, *next;
	int result = 0;

	(void)volume;
	if (inode->map == NULL)
		return 0;
	HASH_ITER (hh, inode->map->chunks, chunk, next) {
		if (result == 0 && chunk->dirty)
			result = chunk_put(txn, inode, chunk, &chunk->extents);
	}
	return result;
}

void extent_flushed(struct inode *inode)
{
	struct chunk *chunk, *next;

	if (inode->map == NULL)
		return;
	HASH_ITER (hh, inode->map->chunks, chunk, next) {
		chunk->dirty = !chunk_is_whole(inode, chunk);
	}
}

void extent_forget(struct inode *inode)
{
	if (inode->map == NULL || inode->map->ahead || (inode->dirty & INODE_DIRTY_MAP) ||
	    inode->gate.shared > 0 || inode->gate.exclusive || dirty_any(inode->dirty_file))
		return;
	extent_map_destroy(inode->map);
	inode->map = NULL;
}

/* --- Seeking ---------------------------------------------------------------------------------- */

static int first_key(void *user, struct store_slice key, struct store_slice value)
{
	uint64_t ino, *index = user;
	int result = record_parse_pair(key, RECORD_CHUNK, &ino, index);

	(void)value;
	return result != 0 ? result : 1;
}

/* The first chunk from `index` on that has extents: all those have a record. -ENXIO: none. */
static int next_chunk(struct volume *volume, uint64_t ino, uint64_t *index)
{
	struct record_key prefix, after;
	struct store_slice after_slice = {0};
	struct store_txn *txn;
	int result;

	if (*index > 0)
		after_slice = record_key_pair(&after, RECORD_CHUNK, ino, *index - 1);
	result = store_begin(volume->store, STORE_READ, &txn);
	if (result != 0)
		return result;
	result = store_scan(txn, record_key_number(&prefix, RECORD_CHUNK, ino), after_slice,
			    first_key, index);
	store_abort(txn);
	return result == 0 ? -ENXIO : result < 0 ? result : 0;
}

int extent_seek_data(struct volume *volume, struct inode *inode, uint64_t offset, uint64_t *found)
{
	uint64_t index = offset / VOLUME_CHUNK_BYTES;
	uint32_t page = (uint32_t)(offset % VOLUME_CHUNK_BYTES / VOLUME_PAGE_BYTES);

	if (offset >= inode->attr.size)
		return -ENXIO;
	for (;;) {
		uint64_t wanted = index;
		struct chunk *chunk;
		int result = next_chunk(volume, inode->ino, &index);

		if (result != 0)
			return result;
		if (index != wanted)
			page = 0;
		result = chunk_get(volume, inode, index, &chunk);
		if (result != 0)
			return result;
		page = chunk_find_change(chunk, page, CHUNK_PAGES, false);
		if (page < CHUNK_PAGES)
			break;
		index++;
		page = 0;
	}
	*found = rmem_max_u64(offset,
			      index * VOLUME_CHUNK_BYTES + (uint64_t)page * VOLUME_PAGE_BYTES);
	return *found < inode->attr.size ? 0 : -ENXIO;
}

int extent_seek_hole(struct volume *volume, struct inode *inode, uint64_t offset, uint64_t *found)
{
	uint64_t size = inode->attr.size;

	if (offset >= size)
		return -ENXIO;
	while (offset < size) {
		/* A chunk at a time: what lies behind the first hole is not worth a look. */
		uint64_t length = rmem_min_u64(size - offset,
					       VOLUME_CHUNK_BYTES - offset % VOLUME_CHUNK_BYTES);
		struct extent_piece piece;
		int result = extent_lookup(volume, inode, offset, length, &piece, 1);

		if (result < 0)
			return result;
		if (piece.kind != EXTENT_WRITTEN)
			break;
		offset += piece.length;
	}
	*found = offset;
	return 0;
}
