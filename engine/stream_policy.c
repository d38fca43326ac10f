/* SPDX-License-Identifier: Apache-2.0 */
/* An entry of the table: the page's number, whether it went out and was not read since, and when it
 * was touched, in pages of traffic. The clock wraps after 32 GiB; a page not touched since may then
 * count as fresh once.
 *
 * `reuse` is an average that forgets: each page that goes out takes 1/32 of it away, and each that
 * was or is touched again adds one. With a share p of them it settles at 32 p; the limit is at
 * 1/8.
 *
 * Rejected: deciding by the page alone, which knows what was, not what will be; a threshold so high
 * that a wrong choice is cheap, which gives away what pages of 4 to 64 KiB gain. */
#include "engine/stream_policy.h"

#include <unistd.h>

#define STAMP_BITS   23u
#define STAMP_MASK   ((1u << STAMP_BITS) - 1)
#define WRITTEN	     (UINT64_C(1) << STAMP_BITS)
#define PAGE_SHIFT   (STAMP_BITS + 1)
#define FORGET_SHIFT 5u
/* Reading costs less than overwriting when a cache has lost it, as the processor fetches ahead: of
 * pieces of 8 KiB and more that are read back when 1 MiB has been written since, streaming ones
 * have 1.10 to 1.30 of the throughput. */
#define READ_WINDOW 4u
/* 8 MiB: also what a guest is told of a cache that it shares with others is no more than a hint. */
#define WINDOW_PAGES_MAX 2048u
#define WINDOW_PAGES_MIN 256u

/* A fourth of the last cache, which others use as well. Measured with 32 MiB, shared: overwriting 4
 * MiB over and over is faster with ordinary stores (streaming: 0.68 of them), 8 MiB with streaming
 * ones in large pieces (1.11; 0.83 in small ones). */
static uint32_t window_pages(void)
{
	long bytes = -1;

#ifdef _SC_LEVEL3_CACHE_SIZE
	bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
	if (bytes <= 0)
		bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
	if (bytes <= 0)
		bytes = 4 << 20;
	bytes /= 4 * (long)RMEM_PAGE_BYTES;
	if (bytes < WINDOW_PAGES_MIN)
		return WINDOW_PAGES_MIN;
	return bytes > WINDOW_PAGES_MAX ? WINDOW_PAGES_MAX : (uint32_t)bytes;
}

void rmem_stream_policy_init(struct rmem_stream_policy *policy)
{
	policy->window_pages = window_pages();
	atomic_init(&policy->clock, 0);
	atomic_init(&policy->reuse, 4 * RMEM_STREAM_REUSE_LIMIT);
	for (unsigned i = 0; i < RMEM_STREAM_WATCHED_MAX; i++)
		atomic_init(&policy->watched[i], 0);
}

/* Neighbours that are watched fall into neighbouring entries. */
static _Atomic(uint64_t) *entry_of(struct rmem_stream_policy *policy, uint64_t page)
{
	uint64_t index = page / RMEM_STREAM_SAMPLE;

	return &policy->watched[(index ^ (index / RMEM_STREAM_WATCHED_MAX)) %
				RMEM_STREAM_WATCHED_MAX];
}

static bool is_fresh(uint64_t entry, uint64_t page, uint32_t now, uint32_t window)
{
	return entry >> PAGE_SHIFT == page && ((now - (uint32_t)entry) & STAMP_MASK) < window;
}

void rmem_stream_policy_note_write(struct rmem_stream_policy *policy, const void *address,
				   size_t length)
{
	uint64_t first = (uintptr_t)address / RMEM_PAGE_BYTES;
	uint64_t end = ((uintptr_t)address + length) / RMEM_PAGE_BYTES;
	uint32_t now = rmem_stream_policy_tick(policy, end - first);
	uint32_t reuse = atomic_load_explicit(&policy->reuse, memory_order_relaxed);

	for (uint64_t page = rmem_stream_policy_next(first); page < end;
	     page += RMEM_STREAM_SAMPLE) {
		_Atomic(uint64_t) *entry = entry_of(policy, page);
		uint64_t old = atomic_load_explicit(entry, memory_order_relaxed);

		reuse -= reuse >> FORGET_SHIFT;
		if (is_fresh(old, page, now, policy->window_pages))
			reuse += RMEM_STREAM_REUSE_ONE;
		atomic_store_explicit(entry, page << PAGE_SHIFT | WRITTEN | (now & STAMP_MASK),
				      memory_order_relaxed);
	}
	atomic_store_explicit(&policy->reuse, reuse, memory_order_relaxed);
}

void rmem_stream_policy_look_read(struct rmem_stream_policy *policy, uint64_t first, uint64_t end,
				  uint32_t now)
{
	uint32_t window = policy->window_pages / READ_WINDOW;
	uint32_t again = 0;

	for (uint64_t page = rmem_stream_policy_next(first); page < end;
	     page += RMEM_STREAM_SAMPLE) {
		_Atomic(uint64_t) *entry = entry_of(policy, page);
		uint64_t old = atomic_load_explicit(entry, memory_order_relaxed);

		again += (old & WRITTEN) != 0 && is_fresh(old, page, now, window);
		atomic_store_explicit(entry, page << PAGE_SHIFT | (now & STAMP_MASK),
				      memory_order_relaxed);
	}
	if (again > 0) {
		uint32_t reuse = atomic_load_explicit(&policy->reuse, memory_order_relaxed);

		/* At most what two for each page that goes out would make of it. */
		reuse += again * RMEM_STREAM_REUSE_ONE;
		if (reuse > 64 * RMEM_STREAM_REUSE_ONE)
			reuse = 64 * RMEM_STREAM_REUSE_ONE;
		atomic_store_explicit(&policy->reuse, reuse, memory_order_relaxed);
	}
}
