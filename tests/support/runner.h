/* SPDX-License-Identifier: Apache-2.0 */
/* The main() of a unit test: runs a Check suite and speaks TAP, which meson counts case by case. */
#pragma once

#include <check.h>

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
/* LMDB is not built with the sanitizer: how it orders its map between threads is not seen. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "called_from_lib:liblmdb\n";
}
#endif

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
