/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a mount that can change while it runs: how much it logs, and whether it measures. */
#include "fs/control_set.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/timer.h"

static int set_level(const char *module_name, const char *value, struct rmem_error *error)
{
	enum rmem_log_module module;
	enum rmem_log_level level;

	if (rmem_log_level_from_name(value, &level) != 0)
		return rmem_fail(error, EINVAL,
				 "%s: not a level; it is one of error, warn, info, debug", value);
	if (strcmp(module_name, "level") == 0) {
		for (unsigned i = 0; i < RMEM_LOG_MODULES; i++)
			rmem_log_set_level((enum rmem_log_module)i, level);
		return 0;
	}
	if (rmem_log_module_from_name(module_name, &module) != 0)
		return rmem_fail(error, EINVAL, "log.%s: no such module of the log", module_name);
	rmem_log_set_level(module, level);
	return 0;
}

static int set_telemetry(const char *value, struct rmem_error *error)
{
	bool on = strcmp(value, "true") == 0;

	if (!on && strcmp(value, "false") != 0)
		return rmem_fail(error, EINVAL, "%s: it is true or false", value);
	rmem_timer_set(RMEM_LOG_ENGINE, on);
	return 0;
}

int control_set(const char *assignment, struct rmem_error *error)
{
	const char *equals = strchr(assignment, '=');
	char key[64];

	if (equals == NULL || (size_t)(equals - assignment) >= sizeof(key))
		return rmem_fail(error, EINVAL, "%s: not of the form KEY=VALUE", assignment);
	memcpy(key, assignment, (size_t)(equals - assignment));
	key[equals - assignment] = '\0';
	if (strncmp(key, "log.", 4) == 0)
		return set_level(key + 4, equals + 1, error);
	if (strcmp(key, "engine.telemetry") == 0)
		return set_telemetry(equals + 1, error);
	return rmem_fail(
		error, EINVAL,
		"%s can't be changed while the mount runs; engine.telemetry, log.level and "
		"log.MODULE can",
		key);
}
