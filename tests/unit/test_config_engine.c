/* SPDX-License-Identifier: Apache-2.0 */
/* The schema's defaults and limits next to those of the engine, which knows no configuration: one
 * side must not promise what the other does not do. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "config/verbs_options.h"
#include "engine/rmem.h"
#include "engine/server.h"
#include "tests/support/runner.h"

static struct conf *conf;

static void set_up(void)
{
	conf = conf_create(CONF_BENCH);
	ck_assert_ptr_nonnull(conf);
}

static void tear_down(void)
{
	conf_destroy(conf);
}

START_TEST(defaults_are_the_engines)
{
	struct rmem_engine_options options;

	rmem_engine_options_init(&options);
	ck_assert_uint_eq(conf_duration_us(conf, "engine.spin"), options.spin_us);
	ck_assert_uint_eq(conf_count(conf, "engine.lanes"), options.lanes);
	ck_assert_uint_eq(conf_count(conf, "engine.depth"), options.depth);
	ck_assert_uint_eq(conf_count(conf, "engine.post_batch"), options.post_batch);
	ck_assert_uint_eq(conf_size_bytes(conf, "engine.chunk"), options.chunk_bytes);
	ck_assert_uint_eq(conf_count(conf, "engine.max_chunks"), options.chunks_max);
	ck_assert_uint_eq(conf_duration_us(conf, "engine.connect_timeout"),
			  options.connect_timeout_ms * UINT64_C(1000));
	ck_assert_uint_eq(conf_duration_us(conf, "engine.detect"),
			  options.detect_ms * UINT64_C(1000));
	ck_assert_uint_eq(conf_duration_us(conf, "engine.reconnect_min"),
			  options.reconnect_min_ms * UINT64_C(1000));
	ck_assert_uint_eq(conf_duration_us(conf, "engine.reconnect_max"),
			  options.reconnect_max_ms * UINT64_C(1000));
	ck_assert_uint_eq(conf_size_bytes(conf, "staging.size"), options.staging_bytes);
	ck_assert_uint_eq(conf_size_bytes(conf, "staging.stream_threshold"),
			  options.stream_threshold_bytes);
	ck_assert_uint_eq(conf_enum(conf, "engine.poll"), CONF_POLL_ADAPTIVE);
	ck_assert_uint_eq(options.poll, RMEM_POLL_ADAPTIVE);
	ck_assert_uint_eq(conf_enum(conf, "staging.huge_pages"), CONF_HUGE_AUTO);
	ck_assert_uint_eq(options.huge_pages, RMEM_HUGE_AUTO);
}
END_TEST

START_TEST(defaults_are_the_servers)
{
	struct rmem_server_options options;

	rmem_server_options_init(&options);
	ck_assert_str_eq(conf_text(conf, "server.backing"), options.pool.backing);
	ck_assert_uint_eq(conf_enum(conf, "server.huge_pages"), CONF_HUGE_AUTO);
	ck_assert_uint_eq(options.pool.huge_pages, RMEM_HUGE_AUTO);
	ck_assert_uint_eq(conf_bool(conf, "server.populate"),
			  options.pool.populate == RMEM_POPULATE_TOUCH);
	ck_assert_uint_eq(conf_mode(conf, "server.socket_mode"), options.socket_mode);
	ck_assert(!options.allow_unauthenticated);
	ck_assert(!conf_bool(conf, "server.allow_unauthenticated"));
}
END_TEST

START_TEST(defaults_are_those_of_verbs)
{
	struct rmem_verbs_options options;

	rmem_verbs_options_init(&options);
	ck_assert_int_eq(conf_apply_verbs(conf, NULL), 0);
	ck_assert_mem_eq(rmem_verbs_options(), &options, sizeof(options));
	ck_assert_uint_eq(conf_key_find("verbs.retry")->max, RMEM_VERBS_RETRY_MAX);
	ck_assert_uint_eq(conf_key_find("verbs.rnr_retry")->max, RMEM_VERBS_RNR_MAX);
}
END_TEST

static const struct {
	const char *word;
	unsigned bytes;
} mtus[] = {{"256", 256}, {"512", 512}, {"1024", 1024}, {"2048", 2048}, {"4096", 4096}};

START_TEST(settings_of_verbs_reach_it)
{
	struct conf_errors errors;
	char mtu[32];

	conf_errors_init(&errors);
	snprintf(mtu, sizeof(mtu), "verbs.mtu=%s", mtus[_i].word);
	ck_assert_int_eq(conf_set(conf, mtu, &errors), 0);
	ck_assert_int_eq(conf_set(conf, "verbs.source=rxe0", &errors), 0);
	ck_assert_int_eq(conf_set(conf, "verbs.timeout=20ms", &errors), 0);
	ck_assert_int_eq(conf_set(conf, "verbs.traffic_class=104", &errors), 0);
	conf_errors_finish(&errors);
	ck_assert_int_eq(conf_apply_verbs(conf, NULL), 0);
	ck_assert_uint_eq(rmem_verbs_options()->mtu_bytes, mtus[_i].bytes);
	ck_assert_str_eq(rmem_verbs_options()->source, "rxe0");
	ck_assert_uint_eq(rmem_verbs_options()->ack_timeout_us, 20000);
	ck_assert_uint_eq(rmem_verbs_options()->traffic_class, 104);
}
END_TEST

START_TEST(limits_are_the_engines)
{
	ck_assert_uint_eq(conf_key_find("engine.lanes")->max, RMEM_LANES_MAX);
	ck_assert_uint_eq(conf_key_find("fs.reactors")->max, RMEM_REACTORS_MAX);
	ck_assert_uint_eq(conf_key_find("servers")->max, RMEM_SERVERS_MAX);
}
END_TEST

struct extreme {
	const char *key;
	size_t offset, bytes; /* of the option */
	uint64_t divisor;     /* from what the schema keeps to what the option holds */
};

#define OPTION(member)                                                                             \
	offsetof(struct rmem_engine_options, member),                                              \
		sizeof(((struct rmem_engine_options *)0)->member)

static const struct extreme extremes[] = {
	{"engine.spin", OPTION(spin_us), 1},
	{"engine.lanes", OPTION(lanes), 1},
	{"engine.depth", OPTION(depth), 1},
	{"engine.post_batch", OPTION(post_batch), 1},
	{"engine.chunk", OPTION(chunk_bytes), 1},
	{"engine.max_chunks", OPTION(chunks_max), 1},
	{"engine.detect", OPTION(detect_ms), 1000},
	{"engine.connect_timeout", OPTION(connect_timeout_ms), 1000},
	{"engine.reconnect_max", OPTION(reconnect_max_ms), 1000},
};

static void try_engine(const struct extreme *extreme, uint64_t value)
{
	struct rmem_engine_options options;
	struct rmem_engine *engine = NULL;
	struct rmem_error error = {0};

	rmem_engine_options_init(&options);
	options.staging_bytes = 1 << 20;
	options.huge_pages = RMEM_HUGE_OFF;
	options.reconnect_min_ms = 1;
	value /= extreme->divisor;
	memcpy((char *)&options + extreme->offset, &value, extreme->bytes);
	ck_assert_msg(rmem_engine_create(&options, &engine, &error) == 0, "%s: %s", extreme->key,
		      error.text);
	rmem_engine_destroy(engine);
}

START_TEST(the_engine_takes_the_least_and_the_most_that_is_allowed)
{
	const struct conf_key *key = conf_key_find(extremes[_i].key);

	ck_assert_ptr_nonnull(key);
	try_engine(&extremes[_i], key->min);
	try_engine(&extremes[_i], key->max);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config_engine");
	TCase *tcase = tcase_create("engine");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, defaults_are_the_engines);
	tcase_add_test(tcase, defaults_are_the_servers);
	tcase_add_test(tcase, defaults_are_those_of_verbs);
	tcase_add_loop_test(tcase, settings_of_verbs_reach_it, 0, (int)RMEM_COUNT_OF(mtus));
	tcase_add_test(tcase, limits_are_the_engines);
	tcase_add_loop_test(tcase, the_engine_takes_the_least_and_the_most_that_is_allowed, 0,
			    (int)RMEM_COUNT_OF(extremes));
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
