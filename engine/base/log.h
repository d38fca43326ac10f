/* SPDX-License-Identifier: Apache-2.0 */
/* Logging by module and level.
 *
 * A message that is off costs one load and one predicted branch; its arguments are not
 * evaluated. The sink is stderr until rmem_log_to_syslog(). Any thread may log. */
#pragma once

#include <stdatomic.h>

#include "engine/base/error.h"
#include "engine/base/hint.h"

enum rmem_log_level {
	RMEM_LOG_ERROR,
	RMEM_LOG_WARN,
	RMEM_LOG_INFO,
	RMEM_LOG_DEBUG,
};

enum rmem_log_module {
	RMEM_LOG_CONFIG,
	RMEM_LOG_ENGINE,
	RMEM_LOG_FABRIC,
	RMEM_LOG_SERVER,
	RMEM_LOG_STORE,
	RMEM_LOG_FS,
	RMEM_LOG_TOOL,
	RMEM_LOG_MODULES,
};

/* One level per module; written by rmem_log_set_level(), read relaxed: a level that is seen a
 * little late loses or shows a message, nothing else. */
extern _Atomic(unsigned char) rmem_log_levels[RMEM_LOG_MODULES];

void rmem_log_set_level(enum rmem_log_module module, enum rmem_log_level level);

/* Names as the configuration spells them: "engine", "debug". -EINVAL when unknown. */
int rmem_log_module_from_name(const char *name, enum rmem_log_module *module);
int rmem_log_level_from_name(const char *name, enum rmem_log_level *level);
const char *rmem_log_module_name(enum rmem_log_module module);

/* The name that starts each line; the string must live as long as the process. */
void rmem_log_set_program(const char *program);
void rmem_log_to_syslog(void);

void rmem_log_write(enum rmem_log_module module, enum rmem_log_level level, const char *format, ...)
	RMEM_PRINTF(3, 4) RMEM_COLD;

static inline int rmem_log_is_on(enum rmem_log_module module, enum rmem_log_level level)
{
	return atomic_load_explicit(&rmem_log_levels[module], memory_order_relaxed) >=
	       (unsigned char)level;
}

#define rmem_log(module, level, ...)                                                               \
	do {                                                                                       \
		if (RMEM_UNLIKELY(rmem_log_is_on((module), (level))))                              \
			rmem_log_write((module), (level), __VA_ARGS__);                            \
	} while (0)

#define rmem_log_error(module, ...) rmem_log((module), RMEM_LOG_ERROR, __VA_ARGS__)
#define rmem_log_warn(module, ...)  rmem_log((module), RMEM_LOG_WARN, __VA_ARGS__)
#define rmem_log_info(module, ...)  rmem_log((module), RMEM_LOG_INFO, __VA_ARGS__)
#define rmem_log_debug(module, ...) rmem_log((module), RMEM_LOG_DEBUG, __VA_ARGS__)
