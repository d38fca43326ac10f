/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/memory_info.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/checked.h"

#define MIB ((uint64_t)1 << 20)

uint64_t rmem_meminfo(const char *name)
{
	FILE *file = fopen("/proc/meminfo", "re");
	size_t name_length = strlen(name);
	uint64_t value = 0;
	char line[128];

	if (file == NULL)
		return 0;
	while (fgets(line, sizeof(line), file) != NULL) {
		if (strncmp(line, name, name_length) == 0 && line[name_length] == ':') {
			if (sscanf(line + name_length + 1, "%" SCNu64, &value) != 1)
				value = 0;
			break;
		}
	}
	fclose(file);
	return value;
}

/* The number in a control file; UINT64_MAX when it has none ("max") or isn't there. */
static uint64_t read_limit(const char *root, const char *group, const char *name)
{
	uint64_t limit = UINT64_MAX;
	char path[PATH_MAX];
	FILE *file;

	if (snprintf(path, sizeof(path), "%s%s/%s", root, group, name) >= (int)sizeof(path))
		return UINT64_MAX;
	file = fopen(path, "re");
	if (file == NULL)
		return UINT64_MAX;
	if (fscanf(file, "%" SCNu64, &limit) != 1)
		limit = UINT64_MAX;
	fclose(file);
	return limit;
}

/* The least of the limits of a group and those above it; `group` is cut on the way. */
static uint64_t group_limit(const char *root, char *group, const char *name)
{
	uint64_t limit = UINT64_MAX;
	char *slash;

	while ((slash = strrchr(group, '/')) != NULL) {
		limit = rmem_min_u64(limit, read_limit(root, group, name));
		*slash = '\0';
	}
	return rmem_min_u64(limit, read_limit(root, "", name));
}

/* How much the control groups of this process let it have, in all: a container's share, of which
 * /proc/meminfo says nothing. */
static uint64_t control_group_limit(void)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	uint64_t limit = UINT64_MAX;
	char line[PATH_MAX];

	if (file == NULL)
		return UINT64_MAX;
	/* "0::/path" of version 2, "4:memory:/path" of version 1. */
	while (fgets(line, sizeof(line), file) != NULL) {
		char *group = strchr(line, '/');

		line[strcspn(line, "\n")] = '\0';
		if (group == NULL)
			continue;
		if (strncmp(line, "0::", 3) == 0)
			limit = rmem_min_u64(limit,
					     group_limit("/sys/fs/cgroup", group, "memory.max"));
		else if (strstr(line, ":memory:") != NULL)
			limit = rmem_min_u64(limit, group_limit("/sys/fs/cgroup/memory", group,
								"memory.limit_in_bytes"));
	}
	fclose(file);
	return limit;
}

int rmem_memory_check(const char *what, uint64_t bytes, struct rmem_error *error)
{
	uint64_t available = rmem_meminfo("MemAvailable") * 1024;
	uint64_t total = rmem_meminfo("MemTotal") * 1024;
	uint64_t limit = control_group_limit();

	/* A /proc that does not say is no reason to refuse. */
	if (available != 0 && bytes > available)
		return rmem_fail(error, ENOMEM,
				 "%s of %" PRIu64 " MiB is more than the %" PRIu64
				 " MiB of memory that are free here (of %" PRIu64
				 " MiB): make it smaller, or free memory",
				 what, bytes / MIB, available / MIB, total / MIB);
	if (bytes > limit)
		return rmem_fail(error, ENOMEM,
				 "%s of %" PRIu64 " MiB is more than the %" PRIu64
				 " MiB of memory that this control group may use",
				 what, bytes / MIB, limit / MIB);
	return 0;
}
