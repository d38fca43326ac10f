/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of one's own for a test program, removed with all that is in it. */
#pragma once

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

static inline int folder_remove_entry(const char *path, const struct stat *st, int type,
				      struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	return remove(path);
}

static inline void folder_remove(const char *path)
{
	(void)nftw(path, folder_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Where syncs cost nothing, if there is room. */
static inline const char *folder_base(void)
{
	const char *base = getenv("TMPDIR");
	struct statvfs fs;

	if (base != NULL)
		return base;
	if (access("/dev/shm", W_OK) == 0 && statvfs("/dev/shm", &fs) == 0 &&
	    fs.f_bavail * fs.f_frsize >= 1ull << 30)
		return "/dev/shm";
	return "/tmp";
}

/* `path` gets the name of a new folder. */
static inline void folder_make(char *path, size_t size)
{
	snprintf(path, size, "%s/rmemfs-test-XXXXXX", folder_base());
	if (mkdtemp(path) == NULL) {
		perror(path);
		exit(1);
	}
}
