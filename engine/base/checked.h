/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on numbers that came from outside. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether [offset, offset + length) lies within [0, size). Cannot overflow. */
static inline bool rmem_range_ok(uint64_t offset, uint64_t length, uint64_t size)
{
	return offset <= size && length <= size - offset;
}

static inline uint64_t rmem_min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t rmem_max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* `unit` is a power of two. rmem_round_up() wraps for values within unit of 2^64: check first. */
static inline uint64_t rmem_round_down(uint64_t value, uint64_t unit)
{
	return value & ~(unit - 1);
}

static inline uint64_t rmem_round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) & ~(unit - 1);
}

static inline bool rmem_is_power_of_two(uint64_t value)
{
	return value != 0 && (value & (value - 1)) == 0;
}
