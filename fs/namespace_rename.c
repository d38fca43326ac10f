/* SPDX-License-Identifier: Apache-2.0 */
/* Renaming: moving, replacing and exchanging.
 *
 * A directory must not end up below itself: the parents of the place it goes to are walked up to
 * the root. All of them hold still, because every change of a parent needs the namespace lock. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/log.h"
#include "fs/change.h"
#include "fs/inode_table.h"
#include "fs/namespace.h"
#include "fs/namespace_check.h"

#define DEPTH_MAX 1000000u /* of directories; more is a cycle, which only a broken store has */

struct rename_arguments {
	const struct namespace_rename *in;
	struct entry old, new;
	bool replaces; /* there is a `new` */
	struct inode *old_inode, *new_inode;
};

/* 0 when `directory` is neither `ancestor` nor below it, else -EINVAL. */
static int check_not_below(struct volume *volume, uint64_t directory, uint64_t ancestor)
{
	struct store_txn *txn;
	unsigned depth = 0;
	int error = store_begin(volume->store, STORE_READ, &txn);

	if (error != 0)
		return error;
	while (directory != INODE_ROOT && directory != ancestor && error == 0) {
		struct inode_attr attr;

		error = inode_read_record(txn, directory, &attr);
		directory = attr.parent;
		if (++depth > DEPTH_MAX)
			error = -EIO;
	}
	store_abort(txn);
	if (error == 0 && directory == ancestor)
		error = -EINVAL;
	return error == -ENOENT ? -EIO : error;
}

static int check_places(struct volume *volume, const struct rename_arguments *arguments)
{
	const struct namespace_rename *in = arguments->in;
	int error = 0;

	if (in->old_parent == in->new_parent)
		return 0;
	if (arguments->old.type == DT_DIR)
		error = check_not_below(volume, in->new_parent->ino, arguments->old.ino);
	if (error == 0 && (in->flags & RENAME_EXCHANGE) && arguments->new.type == DT_DIR)
		error = check_not_below(volume, in->old_parent->ino, arguments->new.ino);
	return error;
}

static int look_up(struct volume *volume, struct rename_arguments *arguments)
{
	const struct namespace_rename *in = arguments->in;
	int error = entry_lookup(volume->store, in->old_parent->ino, in->old_name, &arguments->old);

	if (error != 0)
		return error;
	error = entry_lookup(volume->store, in->new_parent->ino, in->new_name, &arguments->new);
	if (error != 0 && error != -ENOENT)
		return error;
	arguments->replaces = error == 0;
	if (in->flags & RENAME_NOREPLACE)
		return arguments->replaces ? -EEXIST : 0;
	if (in->flags & RENAME_EXCHANGE)
		return arguments->replaces ? 0 : -ENOENT;
	return 0;
}

/* Whether what is at the new name may be replaced by what is at the old one. */
static int check_types(const struct rename_arguments *arguments)
{
	if (!arguments->replaces || (arguments->in->flags & RENAME_EXCHANGE))
		return 0;
	if (arguments->old.type == DT_DIR)
		return arguments->new.type == DT_DIR ? 0 : -ENOTDIR;
	return arguments->new.type == DT_DIR ? -EISDIR : 0;
}

static int put_renamed(struct store_txn *txn, void *user)
{
	struct rename_arguments *arguments = user;
	const struct namespace_rename *in = arguments->in;
	int error = 0;

	if (in->flags & RENAME_EXCHANGE) {
		error = entry_replace(txn, in->old_parent->ino, in->old_name, &arguments->old,
				      &arguments->new);
		return error != 0 ? error
				  : entry_replace(txn, in->new_parent->ino, in->new_name,
						  &arguments->new, &arguments->old);
	}
	if (arguments->replaces && arguments->new.type == DT_DIR)
		error = entry_none(txn, arguments->new.ino);
	if (error == 0)
		error = entry_remove(txn, in->old_parent->ino, in->old_name, &arguments->old);
	if (error != 0)
		return error;
	if (arguments->replaces)
		return entry_replace(txn, in->new_parent->ino, in->new_name, &arguments->new,
				     &arguments->old);
	error = entry_add(txn, in->new_parent->ino, in->new_name, &arguments->old);
	return error == -EEXIST ? -EAGAIN : error;
}

/* A directory went from one parent to another. */
static void move_directory(struct change *change, struct inode *inode, struct inode *from,
			   struct inode *to)
{
	change_attr(change, inode)->parent = to->ino;
	change_attr(change, from)->nlink--;
	change_attr(change, to)->nlink++;
}

static int rename_locked(struct change *change, struct rename_arguments *arguments)
{
	const struct namespace_rename *in = arguments->in;
	bool moves = in->old_parent != in->new_parent;
	bool exchanges = (in->flags & RENAME_EXCHANGE) != 0;

	change_touch_names(change, in->old_parent);
	change_touch_names(change, in->new_parent);
	change_touch(change, arguments->old_inode);
	if (moves && arguments->old.type == DT_DIR)
		move_directory(change, arguments->old_inode, in->old_parent, in->new_parent);
	if (exchanges) {
		change_touch(change, arguments->new_inode);
		if (moves && arguments->new.type == DT_DIR)
			move_directory(change, arguments->new_inode, in->new_parent,
				       in->old_parent);
	} else if (arguments->replaces) {
		change_drop_name(change, arguments->new_inode);
		if (arguments->new.type == DT_DIR)
			change_attr(change, in->new_parent)->nlink--;
	}
	if (change_attr(change, in->new_parent)->nlink > NAMESPACE_LINKS_MAX ||
	    change_attr(change, in->old_parent)->nlink > NAMESPACE_LINKS_MAX)
		return -EMLINK;
	return change_commit(change, put_renamed, arguments);
}

static int get_inodes(struct volume *volume, struct rename_arguments *arguments)
{
	int error = inode_get(volume, arguments->old.ino, &arguments->old_inode);

	if (error == 0 && arguments->replaces) {
		error = inode_get(volume, arguments->new.ino, &arguments->new_inode);
		if (error != 0)
			inode_unref(volume, arguments->old_inode, 1);
	}
	return error == -ENOENT ? -EIO : error;
}

/* The namespace lock is held: what is found stays so. */
static int check_target_parent(struct inode *directory)
{
	int error;

	pthread_mutex_lock(&directory->lock);
	error = namespace_check_parent(directory);
	pthread_mutex_unlock(&directory->lock);
	return error;
}

static int attempt_rename(struct change *change, void *user)
{
	struct rename_arguments *arguments = user;
	const struct namespace_rename *in = arguments->in;
	struct volume *volume = change->volume;
	int error = check_target_parent(in->new_parent);

	if (error == 0)
		error = look_up(volume, arguments);
	if (error == 0 && arguments->replaces && arguments->old.ino == arguments->new.ino)
		return 0; /* two names of one file stay as they are */
	if (error == 0)
		error = check_types(arguments);
	if (error == 0)
		error = check_places(volume, arguments);
	if (error != 0)
		return error;
	arguments->new_inode = NULL;
	error = get_inodes(volume, arguments);
	if (error != 0)
		return error;
	change_lock(change,
		    (struct inode *[]){in->old_parent, in->new_parent, arguments->old_inode,
				       arguments->new_inode},
		    4);
	error = rename_locked(change, arguments);
	change_unlock(change);
	inode_unref(volume, arguments->old_inode, 1);
	if (arguments->new_inode != NULL)
		inode_unref(volume, arguments->new_inode, 1);
	return error;
}

int namespace_rename(struct volume *volume, const struct namespace_rename *rename)
{
	struct rename_arguments arguments = {.in = rename};
	int error;

	if (rename->flags != 0 && rename->flags != RENAME_NOREPLACE &&
	    rename->flags != RENAME_EXCHANGE)
		return -EINVAL;
	error = namespace_check_name(rename->old_name);
	if (error == 0)
		error = namespace_check_name(rename->new_name);
	if (error != 0)
		return error;
	if (namespace_is_dots(rename->old_name) || namespace_is_dots(rename->new_name))
		return -EBUSY;
	error = namespace_check_directory(rename->old_parent);
	if (error == 0)
		error = namespace_check_directory(rename->new_parent);
	return error != 0 ? error : change_run(volume, attempt_rename, &arguments);
}
