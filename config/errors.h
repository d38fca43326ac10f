/* SPDX-License-Identifier: Apache-2.0 */
/* A list of complaints: a file is checked to its end, and everything wrong with it is told.
 *
 * Belongs to one thread. The texts are kept in the order of their `order` once sorted, which is
 * the line order for a file. At most CONF_ERRORS_MAX are kept; the rest is counted. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "engine/base/hint.h"

#define CONF_ERRORS_MAX 100

struct conf_complaint {
	size_t order;
	char *text;
};

struct conf_errors {
	size_t count; /* found in all */
	size_t kept;  /* of them in `list` */
	struct conf_complaint list[CONF_ERRORS_MAX];
};

/* On the caller's memory; finish frees the texts and leaves an empty list. */
void conf_errors_init(struct conf_errors *errors);
void conf_errors_finish(struct conf_errors *errors);

/* Adds a complaint that belongs at `order`. The text is copied, with question marks for
 * control characters; one that memory does not suffice for is counted, so that a list with
 * complaints never looks empty. */
void conf_errors_add(struct conf_errors *errors, size_t order, const char *format, ...)
	RMEM_PRINTF(3, 4);

/* Sorts the complaints from `first` on by their order; equal ones stay as they were added. */
void conf_errors_sort(struct conf_errors *errors, size_t first);

/* One line per complaint, each after "PREFIX: ", and one that counts those not kept. */
void conf_errors_print(const struct conf_errors *errors, const char *prefix, FILE *stream);
