/* SPDX-License-Identifier: Apache-2.0 */
/* The main() of a unit test: runs a Check suite and speaks TAP, which meson counts case by case. */
#pragma once

#include <check.h>

static inline int run_suite(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
