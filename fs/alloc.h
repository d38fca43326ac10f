/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator: which 4 KiB pages of which region are taken.
 *
 * The truth is in the store: one bitmap record per 128 MiB group of a region (A records), changed in
 * the same transaction as the extents that take or give back the pages, so that no crash leaks or
 * doubles a page. Memory holds a copy with free counts, which only this mount changes. Within a
 * transaction a change is collected in a struct alloc_change: alloc_take() and alloc_give() put
 * bitmap records into the transaction, and the caller ends the change with alloc_done(): pages given
 * back can be taken again only after that, and a failed transaction puts memory back as it was. */
#pragma once

#include <stdint.h>

#include "fs/store.h"
#include "fs/volume.h"

struct alloc_run {
	uint32_t region;
	uint32_t pages;
	uint64_t page; /* within the region */
};
