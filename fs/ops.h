/* SPDX-License-Identifier: Apache-2.0 */
/* The FUSE operation table: decode, call, reply. ops.c holds the table and attributes, ops_name.c
 * names, directories and extended attributes, ops_file.c open files, ops_io.c reads and writes,
 * ops_space.c size and space. Handlers run on the reactor thread that took the request and end it
 * there, but for what waits for a disk or for the kernel.
 */
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include "fs/channel.h"
#include "fs/inode.h"
#include "fs/mount.h"
#include "fs/namespace.h"

extern const struct fuse_lowlevel_ops ops_table;

/* An open file description; fuse_file_info.fh points to it. */
struct open_file {
	struct inode *inode; /* holds a reference */
	bool writable;
	bool direct;	      /* the kernel does not cache what goes through it */
	uint32_t errors_seen; /* of flushes, see dirty_error_mark(); inode->lock */
};

static inline struct mount *ops_mount(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static inline struct open_file *ops_open_file(const struct fuse_file_info *fi)
{
	return (struct open_file *)(uintptr_t)fi->fh;
}

/* How long the kernel may keep entries and attributes, in seconds. */
double ops_timeout(const struct mount *mount);

void ops_fill_stat(struct inode *inode, struct stat *st); /* takes inode->lock */
void ops_fill_entry(const struct mount *mount, struct inode *inode, struct fuse_entry_param *entry);
/* Replies with an entry for `inode`, whose reference becomes the kernel's. */
void ops_reply_inode(fuse_req_t req, struct inode *inode);

/* Replies -error when the inode can't be had, and returns NULL. */
struct inode *ops_inode(fuse_req_t req, fuse_ino_t ino);

/* Replies -error about an inode that was asked for by number. */
void ops_reply_error(fuse_req_t req, int result);

/* What the caller's identity means for new files. */
/* What is left to us to take from the mode of new inodes. */
mode_t ops_umask(fuse_req_t req);
/* Whether the caller is in the group, or may do as if. */
bool ops_in_group(fuse_req_t req, gid_t gid);
struct namespace_caller ops_caller(fuse_req_t req);

/* security.capability goes when the owner or the content changes. */
void ops_drop_capability(struct mount *mount, struct inode *inode);

/* --- For ops_io.c and ops_space.c ------------------------------------------------------------- */

/* Whether somebody has the file open for writing; takes inode->lock. */
bool ops_has_writers(struct inode *inode);

/* What follows the header in the message that the request came in. */
const void *ops_message_body(const struct channel_request *request);

/* Keeps the request, and fills in what all data requests have in common. */
struct data_request *ops_prepare(struct channel_request *request, fuse_req_t req,
				 enum data_kind kind, struct inode *inode);

/* Lets an interrupt end the wait for a lost server, on mounts that wait. */
void ops_allow_interrupt(struct mount *mount, fuse_req_t req, struct data_request *data);

/* Replies and releases; when the change took privileges from the file, the kernel is told first. */
void ops_reply_changed(struct channel_request *request, int status,
		       void (*reply)(struct channel_request *request, int status));

/* --- Handlers --------------------------------------------------------------------------------- */

void ops_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void ops_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void ops_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void ops_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void ops_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name);
void ops_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void ops_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void ops_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
		const char *new_name, unsigned flags);
void ops_readlink(fuse_req_t req, fuse_ino_t ino);
void ops_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		 struct fuse_file_info *fi);
void ops_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		     struct fuse_file_info *fi);
void ops_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
		  int flags);
void ops_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void ops_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void ops_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);

void ops_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		struct fuse_file_info *fi);
void ops_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void ops_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset,
	       struct fuse_file_info *fi);
void ops_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void ops_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void ops_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
		   struct fuse_file_info *fi);
void ops_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi);
void ops_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t in, struct fuse_file_info *fi_in,
			 fuse_ino_t ino_out, off_t out, struct fuse_file_info *fi_out, size_t size,
			 int flags);
/* setattr with a size goes through the data path. `req` is answered. */
void ops_truncate(fuse_req_t req, struct inode *inode, const struct inode_attr *attr,
		  unsigned mask);
