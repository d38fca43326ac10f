/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes: a record each, and their count in the inode's record, so that the common
 * question after one that isn't there (the kernel asks for security.capability before each write)
 * costs no access to the store. Sets and removals hold the inode's lock over their transaction. */
#include <errno.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/xattr.h>

#include "fs/inode_table.h"
#include "fs/namespace.h"
#include "fs/namespace_acl.h"
#include "fs/namespace_check.h"
#include "fs/record.h"

#define COUNT_MAX 10000u

static int check_name(const char *name)
{
	static const char *const prefixes[] = {"user.", "trusted.", "security."};
	size_t i, length = strnlen(name, XATTR_NAME_MAX + 1);

	if (length > XATTR_NAME_MAX)
		return -ERANGE;
	if (namespace_acl_is_name(name))
		return 0;
	for (i = 0; i < RMEM_COUNT_OF(prefixes); i++) {
		size_t prefix = strlen(prefixes[i]);

		if (strncmp(name, prefixes[i], prefix) == 0)
			return length > prefix ? 0 : -EINVAL;
	}
	return -EOPNOTSUPP;
}

static uint32_t count_of(struct inode *inode)
{
	uint32_t count;

	pthread_mutex_lock(&inode->lock);
	count = inode->attr.xattr_count;
	pthread_mutex_unlock(&inode->lock);
	return count;
}

/* What get and list have in common: fill `size` bytes or say how many are needed. */
static ssize_t copy_out(const void *from, size_t length, void *to, size_t size)
{
	if (size == 0)
		return (ssize_t)length;
	if (length > size)
		return -ERANGE;
	memcpy(to, from, length);
	return (ssize_t)length;
}

ssize_t namespace_getxattr(struct volume *volume, struct inode *inode, const char *name,
			   void *value, size_t size)
{
	struct record_key key;
	struct store_slice stored;
	struct store_txn *txn;
	ssize_t result;

	result = check_name(name);
	if (result != 0)
		return result;
	if (count_of(inode) == 0)
		return -ENODATA;
	result = store_begin(volume->store, STORE_READ, &txn);
	if (result != 0)
		return result;
	result = store_get(txn, record_key_name(&key, RECORD_XATTR, inode->ino, name, strlen(name)),
			   &stored);
	if (result == 0)
		result = copy_out(stored.data, stored.size, value, size);
	else if (result == -ENOENT)
		result = -ENODATA;
	store_abort(txn);
	return result;
}

struct list {
	char *names;
	size_t size, used;
};

static int add_name(void *user, struct store_slice key, struct store_slice value)
{
	struct list *list = user;
	struct store_slice name;
	uint64_t ino;
	int error = record_parse_name(key, RECORD_XATTR, &ino, &name);

	(void)value;
	if (error != 0)
		return error;
	if (list->size > 0) {
		if (list->used + name.size + 1 > list->size)
			return -ERANGE;
		memcpy(list->names + list->used, name.data, name.size);
		list->names[list->used + name.size] = '\0';
	}
	list->used += name.size + 1;
	return 0;
}

ssize_t namespace_listxattr(struct volume *volume, struct inode *inode, char *names, size_t size)
{
	struct list list = {.names = names, .size = size};
	struct record_key prefix;
	struct store_txn *txn;
	int error;

	if (count_of(inode) == 0)
		return 0;
	error = store_begin(volume->store, STORE_READ, &txn);
	if (error != 0)
		return error;
	error = store_scan(txn, record_key_number(&prefix, RECORD_XATTR, inode->ino),
			   (struct store_slice){0}, add_name, &list);
	store_abort(txn);
	return error != 0 ? error : (ssize_t)list.used;
}

static struct store_slice key_of(struct record_key *key, const struct inode *inode,
				 const struct namespace_xattr *xattr)
{
	return record_key_name(key, RECORD_XATTR, inode->ino, xattr->name, strlen(xattr->name));
}

struct xattr_arguments {
	struct inode *inode;
	const struct namespace_xattr *xattr;
	const struct acl *acl;
	struct inode_attr attr;
};

static int put_xattr(struct store_txn *txn, void *user)
{
	struct xattr_arguments *arguments = user;
	const struct namespace_xattr *xattr = arguments->xattr;
	struct inode_attr *attr = &arguments->attr;
	struct store_slice value = {.data = xattr->value, .size = xattr->size}, old, key;
	struct record_key buffer;
	int error;

	*attr = arguments->inode->attr;
	attr->version++;
	attr->ctime_ns = inode_now_ns();
	key = key_of(&buffer, arguments->inode, xattr);
	error = store_get(txn, key, &old);
	if (error != 0 && error != -ENOENT)
		return error;
	if (error == 0 && (xattr->flags & XATTR_CREATE))
		return -EEXIST;
	if (error == -ENOENT && (xattr->flags & XATTR_REPLACE))
		return -ENODATA;
	if (error == -ENOENT && ++attr->xattr_count > COUNT_MAX)
		return -ENOSPC;
	error = store_put(txn, key, value);
	return error != 0 ? error : inode_put_record(txn, arguments->inode, attr);
}

static int put_acl(struct store_txn *txn, void *user)
{
	struct xattr_arguments *arguments = user;
	struct inode_attr *attr = &arguments->attr;
	int error;

	*attr = arguments->inode->attr;
	attr->version++;
	attr->ctime_ns = inode_now_ns();
	error = namespace_acl_set(txn, arguments->inode->ino, arguments->xattr->name,
				  arguments->acl, attr);
	if (arguments->xattr->drop_setgid)
		attr->mode &= ~(uint32_t)S_ISGID;
	return error != 0 ? error : inode_put_record(txn, arguments->inode, attr);
}

static int delete_xattr(struct store_txn *txn, void *user)
{
	struct xattr_arguments *arguments = user;
	struct inode_attr *attr = &arguments->attr;
	struct record_key key;
	int error;

	*attr = arguments->inode->attr;
	attr->version++;
	attr->ctime_ns = inode_now_ns();
	attr->xattr_count--;
	error = store_delete(txn, key_of(&key, arguments->inode, arguments->xattr));
	if (error != 0)
		return error == -ENOENT ? -ENODATA : error;
	return inode_put_record(txn, arguments->inode, attr);
}

static int run(struct volume *volume, struct xattr_arguments *arguments,
	       int (*transact)(struct store *, store_change *, void *), store_change *change)
{
	struct inode *inode = arguments->inode;
	int error;

	pthread_mutex_lock(&inode->lock);
	error = transact(volume->store, change, arguments);
	if (error == 0)
		inode->attr = arguments->attr;
	pthread_mutex_unlock(&inode->lock);
	return error;
}

static int set_acl(struct volume *volume, struct xattr_arguments *arguments)
{
	const struct namespace_xattr *xattr = arguments->xattr;
	struct store_slice value = {.data = xattr->value, .size = xattr->size};
	struct acl acl;
	int error = acl_decode(value, &acl);

	if (error != 0)
		return error;
	arguments->acl = &acl;
	error = run(volume, arguments, store_update, put_acl);
	arguments->acl = NULL;
	return error;
}

int namespace_setxattr(struct volume *volume, struct inode *inode,
		       const struct namespace_xattr *xattr)
{
	struct xattr_arguments arguments = {.inode = inode, .xattr = xattr};
	int error = check_name(xattr->name);

	if (error != 0)
		return error;
	if (xattr->flags & ~(XATTR_CREATE | XATTR_REPLACE))
		return -EINVAL;
	if (xattr->size > RECORD_XATTR_MAX)
		return -E2BIG;
	if (namespace_acl_is_name(xattr->name))
		return set_acl(volume, &arguments);
	return run(volume, &arguments, store_update, put_xattr);
}

int namespace_removexattr(struct volume *volume, struct inode *inode, const char *name)
{
	struct namespace_xattr xattr = {.name = name};
	struct xattr_arguments arguments = {.inode = inode, .xattr = &xattr};
	bool acl = namespace_acl_is_name(name);
	int error = check_name(name);

	if (error == 0 && count_of(inode) == 0)
		error = -ENODATA;
	if (error == 0)
		error = run(volume, &arguments, store_shrink, delete_xattr);
	/* No list is a list without entries, and may be removed. */
	return acl && error == -ENODATA ? 0 : error;
}
