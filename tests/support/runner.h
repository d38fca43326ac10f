/* SPDX-License-Identifier: Apache-2.0 */
/* The main() of a unit test: runs a Check suite and speaks TAP, which meson counts case by case.
 * $TMPDIR is a folder of the program's own meanwhile: a case that fails leaves nothing behind. */
#pragma once

#include <check.h>
#include <stdlib.h>

#include "tests/support/folder.h"

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
/* LMDB is not built with the sanitizer: how it orders its map between threads is not seen.
 * Weak, since a program may be made of several files that include this. */
__attribute__((weak)) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "called_from_lib:liblmdb\n";
}
#endif

static inline int run_suite(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	char folder[200];
	int failed;

	folder_make(folder, sizeof(folder));
	setenv("TMPDIR", folder, 1);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	folder_remove(folder);
	return failed == 0 ? 0 : 1;
}
