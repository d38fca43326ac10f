/* SPDX-License-Identifier: Apache-2.0 */
/* The map of a file in memory: its chunks as far as they were needed so far. Private to extent*.c.
 *
 * A chunk is here what it is in the store, but for the written bits, which may be ahead (`dirty`).
 * Its extents change only together with the store: a transaction builds new arrays beside the old
 * ones, and chunk_replace() swaps them in after the commit. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

#include "fs/extent.h"
#include "fs/record.h"

struct extent_array {
	struct record_extent
		*items; /* in order of pages; neighbours that continue each other merged */
	uint32_t count, capacity;
};

struct chunk {
	UT_hash_handle hh;
	uint64_t index; /* file offset / VOLUME_CHUNK_BYTES */
	struct extent_array extents;
	uint64_t *written;	/* a bit a page; pages behind the last word are not written */
	uint32_t written_words; /* grows with need: most files are small */
	bool dirty;
};

struct extent_map {
	struct chunk *chunks; /* by index */
	struct chunk *last;   /* used last, mostly the one that is wanted next */
	bool ahead;	      /* growing took more than was written: extent_trim() has work */
};

/* The chunk, loaded if need be; empty when the store has none. -EIO, -ENOMEM. */
int chunk_get(struct volume *volume, struct inode *inode, uint64_t index,
	      struct chunk **chunk) RMEM_MUST_CHECK;
/* NULL when it is not in memory. */
struct chunk *chunk_peek(const struct inode *inode, uint64_t index);
/* In a transaction: from memory, or through `txn`. */
int chunk_get_in(struct store_txn *txn, struct inode *inode, uint64_t index,
		 struct chunk **chunk) RMEM_MUST_CHECK;

bool chunk_is_written(const struct chunk *chunk, uint32_t page);
/* The first page in [from, to) whose written state is not `state`; `to` if there is none. */
uint32_t chunk_find_change(const struct chunk *chunk, uint32_t from, uint32_t to, bool state);
/* Makes room, so that chunk_set_written() of pages below `to` cannot fail. */
int chunk_reserve_written(struct chunk *chunk, uint32_t to) RMEM_MUST_CHECK;
int chunk_set_written(struct chunk *chunk, uint32_t from, uint32_t to) RMEM_MUST_CHECK;
void chunk_clear_written(struct chunk *chunk, uint32_t from, uint32_t to);

/* The first extent that ends behind `page`: an index, or extents.count. */
uint32_t extent_array_find(const struct extent_array *extents, uint32_t page);
/* How many pages of [from, to) have an extent. */
uint32_t extent_array_count(const struct extent_array *extents, uint32_t from, uint32_t to);
/* Adds behind the others, or makes the last one longer. */
int extent_array_append(struct extent_array *extents,
			const struct record_extent *extent) RMEM_MUST_CHECK;
void extent_array_finish(struct extent_array *extents);

/* Puts the record of `chunk` with `extents` in place of its own into `txn`, or deletes it when
 * there are none. Pages behind the size that the inode has in the store (dirty_size_limit()) don't
 * count as written there: chunk_is_whole() says whether that was all of it. */
int chunk_put(struct store_txn *txn, const struct inode *inode, const struct chunk *chunk,
	      const struct extent_array *extents) RMEM_MUST_CHECK;
bool chunk_is_whole(const struct inode *inode, const struct chunk *chunk);
/* After the commit: takes over `extents`, which becomes empty; the written state of pages that have
 * no extent any more is cleared. */
void chunk_replace(struct chunk *chunk, struct extent_array *extents);
