/* SPDX-License-Identifier: Apache-2.0 */
/* What the allocator and the extents need of a volume, and no more: a store that can be made to
 * fail, and regions without servers. It stands in for volume.c and inode.c, so link nothing of
 * them. */
#pragma once

#include "fs/alloc.h"
#include "fs/inode.h"
#include "fs/volume.h"

#define SMALL_VOLUME_REGIONS 8u /* ids 1.. */

struct small_volume {
	struct volume volume;
	struct volume_region regions[SMALL_VOLUME_REGIONS + 1];
	char folder[200];
};

/* An empty store in a folder of its own. Aborts the test when something fails. */
void small_volume_init(struct small_volume *small, uint64_t stripe_bytes);
void small_volume_finish(struct small_volume *small); /* removes it; runs after any failure */

/* Closes and opens everything again, as after a remount: regions are known, none is attached. */
void small_volume_reopen(struct small_volume *small);

/* The region exists, with its server connected. */
void small_volume_attach(struct small_volume *small, uint32_t id, uint64_t pages);
/* Its server went away, or came without its memory. */
void small_volume_detach(struct small_volume *small, uint32_t id);
void small_volume_lose(struct small_volume *small, uint32_t id);

/* Whether the stored bitmaps say that the page is taken. */
bool small_volume_is_taken(struct small_volume *small, uint32_t region, uint64_t page);
/* All stored bitmaps of a region, in words that the caller frees. */
uint64_t *small_volume_bitmap(struct small_volume *small, uint32_t region);

/* A regular file with its record in the store. */
void small_volume_create(struct small_volume *small, struct inode *inode, uint64_t ino);
/* The inode's record as stored. */
struct inode_attr small_volume_stored(struct small_volume *small, uint64_t ino);
