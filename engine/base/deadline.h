/* SPDX-License-Identifier: Apache-2.0 */
/* Points in time by which something has to be done, in nanoseconds of the monotonic clock. */
#pragma once

#include <stdint.h>

#include "engine/base/timer.h"

static inline uint64_t rmem_deadline_in_ms(unsigned timeout_ms)
{
	return rmem_now_ns() + (uint64_t)timeout_ms * RMEM_NS_PER_MS;
}

/* Milliseconds that are left, rounded up so that sleeping them reaches the deadline; 0 when it has
 * passed. */
static inline int rmem_deadline_left_ms(uint64_t deadline_ns)
{
	uint64_t now = rmem_now_ns();
	uint64_t left;

	if (deadline_ns <= now)
		return 0;
	left = (deadline_ns - now + RMEM_NS_PER_MS - 1) / RMEM_NS_PER_MS;
	return left > INT32_MAX ? INT32_MAX : (int)left;
}
