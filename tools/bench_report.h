/* SPDX-License-Identifier: Apache-2.0 */
/* What both commands of rmem-bench have in common when they report: the figures of a point over the
 * repetitions, the facts of a run, and notes for who reads them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/bench_crew.h"
#include "tools/bench_json.h"
#include "tools/bench_numbers.h"

/* --- Points ----------------------------------------------------------------------------------- */

/* One size (and operation, and mode), measured again and again. */
struct bench_point {
	uint64_t bytes;
	unsigned runs, runs_max;
	double *values; /* of run r and metric m at r * BENCH_METRICS + m */
	double *scratch;
};

/* -ENOMEM. */
int bench_point_init(struct bench_point *point, uint64_t bytes, unsigned runs_max,
		     struct rmem_error *error) RMEM_MUST_CHECK;
/* A zeroed one is fine. */
void bench_point_finish(struct bench_point *point);

void bench_point_add(struct bench_point *point, const struct bench_result *result);
void bench_point_summary(const struct bench_point *point, enum bench_metric metric,
			 struct bench_summary *summary);
double bench_point_median(const struct bench_point *point, enum bench_metric metric);

/* "bandwidth_gb_per_s" */
const char *bench_metric_name(enum bench_metric metric);

/* Writes every metric with median, least, most and spread, inside an open object. */
void bench_point_json(const struct bench_point *point, struct bench_json *json);

/* --- Facts and notes -------------------------------------------------------------------------- */

enum bench_fact_kind { BENCH_FACT_TEXT, BENCH_FACT_COUNT, BENCH_FACT_SIZE };

struct bench_fact {
	const char *name; /* a constant */
	enum bench_fact_kind kind;
	uint64_t number;
	char text[96];
};

#define BENCH_FACTS_MAX 32
#define BENCH_NOTES_MAX 8

struct bench_facts {
	unsigned count, note_count;
	struct bench_fact facts[BENCH_FACTS_MAX];
	char notes[BENCH_NOTES_MAX][320];
};

void bench_fact_text(struct bench_facts *facts, const char *name, const char *text);
void bench_fact_count(struct bench_facts *facts, const char *name, uint64_t number);
void bench_fact_size(struct bench_facts *facts, const char *name, uint64_t bytes);
void bench_fact_note(struct bench_facts *facts, const char *format, ...) RMEM_PRINTF(2, 3);

/* As lines that begin with '#'. `command` is "bw". */
void bench_facts_print(const struct bench_facts *facts, const char *command, FILE *out);
/* As members of an open object: program, version, command, parameters, notes. */
void bench_facts_json(const struct bench_facts *facts, const char *command,
		      struct bench_json *json);

/* --- While it runs ---------------------------------------------------------------------------- */

/* Says on stderr how far it is, if that is a terminal: of repetition `run` of `runs`, what. */
void bench_progress(unsigned run, uint64_t runs, const char *what, uint64_t bytes);
/* Takes that away. */
void bench_progress_end(void);
