/* SPDX-License-Identifier: Apache-2.0 */
/* The books of one lane's notices, each way: what may be sent, what is to be granted, what arrived.
 *
 * Both sides of a lane keep the same books, with the same number of notices under way at most,
 * `depth`. Sending takes a credit, and the peer gives it back by a grant once it has taken the
 * notice in. Grants go out for half of the depth at a time, so that they cost little, and so at
 * most two of them are ever under way: sent and not granted + granted and not known never exceeds
 * the depth. A fabric that needs a place at the peer for each grant needs two.
 *
 * Arrivals are remembered in a table with a slot for each residue of the transfer's number: no map,
 * nothing to search. A slot with a later number than the one that is asked for says that this one
 * came before it, if the sender numbers its notices one after the other: they come in order.
 *
 * Pure bookkeeping, used by the thread that polls the lane. Allocates nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/hint.h"
#include "engine/rmem.h"

struct rmem_notify {
	uint32_t depth;
	uint32_t credits; /* notices that may be sent now */
	uint32_t taken;	  /* taken in, and not granted again */
	uint32_t grant_at;
	uint64_t arrived[RMEM_ARRIVALS]; /* the number, and ARRIVED above it */
};

/* `depth`: 2^n, at most RMEM_NOTICES_MAX. */
void rmem_notify_init(struct rmem_notify *notify, uint32_t depth);

/* Takes a credit; false when there is none. */
static inline bool rmem_notify_send(struct rmem_notify *notify)
{
	if (RMEM_UNLIKELY(notify->credits == 0))
		return false;
	notify->credits--;
	return true;
}

/* The peer grants `count`. False: it gives more than it can have taken, so it is broken. */
bool rmem_notify_granted(struct rmem_notify *notify, uint32_t count) RMEM_MUST_CHECK;

/* A notice came. Returns how many are to be granted now; 0: not yet. */
uint32_t rmem_notify_take(struct rmem_notify *notify, uint32_t transfer);

bool rmem_notify_has_arrived(const struct rmem_notify *notify, uint32_t transfer);
