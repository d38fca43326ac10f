/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/extent_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/checked.h"
#include "fs/bitmap.h"
#include "fs/dirty.h"

/* --- Extent arrays ---------------------------------------------------------------------------- */

void extent_array_finish(struct extent_array *extents)
{
	free(extents->items);
	*extents = (struct extent_array){0};
}

uint32_t extent_array_find(const struct extent_array *extents, uint32_t page)
{
	uint32_t low = 0, high = extents->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (extents->items[middle].page + extents->items[middle].pages > page)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

uint32_t extent_array_count(const struct extent_array *extents, uint32_t from, uint32_t to)
{
	uint32_t pages = 0;

	for (uint32_t i = extent_array_find(extents, from);
	     i < extents->count && extents->items[i].page < to; i++) {
		const struct record_extent *extent = &extents->items[i];
		uint32_t begin = extent->page > from ? extent->page : from;
		uint32_t end = extent->page + extent->pages;

		pages += (end < to ? end : to) - begin;
	}
	return pages;
}

static bool continues(const struct record_extent *before, const struct record_extent *extent)
{
	return before->page + before->pages == extent->page && before->region == extent->region &&
	       before->region_page + before->pages == extent->region_page;
}

int extent_array_append(struct extent_array *extents, const struct record_extent *extent)
{
	if (extents->count > 0 && continues(&extents->items[extents->count - 1], extent)) {
		extents->items[extents->count - 1].pages += extent->pages;
		return 0;
	}
	if (extents->count == extents->capacity) {
		uint32_t capacity = extents->capacity == 0 ? 4 : 2 * extents->capacity;
		struct record_extent *items = realloc(extents->items, capacity * sizeof(*items));

		if (items == NULL)
			return -ENOMEM;
		extents->items = items;
		extents->capacity = capacity;
	}
	extents->items[extents->count++] = *extent;
	return 0;
}

/* --- Written state ---------------------------------------------------------------------------- */

static uint32_t written_pages(const struct chunk *chunk)
{
	return chunk->written_words * 64;
}

bool chunk_is_written(const struct chunk *chunk, uint32_t page)
{
	return page < written_pages(chunk) && bitmap_test(chunk->written, page);
}

uint32_t chunk_find_change(const struct chunk *chunk, uint32_t from, uint32_t to, bool state)
{
	uint32_t end = written_pages(chunk), found;

	if (from >= end)
		return state ? from : to;
	if (to < end)
		end = to;
	found = state ? bitmap_find_clear(chunk->written, from, end)
		      : bitmap_find_set(chunk->written, from, end);
	return found == end && !state ? to : found;
}

static int reserve_words(struct chunk *chunk, uint32_t words)
{
	uint32_t capacity = chunk->written_words == 0 ? 1 : chunk->written_words;
	uint64_t *written;

	if (words <= chunk->written_words)
		return 0;
	while (capacity < words)
		capacity *= 2;
	written = realloc(chunk->written, capacity * sizeof(*written));
	if (written == NULL)
		return -ENOMEM;
	memset(written + chunk->written_words, 0,
	       (capacity - chunk->written_words) * sizeof(*written));
	chunk->written = written;
	chunk->written_words = capacity;
	return 0;
}

int chunk_reserve_written(struct chunk *chunk, uint32_t to)
{
	return reserve_words(chunk, (to + 63) / 64);
}

int chunk_set_written(struct chunk *chunk, uint32_t from, uint32_t to)
{
	int result = reserve_words(chunk, (to + 63) / 64);

	if (result == 0)
		bitmap_set(chunk->written, from, to);
	return result;
}

void chunk_clear_written(struct chunk *chunk, uint32_t from, uint32_t to)
{
	to = to < written_pages(chunk) ? to : written_pages(chunk);
	if (from < to)
		bitmap_clear(chunk->written, from, to);
}

/* --- Chunks ----------------------------------------------------------------------------------- */

static void chunk_destroy(struct chunk *chunk)
{
	extent_array_finish(&chunk->extents);
	free(chunk->written);
	free(chunk);
}

void extent_map_destroy(struct extent_map *map)
{
	struct chunk *chunk, *next;

	if (map == NULL)
		return;
	HASH_ITER (hh, map->chunks, chunk, next) {
		HASH_DEL(map->chunks, chunk);
		chunk_destroy(chunk);
	}
	free(map);
}

static int decode(struct chunk *chunk, struct store_slice value)
{
	struct record_chunk_view view;
	struct record_extent extent = {0};
	int result = record_decode_chunk(value, &view);

	for (uint32_t i = 0; result == 0 && i < view.extent_count; i++) {
		record_chunk_extent_at(&view, i, &extent);
		result = extent_array_append(&chunk->extents, &extent);
		if (result == 0 && view.all_written)
			result = chunk_set_written(chunk, extent.page, extent.page + extent.pages);
	}
	/* For what is written later: chunk_set_written() must not fail then. */
	if (result == 0)
		result = chunk_reserve_written(chunk, extent.page + extent.pages);
	if (result == 0 && !view.all_written)
		for (uint32_t word = 0; word < chunk->written_words; word++)
			chunk->written[word] = record_chunk_written_word(&view, word);
	return result;
}

static int chunk_load(struct store_txn *txn, struct inode *inode, uint64_t index,
		      struct chunk **result)
{
	struct chunk *chunk = calloc(1, sizeof(*chunk));
	struct store_slice value;
	struct record_key key;
	int status;

	if (chunk == NULL)
		return -ENOMEM;
	chunk->index = index;
	status = store_get(txn, record_key_pair(&key, RECORD_CHUNK, inode->ino, index), &value);
	if (status == 0)
		status = decode(chunk, value);
	else if (status == -ENOENT)
		status = 0;
	if (status != 0) {
		chunk_destroy(chunk);
		return status;
	}
	HASH_ADD(hh, inode->map->chunks, index, sizeof(chunk->index), chunk);
	inode->map->last = chunk;
	*result = chunk;
	return 0;
}

struct chunk *chunk_peek(const struct inode *inode, uint64_t index)
{
	struct extent_map *map = inode->map;
	struct chunk *chunk;

	if (map == NULL)
		return NULL;
	if (map->last != NULL && map->last->index == index)
		return map->last;
	HASH_FIND (hh, map->chunks, &index, sizeof(index), chunk)
		;
	if (chunk != NULL)
		map->last = chunk;
	return chunk;
}

static int need_map(struct inode *inode)
{
	if (inode->map == NULL)
		inode->map = calloc(1, sizeof(*inode->map));
	return inode->map == NULL ? -ENOMEM : 0;
}

int chunk_get_in(struct store_txn *txn, struct inode *inode, uint64_t index, struct chunk **chunk)
{
	int result = need_map(inode);

	if (result != 0)
		return result;
	*chunk = chunk_peek(inode, index);
	return *chunk != NULL ? 0 : chunk_load(txn, inode, index, chunk);
}

int chunk_get(struct volume *volume, struct inode *inode, uint64_t index, struct chunk **chunk)
{
	struct store_txn *txn;
	int result = need_map(inode);

	if (result != 0)
		return result;
	*chunk = chunk_peek(inode, index);
	if (RMEM_LIKELY(*chunk != NULL))
		return 0;
	result = store_begin(volume->store, STORE_READ, &txn);
	if (result != 0)
		return result;
	result = chunk_load(txn, inode, index, chunk);
	store_abort(txn);
	return result;
}

static bool all_written(const struct chunk *chunk, const struct extent_array *extents)
{
	for (uint32_t i = 0; i < extents->count; i++) {
		const struct record_extent *extent = &extents->items[i];
		uint32_t end = extent->page + extent->pages;

		if (chunk_find_change(chunk, extent->page, end, true) < end)
			return false;
	}
	return true;
}

/* How many pages of the chunk may count as written in the store. */
static uint32_t stored_pages(const struct inode *inode, const struct chunk *chunk)
{
	uint64_t limit = dirty_size_limit(inode->dirty_file), base;

	if (RMEM_LIKELY(limit == UINT64_MAX))
		return RECORD_CHUNK_PAGES;
	limit = rmem_round_up(limit, VOLUME_PAGE_BYTES) / VOLUME_PAGE_BYTES;
	base = chunk->index * RECORD_CHUNK_PAGES;
	return limit <= base ? 0 : (uint32_t)rmem_min_u64(limit - base, RECORD_CHUNK_PAGES);
}

bool chunk_is_whole(const struct inode *inode, const struct chunk *chunk)
{
	uint32_t end = stored_pages(inode, chunk);

	return chunk_find_change(chunk, end, RECORD_CHUNK_PAGES, false) == RECORD_CHUNK_PAGES;
}

/* Bits of pages without an extent must not reach the store. */
static void copy_written(const struct chunk *chunk, const struct extent_array *extents,
			 uint64_t written[RECORD_CHUNK_WORDS])
{
	memset(written, 0, RECORD_CHUNK_WORDS * sizeof(written[0]));
	for (uint32_t i = 0; i < extents->count; i++)
		bitmap_set(written, extents->items[i].page,
			   extents->items[i].page + extents->items[i].pages);
	for (uint32_t word = 0; word < RECORD_CHUNK_WORDS; word++)
		written[word] &= word < chunk->written_words ? chunk->written[word] : 0;
}

int chunk_put(struct store_txn *txn, const struct inode *inode, const struct chunk *chunk,
	      const struct extent_array *extents)
{
	uint64_t written[RECORD_CHUNK_WORDS], ino = inode->ino;
	uint8_t small[4096], *buffer = small;
	size_t size = record_chunk_bytes(extents->count);
	uint32_t end = stored_pages(inode, chunk);
	bool all = end == RECORD_CHUNK_PAGES && all_written(chunk, extents);
	struct record_key key;
	int result;

	if (extents->count == 0) {
		result = store_delete(txn, record_key_pair(&key, RECORD_CHUNK, ino, chunk->index));
		return result == -ENOENT ? 0 : result;
	}
	if (size > sizeof(small))
		buffer = malloc(size);
	if (buffer == NULL)
		return -ENOMEM;
	if (!all) {
		copy_written(chunk, extents, written);
		if (end < RECORD_CHUNK_PAGES)
			bitmap_clear(written, end, RECORD_CHUNK_PAGES);
	}
	result = store_put(
		txn, record_key_pair(&key, RECORD_CHUNK, ino, chunk->index),
		record_encode_chunk(buffer, extents->items, extents->count, all ? NULL : written));
	if (buffer != small)
		free(buffer);
	return result;
}

void chunk_replace(struct chunk *chunk, struct extent_array *extents)
{
	uint32_t hole = 0;

	extent_array_finish(&chunk->extents);
	chunk->extents = *extents;
	*extents = (struct extent_array){0};
	for (uint32_t i = 0; i < chunk->extents.count; i++) {
		chunk_clear_written(chunk, hole, chunk->extents.items[i].page);
		hole = chunk->extents.items[i].page + chunk->extents.items[i].pages;
	}
	chunk_clear_written(chunk, hole, RECORD_CHUNK_PAGES);
}
