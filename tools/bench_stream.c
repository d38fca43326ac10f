/* SPDX-License-Identifier: Apache-2.0 */
/* rmem-bench stream: the speed of filling and copying with each version of the streaming stores,
 * and what reading it back costs then; and what the policy makes of mixed work. Versions take turns
 * within sizes, and everything is measured again and again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench.h"
#include "tools/bench_report.h"
#include "tools/bench_stream_work.h"
#include "tools/bench_worker.h"

enum { OPS = BENCH_STREAM_OPS, PLACES = 2, VERSIONS = RMEM_STREAM_ISAS, METRICS = 2, LAGS = 3 };

/* Pieces of mixed work: what is staged lies in between. */
#define MIX_MIN_BYTES ((size_t)4 << 10)
#define MIX_MAX_BYTES ((size_t)1 << 20)
/* Of --limit: two copies a piece, and only three contenders. */
#define MIX_LIMIT 8
/* Of writes, until it is read: at once, while a large cache has it, and when none does. */
static const size_t lags[LAGS] = {0, (size_t)4 << 20, (size_t)128 << 20};

static const char *const op_names[OPS] = {
	[BENCH_STREAM_FILL] = "fill", [BENCH_STREAM_COPY] = "copy"};
static const char *const place_names[PLACES] = {"warm", "cold"};
static const char *const metric_names[METRICS] = {"write_gb_per_s", "read_back_gb_per_s"};
static const char *const mix_names[BENCH_MIXES] = {"plain", "streamed", "policy"};

struct stream {
	const struct bench_line *line;
	struct bench_stream_area area;
	struct bench_facts facts;
	enum rmem_stream_isa configured;
	unsigned runs, version_count, size_count;
	enum rmem_stream_isa versions[VERSIONS]; /* plain first */
	uint64_t sizes[BENCH_SIZES_MAX];
	/* By run, as everything that follows: see value_of() and mix_of(). */
	double *values, *mixes, *scratch;
};

/* --- Figures ---------------------------------------------------------------------------------- */

static double *values_of(const struct stream *stream, unsigned op, unsigned place, unsigned size,
			 unsigned version, unsigned metric)
{
	size_t cell = ((op * PLACES + place) * stream->size_count + size) * VERSIONS + version;

	return &stream->values[(cell * METRICS + metric) * stream->line->settings.repeat];
}

static double *mixes_of(const struct stream *stream, unsigned size, unsigned lag, unsigned mix)
{
	size_t cell = (size * LAGS + lag) * BENCH_MIXES + mix;

	return &stream->mixes[cell * stream->line->settings.repeat];
}

static void summarize(const struct stream *stream, const double *values,
		      struct bench_summary *summary)
{
	memcpy(stream->scratch, values, stream->runs * sizeof(*values));
	bench_summarize(stream->scratch, stream->runs, summary);
}

static double median(const struct stream *stream, const double *values)
{
	struct bench_summary summary;

	summarize(stream, values, &summary);
	return summary.median;
}

/* The median of each run's own ratio: what drifts from run to run leaves both sides alike. */
static double ratio(const struct stream *stream, const double *values, const double *base)
{
	struct bench_summary summary;

	for (unsigned i = 0; i < stream->runs; i++)
		stream->scratch[i] = values[i] / base[i];
	bench_summarize(stream->scratch, stream->runs, &summary);
	return summary.median;
}

static bool is_mixed(uint64_t size)
{
	return size >= MIX_MIN_BYTES && size <= MIX_MAX_BYTES;
}

/* --- Reporting -------------------------------------------------------------------------------- */

static void collect_facts(struct stream *stream)
{
	struct bench_facts *facts = &stream->facts;
	const struct bench_settings *settings = &stream->line->settings;

	bench_fact_count(facts, "repeat", settings->repeat);
	bench_fact_count(facts, "limit_us", settings->limit_us);
	bench_fact_size(facts, "area", stream->area.bytes);
	bench_fact_text(facts, "streaming", rmem_stream_isa_name(stream->configured));
	if (stream->area.arena.stream_threshold_bytes == RMEM_STREAM_NEVER)
		bench_fact_text(facts, "threshold", "never");
	else
		bench_fact_size(facts, "threshold", stream->area.arena.stream_threshold_bytes);
	bench_fact_note(facts,
			"GB are 10^9 bytes, by one thread, medians of the repetitions. Warm: the "
			"destination is in a cache as far as it fits; cold: it is in none. The "
			"source is always warm.");
	bench_fact_note(facts,
			"back: reading what was just written, in batches of %zu KiB or a piece.",
			BENCH_STREAM_BATCH_BYTES >> 10);
	if (bench_is_stopped())
		bench_fact_note(facts, "Stopped early: this is what was measured until then.");
}

static const char *version_name(enum rmem_stream_isa isa)
{
	return isa == RMEM_STREAM_OFF ? "plain" : rmem_stream_isa_name(isa);
}

static void print_row(const struct stream *stream, unsigned op, unsigned place, unsigned size)
{
	unsigned best = stream->version_count - 1;

	printf("%10llu %-4s %-4s", (unsigned long long)stream->sizes[size], op_names[op],
	       place_names[place]);
	for (unsigned version = 0; version < stream->version_count; version++)
		printf(" %9.2f %8.2f",
		       median(stream, values_of(stream, op, place, size, version, 0)),
		       median(stream, values_of(stream, op, place, size, version, 1)));
	printf(" %8.2f %8.2f\n",
	       ratio(stream, values_of(stream, op, place, size, best, 0),
		     values_of(stream, op, place, size, 0, 0)),
	       ratio(stream, values_of(stream, op, place, size, best, 1),
		     values_of(stream, op, place, size, 0, 1)));
}

static void print_mix(const struct stream *stream, unsigned size, unsigned lag)
{
	const double *plain = mixes_of(stream, size, lag, BENCH_MIX_PLAIN);

	printf("%10llu %10zu", (unsigned long long)stream->sizes[size], lags[lag]);
	for (unsigned mix = 0; mix < BENCH_MIXES; mix++)
		printf(" %9.2f", median(stream, mixes_of(stream, size, lag, mix)));
	printf(" %15.3f %15.3f\n",
	       ratio(stream, mixes_of(stream, size, lag, BENCH_MIX_STREAMED), plain),
	       ratio(stream, mixes_of(stream, size, lag, BENCH_MIX_POLICY), plain));
}

static void print_mixes(const struct stream *stream)
{
	puts("#\n# Mixed: writes a piece to cold memory, reads the one back that was written so "
	     "many "
	     "bytes of writes\n# before (0: the same), and so on. GB/s written.");
	printf("#%9s %10s %9s %9s %9s %15s %15s\n", "bytes", "read after", "plain", "streamed",
	       "policy", "streamed/plain", "policy/plain");
	for (unsigned lag = 0; lag < LAGS; lag++) {
		for (unsigned size = 0; size < stream->size_count; size++) {
			if (is_mixed(stream->sizes[size]))
				print_mix(stream, size, lag);
		}
	}
}

static void print_table(const struct stream *stream)
{
	bench_facts_print(&stream->facts, "stream", stdout);
	printf("#%9s %-4s %-4s", "bytes", "op", "dest");
	for (unsigned version = 0; version < stream->version_count; version++)
		printf(" %9s %8s", version_name(stream->versions[version]), "back");
	printf(" %8s %8s\n", "ratio", "back");
	for (unsigned op = 0; op < OPS; op++) {
		for (unsigned place = 0; place < PLACES; place++) {
			for (unsigned size = 0; size < stream->size_count; size++)
				print_row(stream, op, place, size);
		}
	}
	print_mixes(stream);
}

static void summary_json(const struct stream *stream, const char *name, const double *values,
			 struct bench_json *json)
{
	struct bench_summary summary;

	summarize(stream, values, &summary);
	bench_json_open_object(json, name);
	bench_json_number(json, "median", summary.median);
	bench_json_number(json, "min", summary.min);
	bench_json_number(json, "max", summary.max);
	bench_json_number(json, "spread_percent", summary.spread_percent);
	bench_json_close_object(json);
}

static void cell_json(const struct stream *stream, unsigned op, unsigned place, unsigned size,
		      struct bench_json *json)
{
	bench_json_open_object(json, NULL);
	bench_json_count(json, "bytes", stream->sizes[size]);
	bench_json_text(json, "op", op_names[op]);
	bench_json_text(json, "destination", place_names[place]);
	for (unsigned version = 0; version < stream->version_count; version++) {
		bench_json_open_object(json, version_name(stream->versions[version]));
		for (unsigned metric = 0; metric < METRICS; metric++)
			summary_json(stream, metric_names[metric],
				     values_of(stream, op, place, size, version, metric), json);
		bench_json_close_object(json);
	}
	bench_json_close_object(json);
}

static void mix_json(const struct stream *stream, unsigned size, unsigned lag,
		     struct bench_json *json)
{
	const double *plain = mixes_of(stream, size, lag, BENCH_MIX_PLAIN);

	bench_json_open_object(json, NULL);
	bench_json_count(json, "bytes", stream->sizes[size]);
	bench_json_count(json, "read_after_bytes", lags[lag]);
	for (unsigned mix = 0; mix < BENCH_MIXES; mix++)
		summary_json(stream, mix_names[mix], mixes_of(stream, size, lag, mix), json);
	bench_json_number(json, "streamed_to_plain",
			  ratio(stream, mixes_of(stream, size, lag, BENCH_MIX_STREAMED), plain));
	bench_json_number(json, "policy_to_plain",
			  ratio(stream, mixes_of(stream, size, lag, BENCH_MIX_POLICY), plain));
	bench_json_close_object(json);
}

static void print_json(const struct stream *stream)
{
	struct bench_json json;

	bench_json_init(&json, stdout);
	bench_json_open_object(&json, NULL);
	bench_facts_json(&stream->facts, "stream", &json);
	bench_json_bool(&json, "interrupted", bench_is_stopped());
	bench_json_count(&json, "repetitions", stream->runs);
	bench_json_open_array(&json, "results");
	for (unsigned op = 0; op < OPS; op++) {
		for (unsigned place = 0; place < PLACES; place++) {
			for (unsigned size = 0; size < stream->size_count; size++)
				cell_json(stream, op, place, size, &json);
		}
	}
	bench_json_close_array(&json);
	bench_json_open_array(&json, "mixed");
	for (unsigned i = 0; i < LAGS * stream->size_count; i++) {
		if (is_mixed(stream->sizes[i / LAGS]))
			mix_json(stream, i / LAGS, i % LAGS, &json);
	}
	bench_json_close_array(&json);
	bench_json_close_object(&json);
}

/* --- Measuring -------------------------------------------------------------------------------- */

static void measure_versions(struct stream *stream, unsigned run, unsigned op, unsigned place,
			     unsigned size)
{
	for (unsigned i = 0; i < stream->version_count; i++) {
		unsigned version = (i + run) % stream->version_count;
		const struct bench_stream_load load = {
			.op = (enum bench_stream_op)op,
			.is_cold = place == 1,
			.isa = stream->versions[version],
			.size = stream->sizes[size],
			.limit_ns = stream->line->settings.limit_us * 1000,
		};
		struct bench_stream_result result;

		bench_stream_measure(&stream->area, &load, &result);
		values_of(stream, op, place, size, version, 0)[run] = result.write_gb_per_s;
		values_of(stream, op, place, size, version, 1)[run] = result.read_gb_per_s;
	}
}

static void measure_mixes(struct stream *stream, unsigned run, unsigned size, unsigned lag)
{
	uint64_t limit_ns = stream->line->settings.limit_us * 1000 * MIX_LIMIT;
	int rc = rmem_stream_select(stream->configured, NULL);

	(void)rc; /* it was selected before */
	for (unsigned i = 0; i < BENCH_MIXES; i++) {
		unsigned mix = (i + run) % BENCH_MIXES;

		mixes_of(stream, size, lag, mix)[run] =
			bench_stream_mixed(&stream->area, (enum bench_stream_mix)mix,
					   stream->sizes[size], lags[lag], limit_ns);
	}
}

/* A run counts when it is whole. */
static int measure(struct stream *stream)
{
	for (unsigned run = 0; run < stream->line->settings.repeat; run++) {
		for (unsigned size = 0; size < stream->size_count; size++) {
			bench_progress(run + 1, stream->line->settings.repeat, "stream",
				       stream->sizes[size]);
			for (unsigned op = 0; op < OPS; op++) {
				for (unsigned place = 0; place < PLACES; place++)
					measure_versions(stream, run, op, place, size);
			}
			for (unsigned lag = 0; lag < LAGS && is_mixed(stream->sizes[size]); lag++)
				measure_mixes(stream, run, size, lag);
			if (bench_is_stopped())
				return -ECANCELED;
		}
		stream->runs = run + 1;
	}
	return 0;
}

static int set_up(struct stream *stream, struct rmem_error *error)
{
	const struct bench_settings *settings = &stream->line->settings;
	struct rmem_engine_options engine;
	int rc = bench_line_engine(stream->line, &engine, error);

	if (rc != 0)
		return rc;
	stream->configured = rmem_stream_isa_selected();
	for (int isa = RMEM_STREAM_OFF; isa < RMEM_STREAM_ISAS; isa++) {
		if (rmem_stream_isa_available((enum rmem_stream_isa)isa))
			stream->versions[stream->version_count++] = (enum rmem_stream_isa)isa;
	}
	stream->size_count = bench_settings_sizes(settings, stream->sizes);
	stream->values = calloc((size_t)OPS * PLACES * stream->size_count * VERSIONS * METRICS *
					settings->repeat,
				sizeof(double));
	stream->mixes = calloc((size_t)stream->size_count * LAGS * BENCH_MIXES * settings->repeat,
			       sizeof(double));
	stream->scratch = calloc(settings->repeat, sizeof(double));
	if (stream->values == NULL || stream->mixes == NULL || stream->scratch == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	return bench_stream_area_init(&stream->area, stream->sizes[stream->size_count - 1],
				      engine.stream_threshold_bytes, error);
}

int bench_stream(const struct bench_line *line, struct rmem_error *error)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	int rc;

	if (stream == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	stream->line = line;
	rc = set_up(stream, error);
	if (rc == 0) {
		rc = measure(stream);
		bench_progress_end();
	}
	if (rc == -ECANCELED && stream->runs > 0)
		rc = 0;
	if (rc == 0) {
		collect_facts(stream);
		if (line->settings.json)
			print_json(stream);
		else
			print_table(stream);
	}
	bench_stream_area_finish(&stream->area);
	free(stream->values);
	free(stream->mixes);
	free(stream->scratch);
	free(stream);
	return rc;
}
