/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration file with what it includes, as one text that libconfig can be trusted with.
 *
 * libconfig reads only what is right in form; of the mistakes people make most it says "syntax
 * error" at the place where it noticed, or nothing. Its own way through @include also ends the
 * whole process when the name is a folder's, and its integers wrap around silently. So the files
 * are read here: includes are put in their places (relative to the file that includes), a map
 * tells where each line came from, and a scanner that knows strings, comments and numbers reports
 * the common mistakes by name and writes something well-formed in their place.
 *
 * Lines are counted from 1. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config/errors.h"
#include "engine/base/hint.h"

/* Includes within includes; as libconfig has it. */
#define CONF_INCLUDE_DEPTH 10
/* Of all files together: far more than any configuration, and a bound for what is not one. */
#define CONF_SOURCE_BYTES (1u << 20)

struct conf_line {
	unsigned file; /* index in files */
	unsigned number;
	size_t start;  /* in text */
	bool reported; /* a complaint about this line is made */
};

struct conf_source {
	char *text; /* ends with NUL */
	size_t length;
	struct conf_line *lines; /* lines[n - 1] is line n of text */
	size_t line_count;
	char **files;
	unsigned file_count;
	bool cut;     /* a comment never closes or a file is not text: the rest is missing */
	bool dropped; /* something that is wrong was left out */
	bool unsure;  /* a string was closed by force: what does not fit after it may be right */
};

/* Reads `path` and what it includes. Complaints go into `errors`, with the line of `text` as their
 * order; one about an included file or about the content does not end the reading. -errno when
 * `path` itself could not be read, -ENOMEM. Finish `source` in any case. */
RMEM_MUST_CHECK int conf_source_read(struct conf_source *source, const char *path,
				     struct conf_errors *errors);
void conf_source_finish(struct conf_source *source);

/* The file and the line in it that line `line` of the text came from. */
const char *conf_source_file(const struct conf_source *source, size_t line);
unsigned conf_source_line(const struct conf_source *source, size_t line);
