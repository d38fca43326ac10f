/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/folder.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	return remove(path);
}

void folder_remove(const char *path)
{
	(void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Where syncs cost nothing, if there is room. */
static const char *base_folder(void)
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

void folder_make(char *path, size_t size)
{
	snprintf(path, size, "%s/rmemfs-test-XXXXXX", base_folder());
	if (mkdtemp(path) == NULL) {
		perror(path);
		exit(1);
	}
}
