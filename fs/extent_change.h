/* SPDX-License-Identifier: Apache-2.0 */
/* A transaction on the extents of one file in the making. Private to extent_*.c. */
#pragma once

#include "fs/extent_map.h"

#define CHUNK_PAGES    RECORD_CHUNK_PAGES
#define CHUNKS_PER_TXN 16u

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

/* Nothing is changed yet: at the start of each attempt, and to end a change that failed. */
void change_reset(struct change *change);
/* Puts bitmaps, chunks and the inode's record. */
int change_put(struct change *change, struct store_txn *txn) RMEM_MUST_CHECK;
/* After the commit: memory follows. */
void change_follow(struct change *change);
