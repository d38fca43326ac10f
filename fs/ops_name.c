/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/acl.h"
#include "fs/ops.h"

/* The kernel may remember that a name does not exist, too. */
static void reply_no_entry(fuse_req_t req)
{
	struct fuse_entry_param entry = {.entry_timeout = ops_timeout(ops_mount(req))};

	if (entry.entry_timeout > 0)
		fuse_reply_entry(req, &entry);
	else
		fuse_reply_err(req, ENOENT);
}

void ops_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct mount *mount = ops_mount(req);
	struct inode *directory = ops_inode(req, parent), *inode;
	int result;

	if (directory == NULL)
		return;
	result = namespace_lookup(mount->volume, directory, name, &inode);
	if (result == 0)
		ops_reply_inode(req, inode);
	else if (result == -ENOENT)
		reply_no_entry(req);
	else
		fuse_reply_err(req, -result);
	inode_unref(mount->volume, directory, 1);
}

static void create_and_reply(fuse_req_t req, fuse_ino_t parent, const char *name,
			     struct namespace_create *create)
{
	struct mount *mount = ops_mount(req);
	struct inode *directory = ops_inode(req, parent), *inode;
	int result;

	if (directory == NULL)
		return;
	create->caller = ops_caller(req);
	create->umask = ops_umask(req);
	result = namespace_create(mount->volume, directory, name, create, &inode);
	if (result == 0)
		ops_reply_inode(req, inode);
	else
		fuse_reply_err(req, -result);
	inode_unref(mount->volume, directory, 1);
}

void ops_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	create_and_reply(req, parent, name, &(struct namespace_create){.mode = mode, .rdev = rdev});
}

void ops_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	create_and_reply(req, parent, name,
			 &(struct namespace_create){.mode = S_IFDIR | (mode & 07777)});
}

void ops_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	create_and_reply(req, parent, name,
			 &(struct namespace_create){.mode = S_IFLNK | 0777, .target = target});
}

void ops_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	struct mount *mount = ops_mount(req);
	struct inode *inode = ops_inode(req, ino), *directory;
	int result;

	if (inode == NULL)
		return;
	directory = ops_inode(req, parent);
	if (directory == NULL) {
		inode_unref(mount->volume, inode, 1);
		return;
	}
	result = namespace_link(mount->volume, inode, directory, name);
	if (result == 0) {
		ops_reply_inode(req, inode); /* our reference becomes the kernel's */
	} else {
		fuse_reply_err(req, -result);
		inode_unref(mount->volume, inode, 1);
	}
	inode_unref(mount->volume, directory, 1);
}

static void remove_and_reply(fuse_req_t req, fuse_ino_t parent, const char *name,
			     int (*remove)(struct volume *, struct inode *, const char *))
{
	struct mount *mount = ops_mount(req);
	struct inode *directory = ops_inode(req, parent);

	if (directory == NULL)
		return;
	ops_reply_error(req, remove(mount->volume, directory, name));
	inode_unref(mount->volume, directory, 1);
}

void ops_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_and_reply(req, parent, name, namespace_unlink);
}

void ops_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_and_reply(req, parent, name, namespace_rmdir);
}

void ops_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
		const char *new_name, unsigned flags)
{
	struct mount *mount = ops_mount(req);
	struct namespace_rename rename = {
		.old_name = name,
		.new_name = new_name,
		.flags = flags,
	};

	rename.old_parent = ops_inode(req, parent);
	if (rename.old_parent == NULL)
		return;
	rename.new_parent = ops_inode(req, new_parent);
	if (rename.new_parent != NULL) {
		fuse_reply_err(req, -namespace_rename(mount->volume, &rename));
		inode_unref(mount->volume, rename.new_parent, 1);
	}
	inode_unref(mount->volume, rename.old_parent, 1);
}

void ops_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct mount *mount = ops_mount(req);
	struct inode *inode = ops_inode(req, ino);
	char target[4096];
	int result;

	if (inode == NULL)
		return;
	result = namespace_readlink(mount->volume, inode, target);
	if (result == 0)
		fuse_reply_readlink(req, target);
	else
		fuse_reply_err(req, -result);
	inode_unref(mount->volume, inode, 1);
}

void ops_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct mount *mount = ops_mount(req);
	struct inode *inode = ops_inode(req, ino);
	struct namespace_dir *dir;
	int result;

	if (inode == NULL)
		return;
	result = namespace_opendir(mount->volume, inode, &dir);
	inode_unref(mount->volume, inode, 1);
	if (result != 0) {
		fuse_reply_err(req, -result);
		return;
	}
	fi->fh = (uintptr_t)dir;
	fi->cache_readdir = mount->cache == MOUNT_CACHE_ALWAYS;
	fi->keep_cache = fi->cache_readdir;
	if (fuse_reply_open(req, fi) != 0)
		namespace_closedir(dir);
}

/* Size of the entry in the reply; more than `room` when it did not fit. A full entry carries a
 * reference, which is the kernel's unless the entry is "." or "..". */
static size_t add_plus(fuse_req_t req, char *buffer, size_t room,
		       const struct namespace_entry *found)
{
	struct mount *mount = ops_mount(req);
	struct fuse_entry_param entry = {
		.attr = {.st_ino = found->ino, .st_mode = found->type << 12},
	};
	struct inode *inode = NULL;
	size_t size;

	if (strcmp(found->name, ".") != 0 && strcmp(found->name, "..") != 0 &&
	    inode_get(mount->volume, found->ino, &inode) == 0)
		ops_fill_entry(mount, inode, &entry);
	/* Without an inode (removed since the snapshot) the kernel looks the name up when needed.
	 */
	size = fuse_add_direntry_plus(req, buffer, room, found->name, &entry, (off_t)found->next);
	if (size > room && inode != NULL)
		inode_unref(mount->volume, inode, 1);
	return size;
}

static size_t add_plain(fuse_req_t req, char *buffer, size_t room,
			const struct namespace_entry *found)
{
	struct stat st = {.st_ino = found->ino, .st_mode = found->type << 12};

	return fuse_add_direntry(req, buffer, room, found->name, &st, (off_t)found->next);
}

/* An answer that the kernel did not take: what it carried is ours again. */
static void take_back(struct mount *mount, const char *buffer, size_t used)
{
	for (size_t at = 0; at < used;) {
		const struct fuse_direntplus *plus = (const void *)(buffer + at);

		if (plus->entry_out.nodeid != 0)
			inode_forget(mount->volume, plus->entry_out.nodeid, 1);
		at += FUSE_DIRENTPLUS_SIZE(plus);
	}
}

typedef size_t add_entry(fuse_req_t, char *, size_t, const struct namespace_entry *);

static void read_directory(fuse_req_t req, size_t size, off_t offset,
			   const struct fuse_file_info *fi, add_entry *add)
{
	struct namespace_dir *dir = (struct namespace_dir *)(uintptr_t)fi->fh;
	char *buffer = (char *)channel_current()->payload;
	struct mount *mount = ops_mount(req);
	struct namespace_entry entry;
	uint64_t at = (uint64_t)offset;
	size_t used = 0, length;
	int result;

	if (size > DATA_TRANSFER_MAX)
		size = DATA_TRANSFER_MAX;
	while ((result = namespace_readdir(dir, at, &entry)) > 0) {
		length = add(req, buffer + used, size - used, &entry);
		if (length > size - used)
			break;
		used += length;
		at = entry.next;
	}
	if (result < 0 && used == 0)
		fuse_reply_err(req, -result);
	else if (fuse_reply_buf(req, buffer, used) != 0 && add == add_plus)
		take_back(mount, buffer, used);
}

void ops_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		 struct fuse_file_info *fi)
{
	(void)ino;
	read_directory(req, size, offset, fi, add_plain);
}

void ops_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		     struct fuse_file_info *fi)
{
	(void)ino;
	read_directory(req, size, offset, fi, add_plus);
}

void ops_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	namespace_closedir((struct namespace_dir *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
}

void ops_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
		  int flags)
{
	struct mount *mount = ops_mount(req);
	struct inode *inode = ops_inode(req, ino);
	struct namespace_xattr xattr = {
		.name = name,
		.value = value,
		.size = size,
		.flags = flags,
	};
	gid_t group;

	if (inode == NULL)
		return;
	if (strcmp(name, ACL_ACCESS_NAME) == 0) {
		pthread_mutex_lock(&inode->lock);
		group = inode->attr.gid;
		pthread_mutex_unlock(&inode->lock);
		xattr.drop_setgid = !ops_in_group(req, group);
	}
	ops_reply_error(req, namespace_setxattr(mount->volume, inode, &xattr));
	inode_unref(mount->volume, inode, 1);
}

/* Size asked for: 0 wants just the length. */
static void reply_xattr(fuse_req_t req, ssize_t result, size_t size)
{
	if (result < 0)
		fuse_reply_err(req, (int)-result);
	else if (size == 0)
		fuse_reply_xattr(req, (size_t)result);
	else
		fuse_reply_buf(req, (char *)channel_current()->payload, (size_t)result);
}

void ops_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct mount *mount = ops_mount(req);
	struct inode *inode = ops_inode(req, ino);

	if (inode == NULL)
		return;
	if (size > DATA_TRANSFER_MAX)
		size = DATA_TRANSFER_MAX;
	reply_xattr(
		req,
		namespace_getxattr(mount->volume, inode, name, channel_current()->payload, size),
		size);
	inode_unref(mount->volume, inode, 1);
}

void ops_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct mount *mount = ops_mount(req);
	struct inode *inode = ops_inode(req, ino);

	if (inode == NULL)
		return;
	if (size > DATA_TRANSFER_MAX)
		size = DATA_TRANSFER_MAX;
	reply_xattr(
		req,
		namespace_listxattr(mount->volume, inode, (char *)channel_current()->payload, size),
		size);
	inode_unref(mount->volume, inode, 1);
}

void ops_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	remove_and_reply(req, ino, name, namespace_removexattr);
}
