/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of bits in arrays of 64-bit words, a word at a time. Bit i is bit i % 64 of word i / 64.
 * Ranges are [from, to) and must lie within the array; the finders answer `to` for "none". */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The bits of word `word` that lie in [from, to); both touch that word. */
static inline uint64_t bitmap_mask(uint32_t word, uint32_t from, uint32_t to)
{
	uint32_t begin = word * 64;
	uint64_t mask = UINT64_MAX;

	if (from > begin)
		mask <<= from - begin;
	if (to - begin < 64)
		mask &= (UINT64_C(1) << (to - begin)) - 1;
	return mask;
}

static inline bool bitmap_test(const uint64_t *words, uint32_t bit)
{
	return words[bit / 64] >> (bit % 64) & 1;
}

static inline void bitmap_set(uint64_t *words, uint32_t from, uint32_t to)
{
	for (uint32_t word = from / 64; word * 64 < to; word++)
		words[word] |= bitmap_mask(word, from, to);
}

static inline void bitmap_clear(uint64_t *words, uint32_t from, uint32_t to)
{
	for (uint32_t word = from / 64; word * 64 < to; word++)
		words[word] &= ~bitmap_mask(word, from, to);
}

static inline uint32_t bitmap_count(const uint64_t *words, uint32_t from, uint32_t to)
{
	uint32_t count = 0;

	for (uint32_t word = from / 64; word * 64 < to; word++)
		count += (uint32_t)__builtin_popcountll(words[word] & bitmap_mask(word, from, to));
	return count;
}

/* The first bit in the range that is set (`invert` 0) or clear (`invert` all ones). */
static inline uint32_t bitmap_find(const uint64_t *words, uint32_t from, uint32_t to,
				   uint64_t invert)
{
	for (uint32_t word = from / 64; word * 64 < to; word++) {
		uint64_t bits = (words[word] ^ invert) & bitmap_mask(word, from, to);

		if (bits != 0)
			return word * 64 + (uint32_t)__builtin_ctzll(bits);
	}
	return to;
}

static inline uint32_t bitmap_find_set(const uint64_t *words, uint32_t from, uint32_t to)
{
	return bitmap_find(words, from, to, 0);
}

static inline uint32_t bitmap_find_clear(const uint64_t *words, uint32_t from, uint32_t to)
{
	return bitmap_find(words, from, to, UINT64_MAX);
}
