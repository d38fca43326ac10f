/* SPDX-License-Identifier: Apache-2.0 */
/* A change of names in the making: the inodes it concerns, locked, with the attributes they are
 *going to have, and what happens to the one that loses its last name. change_commit() puts it all
 *into one transaction together with the names, and only then into memory.
 *
 *	change_run(volume, attempt, &my_arguments);
 *
 *	static int attempt(struct change *change, void *arguments)
 *	{
 *		... look names up, get inodes ...
 *		change_lock(change, (struct inode *[]){ parent, child }, 2);
 *		... check ...
 *		change_attr(change, parent)->nlink++;
 *		error = change_commit(change, put_my_names, arguments);
 *		change_unlock(change);
 *		... give references back ...
 *	}
 *
 * An attempt has no effect unless its commit succeeded; after -EAGAIN all of it is done again. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fs/inode.h"

struct change_item {
	struct inode *inode;
	struct inode_attr attr;
};

struct change {
	struct volume *volume;
	int64_t now_ns;
	struct inode_set locked;
	struct change_item items[INODE_LOCK_MAX];
	unsigned item_count;
	struct inode *victim; /* loses its last name; NULL: nobody does */
	bool victim_orphan;   /* and stays until its last user is gone */
	bool shrinks;	      /* gives space in the store back */
};

/* Runs `attempt` with the namespace lock held, again after a conflict. */
int change_run(struct volume *volume, int (*attempt)(struct change *change, void *arguments),
	       void *arguments) RMEM_MUST_CHECK;

void change_lock(struct change *change, struct inode *const *inodes, unsigned count);
void change_unlock(struct change *change);

/* The attributes that a locked inode is going to have, for the caller to edit. */
struct inode_attr *change_attr(struct change *change, struct inode *inode);

/* The inode gets ctime; its content as a directory (names) changed: mtime too. */
void change_touch(struct change *change, struct inode *inode);
void change_touch_names(struct change *change, struct inode *directory);

/* The inode loses a name: a directory its only one. */
void change_drop_name(struct change *change, struct inode *inode);

int change_commit(struct change *change, int (*names)(struct store_txn *txn, void *arguments),
		  void *arguments) RMEM_MUST_CHECK;

/* --- Entries of directories ------------------------------------------------------------------- */

struct entry {
	uint64_t ino;
	uint32_t type; /* DT_... */
};

/* In a transaction of its own, or in one. Errors: -ENOENT, -EIO, -ENAMETOOLONG. */
int entry_lookup(struct store *store, uint64_t directory, const char *name,
		 struct entry *entry) RMEM_MUST_CHECK;
int entry_get(struct store_txn *txn, uint64_t directory, const char *name,
	      struct entry *entry) RMEM_MUST_CHECK;
/* -EEXIST */
int entry_add(struct store_txn *txn, uint64_t directory, const char *name,
	      const struct entry *entry) RMEM_MUST_CHECK;
/* The name has to stand for `old`: -EAGAIN when it does not any more. */
int entry_replace(struct store_txn *txn, uint64_t directory, const char *name,
		  const struct entry *old, const struct entry *entry) RMEM_MUST_CHECK;
int entry_remove(struct store_txn *txn, uint64_t directory, const char *name,
		 const struct entry *old) RMEM_MUST_CHECK;
/* -ENOTEMPTY */
int entry_none(struct store_txn *txn, uint64_t directory) RMEM_MUST_CHECK;
