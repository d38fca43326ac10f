/* SPDX-License-Identifier: Apache-2.0 */
/* Checks every invariant of a store: names and link counts, directories as one tree, extents
 * against regions and bitmaps, counts, records that belong to nothing.
 *
 * A check reads one snapshot, so it may run beside a mount. A repair needs the store for writing,
 * so nobody has the volume mounted: it deletes what belongs to nothing, frees what nobody uses,
 * sets counts right, and gives files without a name one in the root directory ("lost-INODE"). It
 * leaves alone what could be right in two ways. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fs/store.h"

enum check_severity {
	CHECK_NOTE,    /* nothing is wrong: what the next mount clears up, what a server has lost */
	CHECK_LEAK,    /* space or a record that nobody uses */
	CHECK_WRONG,   /* a count or reference that is not as it should be; no data is in danger */
	CHECK_SERIOUS, /* data is damaged, or may be when the volume is used */
	CHECK_SEVERITIES,
};

struct check_finding {
	enum check_severity severity;
	bool repairable;
	const char *text; /* lives until report() returns, and so does the path */
	/* Of a file that lost data: where it is in the volume, in the bytes of its names (NULL: it
	 * has no name), and how much; else NULL and 0. */
	const char *path;
	uint64_t bytes_lost;
};

struct check_options {
	struct store *store;
	/* Called for each finding. */
	void (*report)(void *user, const struct check_finding *finding);
	void *user;
};

struct check_result {
	uint64_t findings[CHECK_SEVERITIES];
	uint64_t repaired; /* findings that a repair took away */
	/* What is there. */
	uint64_t inodes, directories, names, orphans, sessions, servers, regions;
	uint64_t pages_total, pages_used;   /* of regions that servers hold */
	uint64_t pages_lost;		    /* of files, in regions whose memory is gone */
	uint64_t bytes_lost, files_damaged; /* what of that held data: each is a finding, a note */
};

/* Nothing is leaked, wrong or serious. */
static inline bool check_is_clean(const struct check_result *result)
{
	return result->findings[CHECK_LEAK] == 0 && result->findings[CHECK_WRONG] == 0 &&
	       result->findings[CHECK_SERIOUS] == 0;
}

const char *check_severity_name(enum check_severity severity);

/* Memory: some 80 bytes an inode and a bit a page. Errors: -EIO (the store can't be read), -ENOMEM,
 * -ENOENT (no volume), -EPROTO (a volume of another format). What was reported until then counts.
 */
int check_run(const struct check_options *options, struct check_result *result) RMEM_MUST_CHECK;

/* Reports what it finds as check_run() does, repairs what can be, and checks again: `result` says
 * how things are afterwards. Errors: also -ENOSPC, -EROFS. */
int check_repair(const struct check_options *options, struct check_result *result) RMEM_MUST_CHECK;
