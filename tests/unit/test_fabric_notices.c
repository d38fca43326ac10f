/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of engine/fabric.h about notices, held against every provider. How they get on with
 * a whole engine and what comes back from a server is in test_notices.c. */
#include <errno.h>
#include <string.h>

#include "engine/base/deadline.h"
#include "engine/rmem.h"
#include "tests/support/fabric_rig.h"
#include "tests/support/runner.h"

#define NOTICES	  8
#define NOTICE_ID 99

static struct rig rig;
static uint32_t granted;

static void open_rig(int provider, uint32_t notices)
{
	rig_notices = notices;
	rig_open(&rig, &(struct rig_shape){
			       .provider = provider, .lanes = 1, .depth = 64, .cq_depth = 256});
	granted = 0;
	if (notices > 0)
		rig.fabric->notices_start(rig.lanes[0], NOTICE_ID);
}

static void close_rig(void)
{
	if (rig.fabric->lane_notices(rig.lanes[0]) > 0)
		rig.fabric->notices_stop(rig.lanes[0]);
	rig_close(&rig);
}

static struct rmem_wr notice_wr(uint64_t id, void *bytes, uint32_t length)
{
	return (struct rmem_wr){
		.id = id,
		.op = RMEM_WR_NOTICE,
		.flags = RMEM_WR_SIGNALED,
		.sge_count = length > 0,
		.sge[0] = {.address = bytes, .length = length},
		.transfer = (uint32_t)id,
	};
}

/* The next completion of a request; counts grants on the way. */
static struct rmem_completion reap_one(void)
{
	struct rmem_completion completion;

	for (;;) {
		ck_assert_uint_eq(rig_reap(&rig, &completion, 1), 1);
		if (completion.status != RMEM_WC_GRANT)
			return completion;
		ck_assert_uint_eq(completion.id, NOTICE_ID);
		granted += completion.provider_status;
	}
}

static void wait_granted(uint32_t count)
{
	uint64_t deadline_ns = rmem_deadline_in_ms(RIG_TIMEOUT_MS);
	struct rmem_completion completion;

	while (granted < count && rmem_now_ns() < deadline_ns) {
		if (rig.fabric->cq_poll(rig.cq, &completion, 1) != 1)
			continue;
		ck_assert_int_eq(completion.status, RMEM_WC_GRANT);
		granted += completion.provider_status;
	}
	ck_assert_uint_ge(granted, count);
}

START_TEST(a_lane_sends_as_many_as_it_may_and_is_granted_more)
{
	uint8_t bytes[RMEM_NOTICE_BYTES_MAX] = {1, 2, 3};
	uint32_t sent = 0;

	open_rig(_i, NOTICES);
	ck_assert_uint_eq(rig.fabric->lane_notices(rig.lanes[0]), NOTICES);
	for (unsigned round = 0; round < 20; round++) {
		for (; sent - granted < NOTICES; sent++) {
			struct rmem_wr wr = notice_wr(sent, bytes, sent % (sizeof(bytes) + 1));
			struct rmem_completion completion;

			rig_post(&rig, 0, &wr);
			memset(bytes, (int)sent, sizeof(bytes)); /* taken when it was posted */
			completion = reap_one();
			ck_assert_uint_eq(completion.id, sent);
			ck_assert_int_eq(completion.status, RMEM_WC_OK);
		}
		wait_granted(sent - NOTICES / 2);
		ck_assert_uint_le(granted, sent);
	}
	close_rig();
}
END_TEST

START_TEST(a_write_with_a_notice_writes_inline_or_not)
{
	struct rig_place place = {0, 100, 0, 60};
	struct rmem_wr wr;

	open_rig(_i, NOTICES);
	for (unsigned i = 0; i < 3; i++) {
		rig_fill(rig.memory, 60, i);
		place.local = 0;
		wr = rig_wr(&rig, RMEM_WR_WRITE_NOTICE, i, &place);
		wr.flags |= i == 1 ? RMEM_WR_INLINE : 0;
		wr.transfer = i;
		rig_post(&rig, 0, &wr);
		ck_assert_int_eq(reap_one().status, RMEM_WC_OK);
		place.local = 4096;
		wr = rig_wr(&rig, RMEM_WR_READ, 10 + i, &place);
		rig_post(&rig, 0, &wr);
		ck_assert_int_eq(reap_one().status, RMEM_WC_OK);
		ck_assert_mem_eq(rig.memory, rig.memory + 4096, 60);
	}
	close_rig();
}
END_TEST

START_TEST(a_lane_in_error_flushes_notices_and_reports_no_more)
{
	struct rmem_wr wr = notice_wr(1, NULL, 0);

	open_rig(_i, NOTICES);
	rig.fabric->lane_abort(rig.lanes[0]);
	rig_post(&rig, 0, &wr);
	ck_assert_int_eq(reap_one().status, RMEM_WC_FLUSHED);
	wr = rig_wr(&rig, RMEM_WR_WRITE_NOTICE, 2, &(struct rig_place){0, 0, 0, 100});
	rig_post(&rig, 0, &wr);
	ck_assert_int_eq(reap_one().status, RMEM_WC_FLUSHED);
	close_rig();
}
END_TEST

static void expect_refused(struct rmem_wr wr)
{
	struct rmem_wr *bad = NULL;

	ck_assert_int_eq(rig.fabric->lane_post(rig.lanes[0], &wr, &bad), -EINVAL);
	ck_assert_ptr_eq(bad, &wr);
}

START_TEST(notices_that_make_no_sense_are_refused)
{
	uint8_t bytes[RMEM_NOTICE_BYTES_MAX + 1] = {0};
	struct rmem_wr wr;

	open_rig(_i, NOTICES);
	expect_refused(notice_wr(1, bytes, sizeof(bytes)));
	wr = notice_wr(2, bytes, 8);
	wr.sge_count = 2;
	expect_refused(wr);
	close_rig();
	/* And any on a lane that has none. */
	open_rig(_i, 0);
	ck_assert_uint_eq(rig.fabric->lane_notices(rig.lanes[0]), 0);
	expect_refused(notice_wr(3, bytes, 8));
	expect_refused(rig_wr(&rig, RMEM_WR_WRITE_NOTICE, 4, &(struct rig_place){0, 0, 0, 100}));
	close_rig();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fabric_notices");
	TCase *all = tcase_create("all");

	tcase_add_unchecked_fixture(all, rig_folder_make, rig_folder_remove);
	tcase_set_timeout(all, 60);
	tcase_add_loop_test(all, a_lane_sends_as_many_as_it_may_and_is_granted_more, 0,
			    rig_provider_count);
	tcase_add_loop_test(all, a_write_with_a_notice_writes_inline_or_not, 0, rig_provider_count);
	tcase_add_loop_test(all, a_lane_in_error_flushes_notices_and_reports_no_more, 0,
			    rig_provider_count);
	tcase_add_loop_test(all, notices_that_make_no_sense_are_refused, 0, rig_provider_count);
	suite_add_tcase(suite, all);
	return run_suite(suite);
}
