/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/waiter.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/timer.h"

static void drain_wake(struct rmem_watch *watch, uint32_t events)
{
	uint64_t value;

	(void)events;
	(void)!read(watch->fd, &value, sizeof(value)); /* non-blocking: empty is fine */
}

int rmem_waiter_watch_sleeping(struct rmem_waiter *waiter, struct rmem_watch *watch)
{
	struct epoll_event event = {.events = watch->events, .data.ptr = watch};

	watch->is_counted = false;
	return epoll_ctl(waiter->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) ? -errno : 0;
}

int rmem_waiter_init(struct rmem_waiter *waiter, struct rmem_error *error)
{
	int code;

	*waiter = (struct rmem_waiter){.wake_fd = -1};
	waiter->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (waiter->epoll_fd >= 0)
		waiter->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (waiter->wake_fd < 0) {
		code = errno;
		return rmem_fail(error, code, "no descriptors for a reactor to wait with: %s",
				 strerror(code));
	}
	waiter->wake = (struct rmem_watch){
		.fd = waiter->wake_fd,
		.events = EPOLLIN,
		.fn = drain_wake,
	};
	code = rmem_waiter_watch_sleeping(waiter, &waiter->wake);
	if (code)
		return rmem_fail(error, -code, "epoll_ctl: %s", strerror(-code));
	return 0;
}

void rmem_waiter_finish(struct rmem_waiter *waiter)
{
	if (waiter->wake_fd >= 0)
		close(waiter->wake_fd);
	if (waiter->epoll_fd >= 0)
		close(waiter->epoll_fd);
	waiter->wake_fd = -1;
	waiter->epoll_fd = -1;
}

/* --- Watches ---------------------------------------------------------------------------------- */

int rmem_waiter_watch(struct rmem_waiter *waiter, struct rmem_watch *watch)
{
	int rc = rmem_waiter_watch_sleeping(waiter, watch);

	if (rc)
		return rc;
	watch->is_counted = true;
	if (watch->spin_fn) {
		watch->next = waiter->spinning;
		waiter->spinning = watch;
	} else {
		waiter->still_count++;
	}
	return 0;
}

void rmem_waiter_unwatch(struct rmem_waiter *waiter, struct rmem_watch *watch)
{
	epoll_ctl(waiter->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
	for (unsigned i = 0; i < waiter->event_count; i++) {
		if (waiter->events[i].data.ptr == watch)
			waiter->events[i].data.ptr = NULL;
	}
	if (!watch->spin_fn) {
		waiter->still_count--;
		return;
	}
	if (waiter->spin_next == watch)
		waiter->spin_next = watch->next;
	for (struct rmem_watch **at = &waiter->spinning; *at; at = &(*at)->next) {
		if (*at == watch) {
			*at = watch->next;
			return;
		}
	}
}

unsigned rmem_waiter_spin(struct rmem_waiter *waiter)
{
	unsigned did = 0;

	for (struct rmem_watch *at = waiter->spinning; at; at = waiter->spin_next) {
		waiter->spin_next = at->next; /* unwatch() may move it */
		did += at->spin_fn(at);
	}
	return did;
}

/* --- Calls ------------------------------------------------------------------------------------ */

void rmem_waiter_wake(struct rmem_waiter *waiter)
{
	const uint64_t one = 1;

	/* Sequentially consistent, as is the caller's change before it. */
	if (!atomic_load(&waiter->is_sleeping))
		return;
	if (atomic_exchange(&waiter->is_sleeping, false))
		(void)!write(waiter->wake_fd, &one, sizeof(one));
}

void rmem_waiter_call(struct rmem_waiter *waiter, struct rmem_call *call)
{
	struct rmem_call *newest = atomic_load_explicit(&waiter->calls, memory_order_relaxed);

	do
		call->next = newest;
	while (!atomic_compare_exchange_weak(&waiter->calls, &newest, call));
	rmem_waiter_wake(waiter);
}

unsigned rmem_waiter_run_calls(struct rmem_waiter *waiter)
{
	/* Pairs with each caller's exchange: what it wrote is seen. */
	struct rmem_call *newest = atomic_exchange(&waiter->calls, NULL);
	struct rmem_call *oldest = NULL;
	unsigned count = 0;

	while (newest) {
		struct rmem_call *next = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	while (oldest) {
		struct rmem_call *call = oldest;

		oldest = call->next; /* fn may free it */
		count++;
		call->fn(call);
	}
	return count;
}

/* --- Timers ----------------------------------------------------------------------------------- */

void rmem_waiter_timeout_set(struct rmem_waiter *waiter, struct rmem_timeout *timeout,
			     unsigned delay_ms)
{
	struct rmem_timeout **at = &waiter->timeouts;

	rmem_waiter_timeout_cancel(waiter, timeout);
	timeout->due_ns = rmem_now_ns() + (uint64_t)delay_ms * RMEM_NS_PER_MS;
	while (*at && (*at)->due_ns <= timeout->due_ns)
		at = &(*at)->next;
	timeout->next = *at;
	*at = timeout;
}

void rmem_waiter_timeout_cancel(struct rmem_waiter *waiter, struct rmem_timeout *timeout)
{
	if (timeout->due_ns == 0)
		return;
	timeout->due_ns = 0;
	for (struct rmem_timeout **at = &waiter->timeouts; *at; at = &(*at)->next) {
		if (*at == timeout) {
			*at = timeout->next;
			return;
		}
	}
}

unsigned rmem_waiter_run_timeouts(struct rmem_waiter *waiter)
{
	unsigned count = 0;
	uint64_t now_ns;

	if (RMEM_LIKELY(!waiter->timeouts))
		return 0;
	now_ns = rmem_now_ns();
	while (waiter->timeouts && waiter->timeouts->due_ns <= now_ns) {
		struct rmem_timeout *timeout = waiter->timeouts;

		waiter->timeouts = timeout->next;
		timeout->due_ns = 0;
		count++;
		timeout->fn(timeout);
	}
	return count;
}

/* --- Sleeping --------------------------------------------------------------------------------- */

void rmem_waiter_prepare(struct rmem_waiter *waiter)
{
	atomic_store(&waiter->is_sleeping, true);
}

void rmem_waiter_cancel(struct rmem_waiter *waiter)
{
	atomic_store_explicit(&waiter->is_sleeping, false, memory_order_relaxed);
}

/* The timeout of a wait, with that of the next timer taken into account; rounded up, so that a
 * timer is due when the wait ends. */
static int wait_ms(const struct rmem_waiter *waiter, int timeout_ms)
{
	uint64_t now_ns;
	uint64_t left_ms;

	if (!waiter->timeouts || timeout_ms == 0)
		return timeout_ms;
	now_ns = rmem_now_ns();
	if (waiter->timeouts->due_ns <= now_ns)
		return 0;
	left_ms = (waiter->timeouts->due_ns - now_ns) / RMEM_NS_PER_MS + 1;
	if (timeout_ms >= 0 && left_ms > (uint64_t)timeout_ms)
		return timeout_ms;
	return left_ms > INT32_MAX ? INT32_MAX : (int)left_ms;
}

int rmem_waiter_wait(struct rmem_waiter *waiter, int timeout_ms)
{
	int ran = 0;
	int count = epoll_wait(waiter->epoll_fd, waiter->events, RMEM_WAITER_EVENTS,
			       wait_ms(waiter, timeout_ms));
	int code = count < 0 ? errno : 0;

	rmem_waiter_cancel(waiter);
	if (count < 0)
		return -code;
	waiter->event_count = (unsigned)count;
	for (int i = 0; i < count; i++) {
		struct rmem_watch *watch = waiter->events[i].data.ptr;

		if (!watch) /* unwatched by one before it */
			continue;
		ran += watch->is_counted;
		watch->fn(watch, waiter->events[i].events); /* which may unwatch and free it */
	}
	waiter->event_count = 0;
	return ran;
}
