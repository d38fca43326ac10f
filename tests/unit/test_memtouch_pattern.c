/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/memtouch_pattern.h"

#include <string.h>

#include "tests/support/runner.h"

#define WORDS (RMEM_PAGE_BYTES / sizeof(uint64_t))

static uint64_t page[WORDS], other[WORDS];
static char text[256];

static const struct touch_mark mark = {.thread = 3, .page = 70000, .pass = 9};

static void explains(struct touch_mark wanted, const char *part)
{
	touch_pattern_explain(page, touch_pattern_salt(1), wanted, text, sizeof(text));
	ck_assert_msg(strstr(text, part) != NULL, "\"%s\" does not say \"%s\"", text, part);
}

START_TEST(what_was_filled_is_ok)
{
	static const struct touch_mark marks[] = {
		{0, 0, 1}, {1023, (1u << 30) - 1, TOUCH_PASS_MAX}, {5, 6, 7}};

	for (size_t i = 0; i < RMEM_COUNT_OF(marks); i++) {
		touch_pattern_fill(page, touch_pattern_salt(i), marks[i]);
		ck_assert(touch_pattern_ok(page, touch_pattern_salt(i), marks[i]));
	}
}
END_TEST

START_TEST(any_bit_that_flips_is_found)
{
	uint64_t salt = touch_pattern_salt(1);

	touch_pattern_fill(page, salt, mark);
	for (size_t bit = 0; bit < RMEM_PAGE_BYTES * 8; bit++) {
		page[bit / 64] ^= UINT64_C(1) << (bit % 64);
		ck_assert_msg(!touch_pattern_ok(page, salt, mark), "bit %zu", bit);
		page[bit / 64] ^= UINT64_C(1) << (bit % 64);
	}
	ck_assert(touch_pattern_ok(page, salt, mark));
}
END_TEST

START_TEST(another_thread_page_pass_or_seed_is_not_ok_in_any_word)
{
	static const struct touch_mark others[] = {{4, 70000, 9}, {3, 70001, 9}, {3, 70000, 10}};

	touch_pattern_fill(page, touch_pattern_salt(1), mark);
	for (size_t i = 0; i < RMEM_COUNT_OF(others); i++) {
		ck_assert(!touch_pattern_ok(page, touch_pattern_salt(1), others[i]));
		touch_pattern_fill(other, touch_pattern_salt(1), others[i]);
		for (size_t word = 0; word < WORDS; word++)
			ck_assert_uint_ne(page[word], other[word]);
	}
	ck_assert(!touch_pattern_ok(page, touch_pattern_salt(2), mark));
}
END_TEST

START_TEST(words_in_the_wrong_place_are_not_ok)
{
	touch_pattern_fill(page, touch_pattern_salt(1), mark);
	for (size_t word = 1; word < WORDS; word++)
		ck_assert_uint_ne(page[0], page[word]);
	memmove(page, page + 1, sizeof(page) - sizeof(page[0]));
	ck_assert(!touch_pattern_ok(page, touch_pattern_salt(1), mark));
}
END_TEST

START_TEST(a_mismatch_is_explained)
{
	uint64_t salt = touch_pattern_salt(1);

	touch_pattern_fill(page, salt, mark);
	explains(mark, "no word is wrong");
	page[2] ^= 1u << 30;
	explains(mark,
		 "thread 3, page 70000, pass 9: 1 of 512 words are wrong, the first at byte 16");
	page[1] = 0;
	explains(mark, "2 of 512 words are wrong, the first at byte 8: zero");

	touch_pattern_fill(page, salt, (struct touch_mark){3, 70000, 8});
	explains(mark, "512 of 512 words are wrong, the first at byte 0: what this thread wrote "
		       "there in pass 8");
	touch_pattern_fill(page, salt, (struct touch_mark){3, 12, 9});
	explains(mark, "of page 12, pass 9");
	touch_pattern_fill(page, salt, (struct touch_mark){7, 70000, 2});
	explains(mark, "of thread 7, pass 2");
	memset(page, 0xab, sizeof(page));
	explains(mark, "0xabababababababab");
}
END_TEST

START_TEST(passes_wrap_behind_the_greatest_and_are_never_zero)
{
	ck_assert_uint_eq(touch_pass_next(0), 1);
	ck_assert_uint_eq(touch_pass_next(1), 2);
	ck_assert_uint_eq(touch_pass_next(TOUCH_PASS_MAX), 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("memtouch_pattern");
	TCase *tcase = tcase_create("pattern");

	tcase_add_test(tcase, what_was_filled_is_ok);
	tcase_add_test(tcase, any_bit_that_flips_is_found);
	tcase_add_test(tcase, another_thread_page_pass_or_seed_is_not_ok_in_any_word);
	tcase_add_test(tcase, words_in_the_wrong_place_are_not_ok);
	tcase_add_test(tcase, a_mismatch_is_explained);
	tcase_add_test(tcase, passes_wrap_behind_the_greatest_and_are_never_zero);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
