/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_layout.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/runner.h"

/* How many neighbours among `wanted` messages continue each other. */
static unsigned continued(const struct bench_layout *layout, uint64_t wanted)
{
	unsigned count = 0;

	for (uint64_t i = 1; i < wanted; i++) {
		if (bench_layout_slot(layout, i) == bench_layout_slot(layout, i - 1) + 1)
			count++;
	}
	return count;
}

/* Every slot is in range, and is used before any is used again. */
static void check_use(const struct bench_layout *layout, uint64_t wanted)
{
	unsigned *uses = calloc(layout->slots, sizeof(*uses));

	ck_assert_ptr_nonnull(uses);
	for (uint64_t i = 0; i < wanted; i++) {
		uint64_t slot = bench_layout_slot(layout, i);

		if (slot >= layout->slots || uses[slot]++ != i / layout->slots)
			ck_abort_msg("message %u of %u uses slot %u", (unsigned)i, (unsigned)wanted,
				     (unsigned)slot);
	}
	free(uses);
}

START_TEST(scattered_neighbours_never_continue_each_other)
{
	struct bench_layout layout;

	for (uint64_t wanted = 1; wanted <= 300; wanted++) {
		bench_layout_init(&layout, BENCH_SCATTERED, wanted, UINT64_MAX);
		ck_assert_uint_eq(layout.slots, wanted);
		ck_assert_msg(continued(&layout, wanted) == 0, "%u messages", (unsigned)wanted);
		check_use(&layout, wanted);
	}
}
END_TEST

START_TEST(nor_do_they_when_slots_are_few)
{
	struct bench_layout layout;

	for (uint64_t room = 1; room <= 40; room++) {
		for (uint64_t wanted = 1; wanted <= 100; wanted++) {
			bench_layout_init(&layout, BENCH_SCATTERED, wanted, room);
			ck_assert_uint_le(layout.slots, room);
			if (continued(&layout, wanted) != 0)
				ck_abort_msg("%u messages, room for %u", (unsigned)wanted,
					     (unsigned)room);
			check_use(&layout, wanted);
		}
	}
}
END_TEST

START_TEST(contiguous_neighbours_continue_each_other)
{
	struct bench_layout layout;

	bench_layout_init(&layout, BENCH_CONTIGUOUS, 64, 1000);
	ck_assert_uint_eq(layout.slots, 64);
	ck_assert_uint_eq(continued(&layout, 64), 63);
	bench_layout_init(&layout, BENCH_CONTIGUOUS, 64, 16);
	ck_assert_uint_eq(layout.slots, 16);
	ck_assert_uint_eq(continued(&layout, 64), 60);
	check_use(&layout, 64);
}
END_TEST

START_TEST(large_numbers_of_slots_work)
{
	struct bench_layout layout;

	bench_layout_init(&layout, BENCH_SCATTERED, UINT64_C(1) << 26, UINT64_MAX);
	ck_assert_uint_eq(layout.slots, UINT64_C(1) << 26);
	ck_assert_uint_eq(continued(&layout, 100000), 0);
}
END_TEST

#define LENGTH 1003

START_TEST(a_pattern_is_what_was_filled_in)
{
	unsigned char bytes[LENGTH + 1];

	for (size_t length = 0; length <= LENGTH; length += length < 20 ? 1 : 61) {
		memset(bytes, 0xaa, sizeof(bytes));
		bench_pattern_fill(bytes, length, 3, 5);
		ck_assert_uint_eq(bench_pattern_check(bytes, length, 3, 5), length);
		ck_assert_uint_eq(bytes[length], 0xaa);
		for (size_t i = 0; i < length; i++)
			ck_assert_uint_eq(bytes[i], bench_pattern_byte(i, 3, 5));
	}
}
END_TEST

START_TEST(one_wrong_byte_is_found_where_it_is)
{
	unsigned char bytes[LENGTH];

	bench_pattern_fill(bytes, LENGTH, 1, 2);
	for (size_t i = 0; i < LENGTH; i++) {
		bytes[i] ^= 0x10;
		ck_assert_uint_eq(bench_pattern_check(bytes, LENGTH, 1, 2), i);
		bytes[i] ^= 0x10;
	}
}
END_TEST

START_TEST(other_seeds_and_slots_have_other_content)
{
	unsigned char bytes[LENGTH];

	bench_pattern_fill(bytes, LENGTH, 1, 2);
	ck_assert_uint_lt(bench_pattern_check(bytes, LENGTH, 2, 2), 8);
	ck_assert_uint_lt(bench_pattern_check(bytes, LENGTH, 1, 3), 8);
	/* Content that is moved by a word is not taken for what belongs there. */
	ck_assert_uint_lt(bench_pattern_check(bytes + 8, LENGTH - 8, 1, 2), 8);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("bench_layout");
	TCase *tcase = tcase_create("layout");

	tcase_add_test(tcase, scattered_neighbours_never_continue_each_other);
	tcase_add_test(tcase, nor_do_they_when_slots_are_few);
	tcase_add_test(tcase, contiguous_neighbours_continue_each_other);
	tcase_add_test(tcase, large_numbers_of_slots_work);
	tcase_add_test(tcase, a_pattern_is_what_was_filled_in);
	tcase_add_test(tcase, one_wrong_byte_is_found_where_it_is);
	tcase_add_test(tcase, other_seeds_and_slots_have_other_content);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
