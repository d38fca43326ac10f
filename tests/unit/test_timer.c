/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/timer.h"

#include "tests/support/runner.h"

static void off(void)
{
	for (unsigned i = 0; i < RMEM_LOG_MODULES; i++)
		rmem_timer_set((enum rmem_log_module)i, false);
}

START_TEST(clock_moves_forward_and_is_never_zero)
{
	uint64_t before = rmem_now_ns(), after;

	ck_assert_uint_gt(before, 0);
	do
		after = rmem_now_ns();
	while (after == before);
	ck_assert_uint_gt(after, before);
}
END_TEST

START_TEST(timer_that_was_off_measures_zero)
{
	struct rmem_timer timer = {.start_ns = 12345};

	rmem_timer_start(&timer, RMEM_LOG_ENGINE);
	ck_assert_uint_eq(rmem_timer_elapsed_ns(&timer), 0);
	rmem_timer_set(RMEM_LOG_ENGINE, true);
	ck_assert_uint_eq(rmem_timer_elapsed_ns(&timer), 0);
}
END_TEST

START_TEST(timer_never_started_measures_zero)
{
	struct rmem_timer timer = {0};

	rmem_timer_set(RMEM_LOG_ENGINE, true);
	ck_assert_uint_eq(rmem_timer_elapsed_ns(&timer), 0);
}
END_TEST

START_TEST(timer_that_is_on_measures_the_time_passed)
{
	struct rmem_timer timer;
	uint64_t before, after, elapsed;

	rmem_timer_set(RMEM_LOG_ENGINE, true);
	before = rmem_now_ns();
	rmem_timer_start(&timer, RMEM_LOG_ENGINE);
	nanosleep(&(struct timespec){.tv_nsec = 2 * RMEM_NS_PER_MS}, NULL);
	elapsed = rmem_timer_elapsed_ns(&timer);
	after = rmem_now_ns();
	ck_assert_uint_ge(elapsed, 2 * RMEM_NS_PER_MS);
	ck_assert_uint_le(elapsed, after - before);
}
END_TEST

START_TEST(switching_off_ends_no_measurement_that_runs)
{
	struct rmem_timer timer;

	rmem_timer_set(RMEM_LOG_FS, true);
	rmem_timer_start(&timer, RMEM_LOG_FS);
	rmem_timer_set(RMEM_LOG_FS, false);
	nanosleep(&(struct timespec){.tv_nsec = RMEM_NS_PER_MS}, NULL);
	ck_assert_uint_ge(rmem_timer_elapsed_ns(&timer), RMEM_NS_PER_MS);
}
END_TEST

START_TEST(modules_are_switched_one_by_one)
{
	for (unsigned i = 0; i < RMEM_LOG_MODULES; i++) {
		rmem_timer_set((enum rmem_log_module)i, true);
		for (unsigned j = 0; j < RMEM_LOG_MODULES; j++)
			ck_assert_int_eq(rmem_timer_is_on((enum rmem_log_module)j), i == j);
		rmem_timer_set((enum rmem_log_module)i, false);
	}
}
END_TEST

START_TEST(timer_statements_fit_an_unbraced_if)
{
	struct rmem_timer timer = {0};
	bool other = false;

	rmem_timer_set(RMEM_LOG_ENGINE, true);
	if (other)
		rmem_timer_start(&timer, RMEM_LOG_ENGINE);
	else
		other = true;
	ck_assert(other);
	ck_assert_uint_eq(timer.start_ns, 0);
}
END_TEST

static unsigned measured(struct rmem_sampler *sampler, unsigned calls)
{
	struct rmem_timer timer;
	unsigned count = 0;

	for (unsigned i = 0; i < calls; i++) {
		rmem_sampler_start(sampler, &timer, RMEM_LOG_ENGINE);
		count += timer.start_ns != 0;
	}
	return count;
}

START_TEST(sampler_measures_the_first_and_then_one_in_period)
{
	struct rmem_sampler sampler;

	rmem_timer_set(RMEM_LOG_ENGINE, true);
	rmem_sampler_init(&sampler, 8);
	ck_assert_uint_eq(measured(&sampler, 1), 1);
	ck_assert_uint_eq(measured(&sampler, 7), 0);
	ck_assert_uint_eq(measured(&sampler, 1), 1);
	ck_assert_uint_eq(measured(&sampler, 800), 100);
}
END_TEST

START_TEST(sampler_of_period_zero_or_one_measures_each_call)
{
	struct rmem_sampler sampler;

	rmem_timer_set(RMEM_LOG_ENGINE, true);
	rmem_sampler_init(&sampler, 1);
	ck_assert_uint_eq(measured(&sampler, 5), 5);
	rmem_sampler_init(&sampler, 0);
	ck_assert_uint_eq(measured(&sampler, 5), 5);
}
END_TEST

START_TEST(sampler_that_is_off_measures_nothing)
{
	struct rmem_sampler sampler;

	rmem_sampler_init(&sampler, 1);
	ck_assert_uint_eq(measured(&sampler, 100), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("timer");
	TCase *tc = tcase_create("timer");

	tcase_add_checked_fixture(tc, off, off);
	tcase_add_test(tc, clock_moves_forward_and_is_never_zero);
	tcase_add_test(tc, timer_that_was_off_measures_zero);
	tcase_add_test(tc, timer_never_started_measures_zero);
	tcase_add_test(tc, timer_that_is_on_measures_the_time_passed);
	tcase_add_test(tc, switching_off_ends_no_measurement_that_runs);
	tcase_add_test(tc, modules_are_switched_one_by_one);
	tcase_add_test(tc, timer_statements_fit_an_unbraced_if);
	tcase_add_test(tc, sampler_measures_the_first_and_then_one_in_period);
	tcase_add_test(tc, sampler_of_period_zero_or_one_measures_each_call);
	tcase_add_test(tc, sampler_that_is_off_measures_nothing);
	suite_add_tcase(suite, tc);
	return run_suite(suite);
}
