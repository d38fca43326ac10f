/* SPDX-License-Identifier: Apache-2.0 */
/* Open files: open, close, sync. */
#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "engine/base/log.h"
#include "fs/dirty.h"
#include "fs/ops.h"

/* Direct descriptors bypass the page cache wholly, which lets the kernel send several writes to one
 * file at a time; it keeps them coherent with cached and mapped access to the same file. */
static bool is_direct(const struct mount *mount, int flags)
{
	return mount->cache == MOUNT_CACHE_NONE || (flags & O_DIRECT) != 0;
}

/* A removed inode has no records any more that an open file could work on. */
static int count_open(struct inode *inode, struct open_file *file)
{
	int result = -ESTALE;

	pthread_mutex_lock(&inode->lock);
	if (!inode->removed) {
		inode->opens++;
		inode->writers += file->writable;
		file->errors_seen = dirty_error_mark(inode->dirty_file);
		result = 0;
	}
	pthread_mutex_unlock(&inode->lock);
	return result;
}

/* Takes over one reference on the inode, also when it fails. */
static int open_file_create(struct mount *mount, struct inode *inode, int flags,
			    struct open_file **result)
{
	struct open_file *file = malloc(sizeof(*file));
	int status = -ENOMEM;

	if (file != NULL) {
		file->inode = inode;
		file->writable = (flags & O_ACCMODE) != O_RDONLY;
		file->direct = is_direct(mount, flags);
		status = count_open(inode, file);
	}
	if (status != 0) {
		free(file);
		inode_unref(mount->volume, inode, 1);
		return status;
	}
	*result = file;
	return 0;
}

static void open_file_destroy(struct mount *mount, struct open_file *file)
{
	struct inode *inode = file->inode;

	pthread_mutex_lock(&inode->lock);
	inode->opens--;
	inode->writers -= file->writable;
	pthread_mutex_unlock(&inode->lock);
	inode_unref(mount->volume, inode, 1);
	free(file);
}

bool ops_has_writers(struct inode *inode)
{
	unsigned writers;

	pthread_mutex_lock(&inode->lock);
	writers = inode->writers;
	pthread_mutex_unlock(&inode->lock);
	return writers > 0;
}

void ops_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct mount *mount = ops_mount(req);
	struct inode *inode = ops_inode(req, ino);
	struct fuse_open_out out = {0};
	struct open_file *file;
	int result;

	if (inode == NULL)
		return;
	result = open_file_create(mount, inode, fi->flags, &file);
	if (result != 0) {
		ops_reply_error(req, result);
		return;
	}
	out.fh = (uintptr_t)file;
	if (file->direct)
		out.open_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
	else if (mount->cache == MOUNT_CACHE_ALWAYS)
		out.open_flags = FOPEN_KEEP_CACHE;
	if (!file->writable)
		out.open_flags |= FOPEN_NOFLUSH;
	/* Put together here because fuse_file_info of older libraries has no parallel writes. */
	if (fuse_reply_buf(req, (const char *)&out, sizeof(out)) != 0)
		open_file_destroy(mount, file);
}

void ops_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		struct fuse_file_info *fi)
{
	struct mount *mount = ops_mount(req);
	struct inode *directory = ops_inode(req, parent), *inode;
	struct namespace_create create = {
		.mode = S_IFREG | (mode & 07777),
		.umask = ops_umask(req),
		.caller = ops_caller(req),
	};
	struct fuse_entry_param entry;
	struct open_file *file;
	int result;

	if (directory == NULL)
		return;
	result = namespace_create(mount->volume, directory, name, &create, &inode);
	inode_unref(mount->volume, directory, 1);
	if (result != 0) {
		fuse_reply_err(req, -result);
		return;
	}
	inode_ref(mount->volume, inode); /* one for the file, one for the kernel's entry */
	result = open_file_create(mount, inode, fi->flags, &file);
	if (result != 0) {
		inode_unref(mount->volume, inode, 1);
		fuse_reply_err(req, -result);
		return;
	}
	fi->fh = (uintptr_t)file;
	fi->direct_io = file->direct;
	fi->keep_cache = mount->cache == MOUNT_CACHE_ALWAYS;
	ops_fill_entry(mount, inode, &entry);
	if (fuse_reply_create(req, &entry, fi) != 0) {
		open_file_destroy(mount, file);
		inode_unref(mount->volume, inode, 1);
	}
}

/* --- Sync ------------------------------------------------------------------------------------- */

/* `then` is called on this thread; its user is the file. */
static void start_data(struct channel_request *request, struct open_file *file, enum data_kind kind,
		       void (*then)(struct data_request *data, int status))
{
	struct data_request *data = &request->data;

	data->kind = kind;
	data->flags = 0;
	data->inode = file->inode;
	data->offset = data->length = 0;
	data->done = then;
	data->user = file;
	atomic_store_explicit(&data->interrupted, false, memory_order_relaxed);
	data_start(channel_data(request->channel), data);
}

/* What was flushed needs its sizes and mapping in the store. The error of a flush that failed comes
 * once for each open file. */
static int sync_metadata(struct channel_request *request, struct open_file *file)
{
	int result = inode_flush(channel_mount(request->channel)->volume, file->inode), error;

	pthread_mutex_lock(&file->inode->lock);
	error = dirty_error_take(file->inode->dirty_file, &file->errors_seen);
	pthread_mutex_unlock(&file->inode->lock);
	return error != 0 ? error : result;
}

static void close_synced(struct data_request *data, int status)
{
	struct channel_request *request = RMEM_CONTAINER_OF(data, struct channel_request, data);

	(void)status;
	fuse_reply_err(request->fuse, -sync_metadata(request, data->user));
	channel_release(request);
}

/* Nothing of a file without a name is wanted after a crash. */
void ops_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct channel_request *request = channel_current();
	struct open_file *file = ops_open_file(fi);
	bool named;

	(void)ino;
	pthread_mutex_lock(&file->inode->lock);
	named = file->inode->attr.nlink > 0;
	pthread_mutex_unlock(&file->inode->lock);
	channel_keep(request, req);
	if (named) {
		start_data(request, file, DATA_SYNC, close_synced);
	} else {
		fuse_reply_err(req, -sync_metadata(request, file));
		channel_release(request);
	}
}

static void synced(struct volume_sync *sync, int status)
{
	struct channel_request *request = RMEM_CONTAINER_OF(sync, struct channel_request, sync);

	fuse_reply_err(request->fuse, -status);
	channel_release_remote(request);
}

static void sync_store(struct channel_request *request)
{
	request->sync.done = synced;
	volume_sync(channel_mount(request->channel)->volume, &request->sync);
}

static void data_synced(struct data_request *data, int status)
{
	struct channel_request *request = RMEM_CONTAINER_OF(data, struct channel_request, data);
	int result = sync_metadata(request, data->user);

	(void)status;
	if (result != 0) {
		fuse_reply_err(request->fuse, -result);
		channel_release(request);
	} else {
		sync_store(request);
	}
}

void ops_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct channel_request *request = channel_current();

	(void)ino;
	(void)datasync; /* size and mapping are data's, and the times come along */
	channel_keep(request, req);
	start_data(request, ops_open_file(fi), DATA_SYNC, data_synced);
}

void ops_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct channel_request *request = channel_current();

	(void)ino;
	(void)datasync;
	(void)fi;
	channel_keep(request, req);
	sync_store(request);
}

/* --- Close ------------------------------------------------------------------------------------ */

static void close_file(struct channel_request *request, struct open_file *file)
{
	struct mount *mount = channel_mount(request->channel);

	/* What was written through a mapping after the last close() came after the last flush. An
	 * error stays with the inode, which is tried again, and shows at the next fsync. */
	if (inode_flush(mount->volume, file->inode) != 0)
		rmem_log_warn(RMEM_LOG_FS, "inode %llu: metadata not stored yet, will be retried",
			      (unsigned long long)file->inode->ino);
	pthread_mutex_lock(&file->inode->lock);
	if (file->inode->opens == 1)
		extent_forget(file->inode);
	pthread_mutex_unlock(&file->inode->lock);
	open_file_destroy(mount, file);
	fuse_reply_err(request->fuse, 0);
	channel_release(request);
}

static void trimmed(struct data_request *data, int status)
{
	struct channel_request *request = RMEM_CONTAINER_OF(data, struct channel_request, data);

	(void)status; /* what could not be given back now is given back at the next close */
	close_file(request, data->user);
}

static void flushed(struct data_request *data, int status)
{
	struct channel_request *request = RMEM_CONTAINER_OF(data, struct channel_request, data);
	struct open_file *file = data->user;
	struct inode *inode = file->inode;
	bool trim;

	(void)status;
	pthread_mutex_lock(&inode->lock);
	trim = file->writable && inode->writers == 1 && inode->attr.nlink > 0 &&
	       extent_wants_trim(inode);
	pthread_mutex_unlock(&inode->lock);
	if (trim)
		start_data(request, file, DATA_TRIM, trimmed);
	else
		close_file(request, file);
}

/* Nobody will read what is dirty in a file without a name that nobody else has open; and who only
 * read leaves the flush to those who write. */
void ops_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct channel_request *request = channel_current();
	struct open_file *file = ops_open_file(fi);
	struct inode *inode = file->inode;
	bool last, discard;

	(void)ino;
	channel_keep(request, req);
	pthread_mutex_lock(&inode->lock);
	last = inode->opens == 1;
	discard = last && inode->attr.nlink == 0 && dirty_any(inode->dirty_file);
	pthread_mutex_unlock(&inode->lock);
	if (file->writable || last)
		start_data(request, file, discard ? DATA_DISCARD : DATA_SYNC, flushed);
	else
		close_file(request, file);
}
