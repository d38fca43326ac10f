/* SPDX-License-Identifier: Apache-2.0 */
/* rmem-bench's command line: its own options and those of every program, in one go. */
#pragma once

#include "config/options.h"
#include "engine/rmem.h"
#include "tools/bench_settings.h"

struct bench_line {
	struct bench_settings settings;
	struct conf *conf; /* the caller's, with CONF_RUN */
	char **rest;	   /* what stands behind "--", for ablate */
};

/* Reads the options of a command; `argv[0]` is how the program is called in messages. A preset is
 * taken before the other options wherever it stands. Complaints go to stderr, and what was asked
 * for (help, check) to stdout. */
enum conf_verdict bench_line_read(enum bench_command command, int argc, char **argv,
				  struct bench_line *line) RMEM_MUST_CHECK;

/* The engine's options as configured, with a staging arena of next to nothing: what is transferred
 * lies in memory of the benchmark's own (of pages as options->huge_pages says, too). Chooses the
 * streaming stores and sets up the verbs fabric. Errors: -ENOTSUP, -EINVAL. */
int bench_line_engine(const struct bench_line *line, struct rmem_engine_options *options,
		      struct rmem_error *error) RMEM_MUST_CHECK;
