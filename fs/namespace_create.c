/* SPDX-License-Identifier: Apache-2.0 */
/* New inodes, and what they inherit from their directory. */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/change.h"
#include "fs/namespace.h"
#include "fs/namespace_acl.h"
#include "fs/namespace_check.h"
#include "fs/record.h"

struct create_arguments {
	struct inode *parent;
	const char *name;
	const struct namespace_create *create;
	struct acl default_acl; /* of the parent, when it has entries */
	struct acl access_acl;	/* of the child, likewise */
	struct inode *inode;	/* out */
};

/* What a new child may allow: the parent's default list says, else the umask. */
static void limit_mode(struct create_arguments *arguments, struct inode_attr *attr)
{
	struct acl *access = &arguments->access_acl;
	mode_t mode = attr->mode;

	access->count = 0;
	if (arguments->default_acl.count == 0) {
		attr->mode = mode & ~(arguments->create->umask & 0777);
		return;
	}
	*access = arguments->default_acl;
	acl_inherit(access, &mode);
	attr->mode = mode;
	if (acl_is_extended(access))
		attr->xattr_count++;
	else
		access->count = 0;
	if (S_ISDIR(mode))
		attr->xattr_count++;
}

/* The parent's lock is held. */
static int load_default_acl(struct volume *volume, struct create_arguments *arguments)
{
	struct acl *acl = &arguments->default_acl;
	struct store_txn *txn;
	int error;

	acl->count = 0;
	arguments->access_acl.count = 0;
	if (arguments->parent->attr.xattr_count == 0)
		return 0;
	error = store_begin(volume->store, STORE_READ, &txn);
	if (error != 0)
		return error;
	error = namespace_acl_get(txn, arguments->parent->ino, ACL_DEFAULT_NAME, acl);
	store_abort(txn);
	if (error != 0)
		acl->count = 0;
	return error == -ENOENT ? 0 : error;
}

static int put_acl(struct store_txn *txn, uint64_t ino, const char *name, const struct acl *acl)
{
	uint8_t bytes[ACL_BYTES_MAX];
	struct record_key key;

	return store_put(txn, record_key_name(&key, RECORD_XATTR, ino, name, strlen(name)),
			 acl_encode(acl, bytes));
}

static void fill_attr(const struct change *change, struct create_arguments *arguments,
		      const struct inode_attr *parent, struct inode_attr *attr)
{
	const struct namespace_create *create = arguments->create;
	bool directory = S_ISDIR(create->mode);

	*attr = (struct inode_attr){
		.mode = create->mode,
		.uid = create->caller.uid,
		.gid = create->caller.gid,
		.nlink = directory ? 2 : 1,
		.generation = NAMESPACE_GENERATION,
		.atime_ns = change->now_ns,
		.mtime_ns = change->now_ns,
		.ctime_ns = change->now_ns,
		.btime_ns = change->now_ns,
		.parent = directory ? arguments->parent->ino : 0,
		.version = 1,
	};
	if (parent->mode & S_ISGID) {
		attr->gid = parent->gid;
		if (directory)
			attr->mode |= S_ISGID;
	}
	if (!S_ISLNK(create->mode))
		limit_mode(arguments, attr);
	if (S_ISCHR(create->mode) || S_ISBLK(create->mode))
		attr->rdev = (uint32_t)create->rdev;
	if (S_ISLNK(create->mode))
		attr->size = strlen(create->target);
}

static int put_target(struct store_txn *txn, uint64_t ino, const char *target)
{
	struct store_slice value = {.data = target, .size = strlen(target)};
	struct record_key key;

	return store_put(txn, record_key_number(&key, RECORD_SYMLINK, ino), value);
}

static int put_created(struct store_txn *txn, void *user)
{
	struct create_arguments *arguments = user;
	struct inode *inode = arguments->inode;
	struct entry entry = {.ino = inode->ino, .type = IFTODT(inode->attr.mode)};
	int error = entry_add(txn, arguments->parent->ino, arguments->name, &entry);

	if (error == 0)
		error = inode_put_record(txn, inode, &inode->attr);
	if (error == 0 && S_ISLNK(inode->attr.mode))
		error = put_target(txn, inode->ino, arguments->create->target);
	if (error == 0 && arguments->access_acl.count > 0)
		error = put_acl(txn, inode->ino, ACL_ACCESS_NAME, &arguments->access_acl);
	if (error == 0 && arguments->default_acl.count > 0 && S_ISDIR(inode->attr.mode))
		error = put_acl(txn, inode->ino, ACL_DEFAULT_NAME, &arguments->default_acl);
	return error;
}

static int create_locked(struct change *change, struct create_arguments *arguments)
{
	struct volume *volume = change->volume;
	struct inode_attr *parent = change_attr(change, arguments->parent), attr;
	uint64_t ino;
	int error = namespace_check_parent(arguments->parent);

	if (error != 0)
		return error;
	if (S_ISDIR(arguments->create->mode)) {
		if (parent->nlink >= NAMESPACE_LINKS_MAX)
			return -EMLINK;
		parent->nlink++;
	}
	change_touch_names(change, arguments->parent);
	error = load_default_acl(volume, arguments);
	if (error == 0)
		error = volume_reserve_ino(volume, &ino);
	if (error != 0)
		return error;
	fill_attr(change, arguments, parent, &attr);
	error = inode_prepare(volume, ino, &attr, &arguments->inode);
	if (error != 0)
		return error;
	error = change_commit(change, put_created, arguments);
	inode_publish(arguments->inode, error == 0 ? 0 : -ENOENT);
	return error;
}

static int attempt_create(struct change *change, void *user)
{
	struct create_arguments *arguments = user;
	int error;

	change_lock(change, &arguments->parent, 1);
	error = create_locked(change, arguments);
	change_unlock(change);
	return error;
}

int namespace_create(struct volume *volume, struct inode *parent, const char *name,
		     const struct namespace_create *create, struct inode **inode)
{
	struct create_arguments arguments;
	int error = namespace_check_name(name);

	/* Without touching the lists, which are 4 KiB. */
	arguments.parent = parent;
	arguments.name = name;
	arguments.create = create;

	if (error == 0 && namespace_is_dots(name))
		error = -EEXIST;
	if (error == 0 && S_ISLNK(create->mode))
		error = namespace_check_target(create->target);
	if (error == 0)
		error = change_run(volume, attempt_create, &arguments);
	if (error != 0)
		return error;
	atomic_fetch_add_explicit(&volume->inode_count, 1, memory_order_relaxed);
	*inode = arguments.inode;
	return 0;
}
