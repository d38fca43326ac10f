/* SPDX-License-Identifier: Apache-2.0 */
/* 64-byte streaming stores. See stream_units.h for what may stand in this file. AVX-512F is all
 * that it takes, so that every CPU with AVX-512 will do. */
#include "engine/stream_units.h"

#if RMEM_STREAM_X86

#ifndef __AVX512F__
#error "this unit needs -mavx512f"
#endif

#include <immintrin.h>

_Static_assert(RMEM_STREAM_LINE_BYTES == sizeof(__m512i), "a line is one vector");
_Static_assert(RMEM_STREAM_BLOCK_BYTES == 4 * RMEM_STREAM_LINE_BYTES, "a block is four lines");

void rmem_stream_fill_avx512(void *dst, unsigned char byte, size_t length)
{
	size_t head = rmem_stream_head(dst);
	__m512i value = _mm512_set1_epi8((char)byte);
	unsigned char *to = dst;

	if (length < head + RMEM_STREAM_BLOCK_BYTES) {
		rmem_stream_fill_plain(to, byte, length);
		return;
	}
	rmem_stream_fill_plain(to, byte, head);
	to += head;
	length -= head;
	for (; length >= RMEM_STREAM_BLOCK_BYTES; length -= RMEM_STREAM_BLOCK_BYTES) {
		__m512i *out = (__m512i *)(void *)to;

		_mm512_stream_si512(out + 0, value);
		_mm512_stream_si512(out + 1, value);
		_mm512_stream_si512(out + 2, value);
		_mm512_stream_si512(out + 3, value);
		to += RMEM_STREAM_BLOCK_BYTES;
	}
	rmem_stream_fill_plain(to, byte, length);
	_mm_sfence();
}

/* A line at a time, as in the other units. */
static inline void copy_line(__m512i *out, const __m512i *in)
{
	_mm512_stream_si512(out, _mm512_loadu_si512(in));
}

void rmem_stream_copy_avx512(void *dst, const void *src, size_t length)
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
		__m512i *out = (__m512i *)(void *)to;
		const __m512i *in = (const __m512i *)(const void *)from;

		copy_line(out + 0, in + 0);
		copy_line(out + 1, in + 1);
		copy_line(out + 2, in + 2);
		copy_line(out + 3, in + 3);
		to += RMEM_STREAM_BLOCK_BYTES;
		from += RMEM_STREAM_BLOCK_BYTES;
	}
	rmem_stream_copy_plain(to, from, length);
	_mm_sfence();
}

#else

void rmem_stream_fill_avx512(void *dst, unsigned char byte, size_t length)
{
	(void)dst, (void)byte, (void)length;
	rmem_stream_foreign("avx512");
}

void rmem_stream_copy_avx512(void *dst, const void *src, size_t length)
{
	(void)dst, (void)src, (void)length;
	rmem_stream_foreign("avx512");
}

#endif
