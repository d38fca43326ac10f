/* SPDX-License-Identifier: Apache-2.0 */
/* What the data path must not do: allocate, lock, read the clock, call the kernel to wait. The
 * linker sends those calls of the engine through the counters here (see meson.build), which count
 * for the reactor's thread while it is told to. Over shm, with a real server in another thread. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "engine/rmem.h"
#include "engine/server.h"
#include "engine/stats.h"
#include "tests/support/runner.h"

#define SEGMENTS   256
#define BATCHES	   2
#define OPERATIONS 1000000u
#define WAIT_MS	   10000

/* --- Counters --------------------------------------------------------------------------------- */

/* Volatile: the compiler believes to know that malloc() does not touch it. */
static _Thread_local volatile struct {
	bool is_on;
	unsigned allocations, locks, clocks, waits;
} seen;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *memory);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __real_epoll_wait(int fd, struct epoll_event *events, int count, int timeout);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *memory);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int count, int timeout);

void *__wrap_malloc(size_t bytes)
{
	seen.allocations += seen.is_on;
	return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	seen.allocations += seen.is_on;
	return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
	seen.allocations += seen.is_on;
	return __real_realloc(old, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
	seen.allocations += seen.is_on;
	return __real_aligned_alloc(alignment, bytes);
}

void __wrap_free(void *memory)
{
	seen.allocations += seen.is_on;
	__real_free(memory);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	seen.locks += seen.is_on;
	return __real_pthread_mutex_lock(mutex);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	seen.clocks += seen.is_on;
	return __real_clock_gettime(clock, now);
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int count, int timeout)
{
	seen.waits += seen.is_on;
	return __real_epoll_wait(fd, events, count, timeout);
}

/* --- Rig -------------------------------------------------------------------------------------- */

static char folder[64];
static char url[128];
static struct rmem_server *rmemd;
static pthread_t rmemd_thread;
static struct rmem_engine *engine;
static struct rmem_reactor *reactor;
static struct rmem_error error;
static unsigned in_flight;
static struct rmem_batch batches[BATCHES];
static struct rmem_segment segments[BATCHES][SEGMENTS];

static void *run_server(void *argument)
{
	struct rmem_error problem = {0};

	ck_assert_int_eq(rmem_server_run(argument, &problem), 0);
	return NULL;
}

static void start_server(void)
{
	struct rmem_server_options options;

	snprintf(folder, sizeof(folder), "/tmp/test_hot_path.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(url, sizeof(url), "shm:%s/sock", folder);
	rmem_server_options_init(&options);
	options.pool.size_bytes = 4 << 20;
	ck_assert_msg(rmem_server_create(&options, &rmemd, &error) == 0, "%s", error.text);
	ck_assert_msg(rmem_server_listen(rmemd, url, &error) == 0, "%s", error.text);
	ck_assert_msg(rmem_server_start(rmemd, &error) == 0, "%s", error.text);
	ck_assert_int_eq(pthread_create(&rmemd_thread, NULL, run_server, rmemd), 0);
}

static void start_engine(enum rmem_poll_mode mode)
{
	struct rmem_engine_options options;
	unsigned server;

	rmem_engine_options_init(&options);
	options.staging_bytes = 4 << 20;
	options.poll = mode;
	options.spin_us = 1000000; /* it does not come to sleeping */
	options.lanes = 2;
	ck_assert_msg(rmem_engine_create(&options, &engine, &error) == 0, "%s", error.text);
	ck_assert_msg(rmem_server_add(engine, url, &server, &error) == 0, "%s", error.text);
	ck_assert_msg(rmem_server_wait(engine, server, WAIT_MS, &error) == 0, "%s", error.text);
	reactor = rmem_engine_reactor(engine, 0);
}

static void teardown(void)
{
	rmem_engine_destroy(engine);
	rmem_server_stop(rmemd);
	pthread_join(rmemd_thread, NULL);
	rmem_server_destroy(rmemd);
	ck_assert_int_eq(rmdir(folder), 0);
}

static void end(struct rmem_batch *batch, int status)
{
	(void)batch;
	if (status != 0)
		ck_abort_msg("status %d", status);
	in_flight--;
}

/* Two batches of scattered segments; the second is of neighbours and long ones. */
static void prepare(void)
{
	char *slot = rmem_staging_get(reactor);

	for (uint64_t i = 0; i < SEGMENTS; i++) {
		segments[0][i] = (struct rmem_segment){
			.local = slot + i % 128 * 512, .remote = i * 1024, .length = 512};
		segments[1][i] = (struct rmem_segment){
			.local = slot, .remote = i * 512, .length = i % 64 ? 512 : 100000};
	}
	for (unsigned i = 0; i < BATCHES; i++)
		batches[i] = (struct rmem_batch){.op = i ? RMEM_READ : RMEM_WRITE,
						 .segments = segments[i],
						 .segment_count = SEGMENTS,
						 .done = end};
}

static void move(unsigned operations)
{
	for (unsigned n = 0; n < operations; n += BATCHES * SEGMENTS) {
		for (unsigned i = 0; i < BATCHES; i++) {
			in_flight++;
			rmem_submit(reactor, &batches[i]);
		}
		while (in_flight > 0)
			rmem_reactor_run(reactor, WAIT_MS);
	}
}

/* In every poll mode: ADAPTIVE, BUSY, EVENT. */
START_TEST(a_million_operations_allocate_lock_and_time_nothing)
{
	struct rmem_stats_snapshot before, after;

	start_engine((enum rmem_poll_mode)_i);
	prepare();
	move(10 * BATCHES * SEGMENTS); /* warm up */
	rmem_stats_read(rmem_reactor_stats(reactor), &before);
	seen.is_on = true;
	move(OPERATIONS);
	seen.is_on = false;
	rmem_stats_read(rmem_reactor_stats(reactor), &after);
	ck_assert_uint_eq(seen.allocations, 0);
	ck_assert_uint_eq(seen.locks, 0);
	ck_assert_uint_eq(seen.clocks, 0);
	ck_assert_uint_eq(seen.waits, 0);
	rmem_stats_difference(&after, &before, &after);
	ck_assert_uint_ge(after.values[RMEM_STAT_READS] + after.values[RMEM_STAT_WRITES],
			  OPERATIONS);
}
END_TEST

START_TEST(idle_turns_do_not_either)
{
	start_engine(RMEM_POLL_ADAPTIVE);
	rmem_reactor_poll(reactor); /* takes in the server */
	seen.is_on = true;
	for (unsigned i = 0; i < 32000; i++)
		rmem_reactor_poll(reactor);
	seen.is_on = false;
	ck_assert_uint_eq(seen.clocks, 0); /* nothing is timed */
	ck_assert_uint_eq(seen.allocations, 0);
	ck_assert_uint_eq(seen.locks, 0);
	ck_assert_uint_eq(seen.waits, 0); /* nothing is watched */
}
END_TEST

START_TEST(the_counters_count)
{
	struct timespec now;
	void *volatile memory;

	start_engine(RMEM_POLL_ADAPTIVE);
	seen.is_on = true;
	memory = malloc(1);
	free(memory);
	clock_gettime(CLOCK_MONOTONIC, &now);
	seen.is_on = false;
	ck_assert_uint_eq(seen.allocations, 2);
	ck_assert_uint_eq(seen.clocks, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("hot_path");
	TCase *tcase = tcase_create("shm");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, start_server, teardown);
	tcase_add_loop_test(tcase, a_million_operations_allocate_lock_and_time_nothing,
			    RMEM_POLL_ADAPTIVE, RMEM_POLL_EVENT + 1);
	tcase_add_test(tcase, idle_turns_do_not_either);
	tcase_add_test(tcase, the_counters_count);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
