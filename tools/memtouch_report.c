/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/memtouch_report.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/checked.h"
#include "engine/base/timer.h"
#include "tools/bench_json.h"
#include "tools/bench_numbers.h"

#define MIB_PAGES (TOUCH_MIB / RMEM_PAGE_BYTES)

_Static_assert(TOUCH_MIB % RMEM_PAGE_BYTES == 0, "a MiB is whole pages");

static void halve(struct touch_rates *rates)
{
	for (size_t i = 0; i < TOUCH_RATES_MAX / 2; i++)
		rates->values[i] = rates->values[2 * i];
	rates->count = TOUCH_RATES_MAX / 2;
	rates->stride *= 2;
}

void touch_rates_add(struct touch_rates *rates, uint64_t bytes_per_s)
{
	if (rates->stride == 0) {
		rates->stride = 1;
		rates->min = UINT64_MAX;
	}
	rates->min = rmem_min_u64(rates->min, bytes_per_s);
	rates->max = rmem_max_u64(rates->max, bytes_per_s);
	if (rates->seen++ % rates->stride != 0)
		return;
	if (rates->count == TOUCH_RATES_MAX) {
		halve(rates);
		/* The one at hand is a multiple of the new stride: so many were seen before it. */
	}
	rates->values[rates->count++] = bytes_per_s;
}

static double mib(uint64_t bytes)
{
	return (double)bytes / (double)TOUCH_MIB;
}

void touch_rates_spread(struct touch_rates *rates, struct touch_spread *spread)
{
	*spread = (struct touch_spread){0};
	if (rates->count == 0)
		return;
	bench_sort(rates->values, rates->count);
	spread->min = mib(rates->min);
	spread->p50 = mib(bench_percentile(rates->values, rates->count, 0.5));
	spread->p99 = mib(bench_percentile(rates->values, rates->count, 0.99));
	spread->max = mib(rates->max);
}

uint64_t touch_rate(uint64_t pages, uint64_t ns)
{
	if (ns == 0)
		return 0;
	return (uint64_t)((double)pages * RMEM_PAGE_BYTES * RMEM_NS_PER_S / (double)ns);
}

void touch_log_line(const struct timespec *when, uint64_t read_bytes_per_s,
		    uint64_t write_bytes_per_s, char *line, size_t line_bytes)
{
	char date[40], zone[8];
	struct tm local;

	localtime_r(&when->tv_sec, &local);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &local);
	strftime(zone, sizeof(zone), "%z", &local);
	snprintf(line, line_bytes, "%s.%03ld%s read_mibps:%.2f write_mibps:%.2f\n", date,
		 when->tv_nsec / 1000000, zone, mib(read_bytes_per_s), mib(write_bytes_per_s));
}

void touch_progress_line(uint64_t done_pages, uint64_t pages, uint64_t ns, char *line,
			 size_t line_bytes)
{
	uint64_t rate = touch_rate(done_pages, ns);
	uint64_t left = rate > 0 ? (pages - done_pages) * RMEM_PAGE_BYTES / rate : 0;
	int used = snprintf(line, line_bytes,
			    "warm-up: %" PRIu64 " %%, %" PRIu64 " of %" PRIu64 " MiB, %.0f MiB/s",
			    pages > 0 ? done_pages * 100 / pages : 100, done_pages / MIB_PAGES,
			    pages / MIB_PAGES, mib(rate));

	if (rate > 0 && used > 0 && (size_t)used < line_bytes)
		snprintf(line + used, line_bytes - (size_t)used, ", %" PRIu64 " s left", left);
}

static double seconds(uint64_t ns)
{
	return (double)ns / RMEM_NS_PER_S;
}

static void print_row(const char *name, uint64_t pages, uint64_t ns, struct touch_rates *rates,
		      FILE *out)
{
	struct touch_spread spread;

	fprintf(out, "  %-6s %12.2f %12.2f", name, mib(pages * RMEM_PAGE_BYTES),
		mib(touch_rate(pages, ns)));
	touch_rates_spread(rates, &spread);
	if (rates->count == 0)
		fprintf(out, " %11s %11s %11s %11s\n", "-", "-", "-", "-");
	else
		fprintf(out, " %11.2f %11.2f %11.2f %11.2f\n", spread.p50, spread.p99, spread.min,
			spread.max);
}

void touch_result_print(struct touch_result *result, FILE *out)
{
	const struct touch_options *options = result->options;

	fprintf(out,
		"memtouch: %" PRIu64 " x %" PRIu64 " MiB of %s, %s, %" PRIu64
		" %% writes, %s stores%s\n",
		options->threads, options->thread_mib, options->file ? options->file : "memory",
		options->random ? "random" : "sequential", options->ratio, result->stores,
		options->verify ? ", verified" : "");
	fprintf(out, "warm-up: %.2f MiB in %.2f s, %.2f MiB/s\n",
		mib(result->warm_pages * RMEM_PAGE_BYTES), seconds(result->warm_ns),
		mib(touch_rate(result->warm_pages, result->warm_ns)));
	if (result->run_ns > 0) {
		fprintf(out,
			"run: %.2f s, %zu intervals of %" PRIu64 " ms; MiB/s but for the total:\n",
			seconds(result->run_ns), (size_t)result->reads.seen, options->stat_ival_ms);
		fprintf(out, "  %-6s %12s %12s %11s %11s %11s %11s\n", "", "total MiB", "mean",
			"p50", "p99", "min", "max");
		print_row("read", result->read_pages, result->run_ns, &result->reads, out);
		print_row("write", result->write_pages, result->run_ns, &result->writes, out);
	}
	fprintf(out, "ended by: %s\n", result->ended_by);
}

static void put_row(struct bench_json *json, const char *name, uint64_t pages, uint64_t ns,
		    struct touch_rates *rates)
{
	struct touch_spread spread;

	touch_rates_spread(rates, &spread);
	bench_json_open_object(json, name);
	bench_json_number(json, "mib", mib(pages * RMEM_PAGE_BYTES));
	bench_json_number(json, "mean_mibps", mib(touch_rate(pages, ns)));
	bench_json_number(json, "p50_mibps", spread.p50);
	bench_json_number(json, "p99_mibps", spread.p99);
	bench_json_number(json, "min_mibps", spread.min);
	bench_json_number(json, "max_mibps", spread.max);
	bench_json_close_object(json);
}

static void put_options(struct bench_json *json, const struct touch_options *options)
{
	bench_json_count(json, "thread_mem_mib", options->thread_mib);
	bench_json_count(json, "num_threads", options->threads);
	bench_json_count(json, "rw_ratio", options->ratio);
	bench_json_bool(json, "random", options->random);
	bench_json_text(json, "file", options->file);
	bench_json_bool(json, "verify", options->verify);
	bench_json_bool(json, "nt_stores", options->nt_stores);
	bench_json_count(json, "seed", options->seed);
}

void touch_result_json(struct touch_result *result, FILE *out)
{
	struct bench_json json;

	bench_json_init(&json, out);
	bench_json_open_object(&json, NULL);
	put_options(&json, result->options);
	bench_json_text(&json, "stores", result->stores);
	bench_json_text(&json, "ended_by", result->ended_by);
	bench_json_text(&json, "error", result->error);
	bench_json_open_object(&json, "warm_up");
	bench_json_number(&json, "seconds", seconds(result->warm_ns));
	bench_json_number(&json, "mib", mib(result->warm_pages * RMEM_PAGE_BYTES));
	bench_json_number(&json, "mean_mibps",
			  mib(touch_rate(result->warm_pages, result->warm_ns)));
	bench_json_close_object(&json);
	bench_json_open_object(&json, "run");
	bench_json_number(&json, "seconds", seconds(result->run_ns));
	bench_json_count(&json, "intervals", result->reads.seen);
	bench_json_count(&json, "stat_ival_ms", result->options->stat_ival_ms);
	put_row(&json, "read", result->read_pages, result->run_ns, &result->reads);
	put_row(&json, "write", result->write_pages, result->run_ns, &result->writes);
	bench_json_close_object(&json);
	bench_json_close_object(&json);
}
