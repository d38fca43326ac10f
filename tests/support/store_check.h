/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the checker is content with a store that nobody has open. */
#pragma once

#include <check.h>
#include <stdio.h>

#include "fs/check.h"

static void store_check_report(void *user, const struct check_finding *finding)
{
	(void)user;
	if (finding->severity != CHECK_NOTE)
		fprintf(stderr, "%s: %s\n", check_severity_name(finding->severity), finding->text);
}

static inline void store_check_clean(const char *url)
{
	struct store_options options = {.url = url, .read_only = true, .map_bytes = 256u << 20};
	struct check_options check = {.report = store_check_report};
	struct check_result result;
	struct rmem_error error = {0};

	ck_assert_msg(store_open(&options, &check.store, &error) == 0, "%s", error.text);
	ck_assert_int_eq(check_run(&check, &result), 0);
	store_close(check.store);
	ck_assert(check_is_clean(&result));
}
