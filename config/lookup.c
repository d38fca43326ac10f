/* SPDX-License-Identifier: Apache-2.0 */
/* Finding keys in the schema: exactly, and by likeness. */
#include "config/schema.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/checked.h"
#include "engine/base/hint.h"

static const char *const program_names[] = {"rmemfs", "rmemd", "rmemctl", "rmem-bench"};

const struct conf_key *conf_key_find(const char *name)
{
	for (size_t i = 0; i < conf_schema_count; i++) {
		if (strcmp(conf_schema[i].name, name) == 0)
			return &conf_schema[i];
	}
	return NULL;
}

bool conf_group_exists(const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < conf_schema_count; i++) {
		if (strncmp(conf_schema[i].name, name, length) == 0 &&
		    conf_schema[i].name[length] == '.')
			return true;
	}
	return false;
}

/* Longer words than any key are not near one: their ends may be cut off. */
#define WORD_MAX 64

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	unsigned ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (the optimal
 * string alignment distance). Both at most WORD_MAX long. */
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	unsigned before[WORD_MAX + 1], last[WORD_MAX + 1], row[WORD_MAX + 1];

	for (unsigned j = 0; j <= b_length; j++)
		last[j] = j;
	memcpy(before, last, sizeof(before[0]) * (b_length + 1));
	for (unsigned i = 1; i <= a_length; i++) {
		row[0] = i;
		for (unsigned j = 1; j <= b_length; j++) {
			unsigned differ = a[i - 1] != b[j - 1];

			row[j] = least(last[j] + 1, row[j - 1] + 1, last[j - 1] + differ);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], before[j - 2] + 1, row[j]);
		}
		memcpy(before, last, sizeof(before[0]) * (b_length + 1));
		memcpy(last, row, sizeof(last[0]) * (b_length + 1));
	}
	return last[b_length];
}

static const char *leaf_of(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot != NULL ? dot + 1 : name;
}

/* A word that is right but in the wrong group is as near as one wrong letter. */
static unsigned key_distance(const char *name, const char *key)
{
	unsigned whole = distance(name, strlen(name), key, strlen(key));

	if (whole > 1 && strcmp(leaf_of(name), leaf_of(key)) == 0)
		return 1;
	return whole;
}

struct conf_nearest conf_nearest_key(const char *given)
{
	char name[WORD_MAX + 1];
	size_t length = strnlen(given, WORD_MAX);
	/* A third of the letters may be wrong, or two of a short word, but not all. */
	unsigned best = (unsigned)rmem_min_u64(rmem_max_u64(length / 3, 2) + 1, length);
	struct conf_nearest nearest = {NULL, 0};
	bool dotted = memchr(given, '.', length) != NULL;

	memcpy(name, given, length);
	name[length] = '\0';
	for (size_t i = 0; i < conf_schema_count; i++) {
		const char *key = conf_schema[i].name;
		const char *dot = strchr(key, '.');
		unsigned far;

		if (dot != NULL && !dotted) {
			far = distance(name, length, key, (size_t)(dot - key));
			if (far < best && far > 0) {
				best = far;
				nearest = (struct conf_nearest){key, (size_t)(dot - key)};
			}
		}
		far = key_distance(name, key);
		if (far < best) {
			best = far;
			nearest = (struct conf_nearest){key, strlen(key)};
		}
	}
	return nearest;
}

const char *conf_program_name(enum conf_program program)
{
	return program_names[__builtin_ctz(program)];
}

void conf_programs_text(unsigned programs, char *text, size_t size)
{
	size_t used = 0;

	if (programs == (1u << RMEM_COUNT_OF(program_names)) - 1) {
		snprintf(text, size, "all programs");
		return;
	}
	text[0] = '\0';
	for (unsigned i = 0; i < RMEM_COUNT_OF(program_names); i++) {
		if ((programs & (1u << i)) == 0 || used >= size)
			continue;
		used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "",
					 program_names[i]);
	}
}
