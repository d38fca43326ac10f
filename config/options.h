/* SPDX-License-Identifier: Apache-2.0 */
/* The options that every program has: -c FILE, --set KEY=VALUE, --check-config, --help-config.
 *
 *	enum { OPTION_LISTEN = CONF_OPTION_FREE };
 *	static const struct option long_options[] = {
 *		CONF_LONG_OPTIONS,
 *		{"listen", required_argument, NULL, OPTION_LISTEN},
 *		{0},
 *	};
 *	struct conf_options options;
 *	struct conf *conf;
 *
 *	conf_options_init(&options, CONF_RMEMD);
 *	while ((c = getopt_long(argc, argv, "c:h", long_options, NULL)) != -1) {
 *		if (conf_options_take(&options, c, optarg))
 *			continue;
 *		switch (c) {
 *		case OPTION_LISTEN:
 *			conf_options_override(&options, "--listen", "server.listen", optarg);
 *			...
 *		}
 *	}
 *	switch (conf_options_load(&options, &conf)) {
 *	case CONF_RUN:  break;
 *	case CONF_DONE: return 0;
 *	case CONF_FAIL: return 1;
 *	}
 *
 * Nothing of it depends on the order of the options: they are remembered, and applied over the
 * file in the order in which they came. */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

enum conf_option {
	CONF_OPTION_SET = 0x1000,
	CONF_OPTION_CHECK,
	CONF_OPTION_HELP,
	CONF_OPTION_FREE = 0x1100, /* a program's own long options start here */
};

/* Rows for getopt_long(); put "c:" into the short ones. */
#define CONF_LONG_OPTIONS                                                                          \
	{"config", required_argument, NULL, 'c'},                                                  \
		{"set", required_argument, NULL, CONF_OPTION_SET},                                 \
		{"check-config", no_argument, NULL, CONF_OPTION_CHECK},                            \
	{                                                                                          \
		"help-config", no_argument, NULL, CONF_OPTION_HELP                                 \
	}

/* Their lines of a program's --help. */
#define CONF_OPTIONS_HELP                                                                          \
	"  -c, --config FILE     read settings from FILE\n"                                        \
	"      --set KEY=VALUE   a setting that counts more than the file's\n"                     \
	"      --check-config    say what is wrong with the settings, and exit\n"                  \
	"      --help-config     explain every setting, and exit\n"

struct conf_option_value {
	const char *option; /* "--set", or the program's own */
	const char *key;    /* NULL for --set */
	const char *value;
};

struct conf_options {
	enum conf_program program;
	const char *file; /* NULL: defaults and options only. A main() may set it itself. */
	/* With --check-config, once the settings are good: what else the program finds at start in
	 * what they name, as files. NULL: nothing. */
	int (*inspect)(const struct conf *conf, struct rmem_error *error);
	bool check, help;
	struct conf_option_value *values;
	size_t value_count;
	bool out_of_memory;
};

/* What main() does next. */
enum conf_verdict {
	CONF_RUN,  /* the configuration is good and the caller's */
	CONF_DONE, /* what was asked for is printed: exit with 0 */
	CONF_FAIL, /* why is printed: exit with another status */
};

/* All pointers that are passed in have to live until conf_options_load(), as argv does. */
void conf_options_init(struct conf_options *options, enum conf_program program);
void conf_options_finish(struct conf_options *options);

/* Takes one result of getopt_long(). False when it is not one of these options. */
bool conf_options_take(struct conf_options *options, int option, const char *argument);

/* Remembers the value of an option of the program's own that stands for a setting. */
void conf_options_override(struct conf_options *options, const char *option, const char *key,
			   const char *value);

/* Loads the file, applies the options, checks, and finishes `options`. Complaints go to stderr, and
 * what was asked for to stdout. `*conf` is the caller's with CONF_RUN, else NULL. */
RMEM_MUST_CHECK enum conf_verdict conf_options_load(struct conf_options *options,
						    struct conf **conf);
