/* SPDX-License-Identifier: Apache-2.0 */
/* Draws curves over the message size, with gnuplot. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "engine/base/error.h"
#include "engine/base/hint.h"

struct bench_plot_point {
	double x; /* bytes */
	double y, low, high;
};

struct bench_plot_curve {
	const char *name;
	const struct bench_plot_point *points;
	size_t count;
	bool on_second_axis; /* the one on the right */
};

struct bench_plot {
	const char *path; /* ends in .svg or .png */
	const char *title;
	const char *y_label;
	const char *y2_label;		       /* NULL: no second axis; it is logarithmic */
	bool is_logarithmic;		       /* the y axis; x is always */
	const struct bench_plot_curve *curves; /* the sizes of the first are named below it */
	size_t curve_count;		       /* at least 1 */
};

/* Whether gnuplot can be run and `path` be written: -ENOENT and others, with what to do. */
int bench_plot_check(const char *path, struct rmem_error *error) RMEM_MUST_CHECK;

/* Writes what gnuplot is to do. */
void bench_plot_script(const struct bench_plot *plot, FILE *out);

/* Draws it. -EIO when gnuplot fails; it says why on stderr. */
int bench_plot_draw(const struct bench_plot *plot, struct rmem_error *error) RMEM_MUST_CHECK;
