/* SPDX-License-Identifier: Apache-2.0 */
/* One thread's part of the work, without the thread. */
#pragma once

#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/memtouch_area.h"
#include "tools/memtouch_options.h"

/* Pages written with one call, and so with one store fence: 256 KiB, about what a second-level
 * cache holds, because with --verify they are made there first. The stop flag is looked at as
 * often. */
#define TOUCH_BATCH_PAGES 64u

struct touch_worker {
	/* Written by the worker alone, read by the main thread for its statistics: relaxed. */
	_Alignas(RMEM_CACHE_PAIR) _Atomic(uint64_t) warm_pages;
	_Atomic(uint64_t) read_pages;
	_Atomic(uint64_t) write_pages;

	_Alignas(RMEM_CACHE_PAIR) const struct touch_options *options;
	const struct touch_area *area;
	/* Set by the main thread or by a worker that failed. Relaxed: it carries nothing. */
	const _Atomic(bool) *stop;
	unsigned char *memory; /* its part of the area */
	uint64_t pages;
	uint32_t index;
	uint32_t *passes;	/* with --verify: a page's last pass */
	unsigned char *scratch; /* with --verify --nt_stores: TOUCH_BATCH_PAGES pages */
	uint64_t salt;
	uint64_t random;
	uint64_t next;		/* the page that comes next, when they come in order */
	bool next_writes;	/* what the next touch does */
	unsigned char fill;	/* what the last run was filled with */
	uint64_t slice_pages;	/* what is flushed at a time; a part is whole slices */
	uint64_t next_flush;	/* the slice's first page */
	uint64_t since_flush;	/* pages touched */
	uint64_t reads, writes; /* not yet counted */
	uint64_t sum;		/* of what was read: so that reading can't be left out */

	sigjmp_buf escape; /* from an access that ended in SIGBUS */
	const void *volatile fault;
	struct rmem_error error; /* read by others after the worker's end */
};

/* Errors: -ENOMEM. */
int touch_worker_init(struct touch_worker *worker, const struct touch_options *options,
		      const struct touch_area *area, uint32_t index,
		      struct rmem_error *error) RMEM_MUST_CHECK;
void touch_worker_finish(struct touch_worker *worker);

/* Writes every page once, in batches. Errors: -ECANCELED (stopped), those of touch_area_flush(). */
int touch_worker_warm(struct touch_worker *worker) RMEM_MUST_CHECK;

/* Touches `page_log_ival` pages, then counts them. Errors: -EILSEQ (not what was written there),
 * those of touch_area_flush(). */
int touch_worker_step(struct touch_worker *worker) RMEM_MUST_CHECK;

static inline bool touch_worker_stopped(const struct touch_worker *worker)
{
	return atomic_load_explicit(worker->stop, memory_order_relaxed);
}
