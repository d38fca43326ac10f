/* SPDX-License-Identifier: Apache-2.0 */
/* 32-byte streaming stores. See stream_units.h for what may stand in this file. */
#include "engine/stream_units.h"

#if RMEM_STREAM_X86

#ifndef __AVX2__
#error "this unit needs -mavx2"
#endif

#include <immintrin.h>

#define LINE_VECTORS (RMEM_STREAM_LINE_BYTES / sizeof(__m256i))

_Static_assert(RMEM_STREAM_LINE_BYTES == 2 * sizeof(__m256i), "a line is two vectors");
_Static_assert(RMEM_STREAM_BLOCK_BYTES == 4 * RMEM_STREAM_LINE_BYTES, "a block is four lines");

static inline void fill_line(__m256i *out, __m256i value)
{
	_mm256_stream_si256(out + 0, value);
	_mm256_stream_si256(out + 1, value);
}

void rmem_stream_fill_avx2(void *dst, unsigned char byte, size_t length)
{
	size_t head = rmem_stream_head(dst);
	__m256i value = _mm256_set1_epi8((char)byte);
	unsigned char *to = dst;

	if (length < head + RMEM_STREAM_BLOCK_BYTES) {
		rmem_stream_fill_plain(to, byte, length);
		return;
	}
	rmem_stream_fill_plain(to, byte, head);
	to += head;
	length -= head;
	for (; length >= RMEM_STREAM_BLOCK_BYTES; length -= RMEM_STREAM_BLOCK_BYTES) {
		__m256i *out = (__m256i *)(void *)to;

		fill_line(out, value);
		fill_line(out + LINE_VECTORS, value);
		fill_line(out + 2 * LINE_VECTORS, value);
		fill_line(out + 3 * LINE_VECTORS, value);
		to += RMEM_STREAM_BLOCK_BYTES;
	}
	rmem_stream_fill_plain(to, byte, length);
	_mm_sfence();
}

/* A line at a time: loading the whole block before storing it measured 10 % slower from warm and
 * 40 % slower from cold memory. */
static inline void copy_line(__m256i *out, const __m256i *in)
{
	__m256i a = _mm256_loadu_si256(in + 0);
	__m256i b = _mm256_loadu_si256(in + 1);

	_mm256_stream_si256(out + 0, a);
	_mm256_stream_si256(out + 1, b);
}

void rmem_stream_copy_avx2(void *dst, const void *src, size_t length)
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
		__m256i *out = (__m256i *)(void *)to;
		const __m256i *in = (const __m256i *)(const void *)from;

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

void rmem_stream_fill_avx2(void *dst, unsigned char byte, size_t length)
{
	(void)dst, (void)byte, (void)length;
	rmem_stream_foreign("avx2");
}

void rmem_stream_copy_avx2(void *dst, const void *src, size_t length)
{
	(void)dst, (void)src, (void)length;
	rmem_stream_foreign("avx2");
}

#endif
