/* SPDX-License-Identifier: Apache-2.0 */
/* Counters and latency histograms of one reactor.
 *
 * Each has one writer, the reactor's thread. Other threads read while it writes: every value is an
 * atomic that is stored and loaded relaxed, which costs what a plain one costs (no locked
 * instruction) and promises that a reader sees each value whole, not that the values it sees
 * belong to one instant. Nothing is derived from the counters but what is shown to people.
 *
 * The histogram has buckets as HdrHistogram has them: exact up to 32, then 32 to each power of two,
 * so a value is known to within 1/32 (3 %) whatever its size; memory is fixed, recording is O(1).
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "engine/base/hint.h"

enum rmem_stat {
	RMEM_STAT_BATCHES,	  /* submitted */
	RMEM_STAT_BATCHES_FAILED, /* called back with an error */
	RMEM_STAT_READS,	  /* segments */
	RMEM_STAT_READ_BYTES,	  /* of completed segments */
	RMEM_STAT_WRITES,	  /* segments */
	RMEM_STAT_WRITE_BYTES,	  /* of completed segments */
	RMEM_STAT_MERGES,	  /* segments that joined their neighbour's work request */
	RMEM_STAT_CHUNKS,	  /* work requests more than segments, from cutting */
	RMEM_STAT_WRS,		  /* work requests posted */
	RMEM_STAT_WRS_INLINE,	  /* of those, with their payload inline */
	RMEM_STAT_CHAINS,	  /* chains posted, which is doorbells rung */
	RMEM_STAT_PARTIAL_POSTS,  /* chains of which the fabric took a part */
	RMEM_STAT_COMPLETIONS,	  /* read from the completion queue */
	RMEM_STAT_ERRORS,	  /* of those, failed; flushed ones not counted */
	RMEM_STAT_FLUSHED,	  /* of those, flushed */
	RMEM_STAT_CREDITS_EMPTY,  /* posts put off: no credit or no ledger slot left on the lane */
	RMEM_STAT_STAGING_EMPTY,  /* requests for a staging slot refused */
	RMEM_STAT_POLLS,	  /* turns of the reactor */
	RMEM_STAT_POLLS_EMPTY,	  /* of those, that found nothing to do */
	RMEM_STAT_ARMS,		  /* completion queue armed */
	RMEM_STAT_SLEEPS,	  /* waits in epoll */
	RMEM_STAT_CALLS,	  /* calls run for other threads */
	RMEM_STAT_TABLE_RELOADS,  /* endpoint table read again */
	RMEM_STAT_LANES_LOST,	  /* lanes that went to error */
	RMEM_STAT_NOTICES_SENT,
	RMEM_STAT_NOTICES_TAKEN, /* that came in */
	RMEM_STAT_NOTICES_HELD,	 /* put off: as many as may be were under way */
	RMEM_STAT_COUNT,
};

struct rmem_stats {
	_Alignas(RMEM_CACHE_PAIR) _Atomic(uint64_t) values[RMEM_STAT_COUNT];
};

/* The writer's side: the thread that owns the counters, no other. */
static inline void rmem_stats_add(struct rmem_stats *stats, enum rmem_stat stat, uint64_t amount)
{
	uint64_t old = atomic_load_explicit(&stats->values[stat], memory_order_relaxed);

	atomic_store_explicit(&stats->values[stat], old + amount, memory_order_relaxed);
}

static inline void rmem_stats_count(struct rmem_stats *stats, enum rmem_stat stat)
{
	rmem_stats_add(stats, stat, 1);
}

/* Before the writer starts. */
void rmem_stats_init(struct rmem_stats *stats);

/* How a counter is called in output, "read_bytes"; NULL past the last. */
const char *rmem_stats_name(unsigned stat);

/* Values at one time, or a difference or sum of such. Plain numbers of the reader's. */
struct rmem_stats_snapshot {
	uint64_t values[RMEM_STAT_COUNT];
};

/* Any thread, while the writer writes. */
void rmem_stats_read(const struct rmem_stats *stats, struct rmem_stats_snapshot *snapshot);

/* What was counted between two snapshots; `difference` may be one of them. */
void rmem_stats_difference(const struct rmem_stats_snapshot *after,
			   const struct rmem_stats_snapshot *before,
			   struct rmem_stats_snapshot *difference);

/* Adds one reactor's snapshot to a total, which starts zeroed. */
void rmem_stats_sum(struct rmem_stats_snapshot *total, const struct rmem_stats_snapshot *part);

/* --- Histogram -------------------------------------------------------------------------------- */

#define RMEM_HISTOGRAM_SUB_BITS 5
#define RMEM_HISTOGRAM_SUBS	(1u << RMEM_HISTOGRAM_SUB_BITS)
/* Values of 2^40 and more (18 minutes in ns) share the last bucket; the maximum stays exact. */
#define RMEM_HISTOGRAM_VALUE_BITS 40
#define RMEM_HISTOGRAM_BUCKETS                                                                     \
	((RMEM_HISTOGRAM_VALUE_BITS - RMEM_HISTOGRAM_SUB_BITS + 1) * RMEM_HISTOGRAM_SUBS)

/* 9 KiB. The unit of the values is the user's (ns for latencies). */
struct rmem_histogram {
	_Alignas(RMEM_CACHE_PAIR) _Atomic(uint64_t) count;
	_Atomic(uint64_t) sum;
	_Atomic(uint64_t) max;
	_Atomic(uint64_t) buckets[RMEM_HISTOGRAM_BUCKETS];
};

void rmem_histogram_init(struct rmem_histogram *histogram);

/* The owning thread only. */
void rmem_histogram_record(struct rmem_histogram *histogram, uint64_t value);

/* Adds what `from` holds (while its owner writes) to `into`, which is the caller's own. */
void rmem_histogram_merge(struct rmem_histogram *into, const struct rmem_histogram *from);

/* Any thread. The smallest v such that a share `quantile` (0..1; 0.99 for p99) of the values is at
 * most v: the upper end of the bucket, never above the maximum. 0 when nothing was recorded. */
uint64_t rmem_histogram_quantile(const struct rmem_histogram *histogram, double quantile);

/* Any thread; 0 when nothing was recorded. */
uint64_t rmem_histogram_count(const struct rmem_histogram *histogram);
uint64_t rmem_histogram_max(const struct rmem_histogram *histogram);
double rmem_histogram_mean(const struct rmem_histogram *histogram);
