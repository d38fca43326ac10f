/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_line.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "config/streaming_options.h"
#include "config/verbs_options.h"

#define OPTIONS_MAX 64

struct reader {
	enum bench_command command;
	struct option rows[OPTIONS_MAX]; /* those of config/ first */
	struct conf_options conf;
	struct bench_settings *settings;
};

static void make_rows(struct reader *reader)
{
	static const struct option common[] = {
		CONF_LONG_OPTIONS,
		{"help", no_argument, NULL, 'h'},
	};
	size_t count = RMEM_COUNT_OF(common);

	memset(reader->rows, 0, sizeof(reader->rows)); /* a zeroed row ends them */
	memcpy(reader->rows, common, sizeof(common));
	for (size_t i = 0; i < bench_option_count && count < OPTIONS_MAX - 1; i++) {
		const struct bench_option *option = &bench_options[i];

		if ((option->commands & reader->command) == 0)
			continue;
		reader->rows[count++] = (struct option){
			.name = option->name + strlen("--"),
			.has_arg = option->argument != NULL ? required_argument : no_argument,
			.val = CONF_OPTION_FREE + (int)i,
		};
	}
}

static const struct bench_option *option_of(int value)
{
	return value >= CONF_OPTION_FREE ? &bench_options[value - CONF_OPTION_FREE] : NULL;
}

/* How the command is called, and what is said of it. */
static const char *name_of(enum bench_command command)
{
	switch (command) {
	case BENCH_BW:
		return "bw";
	case BENCH_LAT:
		return "lat";
	case BENCH_ABLATE:
		return "ablate";
	case BENCH_ECHO:
		return "echo";
	case BENCH_STREAM:
		return "stream";
	}
	return "";
}

static const char *purpose_of(enum bench_command command)
{
	switch (command) {
	case BENCH_BW:
		return "Measures bandwidth and message rate, and what they cost the processor.";
	case BENCH_LAT:
		return "Measures the latency of single operations in every poll mode.";
	case BENCH_ABLATE:
		return "Measures the engine against itself with parts of it as they were before.\n"
		       "Options behind -- go to each run of rmem-bench bw.";
	case BENCH_ECHO:
		return "Writes back what rmem-bench lat --op send writes to it, until it is "
		       "stopped.";
	case BENCH_STREAM:
		return "Measures filling and copying memory with every version of the streaming "
		       "stores.";
	}
	return "";
}

static void print_help(enum bench_command command)
{
	printf("usage: rmem-bench %s [OPTION]...%s\n%s\n\n%s", name_of(command),
	       command == BENCH_ABLATE ? " [-- OPTION...]" : "", purpose_of(command),
	       CONF_OPTIONS_HELP);
	bench_settings_help(command, stdout);
}

static enum conf_verdict complain(const struct rmem_error *error)
{
	fprintf(stderr, "rmem-bench: %s\n", error->text);
	return CONF_FAIL;
}

/* The preset's part of the engine's settings, below those that are given. */
static void override_with_preset(struct reader *reader)
{
	const struct bench_preset *preset = reader->settings->preset;

	if (preset == NULL)
		return;
	conf_options_override(&reader->conf, "--preset", "engine.lanes", preset->lanes);
	conf_options_override(&reader->conf, "--preset", "engine.chunk", preset->chunk);
}

static enum conf_verdict find_preset(struct reader *reader, int argc, char **argv)
{
	struct rmem_error error = {0};
	int value;

	opterr = 0; /* the second pass complains */
	optind = 0; /* GNU: from the start */
	while ((value = getopt_long(argc, argv, "c:h", reader->rows, NULL)) != -1) {
		const struct bench_option *option = option_of(value);

		if (option != NULL && option->kind == BENCH_OPTION_PRESET &&
		    bench_settings_take(reader->settings, option, optarg, &error) != 0)
			return complain(&error);
	}
	override_with_preset(reader);
	return CONF_RUN;
}

static void override_setting(struct reader *reader, const struct bench_option *option,
			     const char *text)
{
	if (option->off != NULL && strcmp(text, "off") == 0)
		text = option->off;
	conf_options_override(&reader->conf, option->name, option->setting, text);
}

static enum conf_verdict take(struct reader *reader, int value)
{
	const struct bench_option *option = option_of(value);
	struct rmem_error error = {0};

	if (conf_options_take(&reader->conf, value, optarg))
		return CONF_RUN;
	if (value == 'h') {
		print_help(reader->command);
		return CONF_DONE;
	}
	if (option == NULL) {
		fprintf(stderr, "Try rmem-bench %s --help.\n", name_of(reader->command));
		return CONF_FAIL;
	}
	if (option->kind == BENCH_OPTION_SETTING)
		override_setting(reader, option, optarg);
	else if (option->kind != BENCH_OPTION_PRESET &&
		 bench_settings_take(reader->settings, option, optarg, &error) != 0)
		return complain(&error);
	return CONF_RUN;
}

static enum conf_verdict take_all(struct reader *reader, int argc, char **argv, char ***rest)
{
	enum conf_verdict verdict = find_preset(reader, argc, argv);
	int value;

	opterr = 1;
	optind = 0;
	while (verdict == CONF_RUN &&
	       (value = getopt_long(argc, argv, "c:h", reader->rows, NULL)) != -1)
		verdict = take(reader, value);
	*rest = argv + optind;
	/* getopt moved what is no option behind a "--" if there was one. */
	if (verdict == CONF_RUN && optind < argc &&
	    (reader->command != BENCH_ABLATE || strcmp(argv[optind - 1], "--") != 0)) {
		fprintf(stderr, "rmem-bench: %s: not an option\n", argv[optind]);
		verdict = CONF_FAIL;
	}
	return verdict;
}

static enum conf_verdict check(const struct bench_line *line)
{
	struct rmem_error error = {0};
	size_t server_count;

	if (bench_settings_check(&line->settings, &error) != 0)
		return complain(&error);
	if (line->settings.command == BENCH_ECHO && line->settings.listen == NULL) {
		fputs("rmem-bench: echo needs --listen URL: where clients reach it\n", stderr);
		return CONF_FAIL;
	}
	(void)conf_list(line->conf, "servers", &server_count);
	if (server_count > 0 && line->settings.servers_given) {
		fputs("rmem-bench: --servers makes servers, and others are named already: "
		      "give one or the other\n",
		      stderr);
		return CONF_FAIL;
	}
	return CONF_RUN;
}

enum conf_verdict bench_line_read(enum bench_command command, int argc, char **argv,
				  struct bench_line *line)
{
	struct reader reader = {.command = command, .settings = &line->settings};
	enum conf_verdict verdict;

	line->conf = NULL;
	make_rows(&reader);
	bench_settings_init(&line->settings, command);
	conf_options_init(&reader.conf, CONF_BENCH);
	reader.conf.inspect = conf_apply_key;
	verdict = take_all(&reader, argc, argv, &line->rest);
	if (verdict == CONF_RUN)
		verdict = conf_options_load(&reader.conf, &line->conf);
	else
		conf_options_finish(&reader.conf);
	if (verdict == CONF_RUN)
		verdict = check(line);
	if (verdict != CONF_RUN) {
		conf_destroy(line->conf);
		line->conf = NULL;
	}
	return verdict;
}

/* --- The engine ------------------------------------------------------------------------------- */

static enum rmem_poll_mode poll_mode(const struct conf *conf)
{
	switch ((enum conf_poll)conf_enum(conf, "engine.poll")) {
	case CONF_POLL_BUSY:
		return RMEM_POLL_BUSY;
	case CONF_POLL_EVENT:
		return RMEM_POLL_EVENT;
	case CONF_POLL_ADAPTIVE:
		break;
	}
	return RMEM_POLL_ADAPTIVE;
}

static enum rmem_huge_pages huge_pages(const struct conf *conf)
{
	switch ((enum conf_huge_pages)conf_enum(conf, "staging.huge_pages")) {
	case CONF_HUGE_OFF:
		return RMEM_HUGE_OFF;
	case CONF_HUGE_REQUIRE:
		return RMEM_HUGE_REQUIRE;
	case CONF_HUGE_AUTO:
		break;
	}
	return RMEM_HUGE_AUTO;
}

static unsigned duration_ms(const struct conf *conf, const char *key)
{
	return (unsigned)(conf_duration_us(conf, key) / 1000);
}

int bench_line_engine(const struct bench_line *line, struct rmem_engine_options *options,
		      struct rmem_error *error)
{
	const struct conf *conf = line->conf;
	int rc;

	rmem_engine_options_init(options);
	options->reactor_count = (unsigned)line->settings.reactors;
	options->poll = poll_mode(conf);
	options->spin_us = (unsigned)conf_duration_us(conf, "engine.spin");
	options->lanes = conf_count(conf, "engine.lanes");
	options->depth = conf_count(conf, "engine.depth");
	options->post_batch = conf_count(conf, "engine.post_batch");
	options->chunk_bytes = conf_size_bytes(conf, "engine.chunk");
	options->chunks_max = conf_count(conf, "engine.max_chunks");
	options->staging_slot_bytes = RMEM_PAGE_BYTES;
	options->staging_bytes = RMEM_PAGE_BYTES;
	options->stream_threshold_bytes = conf_size_bytes(conf, "staging.stream_threshold");
	options->huge_pages = huge_pages(conf);
	options->connect_timeout_ms = duration_ms(conf, "engine.connect_timeout");
	options->detect_ms = duration_ms(conf, "engine.detect");
	options->reconnect_min_ms = duration_ms(conf, "engine.reconnect_min");
	options->reconnect_max_ms = duration_ms(conf, "engine.reconnect_max");
	rc = conf_apply_streaming(conf, error);
	if (rc == 0)
		rc = conf_apply_verbs(conf, error);
	return rc == 0 ? conf_apply_key(conf, error) : rc;
}
