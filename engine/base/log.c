/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

_Atomic(unsigned char) rmem_log_levels[RMEM_LOG_MODULES] = {
	RMEM_LOG_INFO, RMEM_LOG_INFO, RMEM_LOG_INFO, RMEM_LOG_INFO,
	RMEM_LOG_INFO, RMEM_LOG_INFO, RMEM_LOG_INFO,
};

static const char *const module_names[RMEM_LOG_MODULES] = {
	"config", "engine", "fabric", "server", "store", "fs", "tool",
};
static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const int level_syslog[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};

static const char *program_name = "rmemfs";
/* Written once, before other threads log through it. */
static _Atomic(bool) use_syslog;

void rmem_log_set_level(enum rmem_log_module module, enum rmem_log_level level)
{
	atomic_store_explicit(&rmem_log_levels[module], (unsigned char)level,
			      memory_order_relaxed);
}

int rmem_log_module_from_name(const char *name, enum rmem_log_module *module)
{
	for (unsigned i = 0; i < RMEM_COUNT_OF(module_names); i++) {
		if (strcmp(name, module_names[i]) == 0) {
			*module = (enum rmem_log_module)i;
			return 0;
		}
	}
	return -EINVAL;
}

int rmem_log_level_from_name(const char *name, enum rmem_log_level *level)
{
	for (unsigned i = 0; i < RMEM_COUNT_OF(level_names); i++) {
		if (strcmp(name, level_names[i]) == 0) {
			*level = (enum rmem_log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *rmem_log_module_name(enum rmem_log_module module)
{
	return module_names[module];
}

void rmem_log_set_program(const char *program)
{
	program_name = program;
}

void rmem_log_to_syslog(void)
{
	openlog(program_name, LOG_PID, LOG_DAEMON);
	atomic_store(&use_syslog, true);
}

void rmem_log_write(enum rmem_log_module module, enum rmem_log_level level, const char *format, ...)
{
	char text[2048], stamp[40];
	struct timespec now;
	struct tm utc;
	va_list args;
	int length;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (atomic_load_explicit(&use_syslog, memory_order_relaxed)) {
		syslog(level_syslog[level], "%s: %s", module_names[module], text);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &utc);
	/* One write per line, so that lines of several threads and processes do not mix. */
	char line[2200];
	length = snprintf(line, sizeof(line), "%s.%03ldZ %s[%ld] %s %s: %s\n", stamp,
			  now.tv_nsec / 1000000, program_name, (long)getpid(), level_names[level],
			  module_names[module], text);
	if (length > (int)sizeof(line) - 1)
		length = (int)sizeof(line) - 1;
	if (length > 0 && write(STDERR_FILENO, line, (size_t)length) < 0)
		return; /* nowhere left to say it */
}
