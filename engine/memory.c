/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/memory.h"

#include <stdlib.h>

const struct rmem_memory_range *rmem_memory_find(const struct rmem_memory_map *map,
						 uintptr_t address, uint64_t length)
{
	uint32_t low = 0;
	uint32_t high = map->count;

	while (low < high) { /* the first range that starts behind the address */
		uint32_t middle = low + (high - low) / 2;

		if (map->ranges[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return NULL;
	const struct rmem_memory_range *range = &map->ranges[low - 1];

	return rmem_range_ok(address - range->start, length, range->length) ? range : NULL;
}

static int compare(const void *left, const void *right)
{
	const struct rmem_memory_range *a = left;
	const struct rmem_memory_range *b = right;

	return (a->start > b->start) - (a->start < b->start);
}

bool rmem_memory_sort(struct rmem_memory_map *map)
{
	qsort(map->ranges, map->count, sizeof(map->ranges[0]), compare);
	for (uint32_t i = 1; i < map->count; i++) {
		const struct rmem_memory_range *before = &map->ranges[i - 1];

		if (map->ranges[i].start - before->start < before->length)
			return false;
	}
	return true;
}

void rmem_memory_view_set(struct rmem_memory_view *view, const struct rmem_memory_map *map)
{
	view->map = map;
	view->start = 0;
	view->length = 0;
}

RMEM_COLD bool rmem_memory_look(struct rmem_memory_view *view, uintptr_t address, uint64_t length)
{
	const struct rmem_memory_range *range = rmem_memory_find(view->map, address, length);

	if (!range)
		return false;
	view->start = range->start;
	view->length = range->length;
	view->key = range->keys[view->port];
	return true;
}
