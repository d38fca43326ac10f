/* SPDX-License-Identifier: Apache-2.0 */
/* 16-byte streaming stores. See stream_units.h for what may stand in this file. */
#include "engine/stream_units.h"

#if RMEM_STREAM_X86

#ifndef __SSE2__
#error "this unit needs -msse2"
#endif

#include <emmintrin.h>

#define LINE_VECTORS (RMEM_STREAM_LINE_BYTES / sizeof(__m128i))

_Static_assert(RMEM_STREAM_LINE_BYTES == 4 * sizeof(__m128i), "a line is four vectors");
_Static_assert(RMEM_STREAM_BLOCK_BYTES == 4 * RMEM_STREAM_LINE_BYTES, "a block is four lines");

static inline void fill_line(__m128i *out, __m128i value)
{
	_mm_stream_si128(out + 0, value);
	_mm_stream_si128(out + 1, value);
	_mm_stream_si128(out + 2, value);
	_mm_stream_si128(out + 3, value);
}

void rmem_stream_fill_sse2(void *dst, unsigned char byte, size_t length)
{
	size_t head = rmem_stream_head(dst);
	__m128i value = _mm_set1_epi8((char)byte);
	unsigned char *to = dst;

	if (length < head + RMEM_STREAM_BLOCK_BYTES) {
		rmem_stream_fill_plain(to, byte, length);
		return;
	}
	rmem_stream_fill_plain(to, byte, head);
	to += head;
	length -= head;
	for (; length >= RMEM_STREAM_BLOCK_BYTES; length -= RMEM_STREAM_BLOCK_BYTES) {
		__m128i *out = (__m128i *)(void *)to;

		fill_line(out, value);
		fill_line(out + LINE_VECTORS, value);
		fill_line(out + 2 * LINE_VECTORS, value);
		fill_line(out + 3 * LINE_VECTORS, value);
		to += RMEM_STREAM_BLOCK_BYTES;
	}
	rmem_stream_fill_plain(to, byte, length);
	_mm_sfence();
}

/* Half a block, because 32-bit x86 has eight vector registers and 64-bit x86 sixteen. */
/* A line at a time, as in the other units. */
static inline void copy_line(__m128i *out, const __m128i *in)
{
	__m128i a = _mm_loadu_si128(in + 0);
	__m128i b = _mm_loadu_si128(in + 1);
	__m128i c = _mm_loadu_si128(in + 2);
	__m128i d = _mm_loadu_si128(in + 3);

	_mm_stream_si128(out + 0, a);
	_mm_stream_si128(out + 1, b);
	_mm_stream_si128(out + 2, c);
	_mm_stream_si128(out + 3, d);
}

void rmem_stream_copy_sse2(void *dst, const void *src, size_t length)
{
	size_t head = rmem_stream_head(dst);
	const unsigned char *from = src;
	unsigned char *to = dst;

	if (length < head + RMEM_STREAM_BLOCK_BYTES) {
		rmem_stream_copy_plain(to, from, length);
		return;
	}
	rmem_stream_copy_plain(to, from, head);
	to += head;
	from += head;
	length -= head;
	for (; length >= RMEM_STREAM_BLOCK_BYTES; length -= RMEM_STREAM_BLOCK_BYTES) {
		__m128i *out = (__m128i *)(void *)to;
		const __m128i *in = (const __m128i *)(const void *)from;

		copy_line(out, in);
		copy_line(out + LINE_VECTORS, in + LINE_VECTORS);
		copy_line(out + 2 * LINE_VECTORS, in + 2 * LINE_VECTORS);
		copy_line(out + 3 * LINE_VECTORS, in + 3 * LINE_VECTORS);
		to += RMEM_STREAM_BLOCK_BYTES;
		from += RMEM_STREAM_BLOCK_BYTES;
	}
	rmem_stream_copy_plain(to, from, length);
	_mm_sfence();
}

#else

void rmem_stream_fill_sse2(void *dst, unsigned char byte, size_t length)
{
	(void)dst, (void)byte, (void)length;
	rmem_stream_foreign("sse2");
}

void rmem_stream_copy_sse2(void *dst, const void *src, size_t length)
{
	(void)dst, (void)src, (void)length;
	rmem_stream_foreign("sse2");
}

#endif
