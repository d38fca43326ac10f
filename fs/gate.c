/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/gate.h"

#include <assert.h>
#include <stddef.h>

void gate_init(struct io_gate *gate)
{
	*gate = (struct io_gate){0};
}

static bool may_enter(const struct io_gate *gate, const struct io_waiter *waiter)
{
	if (gate->exclusive)
		return false;
	return !waiter->exclusive || gate->shared == 0;
}

static void count_in(struct io_gate *gate, const struct io_waiter *waiter)
{
	if (waiter->exclusive)
		gate->exclusive = true;
	else
		gate->shared++;
}

bool gate_enter(struct io_gate *gate, struct io_waiter *waiter)
{
	if (gate->head == NULL && may_enter(gate, waiter)) {
		count_in(gate, waiter);
		return true;
	}
	waiter->next = NULL;
	if (gate->head == NULL)
		gate->head = waiter;
	else
		gate->tail->next = waiter;
	gate->tail = waiter;
	return false;
}

struct io_waiter *gate_leave(struct io_gate *gate, const struct io_waiter *waiter)
{
	struct io_waiter *first = gate->head, *last = NULL;

	if (waiter->exclusive) {
		assert(gate->exclusive);
		gate->exclusive = false;
	} else {
		assert(gate->shared > 0);
		gate->shared--;
	}
	while (gate->head != NULL && may_enter(gate, gate->head)) {
		last = gate->head;
		count_in(gate, last);
		gate->head = last->next;
	}
	if (last == NULL)
		return NULL;
	last->next = NULL;
	return first;
}

void gate_resume(struct io_waiter *list)
{
	while (list != NULL) {
		struct io_waiter *next = list->next; /* resume() may free it */

		list->resume(list);
		list = next;
	}
}
