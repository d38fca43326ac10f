/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of the slow path: a code for the program and a sentence for the person.
 *
 * Functions that can fail in a way somebody has to act on take a `struct rmem_error *` last.
 * The function that finds the fault fills it in (what failed, on what, why, what to do) and
 * returns the code; everything above passes it on; main() or the control thread prints it once. */
#pragma once

#include "engine/base/hint.h"

struct rmem_error {
	int code; /* negative errno, 0 when unset */
	char text[1020];
};

/* Fills `error` (which may be NULL) and returns -code. `code` is a positive errno. */
int rmem_fail(struct rmem_error *error, int code, const char *format, ...) RMEM_PRINTF(3, 4);

/* Puts "prefix: " before the text that is there. Returns error->code, or `code` when NULL. */
int rmem_fail_prefix(struct rmem_error *error, int code, const char *format, ...)
	RMEM_PRINTF(3, 4);
