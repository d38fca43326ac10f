/* SPDX-License-Identifier: Apache-2.0 */
/* The engine through its public header alone, over the shm fabric and a real memory server; over
 * verbs where the environment's RMEM_TEST_VERBS is an address with a device behind it. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/rmem.h"
#include "engine/server.h"
#include "tests/support/runner.h"

#define POOL_BYTES ((uint64_t)16 << 20)
#define WAIT_MS	   10000

static char folder[64];
static char url[128];
static struct rmem_server *rmemd;
static pthread_t rmemd_thread;
static struct rmem_engine *engine;
static struct rmem_reactor *reactor;
static unsigned server;
static struct rmem_error error;

static void *run_server(void *argument)
{
	struct rmem_error problem = {0};

	ck_assert_msg(rmem_server_run(argument, &problem) == 0, "%s", problem.text);
	return NULL;
}

static void start_server(void)
{
	struct rmem_server_options options;

	rmem_server_options_init(&options);
	options.pool.size_bytes = POOL_BYTES;
	options.allow_unauthenticated = true;
	ck_assert_msg(rmem_server_create(&options, &rmemd, &error) == 0, "%s", error.text);
	ck_assert_msg(rmem_server_listen(rmemd, url, &error) == 0, "%s", error.text);
	ck_assert_msg(rmem_server_start(rmemd, &error) == 0, "%s", error.text);
	ck_assert_int_eq(pthread_create(&rmemd_thread, NULL, run_server, rmemd), 0);
}

static void stop_server(void)
{
	rmem_server_stop(rmemd);
	pthread_join(rmemd_thread, NULL);
	rmem_server_destroy(rmemd);
	rmemd = NULL;
}

static void start_engine(enum rmem_poll_mode poll, unsigned lanes)
{
	struct rmem_engine_options options;

	rmem_engine_options_init(&options);
	options.poll = poll;
	options.lanes = lanes;
	options.staging_bytes = 4 << 20;
	options.reconnect_min_ms = 5;
	options.reconnect_max_ms = 20;
	ck_assert_msg(rmem_engine_create(&options, &engine, &error) == 0, "%s", error.text);
	ck_assert_msg(rmem_server_add(engine, url, &server, &error) == 0, "%s", error.text);
	reactor = rmem_engine_reactor(engine, 0);
}

static void setup(void)
{
	strcpy(folder, "/tmp/test_engine.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	if (getenv("RMEM_TEST_VERBS"))
		snprintf(url, sizeof(url), "verbs://%s", getenv("RMEM_TEST_VERBS"));
	else
		snprintf(url, sizeof(url), "shm:%s/sock", folder);
	start_server();
}

static void teardown(void)
{
	rmem_engine_destroy(engine);
	engine = NULL;
	if (rmemd)
		stop_server();
	ck_assert_int_eq(rmdir(folder), 0);
}

static void wait_up(void)
{
	ck_assert_msg(rmem_server_wait(engine, server, WAIT_MS, &error) == 0, "%s", error.text);
}

struct outcome {
	unsigned calls;
	int status;
};

static void note(struct rmem_batch *batch, int status)
{
	struct outcome *outcome = batch->user;

	outcome->calls++;
	outcome->status = status;
}

/* Moves one segment and returns the status. */
static int transfer(enum rmem_op op, void *local, uint64_t remote, uint64_t length)
{
	struct outcome outcome = {0};
	struct rmem_segment segment = {
		.server = (uint16_t)server, .local = local, .remote = remote, .length = length};
	struct rmem_batch batch = {
		.op = op,
		.segments = &segment,
		.segment_count = 1,
		.done = note,
		.user = &outcome,
	};

	rmem_submit(reactor, &batch);
	ck_assert_uint_eq(outcome.calls, 0);
	for (int i = 0; i < 1000 && outcome.calls == 0; i++)
		rmem_reactor_run(reactor, 100);
	ck_assert_uint_eq(outcome.calls, 1);
	return outcome.status;
}

static void fill(unsigned char *bytes, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = (unsigned char)((i * 2654435761u + seed) >> 13);
}

/* Writes, wipes and reads back through two slots. */
static void check_round_trip(uint64_t remote, size_t length)
{
	unsigned char *out = rmem_staging_get(reactor);
	unsigned char *in = rmem_staging_get(reactor);

	fill(out, length, (unsigned)length);
	memset(in, 0, length);
	ck_assert_int_eq(transfer(RMEM_WRITE, out, remote, length), 0);
	ck_assert_int_eq(transfer(RMEM_READ, in, remote, length), 0);
	ck_assert_int_eq(memcmp(out, in, length), 0);
	rmem_staging_put(reactor, out);
	rmem_staging_put(reactor, in);
}

START_TEST(bytes_written_are_read_back_in_every_poll_mode)
{
	start_engine((enum rmem_poll_mode)_i, 1);
	wait_up();
	check_round_trip(0, 1);
	check_round_trip(4096, 4096);
	check_round_trip(12345, 100001);
	check_round_trip(POOL_BYTES - 7, 7);
}
END_TEST

START_TEST(the_server_is_described)
{
	struct rmem_server_info info;

	start_engine(RMEM_POLL_ADAPTIVE, 1);
	wait_up();
	ck_assert_int_eq(rmem_server_info(engine, server, &info), 0);
	ck_assert_int_eq(info.state, RMEM_SERVER_UP);
	ck_assert_str_eq(info.url, url);
	ck_assert_uint_eq(info.region_count, 1);
	ck_assert_uint_eq(info.regions[0].length, POOL_BYTES);
	ck_assert_uint_ne(info.incarnation, 0);
	ck_assert_int_eq(rmem_server_info(engine, 1, &info), -ENOENT);
}
END_TEST

START_TEST(what_lies_outside_the_region_is_refused)
{
	char *slot;

	start_engine(RMEM_POLL_ADAPTIVE, 1);
	wait_up();
	slot = rmem_staging_get(reactor);
	ck_assert_int_eq(transfer(RMEM_WRITE, slot, POOL_BYTES, 1), -ERANGE);
	ck_assert_int_eq(transfer(RMEM_WRITE, slot, POOL_BYTES - 1, 2), -ERANGE);
	ck_assert_int_eq(transfer(RMEM_WRITE, slot, UINT64_MAX, 2), -ERANGE);
	ck_assert_int_eq(transfer(RMEM_WRITE, slot, 0, 1), 0);
}
END_TEST

START_TEST(memory_that_is_not_registered_is_refused_until_it_is)
{
	size_t length = 1 << 20;
	struct rmem_memory *memory;
	char *bytes;

	start_engine(RMEM_POLL_ADAPTIVE, 1);
	wait_up();
	bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(bytes, MAP_FAILED);
	ck_assert_int_eq(transfer(RMEM_WRITE, bytes, 0, length), -EINVAL);
	ck_assert_int_eq(rmem_memory_register(engine, bytes, length, &memory, &error), 0);
	ck_assert_int_eq(transfer(RMEM_WRITE, bytes, 0, length), 0);
	ck_assert_int_eq(transfer(RMEM_WRITE, bytes + 1, 0, length), -EINVAL);
	rmem_memory_unregister(memory);
	ck_assert_int_eq(transfer(RMEM_WRITE, bytes, 0, length), -EINVAL);
	munmap(bytes, length);
}
END_TEST

START_TEST(a_server_that_is_not_up_fails_the_batch_from_the_next_turn)
{
	stop_server();
	start_engine(RMEM_POLL_ADAPTIVE, 1);
	ck_assert_int_eq(transfer(RMEM_WRITE, rmem_staging_get(reactor), 0, 1), -ENOTCONN);
	ck_assert_int_eq(rmem_server_wait(engine, server, 50, &error), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(error.text, url));
}
END_TEST

/* More completions than the reactor takes at a time, and no batch that ends before the last: what
 * is left in the queue when it falls asleep would be announced by nobody. */
START_TEST(many_completions_of_one_batch_do_not_let_the_reactor_oversleep)
{
	static struct rmem_segment segments[200];
	struct outcome outcome = {0};
	struct rmem_batch batch = {
		.op = RMEM_WRITE,
		.segments = segments,
		.segment_count = 200,
		.done = note,
		.user = &outcome,
	};
	struct rmem_engine_options options;
	char *slot;

	rmem_engine_options_init(&options);
	options.poll = RMEM_POLL_EVENT;
	options.post_batch = 1;
	options.staging_bytes = 1 << 20;
	ck_assert_int_eq(rmem_engine_create(&options, &engine, &error), 0);
	ck_assert_int_eq(rmem_server_add(engine, url, &server, &error), 0);
	reactor = rmem_engine_reactor(engine, 0);
	wait_up();
	slot = rmem_staging_get(reactor);
	for (unsigned i = 0; i < 200; i++)
		segments[i] = (struct rmem_segment){.server = (uint16_t)server,
						    .local = slot,
						    .remote = i * 8192,
						    .length = 512};
	for (unsigned i = 0; i < 5; i++) {
		rmem_submit(reactor, &batch);
		rmem_reactor_run(reactor, 5000);
		ck_assert_uint_eq(outcome.calls, i + 1);
		ck_assert_int_eq(outcome.status, 0);
	}
}
END_TEST

START_TEST(a_server_that_was_lost_comes_back)
{
	struct rmem_server_info before, after;
	char *slot;
	int status = 0;

	start_engine(RMEM_POLL_ADAPTIVE, 2);
	wait_up();
	ck_assert_int_eq(rmem_server_info(engine, server, &before), 0);
	slot = rmem_staging_get(reactor);
	for (int i = 0; i < 3; i++) {
		stop_server();
		for (int n = 0; n < 1000 && status != -ENOTCONN; n++) {
			status = transfer(RMEM_WRITE, slot, 0, 4096);
			usleep(1000);
		}
		ck_assert_int_eq(status, -ENOTCONN);
		start_server();
		wait_up();
		status = transfer(RMEM_WRITE, slot, 0, 4096);
		ck_assert_int_eq(status, 0);
	}
	ck_assert_int_eq(rmem_server_info(engine, server, &after), 0);
	ck_assert_uint_ne(before.incarnation, after.incarnation);
}
END_TEST

START_TEST(malformed_addresses_are_refused)
{
	unsigned other;

	start_engine(RMEM_POLL_ADAPTIVE, 1);
	ck_assert_int_eq(rmem_server_add(engine, "pigeon:home", &other, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.text, "pigeon:home"));
	ck_assert_int_eq(rmem_server_add(engine, "shm:", &other, &error), -EINVAL);
	ck_assert_int_eq(rmem_server_add(engine, "", &other, &error), -EINVAL);
}
END_TEST

START_TEST(options_out_of_range_are_refused_and_named)
{
	struct rmem_engine_options options;
	struct rmem_engine *made;

#define REFUSED(field, bad)                                                                        \
	do {                                                                                       \
		rmem_engine_options_init(&options);                                                \
		options.field = (bad);                                                             \
		ck_assert_int_eq(rmem_engine_create(&options, &made, &error), -EINVAL);            \
		ck_assert_ptr_null(made);                                                          \
		ck_assert_ptr_nonnull(strstr(error.text, #field));                                 \
	} while (0)
	REFUSED(reactor_count, 0);
	REFUSED(reactor_count, RMEM_REACTORS_MAX + 1);
	REFUSED(lanes, 0);
	REFUSED(lanes, RMEM_LANES_MAX + 1);
	REFUSED(depth, 0);
	REFUSED(post_batch, 0);
	REFUSED(chunk_bytes, 0);
	REFUSED(chunk_bytes, 5000);
	REFUSED(chunks_max, 0);
	REFUSED(staging_slot_bytes, 100);
	REFUSED(staging_bytes, 0);
	REFUSED(connect_timeout_ms, 0);
	REFUSED(detect_ms, 0);
	REFUSED(reconnect_min_ms, 1u << 30);
#undef REFUSED
	rmem_engine_destroy(NULL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("engine");
	TCase *tcase = tcase_create("shm");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_loop_test(tcase, bytes_written_are_read_back_in_every_poll_mode, 0, 3);
	tcase_add_test(tcase, the_server_is_described);
	tcase_add_test(tcase, what_lies_outside_the_region_is_refused);
	tcase_add_test(tcase, memory_that_is_not_registered_is_refused_until_it_is);
	tcase_add_test(tcase, a_server_that_is_not_up_fails_the_batch_from_the_next_turn);
	tcase_add_test(tcase, many_completions_of_one_batch_do_not_let_the_reactor_oversleep);
	tcase_add_test(tcase, a_server_that_was_lost_comes_back);
	tcase_add_test(tcase, malformed_addresses_are_refused);
	tcase_add_test(tcase, options_out_of_range_are_refused_and_named);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
