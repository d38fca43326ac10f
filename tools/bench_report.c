/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_COLUMNS 96

static const char *const metric_names[BENCH_METRICS] = {
	[BENCH_ITERATIONS] = "iterations",
	[BENCH_BANDWIDTH] = "bandwidth_gb_per_s",
	[BENCH_BANDWIDTH_PEAK] = "bandwidth_peak_gb_per_s",
	[BENCH_LATENCY] = "latency_us",
	[BENCH_LATENCY_P50] = "latency_p50_us",
	[BENCH_LATENCY_P99] = "latency_p99_us",
	[BENCH_OPS] = "ops_per_s",
	[BENCH_CPU_PERCENT] = "cpu_percent",
	[BENCH_CPU_NS] = "cpu_ns_per_op",
	[BENCH_DOORBELLS] = "doorbells_per_op",
	[BENCH_WRS] = "wrs_per_op",
	[BENCH_MERGES] = "merges_per_op",
	[BENCH_TICKS] = "ticks_per_op",
};

const char *bench_metric_name(enum bench_metric metric)
{
	return metric_names[metric];
}

/* --- Points ----------------------------------------------------------------------------------- */

int bench_point_init(struct bench_point *point, uint64_t bytes, unsigned runs_max,
		     struct rmem_error *error)
{
	*point = (struct bench_point){.bytes = bytes, .runs_max = runs_max};
	point->values = calloc((size_t)runs_max * BENCH_METRICS, sizeof(double));
	point->scratch = calloc(runs_max, sizeof(double));
	if (point->values != NULL && point->scratch != NULL)
		return 0;
	bench_point_finish(point);
	return rmem_fail(error, ENOMEM, "out of memory");
}

void bench_point_finish(struct bench_point *point)
{
	free(point->values);
	free(point->scratch);
	*point = (struct bench_point){0};
}

void bench_point_add(struct bench_point *point, const struct bench_result *result)
{
	if (point->runs == point->runs_max)
		return;
	memcpy(&point->values[(size_t)point->runs * BENCH_METRICS], result->values,
	       sizeof(result->values));
	point->runs++;
}

void bench_point_summary(const struct bench_point *point, enum bench_metric metric,
			 struct bench_summary *summary)
{
	for (unsigned i = 0; i < point->runs; i++)
		point->scratch[i] = point->values[(size_t)i * BENCH_METRICS + metric];
	bench_summarize(point->scratch, point->runs, summary);
}

double bench_point_median(const struct bench_point *point, enum bench_metric metric)
{
	struct bench_summary summary;

	bench_point_summary(point, metric, &summary);
	return summary.median;
}

void bench_point_json(const struct bench_point *point, struct bench_json *json)
{
	bench_json_count(json, "repetitions", point->runs);
	for (unsigned i = 0; i < BENCH_METRICS; i++) {
		struct bench_summary summary;

		bench_point_summary(point, (enum bench_metric)i, &summary);
		bench_json_open_object(json, metric_names[i]);
		bench_json_number(json, "median", summary.median);
		bench_json_number(json, "min", summary.min);
		bench_json_number(json, "max", summary.max);
		bench_json_number(json, "spread_percent", summary.spread_percent);
		bench_json_close_object(json);
	}
}

/* --- Facts and notes -------------------------------------------------------------------------- */

static struct bench_fact *add_fact(struct bench_facts *facts, const char *name,
				   enum bench_fact_kind kind, uint64_t number)
{
	struct bench_fact *fact;

	if (facts->count < BENCH_FACTS_MAX)
		facts->count++;
	fact = &facts->facts[facts->count - 1];
	*fact = (struct bench_fact){.name = name, .kind = kind, .number = number};
	return fact;
}

void bench_fact_text(struct bench_facts *facts, const char *name, const char *text)
{
	struct bench_fact *fact = add_fact(facts, name, BENCH_FACT_TEXT, 0);

	snprintf(fact->text, sizeof(fact->text), "%s", text);
}

void bench_fact_count(struct bench_facts *facts, const char *name, uint64_t number)
{
	struct bench_fact *fact = add_fact(facts, name, BENCH_FACT_COUNT, number);

	snprintf(fact->text, sizeof(fact->text), "%" PRIu64, number);
}

void bench_fact_size(struct bench_facts *facts, const char *name, uint64_t bytes)
{
	struct bench_fact *fact = add_fact(facts, name, BENCH_FACT_SIZE, bytes);
	char text[BENCH_SIZE_TEXT];

	snprintf(fact->text, sizeof(fact->text), "%s", bench_size_text(bytes, text));
}

void bench_fact_note(struct bench_facts *facts, const char *format, ...)
{
	va_list arguments;

	if (facts->note_count == BENCH_NOTES_MAX)
		return;
	va_start(arguments, format);
	vsnprintf(facts->notes[facts->note_count++], sizeof(facts->notes[0]), format, arguments);
	va_end(arguments);
}

/* Text in lines that begin with '#', broken between words. */
static void print_wrapped(const char *text, FILE *out)
{
	int column = LINE_COLUMNS;

	while (*text != '\0') {
		int length = (int)strcspn(text, " ");

		if (column + 1 + length > LINE_COLUMNS) {
			fputs(column < LINE_COLUMNS ? "\n#" : "#", out);
			column = 1;
		}
		column += fprintf(out, " %.*s", length, text);
		text += length;
		text += strspn(text, " ");
	}
	putc('\n', out);
}

void bench_facts_print(const struct bench_facts *facts, const char *command, FILE *out)
{
	int column = fprintf(out, "# rmem-bench " RMEM_VERSION " %s:", command);

	for (unsigned i = 0; i < facts->count; i++) {
		const struct bench_fact *fact = &facts->facts[i];
		int length = (int)(strlen(fact->name) + strlen(fact->text)) + 3;

		if (column + length > LINE_COLUMNS) {
			fputs("\n#  ", out);
			column = 3;
		}
		column += fprintf(out, " %s %s%s", fact->name, fact->text,
				  i + 1 < facts->count ? "," : "");
	}
	putc('\n', out);
	for (unsigned i = 0; i < facts->note_count; i++)
		print_wrapped(facts->notes[i], out);
}

void bench_facts_json(const struct bench_facts *facts, const char *command, struct bench_json *json)
{
	bench_json_text(json, "program", "rmem-bench");
	bench_json_text(json, "version", RMEM_VERSION);
	bench_json_text(json, "command", command);
	bench_json_open_object(json, "parameters");
	for (unsigned i = 0; i < facts->count; i++) {
		const struct bench_fact *fact = &facts->facts[i];

		if (fact->kind == BENCH_FACT_TEXT)
			bench_json_text(json, fact->name, fact->text);
		else
			bench_json_count(json, fact->name, fact->number);
	}
	bench_json_close_object(json);
	bench_json_open_array(json, "notes");
	for (unsigned i = 0; i < facts->note_count; i++)
		bench_json_text(json, NULL, facts->notes[i]);
	bench_json_close_array(json);
}

/* --- While it runs ---------------------------------------------------------------------------- */

void bench_progress(unsigned run, uint64_t runs, const char *what, uint64_t bytes)
{
	char size[BENCH_SIZE_TEXT];

	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[Krepetition %u of %" PRIu64 ": %s %s", run, runs, what,
			bench_size_text(bytes, size));
}

void bench_progress_end(void)
{
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}
