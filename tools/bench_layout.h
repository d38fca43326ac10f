/* SPDX-License-Identifier: Apache-2.0 */
/* Where the messages of a batch lie.
 *
 * A reactor has a stretch of local memory and one as long on each server; for a message size it is
 * cut into slots of that size, and message i of a batch uses the slot with the same number on both
 * sides. When there are fewer slots than messages they are used again.
 *
 *  - contiguous: slots in ascending order, so that neighbours merge into one work request;
 *  - scattered: in steps of about 0.62 of the slots, never of one, so that no two neighbours merge
 *    and each message costs a work request of its own, as messages do that have nothing to do with
 *    each other. All slots are used once before any is used again.
 *
 * Pure computation. */
#pragma once

#include <stdint.h>

enum bench_layout_kind {
	BENCH_SCATTERED,
	BENCH_CONTIGUOUS,
};

struct bench_layout {
	uint64_t slots; /* at least 1 */
	uint64_t step;	/* from a message to the next; has no divisor in common with slots */
	uint64_t start;
};

/* For `wanted` messages, of which `room` have a slot; both at least 1. */
void bench_layout_init(struct bench_layout *layout, enum bench_layout_kind kind, uint64_t wanted,
		       uint64_t room);

static inline uint64_t bench_layout_slot(const struct bench_layout *layout, uint64_t message)
{
	return (layout->start + message % layout->slots * layout->step) % layout->slots;
}

/* --- Content ---------------------------------------------------------------------------------- */

/* Bytes that are a function of seed, slot and place, so that what is found elsewhere than where it
 * was put, or is of an older run, is told apart. */
void bench_pattern_fill(void *bytes, uint64_t length, uint64_t seed, uint64_t slot);

/* The place of the first byte that differs from the pattern; `length` when none does. */
uint64_t bench_pattern_check(const void *bytes, uint64_t length, uint64_t seed, uint64_t slot);

/* The byte that belongs there. */
unsigned char bench_pattern_byte(uint64_t place, uint64_t seed, uint64_t slot);
