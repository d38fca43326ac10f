/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_settings.h"

#include <errno.h>
#include <string.h>

#include "config/value.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

#define MESSAGE_MAX_BYTES GIB
static const struct bench_preset presets[] = {
	{"mw-chunkoff", 2, 64, 1 * KIB, 16 * MIB, 128, "4", "64MiB"},
	{"mw-chunkon", 4, 64, 1 * KIB, 16 * MIB, 256, "4", "64KiB"},
	{"hi-iops", 8, 256, 512, 512, 512, "8", "64MiB"},
	/* What is paid for each batch, undivided. */
	{"single", 1, 1, 512, 512, 200000, "1", "64KiB"},
};
#define PRESET_REPEAT 5

static const struct conf_key size_key = {
	.type = CONF_SIZE, .min = 1, .max = MESSAGE_MAX_BYTES, .initial = ""};

static void set_number(struct bench_settings *settings, size_t offset, uint64_t number)
{
	memcpy((char *)settings + offset, &number, sizeof(number));
}

/* --- Taking options --------------------------------------------------------------------------- */

static int parse_number(const struct conf_key *key, const char *name, const char *text,
			uint64_t *number, struct rmem_error *error)
{
	struct conf_value value = {0};
	int rc = conf_value_parse(key, text, &value, error);

	if (rc != 0)
		return rmem_fail_prefix(error, rc, "%s", name);
	*number = value.number;
	conf_value_finish(&value);
	return 0;
}

static int parse_sizes(struct bench_settings *settings, const char *name, const char *text,
		       struct rmem_error *error)
{
	size_t length = strcspn(text, ":");
	uint64_t min = 0, max;
	char first[64];
	int rc;

	snprintf(first, sizeof(first), "%.*s", (int)length, text);
	rc = parse_number(&size_key, name, first, &min, error);
	if (rc != 0)
		return rc;
	max = min;
	if (text[length] == ':')
		rc = parse_number(&size_key, name, text + length + 1, &max, error);
	if (rc != 0)
		return rc;
	if (max < min)
		return rmem_fail(error, EINVAL, "%s: found \"%s\", whose end is before its start",
				 name, text);
	settings->size_min = min;
	settings->size_max = max;
	return 0;
}

const struct bench_preset *bench_preset_find(const char *name)
{
	for (size_t i = 0; i < RMEM_COUNT_OF(presets); i++) {
		if (strcmp(presets[i].name, name) == 0)
			return &presets[i];
	}
	return NULL;
}

static int take_preset(struct bench_settings *settings, const char *name, struct rmem_error *error)
{
	const struct bench_preset *preset = bench_preset_find(name);
	char names[128] = "";

	for (size_t i = 0; i < RMEM_COUNT_OF(presets); i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
			 i > 0 ? ", " : "", presets[i].name);
	if (preset == NULL)
		return rmem_fail(error, EINVAL, "--preset: there is no \"%s\"; there are: %s", name,
				 names);
	settings->preset = preset;
	settings->op = BENCH_WRITE;
	settings->reactors = preset->reactors;
	settings->batch = preset->batch;
	settings->size_min = preset->size_min;
	settings->size_max = preset->size_max;
	settings->iterations = preset->iterations;
	settings->repeat = PRESET_REPEAT;
	return 0;
}

int bench_settings_take(struct bench_settings *settings, const struct bench_option *option,
			const char *text, struct rmem_error *error)
{
	uint64_t number = 1;
	int rc = 0;

	switch (option->kind) {
	case BENCH_OPTION_NUMBER:
		rc = parse_number(&option->key, option->name, text, &number, error);
		if (rc != 0)
			return rc;
		/* fall through */
	case BENCH_OPTION_FLAG:
		set_number(settings, option->offset, number);
		if (option->given_offset != 0)
			set_number(settings, option->given_offset, 1);
		return 0;
	case BENCH_OPTION_SIZES:
		return parse_sizes(settings, option->name, text, error);
	case BENCH_OPTION_TEXT:
		memcpy((char *)settings + option->offset, &text, sizeof(text));
		return 0;
	case BENCH_OPTION_PRESET:
		return take_preset(settings, text, error);
	case BENCH_OPTION_SETTING:
		break;
	}
	return rmem_fail(error, EINVAL, "%s is a setting of the engine", option->name);
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), end_length = strlen(end);

	return length > end_length && strcmp(text + length - end_length, end) == 0;
}

int bench_settings_check(const struct bench_settings *settings, struct rmem_error *error)
{
	if (settings->plot != NULL && !ends_with(settings->plot, ".svg") &&
	    !ends_with(settings->plot, ".png"))
		return rmem_fail(error, EINVAL,
				 "--plot: found \"%s\", whose name must end in .svg or .png",
				 settings->plot);
	if (settings->batch * settings->in_flight * settings->servers > BENCH_SEGMENTS_MAX)
		return rmem_fail(error, EINVAL,
				 "%llu batches of %llu messages under way for each of %llu servers "
				 "are too many to prepare: lower --batch, --in-flight or --servers",
				 (unsigned long long)settings->in_flight,
				 (unsigned long long)settings->batch,
				 (unsigned long long)settings->servers);
	if (settings->iterations * settings->reactors > BENCH_SAMPLES_MAX)
		return rmem_fail(error, EINVAL,
				 "--iterations: %llu for each of %llu reactors is more than can be "
				 "kept; at most %llu",
				 (unsigned long long)settings->iterations,
				 (unsigned long long)settings->reactors,
				 (unsigned long long)(BENCH_SAMPLES_MAX / settings->reactors));
	return 0;
}

void bench_settings_init(struct bench_settings *settings, enum bench_command command)
{
	*settings = (struct bench_settings){
		.command = command,
		.reactors = 1,
		.batch = 1,
		.in_flight = 1,
		.servers = 1,
	};
	for (size_t i = 0; i < bench_option_count; i++) {
		const struct bench_option *option = &bench_options[i];

		if ((option->commands & command) == 0 || option->key.initial == NULL)
			continue;
		/* Defaults of a table that is constant: a unit test takes them all. */
		(void)!bench_settings_take(settings, option, option->key.initial, NULL);
	}
	settings->servers_given = 0;
}

/* --- Showing them ----------------------------------------------------------------------------- */

unsigned bench_settings_sizes(const struct bench_settings *settings,
			      uint64_t sizes[BENCH_SIZES_MAX])
{
	unsigned count = 0;

	for (uint64_t size = settings->size_min;
	     size <= settings->size_max && count < BENCH_SIZES_MAX; size *= 2)
		sizes[count++] = size;
	return count;
}

const char *bench_size_text(uint64_t bytes, char text[BENCH_SIZE_TEXT])
{
	conf_number_text(&size_key, bytes, text, BENCH_SIZE_TEXT);
	return text;
}

static void help_one(const struct bench_option *option, FILE *out)
{
	char usage[40], allowed[160];

	snprintf(usage, sizeof(usage), "%s %s", option->name,
		 option->argument != NULL ? option->argument : "");
	fprintf(out, "      %-17s ", usage);
	for (const char *c = option->help; *c != '\0'; c++) {
		putc(*c, out);
		if (*c == '\n')
			fprintf(out, "%24s", "");
	}
	if (option->kind == BENCH_OPTION_NUMBER) {
		conf_allowed_text(&option->key, allowed, sizeof(allowed));
		fprintf(out, "\n%24s(%s; default %s)", "", allowed, option->key.initial);
	} else if (option->key.initial != NULL) {
		fprintf(out, " (default %s)", option->key.initial);
	}
	putc('\n', out);
}

void bench_settings_help(enum bench_command command, FILE *out)
{
	for (size_t i = 0; i < bench_option_count; i++) {
		if (bench_options[i].commands & command)
			help_one(&bench_options[i], out);
	}
	if ((command & (BENCH_BW | BENCH_ABLATE)) == 0)
		return;
	fputs("\nPresets, each with --op write --repeat 5:\n", out);
	for (size_t i = 0; i < RMEM_COUNT_OF(presets); i++) {
		const struct bench_preset *preset = &presets[i];
		char min[BENCH_SIZE_TEXT], max[BENCH_SIZE_TEXT], sizes[2 * BENCH_SIZE_TEXT + 2];

		bench_size_text(preset->size_min, min);
		bench_size_text(preset->size_max, max);
		snprintf(sizes, sizeof(sizes),
			 preset->size_max != preset->size_min ? "%s:%s" : "%s", min, max);
		fprintf(out,
			"  %-12s --reactors %llu --lanes %s --chunk %s --batch %llu --size %s "
			"--iterations %llu\n",
			preset->name, (unsigned long long)preset->reactors, preset->lanes,
			strcmp(preset->chunk, "64MiB") == 0 ? "off" : preset->chunk,
			(unsigned long long)preset->batch, sizes,
			(unsigned long long)preset->iterations);
	}
}
