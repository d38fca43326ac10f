/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements, small ones, on servers of this process. */
#include "tools/bench_crew.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "tests/support/runner.h"
#include "tools/bench_clock.h"
#include "tools/bench_servers.h"

#define SHARE_BYTES (256u << 10)
#define SAMPLES	    200

static struct rmem_error error;
static struct bench_servers *servers;
static const char *urls[8];
static struct bench_rig_options rig_options;
static struct bench_rig *rig;
static struct bench_crew *crew;
static struct bench_result result;

static void start(unsigned reactors, unsigned server_count, enum rmem_poll_mode poll)
{
	struct bench_servers_options own = {
		.count = server_count,
		.pool_bytes = (uint64_t)SHARE_BYTES * reactors,
	};
	struct rmem_engine_options *engine = &rig_options.engine;

	for (int module = 0; module < RMEM_LOG_MODULES; module++)
		rmem_log_set_level((enum rmem_log_module)module, RMEM_LOG_WARN);
	rig_options = (struct bench_rig_options){
		.urls = urls,
		.url_count = server_count,
		.share_bytes = SHARE_BYTES,
		.has_twin = true,
		.message_bytes = 4096,
	};
	ck_assert_msg(bench_servers_start(&own, &servers, &error) == 0, "%s", error.text);
	for (unsigned i = 0; i < server_count; i++)
		urls[i] = bench_servers_url(servers, i);
	rmem_engine_options_init(engine);
	engine->reactor_count = reactors;
	engine->poll = poll;
	engine->lanes = 2;
	engine->staging_slot_bytes = engine->staging_bytes = 4096;
	engine->detect_ms = 300;
	ck_assert_msg(bench_rig_create(&rig_options, &rig, &error) == 0, "%s", error.text);
	ck_assert_msg(bench_crew_create(rig, SAMPLES, &crew, &error) == 0, "%s", error.text);
}

static void finish(void)
{
	atomic_store(&bench_stop, false);
	bench_crew_destroy(crew);
	bench_rig_destroy(rig);
	bench_servers_stop(servers);
	crew = NULL;
	rig = NULL;
	servers = NULL;
}

static struct bench_load small_load(enum rmem_op op)
{
	return (struct bench_load){
		.op = op,
		.size_bytes = 512,
		.batch = 16,
		.in_flight = 1,
		.iterations = 50,
		.warmup = 5,
		.verify = true,
		.seed = 1,
	};
}

static int measure(const struct bench_load *load)
{
	memset(&error, 0, sizeof(error));
	return bench_crew_measure(crew, load, &result, &error);
}

static double value(enum bench_metric metric)
{
	return result.values[metric];
}

START_TEST(scattered_messages_are_a_work_request_each_and_arrive)
{
	struct bench_load load = small_load((enum rmem_op)_i);

	start(1, 1, RMEM_POLL_ADAPTIVE);
	ck_assert_msg(measure(&load) == 0, "%s", error.text);
	ck_assert_double_eq(value(BENCH_ITERATIONS), 50);
	ck_assert_double_eq(value(BENCH_WRS), 1);
	ck_assert_double_eq(value(BENCH_MERGES), 0);
	ck_assert_double_eq(value(BENCH_DOORBELLS), 1.0 / 16);
	ck_assert_double_gt(value(BENCH_BANDWIDTH), 0);
	ck_assert_double_ge(value(BENCH_BANDWIDTH_PEAK) * 1.0000001, value(BENCH_BANDWIDTH));
	ck_assert_double_gt(value(BENCH_LATENCY), 0);
	ck_assert_double_ge(value(BENCH_LATENCY_P99), value(BENCH_LATENCY_P50));
	ck_assert_double_eq_tol(value(BENCH_OPS) * 512 / 1e9, value(BENCH_BANDWIDTH), 1e-6);
	ck_assert_double_gt(value(BENCH_CPU_NS), 0);
	ck_assert_double_le(value(BENCH_CPU_PERCENT), 100.5);
}
END_TEST

START_TEST(contiguous_messages_merge_and_arrive)
{
	struct bench_load load = small_load((enum rmem_op)_i);

	start(1, 1, RMEM_POLL_BUSY);
	load.layout = BENCH_CONTIGUOUS;
	ck_assert_msg(measure(&load) == 0, "%s", error.text);
	ck_assert_double_eq(value(BENCH_WRS), 1.0 / 16);
	ck_assert_double_eq(value(BENCH_MERGES), 15.0 / 16);
}
END_TEST

START_TEST(several_reactors_batches_and_servers_work_together)
{
	struct bench_load load = small_load((enum rmem_op)_i);

	start(3, 4, RMEM_POLL_EVENT);
	load.in_flight = 3;
	load.iterations = 101;
	ck_assert_msg(measure(&load) == 0, "%s", error.text);
	ck_assert_double_eq(value(BENCH_ITERATIONS), 303);
	ck_assert_double_eq(value(BENCH_WRS), 1);
	load.spread = BENCH_BY_MESSAGE;
	load.seed = 2;
	ck_assert_msg(measure(&load) == 0, "%s", error.text);
	ck_assert_double_eq(value(BENCH_ITERATIONS), 303);
}
END_TEST

START_TEST(fewer_iterations_than_batches_under_way_are_enough)
{
	struct bench_load load = small_load((enum rmem_op)_i);

	start(1, 2, RMEM_POLL_ADAPTIVE);
	load.in_flight = 8;
	load.iterations = 3;
	load.warmup = 0;
	ck_assert_msg(measure(&load) == 0, "%s", error.text);
	ck_assert_double_eq(value(BENCH_ITERATIONS), 3);
}
END_TEST

START_TEST(more_messages_than_memory_share_it)
{
	struct bench_load load = small_load((enum rmem_op)_i);

	start(2, 1, RMEM_POLL_ADAPTIVE);
	load.size_bytes = 4096;
	load.batch = 300; /* there is room for 64 */
	ck_assert_msg(measure(&load) == 0, "%s", error.text);
	ck_assert_double_eq(value(BENCH_WRS), 1);
}
END_TEST

START_TEST(a_bare_copy_moves_the_same_messages)
{
	struct bench_load load = small_load((enum rmem_op)_i);

	start(2, 2, RMEM_POLL_ADAPTIVE);
	load.bare = true;
	load.verify = false;
	for (unsigned i = 0; i < 2; i++) {
		memset(rig->local[i], _i == RMEM_WRITE ? 'x' : 0, SHARE_BYTES);
		memset(rig->twin[i], _i == RMEM_WRITE ? 0 : 'x', SHARE_BYTES);
	}
	ck_assert_msg(measure(&load) == 0, "%s", error.text);
	ck_assert_double_eq(value(BENCH_ITERATIONS), 100);
	ck_assert_double_gt(value(BENCH_BANDWIDTH), 0);
	ck_assert_double_eq(value(BENCH_WRS), 0);
	for (unsigned i = 0; i < 2; i++) {
		unsigned char *to = _i == RMEM_WRITE ? rig->twin[i] : rig->local[i];
		uint64_t moved = load.batch * load.size_bytes;

		ck_assert_ptr_null(memchr(to, 0, moved));
		ck_assert_uint_eq(to[moved], 0);
	}
}
END_TEST

/* The same server twice, shifted by a message: what every other message writes, its neighbour in
 * memory overwrites. */
START_TEST(content_that_something_else_overwrote_is_found)
{
	struct bench_load load = small_load((enum rmem_op)_i);

	start(1, 2, RMEM_POLL_ADAPTIVE);
	bench_crew_destroy(crew);
	bench_rig_destroy(rig);
	rig_options.urls = (const char *[]){urls[0], urls[0]};
	ck_assert_msg(bench_rig_create(&rig_options, &rig, &error) == 0, "%s", error.text);
	ck_assert_int_eq(bench_crew_create(rig, SAMPLES, &crew, &error), 0);
	load.spread = BENCH_BY_MESSAGE;
	ck_assert_msg(measure(&load) == 0, "%s", error.text);
	rig->parts[1].offset = load.size_bytes;
	ck_assert_int_eq(measure(&load), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(error.text, "wrong content"));
	ck_assert_ptr_nonnull(strstr(error.text, urls[0]));
}
END_TEST

START_TEST(a_limit_ends_a_measurement_early)
{
	struct bench_load load = small_load(RMEM_WRITE);

	start(1, 1, RMEM_POLL_ADAPTIVE);
	load.iterations = SAMPLES;
	load.warmup = 0;
	load.limit_ns = 1; /* over by the time that the first batch ends */
	ck_assert_msg(measure(&load) == 0, "%s", error.text);
	ck_assert_double_eq(value(BENCH_ITERATIONS), 1);
}
END_TEST

/* As they do over hours; here by 10 s, to either side. */
START_TEST(a_rate_is_kept_where_our_clock_strays_from_the_kernels)
{
	struct bench_load load = small_load(RMEM_WRITE);
	uint64_t begun_ns = rmem_now_ns();

	bench_clock_init();
	bench_clock.from_ns += _i * 10 * (int64_t)RMEM_NS_PER_S;
	start(1, 1, RMEM_POLL_ADAPTIVE);
	load.warmup = 0;
	load.rate = 250 * load.batch;
	ck_assert_msg(measure(&load) == 0, "%s", error.text);
	ck_assert_double_eq(value(BENCH_ITERATIONS), 50);
	ck_assert_uint_lt(rmem_now_ns() - begun_ns, 5 * (uint64_t)RMEM_NS_PER_S);
	ck_assert_double_lt(value(BENCH_CPU_PERCENT), 30);
}
END_TEST

START_TEST(a_stopped_measurement_is_cancelled)
{
	struct bench_load load = small_load(RMEM_WRITE);
	struct bench_idle idle;

	start(2, 1, RMEM_POLL_ADAPTIVE);
	atomic_store(&bench_stop, true);
	ck_assert_int_eq(measure(&load), -ECANCELED);
	ck_assert_int_eq(bench_crew_idle(crew, 60000000, &idle, &error), -ECANCELED);
}
END_TEST

START_TEST(a_server_that_goes_ends_it_with_its_name)
{
	struct bench_load load = small_load(RMEM_WRITE);

	start(1, 1, RMEM_POLL_ADAPTIVE);
	ck_assert_int_eq(measure(&load), 0);
	bench_servers_stop(servers);
	servers = NULL;
	for (int i = 0; i < 500; i++) { /* it takes a moment to be noticed */
		if (measure(&load) != 0)
			break;
	}
	ck_assert_int_eq(error.code, -ENOTCONN);
	ck_assert_ptr_nonnull(strstr(error.text, "shm:"));
}
END_TEST

START_TEST(a_part_outside_of_the_server_is_an_error)
{
	struct bench_load load = small_load(RMEM_WRITE);

	start(1, 1, RMEM_POLL_ADAPTIVE);
	rig->parts[0].offset = SHARE_BYTES;
	ck_assert_int_eq(measure(&load), -ERANGE);
}
END_TEST

START_TEST(an_idle_reactor_that_may_sleep_costs_next_to_nothing)
{
	struct bench_idle idle;

	start(1, 1, (enum rmem_poll_mode)_i);
	ck_assert_msg(bench_crew_idle(crew, 300000, &idle, &error) == 0, "%s", error.text);
	ck_assert_double_ge(idle.seconds, 0.3);
	ck_assert_double_ge(idle.process_seconds, idle.reactor_seconds);
	if (_i != RMEM_POLL_BUSY)
		ck_assert_double_lt(idle.reactor_seconds, 0.15);
}
END_TEST

START_TEST(a_server_without_room_for_a_message_is_refused)
{
	struct bench_servers_options own = {.count = 1, .pool_bytes = SHARE_BYTES};
	const char *url;
	struct bench_rig_options options = {
		.urls = &url,
		.url_count = 1,
		.share_bytes = 1 << 20,
		.message_bytes = SHARE_BYTES,
	};

	ck_assert_int_eq(bench_servers_start(&own, &servers, &error), 0);
	url = bench_servers_url(servers, 0);
	rmem_engine_options_init(&options.engine);
	options.engine.staging_slot_bytes = options.engine.staging_bytes = 4096;
	ck_assert_int_eq(bench_rig_create(&options, &rig, &error), 0);
	ck_assert_uint_eq(rig->share_bytes, SHARE_BYTES);
	bench_rig_destroy(rig);
	options.engine.reactor_count = 2;
	ck_assert_int_eq(bench_rig_create(&options, &rig, &error), -ENOSPC);
	ck_assert_ptr_null(rig);
	ck_assert_ptr_nonnull(strstr(error.text, url));
}
END_TEST

START_TEST(servers_leave_no_folder_behind)
{
	struct bench_servers_options own = {.count = 3, .pool_bytes = 4096};
	char folder[] = "/tmp/test_bench_crew.XXXXXX";

	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(setenv("TMPDIR", folder, 1), 0);
	ck_assert_msg(bench_servers_start(&own, &servers, &error) == 0, "%s", error.text);
	ck_assert_ptr_nonnull(strstr(bench_servers_url(servers, 2), folder));
	ck_assert_int_ne(rmdir(folder), 0);
	bench_servers_stop(servers);
	ck_assert_int_eq(rmdir(folder), 0);
	/* The folder is gone now, so none can be made in it. */
	ck_assert_int_eq(bench_servers_start(&own, &servers, &error), -ENOENT);
	ck_assert_ptr_null(servers);
	ck_assert_ptr_nonnull(strstr(error.text, folder));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("bench_crew");
	TCase *tcase = tcase_create("crew");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, NULL, finish);
	tcase_add_loop_test(tcase, scattered_messages_are_a_work_request_each_and_arrive, RMEM_READ,
			    RMEM_WRITE + 1);
	tcase_add_loop_test(tcase, contiguous_messages_merge_and_arrive, RMEM_READ, RMEM_WRITE + 1);
	tcase_add_loop_test(tcase, several_reactors_batches_and_servers_work_together, RMEM_READ,
			    RMEM_WRITE + 1);
	tcase_add_loop_test(tcase, fewer_iterations_than_batches_under_way_are_enough, RMEM_READ,
			    RMEM_WRITE + 1);
	tcase_add_loop_test(tcase, more_messages_than_memory_share_it, RMEM_READ, RMEM_WRITE + 1);
	tcase_add_loop_test(tcase, content_that_something_else_overwrote_is_found, RMEM_READ,
			    RMEM_WRITE + 1);
	tcase_add_loop_test(tcase, a_bare_copy_moves_the_same_messages, RMEM_READ, RMEM_WRITE + 1);
	tcase_add_test(tcase, a_limit_ends_a_measurement_early);
	tcase_add_loop_test(tcase, a_rate_is_kept_where_our_clock_strays_from_the_kernels, -1, 2);
	tcase_add_test(tcase, a_stopped_measurement_is_cancelled);
	tcase_add_test(tcase, a_server_that_goes_ends_it_with_its_name);
	tcase_add_test(tcase, a_part_outside_of_the_server_is_an_error);
	tcase_add_loop_test(tcase, an_idle_reactor_that_may_sleep_costs_next_to_nothing,
			    RMEM_POLL_ADAPTIVE, RMEM_POLL_EVENT + 1);
	tcase_add_test(tcase, a_server_without_room_for_a_message_is_refused);
	tcase_add_test(tcase, servers_leave_no_folder_behind);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
