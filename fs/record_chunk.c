/* SPDX-License-Identifier: Apache-2.0 */
/* The records whose size depends on what they hold: chunks and bitmaps. */
#include <errno.h>
#include <string.h>

#include "fs/bitmap.h"
#include "fs/record.h"

#define VERSION 1u

/* How many words it takes to hold every set bit. */
static uint32_t words_used(const uint64_t *words, uint32_t count)
{
	while (count > 0 && words[count - 1] == 0)
		count--;
	return count;
}

static void put_words(uint8_t *bytes, const uint64_t *words, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t little = htole64(words[i]);

		memcpy(bytes + i * 8, &little, 8);
	}
}

static uint64_t get_word(const uint8_t *bytes, uint32_t index)
{
	uint64_t little;

	memcpy(&little, bytes + index * 8, 8);
	return le64toh(little);
}

struct store_slice record_encode_bitmap(struct record_bitmap *value,
					const uint64_t words[RECORD_GROUP_WORDS])
{
	uint32_t count = words_used(words, RECORD_GROUP_WORDS);

	value->header = (struct record_header){
		.kind = RECORD_BITMAP,
		.version = VERSION,
		.detail = htole16((uint16_t)count),
	};
	value->reserved = 0;
	put_words((uint8_t *)value + offsetof(struct record_bitmap, words), words, count);
	return (struct store_slice){value, offsetof(struct record_bitmap, words) + count * 8};
}

int record_decode_bitmap(struct store_slice value, uint64_t words[RECORD_GROUP_WORDS])
{
	const uint8_t *bytes = value.data;
	struct record_header header;
	uint32_t count;

	if (value.size < offsetof(struct record_bitmap, words))
		return -EIO;
	memcpy(&header, bytes, sizeof(header));
	count = le16toh(header.detail);
	if (header.kind != RECORD_BITMAP || header.version != VERSION ||
	    count > RECORD_GROUP_WORDS ||
	    value.size != offsetof(struct record_bitmap, words) + count * 8)
		return -EIO;
	bytes += offsetof(struct record_bitmap, words);
	for (uint32_t i = 0; i < count; i++)
		words[i] = get_word(bytes, i);
	memset(words + count, 0, (RECORD_GROUP_WORDS - count) * sizeof(words[0]));
	return 0;
}

struct store_slice record_encode_chunk(void *buffer, const struct record_extent *extents,
				       uint32_t extent_count, const uint64_t *written)
{
	uint32_t words = written != NULL ? words_used(written, RECORD_CHUNK_WORDS) : 0;
	struct record_chunk_header *header = buffer;
	struct record_chunk_extent *out = (void *)(header + 1);

	*header = (struct record_chunk_header){
		.header =
			{
				.kind = RECORD_CHUNK,
				.version = VERSION,
				.detail = htole16(written != NULL ? (uint16_t)words
								  : RECORD_ALL_WRITTEN),
			},
		.extent_count = htole16((uint16_t)extent_count),
		.replicas = 1,
	};
	for (uint32_t i = 0; i < extent_count; i++) {
		out[i] = (struct record_chunk_extent){
			.page = htole16((uint16_t)extents[i].page),
			.pages = htole16((uint16_t)extents[i].pages),
			.replica =
				{
					.region = htole32(extents[i].region),
					.page = htole32((uint32_t)extents[i].region_page),
					.page_high =
						htole16((uint16_t)(extents[i].region_page >> 32)),
				},
		};
	}
	if (words > 0)
		put_words((uint8_t *)(out + extent_count), written, words);
	return (struct store_slice){buffer,
				    sizeof(*header) + extent_count * sizeof(*out) + words * 8};
}

void record_chunk_extent_at(const struct record_chunk_view *view, uint32_t index,
			    struct record_extent *extent)
{
	const struct record_chunk_extent *stored = &view->extents[index];

	extent->page = le16toh(stored->page);
	extent->pages = le16toh(stored->pages);
	extent->region = le32toh(stored->replica.region);
	extent->region_page =
		le32toh(stored->replica.page) | (uint64_t)le16toh(stored->replica.page_high) << 32;
}

uint64_t record_chunk_written_word(const struct record_chunk_view *view, uint32_t word)
{
	return word < view->written_words ? get_word(view->written, word) : 0;
}

/* Extents in order, none empty, none overlapping. */
static int check_extents(struct record_chunk_view *view)
{
	struct record_extent extent;
	uint32_t end = 0;

	view->pages = 0;
	for (uint32_t i = 0; i < view->extent_count; i++) {
		record_chunk_extent_at(view, i, &extent);
		if (extent.page < end || extent.pages == 0 || extent.page >= RECORD_CHUNK_PAGES ||
		    extent.pages > RECORD_CHUNK_PAGES - extent.page)
			return -EIO;
		end = extent.page + extent.pages;
		view->pages += extent.pages;
	}
	return 0;
}

/* Every written page has an extent. */
static int check_written(const struct record_chunk_view *view)
{
	uint64_t allocated[RECORD_CHUNK_WORDS] = {0};
	struct record_extent extent;

	for (uint32_t i = 0; i < view->extent_count; i++) {
		record_chunk_extent_at(view, i, &extent);
		bitmap_set(allocated, extent.page, extent.page + extent.pages);
	}
	for (uint32_t i = 0; i < view->written_words; i++) {
		if (get_word(view->written, i) & ~allocated[i])
			return -EIO;
	}
	return 0;
}

int record_decode_chunk(struct store_slice value, struct record_chunk_view *view)
{
	struct record_chunk_header header;
	uint32_t words;
	size_t extents_size;

	if (value.size < sizeof(header))
		return -EIO;
	memcpy(&header, value.data, sizeof(header));
	words = le16toh(header.header.detail);
	if (header.header.kind != RECORD_CHUNK || header.header.version != VERSION ||
	    header.replicas != 1)
		return -EIO;
	view->extent_count = le16toh(header.extent_count);
	view->all_written = words == RECORD_ALL_WRITTEN;
	view->written_words = view->all_written ? 0 : words;
	extents_size = view->extent_count * sizeof(struct record_chunk_extent);
	if (view->extent_count == 0 || view->written_words > RECORD_CHUNK_WORDS ||
	    value.size != sizeof(header) + extents_size + view->written_words * 8)
		return -EIO;
	view->extents = (const void *)((const uint8_t *)value.data + sizeof(header));
	view->written = (const uint8_t *)view->extents + extents_size;
	if (check_extents(view) != 0)
		return -EIO;
	return view->written_words > 0 ? check_written(view) : 0;
}
