/* SPDX-License-Identifier: Apache-2.0 */
/* rmem-bench ablate: what each part of the engine's hot path is worth.
 *
 * Siblings of this program (tools/ablation/) have one module replaced by what it was, or all of
 * them. They and this program run bw in turn, each repetition all of them, so that what else
 * happens on the machine meets all alike; what is compared is the runs of one repetition, and what
 * is reported the median over repetitions. Each preset is run at full load and, for its smallest
 * messages, at a rate that all of them reach. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench.h"
#include "tools/bench_report.h"
#include "tools/bench_sibling.h"

#define CONTENDERS 8
#define PRESETS	   4

/* Half of what the slowest can do. */
#define RATE_SHARE 0.5

static const char *const names[CONTENDERS] = {
	NULL,	    "ledger-requests", "ledger-records", "context",
	"snapshot", "timers",	       "all-records",	 "all-requests",
};

enum load { FULL, PACED, LOADS };

/* One contender in one preset. */
struct cell {
	unsigned size_count;
	struct bench_point points[BENCH_SIZES_MAX];
	struct bench_point paced;
	double instructions; /* 0: not counted */
};

struct ablate {
	const struct bench_line *line;
	unsigned preset_count;
	const struct bench_preset *presets[PRESETS];
	char paths[CONTENDERS][BENCH_SIBLING_PATH];
	struct cell cells[PRESETS][CONTENDERS];
	uint64_t rates[PRESETS]; /* of each reactor */
};

static const char *name_of(unsigned contender)
{
	return names[contender] != NULL ? names[contender] : "ours";
}

/* --- Running ---------------------------------------------------------------------------------- */

/* The arguments of one run, and the room for those that are numbers. */
struct arguments {
	const char *list[BENCH_SIBLING_ARGUMENTS + 1];
	unsigned count;
	char texts[8][32];
	unsigned text_count;
};

static void add(struct arguments *arguments, const char *name, const char *value)
{
	if (arguments->count + 2 > BENCH_SIBLING_ARGUMENTS)
		return;
	arguments->list[arguments->count++] = name;
	arguments->list[arguments->count++] = value;
	arguments->list[arguments->count] = NULL;
}

static void add_number(struct arguments *arguments, const char *name, uint64_t value,
		       const char *unit)
{
	char *text = arguments->texts[arguments->text_count++];

	snprintf(text, sizeof(arguments->texts[0]), "%llu%s", (unsigned long long)value, unit);
	add(arguments, name, text);
}

static void begin_arguments(const struct ablate *ablate, unsigned preset,
			    struct arguments *arguments)
{
	*arguments = (struct arguments){0};
	add(arguments, "--preset", ablate->presets[preset]->name);
	add(arguments, "--repeat", "1");
}

/* What was given behind "--" goes last and so counts most. */
static void end_arguments(const struct ablate *ablate, struct arguments *arguments)
{
	for (char *const *at = ablate->line->rest; *at != NULL; at++) {
		if (arguments->count < BENCH_SIBLING_ARGUMENTS)
			arguments->list[arguments->count++] = *at;
	}
	arguments->list[arguments->count] = NULL;
}

static int take_results(struct ablate *ablate, struct cell *cell, enum load load,
			const struct bench_sibling_result *results, unsigned count,
			struct rmem_error *error)
{
	unsigned repeat = (unsigned)ablate->line->settings.repeat;
	int rc = 0;

	for (unsigned i = 0; i < count && rc == 0; i++) {
		struct bench_point *point = load == PACED ? &cell->paced : &cell->points[i];

		if (point->values == NULL)
			rc = bench_point_init(point, results[i].bytes, repeat, error);
		if (rc == 0)
			bench_point_add(point, &results[i].result);
		if (load == PACED)
			return rc;
	}
	cell->size_count = count;
	return rc;
}

static int run_one(struct ablate *ablate, unsigned preset, unsigned contender, enum load load,
		   struct rmem_error *error)
{
	struct bench_sibling_result results[BENCH_SIZES_MAX];
	const struct bench_settings *settings = &ablate->line->settings;
	struct arguments arguments;
	int count;

	begin_arguments(ablate, preset, &arguments);
	add_number(&arguments, "--limit", settings->limit_us, "us");
	if (settings->memory_bytes != 0)
		add_number(&arguments, "--memory", settings->memory_bytes, "");
	if (load == PACED) {
		add_number(&arguments, "--size", ablate->presets[preset]->size_min, "");
		add_number(&arguments, "--rate", ablate->rates[preset], "");
	}
	end_arguments(ablate, &arguments);
	count = bench_sibling_run(ablate->paths[contender], arguments.list, results, error);
	if (count < 0)
		return count;
	return take_results(ablate, &ablate->cells[preset][contender], load, results,
			    (unsigned)count, error);
}

/* Everybody once, and each first every now and then. */
static int run_all(struct ablate *ablate, unsigned preset, unsigned repetition, enum load load,
		   struct rmem_error *error)
{
	for (unsigned i = 0; i < CONTENDERS; i++) {
		unsigned contender = (i + repetition) % CONTENDERS;
		int rc;

		bench_progress(repetition + 1, ablate->line->settings.repeat,
			       ablate->presets[preset]->name, ablate->presets[preset]->size_min);
		rc = run_one(ablate, preset, contender, load, error);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static uint64_t find_rate(const struct ablate *ablate, unsigned preset)
{
	double least = INFINITY;

	for (unsigned i = 0; i < CONTENDERS; i++)
		least = fmin(least,
			     bench_point_median(&ablate->cells[preset][i].points[0], BENCH_OPS));
	least = least * RATE_SHARE / (double)ablate->presets[preset]->reactors;
	return least >= 1 ? (uint64_t)least : 1;
}

static int measure(struct ablate *ablate, enum load load, struct rmem_error *error)
{
	for (unsigned repetition = 0; repetition < ablate->line->settings.repeat; repetition++) {
		for (unsigned preset = 0; preset < ablate->preset_count; preset++) {
			int rc = run_all(ablate, preset, repetition, load, error);

			if (rc != 0)
				return rc;
		}
	}
	return 0;
}

/* Instructions are the same each time: once is enough. */
static int count_instructions(struct ablate *ablate, unsigned preset, unsigned contender,
			      struct rmem_error *error)
{
	const struct bench_preset *is = ablate->presets[preset];
	uint64_t iterations = ablate->line->settings.count / (is->batch * is->reactors) + 1;
	struct arguments arguments;

	bench_progress(contender + 1, CONTENDERS, "callgrind", is->size_min);
	begin_arguments(ablate, preset, &arguments);
	add(&arguments, "--warmup", "0");
	add(&arguments, "--limit", "0");
	add(&arguments, "--memory", "1GiB");
	add_number(&arguments, "--size", is->size_min, "");
	end_arguments(ablate, &arguments);
	add_number(&arguments, "--iterations", iterations, "");
	return bench_sibling_count(ablate->paths[contender], arguments.list,
				   (double)(iterations * is->batch * is->reactors),
				   &ablate->cells[preset][contender].instructions, error);
}

static int count_all(struct ablate *ablate, struct rmem_error *error)
{
	for (unsigned preset = 0; preset < ablate->preset_count; preset++) {
		for (unsigned contender = 0; contender < CONTENDERS; contender++) {
			int rc = count_instructions(ablate, preset, contender, error);

			if (rc != 0)
				return rc;
		}
	}
	return 0;
}

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
static double mean_gain(const struct cell *ours, const struct cell *theirs,
			enum bench_metric metric, double *least)
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

static void print_contender(const struct ablate *ablate, unsigned preset, unsigned contender)
{
	const struct cell *cell = &ablate->cells[preset][contender];
	const struct cell *ours = &ablate->cells[preset][0];

	printf("%-16s", name_of(contender));
	print_cost(&cell->points[0], &ours->points[0], BENCH_CPU_NS, 1);
	printf(" %8.1f %8.1f", bench_point_median(&cell->points[0], BENCH_TICKS),
	       cell->instructions);
	print_cost(&cell->points[0], &ours->points[0], BENCH_OPS, 1e6);
	print_cost(&cell->paced, &ours->paced, BENCH_CPU_NS, 1);
	putchar('\n');
}

static void print_sweep(const struct ablate *ablate, unsigned preset)
{
	const struct cell *ours = &ablate->cells[preset][0];

	if (ours->size_count < 2)
		return;
	printf("# over all %u sizes:   saved %%  (least)   gained %%  (least)\n", ours->size_count);
	for (unsigned i = 1; i < CONTENDERS; i++) {
		const struct cell *cell = &ablate->cells[preset][i];
		double least_saved, least_gained;
		double saved = mean_gain(ours, cell, BENCH_CPU_NS, &least_saved);
		double gained = mean_gain(ours, cell, BENCH_OPS, &least_gained);

		printf("%-16s      %9.1f %8.1f %11.1f %8.1f\n", name_of(i), saved, least_saved,
		       gained, least_gained);
	}
}

static void print_preset(const struct ablate *ablate, unsigned preset)
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
	for (unsigned i = 0; i < CONTENDERS; i++)
		print_contender(ablate, preset, i);
	print_sweep(ablate, preset);
}

static void print_table(const struct ablate *ablate)
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

static void json_cell(struct bench_json *json, const struct ablate *ablate, unsigned preset,
		      unsigned contender)
{
	const struct cell *cell = &ablate->cells[preset][contender];
	const struct cell *ours = &ablate->cells[preset][0];

	bench_json_open_object(json, NULL);
	bench_json_text(json, "with", name_of(contender));
	bench_json_number(json, "instructions_per_op", cell->instructions);
	bench_json_open_array(json, "full_load");
	for (unsigned i = 0; i < cell->size_count; i++)
		json_point(json, NULL, &ours->points[i], &cell->points[i]);
	bench_json_close_array(json);
	json_point(json, "equal_throughput", &ours->paced, &cell->paced);
	bench_json_close_object(json);
}

static void print_json(const struct ablate *ablate)
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
		for (unsigned contender = 0; contender < CONTENDERS; contender++)
			json_cell(&json, ablate, i, contender);
		bench_json_close_array(&json);
		bench_json_close_object(&json);
	}
	bench_json_close_array(&json);
	bench_json_close_object(&json);
}

/* --- The command ------------------------------------------------------------------------------ */

static int set_up(struct ablate *ablate, struct rmem_error *error)
{
	static const char *const all[PRESETS] = {"mw-chunkoff", "mw-chunkon", "hi-iops", "single"};
	const struct bench_preset *one = ablate->line->settings.preset;

	for (unsigned i = 0; i < CONTENDERS; i++) {
		int rc = bench_sibling_find(names[i], ablate->paths[i], error);

		if (rc != 0)
			return rc;
	}
	if (one != NULL)
		ablate->presets[ablate->preset_count++] = one;
	for (unsigned i = 0; one == NULL && i < PRESETS; i++)
		ablate->presets[ablate->preset_count++] = bench_preset_find(all[i]);
	return 0;
}

static int run_everything(struct ablate *ablate, struct rmem_error *error)
{
	int rc = set_up(ablate, error);

	if (rc == 0)
		rc = measure(ablate, FULL, error);
	for (unsigned i = 0; rc == 0 && i < ablate->preset_count; i++)
		ablate->rates[i] = find_rate(ablate, i);
	if (rc == 0)
		rc = measure(ablate, PACED, error);
	if (rc == 0 && ablate->line->settings.count > 0)
		rc = count_all(ablate, error);
	bench_progress_end();
	return rc;
}

int bench_ablate(const struct bench_line *line, struct rmem_error *error)
{
	struct ablate *ablate = calloc(1, sizeof(*ablate));
	int rc;

	if (ablate == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	ablate->line = line;
	rc = run_everything(ablate, error);
	if (rc == 0 && line->settings.json)
		print_json(ablate);
	else if (rc == 0)
		print_table(ablate);
	for (unsigned i = 0; i < ablate->preset_count; i++) {
		for (unsigned k = 0; k < CONTENDERS; k++) {
			struct cell *cell = &ablate->cells[i][k];

			for (unsigned n = 0; n < cell->size_count; n++)
				bench_point_finish(&cell->points[n]);
			bench_point_finish(&cell->paced);
		}
	}
	free(ablate);
	return rc;
}
