/* SPDX-License-Identifier: Apache-2.0 */
/* What inode.c (inodes in memory), inode_store.c (their records) and change.c share. */
#pragma once

#include "fs/inode.h"

struct inode_table {
	pthread_mutex_t lock;
	pthread_cond_t loaded; /* an inode left INODE_LOADING */
	unsigned waiters;      /* for it */
	struct inode *hash;
	struct inode *dirty_head, *dirty_tail;
	size_t dirty_count;
};

/* Reads an inode's record, in a transaction of its own or in one. -ENOENT also when its last name
 * is gone. -EIO, -ENOMEM. */
int inode_load_record(struct volume *volume, uint64_t ino, struct inode_attr *attr) RMEM_MUST_CHECK;
int inode_read_record(struct store_txn *txn, uint64_t ino, struct inode_attr *attr) RMEM_MUST_CHECK;

/* inode->lock held. The last name is gone: the inode's record (`attr`) and an O record say that
 * this mount keeps it. -ENOSPC, -EIO. */
int inode_put_orphan(struct store_txn *txn, const struct inode *inode,
		     const struct inode_attr *attr) RMEM_MUST_CHECK;

/* All of an inode goes, with its O record if `mount_id` isn't 0. `attr` saves looking for what it
 * does not have; NULL: it is not known. 1: there is more than one transaction should do; what was
 * done stays right if it is committed, and doing it again does the rest. -ENOSPC, -EIO. */
struct inode_end {
	uint64_t ino;
	uint64_t mount_id;
	const struct inode_attr *attr;
};
int inode_delete_records(struct volume *volume, struct store_txn *txn,
			 const struct inode_end *end) RMEM_MUST_CHECK;
