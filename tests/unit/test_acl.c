/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/acl.h"
#include "tests/support/runner.h"

#define OWNER(p)                                                                                   \
	{                                                                                          \
		.tag = ACL_USER_OBJ, .perm = (p)                                                   \
	}
#define USER(i, p)                                                                                 \
	{                                                                                          \
		.tag = ACL_USER, .id = (i), .perm = (p)                                            \
	}
#define GROUP(p)                                                                                   \
	{                                                                                          \
		.tag = ACL_GROUP_OBJ, .perm = (p)                                                  \
	}
#define NAMED(i, p)                                                                                \
	{                                                                                          \
		.tag = ACL_GROUP, .id = (i), .perm = (p)                                           \
	}
#define MASK(p)                                                                                    \
	{                                                                                          \
		.tag = ACL_MASK, .perm = (p)                                                       \
	}
#define OTHER(p)                                                                                   \
	{                                                                                          \
		.tag = ACL_OTHER, .perm = (p)                                                      \
	}
#define ACL(...)                                                                                   \
	{                                                                                          \
		.count = sizeof((struct acl_entry[]){__VA_ARGS__}) / sizeof(struct acl_entry),     \
		.entries = {                                                                       \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}

static const struct acl minimal = ACL(OWNER(6), GROUP(4), OTHER(0));
static const struct acl extended =
	ACL(OWNER(7), USER(10, 6), USER(11, 5), GROUP(5), NAMED(20, 7), MASK(6), OTHER(1));

static int round_trip(const struct acl *acl, struct acl *found)
{
	uint8_t bytes[ACL_BYTES_MAX];

	return acl_decode(acl_encode(acl, bytes), found);
}

START_TEST(a_list_comes_back_as_it_was_stored)
{
	struct acl found;

	ck_assert_int_eq(round_trip(&minimal, &found), 0);
	ck_assert_uint_eq(found.count, 3);
	ck_assert_int_eq(round_trip(&extended, &found), 0);
	ck_assert_uint_eq(found.count, 7);
	ck_assert_uint_eq(found.entries[2].id, 11);
	ck_assert_uint_eq(found.entries[2].perm, 5);
	ck_assert_uint_eq(found.entries[4].tag, ACL_GROUP);
	ck_assert_int_eq(round_trip(&(struct acl){.count = 0}, &found), 0);
	ck_assert_uint_eq(found.count, 0);
}
END_TEST

START_TEST(lists_that_make_no_sense_are_refused)
{
	static const struct acl wrong[] = {
		ACL(OWNER(6), GROUP(4)),			     /* others missing */
		ACL(GROUP(4), OTHER(4)),			     /* no owner */
		ACL(OWNER(6), OTHER(4)),			     /* no group */
		ACL(OWNER(6), OWNER(6), GROUP(4), OTHER(4)),	     /* two owners */
		ACL(GROUP(4), OWNER(6), OTHER(4)),		     /* order */
		ACL(OWNER(6), USER(10, 4), GROUP(4), OTHER(4)),	     /* no mask */
		ACL(OWNER(6), GROUP(4), NAMED(10, 4), OTHER(4)),     /* no mask */
		ACL(OWNER(6), GROUP(4), MASK(4), MASK(4), OTHER(4)), /* two masks */
		ACL(OWNER(8), GROUP(4), OTHER(4)),		     /* no such right */
		ACL(OWNER(6), {.tag = 3}, GROUP(4), OTHER(4)),	     /* no such tag */
		ACL({.tag = 0}, OWNER(6), GROUP(4), OTHER(4)),	     /* no such tag */
		ACL(OWNER(6), GROUP(4), OTHER(4), {.tag = 64}),	     /* no such tag */
		ACL(OWNER(6), USER(UINT32_MAX, 4), GROUP(4), MASK(7), OTHER(4)), /* nobody */
	};

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct acl found;

		ck_assert_msg(round_trip(&wrong[i], &found) == -EINVAL, "list %u", i);
	}
}
END_TEST

START_TEST(bytes_that_are_no_list_are_refused)
{
	uint8_t bytes[ACL_BYTES_MAX + 8] = {0};
	struct store_slice good = acl_encode(&extended, bytes), cut = good;
	struct acl found;

	for (cut.size = 0; cut.size < good.size; cut.size++) {
		/* Only the empty list is whole without its tail. */
		ck_assert_int_eq(acl_decode(cut, &found), cut.size == 4 ? 0 : -EINVAL);
	}
	bytes[0] = 3;
	ck_assert_int_eq(acl_decode(good, &found), -EINVAL);
	bytes[0] = 2;
	ck_assert_int_eq(
		acl_decode((struct store_slice){.data = bytes, .size = ACL_BYTES_MAX + 8}, &found),
		-E2BIG);
	srandom(1);
	for (int turn = 0; turn < 20000; turn++) {
		for (unsigned i = 4; i < 60; i++)
			bytes[i] = (uint8_t)(random() % 40);
		if (acl_decode((struct store_slice){.data = bytes, .size = 4 + 8 * (turn % 7)},
			       &found) == 0 &&
		    found.count > 0)
			ck_assert_uint_le(acl_to_mode(&found, 0), 0777);
	}
}
END_TEST

START_TEST(a_mode_shows_owner_mask_and_others)
{
	ck_assert_uint_eq(acl_to_mode(&minimal, 0104000), 0104640);
	ck_assert_uint_eq(acl_to_mode(&extended, 0100777), 0100761);
	ck_assert(!acl_is_extended(&minimal));
	ck_assert(acl_is_extended(&extended));
}
END_TEST

START_TEST(chmod_sets_owner_mask_and_others)
{
	struct acl acl = extended;

	acl_chmod(&acl, 0520);
	ck_assert_uint_eq(acl_to_mode(&acl, 0), 0520);
	ck_assert_uint_eq(acl.entries[5].perm, 2); /* the mask */
	ck_assert_uint_eq(acl.entries[3].perm, 5); /* not the owning group */
	acl = minimal;
	acl_chmod(&acl, 0123);
	ck_assert_uint_eq(acl.entries[1].perm, 2);
	ck_assert_uint_eq(acl_to_mode(&acl, 0), 0123);
}
END_TEST

START_TEST(children_get_what_the_default_list_and_their_creator_allow)
{
	struct acl acl = extended;
	mode_t mode = 0100666;

	acl_inherit(&acl, &mode);
	ck_assert_uint_eq(mode, 0100660);
	ck_assert_uint_eq(acl.entries[0].perm, 6); /* owner: rwx & rw- */
	ck_assert_uint_eq(acl.entries[5].perm, 6); /* mask: rw- & rw- */
	ck_assert_uint_eq(acl.entries[6].perm, 0); /* others: --x & rw- */
	ck_assert_uint_eq(acl.entries[1].perm, 6); /* named ones stay */
	mode = 042777;
	acl = minimal;
	acl_inherit(&acl, &mode);
	ck_assert_uint_eq(mode, 042640);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("acl");
	TCase *cases = tcase_create("acl");

	tcase_add_test(cases, a_list_comes_back_as_it_was_stored);
	tcase_add_test(cases, lists_that_make_no_sense_are_refused);
	tcase_add_test(cases, bytes_that_are_no_list_are_refused);
	tcase_add_test(cases, a_mode_shows_owner_mask_and_others);
	tcase_add_test(cases, chmod_sets_owner_mask_and_others);
	tcase_add_test(cases, children_get_what_the_default_list_and_their_creator_allow);
	suite_add_tcase(suite, cases);
	return run_suite(suite);
}
