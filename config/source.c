/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: files, includes, and the text that grows from them. The scanner is in scan.c. */
#include "config/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/scan.h"

/* Of includes in all: with the depth it bounds what files that include each other can cost. */
#define FILES_MAX 256

static int add_file(struct conf_source *source, const char *path, unsigned *file)
{
	char **files = realloc(source->files, (source->file_count + 1) * sizeof(*files));

	if (files == NULL)
		return -ENOMEM;
	source->files = files;
	files[source->file_count] = strdup(path);
	if (files[source->file_count] == NULL)
		return -ENOMEM;
	*file = source->file_count++;
	return 0;
}

/* Doubles what there is: the sum of all copies stays linear. */
static void *grow(void *array, size_t used, size_t item_bytes)
{
	if (used != 0 && (used < 64 || (used & (used - 1)) != 0))
		return array;
	return realloc(array, (used < 64 ? 64 : used * 2) * item_bytes);
}

void conf_scan_begin_line(struct conf_scan *scan)
{
	struct conf_source *source = scan->reader->source;
	struct conf_line *lines;

	if (scan->reader->failure != 0)
		return;
	lines = grow(source->lines, source->line_count, sizeof(*lines));
	if (lines == NULL) {
		scan->reader->failure = -ENOMEM;
		return;
	}
	source->lines = lines;
	lines[source->line_count++] = (struct conf_line){
		.file = scan->file, .number = scan->number, .start = source->length};
}

void conf_scan_put(struct conf_scan *scan, char c)
{
	struct conf_source *source = scan->reader->source;
	char *text;

	if (scan->reader->failure != 0)
		return;
	if (source->length == CONF_SOURCE_BYTES) {
		conf_scan_complain(scan, "the configuration is longer than %u bytes",
				   CONF_SOURCE_BYTES);
		source->cut = true;
		scan->reader->failure = -EFBIG;
		return;
	}
	text = grow(source->text, source->length, 1);
	if (text == NULL) {
		scan->reader->failure = -ENOMEM;
		return;
	}
	source->text = text;
	text[source->length++] = c;
	if (c == '\n') {
		scan->number++;
		conf_scan_begin_line(scan);
	}
}

static int read_all(int fd, char **text, size_t *length)
{
	char *buffer = malloc(CONF_SOURCE_BYTES + 2);
	size_t used = 0;
	ssize_t got = 1;
	int rc = 0;

	if (buffer == NULL)
		return -ENOMEM;
	while (rc == 0 && got != 0) {
		got = read(fd, buffer + used, CONF_SOURCE_BYTES + 1 - used);
		if (got < 0)
			rc = errno == EINTR ? 0 : -errno;
		else if ((used += (size_t)got) > CONF_SOURCE_BYTES)
			rc = -EFBIG;
	}
	if (rc != 0) {
		free(buffer);
		return rc;
	}
	buffer[used] = '\0';
	*text = buffer;
	*length = used;
	return 0;
}

/* Reads the file that `scan` is about; `text` ends with a NUL that its length doesn't count. */
static int open_input(struct conf_scan *scan, const char *path, char **text)
{
	struct stat status;
	int fd, rc;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -errno;
	rc = fstat(fd, &status) == 0 ? 0 : -errno;
	if (rc == 0 && S_ISDIR(status.st_mode))
		rc = -EISDIR;
	if (rc == 0)
		rc = read_all(fd, text, &scan->length);
	close(fd);
	if (rc != 0)
		return rc;
	scan->in = *text;
	scan->device = status.st_dev;
	scan->inode = status.st_ino;
	return 0;
}

/* `name` as seen from the folder of the file that includes it. Free it. */
static char *resolve(const char *from, const char *name)
{
	const char *slash = strrchr(from, '/');
	char *path;

	if (name[0] == '/' || slash == NULL)
		return strdup(name);
	if (asprintf(&path, "%.*s/%s", (int)(slash - from), from, name) < 0)
		return NULL;
	return path;
}

static bool includes_itself(const struct conf_scan *scan)
{
	for (const struct conf_scan *outer = scan->outer; outer != NULL; outer = outer->outer) {
		if (outer->device == scan->device && outer->inode == scan->inode)
			return true;
	}
	return false;
}

static void include_path(struct conf_scan *scan, const char *path)
{
	struct conf_scan inner = {
		.reader = scan->reader, .outer = scan, .depth = scan->depth + 1, .number = 1};
	struct conf_source *source = scan->reader->source;
	char *text = NULL;
	int rc = open_input(&inner, path, &text);

	if (rc != 0) {
		conf_scan_complain(scan, "cannot include %s: %s", path, strerror(-rc));
		source->dropped = true;
		goto out;
	}
	if (includes_itself(&inner)) {
		conf_scan_complain(scan, "cannot include %s: it is being read already", path);
		goto out;
	}
	rc = add_file(source, path, &inner.file);
	if (rc != 0) {
		scan->reader->failure = rc;
		goto out;
	}
	/* The include's own line stays, empty; the included text starts on the next one. */
	conf_scan_put(scan, '\n');
	scan->number--;
	if (scan->reader->failure == 0) {
		source->lines[source->line_count - 1] = (struct conf_line){
			.file = inner.file, .number = 1, .start = source->length};
		conf_scan_run(&inner);
	}
out:
	free(text);
}

void conf_scan_include(struct conf_scan *scan, const char *name)
{
	struct conf_source *source = scan->reader->source;
	char *path;

	if (scan->depth == CONF_INCLUDE_DEPTH || source->file_count == FILES_MAX) {
		conf_scan_complain(scan, "too many includes: %u within each other, %u in all",
				   CONF_INCLUDE_DEPTH, FILES_MAX);
		return;
	}
	path = resolve(source->files[scan->file], name);
	if (path == NULL) {
		scan->reader->failure = -ENOMEM;
		return;
	}
	include_path(scan, path);
	free(path);
	/* Whatever follows the directive belongs to the file that includes again. */
	if (scan->reader->failure == 0 &&
	    source->lines[source->line_count - 1].file != scan->file) {
		conf_scan_put(scan, '\n');
		scan->number--;
		if (scan->reader->failure == 0)
			source->lines[source->line_count - 1].number = scan->number;
	}
}

int conf_source_read(struct conf_source *source, const char *path, struct conf_errors *errors)
{
	struct conf_reader reader = {.source = source, .errors = errors};
	struct conf_scan scan = {.reader = &reader, .number = 1};
	char *text = NULL;
	int rc;

	*source = (struct conf_source){0};
	rc = open_input(&scan, path, &text);
	if (rc != 0) {
		conf_errors_add(errors, 0, "%s: cannot be read: %s", path, strerror(-rc));
		return rc;
	}
	rc = add_file(source, path, &scan.file);
	if (rc == 0) {
		conf_scan_begin_line(&scan);
		if (reader.failure == 0)
			conf_scan_run(&scan);
		conf_scan_put(&scan, '\0');
		rc = reader.failure == -EFBIG ? -EINVAL : reader.failure;
	}
	free(text);
	conf_reader_finish(&reader);
	if (rc == -ENOMEM)
		conf_errors_add(errors, 0, "%s: out of memory", path);
	return rc;
}

void conf_source_finish(struct conf_source *source)
{
	for (unsigned i = 0; i < source->file_count; i++)
		free(source->files[i]);
	free(source->files);
	free(source->lines);
	free(source->text);
	*source = (struct conf_source){0};
}

static const struct conf_line *line_at(const struct conf_source *source, size_t line)
{
	if (line < 1)
		line = 1;
	if (line > source->line_count)
		line = source->line_count;
	return &source->lines[line - 1];
}

const char *conf_source_file(const struct conf_source *source, size_t line)
{
	return source->files[line_at(source, line)->file];
}

unsigned conf_source_line(const struct conf_source *source, size_t line)
{
	return line_at(source, line)->number;
}
