/* SPDX-License-Identifier: Apache-2.0 */
/* What rmem-bench ablate measured, between who measures it and who reports it. */
#pragma once

#include "tools/bench_line.h"
#include "tools/bench_report.h"
#include "tools/bench_sibling.h"

#define BENCH_CONTENDERS     8 /* the first is this program */
#define BENCH_ABLATE_PRESETS 4

/* One contender in one preset. */
struct bench_ablate_cell {
	unsigned size_count;
	struct bench_point points[BENCH_SIZES_MAX];
	struct bench_point paced;
	double instructions; /* 0: not counted */
};

struct bench_ablate {
	const struct bench_line *line;
	unsigned preset_count;
	const struct bench_preset *presets[BENCH_ABLATE_PRESETS];
	char paths[BENCH_CONTENDERS][BENCH_SIBLING_PATH];
	struct bench_ablate_cell cells[BENCH_ABLATE_PRESETS][BENCH_CONTENDERS];
	uint64_t rates[BENCH_ABLATE_PRESETS]; /* of each reactor */
};

/* "ours", or the sibling's name. */
const char *bench_ablate_name(unsigned contender);

/* To stdout, as a table or, if the settings say so, in JSON. */
void bench_ablate_report(const struct bench_ablate *ablate);
