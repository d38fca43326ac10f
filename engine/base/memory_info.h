/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory there is. Slow path. */
#pragma once

#include <stdint.h>

#include "engine/base/error.h"

/* A line of /proc/meminfo, in its own unit (kB, or pages); 0 when it isn't there. */
uint64_t rmem_meminfo(const char *name);

/* Refuses what there is no memory for: more than is free here, or than the control group of this
 * process may use. `what` begins the sentence: "a pool". Errors: -ENOMEM. */
int rmem_memory_check(const char *what, uint64_t bytes, struct rmem_error *error) RMEM_MUST_CHECK;
