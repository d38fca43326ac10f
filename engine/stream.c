/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/stream.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "engine/stream_units.h"

_Static_assert(RMEM_PAGE_BYTES % RMEM_STREAM_BLOCK_BYTES == 0, "a page is whole blocks");

struct version {
	void (*fill)(void *dst, unsigned char byte, size_t length);
	void (*copy)(void *dst, const void *src, size_t length);
};

static const struct version versions[RMEM_STREAM_ISAS] = {
	[RMEM_STREAM_OFF] = {rmem_stream_fill_plain, rmem_stream_copy_plain},
	[RMEM_STREAM_SSE2] = {rmem_stream_fill_sse2, rmem_stream_copy_sse2},
	[RMEM_STREAM_AVX2] = {rmem_stream_fill_avx2, rmem_stream_copy_avx2},
	[RMEM_STREAM_AVX512] = {rmem_stream_fill_avx512, rmem_stream_copy_avx512},
};

static const char *const names[RMEM_STREAM_ISAS] = {
	[RMEM_STREAM_AUTO] = "auto", [RMEM_STREAM_OFF] = "off",	      [RMEM_STREAM_SSE2] = "sse2",
	[RMEM_STREAM_AVX2] = "avx2", [RMEM_STREAM_AVX512] = "avx512",
};

/* Relaxed on both sides: it points to constants, and each version does for every other. */
static _Atomic(const struct version *) selected = &versions[RMEM_STREAM_OFF];

/* The compiler's CPU test knows the CPU's features and, for AVX2 and AVX-512, asks XGETBV whether
 * the operating system saves the registers: a kernel booted with `noxsave` has neither, whatever
 * the CPU says. */
bool rmem_stream_isa_available(enum rmem_stream_isa isa)
{
	switch (isa) {
	case RMEM_STREAM_AUTO:
	case RMEM_STREAM_OFF:
		return true;
#if RMEM_STREAM_X86
	case RMEM_STREAM_SSE2:
		return __builtin_cpu_supports("sse2") != 0;
	case RMEM_STREAM_AVX2:
		return __builtin_cpu_supports("avx2") != 0;
	case RMEM_STREAM_AVX512:
		return __builtin_cpu_supports("avx512f") != 0;
#endif
	default:
		return false;
	}
}

static enum rmem_stream_isa best(void)
{
	int isa = RMEM_STREAM_ISAS - 1;

	while (!rmem_stream_isa_available((enum rmem_stream_isa)isa))
		isa--;
	return (enum rmem_stream_isa)isa;
}

int rmem_stream_select(enum rmem_stream_isa wanted, struct rmem_error *error)
{
	assert(wanted < RMEM_STREAM_ISAS);
	if (!rmem_stream_isa_available(wanted))
		return rmem_fail(error, ENOTSUP,
				 "streaming stores: %s is not available (the CPU lacks it or the "
				 "operating system has it disabled); the best here is %s, and auto "
				 "chooses it",
				 names[wanted], names[best()]);
	if (wanted == RMEM_STREAM_AUTO)
		wanted = best();
	atomic_store_explicit(&selected, &versions[wanted], memory_order_relaxed);
	return 0;
}

enum rmem_stream_isa rmem_stream_isa_selected(void)
{
	return (enum rmem_stream_isa)(atomic_load_explicit(&selected, memory_order_relaxed) -
				      versions);
}

const char *rmem_stream_isa_name(enum rmem_stream_isa isa)
{
	assert(isa < RMEM_STREAM_ISAS);
	return names[isa];
}

int rmem_stream_isa_from_name(const char *name, enum rmem_stream_isa *isa)
{
	for (unsigned i = 0; i < RMEM_STREAM_ISAS; i++) {
		if (strcmp(name, names[i]) == 0) {
			*isa = (enum rmem_stream_isa)i;
			return 0;
		}
	}
	return -EINVAL;
}

void rmem_stream_fill(void *dst, unsigned char byte, size_t length)
{
	atomic_load_explicit(&selected, memory_order_relaxed)->fill(dst, byte, length);
}

void rmem_stream_copy(void *dst, const void *src, size_t length)
{
	/* Differences wrap, so each says "apart" for the one that is in front. */
	assert((uintptr_t)dst - (uintptr_t)src >= length);
	assert((uintptr_t)src - (uintptr_t)dst >= length);
	atomic_load_explicit(&selected, memory_order_relaxed)->copy(dst, src, length);
}
