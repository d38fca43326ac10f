/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of engine/fabric.h, held against every provider, where things go wrong: requests
 * that are refused, lanes that are aborted, servers that die. Everything that was posted ends. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/base/deadline.h"
#include "tests/support/fabric_rig.h"
#include "tests/support/runner.h"

static struct rig rig;

static void open_rig(int provider)
{
	rig_open(&rig, &(struct rig_shape){
			       .provider = provider, .lanes = 2, .depth = 64, .cq_depth = 128});
}

static const struct rig_place somewhere = {0, 4096, 0, 64};

/* Whether the bytes at `somewhere` are still zero; read through the other lane. */
static void expect_untouched(void)
{
	static const uint8_t zero[64];
	struct rmem_wr wr =
		rig_wr(&rig, RMEM_WR_READ, 999, &(struct rig_place){0, 4096, 65536, 64});

	memset(rig.memory + 65536, 0xcc, 64);
	rig_do(&rig, 1, &wr, RMEM_WC_OK);
	ck_assert_mem_eq(rig.memory + 65536, zero, 64);
}

START_TEST(a_wrong_remote_key_is_refused)
{
	struct rmem_wr wr;

	open_rig(_i);
	memset(rig.memory, 1, 64);
	wr = rig_wr(&rig, RMEM_WR_WRITE, 5, &somewhere);
	wr.remote_key ^= 0x10000;
	rig_do(&rig, 0, &wr, RMEM_WC_REMOTE_ACCESS);
	expect_untouched();
	rig_close(&rig);
}
END_TEST

START_TEST(the_key_of_another_region_is_refused)
{
	struct rmem_wr wr;

	open_rig(_i);
	wr = rig_wr(&rig, RMEM_WR_READ, 5, &somewhere);
	wr.remote_key = rig.info.regions[1].key;
	wr.remote_address = rig.info.regions[0].address + RIG_REGION_BYTES - 8;
	rig_do(&rig, 0, &wr, RMEM_WC_REMOTE_ACCESS);
	rig_close(&rig);
}
END_TEST

static const struct {
	int64_t offset;
	uint32_t length;
} outside[] = {
	{(int64_t)RIG_REGION_BYTES - 63, 64},
	{(int64_t)RIG_REGION_BYTES, 1},
	{-1, 1},
	{-64, 65},
	{INT64_MAX, 64},
	{(int64_t)1 << 40, 1},
};

START_TEST(a_range_outside_the_region_is_refused)
{
	for (unsigned i = 0; i < RMEM_COUNT_OF(outside); i++) {
		struct rmem_wr wr;

		open_rig(_i);
		wr = rig_wr(&rig, i % 2 == 0 ? RMEM_WR_WRITE : RMEM_WR_READ, 5, &somewhere);
		wr.remote_address = rig.info.regions[1].address + (uint64_t)outside[i].offset;
		wr.remote_key = rig.info.regions[1].key;
		wr.sge[0].length = outside[i].length;
		rig_do(&rig, 0, &wr, RMEM_WC_REMOTE_ACCESS);
		rig_close(&rig);
	}
}
END_TEST

/* A provider that remembers what it looked up for the request before must not believe it too far.
 */
static void expect_second_fails(struct rmem_wr wrs[2], enum rmem_wc_status status)
{
	struct rmem_completion completions[2];

	rig_chain(wrs, 2);
	rig_post(&rig, 0, wrs);
	ck_assert_uint_eq(rig_reap(&rig, completions, 2), 2);
	ck_assert_int_eq(completions[0].status, RMEM_WC_OK);
	ck_assert_int_eq(completions[1].status, status);
}

START_TEST(a_range_is_checked_whatever_fitted_before)
{
	const struct rig_place last = {
		.region = 1, .offset = RIG_REGION_BYTES - 512, .local = 0, .length = 512};
	struct rmem_wr wrs[2];

	for (unsigned i = 0; i < RMEM_COUNT_OF(outside); i++) {
		open_rig(_i);
		wrs[0] = wrs[1] = rig_wr(&rig, RMEM_WR_WRITE, 0, &last);
		if (i % 2) /* of the same length, or of another */
			wrs[0].sge[0].length = outside[i].length;
		wrs[1].remote_address = rig.info.regions[1].address + (uint64_t)outside[i].offset;
		wrs[1].sge[0].length = outside[i].length;
		expect_second_fails(wrs, RMEM_WC_REMOTE_ACCESS);
		rig_close(&rig);
	}
	for (unsigned length = 511; length <= 513; length += 2) {
		open_rig(_i);
		wrs[0] = wrs[1] = rig_wr(&rig, RMEM_WR_WRITE, 0, &last);
		wrs[0].sge[0].length = length - 1;
		wrs[1].remote_address = rig.info.regions[1].address;
		wrs[1].sge[0].address = rig.memory + RIG_MEMORY_BYTES - length + 1;
		wrs[1].sge[0].length = length;
		expect_second_fails(wrs, RMEM_WC_LOCAL_ERROR);
		rig_close(&rig);
	}
}
END_TEST

START_TEST(local_memory_that_is_not_registered_is_refused)
{
	struct rmem_mr *gone;
	struct rmem_wr wr;

	open_rig(_i);
	wr = rig_wr(&rig, RMEM_WR_READ, 5, &somewhere);
	ck_assert_int_eq(rig.fabric->mr_register(rig.port, rig.memory, 4096, &gone, NULL), 0);
	wr.sge[0].key = rig.fabric->mr_key(gone);
	rig_do(&rig, 0, &wr, RMEM_WC_OK);
	rig.fabric->mr_unregister(gone);
	rig_do(&rig, 0, &wr, RMEM_WC_LOCAL_ERROR);
	/* One byte behind the end of what is. */
	wr = rig_wr(&rig, RMEM_WR_WRITE, 6, &somewhere);
	wr.sge[0].address = rig.memory + RIG_MEMORY_BYTES - 63;
	rig_do(&rig, 1, &wr, RMEM_WC_LOCAL_ERROR);
	rig_close(&rig);
}
END_TEST

START_TEST(a_key_does_not_fit_memory_registered_in_its_place)
{
	struct rmem_mr *first, *second;
	uint32_t old_key;
	struct rmem_wr wr;

	open_rig(_i);
	ck_assert_int_eq(rig.fabric->mr_register(rig.port, rig.memory, 4096, &first, NULL), 0);
	old_key = rig.fabric->mr_key(first);
	rig.fabric->mr_unregister(first);
	ck_assert_int_eq(rig.fabric->mr_register(rig.port, rig.memory, 4096, &second, NULL), 0);
	ck_assert_uint_ne(rig.fabric->mr_key(second), old_key);
	wr = rig_wr(&rig, RMEM_WR_READ, 5, &somewhere);
	wr.sge[0].key = old_key;
	rig_do(&rig, 0, &wr, RMEM_WC_LOCAL_ERROR);
	rig.fabric->mr_unregister(second);
	rig_close(&rig);
}
END_TEST

START_TEST(a_failure_ends_what_follows_and_spares_what_was_before)
{
	struct rmem_completion completions[10];
	struct rmem_wr wrs[10];

	open_rig(_i);
	memset(rig.memory, 1, 64);
	for (unsigned i = 0; i < 10; i++) {
		wrs[i] = rig_wr(&rig, RMEM_WR_WRITE, i, &somewhere);
		if (i < 4)
			wrs[i].remote_address += 4096;
	}
	wrs[4].remote_key ^= 0x10000;
	wrs[4].flags = wrs[6].flags = wrs[9].flags = 0; /* errors come without a signal, too */
	rig_chain(wrs, 10);
	rig_post(&rig, 0, wrs);
	ck_assert_uint_eq(rig_reap(&rig, completions, 10), 10);
	for (unsigned i = 0; i < 10; i++) {
		enum rmem_wc_status status = i < 4    ? RMEM_WC_OK
					     : i == 4 ? RMEM_WC_REMOTE_ACCESS
						      : RMEM_WC_FLUSHED;

		ck_assert_uint_eq(completions[i].id, i);
		ck_assert_int_eq(completions[i].status, status);
	}
	expect_untouched();
	/* For good: what is posted later ends likewise. */
	rig_post(&rig, 0, wrs);
	ck_assert_uint_eq(rig_reap(&rig, completions, 10), 10);
	for (unsigned i = 0; i < 10; i++) {
		ck_assert_uint_eq(completions[i].id, i);
		ck_assert_int_eq(completions[i].status, RMEM_WC_FLUSHED);
	}
	rig_expect_silence(&rig);
	expect_untouched();
	rig_close(&rig);
}
END_TEST

static void expect_flushed(unsigned from, unsigned to)
{
	struct rmem_completion completion;

	for (unsigned i = from; i < to; i++) {
		ck_assert_uint_eq(rig_reap(&rig, &completion, 1), 1);
		ck_assert_uint_eq(completion.id, i);
		ck_assert_int_eq(completion.status, RMEM_WC_FLUSHED);
	}
}

/* Full once, and one request more: to a queue pair in error soft-RoCE of Linux 6.1 counts a
 * doorbell as one request, flushes all that it finds, and when its count has gone round the queue
 * it finds none any more. The engine posts one request to such a lane. */
START_TEST(a_lane_in_error_is_full_like_any_other)
{
	struct rmem_wr wrs[1000], *bad = NULL;
	unsigned taken;

	rig_open(&rig, &(struct rig_shape){_i, 1, 4, 1000, NULL});
	rig.fabric->lane_abort(rig.lanes[0]);
	for (unsigned i = 0; i < RMEM_COUNT_OF(wrs); i++)
		wrs[i] = rig_wr(&rig, RMEM_WR_WRITE, i, &somewhere);
	rig_chain(wrs, RMEM_COUNT_OF(wrs));
	ck_assert_int_eq(rig.fabric->lane_post(rig.lanes[0], wrs, &bad), -EAGAIN);
	ck_assert(bad >= &wrs[4]);
	taken = (unsigned)(bad - wrs);
	expect_flushed(0, taken);
	wrs[taken].next = NULL;
	rig_post(&rig, 0, &wrs[taken]);
	expect_flushed(taken, taken + 1);
	rig_expect_silence(&rig);
	rig_close(&rig);
}
END_TEST

START_TEST(a_request_that_makes_no_sense_is_not_taken)
{
	struct rmem_completion completion;
	struct rmem_wr wrs[3], *bad = NULL;

	open_rig(_i);
	for (unsigned i = 0; i < 3; i++)
		wrs[i] = rig_wr(&rig, RMEM_WR_READ, i, &somewhere);
	rig_chain(wrs, 3);
	wrs[1].op = 77;
	ck_assert_int_eq(rig.fabric->lane_post(rig.lanes[0], wrs, &bad), -EINVAL);
	ck_assert_ptr_eq(bad, &wrs[1]);
	ck_assert_uint_eq(rig_reap(&rig, &completion, 1), 1);
	ck_assert_uint_eq(completion.id, 0);
	wrs[1].op = RMEM_WR_READ;
	wrs[1].sge_count = RMEM_SGE_MAX + 1;
	ck_assert_int_eq(rig.fabric->lane_post(rig.lanes[0], &wrs[1], &bad), -EINVAL);
	wrs[1].sge_count = 1;
	wrs[1].flags |= RMEM_WR_INLINE; /* a read can't be */
	ck_assert_int_eq(rig.fabric->lane_post(rig.lanes[0], &wrs[1], &bad), -EINVAL);
	wrs[1].op = RMEM_WR_WRITE;
	wrs[1].sge[0].length = 65; /* the lane was opened with 64 */
	ck_assert_int_eq(rig.fabric->lane_post(rig.lanes[0], &wrs[1], &bad), -EINVAL);
	rig_expect_silence(&rig);
	rig_do(&rig, 0, &wrs[2], RMEM_WC_OK); /* the lane is none the worse */
	rig_close(&rig);
}
END_TEST

/* The request that the engine posts behind all others: of nothing, to nowhere. */
static struct rmem_wr last_request(uint64_t id)
{
	return (struct rmem_wr){.id = id, .op = RMEM_WR_WRITE, .flags = RMEM_WR_SIGNALED};
}

START_TEST(an_aborted_lane_has_ended_all_when_its_last_request_comes_back)
{
	struct rmem_completion completion = {.id = 10};
	struct rmem_wr wrs[5], last = last_request(15);

	open_rig(_i);
	for (unsigned i = 0; i < 5; i++) {
		wrs[i] = rig_wr(&rig, RMEM_WR_READ, 10 + i, &somewhere);
		wrs[i].flags = 0;
	}
	rig_chain(wrs, 5);
	rig_post(&rig, 0, wrs);
	rig_expect_silence(&rig);
	rig.fabric->lane_abort(rig.lanes[0]);
	rig_post(&rig, 0, &last);
	while (completion.id != 15) {
		uint64_t before = completion.id;

		ck_assert_uint_eq(rig_reap(&rig, &completion, 1), 1);
		ck_assert_int_eq(completion.status, RMEM_WC_FLUSHED);
		ck_assert_uint_ge(completion.id, before);
	}
	rig_expect_silence(&rig);
	memset(rig.memory, 1, 64);
	wrs[0] = rig_wr(&rig, RMEM_WR_WRITE, 20, &somewhere);
	rig_do(&rig, 0, &wrs[0], RMEM_WC_FLUSHED);
	expect_untouched();
	rig_close(&rig);
}
END_TEST

START_TEST(an_armed_queue_announces_a_flushed_request)
{
	struct rmem_completion completion;
	struct rmem_wr last = last_request(1);

	open_rig(_i);
	rig.fabric->lane_abort(rig.lanes[0]);
	ck_assert_int_eq(rig.fabric->cq_arm(rig.cq), 0);
	ck_assert_int_eq(rig.fabric->cq_poll(rig.cq, &completion, 1), 0);
	rig_post(&rig, 0, &last);
	ck_assert(rig_readable(rig.fabric->cq_fd(rig.cq), RIG_TIMEOUT_MS));
	rig.fabric->cq_ack(rig.cq);
	ck_assert_uint_eq(rig_reap(&rig, &completion, 1), 1);
	ck_assert_int_eq(completion.status, RMEM_WC_FLUSHED);
	rig_close(&rig);
}
END_TEST

/* The reactor's side of a race: posts chains whose tail is signaled and counts what ends. */
struct poster {
	atomic_bool failed; /* the first flushed one was seen */
	unsigned posted, ended;
};

static void *post_until_failure(void *argument)
{
	struct poster *poster = argument;
	struct rmem_completion completions[16];
	struct rmem_wr wrs[4];

	while (!atomic_load(&poster->failed) || poster->ended < poster->posted) {
		int count;

		for (unsigned i = 0; i < 4; i++) {
			wrs[i] = rig_wr(&rig, RMEM_WR_WRITE, poster->posted + i, &somewhere);
			wrs[i].flags = i == 3 ? RMEM_WR_SIGNALED : 0;
		}
		rig_chain(wrs, 4);
		if (!atomic_load(&poster->failed) && poster->posted - poster->ended <= 60) {
			rig_post(&rig, 0, wrs);
			poster->posted += 4;
		}
		count = rig.fabric->cq_poll(rig.cq, completions, 16);
		for (int i = 0; i < count; i++) {
			/* In order, so that one ends all before it. */
			ck_assert_uint_ge(completions[i].id, poster->ended);
			ck_assert_uint_lt(completions[i].id, poster->posted);
			poster->ended = (unsigned)completions[i].id + 1;
			if (completions[i].status != RMEM_WC_OK)
				atomic_store(&poster->failed, true);
		}
	}
	return NULL;
}

static void sleep_ms(unsigned ms)
{
	struct timespec time = {.tv_nsec = ms * 1000000L};

	nanosleep(&time, NULL);
}

START_TEST(an_abort_by_another_thread_lets_everything_end_in_order)
{
	for (unsigned round = 0; round < 10; round++) {
		struct poster poster = {.posted = 0};
		pthread_t thread;

		open_rig(_i);
		ck_assert_int_eq(pthread_create(&thread, NULL, post_until_failure, &poster), 0);
		sleep_ms(round);
		rig.fabric->lane_abort(rig.lanes[0]);
		pthread_join(thread, NULL);
		ck_assert_uint_eq(poster.ended, poster.posted);
		rig_expect_silence(&rig);
		rig_close(&rig);
	}
}
END_TEST

static void end_server_meanwhile(int signal_number)
{
	struct poster poster = {.posted = 0};
	uint64_t deadline_ns;
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, post_until_failure, &poster), 0);
	sleep_ms(5);
	ck_assert_int_eq(rig.fabric->conn_alive(rig.conn), 0);
	rig_server_end(rig.server, signal_number);
	rig.server = 0;
	deadline_ns = rmem_deadline_in_ms(2000);
	ck_assert(rig_readable(rig.fabric->conn_fd(rig.conn), 2000));
	while (rig.fabric->conn_alive(rig.conn) == 0)
		ck_assert_uint_lt(rmem_now_ns(), deadline_ns);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(poster.ended, poster.posted);
	ck_assert_int_lt(rig.fabric->conn_alive(rig.conn), 0); /* and stays so */
}

START_TEST(a_server_killed_in_mid_transfer_is_noticed_and_everything_ends)
{
	struct rmem_lane_link *lane;
	struct rmem_wr wr;

	open_rig(_i);
	end_server_meanwhile(SIGKILL);
	wr = rig_wr(&rig, RMEM_WR_WRITE, 1 << 20, &somewhere);
	rig_do(&rig, 0, &wr, RMEM_WC_FLUSHED);
	rig_do(&rig, 1, &wr, RMEM_WC_FLUSHED); /* every lane of the connection */
	ck_assert_int_ne(rig.fabric->lane_open(rig.conn, rig.cq,
					       &(struct rmem_lane_options){.depth = 1}, &lane,
					       NULL),
			 0);
	rig_close(&rig);
}
END_TEST

START_TEST(a_server_that_stops_is_noticed_likewise)
{
	open_rig(_i);
	end_server_meanwhile(SIGTERM);
	rig_close(&rig);
}
END_TEST

START_TEST(a_server_that_came_back_can_be_connected_to_again)
{
	uint64_t incarnation;
	struct rmem_wr wr;

	open_rig(_i);
	incarnation = rig.info.incarnation;
	memset(rig.memory, 1, 64);
	wr = rig_wr(&rig, RMEM_WR_WRITE, 1, &somewhere);
	rig_do(&rig, 0, &wr, RMEM_WC_OK);
	rig_server_end(rig.server, SIGKILL);
	rig.server = rig_server_start(rig.url);
	while (rig.fabric->conn_alive(rig.conn) == 0)
		;
	rig.fabric->lane_close(rig.lanes[0]);
	rig.fabric->lane_close(rig.lanes[1]);
	rig.fabric->disconnect(rig.conn);
	rig_connect(&rig);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(rig.fabric->lane_open(rig.conn, rig.cq,
						       &(struct rmem_lane_options){.depth = 8},
						       &rig.lanes[i], NULL),
				 0);
	ck_assert_uint_ne(rig.info.incarnation, incarnation);
	expect_untouched();			     /* it is other memory */
	rig_do(&rig, 0, &wr, RMEM_WC_REMOTE_ACCESS); /* and the old key does not fit it */
	rig_close(&rig);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fabric_errors");
	TCase *refused = tcase_create("refused"), *ended = tcase_create("ended");

	tcase_add_unchecked_fixture(refused, rig_folder_make, rig_folder_remove);
	tcase_add_unchecked_fixture(ended, rig_folder_make, rig_folder_remove);
	tcase_set_timeout(refused, 60);
	tcase_set_timeout(ended, 60);
	tcase_add_loop_test(refused, a_wrong_remote_key_is_refused, 0, rig_provider_count);
	tcase_add_loop_test(refused, the_key_of_another_region_is_refused, 0, rig_provider_count);
	tcase_add_loop_test(refused, a_range_outside_the_region_is_refused, 0, rig_provider_count);
	tcase_add_loop_test(refused, a_range_is_checked_whatever_fitted_before, 0,
			    rig_provider_count);
	tcase_add_loop_test(refused, local_memory_that_is_not_registered_is_refused, 0,
			    rig_provider_count);
	tcase_add_loop_test(refused, a_key_does_not_fit_memory_registered_in_its_place, 0,
			    rig_provider_count);
	tcase_add_loop_test(refused, a_request_that_makes_no_sense_is_not_taken, 0,
			    rig_provider_count);
	tcase_add_loop_test(ended, a_failure_ends_what_follows_and_spares_what_was_before, 0,
			    rig_provider_count);
	tcase_add_loop_test(ended, a_lane_in_error_is_full_like_any_other, 0, rig_provider_count);
	tcase_add_loop_test(ended, an_aborted_lane_has_ended_all_when_its_last_request_comes_back,
			    0, rig_provider_count);
	tcase_add_loop_test(ended, an_armed_queue_announces_a_flushed_request, 0,
			    rig_provider_count);
	tcase_add_loop_test(ended, an_abort_by_another_thread_lets_everything_end_in_order, 0,
			    rig_provider_count);
	tcase_add_loop_test(ended, a_server_killed_in_mid_transfer_is_noticed_and_everything_ends,
			    0, rig_provider_count);
	tcase_add_loop_test(ended, a_server_that_stops_is_noticed_likewise, 0, rig_provider_count);
	tcase_add_loop_test(ended, a_server_that_came_back_can_be_connected_to_again, 0,
			    rig_provider_count);
	suite_add_tcase(suite, refused);
	suite_add_tcase(suite, ended);
	return run_suite(suite);
}
