/* SPDX-License-Identifier: Apache-2.0 */
/* Access control lists of inodes, for the files of namespace. All of it happens in transactions of
 * theirs, with the inode's lock held. */
#pragma once

#include "fs/acl.h"
#include "fs/inode.h"

bool namespace_acl_is_name(const char *xattr_name);

/* -ENOENT: there is none. -EIO. */
int namespace_acl_get(struct store_txn *txn, uint64_t ino, const char *name,
		      struct acl *acl) RMEM_MUST_CHECK;

/* Stores a list, which may be empty: then there is none any more. An access list changes the mode
 * in `attr`, and is not kept when the mode says it all. Errors: -EACCES (a default list of
 * something else than a directory), -EOPNOTSUPP (of a symbolic link), -ENOSPC, -EIO. */
int namespace_acl_set(struct store_txn *txn, uint64_t ino, const char *name, const struct acl *acl,
		      struct inode_attr *attr) RMEM_MUST_CHECK;

/* After a chmod to attr->mode. */
int namespace_acl_follow_mode(struct store_txn *txn, uint64_t ino,
			      const struct inode_attr *attr) RMEM_MUST_CHECK;
