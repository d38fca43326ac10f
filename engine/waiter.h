/* SPDX-License-Identifier: Apache-2.0 */
/* What a reactor waits for besides completions: descriptors, calls from other threads, timers.
 *
 * Sleeping without losing a wake-up: the reactor announces that it is about to sleep, then looks
 * once more at everything that other threads may have changed, and only then sleeps. Another thread
 * changes, then looks whether the reactor sleeps, and writes to the eventfd if so. All four steps
 * are sequentially consistent operations, so at least one side sees the other (Dekker's argument;
 * release and acquire would not do: a store followed by a load of something else may swap).
 * Waking takes back the announcement, so that of many wakers one makes the system call.
 *
 * Watched descriptors are level-triggered: what became readable before the sleep ends it at once.
 *
 * Functions are the reactor's thread's unless they say otherwise. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "engine/base/error.h"
#include "engine/base/hint.h"
#include "engine/rmem.h"

#define RMEM_WAITER_EVENTS 32

struct rmem_waiter {
	struct rmem_watch *spinning;   /* watches with a spin_fn */
	struct rmem_watch *spin_next;  /* while they are run */
	struct rmem_timeout *timeouts; /* soonest first */
	unsigned still_count;	       /* watches without one */
	int epoll_fd;
	int wake_fd;
	struct rmem_watch wake; /* of wake_fd */
	unsigned event_count;	/* while events are dispatched: how many, */
	struct epoll_event events[RMEM_WAITER_EVENTS];

	/* Other threads write these. */
	_Alignas(RMEM_CACHE_PAIR) _Atomic(struct rmem_call *) calls; /* newest first */
	_Atomic(bool) is_sleeping;
};

/* Errors: -EMFILE and others of epoll_create and eventfd. */
int rmem_waiter_init(struct rmem_waiter *waiter, struct rmem_error *error) RMEM_MUST_CHECK;
void rmem_waiter_finish(struct rmem_waiter *waiter);

int rmem_waiter_watch(struct rmem_waiter *waiter, struct rmem_watch *watch) RMEM_MUST_CHECK;
/* A watch that only ends a sleep: it is not looked at while awake, and not counted as done. */
int rmem_waiter_watch_sleeping(struct rmem_waiter *waiter,
			       struct rmem_watch *watch) RMEM_MUST_CHECK;
void rmem_waiter_unwatch(struct rmem_waiter *waiter, struct rmem_watch *watch);

/* Any thread. */
void rmem_waiter_call(struct rmem_waiter *waiter, struct rmem_call *call);
/* Any thread: ends the sleep, or the one that is about to begin, unless the reactor's last look
 * saw what the caller changed. The change must be a sequentially consistent operation. */
void rmem_waiter_wake(struct rmem_waiter *waiter);

/* Runs the calls that are there; returns how many. */
unsigned rmem_waiter_run_calls(struct rmem_waiter *waiter);
static inline bool rmem_waiter_has_calls(const struct rmem_waiter *waiter)
{
	return atomic_load_explicit(&waiter->calls, memory_order_relaxed) != NULL;
}

/* Runs the spin functions; returns what they did. */
unsigned rmem_waiter_spin(struct rmem_waiter *waiter);

void rmem_waiter_timeout_set(struct rmem_waiter *waiter, struct rmem_timeout *timeout,
			     unsigned delay_ms);
void rmem_waiter_timeout_cancel(struct rmem_waiter *waiter, struct rmem_timeout *timeout);
/* Runs the timeouts that are due; returns how many. Reads the clock only if one is set. */
unsigned rmem_waiter_run_timeouts(struct rmem_waiter *waiter);

/* Announces a sleep. Then look at everything once more (with sequentially consistent loads;
 * rmem_waiter_run_calls() is one); then wait or cancel. */
void rmem_waiter_prepare(struct rmem_waiter *waiter);
void rmem_waiter_cancel(struct rmem_waiter *waiter);
/* Waits until something is there, a timeout is due, or `timeout_ms` passed (-1: no limit; 0: only
 * looks, which needs no announcement), and runs the watches' functions. Returns how many of the
 * caller's ran, or -EINTR. */
int rmem_waiter_wait(struct rmem_waiter *waiter, int timeout_ms);
