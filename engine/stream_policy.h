/* SPDX-License-Identifier: Apache-2.0 */
/* When to write past the caches.
 *
 * Streaming stores win where the bytes leave this CPU, and lose where it touches them again while
 * a cache would still have had them. The caller says which bytes are on their way out; it cannot
 * know that the next request reads them back. So this watches a sample of the pages that go out: of
 * those, how many were touched shortly before, or are read shortly after? "Shortly" is as much
 * traffic as a share of the last cache holds, and for reads a fourth of that. Where it is more than
 * one in eight, ordinary stores are taken until it is less. It watches all the same while they are,
 * so it notices both ways; and it begins with them, until it has seen some 3 MiB.
 *
 * One in sixteen pages is watched, by its address, in a table without chains: a collision forgets a
 * page, which makes streaming a little more likely. Everything is relaxed: threads share it, races
 * lose a sample, and what it decides is only speed. A page watched costs some 5 ns, or a miss of
 * the caches (60 ns) where the traffic has pushed the table out; with one in four watched, that
 * took 6 % from copies of 8 KiB. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/hint.h"

#define RMEM_STREAM_WATCHED_MAX 512u /* a power of two */
#define RMEM_STREAM_SAMPLE	16u  /* one page in so many is watched */

struct rmem_stream_policy {
	uint32_t window_pages;	 /* of traffic: so long a page counts as touched */
	_Atomic(uint32_t) clock; /* pages that went by; 0: none has gone out yet */
	_Atomic(uint32_t) reuse; /* fixed point, see the source */
	_Atomic(uint64_t) watched[RMEM_STREAM_WATCHED_MAX];
};

/* Above this, ordinary stores. */
#define RMEM_STREAM_REUSE_ONE	(1u << 16)
#define RMEM_STREAM_REUSE_LIMIT (4 * RMEM_STREAM_REUSE_ONE)

void rmem_stream_policy_init(struct rmem_stream_policy *policy);

/* Any thread may call the rest. */

/* Bytes on their way out are written there, in whichever way. */
void rmem_stream_policy_note_write(struct rmem_stream_policy *policy, const void *address,
				   size_t length);
/* The CPU reads bytes there. Returns at once as long as none have been written. */
static inline void rmem_stream_policy_note_read(struct rmem_stream_policy *policy,
						const void *address, size_t length);

/* The rest of noting a read of the pages [first, end), some of which may be watched. */
void rmem_stream_policy_look_read(struct rmem_stream_policy *policy, uint64_t first, uint64_t end,
				  uint32_t now);

static inline uint32_t rmem_stream_policy_tick(struct rmem_stream_policy *policy, uint64_t pages)
{
	uint32_t now = atomic_load_explicit(&policy->clock, memory_order_relaxed);

	atomic_store_explicit(&policy->clock, now + (uint32_t)pages, memory_order_relaxed);
	return now;
}

/* The first page from `page` on that is watched. */
static inline uint64_t rmem_stream_policy_next(uint64_t page)
{
	return (page + RMEM_STREAM_SAMPLE - 1) / RMEM_STREAM_SAMPLE * RMEM_STREAM_SAMPLE;
}

static inline void rmem_stream_policy_note_read(struct rmem_stream_policy *policy,
						const void *address, size_t length)
{
	uint64_t first = (uintptr_t)address / RMEM_PAGE_BYTES;
	uint64_t end = ((uintptr_t)address + length) / RMEM_PAGE_BYTES;
	uint32_t now;

	if (atomic_load_explicit(&policy->clock, memory_order_relaxed) == 0)
		return;
	now = rmem_stream_policy_tick(policy, end - first);
	if (rmem_stream_policy_next(first) < end)
		rmem_stream_policy_look_read(policy, first, end, now);
}

static inline bool rmem_stream_policy_wants(const struct rmem_stream_policy *policy)
{
	return atomic_load_explicit(&policy->reuse, memory_order_relaxed) <=
	       RMEM_STREAM_REUSE_LIMIT;
}

/* From which length on streaming to memory that is in no cache is at least a tenth faster than
 * ordinary stores, with the version selected; RMEM_STREAM_NEVER when that is none of them. Measured
 * at the first call, which takes some milliseconds, and kept. */
#define RMEM_STREAM_NEVER SIZE_MAX
size_t rmem_stream_threshold_bytes(void);
