/* SPDX-License-Identifier: Apache-2.0 */
/* Timers as they were: each reads the clock when it starts and when it ends, and only then finds
 * out that nobody wants to know. In place of engine/base/timer.c, behind its header. */
#include "engine/base/timer.h"

/* All are on, so that the header's inline half calls. */
_Atomic(unsigned) rmem_timer_modules = ~0u;

static _Atomic(unsigned) wanted;

void rmem_timer_set(enum rmem_log_module module, bool on)
{
	unsigned bit = 1u << module;

	if (on)
		atomic_fetch_or_explicit(&wanted, bit, memory_order_relaxed);
	else
		atomic_fetch_and_explicit(&wanted, ~bit, memory_order_relaxed);
}

/* One batch, one timer: its start and its end. Both are here, and the timer is left as one that was
 * off, so that recording what nobody asked for is not counted against it. */
void rmem_sampler_take(struct rmem_sampler *sampler, struct rmem_timer *timer)
{
	uint64_t start_ns = rmem_now_ns();
	uint64_t elapsed_ns = rmem_now_ns() - start_ns;

	__asm__ volatile("" : : "r"(elapsed_ns));
	if (atomic_load_explicit(&wanted, memory_order_relaxed) != 0 && sampler->left-- == 0) {
		sampler->left = sampler->period - 1;
		timer->start_ns = start_ns;
	}
}
