/* SPDX-License-Identifier: Apache-2.0 */
/* Inodes in the store: reading, flushing, and taking everything away. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/checked.h"
#include "fs/dirty.h"
#include "fs/extent.h"
#include "fs/inode_table.h"
#include "fs/record.h"

int inode_read_record(struct store_txn *txn, uint64_t ino, struct inode_attr *attr)
{
	struct record_key key;
	struct store_slice value;
	int error = store_get(txn, record_key_number(&key, RECORD_INODE, ino), &value);

	if (error == 0)
		error = record_decode_inode(value, attr);
	if (error == 0 && attr->nlink == 0)
		error = -ENOENT;
	return error;
}

int inode_load_record(struct volume *volume, uint64_t ino, struct inode_attr *attr)
{
	struct store_txn *txn;
	int error = store_begin(volume->store, STORE_READ, &txn);

	if (error != 0)
		return error;
	error = inode_read_record(txn, ino, attr);
	store_abort(txn);
	return error;
}

int inode_put_record(struct store_txn *txn, const struct inode *inode,
		     const struct inode_attr *attr)
{
	struct inode_attr stored = *attr;
	struct record_key key;
	struct record_inode value;

	if (inode->removed)
		return -ESTALE;
	stored.size = rmem_min_u64(attr->size, dirty_size_limit(inode->dirty_file));
	return store_put(txn, record_key_number(&key, RECORD_INODE, inode->ino),
			 record_encode_inode(&value, &stored));
}

int inode_put_orphan(struct store_txn *txn, const struct inode *inode,
		     const struct inode_attr *attr)
{
	struct record_key key;
	struct record_number value;
	int error = inode_put_record(txn, inode, attr);

	if (error != 0)
		return error;
	return store_put(txn,
			 record_key_pair(&key, RECORD_ORPHAN, inode->volume->mount_id, inode->ino),
			 record_encode_number(&value, RECORD_ORPHAN, 0));
}

/* --- Flushing --------------------------------------------------------------------------------- */

struct flush {
	struct volume *volume;
	struct inode *inode;
	struct inode_attr attr;
};

static int put_flush(struct store_txn *txn, void *user)
{
	struct flush *flush = user;
	int error = inode_put_record(txn, flush->inode, &flush->attr);

	if (error == 0 && (flush->inode->dirty & INODE_DIRTY_MAP))
		error = extent_flush(flush->volume, flush->inode, txn);
	return error;
}

/* What was written has been acknowledged: it may use the reserve of a store that is full. */
static int store_flush(struct store *store, struct flush *flush)
{
	int error = store_update(store, put_flush, flush);

	return error == -ENOSPC ? store_shrink(store, put_flush, flush) : error;
}

/* The lock is held over the transaction: whatever changes the inode waits, and is dirty after it.
 */
int inode_flush(struct volume *volume, struct inode *inode)
{
	struct flush flush = {.volume = volume, .inode = inode};
	int error = 0;

	pthread_mutex_lock(&inode->lock);
	if (inode->dirty != 0) {
		flush.attr = inode->attr;
		flush.attr.version++;
		error = store_flush(volume->store, &flush);
		if (error == 0) {
			if (inode->dirty & INODE_DIRTY_MAP)
				extent_flushed(inode);
			inode->attr = flush.attr;
			inode_mark_clean(inode);
		}
	}
	pthread_mutex_unlock(&inode->lock);
	return error;
}

/* --- Taking away ------------------------------------------------------------------------------ */

#define XATTRS_AT_ONCE 32u

struct xattr_keys {
	struct record_key keys[XATTRS_AT_ONCE];
	size_t sizes[XATTRS_AT_ONCE];
	unsigned count;
};

static int collect_key(void *user, struct store_slice key, struct store_slice value)
{
	struct xattr_keys *found = user;

	(void)value;
	if (found->count == XATTRS_AT_ONCE)
		return 1;
	if (key.size > sizeof(found->keys[0].bytes))
		return -EIO;
	memcpy(found->keys[found->count].bytes, key.data, key.size);
	found->sizes[found->count++] = key.size;
	return 0;
}

/* 1: there are more. */
static int delete_xattrs(struct store_txn *txn, uint64_t ino)
{
	struct xattr_keys found = {.count = 0};
	struct record_key prefix;
	int more = store_scan(txn, record_key_number(&prefix, RECORD_XATTR, ino),
			      (struct store_slice){0}, collect_key, &found);

	for (unsigned i = 0; i < found.count && more >= 0; i++) {
		struct store_slice key = {.data = found.keys[i].bytes, .size = found.sizes[i]};
		int error = store_delete(txn, key);

		if (error != 0)
			return error;
	}
	return more;
}

static int delete_if_there(struct store_txn *txn, struct store_slice key)
{
	int error = store_delete(txn, key);

	return error == -ENOENT ? 0 : error;
}

int inode_delete_records(struct volume *volume, struct store_txn *txn, const struct inode_end *end)
{
	const struct inode_attr *attr = end->attr;
	struct record_key key;
	int result = 0;

	if (attr == NULL || attr->pages > 0)
		result = extent_reclaim(volume, end->ino, txn);
	if (result == 0 && (attr == NULL || attr->xattr_count > 0))
		result = delete_xattrs(txn, end->ino);
	if (result == 0 && (attr == NULL || S_ISLNK(attr->mode)))
		result = delete_if_there(txn, record_key_number(&key, RECORD_SYMLINK, end->ino));
	if (result == 0)
		result = delete_if_there(txn, record_key_number(&key, RECORD_INODE, end->ino));
	if (result == 0 && end->mount_id != 0)
		result = delete_if_there(
			txn, record_key_pair(&key, RECORD_ORPHAN, end->mount_id, end->ino));
	return result;
}

struct reclaim {
	struct volume *volume;
	struct inode_end end;
	bool more;
};

static int put_reclaim(struct store_txn *txn, void *user)
{
	struct reclaim *reclaim = user;
	int result = inode_delete_records(reclaim->volume, txn, &reclaim->end);

	reclaim->more = result > 0;
	return result > 0 ? 0 : result;
}

int inode_reclaim(struct volume *volume, uint64_t mount_id, uint64_t ino)
{
	struct reclaim reclaim = {
		.volume = volume,
		.end = {.ino = ino, .mount_id = mount_id},
	};
	int error = store_shrink(volume->store, put_reclaim, &reclaim);

	if (error != 0)
		return error;
	if (reclaim.more)
		return 1;
	atomic_fetch_sub_explicit(&volume->inode_count, 1, memory_order_relaxed);
	return 0;
}
