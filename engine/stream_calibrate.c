/* SPDX-License-Identifier: Apache-2.0 */
/* Measures from which length on streaming pays.
 *
 * What counts is a destination that is in no cache, so its lines are flushed before each try; the
 * source stays warm, as a payload is that has just arrived. Versions take turns, and of each the
 * fastest of a few tries counts: what else runs on the machine only ever slows one down. */
#include "engine/stream_policy.h"

#include <string.h>
#include <sys/mman.h>

#include "engine/base/log.h"
#include "engine/base/timer.h"
#include "engine/stream.h"
#include "engine/stream_units.h"

#define TRIES	  5
#define AREA	  (64u << 10) /* written in each try, in pieces of the length that is measured */
#define GAIN_MIN  1.1
#define SPENT_MAX (20 * RMEM_NS_PER_MS) /* on a machine that crawls: take what there is then */

static const size_t lengths[] = {64 << 10, 32 << 10, 16 << 10, 8 << 10, 4 << 10};

/* By version; 0: not measured yet. Relaxed: who measures at the same time finds about the same. */
static _Atomic(size_t) thresholds[RMEM_STREAM_ISAS];

static void flush_lines(unsigned char *area)
{
#if RMEM_STREAM_X86
	for (size_t i = 0; i < AREA; i += RMEM_STREAM_LINE_BYTES)
		__asm__ volatile("clflush %0" : "+m"(area[i]));
	__asm__ volatile("mfence" ::: "memory");
#else
	(void)area;
#endif
}

static uint64_t time_one(void (*copy)(void *, const void *, size_t), unsigned char *area,
			 const unsigned char *from, size_t length)
{
	uint64_t start;

	flush_lines(area);
	start = rmem_now_ns();
	for (size_t i = 0; i < AREA; i += length)
		copy(area + i, from, length);
	return rmem_now_ns() - start;
}

static bool is_gain(unsigned char *area, const unsigned char *from, size_t length)
{
	uint64_t plain = UINT64_MAX, streamed = UINT64_MAX;

	for (unsigned i = 0; i < TRIES; i++) {
		uint64_t took = time_one(rmem_stream_copy_plain, area, from, length);

		plain = took < plain ? took : plain;
		took = time_one(rmem_stream_copy, area, from, length);
		streamed = took < streamed ? took : streamed;
	}
	rmem_log_debug(RMEM_LOG_ENGINE, "copies of %zu KiB: ordinary %.2f GB/s, %s %.2f GB/s",
		       length >> 10, AREA / (double)plain,
		       rmem_stream_isa_name(rmem_stream_isa_selected()), AREA / (double)streamed);
	return (double)plain >= GAIN_MIN * (double)streamed;
}

static size_t measure(void)
{
	unsigned char *memory = mmap(NULL, 2 * AREA, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	uint64_t start = rmem_now_ns();
	size_t found = RMEM_STREAM_NEVER;

	if (memory == MAP_FAILED)
		return RMEM_STREAM_NEVER;
	memset(memory, 1, 2 * AREA);
	for (size_t i = 0; i < RMEM_COUNT_OF(lengths); i++) {
		if (!is_gain(memory, memory + AREA, lengths[i]) ||
		    rmem_now_ns() - start > SPENT_MAX)
			break;
		found = lengths[i];
	}
	munmap(memory, 2 * AREA);
	return found;
}

size_t rmem_stream_threshold_bytes(void)
{
	enum rmem_stream_isa isa = rmem_stream_isa_selected();
	size_t found;

	if (isa == RMEM_STREAM_OFF)
		return RMEM_STREAM_NEVER;
	found = atomic_load_explicit(&thresholds[isa], memory_order_relaxed);
	if (found == 0) {
		found = measure();
		atomic_store_explicit(&thresholds[isa], found, memory_order_relaxed);
	}
	return found;
}
