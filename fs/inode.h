/* SPDX-License-Identifier: Apache-2.0 */
/* Inodes in memory: one object per inode that the kernel knows, an open file uses or an operation
 * holds; found through a table, counted by references.
 *
 * What is in the store may lag behind what is here: data operations change size, times and the
 * written state of pages in memory (`dirty`), and inode_flush() puts all of it into the store in one
 * transaction: at fsync, close, unmount, and at the latest one commit interval after the change. A
 * dirty inode is on the volume's dirty list and holds a reference on itself.
 *
 * Lock order: volume->namespace_lock, inode->lock (two inodes: by ascending number), table lock,
 * the store's writer. No lock is held while remote bytes move: see fs/gate.h. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

#include "engine/base/error.h"
#include "fs/gate.h"
#include "fs/store.h"

struct volume;
struct extent_map;

#define INODE_ROOT 1u

struct inode_attr {
	uint32_t mode;
	uint32_t uid, gid;
	uint32_t nlink;
	uint32_t rdev;
	uint32_t generation;
	uint64_t size;   /* bytes */
	uint64_t pages;  /* allocated 4 KiB pages, for st_blocks */
	int64_t atime_ns, mtime_ns, ctime_ns, btime_ns;
	uint64_t parent; /* directories: "..", else 0 */
	uint64_t version; /* grows with every change of data or attributes that is stored */
	uint32_t xattr_count;
};

enum inode_dirty {
	INODE_DIRTY_ATTR = 1,
	INODE_DIRTY_MAP = 2,
};

struct inode {
	UT_hash_handle hh;      /* table lock */
	uint64_t ino;           /* constant */
	uint64_t refs;          /* table lock */
	struct inode *dirty_next, *dirty_prev; /* table lock */

	pthread_mutex_t lock;   /* guards everything below */
	struct inode_attr attr;
	unsigned dirty;         /* enum inode_dirty */
	unsigned opens;         /* open file descriptions */
	bool orphan;            /* nlink is 0 and an O record stands for it */
	struct extent_map *map; /* regular files, NULL until first needed */
	struct io_gate gate;    /* data operations in flight; fs/data.c */
};

/* The inode with this number, from memory or the store, with one more reference.
 * Errors: -ENOENT (-ESTALE is the caller's to say), -EIO, -ENOMEM. */
int inode_get(struct volume *volume, uint64_t ino, struct inode **inode) RMEM_MUST_CHECK;

/* One more reference on an inode that one is held on. */
void inode_ref(struct volume *volume, struct inode *inode);

/* Drops `count` references. The last one frees the object and, when no name is left, reclaims the
 * inode's space and records (in this thread when that is quick, else in the volume's worker). */
void inode_unref(struct volume *volume, struct inode *inode, uint64_t count);

/* inode->lock held: notes a change that is not in the store yet. */
void inode_mark_dirty(struct volume *volume, struct inode *inode, unsigned what);

/* Takes inode->lock; puts what is dirty into the store. Blocks for a store transaction, not for a
 * sync. Errors: -ENOSPC, -EIO: the inode stays dirty, nothing is lost. */
int inode_flush(struct volume *volume, struct inode *inode) RMEM_MUST_CHECK;

/* All dirty inodes. Returns the first error after having tried each. */
int inode_flush_all(struct volume *volume) RMEM_MUST_CHECK;

/* Puts `attr` as the inode's record into `txn`: for transactions of the namespace. */
int inode_put_record(struct store_txn *txn, uint64_t ino, const struct inode_attr *attr)
	RMEM_MUST_CHECK;

int64_t inode_now_ns(void); /* CLOCK_REALTIME */
