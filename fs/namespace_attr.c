/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes and targets of symbolic links. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/inode_table.h"
#include "fs/namespace.h"
#include "fs/namespace_acl.h"
#include "fs/namespace_check.h"
#include "fs/record.h"

#define TIMES (NAMESPACE_ATIME | NAMESPACE_MTIME | NAMESPACE_CTIME)

static void apply(struct inode_attr *attr, const struct inode_attr *wanted, unsigned mask)
{
	if ((mask & (NAMESPACE_UID | NAMESPACE_GID)) && !S_ISDIR(attr->mode)) {
		attr->mode &= ~(uint32_t)S_ISUID;
		if (attr->mode & S_IXGRP)
			attr->mode &= ~(uint32_t)S_ISGID;
	}
	if (mask & NAMESPACE_MODE)
		attr->mode = (attr->mode & S_IFMT) | (wanted->mode & 07777);
	if (mask & NAMESPACE_UID)
		attr->uid = wanted->uid;
	if (mask & NAMESPACE_GID)
		attr->gid = wanted->gid;
	if (mask & NAMESPACE_ATIME)
		attr->atime_ns = wanted->atime_ns;
	if (mask & NAMESPACE_MTIME)
		attr->mtime_ns = wanted->mtime_ns;
	attr->ctime_ns = mask & NAMESPACE_CTIME ? wanted->ctime_ns : inode_now_ns();
}

struct setattr_arguments {
	struct inode *inode;
	struct inode_attr attr;
	unsigned mask;
};

static int put_attr(struct store_txn *txn, void *user)
{
	struct setattr_arguments *arguments = user;
	int error = inode_put_record(txn, arguments->inode, &arguments->attr);

	if (error == 0 && (arguments->mask & NAMESPACE_MODE))
		error = namespace_acl_follow_mode(txn, arguments->inode->ino, &arguments->attr);
	return error;
}

int namespace_setattr(struct volume *volume, struct inode *inode, const struct inode_attr *attr,
		      unsigned mask)
{
	struct setattr_arguments arguments = {.inode = inode, .mask = mask};
	int error = 0;

	pthread_mutex_lock(&inode->lock);
	arguments.attr = inode->attr;
	apply(&arguments.attr, attr, mask);
	arguments.attr.version++;
	if (inode->attr.nlink > 0 && (mask & ~(unsigned)TIMES))
		error = store_shrink(volume->store, put_attr, &arguments);
	if (error == 0)
		inode->attr = arguments.attr;
	if (error == 0 && !(mask & ~(unsigned)TIMES))
		inode_mark_dirty(volume, inode, INODE_DIRTY_ATTR);
	pthread_mutex_unlock(&inode->lock);
	return error;
}

int namespace_readlink(struct volume *volume, struct inode *inode, char *target)
{
	struct record_key key;
	struct store_slice value;
	struct store_txn *txn;
	int error = store_begin(volume->store, STORE_READ, &txn);

	if (error != 0)
		return error;
	error = store_get(txn, record_key_number(&key, RECORD_SYMLINK, inode->ino), &value);
	if (error == 0)
		error = record_decode_symlink(value, target);
	else if (error == -ENOENT)
		error = -EINVAL; /* not a symbolic link */
	store_abort(txn);
	return error;
}
