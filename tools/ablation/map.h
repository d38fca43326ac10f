/* SPDX-License-Identifier: Apache-2.0 */
/* A hash map of numbers, for the replacements here: chained nodes, as many buckets as there can be
 * nodes, and the number itself for a hash. That is as good as such a map gets, so what is measured
 * is the design and not how well it was written. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct map_node {
	struct map_node *next;
	uint64_t key;
};

struct map {
	struct map_node **buckets;
	uint64_t mask;
};

/* `bucket_count` is a power of two. False when there is no memory. */
static inline bool map_init(struct map *map, uint64_t bucket_count)
{
	map->buckets = calloc(bucket_count, sizeof(struct map_node *));
	map->mask = bucket_count - 1;
	return map->buckets != NULL;
}

static inline void map_insert(struct map *map, struct map_node *node)
{
	struct map_node **bucket = &map->buckets[node->key & map->mask];

	node->next = *bucket;
	*bucket = node;
}

static inline struct map_node *map_find(const struct map *map, uint64_t key)
{
	struct map_node *node = map->buckets[key & map->mask];

	while (node != NULL && node->key != key)
		node = node->next;
	return node;
}

static inline struct map_node *map_remove(struct map *map, uint64_t key)
{
	struct map_node **at = &map->buckets[key & map->mask];
	struct map_node *node;

	while (*at != NULL && (*at)->key != key)
		at = &(*at)->next;
	node = *at;
	if (node != NULL)
		*at = node->next;
	return node;
}
