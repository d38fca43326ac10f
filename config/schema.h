/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of every setting.
 *
 * The loader, the defaults, `--set`, `--help-config` and config/README.md are all made from it: a
 * new setting is one row in schema.c (and its meaning, in whoever reads it). Constant data, read
 * by any thread.
 *
 * Everything that leaves config/ starts with conf_, not config_: those names are libconfig's, and
 * a program that defined one of them would replace it inside that library. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum conf_type {
	CONF_BOOL,
	CONF_COUNT,    /* a plain whole number */
	CONF_SIZE,     /* kept in bytes */
	CONF_DURATION, /* kept in microseconds */
	CONF_MODE,     /* access rights, octal digits */
	CONF_ENUM,     /* one of `words`, kept as its index */
	CONF_PATH,     /* an absolute path, or one of `words` */
	CONF_URL,      /* in one of the forms that `words` shows */
	CONF_URL_LIST, /* any number of them, none twice */
};

/* The programs that use a setting, as a set. */
enum conf_program {
	CONF_RMEMFS = 1u << 0,
	CONF_RMEMD = 1u << 1,
	CONF_RMEMCTL = 1u << 2,
	CONF_BENCH = 1u << 3,
};

struct conf_key {
	const char *name; /* dotted: "engine.chunk" is `chunk` in the group `engine` */
	enum conf_type type;
	unsigned programs;	     /* that use it */
	unsigned required;	     /* programs that do not start without it */
	uint64_t min, max, multiple; /* of numbers, in the unit that is kept; multiple 0 is any */
	/* Ends with NULL. CONF_URL: forms such as "shm:/PATH"; what is before the first capital
	 * letter has to be there literally. */
	const char *const *words;
	const char *initial; /* the default, as --set would take it; "" for an empty list */
	const char *help;    /* sentences */
};

extern const struct conf_key conf_schema[];
extern const size_t conf_schema_count;

/* The values of enum settings, in the order of their words. */
enum conf_cache { CONF_CACHE_DEFAULT, CONF_CACHE_NONE, CONF_CACHE_AUTO, CONF_CACHE_ALWAYS };
enum conf_write { CONF_WRITE_THROUGH, CONF_WRITE_BACK };
enum conf_sync { CONF_SYNC_FSYNC, CONF_SYNC_COMMIT };
enum conf_poll { CONF_POLL_BUSY, CONF_POLL_EVENT, CONF_POLL_ADAPTIVE };
enum conf_huge_pages { CONF_HUGE_AUTO, CONF_HUGE_OFF, CONF_HUGE_REQUIRE };
enum conf_streaming {
	CONF_STREAMING_AUTO,
	CONF_STREAMING_AVX512,
	CONF_STREAMING_AVX2,
	CONF_STREAMING_SSE2,
	CONF_STREAMING_OFF,
};
enum conf_mtu { CONF_MTU_AUTO }; /* then 256, 512 and so on */
enum conf_log_sink { CONF_LOG_AUTO, CONF_LOG_STDERR, CONF_LOG_SYSLOG };

/* NULL when there is no such key. */
const struct conf_key *conf_key_find(const char *name);

/* Whether some key lies in the group: "engine" is one, "engine.chunk" and "engi" are not. */
bool conf_group_exists(const char *name);

/* The key (or group, when `name` has no dot and groups are nearer) most like `name`, or NULL when
 * nothing is like it. Groups are written into a key's own text, so the length counts. */
struct conf_nearest {
	const char *text;
	size_t length;
};
struct conf_nearest conf_nearest_key(const char *name);

/* "rmemfs, rmemd", or "all programs" */
void conf_programs_text(unsigned programs, char *text, size_t size);
const char *conf_program_name(enum conf_program program);

/* Pairs of which the first must not exceed the second. Ends with a NULL. */
struct conf_order {
	const char *lesser, *greater;
};
extern const struct conf_order conf_orders[];
