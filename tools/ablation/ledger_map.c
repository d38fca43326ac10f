/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger as it was: what was posted is in a hash map under a mutex, in nodes that are allocated
 * when it is posted and freed when it has ended. In place of engine/ledger.c, behind its header.
 *
 * There are two forms, for which meson compiles it twice: a node for each record (a chain's
 * requests for one batch), and a node for each work request. What is still being put together has
 * not been posted and needs no node: it waits in an array, as it would on a stack. One post locks
 * once however many nodes it adds, and one completion once however many it removes.
 *
 * `records` of the header's struct is private to the ledger: here it leads to a struct book. */
#include "engine/ledger.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>

#include "engine/base/checked.h"
#include "tools/ablation/map.h"

struct node {
	struct map_node map;
	void *owner;
	uint32_t requests;
	uint32_t left; /* nodes of the same record that follow */
};

struct book {
	pthread_mutex_t lock; /* over what follows up to `open` */
	struct map map;
	uint64_t first, end; /* keys of the nodes in the map */
	struct rmem_ledger_record found;
	struct rmem_ledger_record open[]; /* not posted; at sequence & mask */
};

static inline struct book *book_of(const struct rmem_ledger *ledger)
{
	return (struct book *)ledger->records;
}

int rmem_ledger_init(struct rmem_ledger *ledger, uint32_t capacity)
{
	struct book *book;

	*ledger = (struct rmem_ledger){0};
	if (!rmem_is_power_of_two(capacity) || capacity > RMEM_LEDGER_CAPACITY_MAX)
		return -EINVAL;
	book = calloc(1, sizeof(*book) + capacity * sizeof(book->open[0]));
	if (book == NULL || !map_init(&book->map, capacity)) {
		free(book);
		return -ENOMEM;
	}
	pthread_mutex_init(&book->lock, NULL);
	ledger->records = (struct rmem_ledger_record *)book;
	ledger->mask = capacity - 1;
	ledger->credits = capacity;
	return 0;
}

void rmem_ledger_finish(struct rmem_ledger *ledger)
{
	struct book *book = book_of(ledger);

	if (book != NULL) {
		while (book->first != book->end)
			free(map_remove(&book->map, book->first++));
		free(book->map.buckets);
		pthread_mutex_destroy(&book->lock);
		free(book);
	}
	*ledger = (struct rmem_ledger){0};
}

void rmem_ledger_add(struct rmem_ledger *ledger, void *owner, uint32_t count)
{
	struct rmem_ledger_record *record = &book_of(ledger)->open[ledger->tail & ledger->mask];

	assert(count >= 1);
	assert(count <= rmem_ledger_room(ledger));
	record->owner = owner;
	record->count = count;
	ledger->credits -= count;
	ledger->tail++;
}

/* --- Nodes ------------------------------------------------------------------------------------ */

static void add_node(struct book *book, void *owner, uint32_t requests, uint32_t left)
{
	struct node *node = malloc(sizeof(*node));

	if (node == NULL)
		abort();
	*node = (struct node){
		.map.key = book->end++, .owner = owner, .requests = requests, .left = left};
	map_insert(&book->map, &node->map);
}

static void add_record(struct book *book, const struct rmem_ledger_record *record)
{
	if (!RMEM_ABLATION_NODE_PER_REQUEST) {
		add_node(book, record->owner, record->count, 0);
		return;
	}
	for (uint32_t left = record->count; left-- > 0;)
		add_node(book, record->owner, 1, left);
}

static void remove_record(struct book *book, struct rmem_ledger_record *record)
{
	uint32_t left;

	record->count = 0;
	do {
		struct node *node = (struct node *)map_remove(&book->map, book->first++);

		record->owner = node->owner;
		record->count += node->requests;
		left = node->left;
		free(node);
	} while (left > 0);
}

/* --- Posting and retiring --------------------------------------------------------------------- */

static RMEM_COLD void split(struct rmem_ledger *ledger, uint32_t accepted)
{
	struct rmem_ledger_record *open = book_of(ledger)->open;
	uint32_t mask = ledger->mask;

	for (uint32_t at = ledger->tail; at != ledger->posted; at--)
		open[at & mask] = open[(at - 1) & mask];
	ledger->tail++;
	open[ledger->posted & mask].count = accepted;
	open[(ledger->posted + 1) & mask].count -= accepted;
}

void rmem_ledger_post(struct rmem_ledger *ledger, uint32_t accepted)
{
	struct book *book = book_of(ledger);

	pthread_mutex_lock(&book->lock);
	while (accepted > 0) {
		const struct rmem_ledger_record *record =
			&book->open[ledger->posted & ledger->mask];

		assert(ledger->posted != ledger->tail);
		if (RMEM_UNLIKELY(record->count > accepted))
			split(ledger, accepted);
		add_record(book, record);
		accepted -= record->count;
		ledger->posted++;
	}
	pthread_mutex_unlock(&book->lock);
}

bool rmem_ledger_retire(struct rmem_ledger *ledger, uint32_t sequence,
			struct rmem_ledger_record *record)
{
	struct book *book = book_of(ledger);

	if (!rmem_ledger_is_posted(ledger, sequence))
		return false;
	pthread_mutex_lock(&book->lock);
	remove_record(book, record);
	pthread_mutex_unlock(&book->lock);
	ledger->credits += record->count;
	ledger->head++;
	return true;
}

bool rmem_ledger_cancel(struct rmem_ledger *ledger, struct rmem_ledger_record *record)
{
	if (ledger->tail == ledger->posted)
		return false;
	ledger->tail--;
	*record = book_of(ledger)->open[ledger->tail & ledger->mask];
	ledger->credits += record->count;
	return true;
}

/* --- When something failed -------------------------------------------------------------------- */

const struct rmem_ledger_record *rmem_ledger_at(const struct rmem_ledger *ledger, uint32_t sequence)
{
	struct book *book = book_of(ledger);
	uint64_t key = book->first;
	const struct node *node = NULL;

	if (!rmem_ledger_is_posted(ledger, sequence))
		return &book->open[sequence & ledger->mask];
	for (uint32_t at = ledger->head; at != sequence + 1; at++) {
		node = (const struct node *)map_find(&book->map, key);
		key += 1 + node->left;
	}
	book->found.owner = node->owner;
	book->found.count = node->requests + node->left;
	return &book->found;
}

void rmem_ledger_disown(struct rmem_ledger *ledger, void *owner)
{
	struct book *book = book_of(ledger);

	for (uint64_t key = book->first; key != book->end; key++)
		((struct node *)map_find(&book->map, key))->owner = owner;
	for (uint32_t at = ledger->posted; at != ledger->tail; at++)
		book->open[at & ledger->mask].owner = owner;
}
