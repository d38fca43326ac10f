/* SPDX-License-Identifier: Apache-2.0 */
/* Looking up, linking and removing names. namespace_create.c, namespace_rename.c, namespace_attr.c,
 * namespace_xattr.c and namespace_dir.c have the rest.
 *
 * Lookups take no lock: they read a name and then get the inode it stands for. When that inode has
 * gone meanwhile, the name was removed, or replaced by another: looking again tells. */
#include "fs/namespace.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/log.h"
#include "fs/change.h"
#include "fs/inode_table.h"
#include "fs/namespace_check.h"

#define LOOKUPS_MAX 100

static int lookup_dots(struct volume *volume, struct inode *directory, const char *name,
		       struct inode **inode)
{
	uint64_t parent;

	if (name[1] == '\0') {
		inode_ref(volume, directory);
		*inode = directory;
		return 0;
	}
	pthread_mutex_lock(&directory->lock);
	parent = directory->attr.parent;
	pthread_mutex_unlock(&directory->lock);
	return inode_get(volume, parent, inode);
}

int namespace_lookup(struct volume *volume, struct inode *parent, const char *name,
		     struct inode **inode)
{
	struct entry entry;
	unsigned turn;
	int error = namespace_check_name(name);

	if (error == 0)
		error = namespace_check_directory(parent);
	if (error != 0)
		return error;
	if (namespace_is_dots(name))
		return lookup_dots(volume, parent, name, inode);
	for (turn = 0; turn < LOOKUPS_MAX; turn++) {
		error = entry_lookup(volume->store, parent->ino, name, &entry);
		if (error == 0)
			error = inode_get(volume, entry.ino, inode);
		else
			return error;
		if (RMEM_LIKELY(error != -ENOENT))
			return error;
	}
	rmem_log_error(RMEM_LOG_FS,
		       "a name in directory inode %llu stands for inode %llu, "
		       "which does not exist: check the volume",
		       (unsigned long long)parent->ino, (unsigned long long)entry.ino);
	return -EIO;
}

/* --- Removed while they were looked for ---------------------------------------------------------
 */

#define LINGER_NS 1000000000 /* from the answer to the kernel's second try: usually 100 us */

void namespace_met_removed(struct volume *volume)
{
	pthread_mutex_lock(&volume->namespace_lock);
	volume->linger_until_ns = inode_now_ns() + LINGER_NS;
	pthread_mutex_unlock(&volume->namespace_lock);
}

/* --- Links ------------------------------------------------------------------------------------ */

struct link_arguments {
	struct inode *inode, *parent;
	const char *name;
};

static int put_link(struct store_txn *txn, void *user)
{
	struct link_arguments *arguments = user;
	struct entry entry = {
		.ino = arguments->inode->ino,
		.type = IFTODT(arguments->inode->attr.mode),
	};

	return entry_add(txn, arguments->parent->ino, arguments->name, &entry);
}

static int link_locked(struct change *change, struct link_arguments *arguments)
{
	struct inode_attr *attr = change_attr(change, arguments->inode);
	int error = namespace_check_parent(arguments->parent);

	if (error != 0)
		return error;
	if (S_ISDIR(attr->mode))
		return -EPERM;
	if (attr->nlink == 0)
		return -ENOENT;
	if (attr->nlink >= NAMESPACE_LINKS_MAX)
		return -EMLINK;
	attr->nlink++;
	change_touch(change, arguments->inode);
	change_touch_names(change, arguments->parent);
	return change_commit(change, put_link, arguments);
}

static int attempt_link(struct change *change, void *user)
{
	struct link_arguments *arguments = user;
	int error;

	change_lock(change, (struct inode *[]){arguments->inode, arguments->parent}, 2);
	error = link_locked(change, arguments);
	change_unlock(change);
	return error;
}

int namespace_link(struct volume *volume, struct inode *inode, struct inode *parent,
		   const char *name)
{
	struct link_arguments arguments = {.inode = inode, .parent = parent, .name = name};
	int error = namespace_check_name(name);

	if (error == 0 && namespace_is_dots(name))
		error = -EEXIST;
	return error != 0 ? error : change_run(volume, attempt_link, &arguments);
}

/* --- Removing --------------------------------------------------------------------------------- */

struct remove_arguments {
	struct inode *parent;
	const char *name;
	bool directory;
	struct entry entry;
};

static int put_removed(struct store_txn *txn, void *user)
{
	struct remove_arguments *arguments = user;
	int error = 0;

	if (arguments->directory)
		error = entry_none(txn, arguments->entry.ino);
	if (error == 0)
		error = entry_remove(txn, arguments->parent->ino, arguments->name,
				     &arguments->entry);
	return error;
}

static int remove_locked(struct change *change, struct remove_arguments *arguments,
			 struct inode *inode)
{
	if (arguments->directory)
		change_attr(change, arguments->parent)->nlink--;
	change_drop_name(change, inode);
	change_touch_names(change, arguments->parent);
	return change_commit(change, put_removed, arguments);
}

static int attempt_remove(struct change *change, void *user)
{
	struct remove_arguments *arguments = user;
	struct volume *volume = change->volume;
	struct inode *inode;
	int error = entry_lookup(volume->store, arguments->parent->ino, arguments->name,
				 &arguments->entry);

	if (error != 0)
		return error;
	if (arguments->directory && arguments->entry.type != DT_DIR)
		return -ENOTDIR;
	if (!arguments->directory && arguments->entry.type == DT_DIR)
		return -EISDIR;
	error = inode_get(volume, arguments->entry.ino, &inode);
	if (error != 0)
		return error == -ENOENT ? -EIO : error;
	change_lock(change, (struct inode *[]){arguments->parent, inode}, 2);
	error = remove_locked(change, arguments, inode);
	change_unlock(change);
	inode_unref(volume, inode, 1);
	return error;
}

static int remove_name(struct volume *volume, struct remove_arguments *arguments)
{
	int error = namespace_check_name(arguments->name);

	if (error == 0)
		error = namespace_check_directory(arguments->parent);
	return error != 0 ? error : change_run(volume, attempt_remove, arguments);
}

int namespace_unlink(struct volume *volume, struct inode *parent, const char *name)
{
	struct remove_arguments arguments = {.parent = parent, .name = name};

	return namespace_is_dots(name) ? -EISDIR : remove_name(volume, &arguments);
}

int namespace_rmdir(struct volume *volume, struct inode *parent, const char *name)
{
	struct remove_arguments arguments = {.parent = parent, .name = name, .directory = true};

	if (namespace_is_dots(name))
		return name[1] == '\0' ? -EINVAL : -ENOTEMPTY;
	return remove_name(volume, &arguments);
}
