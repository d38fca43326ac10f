/* SPDX-License-Identifier: Apache-2.0 */
/* Which pages of a file are where: per file a map of 64 MiB chunks, each with its extents in order
 * and a bitmap of which of their pages were written.
 *
 * A page is a hole (no extent), unwritten (it has an extent, and reads as zeros), or written.
 * Extents are allocated in one store transaction together with the bitmaps; the written state
 * changes in memory when data has arrived and reaches the store with inode_flush(), so overwriting
 * and filling allocated space costs no transaction.
 *
 * Every function here wants inode->lock held, unless it says otherwise. */
#pragma once

#include <stdint.h>

#include "fs/inode.h"
#include "fs/store.h"
#include "fs/volume.h"

enum extent_kind {
	EXTENT_HOLE,
	EXTENT_UNWRITTEN,
	EXTENT_WRITTEN,
};

struct extent_piece {
	uint64_t offset;	/* in the file, bytes */
	uint64_t length;	/* bytes */
	uint64_t region_offset; /* bytes; not for holes */
	uint32_t region;	/* volume region id; not for holes */
	enum extent_kind kind;
};

/* Describes [offset, offset + length) in order, neighbours of one kind that lie side by side
 * merged. Returns how many pieces were filled in; when `capacity` runs out they cover just the
 * beginning. Errors: -EIO, -ENOMEM (a chunk had to be loaded). */
int extent_lookup(struct volume *volume, struct inode *inode, uint64_t offset, uint64_t length,
		  struct extent_piece *pieces, unsigned capacity) RMEM_MUST_CHECK;

/* Sees to it that every page the range touches has an extent: one transaction for all the holes in
 * it, none when there are none. Writes that grow the file take more than they need, in proportion
 * to its size (at most 64 MiB), and give it up again before they fail; extent_trim() returns it
 * later. `exact` (fallocate) takes just the range. Updates attr.pages. Errors: -ENOSPC, -EIO,
 * -ENOMEM. */
enum extent_reserve {
	EXTENT_GROW,
	EXTENT_EXACT,
};
int extent_allocate(struct volume *volume, struct inode *inode, uint64_t offset, uint64_t length,
		    enum extent_reserve reserve) RMEM_MUST_CHECK;

/* The pages that the range touches now hold data (the caller wrote or zero-filled all of each). */
void extent_mark_written(struct volume *volume, struct inode *inode, uint64_t offset,
			 uint64_t length);

/* The pages that lie wholly within the range read as zeros from now on, but keep their extents
 * (FALLOC_FL_ZERO_RANGE). */
void extent_mark_unwritten(struct volume *volume, struct inode *inode, uint64_t offset,
			   uint64_t length);

/* Gives back every page that lies wholly within the range (length UINT64_MAX: to the end), in
 * transactions of bounded size, and together with the last of them puts the inode's record with
 * `attr` (so a truncation and its new size are one), which becomes inode->attr (with .pages
 * updated). Nothing may be in flight on those pages. Errors: -EIO, -ENOSPC: memory and store agree.
 */
int extent_unmap(struct volume *volume, struct inode *inode, uint64_t offset, uint64_t length,
		 const struct inode_attr *attr) RMEM_MUST_CHECK;

/* Gives back unwritten pages beyond the end of the file that growing took ahead of need (but not
 * what fallocate reserved: attr.reserved_end). At last close, alone at the gate. */
int extent_trim(struct volume *volume, struct inode *inode) RMEM_MUST_CHECK;

/* Puts the chunk records whose written state changed into `txn`. After a successful commit the
 * caller calls extent_flushed(). */
int extent_flush(struct volume *volume, struct inode *inode, struct store_txn *txn) RMEM_MUST_CHECK;
void extent_flushed(struct inode *inode);

/* For lseek: the first offset >= `offset` that is data (written), or that is not; within `size`.
 * Errors: -ENXIO. */
int extent_seek_data(struct volume *volume, struct inode *inode, uint64_t offset,
		     uint64_t *found) RMEM_MUST_CHECK;
int extent_seek_hole(struct volume *volume, struct inode *inode, uint64_t offset,
		     uint64_t *found) RMEM_MUST_CHECK;

/* For inodes without a name or user: gives back everything of `ino`, a bounded number of chunk
 * records per transaction. Needs no lock: nobody else knows the inode. Returns 1 when there is more
 * to do, 0 when all is gone. */
int extent_reclaim(struct volume *volume, uint64_t ino, struct store_txn *txn) RMEM_MUST_CHECK;

/* After the last close: drops what is in memory and can be loaded again, unless an operation is at
 * the gate. */
void extent_forget(struct inode *inode);

/* Whether extent_trim() would have something to do. */
bool extent_wants_trim(const struct inode *inode);

void extent_map_destroy(struct extent_map *map); /* NULL is fine */
