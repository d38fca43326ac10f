/* SPDX-License-Identifier: Apache-2.0 */
/* What source.c and scan.c share: one file that is being read into a source. */
#pragma once

#include <sys/types.h>

#include "config/source.h"

/* Groups within groups, as far as messages name them. */
#define CONF_SCAN_GROUPS 16
/* Settings that are remembered so as to notice a second one: many times what the schema has. A
 * file with more is left to libconfig, which notices too but cannot say what or where. */
#define CONF_SCAN_SEEN 1024
/* What the name of a setting is changed to that is wrong in itself. No name of the schema starts
 * so. */
#define CONF_LEFT_OUT "*left-out-"
/* How a string ends that stands for a value that is wrong and reported. Only in a reported line:
 * files may have this byte elsewhere. */
#define CONF_WRONG_VALUE "\001"

struct conf_seen {
	char *key;
	size_t line; /* of the source's text */
};

/* One for a source, whatever it includes. */
struct conf_reader {
	struct conf_source *source;
	struct conf_errors *errors;
	int failure; /* -ENOMEM or -EFBIG: nothing more is written */
	/* The key of the statement that is being read, for messages: "engine.chunk". */
	char key[128];
	size_t key_length;
	size_t group_ends[CONF_SCAN_GROUPS]; /* where in `key` the names of a group begin */
	unsigned group_depth;		     /* may exceed CONF_SCAN_GROUPS */
	unsigned list_depth;		     /* within (...), where names repeat */
	char last;			     /* byte that is not a space or comment */
	struct conf_seen seen[CONF_SCAN_SEEN];
	unsigned seen_count, left_out;
};

struct conf_scan {
	struct conf_reader *reader;
	const struct conf_scan *outer; /* the file that includes this one */
	unsigned depth;
	unsigned file;
	unsigned number; /* of the line that is being read */
	const char *in;
	size_t at, length;
	dev_t device;
	ino_t inode;
};

void conf_reader_finish(struct conf_reader *reader);

/* A statement begins, a group opens after it, a group closes. */
void conf_reader_name(struct conf_reader *reader, const char *name, size_t length);
void conf_reader_enter(struct conf_reader *reader);
void conf_reader_leave(struct conf_reader *reader);

/* The earlier statement about the same setting; NULL, and this one is remembered, when there was
 * none. */
const struct conf_seen *conf_reader_seen(struct conf_reader *reader);

/* Scans a file to its end, or to where the reader fails. */
void conf_scan_run(struct conf_scan *scan);

/* Appends to the source's text; a newline begins the next line. */
void conf_scan_put(struct conf_scan *scan, char c);
void conf_scan_begin_line(struct conf_scan *scan);

/* Adds a complaint about the current line, with its file and number. */
void conf_scan_complain(struct conf_scan *scan, const char *format, ...) RMEM_PRINTF(2, 3);

/* Scans the file `name` into this place. */
void conf_scan_include(struct conf_scan *scan, const char *name);
