/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_clock.h"

#include <unistd.h>

#include "tests/support/runner.h"

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* How far the clock is from the kernel's: of many looks the nearest, as we may be interrupted. */
static uint64_t error_ns(void)
{
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < 1000; i++) {
		uint64_t off = distance(bench_now_ns(), rmem_now_ns());

		least = off < least ? off : least;
	}
	return least;
}

START_TEST(keeps_up_with_the_monotonic_clock)
{
	if (_i == 1)
		bench_clock_init();
	ck_assert_uint_lt(error_ns(), 20000);
	usleep(200000);
	ck_assert_uint_lt(error_ns(), 200000); /* a thousandth */
}
END_TEST

START_TEST(moves_forward)
{
	uint64_t last;

	bench_clock_init();
	last = bench_now_ns();
	for (unsigned i = 0; i < 100000; i++) {
		uint64_t now = bench_now_ns();

		ck_assert_uint_ge(now, last);
		last = now;
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("bench_clock");
	TCase *tcase = tcase_create("bench_clock");

	tcase_add_loop_test(tcase, keeps_up_with_the_monotonic_clock, 0, 2);
	tcase_add_test(tcase, moves_forward);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
