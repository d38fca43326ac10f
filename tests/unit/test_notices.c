/* SPDX-License-Identifier: Apache-2.0 */
/* Notices through the public headers, between an engine and a memory server: over shm, or over
 * verbs where the environment's RMEM_TEST_VERBS is an address with a device behind it. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/rmem.h"
#include "engine/server_internal.h" /* for a look into the pool */
#include "engine/stats.h"
#include "tests/support/runner.h"

#define POOL_BYTES ((uint64_t)16 << 20)
#define WAIT_MS	   10000
#define NOTICES	   8

static char folder[64];
static char url[128];
static struct rmem_server *server;
static pthread_t server_thread;
static struct rmem_engine *engine;
static struct rmem_reactor *reactor;
static unsigned index_of_server;
static struct rmem_error error;

/* --- The server's side: echoes, or counts ------------------------------------------------------
 */

struct far {
	atomic_bool is_echoing;
	atomic_bool is_looking; /* whether the pool's first `length` bytes are the number, plus 1 */
	atomic_uint length;
	atomic_uint came;
	atomic_uint wrong; /* not the number after the last */
	atomic_uint joined, left, ready;
	atomic_uint last;
	uint32_t to_send; /* by itself, once the first notice came */
	uint32_t sent;
};
static struct far far;

static void send_more(struct rmem_peer *peer)
{
	struct rmem_notice notice = {.length = 4};

	while (far.sent < far.to_send) {
		notice.transfer = far.sent;
		memcpy(notice.bytes, &far.sent, 4);
		if (rmem_peer_notify(peer, &notice) != 0)
			return;
		far.sent++;
	}
}

static bool has_bytes(uint32_t transfer)
{
	const uint8_t *bytes = server->pool->map + server->pool->data_offset;

	for (size_t i = 0, length = atomic_load(&far.length); i < length; i++) {
		if (bytes[i] != (uint8_t)(transfer + 1))
			return false;
	}
	return true;
}

static void came(void *user, struct rmem_peer *peer, const struct rmem_notice *notice)
{
	(void)user;
	if (atomic_load(&far.came) > 0 && notice->transfer != atomic_load(&far.last) + 1)
		atomic_fetch_add(&far.wrong, 1);
	if (!rmem_peer_has_arrived(peer, notice->transfer) ||
	    rmem_peer_has_arrived(peer, notice->transfer + 1))
		atomic_fetch_add(&far.wrong, 1);
	if (far.is_looking && !has_bytes(notice->transfer))
		atomic_fetch_add(&far.wrong, 1);
	atomic_store(&far.last, notice->transfer);
	if (far.is_echoing && rmem_peer_notify(peer, notice) != 0)
		atomic_fetch_add(&far.wrong, 1);
	send_more(peer);
	atomic_fetch_add(&far.came, 1); /* last: the other side goes on */
}

static void peer_event(void *user, struct rmem_peer *peer, enum rmem_peer_event event)
{
	(void)user;
	if (event == RMEM_PEER_JOINED)
		atomic_fetch_add(&far.joined, 1);
	else if (event == RMEM_PEER_LEFT)
		atomic_fetch_add(&far.left, 1);
	else
		atomic_fetch_add(&far.ready, 1);
	if (event == RMEM_PEER_READY)
		send_more(peer);
}

static void *run_server(void *argument)
{
	struct rmem_error problem = {0};

	ck_assert_msg(rmem_server_run(argument, &problem) == 0, "%s", problem.text);
	return NULL;
}

static void make_server(enum rmem_poll_mode poll, unsigned notices)
{
	struct rmem_server_options options;

	rmem_server_options_init(&options);
	options.pool.size_bytes = POOL_BYTES;
	options.allow_unauthenticated = true;
	options.poll = poll;
	options.notices = notices;
	options.notice = came;
	options.peer_event = peer_event;
	ck_assert_msg(rmem_server_create(&options, &server, &error) == 0, "%s", error.text);
	ck_assert_msg(rmem_server_listen(server, url, &error) == 0, "%s", error.text);
	ck_assert_msg(rmem_server_start(server, &error) == 0, "%s", error.text);
}

static void start_server(enum rmem_poll_mode poll, unsigned notices)
{
	make_server(poll, notices);
	ck_assert_int_eq(pthread_create(&server_thread, NULL, run_server, server), 0);
}

static void stop_server(void)
{
	if (!server)
		return;
	rmem_server_stop(server);
	pthread_join(server_thread, NULL);
	rmem_server_destroy(server);
	server = NULL;
}

/* --- The engine's side --------------------------------------------------------------------------
 */

static unsigned got;
static unsigned got_wrong;
static uint32_t got_last;
static uint8_t got_bytes[RMEM_NOTICE_BYTES_MAX];
static uint32_t got_length;

static void got_notice(void *user, struct rmem_reactor *which, unsigned from,
		       const struct rmem_notice *notice)
{
	(void)user;
	if (which != reactor || from != index_of_server ||
	    (got > 0 && notice->transfer != got_last + 1))
		got_wrong++;
	got++;
	got_last = notice->transfer;
	got_length = notice->length;
	memcpy(got_bytes, notice->bytes, notice->length);
}

static void start_engine(enum rmem_poll_mode poll, unsigned notices, unsigned lanes)
{
	struct rmem_engine_options options;

	rmem_engine_options_init(&options);
	options.poll = poll;
	options.notices = notices;
	options.notice = got_notice;
	options.lanes = lanes;
	options.staging_bytes = 4 << 20;
	options.reconnect_min_ms = 5;
	options.reconnect_max_ms = 20;
	ck_assert_msg(rmem_engine_create(&options, &engine, &error) == 0, "%s", error.text);
	ck_assert_msg(rmem_server_add(engine, url, &index_of_server, &error) == 0, "%s",
		      error.text);
	ck_assert_msg(rmem_server_wait(engine, index_of_server, WAIT_MS, &error) == 0, "%s",
		      error.text);
	reactor = rmem_engine_reactor(engine, 0);
}

static void setup(void)
{
	strcpy(folder, "/tmp/test_notices.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	if (getenv("RMEM_TEST_VERBS"))
		snprintf(url, sizeof(url), "verbs://%s", getenv("RMEM_TEST_VERBS"));
	else
		snprintf(url, sizeof(url), "shm:%s/sock", folder);
	if (getenv("RMEM_TEST_DEBUG")) {
		rmem_log_set_level(RMEM_LOG_SERVER, RMEM_LOG_DEBUG);
		rmem_log_set_level(RMEM_LOG_ENGINE, RMEM_LOG_DEBUG);
		rmem_log_set_level(RMEM_LOG_FABRIC, RMEM_LOG_DEBUG);
	}
	memset(&far, 0, sizeof(far));
	got = got_wrong = 0;
}

static void teardown(void)
{
	rmem_engine_destroy(engine);
	engine = NULL;
	stop_server();
	ck_assert_int_eq(rmdir(folder), 0);
}

struct sending {
	struct rmem_batch batch;
	struct rmem_segment segment;
	struct rmem_notice notice;
	unsigned ended;
	int status;
};

static void ended(struct rmem_batch *batch, int status)
{
	struct sending *sending = batch->user;

	sending->ended++;
	sending->status = status;
}

/* A notice behind a write of `length` bytes; 0: alone. */
static void submit(struct sending *sending, uint32_t transfer, void *local, uint64_t length)
{
	memset(sending, 0, sizeof(*sending));
	sending->notice.transfer = transfer;
	sending->segment = (struct rmem_segment){
		.server = (uint16_t)index_of_server, .local = local, .length = length};
	sending->batch = (struct rmem_batch){
		.op = RMEM_WRITE,
		.segments = &sending->segment,
		.segment_count = length > 0,
		.done = ended,
		.user = sending,
		.notice = &sending->notice,
		.notice_server = (uint16_t)index_of_server,
	};
	rmem_submit(reactor, &sending->batch);
}

static int finish(struct sending *sending)
{
	for (int i = 0; i < 1000 && sending->ended == 0; i++)
		rmem_reactor_run(reactor, 100);
	ck_assert_uint_eq(sending->ended, 1);
	return sending->status;
}

static uint64_t counted(enum rmem_stat stat)
{
	struct rmem_stats_snapshot snapshot;

	rmem_stats_read(rmem_reactor_stats(reactor), &snapshot);
	return snapshot.values[stat];
}

static void wait_until(atomic_uint *count, unsigned wanted)
{
	for (int i = 0; i < 5000 && atomic_load(count) != wanted; i++)
		usleep(1000);
	ck_assert_uint_eq(atomic_load(count), wanted);
}

/* --- Cases --------------------------------------------------------------------------------------
 */

/* Client's poll mode in the tens, server's in the ones. */
static const int modes[] = {00, 01, 02, 10, 11, 12, 20, 21, 22};

START_TEST(a_notice_goes_there_and_comes_back_in_every_poll_mode)
{
	const uint32_t rounds = getenv("RMEM_TEST_VERBS") ? 70 : 500; /* emulated, that is slow */
	struct sending sending;

	far.is_echoing = true;
	start_server((enum rmem_poll_mode)(modes[_i] % 8), NOTICES);
	start_engine((enum rmem_poll_mode)(modes[_i] / 8), NOTICES, 1);
	for (uint32_t i = 0; i < rounds; i++) {
		submit(&sending, i, NULL, 0);
		sending.notice.length = i % (RMEM_NOTICE_BYTES_MAX + 1);
		memset(sending.notice.bytes, (int)i, sending.notice.length);
		ck_assert_int_eq(rmem_notice_wait(reactor, index_of_server, i, WAIT_MS), 0);
		ck_assert(rmem_notice_has_arrived(reactor, index_of_server, i));
		ck_assert(!rmem_notice_has_arrived(reactor, index_of_server, i + 1));
		ck_assert_int_eq(finish(&sending), 0);
		ck_assert_uint_eq(got, i + 1);
		ck_assert_uint_eq(got_length, i % (RMEM_NOTICE_BYTES_MAX + 1));
		ck_assert_mem_eq(got_bytes, sending.notice.bytes, got_length);
		if (i % 100 == 99)
			usleep(2000); /* both fall asleep, if they do */
	}
	ck_assert_uint_eq(got_wrong, 0);
	ck_assert_uint_eq(atomic_load(&far.wrong), 0);
	ck_assert_uint_eq(atomic_load(&far.joined), 1);
	ck_assert_uint_eq(counted(RMEM_STAT_NOTICES_SENT), rounds);
	ck_assert_uint_eq(counted(RMEM_STAT_NOTICES_TAKEN), rounds);
}
END_TEST

START_TEST(a_notice_comes_behind_its_transfer)
{
	static const uint64_t lengths[] = {1, 64, 4096, 100000, 1 << 20};
	struct sending sending;
	struct rmem_memory *memory;
	unsigned char *bytes;

	far.is_looking = true;
	start_server(RMEM_POLL_ADAPTIVE, NOTICES);
	start_engine(RMEM_POLL_ADAPTIVE, NOTICES, (unsigned)_i);
	bytes = aligned_alloc(4096, 1 << 20);
	ck_assert_int_eq(rmem_memory_register(engine, bytes, 1 << 20, &memory, &error), 0);
	for (uint32_t i = 0; i < RMEM_COUNT_OF(lengths); i++) {
		memset(bytes, (int)i + 1, lengths[i]);
		atomic_store(&far.length, (unsigned)lengths[i]);
		submit(&sending, i, bytes, lengths[i]);
		ck_assert_int_eq(finish(&sending), 0);
		wait_until(&far.came, i + 1);
		ck_assert_uint_eq(atomic_load(&far.last), i);
		ck_assert_uint_eq(atomic_load(&far.wrong), 0);
		/* Not one message more than there would be without. */
		ck_assert_uint_eq(counted(RMEM_STAT_WRS), counted(RMEM_STAT_WRITES) -
								  counted(RMEM_STAT_MERGES) +
								  counted(RMEM_STAT_CHUNKS));
	}
	memset(bytes, 0, 100000);
	far.is_looking = false;
	submit(&sending, 5, bytes, 100000);
	sending.batch.op = RMEM_READ;
	ck_assert_int_eq(finish(&sending), 0);
	ck_assert_uint_eq(bytes[99999], 5);
	wait_until(&far.came, 6);
	rmem_memory_unregister(memory);
	free(bytes);
}
END_TEST

#define MANY 1000

START_TEST(many_notices_wait_for_credit_and_all_arrive_in_order)
{
	struct sending *sendings = calloc(MANY, sizeof(*sendings));
	struct sending plain;
	char *slot;

	start_server(RMEM_POLL_EVENT, NOTICES);
	start_engine(RMEM_POLL_ADAPTIVE, NOTICES, 1);
	slot = rmem_staging_get(reactor);
	for (uint32_t i = 0; i < MANY; i++)
		submit(&sendings[i], i, slot, i % 3 == 0 ? 100 : 0);
	/* One without a notice passes those that wait. */
	submit(&plain, 0, slot, 100);
	plain.batch.notice = NULL;
	ck_assert_int_eq(finish(&plain), 0);
	for (uint32_t i = 0; i < MANY; i++) {
		ck_assert_int_eq(finish(&sendings[i]), 0);
		ck_assert_uint_eq(sendings[i].ended, 1);
	}
	wait_until(&far.came, MANY);
	ck_assert_uint_eq(atomic_load(&far.wrong), 0);
	ck_assert_uint_gt(counted(RMEM_STAT_NOTICES_HELD), 0);
	free(sendings);
}
END_TEST

START_TEST(as_many_as_there_may_be_can_be_under_way)
{
	struct sending *sendings = calloc(MANY, sizeof(*sendings));

	start_server(RMEM_POLL_EVENT, RMEM_NOTICES_MAX);
	start_engine(RMEM_POLL_ADAPTIVE, RMEM_NOTICES_MAX, 1);
	for (uint32_t i = 0; i < MANY; i++)
		submit(&sendings[i], i, NULL, 0);
	for (uint32_t i = 0; i < MANY; i++)
		ck_assert_int_eq(finish(&sendings[i]), 0);
	ck_assert_uint_eq(counted(RMEM_STAT_NOTICES_HELD), 0);
	wait_until(&far.came, MANY);
	ck_assert_uint_eq(atomic_load(&far.wrong), 0);
	free(sendings);
}
END_TEST

START_TEST(a_server_sends_by_itself_as_fast_as_it_is_let)
{
	struct sending sending;

	far.to_send = MANY;
	start_server(RMEM_POLL_ADAPTIVE, NOTICES);
	start_engine((enum rmem_poll_mode)_i, NOTICES, 1);
	submit(&sending, 0, NULL, 0);
	ck_assert_int_eq(rmem_notice_wait(reactor, index_of_server, MANY - 1, WAIT_MS), 0);
	ck_assert_uint_eq(got, MANY);
	ck_assert_uint_eq(got_wrong, 0);
	ck_assert_uint_gt(atomic_load(&far.ready), 0);
	ck_assert_int_eq(finish(&sending), 0);
	/* What came long ago is known, too. */
	ck_assert(rmem_notice_has_arrived(reactor, index_of_server, 0));
	ck_assert(rmem_notice_has_arrived(reactor, index_of_server, MANY - NOTICES));
	ck_assert(!rmem_notice_has_arrived(reactor, index_of_server, MANY));
	ck_assert_int_eq(rmem_notice_wait(reactor, index_of_server, MANY, 20), -ETIMEDOUT);
}
END_TEST

START_TEST(notices_to_a_server_that_is_lost_end_once_each)
{
	struct sending *sendings = calloc(MANY, sizeof(*sendings));
	unsigned failed = 0;

	start_server(RMEM_POLL_EVENT, NOTICES);
	start_engine(RMEM_POLL_ADAPTIVE, NOTICES, 1);
	for (uint32_t i = 0; i < MANY; i++)
		submit(&sendings[i], i, NULL, 0);
	rmem_reactor_poll(reactor);
	wait_until(&far.joined, 1);
	stop_server();
	for (uint32_t i = 0; i < MANY; i++) {
		int status = finish(&sendings[i]);

		ck_assert(status == 0 || status == -ENOTCONN);
		failed += status != 0;
	}
	ck_assert_uint_gt(failed, 0);
	ck_assert_uint_eq(atomic_load(&far.joined), 1);
	ck_assert_uint_eq(atomic_load(&far.left), 1);
	ck_assert_int_eq(rmem_notice_wait(reactor, index_of_server, 7, WAIT_MS), -ENOTCONN);
	/* It comes back, and all begins anew. */
	far.is_echoing = true;
	atomic_store(&far.came, 0);
	start_server(RMEM_POLL_EVENT, NOTICES);
	ck_assert_int_eq(rmem_server_wait(engine, index_of_server, WAIT_MS, &error), 0);
	submit(&sendings[0], 7, NULL, 0);
	ck_assert_int_eq(rmem_notice_wait(reactor, index_of_server, 7, WAIT_MS), 0);
	ck_assert_int_eq(finish(&sendings[0]), 0);
	ck_assert_uint_eq(sendings[0].ended, 1);
	free(sendings);
}
END_TEST

START_TEST(who_can_not_have_notices_is_told)
{
	struct sending sending;
	struct rmem_segment segments[2] = {{0}};

	start_server(RMEM_POLL_EVENT, _i == 0 ? 0 : NOTICES);
	start_engine(RMEM_POLL_ADAPTIVE, _i == 1 ? 0 : NOTICES, 1);
	submit(&sending, 0, rmem_staging_get(reactor), 100);
	ck_assert_int_eq(finish(&sending), _i < 2 ? -EOPNOTSUPP : 0);
	submit(&sending, 0, NULL, 0);
	sending.batch.notice_server = 1;
	ck_assert_int_eq(finish(&sending), -EINVAL);
	submit(&sending, 0, NULL, 0);
	sending.notice.length = RMEM_NOTICE_BYTES_MAX + 1;
	ck_assert_int_eq(finish(&sending), -EINVAL);
	if (_i < 2)
		return;
	submit(&sending, 0, NULL, 0);
	segments[0] = segments[1] = (struct rmem_segment){.server = (uint16_t)index_of_server,
							  .local = rmem_staging_get(reactor),
							  .length = 1};
	segments[1].server = 1;
	sending.batch.segments = segments;
	sending.batch.segment_count = 2;
	ck_assert_int_eq(finish(&sending), -EINVAL);
	wait_until(&far.came, 1);
	ck_assert_uint_eq(counted(RMEM_STAT_NOTICES_SENT), 1);
}
END_TEST

/* --- A server that its own program drives --------------------------------------------------------
 */

static struct rmem_peer *_Atomic the_peer;

static void note_peer(void *user, struct rmem_peer *peer, enum rmem_peer_event event)
{
	(void)user;
	if (event == RMEM_PEER_JOINED)
		atomic_store(&the_peer, peer);
}

static void *drive(void *argument)
{
	struct rmem_peer *peer;
	struct rmem_notice notice = {.transfer = 1};

	(void)argument;
	while (!(peer = atomic_load(&the_peer)))
		rmem_server_poll(server);
	rmem_peer_set_user(peer, &the_peer);
	ck_assert_ptr_eq(rmem_peer_user(peer), &the_peer);
	ck_assert_int_eq(rmem_peer_wait(peer, 1, 20), -ETIMEDOUT);
	ck_assert_int_eq(rmem_peer_notify(peer, &notice), 0);
	ck_assert_int_eq(rmem_peer_wait(peer, 5, WAIT_MS), 0);
	ck_assert(rmem_peer_has_arrived(peer, 4));
	notice.transfer = 2;
	ck_assert_int_eq(rmem_peer_notify(peer, &notice), 0);
	ck_assert_int_eq(rmem_peer_wait(peer, 6, WAIT_MS), -ENOTCONN);
	return NULL;
}

START_TEST(a_server_can_wait_for_a_peer_and_outlives_it)
{
	struct rmem_server_options options;
	struct sending sendings[5];

	rmem_server_options_init(&options);
	options.pool.size_bytes = POOL_BYTES;
	options.allow_unauthenticated = true;
	options.poll = (enum rmem_poll_mode)_i;
	options.peer_event = note_peer;
	atomic_store(&the_peer, NULL);
	ck_assert_int_eq(rmem_server_create(&options, &server, &error), 0);
	ck_assert_msg(rmem_server_listen(server, url, &error) == 0, "%s", error.text);
	ck_assert_int_eq(rmem_server_start(server, &error), 0);
	ck_assert_int_eq(pthread_create(&server_thread, NULL, drive, NULL), 0);
	start_engine(RMEM_POLL_ADAPTIVE, NOTICES, 1);
	ck_assert_int_eq(rmem_notice_wait(reactor, index_of_server, 1, WAIT_MS), 0);
	for (uint32_t i = 0; i < 5; i++)
		submit(&sendings[i], i + 1, NULL, 0);
	ck_assert_int_eq(rmem_notice_wait(reactor, index_of_server, 2, WAIT_MS), 0);
	for (uint32_t i = 0; i < 5; i++)
		ck_assert_int_eq(finish(&sendings[i]), 0);
	rmem_engine_destroy(engine);
	engine = NULL;
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("notices");
	TCase *exchange = tcase_create("exchange");

	tcase_add_checked_fixture(exchange, setup, teardown);
	tcase_set_timeout(exchange, 60);
	tcase_add_loop_test(exchange, a_notice_goes_there_and_comes_back_in_every_poll_mode, 0,
			    (int)RMEM_COUNT_OF(modes));
	tcase_add_loop_test(exchange, a_notice_comes_behind_its_transfer, 1, 4);
	tcase_add_test(exchange, many_notices_wait_for_credit_and_all_arrive_in_order);
	tcase_add_test(exchange, as_many_as_there_may_be_can_be_under_way);
	tcase_add_loop_test(exchange, a_server_sends_by_itself_as_fast_as_it_is_let, 0, 3);
	tcase_add_test(exchange, notices_to_a_server_that_is_lost_end_once_each);
	tcase_add_loop_test(exchange, who_can_not_have_notices_is_told, 0, 3);
	tcase_add_loop_test(exchange, a_server_can_wait_for_a_peer_and_outlives_it, 0, 3);
	suite_add_tcase(suite, exchange);
	return run_suite(suite);
}
