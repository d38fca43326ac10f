/* SPDX-License-Identifier: Apache-2.0 */
/* The polled loop with transfers, over a fake fabric whose requests another thread executes. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/timer.h"
#include "engine/rmem.h"
#include "engine/stats.h"
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

static uint64_t stat(enum rmem_stat which)
{
	struct rmem_stats_snapshot snapshot;

	rmem_stats_read(rmem_reactor_stats(reactor), &snapshot);
	return snapshot.values[which];
}

/* --- Sleeping and completions ----------------------------------------------------------------- */

static unsigned ended;

static void end(struct rmem_batch *batch, int status)
{
	(void)batch;
	ck_assert_int_eq(status, 0);
	ended++;
}

static void check_no_lost_completion(void)
{
	struct rmem_segment segment = {
		.server = (uint16_t)server, .local = rmem_staging_get(reactor), .length = 4096};
	struct rmem_batch batch = {
		.op = RMEM_WRITE, .segments = &segment, .segment_count = 1, .done = end};

	ended = 0;
	for (unsigned i = 0; i < 3000; i++) {
		rmem_submit(reactor, &batch);
		while (ended == i)
			ck_assert_uint_gt(rmem_reactor_run(reactor, LONG_MS), 0);
	}
}

START_TEST(no_completion_is_lost_however_it_falls_around_the_sleep)
{
	static const struct {
		enum rmem_poll_mode mode;
		unsigned spin_us;
	} modes[] = {
		{RMEM_POLL_EVENT, 0},
		{RMEM_POLL_ADAPTIVE, 0},
		{RMEM_POLL_ADAPTIVE, 20},
		{RMEM_POLL_BUSY, 0},
	};

	start(modes[_i].mode, modes[_i].spin_us, FAKE_THREAD);
	check_no_lost_completion();
	if (modes[_i].mode == RMEM_POLL_BUSY)
		ck_assert_uint_eq(stat(RMEM_STAT_SLEEPS), 0);
	else if (modes[_i].mode == RMEM_POLL_EVENT)
		ck_assert_uint_gt(stat(RMEM_STAT_SLEEPS), 0);
	finish();
}
END_TEST

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * RMEM_NS_PER_S + (uint64_t)now.tv_nsec;
}

START_TEST(an_idle_reactor_sleeps_until_its_time_is_over)
{
	uint64_t begun_ns, used_ns;

	start(_i ? RMEM_POLL_EVENT : RMEM_POLL_ADAPTIVE, 50, FAKE_MANUAL);
	begun_ns = rmem_now_ns();
	used_ns = cpu_ns();
	ck_assert_uint_eq(rmem_reactor_run(reactor, 300), 0);
	ck_assert_uint_ge(rmem_now_ns() - begun_ns, 300 * (uint64_t)RMEM_NS_PER_MS);
	ck_assert_uint_lt(cpu_ns() - used_ns, 100 * (uint64_t)RMEM_NS_PER_MS);
	ck_assert_uint_eq(rmem_reactor_run(reactor, 0), 0);
	finish();
}
END_TEST

/* Short runs, in each of which nothing comes. */
static void run_for_nothing(unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		ck_assert_uint_eq(rmem_reactor_run(reactor, 10), 0);
}

START_TEST(a_reactor_that_stays_idle_over_many_short_runs_sleeps)
{
	struct rmem_segment segment = {.length = 4096};
	struct rmem_batch batch = {.op = RMEM_WRITE, .segments = &segment, .segment_count = 1};

	start(RMEM_POLL_ADAPTIVE, 30000, FAKE_MANUAL);
	segment.server = (uint16_t)server;
	segment.local = rmem_staging_get(reactor);
	if (_i == 1) /* and never ends */
		rmem_submit(reactor, &batch);
	run_for_nothing(20);
	ck_assert_uint_ge(stat(RMEM_STAT_SLEEPS), 10);
	fake_run(0, 1);
	if (_i == 1)
		ck_assert_int_eq(rmem_batch_wait(reactor, &batch, LONG_MS), 0);
	finish();
}
END_TEST

/* --- A fabric that is slower than the spin ---------------------------------------------------- */

#define SLOW_SPIN_US 2000
#define SLOW_US	     (4 * SLOW_SPIN_US)

static atomic_bool is_over;

static void *answer_late(void *argument)
{
	while (!atomic_load(&is_over)) {
		if (fake_lane_waiting(0) == 0) {
			usleep(100);
			continue;
		}
		usleep(SLOW_US);
		fake_run(0, 1);
	}
	return argument;
}

START_TEST(waits_that_a_longer_spin_outlasts_are_not_slept_through)
{
	struct rmem_segment segment = {.length = 4096};
	struct rmem_batch batch = {.op = RMEM_WRITE, .segments = &segment, .segment_count = 1};
	pthread_t thread;

	start(RMEM_POLL_ADAPTIVE, SLOW_SPIN_US, FAKE_MANUAL);
	segment.server = (uint16_t)server;
	segment.local = rmem_staging_get(reactor);
	pthread_create(&thread, NULL, answer_late, NULL);
	for (unsigned i = 0; i < 30; i++) {
		rmem_submit(reactor, &batch);
		ck_assert_int_eq(rmem_batch_wait(reactor, &batch, LONG_MS), 0);
	}
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
	/* The first; and on a busy machine some that take many times as long. */
	ck_assert_uint_ge(stat(RMEM_STAT_SLEEPS), 1);
	ck_assert_uint_lt(stat(RMEM_STAT_SLEEPS), 15);
	finish();
}
END_TEST

START_TEST(what_is_submitted_after_an_idle_time_is_spun_for)
{
	struct rmem_segment segment = {.length = 4096};
	struct rmem_batch batch = {.op = RMEM_WRITE, .segments = &segment, .segment_count = 1};
	uint64_t sleeps = 0, slept = 0;
	pthread_t thread;

	start(RMEM_POLL_ADAPTIVE, 2 * SLOW_US, FAKE_MANUAL);
	segment.server = (uint16_t)server;
	segment.local = rmem_staging_get(reactor);
	pthread_create(&thread, NULL, answer_late, NULL);
	for (unsigned i = 0; i < 5; i++) {
		run_for_nothing(30); /* longer than any spin */
		ck_assert_uint_gt(stat(RMEM_STAT_SLEEPS), sleeps);
		sleeps = stat(RMEM_STAT_SLEEPS);
		rmem_submit(reactor, &batch);
		ck_assert_int_eq(rmem_batch_wait(reactor, &batch, LONG_MS), 0);
		slept += stat(RMEM_STAT_SLEEPS) - sleeps;
		sleeps = stat(RMEM_STAT_SLEEPS);
	}
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
	ck_assert_uint_lt(slept, 3); /* on a busy machine some answers take longer */
	finish();
}
END_TEST

START_TEST(a_transfer_that_does_not_end_is_slept_through)
{
	struct rmem_segment segment = {.length = 4096};
	struct rmem_batch batch = {.op = RMEM_WRITE, .segments = &segment, .segment_count = 1};
	uint64_t used_ns;

	start(RMEM_POLL_ADAPTIVE, 50, FAKE_MANUAL);
	segment.server = (uint16_t)server;
	segment.local = rmem_staging_get(reactor);
	rmem_submit(reactor, &batch);
	used_ns = cpu_ns();
	ck_assert_int_eq(rmem_batch_wait(reactor, &batch, 300), -ETIMEDOUT);
	ck_assert_uint_lt(cpu_ns() - used_ns, 100 * (uint64_t)RMEM_NS_PER_MS);
	fake_run(0, 1);
	ck_assert_int_eq(rmem_batch_wait(reactor, &batch, LONG_MS), 0);
	finish();
}
END_TEST

static void on_signal(int number)
{
	(void)number;
}

static atomic_bool was_woken;

/* More than one: the first may come before the sleep. */
static void *send_signals(void *argument)
{
	while (!atomic_load(&was_woken)) {
		usleep(10000);
		pthread_kill(*(pthread_t *)argument, SIGUSR1);
	}
	return NULL;
}

START_TEST(a_signal_ends_the_sleep)
{
	struct sigaction action = {.sa_handler = on_signal};
	pthread_t self = pthread_self();
	pthread_t thread;

	start(RMEM_POLL_EVENT, 0, FAKE_MANUAL);
	sigaction(SIGUSR1, &action, NULL);
	pthread_create(&thread, NULL, send_signals, &self);
	ck_assert_uint_eq(rmem_reactor_run(reactor, -1), 0);
	atomic_store(&was_woken, true);
	pthread_join(thread, NULL);
	finish();
}
END_TEST

/* --- Statistics ------------------------------------------------------------------------------- */

START_TEST(latency_is_measured_only_when_asked_for)
{
	const struct rmem_histogram *latency;

	start(RMEM_POLL_BUSY, 0, FAKE_THREAD);
	latency = rmem_reactor_latency(reactor, RMEM_WRITE);
	check_no_lost_completion();
	ck_assert_uint_eq(rmem_histogram_count(latency), 0);
	rmem_timer_set(RMEM_LOG_ENGINE, true);
	check_no_lost_completion();
	ck_assert_uint_gt(rmem_histogram_count(latency), 0);
	ck_assert_uint_eq(rmem_histogram_count(rmem_reactor_latency(reactor, RMEM_READ)), 0);
	ck_assert_uint_eq(stat(RMEM_STAT_WRITE_BYTES), 2ul * 3000 * 4096);
	finish();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("reactor");
	TCase *tcase = tcase_create("reactor");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, no_completion_is_lost_however_it_falls_around_the_sleep, 0, 4);
	tcase_add_loop_test(tcase, an_idle_reactor_sleeps_until_its_time_is_over, 0, 2);
	tcase_add_loop_test(tcase, a_reactor_that_stays_idle_over_many_short_runs_sleeps, 0, 2);
	tcase_add_test(tcase, what_is_submitted_after_an_idle_time_is_spun_for);
	tcase_add_test(tcase, waits_that_a_longer_spin_outlasts_are_not_slept_through);
	tcase_add_test(tcase, a_transfer_that_does_not_end_is_slept_through);
	tcase_add_test(tcase, a_signal_ends_the_sleep);
	tcase_add_test(tcase, latency_is_measured_only_when_asked_for);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
