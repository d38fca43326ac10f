/* SPDX-License-Identifier: Apache-2.0 */
/* A program's configuration: defaults, under a file, under the command line.
 *
 *	struct conf *conf = conf_create(CONF_RMEMFS);
 *	conf_load(conf, "/etc/rmemfs/scratch.cfg", &errors);
 *	conf_set(conf, "engine.chunk=128KiB", &errors);
 *	conf_check(conf, &errors);
 *
 * (config/options.h does these steps for a main().) Filled by one thread; from then on it does not
 * change, and any thread may read it until conf_destroy(). What the getters return belongs to it.
 * A getter with a key that is not in the schema, or with one of another type, is a mistake in the
 * program and aborts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/errors.h"
#include "config/schema.h"
#include "engine/base/error.h"
#include "engine/base/hint.h"

struct conf;

/* Every setting at its default. NULL when memory is short. */
struct conf *conf_create(enum conf_program program);
void conf_destroy(struct conf *conf);

/* Reads the file over what is there. Everything that is wrong in it is added to `errors`, in the
 * order of the lines and with file, line and key; what is right is taken. Settings of other
 * programs are checked like one's own, so that one file may serve several.
 * 0; -EINVAL for a wrong content; -errno of a file that cannot be read; -ENOMEM. */
RMEM_MUST_CHECK int conf_load(struct conf *conf, const char *path, struct conf_errors *errors);

/* Takes "key=value" from the command line's --set. The items of a list stand between commas, and
 * those of a second --set are added to the first's; together they replace the file's list.
 * -EINVAL with what is wrong in `errors`, also for a setting that this program does not use. */
RMEM_MUST_CHECK int conf_set(struct conf *conf, const char *assignment, struct conf_errors *errors);

/* Takes the value of an option of the program's own, such as "--listen", for `key`, which has to
 * exist. Of a list, it is one item (with whatever commas), else as conf_set(). */
RMEM_MUST_CHECK int conf_override(struct conf *conf, const char *option, const char *key,
				  const char *value, struct conf_errors *errors);

/* What can only be judged when everything is read: settings that the program needs and that are
 * still empty, and pairs that contradict each other. -EINVAL with all of them in `errors`. After
 * errors in a file or an option it says nothing about what may only follow from those. */
RMEM_MUST_CHECK int conf_check(const struct conf *conf, struct conf_errors *errors);

bool conf_bool(const struct conf *conf, const char *key);
unsigned conf_count(const struct conf *conf, const char *key);
uint64_t conf_size_bytes(const struct conf *conf, const char *key);
uint64_t conf_duration_us(const struct conf *conf, const char *key);
unsigned conf_mode(const struct conf *conf, const char *key);
/* The index among the key's words: the enums of config/schema.h. */
unsigned conf_enum(const struct conf *conf, const char *key);
const char *conf_word(const struct conf *conf, const char *key);
/* A path, a URL, or "" where none was set. */
const char *conf_text(const struct conf *conf, const char *key);
const char *const *conf_list(const struct conf *conf, const char *key, size_t *count);

/* Where the value comes from, for messages: "rmemfs.cfg:12", "--set", or "default". */
const char *conf_origin(const struct conf *conf, const char *key);

/* Sets levels and sink of engine/base/log.h from log.*. Call it before other threads log. With the
 * sink at auto that is stderr; who goes to the background turns to syslog then. */
void conf_apply_log(const struct conf *conf);
/* Switches measuring on or off as engine.telemetry says. */
void conf_apply_telemetry(const struct conf *conf);
