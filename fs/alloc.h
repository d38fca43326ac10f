/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator: which 4 KiB pages of which region are taken.
 *
 * The truth is in the store: one bitmap record per 128 MiB group of a region (A records), changed
 * in the same transaction as the extents that take or give back the pages, so that no crash leaks
 * or doubles a page. Memory holds a copy with free counts, which only this mount changes.
 *
 * Changes belong to a store transaction. alloc_begin() attaches one to it and keeps every other
 * thread out of the allocator until the transaction has ended; then memory follows by itself: pages
 * given back become free with the commit and not before, and pages taken are free again when there
 * was none. Between the two no other lock may be waited for: the lock order is inode->lock, the
 * store's writer, the allocator. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "fs/store.h"
#include "fs/volume.h"

struct allocator;

#define ALLOC_ANYWHERE UINT64_MAX /* as the page of a hint */

struct alloc_run {
	uint32_t region; /* volume region id */
	uint32_t pages;
	uint64_t page; /* within the region */
};

int alloc_create(struct volume *volume, struct allocator **allocator) RMEM_MUST_CHECK;
void alloc_destroy(struct allocator *allocator); /* NULL is fine */

/* Loads the bitmaps of a region of `pages` pages; from then on pages are taken from it while it is
 * attached and not lost. A bitmap that can't be read makes its group unusable, not the region.
 * Nothing happens when the region is loaded already. Errors: -EIO (among them: loaded with another
 * number of pages), -ENOMEM. */
int alloc_add_region(struct allocator *allocator, uint32_t region, uint64_t pages) RMEM_MUST_CHECK;

/* Attaches a change to a write transaction; nothing when it has one already. Blocks while another
 * transaction with a change has not ended. */
void alloc_begin(struct allocator *allocator, struct store_txn *txn);

/* Takes one run of 1..`hint->pages` pages: right behind what is there already (hint->page of
 * hint->region) if that is free, else anywhere in that region, else in any. What is taken is as
 * long as a bounded search finds. Errors: -ENOSPC (no free page anywhere), -ENOTCONN (no server is
 * there), -ENOMEM. */
int alloc_take(struct allocator *allocator, const struct alloc_run *hint,
	       struct alloc_run *run) RMEM_MUST_CHECK;

/* Gives pages back. When the memory of their region is lost nothing needs to be done; when its
 * server was just not there yet, its bitmaps are loaded. Errors: -EIO (they were not taken: the
 * store is damaged), -ENOMEM. */
int alloc_give(struct allocator *allocator, const struct alloc_run *run) RMEM_MUST_CHECK;

/* Puts the bitmaps that changed into the transaction: once, after all takes and gives of one step.
 * More steps may follow in the same transaction. Errors: -ENOSPC, -EIO. */
int alloc_store(struct allocator *allocator, struct store_txn *txn) RMEM_MUST_CHECK;

/* The `index`-th region (modulo their number) that can give pages, for striping; 0: there is none.
 * Between alloc_begin() and the end of the transaction. */
uint32_t alloc_region_at(const struct allocator *allocator, uint64_t index);

struct alloc_usage {
	uint64_t total, free; /* pages of all regions that aren't lost, their servers up or down */
	uint64_t available;   /* free, and their server is up */
};
/* Any thread, no lock. */
void alloc_usage(const struct allocator *allocator, struct alloc_usage *usage);
