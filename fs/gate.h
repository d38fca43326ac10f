/* SPDX-License-Identifier: Apache-2.0 */
/* Who may move bytes of a file at the same time.
 *
 * Reads and ordinary writes enter shared. What changes the meaning of pages under others' feet
 * (truncation, punching, padding a fresh page with zeros) enters exclusively: it starts after
 * everything that is running has ended, and nothing starts before it has. Waiters enter in the
 * order in which they came. Nobody blocks: who has to wait is resumed by who leaves.
 *
 * A gate has no lock of its own; every function wants the inode's lock held. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct io_waiter {
	struct io_waiter *next;
	bool exclusive;
	/* Called without locks by the thread that let us in; hands over to our own thread. */
	void (*resume)(struct io_waiter *waiter);
};

struct io_gate {
	unsigned shared; /* operations inside */
	bool exclusive;	 /* one inside, alone */
	struct io_waiter *head;
	struct io_waiter *tail;
};

void gate_init(struct io_gate *gate);

/* Whether anybody is inside or waits. */
static inline bool gate_is_busy(const struct io_gate *gate)
{
	return gate->exclusive || gate->shared > 0 || gate->head != NULL;
}

/* True: inside. False: queued; resume() is called once we are inside. */
bool gate_enter(struct io_gate *gate, struct io_waiter *waiter);

/* Leaves, and returns the list (by ->next) of the waiters that are inside from now on: the caller
 * passes it to gate_resume() after it has dropped the inode's lock. */
struct io_waiter *gate_leave(struct io_gate *gate, const struct io_waiter *waiter);
void gate_resume(struct io_waiter *list);
