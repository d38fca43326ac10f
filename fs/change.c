/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/change.h"

#include <assert.h>
#include <errno.h>
#include <sys/stat.h>

#include "engine/base/log.h"
#include "fs/dirty.h"
#include "fs/inode_table.h"

#define ATTEMPTS_MAX 100

int change_run(struct volume *volume, int (*attempt)(struct change *change, void *arguments),
	       void *arguments)
{
	unsigned attempts = 0;
	int error;

	pthread_mutex_lock(&volume->namespace_lock);
	do {
		struct change change = {.volume = volume, .now_ns = inode_now_ns()};

		error = attempt(&change, arguments);
		assert(change.locked.count == 0);
	} while (RMEM_UNLIKELY(error == -EAGAIN) && ++attempts < ATTEMPTS_MAX);
	pthread_mutex_unlock(&volume->namespace_lock);
	if (RMEM_UNLIKELY(error == -EAGAIN)) {
		rmem_log_error(RMEM_LOG_FS, "a change of names met %u conflicts in a row",
			       ATTEMPTS_MAX);
		error = -EIO;
	}
	return error;
}

void change_lock(struct change *change, struct inode *const *inodes, unsigned count)
{
	unsigned i;

	for (i = 0; i < count; i++)
		inode_set_add(&change->locked, inodes[i]);
	inode_set_lock(&change->locked);
}

void change_unlock(struct change *change)
{
	inode_set_unlock(&change->locked);
	change->locked.count = 0;
}

struct inode_attr *change_attr(struct change *change, struct inode *inode)
{
	struct change_item *item;
	unsigned i;

	for (i = 0; i < change->item_count; i++) {
		if (change->items[i].inode == inode)
			return &change->items[i].attr;
	}
	assert(change->item_count < INODE_LOCK_MAX);
	item = &change->items[change->item_count++];
	item->inode = inode;
	item->attr = inode->attr;
	item->attr.version++;
	return &item->attr;
}

void change_touch(struct change *change, struct inode *inode)
{
	change_attr(change, inode)->ctime_ns = change->now_ns;
}

void change_touch_names(struct change *change, struct inode *directory)
{
	struct inode_attr *attr = change_attr(change, directory);

	attr->mtime_ns = change->now_ns;
	attr->ctime_ns = change->now_ns;
}

/* Whether somebody may still need what the inode has in the store once its last name is gone. The
 * kernel asks by number for an inode that it has just looked up, and the name may have gone since:
 * - it is told -ESTALE for a file that it wanted to open, and looks again; the second time is the
 *   last, so that for a while after the first such answer files stay until it forgets them;
 * - but the target of a symbolic link and extended attributes would just not be there, where those
 *   before and after a replacing rename() both were: these stay always. Not so all files: the
 *   second transaction makes unlink() cost half as much again (about 20 us). */
static bool lingers(const struct change *change, const struct inode *inode,
		    const struct inode_attr *attr)
{
	/* Pages that bytes are on their way to must not go to another file. */
	if (inode->opens > 0 || gate_is_busy(&inode->gate) || dirty_any(inode->dirty_file))
		return true;
	return S_ISLNK(attr->mode) || attr->xattr_count > 0 || !inode_is_quick(attr) ||
	       change->now_ns < change->volume->linger_until_ns;
}

void change_drop_name(struct change *change, struct inode *inode)
{
	struct inode_attr *attr = change_attr(change, inode);

	change->shrinks = true;
	attr->ctime_ns = change->now_ns;
	attr->nlink = S_ISDIR(attr->mode) ? 0 : attr->nlink - 1;
	if (attr->nlink > 0)
		return;
	assert(change->victim == NULL);
	change->victim = inode;
	change->victim_orphan = lingers(change, inode, attr);
}

/* All of the victim's, at once. -E2BIG: it is more than that. */
static int delete_victim(struct store_txn *txn, struct change *change)
{
	struct inode_end end = {
		.ino = change->victim->ino,
		.attr = change_attr(change, change->victim),
	};
	int result = inode_delete_records(change->volume, txn, &end);

	return result > 0 ? -E2BIG : result;
}

struct commit {
	struct change *change;
	int (*names)(struct store_txn *txn, void *arguments);
	void *arguments;
};

static int put_all(struct store_txn *txn, void *user)
{
	struct commit *commit = user;
	struct change *change = commit->change;
	unsigned i;
	int error = commit->names(txn, commit->arguments);

	for (i = 0; i < change->item_count && error == 0; i++) {
		struct change_item *item = &change->items[i];

		if (item->inode != change->victim)
			error = inode_put_record(txn, item->inode, &item->attr);
		else if (change->victim_orphan)
			error = inode_put_orphan(txn, item->inode, &item->attr);
		else
			error = delete_victim(txn, change);
	}
	return error;
}

static void follow(struct change *change)
{
	unsigned i;

	for (i = 0; i < change->item_count; i++)
		change->items[i].inode->attr = change->items[i].attr;
	if (change->victim == NULL)
		return;
	inode_mark_clean(change->victim);
	if (change->victim_orphan) {
		change->victim->orphan = true;
		return;
	}
	change->victim->removed = true;
	atomic_fetch_sub_explicit(&change->volume->inode_count, 1, memory_order_relaxed);
}

static int commit_once(struct commit *commit)
{
	struct store *store = commit->change->volume->store;

	if (commit->change->shrinks)
		return store_shrink(store, put_all, commit);
	return store_update(store, put_all, commit);
}

int change_commit(struct change *change, int (*names)(struct store_txn *txn, void *arguments),
		  void *arguments)
{
	struct commit commit = {.change = change, .names = names, .arguments = arguments};
	int error = commit_once(&commit);

	if (error == -E2BIG && change->victim != NULL) {
		/* More than one transaction's worth hangs on it after all. */
		change->victim_orphan = true;
		error = commit_once(&commit);
	}
	if (error == 0)
		follow(change);
	return error;
}
