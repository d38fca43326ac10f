/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_numbers.h"

#include <stdlib.h>

#include "engine/base/timer.h"

static int compare_doubles(const void *left, const void *right)
{
	const double *a = left;
	const double *b = right;

	return (*a > *b) - (*a < *b);
}

static int compare_numbers(const void *left, const void *right)
{
	const uint64_t *a = left;
	const uint64_t *b = right;

	return (*a > *b) - (*a < *b);
}

void bench_summarize(double *values, size_t count, struct bench_summary *summary)
{
	*summary = (struct bench_summary){0};
	if (count == 0)
		return;
	qsort(values, count, sizeof(*values), compare_doubles);
	summary->min = values[0];
	summary->max = values[count - 1];
	summary->median = (values[(count - 1) / 2] + values[count / 2]) / 2;
	if (summary->median > 0)
		summary->spread_percent = (summary->max - summary->min) / summary->median * 100;
}

void bench_sort(uint64_t *values, size_t count)
{
	if (count > 0)
		qsort(values, count, sizeof(*values), compare_numbers);
}

uint64_t bench_percentile(const uint64_t *sorted, size_t count, double share)
{
	double rank = share * (double)count; /* values that must be no greater */
	size_t index = rank > 0 ? (size_t)rank : 0;

	if (count == 0)
		return 0;
	if (index > 0 && (double)index >= rank) /* exactly so many: the last of them */
		index--;
	return sorted[index < count ? index : count - 1];
}

double bench_mean(const uint64_t *values, size_t count)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += (double)values[i];
	return count > 0 ? sum / (double)count : 0;
}

double bench_peak_rate(uint64_t start_ns, const uint64_t *times_ns, size_t count, size_t window)
{
	uint64_t shortest_ns = UINT64_MAX;

	if (window > count)
		window = count;
	if (window == 0)
		return 0;
	for (size_t last = window - 1; last < count; last++) {
		uint64_t before_ns = last == window - 1 ? start_ns : times_ns[last - window];
		uint64_t took_ns = times_ns[last] - before_ns;

		if (took_ns < shortest_ns)
			shortest_ns = took_ns;
	}
	if (shortest_ns == 0)
		return 0;
	return (double)window * RMEM_NS_PER_S / (double)shortest_ns;
}
