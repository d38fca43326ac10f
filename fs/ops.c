/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops.h"

#include <errno.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "engine/base/log.h"
#include "fs/groups.h"

/* "For good": nobody else changes the volume. */
#define FOREVER_SECONDS 31536000.0

double ops_timeout(const struct mount *mount)
{
	return mount->cache == MOUNT_CACHE_ALWAYS ? FOREVER_SECONDS : 0.0;
}

static struct timespec to_timespec(int64_t ns)
{
	struct timespec time = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

	if (time.tv_nsec < 0) { /* before 1970 */
		time.tv_nsec += 1000000000;
		time.tv_sec--;
	}
	return time;
}

/* What does not fit, before 1677 and after 2262, becomes the nearest that does. */
static int64_t to_ns(struct timespec time)
{
	int64_t ns;

	if (__builtin_mul_overflow((int64_t)time.tv_sec, 1000000000, &ns) ||
	    __builtin_add_overflow(ns, (int64_t)time.tv_nsec, &ns))
		return time.tv_sec < 0 ? INT64_MIN : INT64_MAX;
	return ns;
}

static void stat_of(const struct inode *inode, const struct inode_attr *attr, struct stat *st)
{
	*st = (struct stat){
		.st_ino = inode->ino,
		.st_mode = attr->mode,
		.st_nlink = attr->nlink,
		.st_uid = attr->uid,
		.st_gid = attr->gid,
		.st_rdev = attr->rdev,
		.st_size = (off_t)attr->size,
		.st_blksize = VOLUME_PAGE_BYTES,
		.st_blocks = (blkcnt_t)(attr->pages * (VOLUME_PAGE_BYTES / 512)),
		.st_atim = to_timespec(attr->atime_ns),
		.st_mtim = to_timespec(attr->mtime_ns),
		.st_ctim = to_timespec(attr->ctime_ns),
	};
}

static struct inode_attr attr_of(struct inode *inode)
{
	struct inode_attr attr;

	pthread_mutex_lock(&inode->lock);
	attr = inode->attr;
	pthread_mutex_unlock(&inode->lock);
	return attr;
}

void ops_fill_stat(struct inode *inode, struct stat *st)
{
	const struct inode_attr attr = attr_of(inode);

	stat_of(inode, &attr, st);
}

void ops_fill_entry(const struct mount *mount, struct inode *inode, struct fuse_entry_param *entry)
{
	const struct inode_attr attr = attr_of(inode);

	*entry = (struct fuse_entry_param){
		.ino = inode->ino,
		.generation = attr.generation,
		.attr_timeout = ops_timeout(mount),
		.entry_timeout = ops_timeout(mount),
	};
	stat_of(inode, &attr, &entry->attr);
}

void ops_reply_inode(fuse_req_t req, struct inode *inode)
{
	struct mount *mount = ops_mount(req);
	struct fuse_entry_param entry;

	ops_fill_entry(mount, inode, &entry);
	if (fuse_reply_entry(req, &entry) != 0)
		inode_unref(mount->volume, inode,
			    1); /* interrupted: the kernel has no such entry */
}

struct inode *ops_inode(fuse_req_t req, fuse_ino_t ino)
{
	struct inode *inode;
	int result = inode_get(ops_mount(req)->volume, ino, &inode);

	if (result == 0)
		return inode;
	fuse_reply_err(req, result == -ENOENT ? ESTALE : -result);
	return NULL;
}

void ops_reply_error(fuse_req_t req, int result)
{
	if (RMEM_UNLIKELY(result == -ESTALE))
		namespace_met_removed(ops_mount(req)->volume);
	fuse_reply_err(req, -result);
}

struct namespace_caller ops_caller(fuse_req_t req)
{
	const struct fuse_ctx *context = fuse_req_ctx(req);

	return (struct namespace_caller){.uid = context->uid, .gid = context->gid};
}

mode_t ops_umask(fuse_req_t req)
{
	return ops_mount(req)->access_lists ? fuse_req_ctx(req)->umask : 0;
}

bool ops_in_group(fuse_req_t req, gid_t gid)
{
	const struct fuse_ctx *context = fuse_req_ctx(req);

	return context->uid == 0 || context->gid == gid ||
	       groups_of_process_have(context->pid, gid);
}

void ops_drop_capability(struct mount *mount, struct inode *inode)
{
	static const char name[] = "security.capability";

	if (RMEM_LIKELY(attr_of(inode).xattr_count == 0))
		return; /* a racing setxattr is ordered after us */
	if (namespace_getxattr(mount->volume, inode, name, NULL, 0) < 0)
		return;
	if (namespace_removexattr(mount->volume, inode, name) != 0)
		rmem_log_warn(RMEM_LOG_FS, "inode %llu keeps its file capabilities: store error",
			      (unsigned long long)inode->ino);
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct mount *mount = userdata;

	conn->max_write = DATA_TRANSFER_MAX;
	conn->max_readahead = DATA_TRANSFER_MAX;
	conn->max_background = 64;
	conn->congestion_threshold = 48;
	conn->want |= conn->capable &
		      (FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS |
		       FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO);
	/* We read and write the device ourselves. O_TRUNC comes as a setattr, which is able to wait
	 * for what is in flight. Dropping privileges is asked for per write, see session.c. */
	conn->want &=
		~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE |
			    FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_HANDLE_KILLPRIV |
			    FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS);
	conn->want &= ~(unsigned)FUSE_CAP_WRITEBACK_CACHE;
	if (mount->cache == MOUNT_CACHE_ALWAYS) {
		conn->want &= ~(unsigned)FUSE_CAP_AUTO_INVAL_DATA;
		conn->want |=
			conn->capable & (FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_EXPLICIT_INVAL_DATA);
		if (mount->writeback_wanted)
			conn->want |= conn->capable & FUSE_CAP_WRITEBACK_CACHE;
	}
	/* Access lists make the kernel check access, whether or not it was asked to. */
	if (mount->default_permissions)
		conn->want |= conn->capable & (FUSE_CAP_POSIX_ACL | FUSE_CAP_DONT_MASK);
	mount->access_lists = (conn->want & FUSE_CAP_POSIX_ACL) != 0;
	mount->writeback = (conn->want & FUSE_CAP_WRITEBACK_CACHE) != 0;
	mount->ready(mount);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
	inode_forget(ops_mount(req)->volume, ino, count);
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		inode_forget(ops_mount(req)->volume, forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

static void reply_attr(fuse_req_t req, struct inode *inode)
{
	struct stat st;

	ops_fill_stat(inode, &st);
	fuse_reply_attr(req, &st, ops_timeout(ops_mount(req)));
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct inode *inode = ops_inode(req, ino);

	(void)fi;
	if (inode == NULL)
		return;
	struct mount *mount = ops_mount(req);
	reply_attr(req, inode);
	inode_unref(mount->volume, inode, 1);
}

static unsigned decode_setattr(const struct stat *st, int to_set, struct inode_attr *attr)
{
	int64_t now = inode_now_ns();
	unsigned mask = 0;

	attr->mode = st->st_mode;
	attr->uid = st->st_uid;
	attr->gid = st->st_gid;
	attr->size = (uint64_t)st->st_size;
	attr->atime_ns = to_set & FUSE_SET_ATTR_ATIME_NOW ? now : to_ns(st->st_atim);
	attr->mtime_ns = to_set & FUSE_SET_ATTR_MTIME_NOW ? now : to_ns(st->st_mtim);
	attr->ctime_ns = to_ns(st->st_ctim);
	if (to_set & FUSE_SET_ATTR_MODE)
		mask |= NAMESPACE_MODE;
	if (to_set & FUSE_SET_ATTR_UID)
		mask |= NAMESPACE_UID;
	if (to_set & FUSE_SET_ATTR_GID)
		mask |= NAMESPACE_GID;
	if (to_set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_ATIME_NOW))
		mask |= NAMESPACE_ATIME;
	if (to_set & (FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW))
		mask |= NAMESPACE_MTIME;
	if (to_set & FUSE_SET_ATTR_CTIME)
		mask |= NAMESPACE_CTIME;
	return mask;
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set,
		       struct fuse_file_info *fi)
{
	struct mount *mount = ops_mount(req);
	struct inode *inode = ops_inode(req, ino);
	struct inode_attr attr = {0};
	unsigned mask;
	int result = 0;

	(void)fi;
	if (inode == NULL)
		return;
	mask = decode_setattr(st, to_set, &attr);
	if (mask & (NAMESPACE_UID | NAMESPACE_GID))
		ops_drop_capability(mount, inode);
	if (to_set & FUSE_SET_ATTR_SIZE) {
		ops_truncate(req, inode, &attr, mask); /* drops the reference */
		return;
	}
	if (mask != 0)
		result = namespace_setattr(mount->volume, inode, &attr, mask);
	if (result == 0)
		reply_attr(req, inode);
	else
		ops_reply_error(req, result);
	inode_unref(mount->volume, inode, 1);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct volume_usage usage;
	struct statvfs st;

	(void)ino;
	volume_usage(ops_mount(req)->volume, &usage);
	st = (struct statvfs){
		.f_bsize = VOLUME_PAGE_BYTES,
		.f_frsize = VOLUME_PAGE_BYTES,
		.f_blocks = usage.pages_total,
		.f_bfree = usage.pages_free,
		.f_bavail = usage.pages_available,
		.f_files = usage.inodes + usage.pages_available, /* only the store bounds them */
		.f_ffree = usage.pages_available,
		.f_favail = usage.pages_available,
		.f_namemax = VOLUME_NAME_MAX,
	};
	fuse_reply_statfs(req, &st);
}

const struct fuse_lowlevel_ops ops_table = {
	.init = op_init,
	.lookup = ops_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.readlink = ops_readlink,
	.mknod = ops_mknod,
	.mkdir = ops_mkdir,
	.unlink = ops_unlink,
	.rmdir = ops_rmdir,
	.symlink = ops_symlink,
	.rename = ops_rename,
	.link = ops_link,
	.open = ops_open,
	.read = ops_read,
	.write = ops_write,
	.flush = ops_flush,
	.release = ops_release,
	.fsync = ops_fsync,
	.opendir = ops_opendir,
	.readdir = ops_readdir,
	.readdirplus = ops_readdirplus,
	.releasedir = ops_releasedir,
	.fsyncdir = ops_fsyncdir,
	.statfs = op_statfs,
	.setxattr = ops_setxattr,
	.getxattr = ops_getxattr,
	.listxattr = ops_listxattr,
	.removexattr = ops_removexattr,
	.create = ops_create,
	.fallocate = ops_fallocate,
	.copy_file_range = ops_copy_file_range,
	.lseek = ops_lseek,
};
