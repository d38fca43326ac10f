/* SPDX-License-Identifier: Apache-2.0 */
/* Which setting a statement is about: the scanner's way down the groups, for complaints and to
 * notice a second statement about one setting. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/scan.h"
#include "engine/base/checked.h"

void conf_reader_name(struct conf_reader *reader, const char *name, size_t length)
{
	size_t start = 0;

	if (reader->group_depth > CONF_SCAN_GROUPS)
		return;
	if (reader->group_depth > 0)
		start = reader->group_ends[reader->group_depth - 1];
	length = rmem_min_u64(length, sizeof(reader->key) - start);
	memcpy(reader->key + start, name, length);
	reader->key_length = start + length;
}

void conf_reader_enter(struct conf_reader *reader)
{
	if (reader->group_depth++ >= CONF_SCAN_GROUPS)
		return;
	if (reader->key_length < sizeof(reader->key))
		reader->key[reader->key_length++] = '.';
	reader->group_ends[reader->group_depth - 1] = reader->key_length;
}

void conf_reader_leave(struct conf_reader *reader)
{
	if (reader->group_depth == 0)
		return;
	if (--reader->group_depth < CONF_SCAN_GROUPS) {
		reader->key_length = reader->group_ends[reader->group_depth];
		if (reader->key_length > 0)
			reader->key_length--; /* the dot */
	}
}

const struct conf_seen *conf_reader_seen(struct conf_reader *reader)
{
	struct conf_seen *next = &reader->seen[reader->seen_count];

	if (reader->list_depth > 0 || reader->group_depth > CONF_SCAN_GROUPS)
		return NULL;
	for (unsigned i = 0; i < reader->seen_count; i++) {
		const char *key = reader->seen[i].key;

		if (strncmp(key, reader->key, reader->key_length) == 0 &&
		    key[reader->key_length] == '\0')
			return &reader->seen[i];
	}
	if (reader->seen_count == CONF_SCAN_SEEN)
		return NULL;
	next->line = reader->source->line_count;
	next->key = strndup(reader->key, reader->key_length);
	if (next->key == NULL)
		reader->failure = -ENOMEM;
	else
		reader->seen_count++;
	return NULL;
}

void conf_reader_finish(struct conf_reader *reader)
{
	for (unsigned i = 0; i < reader->seen_count; i++)
		free(reader->seen[i].key);
	reader->seen_count = 0;
}

void conf_scan_complain(struct conf_scan *scan, const char *format, ...)
{
	struct conf_source *source = scan->reader->source;
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	source->lines[source->line_count - 1].reported = true;
	conf_errors_add(scan->reader->errors, source->line_count, "%s:%u: %s",
			source->files[scan->file], scan->number, text);
}
