/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of what is measured operation by operation: the time stamp counter where the kernel
 * trusts it as its own clock, which takes some 10 instructions, else the monotonic clock, which
 * takes a hundred. The tools next to which rmem-bench is measured read the counter, too. */
#pragma once

#include <stdint.h>

#include "engine/base/hint.h"
#include "engine/base/timer.h"

struct bench_clock {
	uint64_t from_ticks, from_ns; /* the same moment */
	uint64_t rate;		      /* ns a tick, in units of 2^-32; 0: the counter is not used */
};

/* Set by bench_clock_init(), and constant from then on. */
extern struct bench_clock bench_clock;

/* Before any thread is started; takes some 20 ms the first time. */
void bench_clock_init(void);

/* What a processor counts time in, at the same pace whatever its frequency; 0 where there is no
 * such counter that a program may read. */
static inline uint64_t bench_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	return 0;
#endif
}

/* As rmem_now_ns(), and within some millionths as fast. */
static inline uint64_t bench_now_ns(void)
{
	__extension__ typedef unsigned __int128 wide;

	if (RMEM_UNLIKELY(bench_clock.rate == 0))
		return rmem_now_ns();
	return bench_clock.from_ns +
	       (uint64_t)((wide)(bench_ticks() - bench_clock.from_ticks) * bench_clock.rate >> 32);
}
