/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/namespace_acl.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/record.h"

bool namespace_acl_is_name(const char *xattr_name)
{
	return strcmp(xattr_name, ACL_ACCESS_NAME) == 0 ||
	       strcmp(xattr_name, ACL_DEFAULT_NAME) == 0;
}

static struct store_slice key_of(struct record_key *key, uint64_t ino, const char *name)
{
	return record_key_name(key, RECORD_XATTR, ino, name, strlen(name));
}

int namespace_acl_get(struct store_txn *txn, uint64_t ino, const char *name, struct acl *acl)
{
	struct record_key key;
	struct store_slice value;
	int error = store_get(txn, key_of(&key, ino, name), &value);

	if (error != 0)
		return error;
	return acl_decode(value, acl) != 0 || acl->count == 0 ? -EIO : 0;
}

static int put(struct store_txn *txn, uint64_t ino, const char *name, const struct acl *acl,
	       struct inode_attr *attr)
{
	uint8_t bytes[ACL_BYTES_MAX];
	struct record_key buffer;
	struct store_slice key = key_of(&buffer, ino, name), old;
	int error = store_get(txn, key, &old);

	if (error != 0 && error != -ENOENT)
		return error;
	attr->xattr_count += error == -ENOENT;
	return store_put(txn, key, acl_encode(acl, bytes));
}

static int drop(struct store_txn *txn, uint64_t ino, const char *name, struct inode_attr *attr)
{
	struct record_key key;
	int error = store_delete(txn, key_of(&key, ino, name));

	if (error == -ENOENT)
		return 0;
	attr->xattr_count -= error == 0;
	return error;
}

int namespace_acl_set(struct store_txn *txn, uint64_t ino, const char *name, const struct acl *acl,
		      struct inode_attr *attr)
{
	bool keep = acl->count > 0;

	if (S_ISLNK(attr->mode))
		return -EOPNOTSUPP;
	if (strcmp(name, ACL_DEFAULT_NAME) == 0) {
		if (!S_ISDIR(attr->mode))
			return keep ? -EACCES : 0;
	} else if (keep) {
		attr->mode = acl_to_mode(acl, attr->mode);
		keep = acl_is_extended(acl);
	}
	return keep ? put(txn, ino, name, acl, attr) : drop(txn, ino, name, attr);
}

int namespace_acl_follow_mode(struct store_txn *txn, uint64_t ino, const struct inode_attr *attr)
{
	struct inode_attr same = *attr; /* the list is there: neither count nor mode change */
	struct acl acl;
	int error;

	if (attr->xattr_count == 0)
		return 0;
	error = namespace_acl_get(txn, ino, ACL_ACCESS_NAME, &acl);
	if (error != 0)
		return error == -ENOENT ? 0 : error;
	acl_chmod(&acl, attr->mode);
	return put(txn, ino, ACL_ACCESS_NAME, &acl, &same);
}
