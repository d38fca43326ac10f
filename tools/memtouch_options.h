/* SPDX-License-Identifier: Apache-2.0 */
/* memtouch's command line. Pure: reads and prints nothing but what it is given. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/error.h"

#define TOUCH_THREADS_MAX    1024u
#define TOUCH_THREAD_MIB_MAX (UINT64_C(1) << 22) /* 2^30 pages, as many as a pattern can name */
#define TOUCH_MIB	     (UINT64_C(1) << 20)

struct touch_options {
	uint64_t thread_mib;
	uint64_t threads;
	uint64_t ratio; /* so many touches of a hundred write */
	uint64_t stat_ival_ms;
	uint64_t page_log_ival; /* pages between the updates of a thread's counters */
	uint64_t duration_ms;	/* 0: until a signal */
	uint64_t seed;
	const char *stat_file; /* NULL: standard output; these two point into argv */
	const char *file;      /* NULL: anonymous memory */
	bool random;
	bool once;
	bool nt_stores;
	bool no_avx512;
	bool verify;
	bool json;
};

enum touch_action { TOUCH_RUN, TOUCH_HELP, TOUCH_VERSION };

/* Defaults, overridden by argv[1] and on: "--name VALUE" or "--name=VALUE"; in names '-' and '_'
 * are one. Errors: -EINVAL (which argument is wrong, and what would be right). */
int touch_options_parse(int argc, char **argv, struct touch_options *options,
			enum touch_action *action, struct rmem_error *error) RMEM_MUST_CHECK;

void touch_options_help(FILE *out);

/* Of all threads. */
static inline uint64_t touch_options_bytes(const struct touch_options *options)
{
	return options->threads * options->thread_mib * TOUCH_MIB;
}
