/* SPDX-License-Identifier: Apache-2.0 */
/* What stream.c and its units, one an instruction set, share.
 *
 * A unit is compiled with the flag of its instruction set, which lets the compiler use those
 * instructions anywhere in it: so it holds nothing but these functions, and includes no header
 * whose inline functions could end up being the copy that the linker keeps for everybody.
 * Units for a foreign architecture compile to functions that abort. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__x86_64__) || defined(__i386__)
#define RMEM_STREAM_X86 1
#else
#define RMEM_STREAM_X86 0
#endif

/* Bytes an iteration writes. Four lines keep enough write-combining buffers busy. */
#define RMEM_STREAM_BLOCK_BYTES 256u
/* Blocks start at a line, so that each buffer is filled whole and leaves as one write. */
#define RMEM_STREAM_LINE_BYTES 64u

_Static_assert(RMEM_STREAM_BLOCK_BYTES % RMEM_STREAM_LINE_BYTES == 0, "blocks are whole lines");

/* Bytes before the first whole line at or after `dst`. */
static inline size_t rmem_stream_head(const void *dst)
{
	return -(uintptr_t)dst % RMEM_STREAM_LINE_BYTES;
}

/* The body of a unit that isn't for this architecture. */
_Noreturn static inline void rmem_stream_foreign(const char *isa)
{
	fprintf(stderr, "rmemfs: bug: %s streaming stores called on an architecture without\n",
		isa);
	abort();
}

/* Regions don't overlap. On return the bytes are ordered before every later store that is a
 * release. Heads, tails and what is shorter than a block go through the plain ones, a call into the
 * C library: left to itself the compiler expands a short memset() to `rep stos`, which starts
 * slowly. */
void rmem_stream_fill_plain(void *dst, unsigned char byte, size_t length);
void rmem_stream_copy_plain(void *dst, const void *src, size_t length);
void rmem_stream_fill_sse2(void *dst, unsigned char byte, size_t length);
void rmem_stream_copy_sse2(void *dst, const void *src, size_t length);
void rmem_stream_fill_avx2(void *dst, unsigned char byte, size_t length);
void rmem_stream_copy_avx2(void *dst, const void *src, size_t length);
void rmem_stream_fill_avx512(void *dst, unsigned char byte, size_t length);
void rmem_stream_copy_avx512(void *dst, const void *src, size_t length);
