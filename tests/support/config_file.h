/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files for a test case: a private folder, files in it, and what loading one says. */
#pragma once

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"

/* libconfig 1.5 leaks a string that it had read when it met a syntax error. A program
 * ends then; a test that loads bad files by the thousand is told not to mind. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libconfig.so\n";
}

struct config_folder {
	char path[64];
	char file[128]; /* of the last config_file() */
};

static inline void config_folder_init(struct config_folder *folder)
{
	strcpy(folder->path, "/tmp/rmemfs-config-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder->path));
}

static inline void config_folder_finish(struct config_folder *folder)
{
	DIR *stream = opendir(folder->path);
	struct dirent *entry;
	char path[512];

	ck_assert_ptr_nonnull(stream);
	while ((entry = readdir(stream)) != NULL) {
		snprintf(path, sizeof(path), "%s/%s", folder->path, entry->d_name);
		if (entry->d_name[0] != '.')
			remove(path);
	}
	closedir(stream);
	ck_assert_int_eq(rmdir(folder->path), 0);
}

/* Writes a file of `length` bytes into the folder and returns its path, which lives until the next
 * call. */
static inline const char *config_file_bytes(struct config_folder *folder, const char *name,
					    const char *bytes, size_t length)
{
	FILE *stream;

	snprintf(folder->file, sizeof(folder->file), "%s/%s", folder->path, name);
	stream = fopen(folder->file, "w");
	ck_assert_ptr_nonnull(stream);
	ck_assert_uint_eq(fwrite(bytes, 1, length, stream), length);
	ck_assert_int_eq(fclose(stream), 0);
	return folder->file;
}

static inline const char *config_file(struct config_folder *folder, const char *name,
				      const char *text)
{
	return config_file_bytes(folder, name, text, strlen(text));
}

/* The complaint `index`, without the folder that its file lies in. */
static inline const char *config_complaint(const struct config_folder *folder,
					   const struct conf_errors *errors, size_t index)
{
	size_t length = strlen(folder->path);
	const char *text;

	ck_assert_uint_lt(index, errors->kept);
	text = errors->list[index].text;
	if (strncmp(text, folder->path, length) == 0 && text[length] == '/')
		return text + length + 1;
	return text;
}
