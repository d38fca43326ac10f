/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/groups.h"

#include <grp.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/hint.h"
#include "tests/support/runner.h"

static bool have(const char *text, gid_t gid)
{
	FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	bool found = groups_in_status_have(file, gid);

	fclose(file);
	return found;
}

static const char usual[] = "Name:\tcat\nUmask:\t0022\nGid:\t7\t7\t7\t7\nFDSize:\t64\n"
			    "Groups:\t4 24 1000 4294967294 \nNStgid:\t9\n";

START_TEST(the_groups_of_the_line_are_found_and_no_others)
{
	static const gid_t in[] = {4, 24, 1000, 4294967294u};
	static const gid_t out[] = {0, 7, 9, 2, 100, 10, 22, 64, 294967294u, 4294967295u};

	for (size_t i = 0; i < RMEM_COUNT_OF(in); i++)
		ck_assert_msg(have(usual, in[i]), "group %u", in[i]);
	for (size_t i = 0; i < RMEM_COUNT_OF(out); i++)
		ck_assert_msg(!have(usual, out[i]), "group %u", out[i]);
}
END_TEST

START_TEST(a_line_without_groups_has_none)
{
	ck_assert(!have("Groups:\t \nNStgid:\t9\n", 0));
	ck_assert(!have("Groups:\t \nNStgid:\t9\n", 9));
	ck_assert(!have("Groups:", 0));
}
END_TEST

START_TEST(text_that_ends_early_is_no_harm)
{
	ck_assert(!have("G", 1));
	ck_assert(!have("Groups", 1));
	ck_assert(!have("NotGroups:\t1\n", 1));
	ck_assert(have("Groups:\t1 23", 23));
	ck_assert(have("Groups:\t1 23", 1));
	ck_assert(have("Name:\tGroups:\nGroups:\t5\n", 5));
}
END_TEST

START_TEST(numbers_that_no_group_has_are_nobodys)
{
	ck_assert(!have("Groups:\t4294967296 18446744073709551617\n", 0));
	ck_assert(!have("Groups:\t4294967296 18446744073709551617\n", 1));
}
END_TEST

/* 65,536 groups are allowed: half a megabyte. */
START_TEST(a_very_long_line_is_read_to_its_end)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	fputs("Groups:\t", out);
	for (unsigned gid = 1000000; gid < 1065536; gid++)
		fprintf(out, "%u ", gid);
	fputs("\n", out);
	fclose(out);
	ck_assert(have(text, 1000000));
	ck_assert(have(text, 1065535));
	ck_assert(!have(text, 1065536));
	free(text);
}
END_TEST

START_TEST(a_process_has_the_groups_it_has)
{
	gid_t groups[65536];
	int count = getgroups(65536, groups);

	for (int i = 0; i < count; i++)
		ck_assert(groups_of_process_have(getpid(), groups[i]));
	ck_assert(!groups_of_process_have(getpid(), 3999999999u));
	ck_assert(!groups_of_process_have(0, 0));
	ck_assert(!groups_of_process_have(-1, 0));
}
END_TEST

START_TEST(groups_that_a_process_takes_are_seen)
{
	gid_t groups[] = {31, 4000000000u};

	if (geteuid() != 0)
		return; /* only root may */
	ck_assert_int_eq(setgroups(2, groups), 0);
	ck_assert(groups_of_process_have(getpid(), 31));
	ck_assert(groups_of_process_have(getpid(), 4000000000u));
	ck_assert(!groups_of_process_have(getpid(), 3));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("groups");
	TCase *tcase = tcase_create("groups");

	tcase_add_test(tcase, the_groups_of_the_line_are_found_and_no_others);
	tcase_add_test(tcase, a_line_without_groups_has_none);
	tcase_add_test(tcase, text_that_ends_early_is_no_harm);
	tcase_add_test(tcase, numbers_that_no_group_has_are_nobodys);
	tcase_add_test(tcase, a_very_long_line_is_read_to_its_end);
	tcase_add_test(tcase, a_process_has_the_groups_it_has);
	tcase_add_test(tcase, groups_that_a_process_takes_are_seen);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
