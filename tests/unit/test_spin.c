/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/spin.h"

#include "tests/support/runner.h"

#define BASE 1000u
#define MOST (BASE * RMEM_SPIN_GROWTH)

static struct rmem_spin spin;

static void start(void)
{
	rmem_spin_init(&spin, BASE);
}

static uint64_t after(uint64_t waited_ns, bool came)
{
	rmem_spin_learn(&spin, waited_ns, came);
	return spin.limit_ns;
}

START_TEST(begins_with_the_base)
{
	ck_assert_uint_eq(spin.limit_ns, BASE);
}
END_TEST

START_TEST(outlasts_waits_that_are_a_little_too_long)
{
	ck_assert_uint_eq(after(BASE + 1, true), 2 * (BASE + 1));
	ck_assert_uint_eq(after(5 * BASE, true), 10 * BASE);
	ck_assert_uint_eq(after(MOST / 2 + 1, true), MOST);
	ck_assert_uint_eq(after(MOST, true), MOST);
}
END_TEST

START_TEST(does_not_shrink_for_a_short_wait)
{
	after(5 * BASE, true);
	ck_assert_uint_eq(after(BASE, true), 10 * BASE);
	ck_assert_uint_eq(after(0, true), 10 * BASE);
}
END_TEST

START_TEST(begins_again_after_a_wait_that_no_spin_outlasts)
{
	after(5 * BASE, true);
	ck_assert_uint_eq(after(MOST + 1, true), BASE);
	after(5 * BASE, true);
	ck_assert_uint_eq(after(MOST + 1, false), BASE);
	after(5 * BASE, true);
	ck_assert_uint_eq(after(UINT64_MAX / 2 + 7, true), BASE); /* twice as much is not little */
}
END_TEST

START_TEST(learns_nothing_from_a_sleep_that_something_else_ended)
{
	ck_assert_uint_eq(after(5 * BASE, false), BASE);
}
END_TEST

START_TEST(without_a_base_it_never_spins)
{
	rmem_spin_init(&spin, 0);
	ck_assert_uint_eq(after(0, true), 0);
	ck_assert_uint_eq(after(1, true), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("spin");
	TCase *tcase = tcase_create("spin");

	tcase_add_checked_fixture(tcase, start, NULL);
	tcase_add_test(tcase, begins_with_the_base);
	tcase_add_test(tcase, outlasts_waits_that_are_a_little_too_long);
	tcase_add_test(tcase, does_not_shrink_for_a_short_wait);
	tcase_add_test(tcase, begins_again_after_a_wait_that_no_spin_outlasts);
	tcase_add_test(tcase, learns_nothing_from_a_sleep_that_something_else_ended);
	tcase_add_test(tcase, without_a_base_it_never_spins);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
