/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_ablate.h"

#include <math.h>

/* --- Comparing -------------------------------------------------------------------------------- */

/* How much of `theirs` in percent ours is less (or `ours` more, for what is better when it is
 * more), repetition by repetition. */
static void compare(const struct bench_point *ours, const struct bench_point *theirs,
		    enum bench_metric metric, struct bench_summary *summary)
{
	double gains[1000];
	unsigned runs = ours->runs < theirs->runs ? ours->runs : theirs->runs;

	for (unsigned i = 0; i < runs; i++) {
		double a = ours->values[(size_t)i * BENCH_METRICS + metric];
		double b = theirs->values[(size_t)i * BENCH_METRICS + metric];

		gains[i] = 100 * (metric == BENCH_OPS ? a / b - 1 : 1 - a / b);
	}
	bench_summarize(gains, runs, summary);
}

/* The mean over all sizes of a sweep: of ratios, so geometric. */
static double mean_gain(const struct bench_ablate_cell *ours,
			const struct bench_ablate_cell *theirs, enum bench_metric metric,
			double *least)
{
	double sum = 0;

	*least = INFINITY;
	for (unsigned i = 0; i < ours->size_count; i++) {
		struct bench_summary gain;

		compare(&ours->points[i], &theirs->points[i], metric, &gain);
		*least = fmin(*least, gain.median);
		sum += metric == BENCH_OPS ? log1p(gain.median / 100) : -log1p(-gain.median / 100);
	}
	sum /= ours->size_count;
	return 100 * (metric == BENCH_OPS ? expm1(sum) : -expm1(-sum));
}

/* --- Reporting -------------------------------------------------------------------------------- */

/* Median, spread and best, and what ours is better: by the median of repetitions, and best against
 * best. */
static void print_cost(const struct bench_point *point, const struct bench_point *ours,
		       enum bench_metric metric, double unit)
{
	struct bench_summary theirs, our, gain;
	double best, best_gain;

	bench_point_summary(point, metric, &theirs);
	bench_point_summary(ours, metric, &our);
	compare(ours, point, metric, &gain);
	best = metric == BENCH_OPS ? theirs.max : theirs.min;
	best_gain = 100 * (metric == BENCH_OPS ? our.max / best - 1 : 1 - our.min / best);
	printf(" %9.2f %4.0f %9.2f %7.1f (%5.1f)", theirs.median / unit, theirs.spread_percent,
	       best / unit, gain.median, best_gain);
}

static void print_contender(const struct bench_ablate *ablate, unsigned preset, unsigned contender)
{
	const struct bench_ablate_cell *cell = &ablate->cells[preset][contender];
	const struct bench_ablate_cell *ours = &ablate->cells[preset][0];

	printf("%-16s", bench_ablate_name(contender));
	print_cost(&cell->points[0], &ours->points[0], BENCH_CPU_NS, 1);
	printf(" %8.1f %8.1f", bench_point_median(&cell->points[0], BENCH_TICKS),
	       cell->instructions);
	print_cost(&cell->points[0], &ours->points[0], BENCH_OPS, 1e6);
	print_cost(&cell->paced, &ours->paced, BENCH_CPU_NS, 1);
	putchar('\n');
}

static void print_sweep(const struct bench_ablate *ablate, unsigned preset)
{
	const struct bench_ablate_cell *ours = &ablate->cells[preset][0];

	if (ours->size_count < 2)
		return;
	printf("# over all %u sizes:   saved %%  (least)   gained %%  (least)\n", ours->size_count);
	for (unsigned i = 1; i < BENCH_CONTENDERS; i++) {
		const struct bench_ablate_cell *cell = &ablate->cells[preset][i];
		double least_saved, least_gained;
		double saved = mean_gain(ours, cell, BENCH_CPU_NS, &least_saved);
		double gained = mean_gain(ours, cell, BENCH_OPS, &least_gained);

		printf("%-16s      %9.1f %8.1f %11.1f %8.1f\n", bench_ablate_name(i), saved,
		       least_saved, gained, least_gained);
	}
}

static void print_preset(const struct bench_ablate *ablate, unsigned preset)
{
	const struct bench_preset *is = ablate->presets[preset];
	char size[BENCH_SIZE_TEXT];

	printf("\n# %s: messages of %s, batches of %llu, %llu reactors; at full load, and at %.3f "
	       "million messages/s\n",
	       is->name, bench_size_text(is->size_min, size), (unsigned long long)is->batch,
	       (unsigned long long)is->reactors,
	       (double)(ablate->rates[preset] * is->reactors) / 1e6);
	printf("# %-14s %9s %4s %9s %15s %8s %8s %9s %4s %9s %15s %9s %4s %9s %15s\n", "with",
	       "CPU ns/op", "+-%", "best", "saved % (best)", "ticks/op", "instr/op", "Mops/s",
	       "+-%", "best", "gained % (best)", "CPU ns/op", "+-%", "best", "saved % (best)");
	for (unsigned i = 0; i < BENCH_CONTENDERS; i++)
		print_contender(ablate, preset, i);
	print_sweep(ablate, preset);
}

static void print_table(const struct bench_ablate *ablate)
{
	printf("# rmem-bench " RMEM_VERSION " ablate: %llu repetitions in turn, each run at most "
	       "%llu ms a size\n"
	       "# The engine, and the engine with one module as it was before (tools/ablation), or "
	       "all of them.\n"
	       "# saved: CPU time that ours needs less than that one; gained: messages that ours "
	       "moves more.\n"
	       "# Medians; +-%%: (max - min) / median; best: of all repetitions. What is saved and "
	       "gained is the median of\n"
	       "# what it is in each repetition, and best against best, which other programs "
	       "disturb least.\n"
	       "# instr/op: by callgrind; 0: not counted.\n",
	       (unsigned long long)ablate->line->settings.repeat,
	       (unsigned long long)ablate->line->settings.limit_us / 1000);
	for (unsigned i = 0; i < ablate->preset_count; i++)
		print_preset(ablate, i);
}

static void json_gain(struct bench_json *json, const char *name, const struct bench_point *ours,
		      const struct bench_point *theirs, enum bench_metric metric)
{
	struct bench_summary gain;

	compare(ours, theirs, metric, &gain);
	bench_json_open_object(json, name);
	bench_json_number(json, "median", gain.median);
	bench_json_number(json, "min", gain.min);
	bench_json_number(json, "max", gain.max);
	bench_json_close_object(json);
}

static void json_point(struct bench_json *json, const char *name, const struct bench_point *ours,
		       const struct bench_point *point)
{
	bench_json_open_object(json, name);
	bench_json_count(json, "bytes", point->bytes);
	bench_point_json(point, json);
	json_gain(json, "cpu_saved_percent", ours, point, BENCH_CPU_NS);
	json_gain(json, "ops_gained_percent", ours, point, BENCH_OPS);
	bench_json_close_object(json);
}

static void json_cell(struct bench_json *json, const struct bench_ablate *ablate, unsigned preset,
		      unsigned contender)
{
	const struct bench_ablate_cell *cell = &ablate->cells[preset][contender];
	const struct bench_ablate_cell *ours = &ablate->cells[preset][0];

	bench_json_open_object(json, NULL);
	bench_json_text(json, "with", bench_ablate_name(contender));
	bench_json_number(json, "instructions_per_op", cell->instructions);
	bench_json_open_array(json, "full_load");
	for (unsigned i = 0; i < cell->size_count; i++)
		json_point(json, NULL, &ours->points[i], &cell->points[i]);
	bench_json_close_array(json);
	json_point(json, "equal_throughput", &ours->paced, &cell->paced);
	bench_json_close_object(json);
}

static void print_json(const struct bench_ablate *ablate)
{
	struct bench_json json;

	bench_json_init(&json, stdout);
	bench_json_open_object(&json, NULL);
	bench_json_text(&json, "program", "rmem-bench");
	bench_json_text(&json, "version", RMEM_VERSION);
	bench_json_text(&json, "command", "ablate");
	bench_json_open_array(&json, "presets");
	for (unsigned i = 0; i < ablate->preset_count; i++) {
		bench_json_open_object(&json, NULL);
		bench_json_text(&json, "preset", ablate->presets[i]->name);
		bench_json_count(&json, "rate_per_reactor", ablate->rates[i]);
		bench_json_open_array(&json, "results");
		for (unsigned contender = 0; contender < BENCH_CONTENDERS; contender++)
			json_cell(&json, ablate, i, contender);
		bench_json_close_array(&json);
		bench_json_close_object(&json);
	}
	bench_json_close_array(&json);
	bench_json_close_object(&json);
}

void bench_ablate_report(const struct bench_ablate *ablate)
{
	if (ablate->line->settings.json)
		print_json(ablate);
	else
		print_table(ablate);
}
