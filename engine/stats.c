/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/stats.h"

#include <assert.h>
#include <stddef.h>

static const char *const names[] = {
	[RMEM_STAT_BATCHES] = "batches",
	[RMEM_STAT_BATCHES_FAILED] = "batches_failed",
	[RMEM_STAT_READS] = "reads",
	[RMEM_STAT_READ_BYTES] = "read_bytes",
	[RMEM_STAT_WRITES] = "writes",
	[RMEM_STAT_WRITE_BYTES] = "write_bytes",
	[RMEM_STAT_MERGES] = "merges",
	[RMEM_STAT_CHUNKS] = "chunks",
	[RMEM_STAT_WRS] = "wrs",
	[RMEM_STAT_WRS_INLINE] = "wrs_inline",
	[RMEM_STAT_CHAINS] = "chains",
	[RMEM_STAT_PARTIAL_POSTS] = "partial_posts",
	[RMEM_STAT_COMPLETIONS] = "completions",
	[RMEM_STAT_ERRORS] = "errors",
	[RMEM_STAT_FLUSHED] = "flushed",
	[RMEM_STAT_CREDITS_EMPTY] = "credits_empty",
	[RMEM_STAT_STAGING_EMPTY] = "staging_empty",
	[RMEM_STAT_POLLS] = "polls",
	[RMEM_STAT_POLLS_EMPTY] = "polls_empty",
	[RMEM_STAT_ARMS] = "arms",
	[RMEM_STAT_SLEEPS] = "sleeps",
	[RMEM_STAT_CALLS] = "calls",
	[RMEM_STAT_TABLE_RELOADS] = "table_reloads",
	[RMEM_STAT_LANES_LOST] = "lanes_lost",
	[RMEM_STAT_NOTICES_SENT] = "notices_sent",
	[RMEM_STAT_NOTICES_TAKEN] = "notices_taken",
	[RMEM_STAT_NOTICES_HELD] = "notices_held",
};
_Static_assert(RMEM_COUNT_OF(names) == RMEM_STAT_COUNT, "every counter has a name");

static uint64_t load(const _Atomic(uint64_t) *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

/* Single writer: a load and a store, no locked instruction. */
static void add(_Atomic(uint64_t) *value, uint64_t amount)
{
	atomic_store_explicit(value, load(value) + amount, memory_order_relaxed);
}

void rmem_stats_init(struct rmem_stats *stats)
{
	for (unsigned i = 0; i < RMEM_STAT_COUNT; i++)
		atomic_init(&stats->values[i], 0);
}

const char *rmem_stats_name(unsigned stat)
{
	return stat < RMEM_STAT_COUNT ? names[stat] : NULL;
}

void rmem_stats_read(const struct rmem_stats *stats, struct rmem_stats_snapshot *snapshot)
{
	for (unsigned i = 0; i < RMEM_STAT_COUNT; i++)
		snapshot->values[i] = load(&stats->values[i]);
}

void rmem_stats_difference(const struct rmem_stats_snapshot *after,
			   const struct rmem_stats_snapshot *before,
			   struct rmem_stats_snapshot *difference)
{
	for (unsigned i = 0; i < RMEM_STAT_COUNT; i++)
		difference->values[i] = after->values[i] - before->values[i];
}

void rmem_stats_sum(struct rmem_stats_snapshot *total, const struct rmem_stats_snapshot *part)
{
	for (unsigned i = 0; i < RMEM_STAT_COUNT; i++)
		total->values[i] += part->values[i];
}

/* Row 0 holds the values below 32 one by one; row r (from 1) holds 2^(r+4) .. 2^(r+5)-1 in 32
 * buckets of 2^(r-1) values each. */
static unsigned bucket_of(uint64_t value)
{
	unsigned shift;

	if (value < RMEM_HISTOGRAM_SUBS)
		return (unsigned)value;
	if (value >> RMEM_HISTOGRAM_VALUE_BITS)
		return RMEM_HISTOGRAM_BUCKETS - 1;
	shift = 63 - (unsigned)__builtin_clzll(value) - RMEM_HISTOGRAM_SUB_BITS;
	return shift * RMEM_HISTOGRAM_SUBS + (unsigned)(value >> shift);
}

static uint64_t bucket_last(unsigned bucket)
{
	unsigned shift, sub;

	if (bucket < RMEM_HISTOGRAM_SUBS)
		return bucket;
	if (bucket == RMEM_HISTOGRAM_BUCKETS - 1)
		return UINT64_MAX;
	shift = bucket / RMEM_HISTOGRAM_SUBS - 1;
	sub = bucket % RMEM_HISTOGRAM_SUBS + RMEM_HISTOGRAM_SUBS;
	return ((uint64_t)(sub + 1) << shift) - 1;
}

void rmem_histogram_init(struct rmem_histogram *histogram)
{
	atomic_init(&histogram->count, 0);
	atomic_init(&histogram->sum, 0);
	atomic_init(&histogram->max, 0);
	for (unsigned i = 0; i < RMEM_HISTOGRAM_BUCKETS; i++)
		atomic_init(&histogram->buckets[i], 0);
}

void rmem_histogram_record(struct rmem_histogram *histogram, uint64_t value)
{
	add(&histogram->buckets[bucket_of(value)], 1);
	add(&histogram->sum, value);
	if (RMEM_UNLIKELY(value > load(&histogram->max)))
		atomic_store_explicit(&histogram->max, value, memory_order_relaxed);
	add(&histogram->count, 1);
}

void rmem_histogram_merge(struct rmem_histogram *into, const struct rmem_histogram *from)
{
	uint64_t max = load(&from->max);

	for (unsigned i = 0; i < RMEM_HISTOGRAM_BUCKETS; i++)
		add(&into->buckets[i], load(&from->buckets[i]));
	add(&into->sum, load(&from->sum));
	add(&into->count, load(&from->count));
	if (max > load(&into->max))
		atomic_store_explicit(&into->max, max, memory_order_relaxed);
}

uint64_t rmem_histogram_quantile(const struct rmem_histogram *histogram, double quantile)
{
	uint64_t total = 0, seen = 0, rank, last, max = load(&histogram->max);

	assert(quantile >= 0 && quantile <= 1);
	/* From the buckets, not from `count`, which a writer may have raised meanwhile. */
	for (unsigned i = 0; i < RMEM_HISTOGRAM_BUCKETS; i++)
		total += load(&histogram->buckets[i]);
	if (total == 0)
		return 0;
	rank = (uint64_t)(quantile * (double)total);
	if ((double)rank < quantile * (double)total || rank == 0)
		rank++;
	for (unsigned i = 0; i < RMEM_HISTOGRAM_BUCKETS; i++) {
		seen += load(&histogram->buckets[i]);
		if (seen < rank)
			continue;
		last = bucket_last(i);
		return last < max ? last : max;
	}
	return max;
}

uint64_t rmem_histogram_count(const struct rmem_histogram *histogram)
{
	return load(&histogram->count);
}

uint64_t rmem_histogram_max(const struct rmem_histogram *histogram)
{
	return load(&histogram->max);
}

double rmem_histogram_mean(const struct rmem_histogram *histogram)
{
	uint64_t count = load(&histogram->count);

	return count == 0 ? 0 : (double)load(&histogram->sum) / (double)count;
}
