/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger of a lane: what was posted and for whom, retired in order.
 *
 * A record is the stretch of one posted chain that belongs to one owner (a batch): a chain with
 * requests of one batch has one record, one with requests of three batches has three. Records have
 * consecutive sequence numbers and lie in a ring of 2^n slots at `sequence & mask`:
 *
 *	  head          posted         tail
 *	----+--------------+--------------+----
 *	    |   posted     |  open chain  |
 *
 * A lane completes in order, so one completion retires every record up to its own, those included
 * whose requests asked for no completion (the posted part of a chain that was cut short: orphans).
 * The live records are therefore always the contiguous range head..tail, and "tail - head <
 * capacity" is exactly the condition for slot `tail` to be free. Each record counts at least one
 * work request and each work request takes one of `capacity` credits, so credits run out first or
 * together with slots; both are checked all the same.
 *
 * Sequence numbers wrap at 2^32; all comparisons are of differences. Every operation is O(1) and
 * allocates nothing. Used by the reactor that owns the lane. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/hint.h"

struct rmem_ledger_record {
	void *owner;
	uint32_t count; /* work requests; at least 1 */
	uint32_t reserved;
};

struct rmem_ledger {
	struct rmem_ledger_record *records;
	uint32_t mask;
	uint32_t head;
	uint32_t posted;
	uint32_t tail;
	uint32_t credits; /* work requests that may still be added */
};

#define RMEM_LEDGER_CAPACITY_MAX (1u << 20)

/* `capacity`: work requests outstanding at most, a power of two. Errors: -EINVAL, -ENOMEM. */
int rmem_ledger_init(struct rmem_ledger *ledger, uint32_t capacity) RMEM_MUST_CHECK;
void rmem_ledger_finish(struct rmem_ledger *ledger);

/* How many work requests a new record may count: 0 is back-pressure. */
static inline uint32_t rmem_ledger_room(const struct rmem_ledger *ledger)
{
	return ledger->tail - ledger->head <= ledger->mask ? ledger->credits : 0;
}

/* Adds a record of `count` requests, 1..room, to the open chain. The sequence it gets is what
 * ledger->tail was. */
void rmem_ledger_add(struct rmem_ledger *ledger, void *owner, uint32_t count);

/* The first `accepted` requests of the open chain were posted. A record that straddles the cut is
 * split; what was not accepted stays open under new sequence numbers when it had to move. */
void rmem_ledger_post(struct rmem_ledger *ledger, uint32_t accepted);

/* Takes out the oldest posted record if it is at or before `sequence`. False when there is none,
 * or `sequence` is not that of a posted record. */
bool rmem_ledger_retire(struct rmem_ledger *ledger, uint32_t sequence,
			struct rmem_ledger_record *record);

/* Takes out the newest record of the open chain; false when it is empty. */
bool rmem_ledger_cancel(struct rmem_ledger *ledger, struct rmem_ledger_record *record);

/* The record of `sequence`, head <= sequence < tail. Until the ledger changes. */
const struct rmem_ledger_record *rmem_ledger_at(const struct rmem_ledger *ledger,
						uint32_t sequence);

/* Makes `owner` that of every record. */
void rmem_ledger_disown(struct rmem_ledger *ledger, void *owner);

/* Whether `sequence` is that of a record that was posted and not retired. */
static inline bool rmem_ledger_is_posted(const struct rmem_ledger *ledger, uint32_t sequence)
{
	return sequence - ledger->head < ledger->posted - ledger->head;
}
