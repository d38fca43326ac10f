/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks, and timers that cost nothing when off.
 *
 * A timer belongs to a module (the modules of the log) and reads the clock only while timing is
 * on for it; off, starting and reading one is a load and a predicted branch each. What a timer
 * that was off measured is 0, also when timing was switched on between start and read. Sampling
 * (struct rmem_sampler) keeps the cost low when on: one call in `period` reads the clock. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "engine/base/hint.h"
#include "engine/base/log.h"

#define RMEM_NS_PER_US 1000u
#define RMEM_NS_PER_MS 1000000u
#define RMEM_NS_PER_S  1000000000u

/* Nanoseconds of the monotonic clock; never 0, so that 0 can mean "not set". About 20 ns. */
static inline uint64_t rmem_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * RMEM_NS_PER_S + (uint64_t)now.tv_nsec + 1;
}

/* One bit a module. Written by rmem_timer_set(), read relaxed: a switch that is seen a little
 * late loses or adds a measurement, nothing else. */
extern _Atomic(unsigned) rmem_timer_modules;

/* Switches timing on or off for one module; off is the default. Any thread, at any time. */
void rmem_timer_set(enum rmem_log_module module, bool on);

static inline bool rmem_timer_is_on(enum rmem_log_module module)
{
	return (atomic_load_explicit(&rmem_timer_modules, memory_order_relaxed) >> module) & 1;
}

struct rmem_timer {
	uint64_t start_ns; /* 0: was off when it was started */
};

static inline void rmem_timer_start(struct rmem_timer *timer, enum rmem_log_module module)
{
	timer->start_ns = 0;
	if (RMEM_UNLIKELY(rmem_timer_is_on(module)))
		timer->start_ns = rmem_now_ns();
}

/* Since the start; 0 when it was off then, or never started but zeroed. */
static inline uint64_t rmem_timer_elapsed_ns(const struct rmem_timer *timer)
{
	if (RMEM_LIKELY(timer->start_ns == 0))
		return 0;
	return rmem_now_ns() - timer->start_ns;
}

/* Which calls to measure: the first, then one in `period`. One thread's own. */
struct rmem_sampler {
	uint32_t period; /* at least 1 */
	uint32_t left;	 /* calls until the next that is measured, less 1 */
};

static inline void rmem_sampler_init(struct rmem_sampler *sampler, uint32_t period)
{
	sampler->period = period > 0 ? period : 1;
	sampler->left = 0;
}

/* The half of rmem_sampler_start() that is for timing that is on. */
void rmem_sampler_take(struct rmem_sampler *sampler, struct rmem_timer *timer) RMEM_COLD;

/* Starts `timer` if its module is on and this call is one to measure; else leaves it off. */
static inline void rmem_sampler_start(struct rmem_sampler *sampler, struct rmem_timer *timer,
				      enum rmem_log_module module)
{
	timer->start_ns = 0;
	if (RMEM_UNLIKELY(rmem_timer_is_on(module)))
		rmem_sampler_take(sampler, timer);
}
