/* SPDX-License-Identifier: Apache-2.0 */
/* Names: directories, links and what hangs on them. Each change is one store transaction: it
 * happened wholly or not at all, and memory follows only after the commit.
 *
 * Permissions are the kernel's business (default_permissions); what is checked here is structure.
 * All functions may be called by any thread; they block for store transactions. Returned inodes
 * carry a reference that is the caller's. `name` is NUL-terminated, 1..255 bytes, none of them '/'.
 *
 * Errors common to all: -EIO, -ENOSPC (the store is full), -ENOMEM, -ESTALE (a directory that was
 * removed), -ENOTDIR, -ENAMETOOLONG. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "fs/inode.h"

struct namespace_caller {
	uid_t uid;
	gid_t gid;
};

struct namespace_create {
	mode_t mode;  /* type and permissions */
	mode_t umask; /* to be taken from them, unless the parent has a default access list */
	dev_t rdev;
	const char *target; /* symbolic links */
	struct namespace_caller caller;
};

int namespace_lookup(struct volume *volume, struct inode *parent, const char *name,
		     struct inode **inode) RMEM_MUST_CHECK; /* -ENOENT; "." and ".." work */

/* Files, devices, fifos, sockets, directories and symbolic links, by mode. Set-group-id of the
 * parent is inherited. Errors: -EEXIST, -EMLINK. */
int namespace_create(struct volume *volume, struct inode *parent, const char *name,
		     const struct namespace_create *create, struct inode **inode) RMEM_MUST_CHECK;
int namespace_link(struct volume *volume, struct inode *inode, struct inode *parent,
		   const char *name) RMEM_MUST_CHECK; /* -EEXIST, -EMLINK, -EPERM (directory) */
int namespace_unlink(struct volume *volume, struct inode *parent,
		     const char *name) RMEM_MUST_CHECK; /* -ENOENT, -EISDIR */
int namespace_rmdir(struct volume *volume, struct inode *parent,
		    const char *name) RMEM_MUST_CHECK; /* -ENOENT, -ENOTDIR, -ENOTEMPTY */

/* `flags`: RENAME_NOREPLACE or RENAME_EXCHANGE or 0. Errors: -ENOENT, -EEXIST, -ENOTEMPTY, -EISDIR,
 * -ENOTDIR, -EINVAL (into itself, other flags), -EMLINK. */
struct namespace_rename {
	struct inode *old_parent, *new_parent;
	const char *old_name, *new_name;
	unsigned flags;
};
int namespace_rename(struct volume *volume, const struct namespace_rename *rename) RMEM_MUST_CHECK;

/* `target` has room for 4096 bytes with the NUL. -EINVAL: not a symbolic link. */
int namespace_readlink(struct volume *volume, struct inode *inode, char *target) RMEM_MUST_CHECK;

/* Mode, owner and times; the size goes through data_truncate(). `mask` says which of `attr` count;
 * changing the owner clears set-user-id and set-group-id of files. Updates ctime. Times alone stay
 * in memory until inode_flush(), so that what archivers do to each file costs no transaction. */
enum namespace_attr_mask {
	NAMESPACE_MODE = 1,
	NAMESPACE_UID = 2,
	NAMESPACE_GID = 4,
	NAMESPACE_ATIME = 8,
	NAMESPACE_MTIME = 16,
	NAMESPACE_CTIME = 32, /* else now */
};
int namespace_setattr(struct volume *volume, struct inode *inode, const struct inode_attr *attr,
		      unsigned mask) RMEM_MUST_CHECK;

/* The caller is about to answer -ESTALE: the kernel asked for an inode that lost its last name
 * since it was looked up. Files that lose theirs in the next second are there until the kernel
 * forgets them, so that it does better when it looks the name up again. No lock held; waits for a
 * change of names that is under way, which may have been decided before. */
void namespace_met_removed(struct volume *volume);

/* Access control lists are extended attributes with the names and form that the kernel uses. They
 * and the mode follow each other, and new children get what the default list of their directory
 * says.
 *
 * Extended attributes: names up to 255 bytes with a namespace prefix, values up to 64 KiB.
 * get and list return the size needed when `size` is 0 and -ERANGE when it is too small.
 * set: `flags` XATTR_CREATE, XATTR_REPLACE or 0. -ENODATA, -EEXIST, -E2BIG. */
ssize_t namespace_getxattr(struct volume *volume, struct inode *inode, const char *name,
			   void *value, size_t size) RMEM_MUST_CHECK;
ssize_t namespace_listxattr(struct volume *volume, struct inode *inode, char *names,
			    size_t size) RMEM_MUST_CHECK;
struct namespace_xattr {
	const char *name;
	const void *value;
	size_t size;
	int flags;
	bool drop_setgid; /* access lists: the caller is not in the group: clear set-group-id */
};
int namespace_setxattr(struct volume *volume, struct inode *inode,
		       const struct namespace_xattr *xattr) RMEM_MUST_CHECK;
int namespace_removexattr(struct volume *volume, struct inode *inode,
			  const char *name) RMEM_MUST_CHECK;

/* An open directory: a snapshot of its entries, taken at offset 0 (again after a rewind), so that
 * an offset means the same entry for as long as the directory is open, whatever is created or
 * removed meanwhile. "." and ".." come first. */
struct namespace_dir;
struct namespace_entry {
	const char *name;
	uint64_t ino;
	uint32_t type; /* DT_... */
	uint64_t next; /* offset of the entry after this one */
};
int namespace_opendir(struct volume *volume, struct inode *inode,
		      struct namespace_dir **dir) RMEM_MUST_CHECK;
void namespace_closedir(struct namespace_dir *dir);
/* 1 and the entry at `offset` (0 the first); 0 at the end. Pointers live until the next rewind or
 * close. One thread at a time per directory. */
int namespace_readdir(struct namespace_dir *dir, uint64_t offset,
		      struct namespace_entry *entry) RMEM_MUST_CHECK;
