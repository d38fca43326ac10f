/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of names, and whether arguments are within them. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/inode.h"
#include "fs/namespace.h"

#define NAMESPACE_LINKS_MAX  (1u << 30)
#define NAMESPACE_TARGET_MAX 4095u /* bytes, without the NUL */
/* Inode numbers are never used twice, so one generation does for all. */
#define NAMESPACE_GENERATION 1u

static inline bool namespace_is_dots(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static inline int namespace_check_name(const char *name)
{
	size_t length = strnlen(name, VOLUME_NAME_MAX + 1);

	if (length == 0)
		return -ENOENT;
	return length > VOLUME_NAME_MAX ? -ENAMETOOLONG : 0;
}

static inline int namespace_check_target(const char *target)
{
	size_t length = strnlen(target, NAMESPACE_TARGET_MAX + 1);

	if (length == 0)
		return -ENOENT;
	return length > NAMESPACE_TARGET_MAX ? -ENAMETOOLONG : 0;
}

/* inode->lock held: whether names can be added. */
static inline int namespace_check_parent(const struct inode *directory)
{
	if (!S_ISDIR(directory->attr.mode))
		return -ENOTDIR;
	return directory->attr.nlink == 0 ? -ESTALE : 0;
}

/* Takes inode->lock. */
static inline int namespace_check_directory(struct inode *inode)
{
	bool directory;

	pthread_mutex_lock(&inode->lock);
	directory = S_ISDIR(inode->attr.mode);
	pthread_mutex_unlock(&inode->lock);
	return directory ? 0 : -ENOTDIR;
}
