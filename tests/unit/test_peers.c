/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that come and go: connecting, losing, telling the reactors, giving memory back. Over a
 * fake fabric; made to be run under the thread and address sanitizers. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/timer.h"
#include "engine/rmem.h"
#include "tests/support/fake_fabric.h"
#include "tests/support/runner.h"

#define WAIT_MS	     20000
#define SERVERS_MAX  64
#define REACTORS_MAX 3

static struct rmem_engine *engine;
static struct rmem_error error;
static unsigned server_count;
static char urls[SERVERS_MAX][24];

/* What server_event said. */
static atomic_uint ups[SERVERS_MAX], downs[SERVERS_MAX];
static atomic_uint wrong_events;

static void on_event(void *user, unsigned server, enum rmem_server_state state)
{
	struct rmem_server_info info;

	(void)user;
	/* Ups and downs alternate, beginning with an up. */
	if (state == RMEM_SERVER_UP ? atomic_load(&ups[server]) != atomic_load(&downs[server])
				    : atomic_load(&ups[server]) != atomic_load(&downs[server]) + 1)
		atomic_fetch_add(&wrong_events, 1);
	atomic_fetch_add(state == RMEM_SERVER_UP ? &ups[server] : &downs[server], 1);
	/* Queries are allowed here. */
	if (engine && rmem_server_info(engine, server, &info) != 0)
		atomic_fetch_add(&wrong_events, 1);
}

static void start_engine(unsigned reactors, unsigned lanes)
{
	struct rmem_engine_options options;

	rmem_engine_options_init(&options);
	options.reactor_count = reactors;
	options.lanes = lanes;
	options.depth = 8;
	options.poll = RMEM_POLL_ADAPTIVE;
	options.spin_us = 5;
	options.staging_bytes = 1 << 20;
	options.staging_slot_bytes = 4096;
	options.connect_timeout_ms = 2000;
	options.reconnect_min_ms = 1;
	options.reconnect_max_ms = 10;
	options.detect_ms = 100;
	options.server_event = on_event;
	ck_assert_msg(rmem_engine_create(&options, &engine, &error) == 0, "%s", error.text);
}

static void add_servers(unsigned count, unsigned ports)
{
	for (unsigned i = 0; i < count; i++) {
		unsigned server;

		snprintf(urls[i], sizeof(urls[i]), "fake:%u/s%u", i % ports, i);
		fake_server_start(urls[i], 1, 1 << 20);
		ck_assert_int_eq(rmem_server_add(engine, urls[i], &server, &error), 0);
		ck_assert_uint_eq(server, i);
	}
	server_count = count;
}

static void start(unsigned reactors, unsigned lanes, unsigned servers, unsigned ports)
{
	fake_reset(FAKE_AT_ONCE);
	start_engine(reactors, lanes);
	add_servers(servers, ports);
}

static void finish(void)
{
	rmem_engine_destroy(engine);
	engine = NULL;
	ck_assert_uint_eq(atomic_load(&wrong_events), 0);
	ck_assert_uint_eq(fake_violations(), 0);
	ck_assert_uint_eq(fake_open_lanes(), 0);
	ck_assert_uint_eq(fake_open_conns(), 0);
	fake_reset(FAKE_MANUAL);
}

static void wait_up(unsigned server)
{
	ck_assert_msg(rmem_server_wait(engine, server, WAIT_MS, &error) == 0, "%s", error.text);
}

static void wait_down(unsigned server)
{
	struct rmem_server_info info;

	for (int i = 0; i < WAIT_MS; i++) {
		ck_assert_int_eq(rmem_server_info(engine, server, &info), 0);
		if (info.state == RMEM_SERVER_DOWN)
			return;
		usleep(1000);
	}
	ck_abort_msg("server %u did not go down", server);
}

/* --- Transfers -------------------------------------------------------------------------------- */

static void note(struct rmem_batch *batch, int status)
{
	int *result = batch->user;

	ck_assert_int_eq(*result, 1); /* once */
	*result = status;
}

static int transfer(unsigned reactor, unsigned server)
{
	struct rmem_reactor *at = rmem_engine_reactor(engine, reactor);
	int status = 1;
	void *slot = rmem_staging_get(at);
	struct rmem_segment segment = {.server = (uint16_t)server, .local = slot, .length = 4096};
	struct rmem_batch batch = {.op = RMEM_WRITE,
				   .segments = &segment,
				   .segment_count = 1,
				   .done = note,
				   .user = &status};

	rmem_submit(at, &batch);
	for (int i = 0; i < 100 && status == 1; i++)
		rmem_reactor_run(at, WAIT_MS / 100);
	rmem_staging_put(at, slot);
	return status;
}

/* --- Connecting ------------------------------------------------------------------------------- */

START_TEST(servers_on_several_ports_come_up_and_work)
{
	start(2, 2, 6, 3);
	for (unsigned i = 0; i < 6; i++) {
		wait_up(i);
		for (unsigned reactor = 0; reactor < 2; reactor++)
			ck_assert_int_eq(transfer(reactor, i), 0);
	}
	finish();
}
END_TEST

START_TEST(a_server_that_starts_later_is_found)
{
	struct rmem_server_info info;

	start(1, 1, 1, 1);
	wait_up(0);
	fake_server_stop(urls[0]);
	wait_down(0);
	ck_assert_int_eq(rmem_server_wait(engine, 0, 30, &error), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(error.text, "nobody is there"));
	ck_assert_int_eq(rmem_server_info(engine, 0, &info), 0);
	ck_assert_int_eq(info.state, RMEM_SERVER_DOWN);
	ck_assert_uint_eq(info.incarnation, 1); /* of the last connection */
	ck_assert_str_ne(info.last_error, "");
	ck_assert_int_eq(transfer(0, 0), -ENOTCONN);
	fake_server_start(urls[0], 3, 2 << 20);
	wait_up(0);
	ck_assert_int_eq(rmem_server_info(engine, 0, &info), 0);
	ck_assert_uint_eq(info.incarnation, 2);
	ck_assert_uint_eq(info.region_count, 3);
	ck_assert_uint_eq(info.regions[2].length, 2 << 20);
	ck_assert_str_eq(info.last_error, "");
	ck_assert_int_eq(transfer(0, 0), 0);
	finish();
}
END_TEST

START_TEST(attempts_back_off)
{
	uint64_t begun_ns;
	unsigned before;

	start(1, 1, 1, 1);
	wait_up(0);
	fake_server_stop(urls[0]);
	wait_down(0);
	usleep(100000); /* the pause has grown to 10 ms by then */
	before = fake_connect_count(urls[0]);
	begun_ns = rmem_now_ns();
	usleep(100000);
	ck_assert_uint_le(fake_connect_count(urls[0]) - before,
			  (rmem_now_ns() - begun_ns) / RMEM_NS_PER_MS / 10 + 2);
	finish();
}
END_TEST

static void *start_server_later(void *unused)
{
	usleep(50000);
	fake_server_start(urls[0], 1, 1 << 20);
	return unused;
}

START_TEST(who_waits_does_not_wait_for_the_whole_pause)
{
	struct rmem_engine_options options;
	pthread_t starter;
	uint64_t begun_ns;
	unsigned server;

	fake_reset(FAKE_AT_ONCE);
	rmem_engine_options_init(&options);
	options.reactor_count = 1;
	options.staging_bytes = 1 << 20;
	options.staging_slot_bytes = 4096;
	options.reconnect_min_ms = options.reconnect_max_ms = 60000;
	ck_assert_msg(rmem_engine_create(&options, &engine, &error) == 0, "%s", error.text);
	snprintf(urls[0], sizeof(urls[0]), "fake:0/s0");
	ck_assert_int_eq(rmem_server_add(engine, urls[0], &server, &error), 0);
	while (fake_connect_count(urls[0]) == 0) /* nobody waits yet: now the pause is a minute */
		usleep(1000);
	usleep(20000);
	begun_ns = rmem_now_ns();
	ck_assert_int_eq(pthread_create(&starter, NULL, start_server_later, NULL), 0);
	ck_assert_int_eq(rmem_server_wait(engine, server, WAIT_MS, &error), 0);
	ck_assert_uint_lt((rmem_now_ns() - begun_ns) / RMEM_NS_PER_MS, WAIT_MS);
	pthread_join(starter, NULL);
	finish();
}
END_TEST

START_TEST(servers_that_hang_delay_nobody_else)
{
	uint64_t begun_ns;

	fake_reset(FAKE_AT_ONCE);
	for (unsigned i = 0; i < 20; i++) {
		snprintf(urls[i], sizeof(urls[i]), "fake:0/s%u", i);
		fake_server_hang(urls[i], i != 19);
	}
	start_engine(1, 1);
	begun_ns = rmem_now_ns();
	add_servers(20, 1);
	wait_up(19);
	ck_assert_uint_lt(rmem_now_ns() - begun_ns, 1500 * (uint64_t)RMEM_NS_PER_MS);
	fake_server_stop(urls[19]);
	wait_down(19);
	fake_server_start(urls[19], 1, 1 << 20);
	wait_up(19);
	fake_server_hang(urls[3], false);
	wait_up(3);
	finish(); /* while the others hang */
}
END_TEST

START_TEST(what_makes_no_sense_is_not_connected)
{
	fake_reset(FAKE_AT_ONCE);
	start_engine(1, 1);
	add_servers(1, 1);
	wait_up(0);
	fake_server_stop(urls[0]);
	wait_down(0);
	fake_server_start(urls[0], 0, 1 << 20); /* no region */
	for (int i = 0; i < 200 && !strstr(error.text, "regions"); i++)
		ck_assert_int_eq(rmem_server_wait(engine, 0, 20, &error), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(error.text, "regions"));
	finish();
}
END_TEST

START_TEST(no_more_servers_than_the_limit)
{
	unsigned server;

	fake_reset(FAKE_AT_ONCE);
	start_engine(1, 1);
	for (unsigned i = 0; i < RMEM_SERVERS_MAX; i++)
		ck_assert_int_eq(rmem_server_add(engine, "fake:0/none", &server, &error), 0);
	ck_assert_int_eq(rmem_server_add(engine, "fake:0/none", &server, &error), -ENOSPC);
	ck_assert_int_eq(transfer(0, 255), -ENOTCONN);
	finish();
}
END_TEST

/* Depth 8 on two lanes, and a device that can't: of its queues, of its completion queues, neither.
 */
static const struct {
	uint32_t depth_max, cq_depth_max;
	const char *says; /* NULL: nothing */
} narrow[] = {
	{5, 1 << 20, "engine.depth is 4 instead of 8 here"},
	{65536, 13, "engine.depth is 4 instead of 8 here"},
	{9, 18, NULL},
};

START_TEST(what_a_device_forces_down_is_told_once_and_works)
{
	char said[4000] = "", *first;
	FILE *log = tmpfile();
	int before = dup(STDERR_FILENO);

	ck_assert_ptr_nonnull(log);
	dup2(fileno(log), STDERR_FILENO);
	fake_reset(FAKE_AT_ONCE);
	fake_set_depth_max(narrow[_i].depth_max);
	fake_set_cq_depth_max(narrow[_i].cq_depth_max);
	start_engine(1, 2);
	add_servers(1, 1);
	wait_up(0);
	for (unsigned i = 0; i < 20; i++)
		ck_assert_int_eq(transfer(0, 0), 0);
	fake_server_stop(urls[0]); /* and once more */
	wait_down(0);
	fake_server_start(urls[0], 1, 1 << 20);
	wait_up(0);
	finish();
	dup2(before, STDERR_FILENO);
	close(before);
	rewind(log);
	said[fread(said, 1, sizeof(said) - 1, log)] = '\0';
	fclose(log);
	first = strstr(said, narrow[_i].says != NULL ? narrow[_i].says : "engine.depth");
	ck_assert_msg((first != NULL) == (narrow[_i].says != NULL), "%s", said);
	ck_assert(first == NULL || strstr(first + 1, "engine.depth is") == NULL);
}
END_TEST

START_TEST(a_queue_that_cannot_hold_one_more_server_leaves_it_down_and_the_others_up)
{
	uint64_t begun_ns;
	unsigned connects;

	fake_reset(FAKE_AT_ONCE);
	fake_set_cq_depth_max(256); /* 14 times two lanes of 9 */
	start_engine(1, 2);
	add_servers(15, 1);
	for (unsigned i = 0; i < 15; i++) /* the reactor takes them in later, in order */
		wait_up(i);
	for (unsigned i = 0; i < 15; i++)
		ck_assert_int_eq(transfer(0, i), i < 14 ? 0 : -ENOTCONN);
	while (atomic_load(&downs[14]) < 4) /* the pause has grown by then */
		rmem_reactor_run(rmem_engine_reactor(engine, 0), 1);
	connects = fake_connect_count(urls[14]);
	begun_ns = rmem_now_ns();
	for (unsigned i = 0; i < 50; i++)
		rmem_reactor_run(rmem_engine_reactor(engine, 0), 2);
	ck_assert_uint_le(fake_connect_count(urls[14]) - connects,
			  (rmem_now_ns() - begun_ns) / RMEM_NS_PER_MS / 10 + 3);
	ck_assert_int_eq(transfer(0, 0), 0);
	finish();
}
END_TEST

/* --- Giving back ------------------------------------------------------------------------------ */

START_TEST(a_reactor_that_nobody_drives_holds_back_little_and_blocks_nothing)
{
	start(2, 1, 2, 1); /* reactor 1 is never driven */
	wait_up(1);
	for (int i = 0; i < 20; i++) {
		wait_up(0);
		ck_assert_int_eq(transfer(0, 1), 0);
		fake_server_stop(urls[0]);
		wait_down(0);
		fake_server_start(urls[0], 1, 1 << 20);
		if (fake_open_conns() > 4)
			break;
	}
	ck_assert_uint_gt(fake_open_conns(), 4); /* reactor 1 may be about to take them in */
	ck_assert_uint_le(fake_open_conns(), 6);
	/* As soon as it is driven, the server is reconnected and works for both. */
	for (int i = 0; i < 1000 && rmem_server_wait(engine, 0, 1, &error); i++)
		rmem_reactor_poll(rmem_engine_reactor(engine, 1));
	ck_assert_int_eq(transfer(0, 0), 0);
	ck_assert_int_eq(transfer(1, 0), 0);
	for (int i = 0; i < 1000 && fake_open_conns() > 2; i++) {
		rmem_reactor_poll(rmem_engine_reactor(engine, 0));
		rmem_reactor_poll(rmem_engine_reactor(engine, 1));
		usleep(1000);
	}
	ck_assert_uint_eq(fake_open_conns(), 2);
	finish();
}
END_TEST

static void never(struct rmem_batch *batch, int status)
{
	(void)batch;
	ck_abort_msg("called back with %d", status);
}

START_TEST(an_engine_can_be_destroyed_with_everything_in_flight)
{
	struct rmem_segment segment = {.length = 4096};
	struct rmem_batch *batch = calloc(1, sizeof(*batch));
	struct rmem_reactor *reactor;

	fake_reset(FAKE_THREAD);
	start_engine(2, 2);
	add_servers(3, 2);
	wait_up(0);
	reactor = rmem_engine_reactor(engine, 0);
	segment.local = rmem_staging_get(reactor);
	*batch = (struct rmem_batch){.segments = &segment, .segment_count = 1, .done = never};
	rmem_submit(reactor, batch);
	if (_i)
		rmem_reactor_flush(reactor);
	free(batch); /* must not be looked at any more, posted or not */
	rmem_engine_destroy(engine);
	engine = NULL;
	ck_assert_uint_eq(fake_violations(), 0);
	ck_assert_uint_eq(fake_open_conns(), 0);
	fake_reset(FAKE_MANUAL);
}
END_TEST

START_TEST(an_engine_with_no_server_can_be_destroyed_at_once)
{
	fake_reset(FAKE_AT_ONCE);
	start_engine(3, 1);
	finish();
}
END_TEST

/* --- Everything at once ----------------------------------------------------------------------- */

struct driver {
	unsigned reactor;
	unsigned ended, failed;
	pthread_t thread;
};

static atomic_bool drivers_must_stop;

/* Keeps batches to random servers in flight, and counts how they end. */
static void *drive(void *argument)
{
	struct driver *driver = argument;
	unsigned seed = driver->reactor;

	while (!atomic_load(&drivers_must_stop)) {
		int status = transfer(driver->reactor, (unsigned)rand_r(&seed) % server_count);

		if (status != 0 && status != -ENOTCONN)
			ck_abort_msg("status %d", status);
		driver->ended++;
		driver->failed += status != 0;
	}
	return NULL;
}

static void disturb(unsigned *seed)
{
	unsigned server = (unsigned)rand_r(seed) % server_count;
	size_t length = 8192;
	struct rmem_memory *memory = NULL;
	void *bytes;

	fake_server_stop(urls[server]);
	usleep((unsigned)rand_r(seed) % 3000);
	bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_int_eq(rmem_memory_register(engine, bytes, length, &memory, &error), 0);
	fake_server_start(urls[server], 1, 1 << 20);
	usleep((unsigned)rand_r(seed) % 3000);
	rmem_memory_unregister(memory);
	munmap(bytes, length);
}

START_TEST(reactors_work_while_servers_and_memory_come_and_go)
{
	struct driver drivers[REACTORS_MAX] = {0};
	uint64_t end_ns = rmem_now_ns() + 3 * (uint64_t)RMEM_NS_PER_S;
	unsigned seed = 1;
	unsigned rounds = 0;

	fake_reset(_i ? FAKE_THREAD : FAKE_AT_ONCE);
	start_engine(REACTORS_MAX, 2);
	add_servers(5, 2);
	for (unsigned i = 0; i < REACTORS_MAX; i++) {
		drivers[i].reactor = i;
		pthread_create(&drivers[i].thread, NULL, drive, &drivers[i]);
	}
	/* The fake has a number for each lane that ever was: 5 to 10 of them a round. */
	while (rmem_now_ns() < end_ns && fake_lane_count() + 60 < FAKE_LANES_MAX) {
		disturb(&seed);
		rounds++;
	}
	ck_assert_uint_gt(rounds, 5);
	for (unsigned i = 0; i < server_count; i++)
		wait_up(i);
	atomic_store(&drivers_must_stop, true);
	for (unsigned i = 0; i < REACTORS_MAX; i++) {
		pthread_join(drivers[i].thread, NULL);
		ck_assert_uint_gt(drivers[i].ended, drivers[i].failed);
	}
	for (unsigned i = 0; i < server_count; i++)
		ck_assert_int_eq(transfer(0, i), 0);
	finish();
}
END_TEST

/* --- Memory ----------------------------------------------------------------------------------- */

START_TEST(memory_that_cannot_be_registered_is_refused)
{
	struct rmem_memory *memory, *overlap;
	char *bytes = aligned_alloc(4096, 16384);

	start(1, 1, 1, 1);
	wait_up(0);
	ck_assert_int_eq(rmem_memory_register(engine, bytes + 1, 4096, &memory, &error), -EINVAL);
	ck_assert_int_eq(rmem_memory_register(engine, bytes, 100, &memory, &error), -EINVAL);
	ck_assert_int_eq(rmem_memory_register(engine, bytes, 0, &memory, &error), -EINVAL);
	ck_assert_int_eq(rmem_memory_register(engine, bytes, 8192, &memory, &error), 0);
	ck_assert_int_eq(rmem_memory_register(engine, bytes + 4096, 8192, &overlap, &error),
			 -EINVAL);
	rmem_memory_unregister(memory);
	ck_assert_int_eq(rmem_memory_register(engine, bytes + 4096, 8192, &memory, &error), 0);
	rmem_memory_unregister(memory);
	rmem_memory_unregister(NULL);
	finish();
	free(bytes);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("peers");
	TCase *tcase = tcase_create("peers");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, servers_on_several_ports_come_up_and_work);
	tcase_add_test(tcase, a_server_that_starts_later_is_found);
	tcase_add_test(tcase, attempts_back_off);
	tcase_add_test(tcase, who_waits_does_not_wait_for_the_whole_pause);
	tcase_add_test(tcase, servers_that_hang_delay_nobody_else);
	tcase_add_test(tcase, what_makes_no_sense_is_not_connected);
	tcase_add_test(tcase, no_more_servers_than_the_limit);
	tcase_add_loop_test(tcase, what_a_device_forces_down_is_told_once_and_works, 0,
			    (int)RMEM_COUNT_OF(narrow));
	tcase_add_test(tcase,
		       a_queue_that_cannot_hold_one_more_server_leaves_it_down_and_the_others_up);
	tcase_add_test(tcase, a_reactor_that_nobody_drives_holds_back_little_and_blocks_nothing);
	tcase_add_loop_test(tcase, an_engine_can_be_destroyed_with_everything_in_flight, 0, 2);
	tcase_add_test(tcase, an_engine_with_no_server_can_be_destroyed_at_once);
	tcase_add_loop_test(tcase, reactors_work_while_servers_and_memory_come_and_go, 0, 2);
	tcase_add_test(tcase, memory_that_cannot_be_registered_is_refused);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
