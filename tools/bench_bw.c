/* SPDX-License-Identifier: Apache-2.0 */
/* rmem-bench bw: bandwidth, message rate and what they cost. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench.h"
#include "tools/bench_ground.h"
#include "tools/bench_plot.h"

struct bw {
	const struct bench_line *line;
	struct bench_ground ground;
	struct bench_rig *rig;
	struct bench_crew *crew;
	unsigned size_count;
	uint64_t sizes[BENCH_SIZES_MAX];
	struct bench_point points[BENCH_SIZES_MAX];
	struct bench_point copies[BENCH_SIZES_MAX]; /* the same without the engine, with --copy */
	struct bench_facts facts;
};

struct column {
	enum bench_metric metric;
	const char *title;
	int width, decimals;
};

static const struct column columns[] = {
	{BENCH_ITERATIONS, "batches", 9, 0},
	{BENCH_BANDWIDTH, "GB/s", 9, 3},
	{BENCH_BANDWIDTH_PEAK, "max GB/s", 9, 3},
	{BENCH_LATENCY, "us", 11, 2},
	{BENCH_LATENCY_P50, "p50 us", 11, 2},
	{BENCH_LATENCY_P99, "p99 us", 11, 2},
	{BENCH_OPS, "ops/s", 12, 0},
	{BENCH_CPU_PERCENT, "CPU %", 7, 1},
	{BENCH_CPU_NS, "CPU ns/op", 11, 1},
	{BENCH_DOORBELLS, "bells/op", 9, 4},
	{BENCH_WRS, "WRs/op", 9, 4},
	{BENCH_MERGES, "merges/op", 10, 4},
	{BENCH_TICKS, "ticks/op", 10, 1},
};

/* --- Reporting -------------------------------------------------------------------------------- */

static void collect_facts(struct bw *bw)
{
	static const char *const modes[] = {[RMEM_POLL_ADAPTIVE] = "adaptive",
					    [RMEM_POLL_BUSY] = "busy",
					    [RMEM_POLL_EVENT] = "event"};
	const struct bench_settings *settings = &bw->line->settings;
	struct bench_facts *facts = &bw->facts;

	bench_fact_text(facts, "op", settings->op == BENCH_READ ? "read" : "write");
	bench_fact_text(facts, "preset",
			settings->preset != NULL ? settings->preset->name : "none");
	bench_fact_count(facts, "reactors", settings->reactors);
	bench_fact_count(facts, "batch", settings->batch);
	bench_fact_count(facts, "in_flight", settings->in_flight);
	bench_fact_text(facts, "layout",
			settings->layout == BENCH_SCATTERED ? "scattered" : "contiguous");
	bench_fact_text(facts, "spread", settings->spread == BENCH_BY_BATCH ? "batch" : "message");
	bench_fact_text(facts, "poll", modes[bw->ground.engine.poll]);
	bench_ground_facts(&bw->ground, bw->rig, facts);
	bench_fact_note(facts, settings->layout == BENCH_SCATTERED
				       ? "Layout: no two neighbours in a batch continue each "
					 "other, so none merge."
				       : "Layout: neighbours in a batch continue each other and "
					 "merge up to the chunk size.");
	if (bench_is_stopped())
		bench_fact_note(facts, "Stopped early: this is what was measured until then.");
}

static void print_row(const struct bench_point *point, const struct bench_point *copy)
{
	struct bench_summary bandwidth;

	printf("%10llu", (unsigned long long)point->bytes);
	for (size_t i = 0; i < RMEM_COUNT_OF(columns); i++)
		printf(" %*.*f", columns[i].width, columns[i].decimals,
		       bench_point_median(point, columns[i].metric));
	bench_point_summary(point, BENCH_BANDWIDTH, &bandwidth);
	printf(" %8.1f", bandwidth.spread_percent);
	if (copy->runs > 0)
		printf(" %10.3f %11.1f", bench_point_median(copy, BENCH_BANDWIDTH),
		       bench_point_median(copy, BENCH_CPU_NS));
	putchar('\n');
}

static void print_table(const struct bw *bw)
{
	bench_facts_print(&bw->facts, "bw", stdout);
	puts("# Medians of the repetitions; spread is that of GB/s, (max - min) / median. GB are "
	     "10^9 bytes.\n"
	     "# us: from submitting a batch to its end. CPU: of the reactors' threads. Batches: of "
	     "all reactors.");
	printf("#%9s", "bytes");
	for (size_t i = 0; i < RMEM_COUNT_OF(columns); i++)
		printf(" %*s", columns[i].width, columns[i].title);
	printf(" %8s", "spread %");
	if (bw->line->settings.copy)
		printf(" %10s %11s", "copy GB/s", "CPU ns/op");
	putchar('\n');
	for (unsigned i = 0; i < bw->size_count; i++) {
		if (bw->points[i].runs > 0)
			print_row(&bw->points[i], &bw->copies[i]);
	}
}

static void print_json(const struct bw *bw)
{
	struct bench_json json;

	bench_json_init(&json, stdout);
	bench_json_open_object(&json, NULL);
	bench_facts_json(&bw->facts, "bw", &json);
	bench_json_bool(&json, "interrupted", bench_is_stopped());
	bench_json_open_array(&json, "results");
	for (unsigned i = 0; i < bw->size_count; i++) {
		if (bw->points[i].runs == 0)
			continue;
		bench_json_open_object(&json, NULL);
		bench_json_count(&json, "bytes", bw->points[i].bytes);
		bench_point_json(&bw->points[i], &json);
		if (bw->copies[i].runs > 0) {
			bench_json_open_object(&json, "copy");
			bench_point_json(&bw->copies[i], &json);
			bench_json_close_object(&json);
		}
		bench_json_close_object(&json);
	}
	bench_json_close_array(&json);
	bench_json_close_object(&json);
}

/* A curve of one metric; returns how many points it has. */
static size_t make_curve(const struct bw *bw, enum bench_metric metric,
			 struct bench_plot_point points[BENCH_SIZES_MAX])
{
	size_t count = 0;

	for (unsigned i = 0; i < bw->size_count; i++) {
		struct bench_summary summary;

		if (bw->points[i].runs == 0)
			continue;
		bench_point_summary(&bw->points[i], metric, &summary);
		points[count++] = (struct bench_plot_point){
			.x = (double)bw->points[i].bytes,
			.y = summary.median,
			.low = summary.min,
			.high = summary.max,
		};
	}
	return count;
}

static int draw(const struct bw *bw, struct rmem_error *error)
{
	const struct bench_settings *settings = &bw->line->settings;
	struct bench_plot_point bandwidth[BENCH_SIZES_MAX], latency[BENCH_SIZES_MAX];
	const struct bench_plot_curve curves[] = {
		{"bandwidth", bandwidth, make_curve(bw, BENCH_BANDWIDTH, bandwidth), false},
		{"latency of a batch (right)", latency, make_curve(bw, BENCH_LATENCY, latency),
		 true},
	};
	char title[160];
	struct bench_plot plot = {
		.path = settings->plot,
		.title = title,
		.y_label = "GB/s",
		.y2_label = "us",
		.curves = curves,
		.curve_count = RMEM_COUNT_OF(curves),
	};

	snprintf(title, sizeof(title), "%s: %s, reactors %llu, lanes %u, batch %llu",
		 settings->preset != NULL ? settings->preset->name : "rmem-bench bw",
		 settings->op == BENCH_READ ? "read" : "write",
		 (unsigned long long)settings->reactors, bw->ground.engine.lanes,
		 (unsigned long long)settings->batch);
	return bench_plot_draw(&plot, error);
}

static int report(struct bw *bw, struct rmem_error *error)
{
	collect_facts(bw);
	if (bw->line->settings.json)
		print_json(bw);
	else
		print_table(bw);
	return bw->line->settings.plot != NULL ? draw(bw, error) : 0;
}

/* --- Measuring -------------------------------------------------------------------------------- */

static int measure_one(struct bw *bw, struct bench_load *load, struct bench_point *point,
		       struct rmem_error *error)
{
	struct bench_result result;
	int rc;

	load->seed++;
	rc = bench_crew_measure(bw->crew, load, &result, error);
	if (rc == 0)
		bench_point_add(point, &result);
	return rc;
}

/* All sizes, and all over again: what drifts while it runs meets every size alike. */
static int measure(struct bw *bw, struct rmem_error *error)
{
	const struct bench_settings *settings = &bw->line->settings;
	struct bench_load load, copy;

	bench_ground_load(&bw->ground, &load);
	load.op = settings->op == BENCH_READ ? RMEM_READ : RMEM_WRITE;
	for (unsigned run = 0; run < settings->repeat; run++) {
		for (unsigned i = 0; i < bw->size_count; i++) {
			int rc;

			load.size_bytes = bw->sizes[i];
			bench_progress(run + 1, settings->repeat, "messages of", bw->sizes[i]);
			rc = measure_one(bw, &load, &bw->points[i], error);
			copy = load;
			copy.bare = true;
			copy.verify = false;
			if (rc == 0 && settings->copy)
				rc = measure_one(bw, &copy, &bw->copies[i], error);
			if (rc != 0)
				return rc;
		}
	}
	return 0;
}

static int set_up(struct bw *bw, struct rmem_error *error)
{
	int rc = bench_ground_init(&bw->ground, bw->line, error);

	if (rc == 0)
		rc = bench_ground_rig(&bw->ground, bw->ground.engine.poll, &bw->rig, error);
	if (rc == 0)
		rc = bench_crew_create(bw->rig, bench_ground_samples(&bw->ground), &bw->crew,
				       error);
	for (unsigned i = 0; rc == 0 && i < bw->size_count; i++) {
		unsigned runs = (unsigned)bw->line->settings.repeat;

		rc = bench_point_init(&bw->points[i], bw->sizes[i], runs, error);
		if (rc == 0)
			rc = bench_point_init(&bw->copies[i], bw->sizes[i], runs, error);
	}
	return rc;
}

int bench_bw(const struct bench_line *line, struct rmem_error *error)
{
	struct bw *bw = calloc(1, sizeof(*bw));
	int rc;

	if (bw == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	bw->line = line;
	bw->size_count = bench_settings_sizes(&line->settings, bw->sizes);
	rc = set_up(bw, error);
	if (rc == 0) {
		rc = measure(bw, error);
		bench_progress_end();
	}
	if (rc == 0 || (rc == -ECANCELED && bw->points[0].runs > 0))
		rc = report(bw, error);
	for (unsigned i = 0; i < bw->size_count; i++) {
		bench_point_finish(&bw->points[i]);
		bench_point_finish(&bw->copies[i]);
	}
	bench_crew_destroy(bw->crew);
	bench_rig_destroy(bw->rig);
	bench_ground_finish(&bw->ground);
	free(bw);
	return rc;
}
