/* SPDX-License-Identifier: Apache-2.0 */
/* rmem-bench lat: the latency of single operations in every poll mode, and what the modes cost when
 * there is nothing to do. Each mode has an engine of its own; they take turns. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench.h"
#include "tools/bench_ground.h"
#include "tools/bench_plot.h"
#include "tools/bench_send.h"

enum { MODES = 3, OPS = 3 };

static const struct mode {
	enum rmem_poll_mode mode;
	const char *name;
} modes[MODES] = {
	{RMEM_POLL_BUSY, "busy"},
	{RMEM_POLL_EVENT, "event"},
	{RMEM_POLL_ADAPTIVE, "adaptive"},
};

static const char *const op_names[] = {
	[BENCH_WRITE] = "write", [BENCH_READ] = "read", [BENCH_SEND] = "send",
	[BENCH_BOTH] = "both",	 [BENCH_ALL] = "all",
};

struct lat {
	const struct bench_line *line;
	struct bench_ground ground;
	struct bench_rig *rigs[MODES];
	struct bench_crew *crews[MODES];
	struct bench_send *send;
	struct bench_idle idle[MODES];
	unsigned size_count;
	uint64_t sizes[BENCH_SIZES_MAX];
	struct bench_point points[BENCH_SIZES_MAX][OPS][MODES]; /* by enum bench_op */
	struct bench_facts facts;
};

static bool has_op(const struct lat *lat, unsigned op)
{
	uint64_t wanted = lat->line->settings.op;

	return wanted == op || wanted == BENCH_ALL || (wanted == BENCH_BOTH && op != BENCH_SEND);
}

/* --- Reporting -------------------------------------------------------------------------------- */

static void collect_facts(struct lat *lat)
{
	struct bench_facts *facts = &lat->facts;

	bench_fact_text(facts, "op", op_names[lat->line->settings.op]);
	bench_ground_facts(&lat->ground, lat->rigs[0], facts);
	if (bench_ground_is_shm(&lat->ground))
		bench_fact_note(facts,
				"Over shm the reactor copies the bytes while it posts: there is "
				"nothing to wait for, and the modes differ only when idle.");
	if (has_op(lat, BENCH_SEND))
		bench_fact_note(facts, "send: until the echo has written as much back. Both ends "
				       "wait in the same mode.");
	if (bench_is_stopped())
		bench_fact_note(facts, "Stopped early: this is what was measured until then.");
}

static bool has_idle(const struct lat *lat)
{
	return lat->idle[MODES - 1].seconds > 0;
}

static void print_row(const struct lat *lat, unsigned size, unsigned op)
{
	printf("%10llu %-5s", (unsigned long long)lat->sizes[size], op_names[op]);
	for (unsigned mode = 0; mode < MODES; mode++) {
		const struct bench_point *point = &lat->points[size][op][mode];

		printf(" %10.2f %9.2f %9.2f %6.1f", bench_point_median(point, BENCH_LATENCY),
		       bench_point_median(point, BENCH_LATENCY_P50),
		       bench_point_median(point, BENCH_LATENCY_P99),
		       bench_point_median(point, BENCH_CPU_PERCENT));
	}
	putchar('\n');
}

static bool is_measured(const struct lat *lat, unsigned size, unsigned op)
{
	return has_op(lat, op) && lat->points[size][op][MODES - 1].runs > 0;
}

static void print_table(const struct lat *lat)
{
	bench_facts_print(&lat->facts, "lat", stdout);
	puts("# usec from submitting an operation to its end: mean, p50 and p99, and CPU % of the "
	     "reactor's thread;\n# each is the median of the repetitions.");
	printf("#%9s %-5s", "", "");
	for (unsigned mode = 0; mode < MODES; mode++)
		printf(" %10s %9s %9s %6s", modes[mode].name, "", "", "");
	printf("\n#%9s %-5s", "bytes", "op");
	for (unsigned mode = 0; mode < MODES; mode++)
		printf(" %10s %9s %9s %6s", "us", "p50 us", "p99 us", "CPU %");
	putchar('\n');
	for (unsigned op = 0; op < OPS; op++) {
		for (unsigned size = 0; size < lat->size_count; size++) {
			if (is_measured(lat, size, op))
				print_row(lat, size, op);
		}
	}
	if (!has_idle(lat))
		return;
	puts("#\n# Idle: CPU seconds a second.");
	printf("#%9s %9s %9s\n", "mode", "reactor", "process");
	for (unsigned mode = 0; mode < MODES; mode++)
		printf("%10s %9.4f %9.4f\n", modes[mode].name,
		       lat->idle[mode].reactor_seconds / lat->idle[mode].seconds,
		       lat->idle[mode].process_seconds / lat->idle[mode].seconds);
}

static void idle_json(const struct lat *lat, struct bench_json *json)
{
	bench_json_open_object(json, "idle");
	for (unsigned mode = 0; mode < MODES && has_idle(lat); mode++) {
		bench_json_open_object(json, modes[mode].name);
		bench_json_number(json, "seconds", lat->idle[mode].seconds);
		bench_json_number(json, "reactor_cpu_seconds", lat->idle[mode].reactor_seconds);
		bench_json_number(json, "process_cpu_seconds", lat->idle[mode].process_seconds);
		bench_json_close_object(json);
	}
	bench_json_close_object(json);
}

static void point_json(const struct lat *lat, unsigned size, unsigned op, struct bench_json *json)
{
	bench_json_open_object(json, NULL);
	bench_json_count(json, "bytes", lat->sizes[size]);
	bench_json_text(json, "op", op_names[op]);
	for (unsigned mode = 0; mode < MODES; mode++) {
		bench_json_open_object(json, modes[mode].name);
		bench_point_json(&lat->points[size][op][mode], json);
		bench_json_close_object(json);
	}
	bench_json_close_object(json);
}

static void print_json(const struct lat *lat)
{
	struct bench_json json;

	bench_json_init(&json, stdout);
	bench_json_open_object(&json, NULL);
	bench_facts_json(&lat->facts, "lat", &json);
	bench_json_bool(&json, "interrupted", bench_is_stopped());
	bench_json_open_array(&json, "results");
	for (unsigned op = 0; op < OPS; op++) {
		for (unsigned size = 0; size < lat->size_count; size++) {
			if (is_measured(lat, size, op))
				point_json(lat, size, op, &json);
		}
	}
	bench_json_close_array(&json);
	idle_json(lat, &json);
	bench_json_close_object(&json);
}

static int draw(const struct lat *lat, struct rmem_error *error)
{
	static struct bench_plot_point points[OPS * MODES][BENCH_SIZES_MAX];
	struct bench_plot_curve curves[OPS * MODES];
	char names[OPS * MODES][32];
	struct bench_plot plot = {
		.path = lat->line->settings.plot,
		.title = "rmem-bench lat",
		.y_label = "us per operation",
		.is_logarithmic = true,
		.curves = curves,
	};

	for (unsigned i = 0; i < OPS * MODES; i++) {
		unsigned op = i / MODES, mode = i % MODES;
		struct bench_plot_curve *curve = &curves[plot.curve_count];
		struct bench_plot_point *at = points[plot.curve_count];

		*curve = (struct bench_plot_curve){.name = names[plot.curve_count], .points = at};
		snprintf(names[plot.curve_count], sizeof(names[0]), "%s, %s", op_names[op],
			 modes[mode].name);
		for (unsigned size = 0; size < lat->size_count; size++) {
			struct bench_summary summary;

			if (!is_measured(lat, size, op))
				continue;
			bench_point_summary(&lat->points[size][op][mode], BENCH_LATENCY, &summary);
			at[curve->count++] = (struct bench_plot_point){
				(double)lat->sizes[size], summary.median, summary.min, summary.max};
		}
		if (curve->count > 0)
			plot.curve_count++;
	}
	return bench_plot_draw(&plot, error);
}

static int report(struct lat *lat, struct rmem_error *error)
{
	collect_facts(lat);
	if (lat->line->settings.json)
		print_json(lat);
	else
		print_table(lat);
	return lat->line->settings.plot != NULL ? draw(lat, error) : 0;
}

/* --- Measuring -------------------------------------------------------------------------------- */

static int measure_one(struct lat *lat, const struct bench_load *load, unsigned op, unsigned mode,
		       struct bench_result *result, struct rmem_error *error)
{
	if (op == BENCH_SEND)
		return bench_send_measure(lat->send, load, modes[mode].mode, result, error);
	return bench_crew_measure(lat->crews[mode], load, result, error);
}

static int measure_modes(struct lat *lat, struct bench_load *load, unsigned size, unsigned op,
			 struct rmem_error *error)
{
	struct bench_result result;

	load->op = op == BENCH_READ ? RMEM_READ : RMEM_WRITE;
	load->size_bytes = lat->sizes[size];
	for (unsigned mode = 0; mode < MODES; mode++) {
		int rc;

		load->seed++;
		rc = measure_one(lat, load, op, mode, &result, error);
		if (rc != 0)
			return rc;
		bench_point_add(&lat->points[size][op][mode], &result);
	}
	return 0;
}

/* Modes in turn within operations within sizes, and all over again. */
static int measure(struct lat *lat, struct rmem_error *error)
{
	const struct bench_settings *settings = &lat->line->settings;
	struct bench_load load;

	bench_ground_load(&lat->ground, &load);
	for (unsigned run = 0; run < settings->repeat; run++) {
		for (unsigned size = 0; size < lat->size_count; size++) {
			for (unsigned op = 0; op < OPS; op++) {
				int rc = 0;

				bench_progress(run + 1, settings->repeat, op_names[op],
					       lat->sizes[size]);
				if (has_op(lat, op))
					rc = measure_modes(lat, &load, size, op, error);
				if (rc != 0)
					return rc;
			}
		}
	}
	return 0;
}

static int measure_idle(struct lat *lat, struct rmem_error *error)
{
	uint64_t idle_us = lat->line->settings.idle_us;
	int rc = 0;

	for (unsigned mode = 0; mode < MODES && rc == 0 && idle_us > 0; mode++)
		rc = bench_crew_idle(lat->crews[mode], idle_us, &lat->idle[mode], error);
	return rc;
}

static int init_points(struct lat *lat, struct rmem_error *error)
{
	struct bench_point *all = &lat->points[0][0][0];
	int rc = 0;

	for (size_t i = 0; i < (size_t)lat->size_count * OPS * MODES && rc == 0; i++)
		rc = bench_point_init(&all[i], lat->sizes[i / (OPS * MODES)],
				      (unsigned)lat->line->settings.repeat, error);
	return rc;
}

static int set_up(struct lat *lat, struct rmem_error *error)
{
	int rc = bench_ground_init(&lat->ground, lat->line, error);

	for (unsigned mode = 0; mode < MODES && rc == 0; mode++) {
		rc = bench_ground_rig(&lat->ground, modes[mode].mode, &lat->rigs[mode], error);
		if (rc == 0)
			rc = bench_crew_create(lat->rigs[mode], bench_ground_samples(&lat->ground),
					       &lat->crews[mode], error);
	}
	if (rc == 0 && has_op(lat, BENCH_SEND))
		rc = bench_send_create(&lat->ground, bench_ground_samples(&lat->ground), &lat->send,
				       error);
	return rc == 0 ? init_points(lat, error) : rc;
}

static void tear_down(struct lat *lat)
{
	struct bench_point *all = &lat->points[0][0][0];

	for (size_t i = 0; i < (size_t)lat->size_count * OPS * MODES; i++)
		bench_point_finish(&all[i]);
	bench_send_destroy(lat->send);
	for (unsigned mode = 0; mode < MODES; mode++) {
		bench_crew_destroy(lat->crews[mode]);
		bench_rig_destroy(lat->rigs[mode]);
	}
	bench_ground_finish(&lat->ground);
}

int bench_lat(const struct bench_line *line, struct rmem_error *error)
{
	struct lat *lat = calloc(1, sizeof(*lat));
	bool has_any;
	int rc;

	if (lat == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	lat->line = line;
	lat->size_count = bench_settings_sizes(&line->settings, lat->sizes);
	rc = set_up(lat, error);
	if (rc == 0) {
		rc = measure(lat, error);
		if (rc == 0)
			rc = measure_idle(lat, error);
		bench_progress_end();
	}
	has_any = is_measured(lat, 0, BENCH_WRITE) || is_measured(lat, 0, BENCH_READ) ||
		  is_measured(lat, 0, BENCH_SEND);
	if (rc == 0 || (rc == -ECANCELED && has_any))
		rc = report(lat, error);
	tear_down(lat);
	free(lat);
	return rc;
}
