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
#include "tools/bench_ablate.h"

/* Half of what the slowest can do. */
#define RATE_SHARE 0.5

static const char *const names[BENCH_CONTENDERS] = {
	NULL,	    "ledger-requests", "ledger-records", "context",
	"snapshot", "timers",	       "all-records",	 "all-requests",
};

enum load { FULL, PACED, LOADS };

const char *bench_ablate_name(unsigned contender)
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

static void begin_arguments(const struct bench_ablate *ablate, unsigned preset,
			    struct arguments *arguments)
{
	*arguments = (struct arguments){0};
	add(arguments, "--preset", ablate->presets[preset]->name);
	add(arguments, "--repeat", "1");
}

/* What was given behind "--" goes last and so counts most. */
static void end_arguments(const struct bench_ablate *ablate, struct arguments *arguments)
{
	for (char *const *at = ablate->line->rest; *at != NULL; at++) {
		if (arguments->count < BENCH_SIBLING_ARGUMENTS)
			arguments->list[arguments->count++] = *at;
	}
	arguments->list[arguments->count] = NULL;
}

static int take_results(struct bench_ablate *ablate, struct bench_ablate_cell *cell, enum load load,
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

static int run_one(struct bench_ablate *ablate, unsigned preset, unsigned contender, enum load load,
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
static int run_all(struct bench_ablate *ablate, unsigned preset, unsigned repetition,
		   enum load load, struct rmem_error *error)
{
	for (unsigned i = 0; i < BENCH_CONTENDERS; i++) {
		unsigned contender = (i + repetition) % BENCH_CONTENDERS;
		int rc;

		bench_progress(repetition + 1, ablate->line->settings.repeat,
			       ablate->presets[preset]->name, ablate->presets[preset]->size_min);
		rc = run_one(ablate, preset, contender, load, error);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static uint64_t find_rate(const struct bench_ablate *ablate, unsigned preset)
{
	double least = INFINITY;

	for (unsigned i = 0; i < BENCH_CONTENDERS; i++)
		least = fmin(least,
			     bench_point_median(&ablate->cells[preset][i].points[0], BENCH_OPS));
	least = least * RATE_SHARE / (double)ablate->presets[preset]->reactors;
	return least >= 1 ? (uint64_t)least : 1;
}

static int measure(struct bench_ablate *ablate, enum load load, struct rmem_error *error)
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
static int count_instructions(struct bench_ablate *ablate, unsigned preset, unsigned contender,
			      struct rmem_error *error)
{
	const struct bench_preset *is = ablate->presets[preset];
	uint64_t iterations = ablate->line->settings.count / (is->batch * is->reactors) + 1;
	struct arguments arguments;

	bench_progress(contender + 1, BENCH_CONTENDERS, "callgrind", is->size_min);
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

static int count_all(struct bench_ablate *ablate, struct rmem_error *error)
{
	for (unsigned preset = 0; preset < ablate->preset_count; preset++) {
		for (unsigned contender = 0; contender < BENCH_CONTENDERS; contender++) {
			int rc = count_instructions(ablate, preset, contender, error);

			if (rc != 0)
				return rc;
		}
	}
	return 0;
}

/* --- The command ------------------------------------------------------------------------------ */

static int set_up(struct bench_ablate *ablate, struct rmem_error *error)
{
	static const char *const all[BENCH_ABLATE_PRESETS] = {"mw-chunkoff", "mw-chunkon",
							      "hi-iops", "single"};
	const struct bench_preset *one = ablate->line->settings.preset;

	for (unsigned i = 0; i < BENCH_CONTENDERS; i++) {
		int rc = bench_sibling_find(names[i], ablate->paths[i], error);

		if (rc != 0)
			return rc;
	}
	if (one != NULL)
		ablate->presets[ablate->preset_count++] = one;
	for (unsigned i = 0; one == NULL && i < BENCH_ABLATE_PRESETS; i++)
		ablate->presets[ablate->preset_count++] = bench_preset_find(all[i]);
	return 0;
}

static int run_everything(struct bench_ablate *ablate, struct rmem_error *error)
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
	struct bench_ablate *ablate = calloc(1, sizeof(*ablate));
	int rc;

	if (ablate == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	ablate->line = line;
	rc = run_everything(ablate, error);
	if (rc == 0)
		bench_ablate_report(ablate);
	for (unsigned i = 0; i < ablate->preset_count; i++) {
		for (unsigned k = 0; k < BENCH_CONTENDERS; k++) {
			struct bench_ablate_cell *cell = &ablate->cells[i][k];

			for (unsigned n = 0; n < cell->size_count; n++)
				bench_point_finish(&cell->points[n]);
			bench_point_finish(&cell->paced);
		}
	}
	free(ablate);
	return rc;
}
