/* SPDX-License-Identifier: Apache-2.0 */
/* Registered local memory as reactors see it: from an address to the key a port knows it by.
 *
 * A map is immutable: it is made anew when memory or a port comes or goes, and published with the
 * endpoint table. A view is a reactor's, and remembers the range that was hit last: nearly every
 * lookup is for the staging arena and ends there. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/checked.h"
#include "engine/base/hint.h"

#define RMEM_PORTS_MAX 8

struct rmem_memory_range {
	uintptr_t start;
	uint64_t length;
	uint32_t keys[RMEM_PORTS_MAX];
};

struct rmem_memory_map {
	uint32_t count;
	struct rmem_memory_range ranges[]; /* sorted, disjoint */
};

struct rmem_memory_view {
	uintptr_t start; /* what was hit last; length 0: nothing yet */
	uint64_t length;
	uint32_t key;
	uint32_t port; /* index into keys */
	const struct rmem_memory_map *map;
};

/* The range that holds all of [address, address + length); NULL when there is none. */
const struct rmem_memory_range *rmem_memory_find(const struct rmem_memory_map *map,
						 uintptr_t address, uint64_t length);

/* Sorts the ranges. False when two overlap. */
bool rmem_memory_sort(struct rmem_memory_map *map);

/* Starts over with another map. */
void rmem_memory_view_set(struct rmem_memory_view *view, const struct rmem_memory_map *map);

/* The slow half of rmem_memory_key(). */
bool rmem_memory_look(struct rmem_memory_view *view, uintptr_t address, uint64_t length);

/* False when the bytes do not all lie in one registered range; otherwise view->key is theirs. */
static inline bool rmem_memory_key(struct rmem_memory_view *view, const void *local,
				   uint64_t length)
{
	uintptr_t address = (uintptr_t)local;

	if (RMEM_LIKELY(rmem_range_ok(address - view->start, length, view->length)))
		return true;
	return rmem_memory_look(view, address, length);
}
