/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/check_parts.h"

const char *check_severity_name(enum check_severity severity)
{
	static const char *const names[CHECK_SEVERITIES] = {"note", "leak", "wrong", "serious"};

	return names[severity];
}

/* --- Tools ------------------------------------------------------------------------------------ */

int check_grow(void **array, size_t *room, size_t count, size_t size)
{
	size_t larger = *room == 0 ? 64 : *room * 2;
	void *moved;

	if (count < *room)
		return 0;
	moved = reallocarray(*array, larger, size);
	if (moved == NULL)
		return -ENOMEM;
	*array = moved;
	*room = larger;
	return 0;
}

void check_report_finding(struct check *check, const struct check_finding *finding)
{
	check->result->findings[finding->severity]++;
	if (check->options->report != NULL)
		check->options->report(check->options->user, finding);
}

void check_report(struct check *check, enum check_severity severity, bool repairable,
		  const char *format, ...)
{
	char text[512];
	struct check_finding finding = {
		.severity = severity,
		.repairable = repairable,
		.text = text,
	};
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	check_report_finding(check, &finding);
}

static uint64_t number_at(const uint8_t *bytes)
{
	uint64_t value = 0;

	for (int i = 0; i < 8; i++)
		value = value << 8 | bytes[i];
	return value;
}

const char *check_name_text(struct store_slice name, char text[CHECK_NAME_TEXT])
{
	const char *bytes = name.data;
	size_t length = name.size < 64 ? name.size : 64;

	for (size_t i = 0; i < length; i++) {
		text[i] = bytes[i];
		if (bytes[i] < ' ' || bytes[i] > '~')
			text[i] = '?';
	}
	snprintf(text + length, CHECK_NAME_TEXT - length, "%s", name.size > 64 ? "..." : "");
	return text;
}

const char *check_key_text(struct store_slice key, char text[CHECK_KEY_TEXT])
{
	const uint8_t *bytes = key.data;
	char name[CHECK_NAME_TEXT];
	struct store_slice rest;
	size_t at = 1;
	int used;

	if (key.size == 0)
		return "(empty)";
	used = snprintf(text, CHECK_KEY_TEXT, "%c",
			bytes[0] >= 32 && bytes[0] < 127 ? bytes[0] : '?');
	if (key.size >= 9) {
		used += snprintf(text + used, CHECK_KEY_TEXT - (size_t)used, " %" PRIu64,
				 number_at(bytes + 1));
		at = 9;
	}
	rest = (struct store_slice){.data = bytes + at, .size = key.size - at};
	if (rest.size == 8 && bytes[0] != RECORD_DIRENT && bytes[0] != RECORD_XATTR)
		snprintf(text + used, CHECK_KEY_TEXT - (size_t)used, " %" PRIu64,
			 number_at(rest.data));
	else if (rest.size > 0)
		snprintf(text + used, CHECK_KEY_TEXT - (size_t)used, " \"%s\"",
			 check_name_text(rest, name));
	return text;
}

void check_fix_add(struct check *check, enum check_fix_kind kind, uint64_t number, uint64_t second)
{
	void *fixes = check->fixes;
	int error = check_grow(&fixes, &check->fix_room, check->fix_count, sizeof(*check->fixes));

	check->fixes = fixes;
	if (error != 0) {
		check->error = error;
		return;
	}
	check->fixes[check->fix_count++] =
		(struct check_fix){.kind = kind, .number = number, .second = second};
}

void check_fix_key(struct check *check, enum check_fix_kind kind, struct store_slice key,
		   uint64_t number, uint64_t second)
{
	struct check_fix *fix;

	if (key.size > sizeof(fix->key.bytes))
		return; /* nothing of ours */
	check_fix_add(check, kind, number, second);
	if (check->error != 0)
		return;
	fix = &check->fixes[check->fix_count - 1];
	memcpy(fix->key.bytes, key.data, key.size);
	fix->key_size = key.size;
}

struct check_inode *check_inode_find(struct check *check, uint64_t ino)
{
	size_t low = 0, high = check->inode_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (check->inodes[middle].ino < ino)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == check->inode_count || check->inodes[low].ino != ino)
		return NULL;
	return &check->inodes[low];
}

int check_scan(struct check *check, enum record_kind kind, store_visit *visit)
{
	struct record_key prefix;
	int error = store_scan(check->txn, record_key_kind(&prefix, kind), (struct store_slice){0},
			       visit, check);

	return error != 0 ? error : check->error;
}

/* --- Inodes ----------------------------------------------------------------------------------- */

static int visit_inode(void *user, struct store_slice key, struct store_slice value)
{
	struct check *check = user;
	struct inode_attr attr;
	char text[CHECK_KEY_TEXT];
	void *inodes = check->inodes;
	uint64_t ino;
	int error;

	if (record_parse_number(key, RECORD_INODE, &ino) != 0 ||
	    record_decode_inode(value, &attr) != 0) {
		check_report(check, CHECK_SERIOUS, false, "record %s cannot be read",
			     check_key_text(key, text));
		return 0;
	}
	error = check_grow(&inodes, &check->inode_room, check->inode_count, sizeof(*check->inodes));
	check->inodes = inodes;
	if (error != 0)
		return error;
	check->inodes[check->inode_count++] = (struct check_inode){
		.ino = ino,
		.mode = attr.mode,
		.nlink = attr.nlink,
		.xattr_count = attr.xattr_count,
		.size = attr.size,
		.pages = attr.pages,
		.parent = attr.parent,
	};
	return 0;
}

static int check_numbers(struct check *check)
{
	uint64_t next = 0, last = check->inodes[check->inode_count - 1].ino;
	struct record_key key;
	struct store_slice value;
	int error = store_get(check->txn, record_key_kind(&key, RECORD_NUMBERS), &value);

	if (error == 0)
		error = record_decode_number(value, RECORD_NUMBERS, &next);
	else if (error != -ENOENT)
		return error;
	if (error == 0 && next > last)
		return 0;
	check_report(check, CHECK_SERIOUS, true,
		     "the next inode number is %" PRIu64 ", but inode %" PRIu64
		     " exists: new files could take its place",
		     next, last);
	check_fix_add(check, FIX_NUMBERS, last + 1, 0);
	return check->error;
}

static int check_inodes(struct check *check)
{
	struct check_inode *root;
	int error = check_scan(check, RECORD_INODE, visit_inode);

	if (error != 0)
		return error;
	check->result->inodes = check->inode_count;
	root = check_inode_find(check, INODE_ROOT);
	if (root == NULL || !S_ISDIR(root->mode)) {
		check_report(check, CHECK_SERIOUS, false, "there is no root directory");
		return -EIO;
	}
	return check_numbers(check);
}

/* --- All -------------------------------------------------------------------------------------- */

static int check_volume(struct check *check)
{
	struct record_key key;
	struct store_slice value;
	int error = store_get(check->txn, record_key_kind(&key, RECORD_VOLUME), &value);

	return error != 0 ? error : record_decode_volume(value, &check->volume);
}

static int visit_foreign(void *user, struct store_slice key, struct store_slice value)
{
	static const enum record_kind kinds[] = {
		RECORD_BITMAP,	RECORD_CHUNK,  RECORD_DIRENT,  RECORD_INODE,
		RECORD_SYMLINK, RECORD_MOUNT,  RECORD_NUMBERS, RECORD_ORPHAN,
		RECORD_SERVER,	RECORD_VOLUME, RECORD_XATTR,
	};
	struct check *check = user;
	char text[CHECK_KEY_TEXT];

	(void)value;
	for (size_t i = 0; i < RMEM_COUNT_OF(kinds) && key.size > 0; i++) {
		bool single = kinds[i] == RECORD_VOLUME || kinds[i] == RECORD_NUMBERS;

		if (*(const char *)key.data == (char)kinds[i] && single == (key.size == 1))
			return 0;
	}
	check_report(check, CHECK_WRONG, false, "record %s is of an unknown kind",
		     check_key_text(key, text));
	return 0;
}

int check_round(struct check *check)
{
	int error = store_begin(check->options->store, STORE_READ, &check->txn);

	if (error != 0)
		return error;
	error = check_volume(check);
	if (error == 0)
		error = check_inodes(check);
	if (error == 0)
		error = check_names(check);
	if (error == 0)
		error = check_sessions(check);
	if (error == 0)
		error = check_space(check);
	if (error == 0)
		error = check_losses(check);
	if (error == 0)
		error = check_counts(check);
	if (error == 0)
		error = store_scan(check->txn, (struct store_slice){0}, (struct store_slice){0},
				   visit_foreign, check);
	store_abort(check->txn);
	return error != 0 ? error : check->error;
}

void check_finish(struct check *check)
{
	for (size_t i = 0; i < check->region_count; i++)
		free(check->regions[i].used);
	free(check->regions);
	check_losses_finish(check);
	free(check->inodes);
	free(check->sessions);
	free(check->fixes);
}

int check_run(const struct check_options *options, struct check_result *result)
{
	struct check check = {.options = options, .result = result};
	int error;

	*result = (struct check_result){0};
	error = check_round(&check);
	if (error == 0)
		check_note_sessions(&check);
	check_finish(&check);
	return error;
}
