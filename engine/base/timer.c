/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/timer.h"

_Static_assert(RMEM_LOG_MODULES <= sizeof(unsigned) * 8, "a bit for each module");

_Atomic(unsigned) rmem_timer_modules;

void rmem_timer_set(enum rmem_log_module module, bool on)
{
	unsigned bit = 1u << module;

	if (on)
		atomic_fetch_or_explicit(&rmem_timer_modules, bit, memory_order_relaxed);
	else
		atomic_fetch_and_explicit(&rmem_timer_modules, ~bit, memory_order_relaxed);
}

void rmem_sampler_take(struct rmem_sampler *sampler, struct rmem_timer *timer)
{
	if (sampler->left > 0) {
		sampler->left--;
		return;
	}
	sampler->left = sampler->period - 1;
	timer->start_ns = rmem_now_ns();
}
