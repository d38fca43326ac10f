/* SPDX-License-Identifier: Apache-2.0 */
/* What a reactor waits for besides transfers: calls from other threads, descriptors, timers. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/base/timer.h"
#include "engine/rmem.h"
#include "tests/support/fake_fabric.h"
#include "tests/support/runner.h"

#define URL	"fake:0/a"
#define LONG_MS 20000 /* a wake-up that takes this long was lost */

static struct rmem_engine *engine;
static struct rmem_reactor *reactor;
static unsigned server;
static struct rmem_error error;

static void start(enum rmem_poll_mode poll, unsigned spin_us, enum fake_mode mode)
{
	struct rmem_engine_options options;

	fake_reset(mode);
	fake_server_start(URL, 1, 1 << 20);
	rmem_engine_options_init(&options);
	options.poll = poll;
	options.spin_us = spin_us;
	options.staging_bytes = 1 << 20;
	options.staging_slot_bytes = 4096;
	options.depth = 8;
	ck_assert_msg(rmem_engine_create(&options, &engine, &error) == 0, "%s", error.text);
	ck_assert_int_eq(rmem_server_add(engine, URL, &server, &error), 0);
	ck_assert_msg(rmem_server_wait(engine, server, LONG_MS, &error) == 0, "%s", error.text);
	reactor = rmem_engine_reactor(engine, 0);
	rmem_reactor_poll(reactor);
}

static void finish(void)
{
	rmem_engine_destroy(engine);
	ck_assert_uint_eq(fake_violations(), 0);
	ck_assert_uint_eq(fake_open_conns(), 0);
	fake_reset(FAKE_MANUAL);
}

/* --- Calls ------------------------------------------------------------------------------------ */

#define CALLERS 3
#define CALLS	5000

struct numbered_call {
	struct rmem_call call;
	unsigned caller;
	unsigned number;
};

static unsigned next_number[CALLERS];
static unsigned calls_run;

static void take_call(struct rmem_call *call)
{
	struct numbered_call *at = RMEM_CONTAINER_OF(call, struct numbered_call, call);

	ck_assert_uint_eq(at->number, next_number[at->caller]);
	next_number[at->caller]++;
	calls_run++;
	free(at);
}

static void *make_calls(void *argument)
{
	unsigned caller = (unsigned)(uintptr_t)argument;
	unsigned seed = caller;

	for (unsigned i = 0; i < CALLS; i++) {
		struct numbered_call *call = malloc(sizeof(*call));

		*call = (struct numbered_call){{.fn = take_call}, caller, i};
		rmem_reactor_call(reactor, &call->call);
		if (rand_r(&seed) % 8 == 0)
			usleep((unsigned)rand_r(&seed) % 100);
	}
	return NULL;
}

START_TEST(calls_of_other_threads_all_run_in_order_and_wake_the_reactor)
{
	pthread_t threads[CALLERS];

	start(_i == 0	? RMEM_POLL_EVENT
	      : _i == 1 ? RMEM_POLL_ADAPTIVE
			: RMEM_POLL_BUSY,
	      5, FAKE_MANUAL);
	calls_run = 0;
	memset(next_number, 0, sizeof(next_number));
	for (uintptr_t i = 0; i < CALLERS; i++)
		pthread_create(&threads[i], NULL, make_calls, (void *)i);
	while (calls_run < CALLERS * CALLS)
		ck_assert_uint_gt(rmem_reactor_run(reactor, LONG_MS), 0);
	for (unsigned i = 0; i < CALLERS; i++)
		pthread_join(threads[i], NULL);
	finish();
}
END_TEST

static struct rmem_call chained;

static void call_again(struct rmem_call *call)
{
	if (++calls_run < 10)
		rmem_reactor_call(reactor, call);
}

START_TEST(a_call_may_call_again)
{
	start(RMEM_POLL_EVENT, 0, FAKE_MANUAL);
	calls_run = 0;
	chained.fn = call_again;
	rmem_reactor_call(reactor, &chained);
	for (int i = 0; i < 10; i++)
		ck_assert_uint_eq(rmem_reactor_run(reactor, LONG_MS), 1);
	ck_assert_uint_eq(calls_run, 10);
	finish();
}
END_TEST

/* --- Watches ---------------------------------------------------------------------------------- */

static int to_reactor[2], from_reactor[2];
static unsigned by_event, by_spin;

static unsigned answer(int fd)
{
	char bytes[16];
	ssize_t got = read(fd, bytes, 1);

	if (got != 1)
		return 0;
	ck_assert_int_eq((int)write(from_reactor[1], bytes, 1), 1);
	return 1;
}

static void on_event(struct rmem_watch *watch, uint32_t events)
{
	ck_assert_uint_ne(events & EPOLLIN, 0);
	by_event += answer(watch->fd);
}

static unsigned on_spin(struct rmem_watch *watch)
{
	unsigned did = answer(watch->fd);

	by_spin += did;
	return did;
}

static void *ping(void *argument)
{
	unsigned seed = 1;

	(void)argument;
	for (int i = 0; i < 3000; i++) {
		char byte = (char)i;

		ck_assert_int_eq((int)write(to_reactor[1], &byte, 1), 1);
		ck_assert_int_eq((int)read(from_reactor[0], &byte, 1), 1);
		if (rand_r(&seed) % 4 == 0)
			usleep((unsigned)rand_r(&seed) % 100);
	}
	return NULL;
}

static void open_pipes(void)
{
	ck_assert_int_eq(pipe2(to_reactor, O_CLOEXEC | O_NONBLOCK), 0);
	ck_assert_int_eq(pipe2(from_reactor, O_CLOEXEC), 0);
	/* Only the reactor's end is non-blocking. */
	by_event = 0;
	by_spin = 0;
}

static void close_pipes(void)
{
	for (int i = 0; i < 2; i++) {
		close(to_reactor[i]);
		close(from_reactor[i]);
	}
}

START_TEST(a_watched_descriptor_is_served_spinning_and_sleeping)
{
	struct rmem_watch watch = {.events = EPOLLIN, .fn = on_event};
	pthread_t thread;

	start(_i / 2 == 0   ? RMEM_POLL_EVENT
	      : _i / 2 == 1 ? RMEM_POLL_ADAPTIVE
			    : RMEM_POLL_BUSY,
	      30, FAKE_MANUAL);
	open_pipes();
	watch.fd = to_reactor[0];
	watch.spin_fn = _i % 2 ? on_spin : NULL;
	ck_assert_int_eq(rmem_reactor_watch(reactor, &watch), 0);
	pthread_create(&thread, NULL, ping, NULL);
	while (by_event + by_spin < 3000)
		ck_assert_uint_gt(rmem_reactor_run(reactor, LONG_MS), 0);
	pthread_join(thread, NULL);
	if (_i % 2 == 0)
		ck_assert_uint_eq(by_spin, 0);
	if (_i == 5) /* busy, with a spin function */
		ck_assert_uint_eq(by_event, 0);
	rmem_reactor_unwatch(reactor, &watch);
	close_pipes();
	finish();
}
END_TEST

static struct rmem_watch twins[2];
static unsigned twin_events;

static void unwatch_other(struct rmem_watch *watch, uint32_t events)
{
	struct rmem_watch *other = watch == &twins[0] ? &twins[1] : &twins[0];

	(void)events;
	twin_events++;
	rmem_reactor_unwatch(reactor, other);
	memset(other, 0xff, sizeof(*other)); /* it is gone */
}

static unsigned spin_unwatch_other(struct rmem_watch *watch)
{
	unwatch_other(watch, 0);
	return 1;
}

START_TEST(a_watch_may_remove_another_that_is_due_in_the_same_turn)
{
	start(RMEM_POLL_EVENT, 0, FAKE_MANUAL);
	open_pipes();
	ck_assert_int_eq((int)write(to_reactor[1], "x", 1), 1);
	ck_assert_int_eq((int)write(from_reactor[1], "x", 1), 1);
	twin_events = 0;
	for (int i = 0; i < 2; i++) {
		twins[i] = (struct rmem_watch){.fd = i ? to_reactor[0] : from_reactor[0],
					       .events = EPOLLIN,
					       .fn = unwatch_other,
					       .spin_fn = _i ? spin_unwatch_other : NULL};
		ck_assert_int_eq(rmem_reactor_watch(reactor, &twins[i]), 0);
	}
	ck_assert_uint_eq(rmem_reactor_run(reactor, LONG_MS), 1);
	ck_assert_uint_eq(twin_events, 1);
	close_pipes();
	finish();
}
END_TEST

START_TEST(a_descriptor_that_cannot_be_watched_is_an_error)
{
	struct rmem_watch watch = {.fd = -1, .events = EPOLLIN, .fn = on_event};

	start(RMEM_POLL_EVENT, 0, FAKE_MANUAL);
	ck_assert_int_eq(rmem_reactor_watch(reactor, &watch), -EBADF);
	finish();
}
END_TEST

/* --- Timers ----------------------------------------------------------------------------------- */

struct numbered_timeout {
	struct rmem_timeout timeout;
	int number;
};

static int fired[32];
static unsigned fired_count;

static void fire(struct rmem_timeout *timeout)
{
	fired[fired_count++] = RMEM_CONTAINER_OF(timeout, struct numbered_timeout, timeout)->number;
}

static void run_until_fired(unsigned count)
{
	while (fired_count < count)
		ck_assert_uint_gt(rmem_reactor_run(reactor, LONG_MS), 0);
}

START_TEST(timers_fire_in_order_and_not_too_early)
{
	static const unsigned delays_ms[] = {60, 20, 0, 40, 20};
	static const int order[] = {2, 1, 4, 3, 0};
	struct numbered_timeout timeouts[5];
	uint64_t begun_ns;

	start((enum rmem_poll_mode)_i, 10, FAKE_MANUAL);
	begun_ns = rmem_now_ns();
	fired_count = 0;
	for (int i = 0; i < 5; i++) {
		timeouts[i] = (struct numbered_timeout){{.fn = fire}, i};
		rmem_timeout_set(reactor, &timeouts[i].timeout, delays_ms[i]);
	}
	run_until_fired(5);
	ck_assert_uint_ge(rmem_now_ns() - begun_ns, 60 * (uint64_t)RMEM_NS_PER_MS);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(fired[i], order[i]);
	finish();
}
END_TEST

START_TEST(timers_can_be_moved_and_cancelled)
{
	struct numbered_timeout timeouts[3];

	start(RMEM_POLL_ADAPTIVE, 10, FAKE_MANUAL);
	fired_count = 0;
	for (int i = 0; i < 3; i++) {
		timeouts[i] = (struct numbered_timeout){{.fn = fire}, i};
		rmem_timeout_cancel(reactor, &timeouts[i].timeout); /* not set: nothing */
		rmem_timeout_set(reactor, &timeouts[i].timeout, 10);
	}
	rmem_timeout_set(reactor, &timeouts[0].timeout, 40);
	rmem_timeout_cancel(reactor, &timeouts[1].timeout);
	run_until_fired(2);
	ck_assert_int_eq(fired[0], 2);
	ck_assert_int_eq(fired[1], 0);
	ck_assert_uint_eq(rmem_reactor_run(reactor, 30), 0);
	finish();
}
END_TEST

static void set_again(struct rmem_timeout *timeout)
{
	fired_count++;
	rmem_timeout_set(reactor, timeout, 1);
}

START_TEST(a_timer_may_set_itself_again)
{
	struct rmem_timeout timeout = {.fn = set_again};

	start(RMEM_POLL_EVENT, 0, FAKE_MANUAL);
	fired_count = 0;
	rmem_timeout_set(reactor, &timeout, 1);
	run_until_fired(5);
	rmem_timeout_cancel(reactor, &timeout);
	ck_assert_uint_eq(rmem_reactor_run(reactor, 20), 0);
	finish();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("waiter");
	TCase *tcase = tcase_create("waiter");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, calls_of_other_threads_all_run_in_order_and_wake_the_reactor, 0,
			    3);
	tcase_add_test(tcase, a_call_may_call_again);
	tcase_add_loop_test(tcase, a_watched_descriptor_is_served_spinning_and_sleeping, 0, 6);
	tcase_add_loop_test(tcase, a_watch_may_remove_another_that_is_due_in_the_same_turn, 0, 2);
	tcase_add_test(tcase, a_descriptor_that_cannot_be_watched_is_an_error);
	tcase_add_loop_test(tcase, timers_fire_in_order_and_not_too_early, 0, 3);
	tcase_add_test(tcase, timers_can_be_moved_and_cancelled);
	tcase_add_test(tcase, a_timer_may_set_itself_again);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
