/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/ledger.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "engine/base/checked.h"

int rmem_ledger_init(struct rmem_ledger *ledger, uint32_t capacity)
{
	*ledger = (struct rmem_ledger){0};
	if (!rmem_is_power_of_two(capacity) || capacity > RMEM_LEDGER_CAPACITY_MAX)
		return -EINVAL;
	ledger->records = calloc(capacity, sizeof(*ledger->records));
	if (!ledger->records)
		return -ENOMEM;
	ledger->mask = capacity - 1;
	ledger->credits = capacity;
	return 0;
}

void rmem_ledger_finish(struct rmem_ledger *ledger)
{
	free(ledger->records);
	*ledger = (struct rmem_ledger){0};
}

void rmem_ledger_add(struct rmem_ledger *ledger, void *owner, uint32_t count)
{
	struct rmem_ledger_record *record = &ledger->records[ledger->tail & ledger->mask];

	assert(count >= 1);
	assert(count <= rmem_ledger_room(ledger));
	record->owner = owner;
	record->count = count;
	ledger->credits -= count;
	ledger->tail++;
}

/* Splits the record at ledger->posted into `accepted` requests that were posted and the rest, and
 * moves everything behind it up by one. There is room: the split record counts two requests or
 * more, so records are fewer than requests, which are at most as many as slots. */
static RMEM_COLD void split(struct rmem_ledger *ledger, uint32_t accepted)
{
	struct rmem_ledger_record *records = ledger->records;
	uint32_t mask = ledger->mask;

	assert(ledger->tail - ledger->head <= mask);
	for (uint32_t at = ledger->tail; at != ledger->posted; at--)
		records[at & mask] = records[(at - 1) & mask];
	ledger->tail++;
	records[ledger->posted & mask].count = accepted;
	ledger->posted++;
	records[ledger->posted & mask].count -= accepted;
}

void rmem_ledger_post(struct rmem_ledger *ledger, uint32_t accepted)
{
	while (accepted > 0) {
		uint32_t count = ledger->records[ledger->posted & ledger->mask].count;

		assert(ledger->posted != ledger->tail);
		if (RMEM_UNLIKELY(count > accepted)) {
			split(ledger, accepted);
			return;
		}
		accepted -= count;
		ledger->posted++;
	}
}

bool rmem_ledger_retire(struct rmem_ledger *ledger, uint32_t sequence,
			struct rmem_ledger_record *record)
{
	if (!rmem_ledger_is_posted(ledger, sequence))
		return false;
	*record = ledger->records[ledger->head & ledger->mask];
	ledger->credits += record->count;
	ledger->head++;
	return true;
}

const struct rmem_ledger_record *rmem_ledger_at(const struct rmem_ledger *ledger, uint32_t sequence)
{
	return &ledger->records[sequence & ledger->mask];
}

void rmem_ledger_disown(struct rmem_ledger *ledger, void *owner)
{
	for (uint32_t at = ledger->head; at != ledger->tail; at++)
		ledger->records[at & ledger->mask].owner = owner;
}

bool rmem_ledger_cancel(struct rmem_ledger *ledger, struct rmem_ledger_record *record)
{
	if (ledger->tail == ledger->posted)
		return false;
	ledger->tail--;
	*record = ledger->records[ledger->tail & ledger->mask];
	ledger->credits += record->count;
	return true;
}
