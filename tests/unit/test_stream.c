/* SPDX-License-Identifier: Apache-2.0 */
/* Each version that this CPU has, against memset() and memcpy(). A version that it lacks shows up
 * as a case that asks for it and must be refused. */
#include "engine/stream.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/stream_units.h"
#include "tests/support/runner.h"

#define ALIGNMENTS  64u
#define LENGTH_MAX  1100u
#define GUARD_BYTES 320u /* more than a block: a block too many is seen */
#define GUARD_BYTE  0xa5

static unsigned char source[8 * RMEM_PAGE_BYTES];
_Alignas(64) static unsigned char target[8 * RMEM_PAGE_BYTES], wanted[8 * RMEM_PAGE_BYTES];

/* Not every length at every alignment where that takes too long ($RMEM_TEST_STREAM_STRIDE, 4 on an
 * emulated CPU): all of both are met, and each alignment of the end with each of the start. */
static size_t stride = 1;

static size_t first_length(size_t offset)
{
	return offset / stride % stride;
}

/* The case's version; whether the CPU has it. */
static bool select_version(int version)
{
	struct rmem_error error = {0};
	enum rmem_stream_isa isa = (enum rmem_stream_isa)version;
	int status = rmem_stream_select(isa, &error);

	for (size_t i = 0; i < sizeof(source); i++)
		source[i] = (unsigned char)(i * 7 + i / 251);
	if (rmem_stream_isa_available(isa)) {
		ck_assert_int_eq(status, 0);
		if (isa != RMEM_STREAM_AUTO)
			ck_assert_int_eq((int)rmem_stream_isa_selected(), version);
		return true;
	}
	ck_assert_int_eq(status, -ENOTSUP);
	ck_assert_int_eq(error.code, -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(error.text, rmem_stream_isa_name(isa)));
	return false;
}

/* Not ck_assert(), which costs a system call: this runs half a million times.
 * `wanted` is what memset/memcpy made of the same call; the guards are part of the comparison. */
static void check_fill(size_t offset, size_t length, unsigned char byte)
{
	size_t span = offset + length + GUARD_BYTES;

	assert(span <= sizeof(target));
	memset(target, GUARD_BYTE, span);
	memset(wanted, GUARD_BYTE, span);
	memset(wanted + offset, byte, length);
	rmem_stream_fill(target + offset, byte, length);
	if (memcmp(target, wanted, span) != 0)
		ck_abort_msg("fill of %zu bytes at offset %zu", length, offset);
}

static void check_copy(size_t to, size_t from, size_t length)
{
	size_t span = to + length + GUARD_BYTES;

	assert(span <= sizeof(target));
	assert(from + length <= sizeof(source));
	memset(target, GUARD_BYTE, span);
	memset(wanted, GUARD_BYTE, span);
	memcpy(wanted + to, source + from, length);
	rmem_stream_copy(target + to, source + from, length);
	if (memcmp(target, wanted, span) != 0)
		ck_abort_msg("copy of %zu bytes from offset %zu to %zu", length, from, to);
}

START_TEST(fill_equals_memset_at_every_alignment_and_length)
{
	if (!select_version(_i))
		return;
	for (size_t offset = 0; offset < ALIGNMENTS; offset++) {
		for (size_t length = first_length(offset); length <= LENGTH_MAX; length += stride)
			check_fill(GUARD_BYTES + offset, length, (unsigned char)(length + offset));
	}
}
END_TEST

START_TEST(copy_equals_memcpy_at_every_alignment_and_length)
{
	if (!select_version(_i))
		return;
	for (size_t offset = 0; offset < ALIGNMENTS; offset++) {
		for (size_t length = first_length(offset); length <= LENGTH_MAX; length += stride) {
			check_copy(GUARD_BYTES + offset, offset * 11 % ALIGNMENTS, length);
			check_copy(GUARD_BYTES + offset, 0, length);
		}
	}
}
END_TEST

START_TEST(copy_equals_memcpy_for_every_pair_of_alignments)
{
	if (!select_version(_i))
		return;
	for (size_t to = 0; to < ALIGNMENTS; to++) {
		for (size_t from = 0; from < ALIGNMENTS; from++)
			check_copy(GUARD_BYTES + to, from, 777);
	}
}
END_TEST

START_TEST(whole_pages_are_filled_and_copied)
{
	if (!select_version(_i))
		return;
	for (size_t pages = 1; pages <= 4; pages++) {
		size_t length = pages * RMEM_PAGE_BYTES;

		check_fill(RMEM_PAGE_BYTES, length, 0);
		check_fill(RMEM_PAGE_BYTES, length, 0xff);
		check_copy(RMEM_PAGE_BYTES, RMEM_PAGE_BYTES, length);
		/* At each alignment for one page, and for several where there is time. */
		for (size_t offset = 0; offset < ALIGNMENTS && (pages == 1 || stride == 1);
		     offset++) {
			check_fill(RMEM_PAGE_BYTES + offset, length, 0x80);
			check_fill(RMEM_PAGE_BYTES + offset, length - offset, 0x7f);
			check_copy(RMEM_PAGE_BYTES + offset, ALIGNMENTS - 1 - offset, length);
			check_copy(RMEM_PAGE_BYTES, offset, length + offset);
		}
	}
}
END_TEST

START_TEST(neighbouring_regions_are_no_overlap)
{
	if (!select_version(_i))
		return;
	memcpy(target, source, sizeof(target));
	rmem_stream_copy(target + 1024, target, 1024);
	rmem_stream_copy(target + 2048, target + 3072, 1024);
	rmem_stream_copy(target, target, 0);
	ck_assert_int_eq(memcmp(target + 1024, source, 1024), 0);
	ck_assert_int_eq(memcmp(target + 2048, source + 3072, 1024), 0);
	ck_assert_int_eq(memcmp(target, source, 1024), 0);
}
END_TEST

START_TEST(overlap_with_the_source_in_front_is_refused)
{
	rmem_stream_copy(target + 999, target, 1000);
}
END_TEST

START_TEST(overlap_with_the_source_behind_is_refused)
{
	rmem_stream_copy(target, target + 999, 1000);
}
END_TEST

START_TEST(copy_onto_itself_is_refused)
{
	rmem_stream_copy(target, target, 1);
}
END_TEST

START_TEST(auto_takes_the_best_that_is_available)
{
	ck_assert_int_eq(rmem_stream_select(RMEM_STREAM_AUTO, NULL), 0);
	ck_assert_int_ne((int)rmem_stream_isa_selected(), RMEM_STREAM_AUTO);
	ck_assert(rmem_stream_isa_available(rmem_stream_isa_selected()));
	for (int isa = (int)rmem_stream_isa_selected() + 1; isa < RMEM_STREAM_ISAS; isa++)
		ck_assert(!rmem_stream_isa_available((enum rmem_stream_isa)isa));
}
END_TEST

START_TEST(a_refused_choice_leaves_the_old_one)
{
	ck_assert_int_eq(rmem_stream_select(RMEM_STREAM_OFF, NULL), 0);
	for (int isa = 0; isa < RMEM_STREAM_ISAS; isa++) {
		if (rmem_stream_isa_available((enum rmem_stream_isa)isa))
			continue;
		ck_assert_int_eq(rmem_stream_select((enum rmem_stream_isa)isa, NULL), -ENOTSUP);
	}
	ck_assert_int_eq((int)rmem_stream_isa_selected(), RMEM_STREAM_OFF);
}
END_TEST

START_TEST(before_any_choice_the_plain_version_stands_in)
{
	ck_assert_int_eq((int)rmem_stream_isa_selected(), RMEM_STREAM_OFF);
	check_fill(GUARD_BYTES, 1000, 3);
	check_copy(GUARD_BYTES, 0, 1000);
}
END_TEST

/* Where the CPU is known, as on an emulated one: the test must not pass by skipping what it is
 * there for. */
START_TEST(the_expected_version_is_the_best)
{
	const char *expected = getenv("RMEM_TEST_STREAM_BEST");

	if (expected == NULL)
		return;
	ck_assert_int_eq(rmem_stream_select(RMEM_STREAM_AUTO, NULL), 0);
	if (strcmp(rmem_stream_isa_name(rmem_stream_isa_selected()), expected) != 0)
		ck_abort_msg("the best version here is %s, and should be %s",
			     rmem_stream_isa_name(rmem_stream_isa_selected()), expected);
}
END_TEST

#if defined(__x86_64__)
START_TEST(every_64_bit_x86_has_sse2)
{
	ck_assert(rmem_stream_isa_available(RMEM_STREAM_SSE2));
}
END_TEST
#endif

#if !RMEM_STREAM_X86
static void (*const foreign_fills[])(void *, unsigned char, size_t) = {
	rmem_stream_fill_sse2, rmem_stream_fill_avx2, rmem_stream_fill_avx512};
static void (*const foreign_copies[])(void *, const void *, size_t) = {
	rmem_stream_copy_sse2, rmem_stream_copy_avx2, rmem_stream_copy_avx512};

START_TEST(a_fill_of_another_architecture_aborts)
{
	foreign_fills[_i](target, 0, 1);
}
END_TEST

START_TEST(a_copy_of_another_architecture_aborts)
{
	foreign_copies[_i](target, source, 1);
}
END_TEST
#endif

START_TEST(names_lead_back_to_the_version)
{
	enum rmem_stream_isa found;

	for (int isa = 0; isa < RMEM_STREAM_ISAS; isa++) {
		const char *name = rmem_stream_isa_name((enum rmem_stream_isa)isa);

		ck_assert_int_eq(rmem_stream_isa_from_name(name, &found), 0);
		ck_assert_int_eq((int)found, isa);
	}
	ck_assert_int_eq(rmem_stream_isa_from_name("avx", &found), -EINVAL);
	ck_assert_int_eq(rmem_stream_isa_from_name("", &found), -EINVAL);
}
END_TEST

int main(void)
{
	const char *stride_given = getenv("RMEM_TEST_STREAM_STRIDE");
	Suite *suite = suite_create("stream");
	TCase *each = tcase_create("each version"), *tc = tcase_create("choice");

	if (stride_given != NULL)
		stride = strtoul(stride_given, NULL, 10);
	assert(stride >= 1 && stride <= ALIGNMENTS);
	tcase_set_timeout(each, 60);
	tcase_add_loop_test(each, fill_equals_memset_at_every_alignment_and_length, 0,
			    RMEM_STREAM_ISAS);
	tcase_add_loop_test(each, copy_equals_memcpy_at_every_alignment_and_length, 0,
			    RMEM_STREAM_ISAS);
	tcase_add_loop_test(each, copy_equals_memcpy_for_every_pair_of_alignments, 0,
			    RMEM_STREAM_ISAS);
	tcase_add_loop_test(each, whole_pages_are_filled_and_copied, 0, RMEM_STREAM_ISAS);
	tcase_add_loop_test(each, neighbouring_regions_are_no_overlap, 0, RMEM_STREAM_ISAS);
	suite_add_tcase(suite, each);
	tcase_add_test_raise_signal(tc, overlap_with_the_source_in_front_is_refused, SIGABRT);
	tcase_add_test_raise_signal(tc, overlap_with_the_source_behind_is_refused, SIGABRT);
	tcase_add_test_raise_signal(tc, copy_onto_itself_is_refused, SIGABRT);
	tcase_add_test(tc, auto_takes_the_best_that_is_available);
	tcase_add_test(tc, a_refused_choice_leaves_the_old_one);
	tcase_add_test(tc, the_expected_version_is_the_best);
	tcase_add_test(tc, before_any_choice_the_plain_version_stands_in);
#if defined(__x86_64__)
	tcase_add_test(tc, every_64_bit_x86_has_sse2);
#endif
#if !RMEM_STREAM_X86
	tcase_add_loop_test_raise_signal(tc, a_fill_of_another_architecture_aborts, SIGABRT, 0, 3);
	tcase_add_loop_test_raise_signal(tc, a_copy_of_another_architecture_aborts, SIGABRT, 0, 3);
#endif
	tcase_add_test(tc, names_lead_back_to_the_version);
	suite_add_tcase(suite, tc);
	return run_suite(suite);
}
