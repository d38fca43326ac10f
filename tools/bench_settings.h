/* SPDX-License-Identifier: Apache-2.0 */
/* What rmem-bench is told to measure: its own options, apart from the engine's settings.
 *
 * One table drives parsing, defaults and help: a new option is one row in bench_options.c. The
 * engine's settings keep their place in config/schema.c; rows here that stand for one of them only
 * name its key. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "config/schema.h"
#include "engine/base/error.h"
#include "engine/base/hint.h"
#include "tools/bench_layout.h"

enum bench_command {
	BENCH_BW = 1u << 0,
	BENCH_LAT = 1u << 1,
	BENCH_ABLATE = 1u << 2,
	BENCH_STREAM = 1u << 3,
	BENCH_ECHO = 1u << 4,
};

enum bench_op { BENCH_WRITE, BENCH_READ, BENCH_SEND, BENCH_BOTH, BENCH_ALL };

/* Each batch leaves two numbers behind, from which exact percentiles are made: 256 MiB. */
#define BENCH_SAMPLES_MAX (UINT64_C(1) << 24)

/* Messages of a reactor, in all its batches for all servers, are prepared: 640 MiB. */
#define BENCH_SEGMENTS_MAX (UINT64_C(1) << 24)

/* How a reactor's messages go to several servers. */
enum bench_spread {
	BENCH_BY_BATCH,	  /* a batch to one server, the next one to the next */
	BENCH_BY_MESSAGE, /* message by message in turn */
};

struct bench_preset {
	const char *name;
	uint64_t reactors, batch, size_min, size_max, iterations;
	/* Settings of the engine. */
	const char *lanes, *chunk;
};

/* Enums and flags are kept as numbers, so that the table can reach everything alike. */
struct bench_settings {
	enum bench_command command;
	const struct bench_preset *preset; /* NULL: none */
	uint64_t op;			   /* enum bench_op */
	uint64_t size_min, size_max;	   /* bytes; doubled from one to the other */
	uint64_t reactors;
	uint64_t batch;	     /* messages */
	uint64_t in_flight;  /* batches of each reactor */
	uint64_t iterations; /* batches of each reactor; operations for lat */
	uint64_t warmup;     /* likewise, before the clock starts */
	uint64_t repeat;
	uint64_t limit_us; /* of one measurement; 0: none */
	uint64_t rate;	   /* messages a second of each reactor; 0: as many as it can */
	uint64_t idle_us;  /* for lat; 0: don't look at idle reactors */
	uint64_t layout;   /* enum bench_layout_kind */
	uint64_t spread;   /* enum bench_spread */
	uint64_t servers;  /* of its own */
	uint64_t servers_given;
	uint64_t memory_bytes; /* local and remote, at most; 0: half of what is free */
	uint64_t overwrite;
	uint64_t verify;
	uint64_t copy; /* measure plain copies, too */
	uint64_t json;
	uint64_t count;	  /* messages, over which to count instructions */
	const char *plot;   /* NULL: none */
	const char *listen; /* for echo */
	const char *answer; /* for lat: where the echo reaches it; NULL: nowhere */
};

enum bench_option_kind {
	BENCH_OPTION_FLAG,
	BENCH_OPTION_NUMBER,
	BENCH_OPTION_SIZES, /* A or A:B */
	BENCH_OPTION_TEXT,
	BENCH_OPTION_PRESET,
	BENCH_OPTION_SETTING, /* of the engine: for config/, not for here */
};

struct bench_option {
	const char *name; /* "--batch" */
	const char *argument;
	const char *help; /* in lines; ends without one */
	enum bench_option_kind kind;
	unsigned commands;   /* that have it */
	size_t offset;	     /* in struct bench_settings: where it is kept, */
	size_t given_offset; /* and where that it was given; 0: nowhere */
	struct conf_key key; /* NUMBER: type, bounds, words, default */
	const char *setting; /* SETTING: the key in config/ */
	const char *off;     /* SETTING: what "off" stands for; NULL: nothing */
};

extern const struct bench_option bench_options[];
extern const size_t bench_option_count;

/* Everything at the command's defaults. */
void bench_settings_init(struct bench_settings *settings, enum bench_command command);

/* Takes one option that is no SETTING. A preset overwrites what was given before it: take it first.
 * The text is kept for TEXT. -EINVAL, with what was found and what is allowed. */
int bench_settings_take(struct bench_settings *settings, const struct bench_option *option,
			const char *text, struct rmem_error *error) RMEM_MUST_CHECK;

/* What can only be judged when all are taken. -EINVAL. */
int bench_settings_check(const struct bench_settings *settings,
			 struct rmem_error *error) RMEM_MUST_CHECK;

/* The sizes to measure, ascending; returns how many, at most BENCH_SIZES_MAX. */
#define BENCH_SIZES_MAX 40
unsigned bench_settings_sizes(const struct bench_settings *settings,
			      uint64_t sizes[BENCH_SIZES_MAX]);

const struct bench_preset *bench_preset_find(const char *name);

/* "64KiB" */
#define BENCH_SIZE_TEXT 32
const char *bench_size_text(uint64_t bytes, char text[BENCH_SIZE_TEXT]);

/* The command's options, one paragraph each. */
void bench_settings_help(enum bench_command command, FILE *out);
