/* SPDX-License-Identifier: Apache-2.0 */
/* Values: from text to what is kept, checked against the schema, and back.
 *
 * Sizes are whole numbers with B, KiB, MiB, GiB or TiB (or K, M, G, T for the same), or plain
 * bytes. KB, MB and the like are refused: half the world means 1000 by them and half 1024.
 * Durations are whole numbers with us, ms, s, min or h; only 0 goes without. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "config/schema.h"
#include "engine/base/error.h"

struct conf_value {
	uint64_t number; /* bool, count, bytes, microseconds, mode, index of a word */
	char *text;	 /* path and URL */
	char **items;	 /* URL list */
	size_t count;
};

void conf_value_finish(struct conf_value *value);

/* Parse `text` for a key that is not a list. -EINVAL with "found this, allowed is that" in the
 * error, -ENOMEM; then `value` is as it was. Otherwise its old content is freed. */
RMEM_MUST_CHECK int conf_value_parse(const struct conf_key *key, const char *text,
				     struct conf_value *value, struct rmem_error *error);

/* The same from a number, which is taken in the unit that is kept. A duration can only be 0. */
RMEM_MUST_CHECK int conf_value_from_number(const struct conf_key *key, int64_t number,
					   struct conf_value *value, struct rmem_error *error);

/* Adds one item to a list. -EINVAL also when it is there already or the list is full. */
RMEM_MUST_CHECK int conf_value_add(const struct conf_key *key, const char *text,
				   struct conf_value *value, struct rmem_error *error);

/* "a size from 4KiB to 64MiB, a multiple of 4KiB" */
void conf_allowed_text(const struct conf_key *key, char *text, size_t size);

/* A number of this key as it would be written: "64KiB", "50us", "0600", "adaptive". */
void conf_number_text(const struct conf_key *key, uint64_t number, char *text, size_t size);
