/* SPDX-License-Identifier: Apache-2.0 */
/* Inodes in memory: one object per inode that the kernel knows, an open file uses or an operation
 * holds; found through a table, counted by references.
 *
 * What is in the store may lag behind what is here: data operations change size, times and the
 * written state of pages in memory (`dirty`), and inode_flush() puts all of it into the store in
 * one transaction: at fsync, close, unmount, and at the latest one commit interval after the
 * change. A dirty inode is on the volume's dirty list and holds a reference on itself.
 *
 * The end of an inode. When its last name goes while it is open, or while a data operation is in
 * its gate, or when it has what the kernel may just be about to ask for (change.c, lingers()), it
 * becomes an `orphan`: its records stay, an O record stands for it, and the last unref reclaims it.
 * Otherwise everything goes in the transaction that took the name, and what is left in
 * memory is `removed`: an operation that raced with the removal may still hold it, must put nothing
 * into the store for it, and answers -ESTALE. So data operations hold a reference and their place
 * in the gate for as long as their bytes move, and look at `removed` when they enter.
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
#include "fs/volume.h"

struct dirty_file;
struct extent_map;

#define INODE_ROOT 1u

struct inode_attr {
	uint32_t mode;
	uint32_t uid, gid;
	uint32_t nlink;
	uint32_t rdev;
	uint32_t generation;
	uint64_t size;	/* bytes */
	uint64_t pages; /* allocated 4 KiB pages, for st_blocks */
	uint64_t
		reserved_end; /* bytes: fallocate took pages up to here, extent_trim() keeps them */
	int64_t atime_ns, mtime_ns, ctime_ns, btime_ns;
	uint64_t parent;  /* directories: "..", else 0 */
	uint64_t version; /* grows with every change of data or attributes that is stored */
	uint32_t xattr_count;
};

enum inode_dirty {
	INODE_DIRTY_ATTR = 1,
	INODE_DIRTY_MAP = 2,
};

enum inode_state {
	INODE_LOADING, /* in the table while its record is read or first written: getters wait */
	INODE_READY,
	INODE_FAILED, /* there is no such inode; goes with its last reference */
};

struct inode {
	UT_hash_handle hh;		       /* table lock */
	uint64_t ino;			       /* constant */
	uint64_t refs;			       /* table lock */
	enum inode_state state;		       /* table lock */
	int load_error;			       /* table lock: why it is INODE_FAILED */
	struct inode *dirty_next, *dirty_prev; /* table lock */
	struct volume *volume;		       /* constant */
	struct volume_job reclaim;	       /* once refs are 0 */

	pthread_mutex_t lock; /* guards everything below */
	struct inode_attr attr;
	unsigned dirty;		/* enum inode_dirty */
	unsigned opens;		/* open file descriptions */
	unsigned writers;	/* those among them that may write */
	bool orphan;		/* nlink is 0 and an O record stands for it */
	bool removed;		/* nlink is 0 and its records are gone */
	struct extent_map *map; /* regular files, NULL until first needed */
	struct io_gate gate;	/* data operations in flight; fs/data.c */
	unsigned through;	/* writes among them that go straight to remote memory */
	struct dirty_file
		*dirty_file; /* what was written and not flushed; NULL until first needed */
};

/* The inode with this number, from memory or the store, with one more reference.
 * Errors: -ENOENT (-ESTALE is the caller's to say), -EIO, -ENOMEM. */
int inode_get(struct volume *volume, uint64_t ino, struct inode **inode) RMEM_MUST_CHECK;

/* One more reference on an inode that one is held on. */
void inode_ref(struct volume *volume, struct inode *inode);

/* Drops `count` references. The last one frees the object and, when no name is left, reclaims the
 * inode's space and records (in this thread when that is quick, else in the volume's worker). */
void inode_unref(struct volume *volume, struct inode *inode, uint64_t count);

/* The kernel forgets `count` of its references on inode number `ino`, which it was given. */
void inode_forget(struct volume *volume, uint64_t ino, uint64_t count);

/* inode->lock held: notes a change that is not in the store yet. */
void inode_mark_dirty(struct volume *volume, struct inode *inode, unsigned what);

/* Takes inode->lock; puts what is dirty into the store. Blocks for a store transaction, not for a
 * sync. Errors: -ENOSPC, -EIO: the inode stays dirty, nothing is lost. */
int inode_flush(struct volume *volume, struct inode *inode) RMEM_MUST_CHECK;

/* All dirty inodes. Returns the first error after having tried each. */
int inode_flush_all(struct volume *volume) RMEM_MUST_CHECK;

/* inode->lock held: puts `attr` as the inode's record into `txn`, but for a size that bytes wait
 * for which were not flushed yet (dirty_size_limit()). The caller makes it inode->attr once the
 * transaction has committed. Errors: -ESTALE (removed), -ENOSPC, -EIO. */
int inode_put_record(struct store_txn *txn, const struct inode *inode,
		     const struct inode_attr *attr) RMEM_MUST_CHECK;

int64_t inode_now_ns(void); /* CLOCK_REALTIME */

/* --- For namespace and volume ----------------------------------------------------------------- */

/* An object for a new inode, in the table but not to be had until inode_publish() says how the
 * transaction that stores its record ended. With status 0 the caller has one reference; otherwise
 * the object is gone. */
int inode_prepare(struct volume *volume, uint64_t ino, const struct inode_attr *attr,
		  struct inode **inode) RMEM_MUST_CHECK;
void inode_publish(struct inode *inode, int status);

/* Locks and unlocks several inodes in the order that the lock order asks for. NULL and repeated
 * entries are fine; `inodes` gets sorted. */
#define INODE_LOCK_MAX 4u
struct inode_set {
	struct inode *inodes[INODE_LOCK_MAX];
	unsigned count;
};
void inode_set_add(struct inode_set *set, struct inode *inode);
void inode_set_lock(struct inode_set *set);
void inode_set_unlock(const struct inode_set *set);

/* inode->lock held: nothing of the inode is to be put any more. */
void inode_mark_clean(struct inode *inode);

/* Whether all of an inode can go in one transaction that takes about a millisecond. */
bool inode_is_quick(const struct inode_attr *attr);

/* One transaction's worth of deleting what the store has of an inode without a name. Returns 1 when
 * there is more to do; 0 when all is gone, the O record of session `mount_id` last. Nobody else may
 * know the inode. Errors: -EIO, -ENOSPC: some may be left, and the O record with it. */
int inode_reclaim(struct volume *volume, uint64_t mount_id, uint64_t ino) RMEM_MUST_CHECK;

int inode_table_create(struct inode_table **table) RMEM_MUST_CHECK;
/* Reclaims orphans and frees every inode, whoever holds references; flush first. */
void inode_table_destroy(struct volume *volume, struct inode_table *table);
