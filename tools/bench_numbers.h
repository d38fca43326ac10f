/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of measurements: medians, percentiles, spread, peak rates. Pure computation. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Of the repetitions of one measurement. All 0 when there were none. */
struct bench_summary {
	double median; /* of an even number, the mean of the middle two */
	double min, max;
	double spread_percent; /* max - min in percent of the median; 0 when that is 0 */
};

/* Sorts `values`. */
void bench_summarize(double *values, size_t count, struct bench_summary *summary);

/* Ascending. */
void bench_sort(uint64_t *values, size_t count);

/* The smallest of `sorted` values such that a share (0..1) of all is no greater: 0.5 is the median,
 * 0.99 is p99. 0 when there are none. */
uint64_t bench_percentile(const uint64_t *sorted, size_t count, double share);

double bench_mean(const uint64_t *values, size_t count);

/* The most events per second in any `window` that follow each other; `times_ns` are when they
 * happened, sorted, and `start_ns` when waiting for the first began. With fewer events than
 * `window`, that of all; 0 when there are none, or no time passed. */
double bench_peak_rate(uint64_t start_ns, const uint64_t *times_ns, size_t count, size_t window);
