/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_layout.h"

#include <endian.h>
#include <string.h>

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	while (b != 0) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* A step is never 1 or 0 modulo `slots`, but for two slots, where it has to be 1. */
static uint64_t scattering_step(uint64_t slots)
{
	uint64_t step = slots / 8 * 5 + slots % 8 * 5 / 8;

	if (slots <= 2)
		return 1;
	if (step < 2)
		step = 2;
	while (common_divisor(step, slots) != 1)
		step++; /* ends at slots - 1 */
	return step;
}

void bench_layout_init(struct bench_layout *layout, enum bench_layout_kind kind, uint64_t wanted,
		       uint64_t room)
{
	layout->slots = wanted < room ? wanted : room;
	layout->start = 0;
	layout->step = 1;
	if (kind == BENCH_CONTIGUOUS)
		return;
	/* Two slots in turn are contiguous every other time; two messages are not when the second
	 * slot comes first. */
	if (layout->slots == 2 && wanted > 2)
		layout->slots = 1;
	layout->start = layout->slots - 1;
	layout->step = scattering_step(layout->slots);
}

/* --- Content ---------------------------------------------------------------------------------- */

/* Eight bytes of the pattern. The multiplications spread every bit over the word (the finalizer of
 * splitmix64). */
static uint64_t word(uint64_t index, uint64_t seed, uint64_t slot)
{
	uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + (slot << 24) + index;

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return htole64(x ^ (x >> 31));
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

unsigned char bench_pattern_byte(uint64_t place, uint64_t seed, uint64_t slot)
{
	unsigned char bytes[8];
	uint64_t content = word(place / 8, seed, slot);

	memcpy(bytes, &content, sizeof(bytes));
	return bytes[place % 8];
}

void bench_pattern_fill(void *bytes, uint64_t length, uint64_t seed, uint64_t slot)
{
	unsigned char *to = bytes;

	for (uint64_t i = 0; i < length; i += 8) {
		uint64_t content = word(i / 8, seed, slot);

		memcpy(&to[i], &content, least(length - i, 8));
	}
}

uint64_t bench_pattern_check(const void *bytes, uint64_t length, uint64_t seed, uint64_t slot)
{
	const unsigned char *at = bytes;

	for (uint64_t i = 0; i < length; i += 8) {
		uint64_t content = word(i / 8, seed, slot);
		uint64_t place = i;

		if (memcmp(&at[i], &content, least(length - i, 8)) == 0)
			continue;
		while (at[place] == bench_pattern_byte(place, seed, slot))
			place++;
		return place;
	}
	return length;
}
