/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/memtouch_pattern.h"

#include <inttypes.h>
#include <stdio.h>

#define PAGE_WORDS (RMEM_PAGE_BYTES / sizeof(uint64_t))
/* The golden ratio's fraction: odd, so no two positions of a page have one key. */
#define KEY_STEP UINT64_C(0x9e3779b97f4a7c15)

/* Three fields of 10, 30 and 24 bits. A word is this, masked with the key of its position. */
static uint64_t pack(struct touch_mark mark)
{
	return (uint64_t)mark.thread << 54 | (uint64_t)mark.page << 24 | mark.pass;
}

static struct touch_mark unpack(uint64_t packed)
{
	return (struct touch_mark){.thread = (uint32_t)(packed >> 54),
				   .page = (uint32_t)(packed >> 24) & ((UINT32_C(1) << 30) - 1),
				   .pass = (uint32_t)packed & TOUCH_PASS_MAX};
}

/* The finalizer of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators):
 * one to one, so seeds that differ give salts that do. */
uint64_t touch_pattern_salt(uint64_t seed)
{
	uint64_t x = seed + KEY_STEP;

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

void touch_pattern_fill(void *page, uint64_t salt, struct touch_mark mark)
{
	uint64_t *words = page, packed = pack(mark);

	for (size_t i = 0; i < PAGE_WORDS; i++)
		words[i] = packed ^ (salt + i * KEY_STEP);
}

bool touch_pattern_ok(const void *page, uint64_t salt, struct touch_mark mark)
{
	const uint64_t *words = page;
	uint64_t packed = pack(mark), differences = 0;

	for (size_t i = 0; i < PAGE_WORDS; i++)
		differences |= words[i] ^ packed ^ (salt + i * KEY_STEP);
	return differences == 0;
}

static void explain_word(uint64_t word, uint64_t key, struct touch_mark wanted, char *text,
			 size_t text_bytes)
{
	struct touch_mark found = unpack(word ^ key);

	if (word == 0)
		snprintf(text, text_bytes, "zero");
	else if (found.thread == wanted.thread && found.page == wanted.page)
		snprintf(text, text_bytes, "what this thread wrote there in pass %" PRIu32,
			 found.pass);
	else if (found.thread == wanted.thread && found.pass <= wanted.pass + 1)
		snprintf(text, text_bytes, "of page %" PRIu32 ", pass %" PRIu32, found.page,
			 found.pass);
	else if (found.page == wanted.page && found.pass <= wanted.pass + 1)
		snprintf(text, text_bytes, "of thread %" PRIu32 ", pass %" PRIu32, found.thread,
			 found.pass);
	else
		snprintf(text, text_bytes, "0x%016" PRIx64 " for 0x%016" PRIx64, word,
			 pack(wanted) ^ key);
}

void touch_pattern_explain(const void *page, uint64_t salt, struct touch_mark mark, char *text,
			   size_t text_bytes)
{
	const uint64_t *words = page;
	size_t wrong = 0, first = 0;
	char found[96];

	for (size_t i = PAGE_WORDS; i-- > 0;) {
		if (words[i] != (pack(mark) ^ (salt + i * KEY_STEP))) {
			wrong++;
			first = i;
		}
	}
	if (wrong == 0) {
		snprintf(text, text_bytes, "no word is wrong");
		return;
	}
	explain_word(words[first], salt + first * KEY_STEP, mark, found, sizeof(found));
	snprintf(text, text_bytes,
		 "thread %" PRIu32 ", page %" PRIu32 ", pass %" PRIu32
		 ": %zu of %zu words are wrong, the first at byte %zu: %s",
		 mark.thread, mark.page, mark.pass, wrong, PAGE_WORDS, first * sizeof(*words),
		 found);
}
