/* SPDX-License-Identifier: Apache-2.0 */
/* What memtouch says: a line an interval, a line of progress, a summary. Pure, but for the FILE. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "tools/memtouch_options.h"

#define TOUCH_RATES_MAX 32768u

/* The rates of the intervals, in bytes a second. When it is full every second one is dropped, and
 * only every second one taken from then on: bounded however long the run is, and still spread
 * evenly over it. Zeroed is empty, but for a stride of 0, which counts as 1. */
struct touch_rates {
	uint64_t values[TOUCH_RATES_MAX];
	size_t count;
	uint64_t stride, seen;
	uint64_t min, max; /* of all, also of those that were dropped */
};

void touch_rates_add(struct touch_rates *rates, uint64_t bytes_per_s);

/* All 0 when there are none. In MiB a second. */
struct touch_spread {
	double min, p50, p99, max;
};
/* Sorts the values, so it comes last. */
void touch_rates_spread(struct touch_rates *rates, struct touch_spread *spread);

/* 0 when no time passed. */
uint64_t touch_rate(uint64_t pages, uint64_t ns);

/* "2024-10-29T21:51:03.315+0100 read_mibps:16809.49 write_mibps:17834.99\n", in local time. */
void touch_log_line(const struct timespec *when, uint64_t read_bytes_per_s,
		    uint64_t write_bytes_per_s, char *line, size_t line_bytes);

/* "warm-up: 45 %, 1843 of 4096 MiB, 1234 MiB/s, 2 s left". */
void touch_progress_line(uint64_t done_pages, uint64_t pages, uint64_t ns, char *line,
			 size_t line_bytes);

struct touch_result {
	const struct touch_options *options;
	const char *stores;   /* "ordinary", "avx2", ... */
	const char *ended_by; /* "once", "duration", "SIGINT", "error" */
	const char *error;    /* NULL: none */
	uint64_t warm_pages, warm_ns;
	uint64_t read_pages, write_pages, run_ns;
	struct touch_rates reads, writes;
};

void touch_result_print(struct touch_result *result, FILE *out);
void touch_result_json(struct touch_result *result, FILE *out);
