/* SPDX-License-Identifier: Apache-2.0 */
/* How long to poll for what is awaited before going to sleep, learnt from how long it takes.
 *
 * Polling pays when it outlasts the wait. How long waits are, the fabric and the other end decide:
 * a card answers in some microseconds, an emulated one or a busy peer in hundreds. So a sleep that
 * ended after a wait of up to RMEM_SPIN_GROWTH times the base makes the next spins twice as long as
 * that wait, and one that took longer than any spin may makes them as short as at first: who waits
 * for something rare sleeps, at the cost of one long spin. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define RMEM_SPIN_GROWTH 16 /* times the base, at most */

struct rmem_spin {
	uint64_t base_ns; /* 0: never spins */
	uint64_t limit_ns;
};

static inline void rmem_spin_init(struct rmem_spin *spin, uint64_t base_ns)
{
	*spin = (struct rmem_spin){.base_ns = base_ns, .limit_ns = base_ns};
}

/* What was awaited came after `waited_ns`, during a sleep; or a sleep ended without it. */
static inline void rmem_spin_learn(struct rmem_spin *spin, uint64_t waited_ns, bool came)
{
	uint64_t most_ns = spin->base_ns * RMEM_SPIN_GROWTH;
	uint64_t wanted_ns = 2 * waited_ns < most_ns ? 2 * waited_ns : most_ns;

	if (waited_ns > most_ns)
		spin->limit_ns = spin->base_ns;
	else if (came && wanted_ns > spin->limit_ns)
		spin->limit_ns = wanted_ns;
}
