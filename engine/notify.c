/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/notify.h"

#include <assert.h>
#include <string.h>

#include "engine/base/checked.h"

#define ARRIVED ((uint64_t)1 << 32)

_Static_assert((RMEM_ARRIVALS & (RMEM_ARRIVALS - 1)) == 0, "a mask selects the slot");
_Static_assert(RMEM_ARRIVALS >= 2 * RMEM_NOTICES_MAX, "what is under way fits in twice");

void rmem_notify_init(struct rmem_notify *notify, uint32_t depth)
{
	assert(rmem_is_power_of_two(depth));
	assert(depth <= RMEM_NOTICES_MAX);
	memset(notify, 0, sizeof(*notify));
	notify->depth = depth;
	notify->credits = depth;
	notify->grant_at = depth > 1 ? depth / 2 : 1;
}

bool rmem_notify_granted(struct rmem_notify *notify, uint32_t count)
{
	if (count > notify->depth - notify->credits)
		return false;
	notify->credits += count;
	return true;
}

uint32_t rmem_notify_take(struct rmem_notify *notify, uint32_t transfer)
{
	uint32_t taken = notify->taken + 1;

	notify->arrived[transfer & (RMEM_ARRIVALS - 1)] = ARRIVED | transfer;
	notify->taken = taken < notify->grant_at ? taken : 0;
	return taken < notify->grant_at ? 0 : taken;
}

bool rmem_notify_has_arrived(const struct rmem_notify *notify, uint32_t transfer)
{
	uint64_t slot = notify->arrived[transfer & (RMEM_ARRIVALS - 1)];

	return slot >= ARRIVED && (int32_t)((uint32_t)slot - transfer) >= 0;
}
