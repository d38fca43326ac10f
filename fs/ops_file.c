/* SPDX-License-Identifier: Apache-2.0 */
/* Open files. Reads and writes answer from the reactor that took them, when their batch has ended.
 */
#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "engine/base/log.h"
#include "fs/ops.h"

static const void *message_body(const struct channel_request *request)
{
	return (const uint8_t *)request->message + sizeof(struct fuse_in_header);
}

/* --- Open and close --------------------------------------------------------------------------- */

/* Direct descriptors bypass the page cache wholly, which lets the kernel send several writes to one
 * file at a time; it keeps them coherent with cached and mapped access to the same file. */
static bool is_direct(const struct mount *mount, int flags)
{
	return mount->cache == MOUNT_CACHE_NONE || (flags & O_DIRECT) != 0;
}

/* A removed inode has no records any more that an open file could work on. */
static int count_open(struct inode *inode, bool writable)
{
	int result = -ESTALE;

	pthread_mutex_lock(&inode->lock);
	if (!inode->removed) {
		inode->opens++;
		inode->writers += writable;
		result = 0;
	}
	pthread_mutex_unlock(&inode->lock);
	return result;
}

/* Takes over one reference on the inode, also when it fails. */
static int open_file_create(struct mount *mount, struct inode *inode, int flags,
			    struct open_file **result)
{
	bool writable = (flags & O_ACCMODE) != O_RDONLY;
	struct open_file *file = malloc(sizeof(*file));
	int status = file == NULL ? -ENOMEM : count_open(inode, writable);

	if (status != 0) {
		free(file);
		inode_unref(mount->volume, inode, 1);
		return status;
	}
	file->inode = inode;
	file->writable = writable;
	file->direct = is_direct(mount, flags);
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
		fuse_reply_err(req, -result);
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

void ops_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	fuse_reply_err(req, -inode_flush(ops_mount(req)->volume, ops_open_file(fi)->inode));
}

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

void ops_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct channel_request *request = channel_current();
	struct open_file *file = ops_open_file(fi);
	bool trim;

	(void)ino;
	channel_keep(request, req);
	pthread_mutex_lock(&file->inode->lock);
	trim = file->writable && file->inode->writers == 1 && file->inode->attr.nlink > 0 &&
	       extent_wants_trim(file->inode);
	pthread_mutex_unlock(&file->inode->lock);
	if (!trim) {
		close_file(request, file);
		return;
	}
	request->data = (struct data_request){
		.kind = DATA_TRIM,
		.inode = file->inode,
		.done = trimmed,
		.user = file,
	};
	data_start(channel_data(request->channel), &request->data);
}

/* --- Read and write --------------------------------------------------------------------------- */

static void set_interrupted(fuse_req_t req, void *user)
{
	struct data_request *data = user;

	(void)req;
	atomic_store_explicit(&data->interrupted, true, memory_order_relaxed);
}

/* Prepares what reads, writes and their like have in common. */
static struct data_request *prepare(struct channel_request *request, fuse_req_t req,
				    enum data_kind kind, struct inode *inode)
{
	struct data_request *data = &request->data;

	channel_keep(request, req);
	data->kind = kind;
	data->flags = 0;
	data->inode = inode;
	data->buffer = request->payload;
	atomic_store_explicit(&data->interrupted, false, memory_order_relaxed);
	return data;
}

static void read_again(struct rmem_call *call)
{
	struct channel_request *request = RMEM_CONTAINER_OF(call, struct channel_request, data.call);

	data_start(channel_data(request->channel), &request->data);
}

static void write_back_and_read(struct volume_job *job)
{
	struct channel_request *request = RMEM_CONTAINER_OF(job, struct channel_request, job);
	struct mount *mount = channel_mount(request->channel);

	fuse_lowlevel_notify_inval_inode(mount->session, request->data.inode->ino, 0, 0);
	request->data.call.fn = read_again;
	rmem_reactor_call(channel_reactor(request->channel), &request->data.call);
}

/* A direct read that ended early may have met a hole below a new end of the file that only the
 * kernel knows: it writes back the pages of the range alone before it asks. Once it has written the
 * rest, sizes agree. */
static bool is_end_in_doubt(const struct channel_request *request)
{
	const struct open_file *file = request->data.user;

	return file->direct && channel_mount(request->channel)->writeback &&
	       file->inode->writers > 0 && !request->refreshed;
}

static void read_done(struct data_request *data, int status)
{
	struct channel_request *request = RMEM_CONTAINER_OF(data, struct channel_request, data);

	if (RMEM_UNLIKELY(status == 0 && data->transferred < data->length) &&
	    is_end_in_doubt(request)) {
		request->refreshed = true;
		request->job.run = write_back_and_read;
		volume_defer(channel_mount(request->channel)->volume, &request->job);
		return;
	}
	if (RMEM_LIKELY(status == 0))
		fuse_reply_buf(request->fuse, (char *)data->buffer, data->transferred);
	else
		fuse_reply_err(request->fuse, -status);
	channel_release(request);
}

/* Only a request that has to wait for a server can be interrupted; the registration costs a lock,
 * so it is made only on mounts that wait. */
static void allow_interrupt(struct mount *mount, fuse_req_t req, struct data_request *data)
{
	if (data_waits(mount->data))
		fuse_req_interrupt_func(req, set_interrupted, data);
}

void ops_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct channel_request *request = channel_current();
	struct data_request *data = prepare(request, req, DATA_READ, ops_open_file(fi)->inode);

	(void)ino;
	data->offset = (uint64_t)offset;
	data->length = rmem_min_u64(size, DATA_TRANSFER_MAX);
	data->done = read_done;
	data->user = ops_open_file(fi);
	request->refreshed = false;
	allow_interrupt(ops_mount(req), req, data);
	data_start(channel_data(request->channel), data);
}

static void reply_count(struct channel_request *request, int status)
{
	if (RMEM_LIKELY(status == 0))
		fuse_reply_write(request->fuse, request->data.transferred);
	else
		fuse_reply_err(request->fuse, -status);
}

static void tell_dropped(struct volume_job *job)
{
	struct channel_request *request = RMEM_CONTAINER_OF(job, struct channel_request, job);
	struct mount *mount = channel_mount(request->channel);

	fuse_lowlevel_notify_inval_inode(mount->session, request->data.inode->ino, -1, 0);
	request->dropped.reply(request, request->dropped.status);
	channel_release_remote(request);
}

/* Replies and releases. When the change took privileges from the file, the kernel, which caches the
 * mode, is told first. Invalidations are sent from a thread that serves no requests, so that they can
 * never wait for themselves. */
static void reply_changed(struct channel_request *request, int status,
			  void (*reply)(struct channel_request *request, int status))
{
	if (RMEM_UNLIKELY(request->data.dropped)) {
		request->dropped.reply = reply;
		request->dropped.status = status;
		request->job.run = tell_dropped;
		volume_defer(channel_mount(request->channel)->volume, &request->job);
		return;
	}
	reply(request, status);
	channel_release(request);
}

static void write_done(struct data_request *data, int status)
{
	reply_changed(RMEM_CONTAINER_OF(data, struct channel_request, data), status, reply_count);
}

void ops_write(fuse_req_t req, fuse_ino_t ino, const char *payload, size_t size, off_t offset,
	       struct fuse_file_info *fi)
{
	struct channel_request *request = channel_current();
	const struct fuse_write_in *in = message_body(request);
	struct mount *mount = ops_mount(req);
	struct inode *inode = ops_open_file(fi)->inode;
	struct data_request *data = prepare(request, req, DATA_WRITE, inode);

	(void)ino;
	data->buffer = (uint8_t *)(uintptr_t)payload;
	data->offset = (uint64_t)offset;
	data->length = size;
	data->done = write_done;
	if (fi->writepage && mount->writeback)
		data->flags |= DATA_KEEP_TIMES;
	if (mount->killpriv_v2 ? (in->write_flags & FUSE_WRITE_KILL_SUIDGID) != 0 : !fi->writepage)
		data->flags |= DATA_DROP_PRIVILEGES;
	ops_drop_capability(mount, inode);
	allow_interrupt(mount, req, data);
	data_start(channel_data(request->channel), data);
}

/* --- Sync ------------------------------------------------------------------------------------- */

static void synced(struct volume_sync *sync, int status)
{
	struct channel_request *request = RMEM_CONTAINER_OF(sync, struct channel_request, sync);

	fuse_reply_err(request->fuse, -status);
	channel_release_remote(request);
}

static void sync_and_reply(fuse_req_t req)
{
	struct channel_request *request = channel_current();

	channel_keep(request, req);
	request->sync.done = synced;
	volume_sync(ops_mount(req)->volume, &request->sync);
}

void ops_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	int result = inode_flush(ops_mount(req)->volume, ops_open_file(fi)->inode);

	(void)ino;
	(void)datasync; /* size and mapping are data's, and the times come along */
	if (result != 0)
		fuse_reply_err(req, -result);
	else
		sync_and_reply(req);
}

void ops_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	(void)ino;
	(void)datasync;
	(void)fi;
	sync_and_reply(req);
}

/* --- Size and space --------------------------------------------------------------------------- */

static void truncated(struct data_request *data, int status)
{
	struct channel_request *request = RMEM_CONTAINER_OF(data, struct channel_request, data);
	struct mount *mount = channel_mount(request->channel);
	struct stat st;

	if (status == 0 && request->setattr.mask != 0)
		status = namespace_setattr(mount->volume, data->inode, &request->setattr.attr,
					   request->setattr.mask);
	if (status == 0) {
		ops_fill_stat(data->inode, &st);
		fuse_reply_attr(request->fuse, &st, ops_timeout(mount));
	} else {
		fuse_reply_err(request->fuse, -status);
	}
	inode_unref(mount->volume, data->inode, 1);
	channel_release(request);
}

void ops_truncate(fuse_req_t req, struct inode *inode, const struct inode_attr *attr, unsigned mask)
{
	struct channel_request *request = channel_current();
	const struct fuse_setattr_in *in = message_body(request);
	struct mount *mount = ops_mount(req);
	struct data_request *data = prepare(request, req, DATA_TRUNCATE, inode);

	request->setattr.attr = *attr;
	request->setattr.mask = mask;
	data->offset = attr->size;
	data->length = 0;
	data->done = truncated;
	if (!mount->killpriv_v2 || (in->valid & FATTR_KILL_SUIDGID))
		data->flags |= DATA_DROP_PRIVILEGES;
	ops_drop_capability(mount, inode);
	allow_interrupt(mount, req, data);
	data_start(channel_data(request->channel), data);
}

static void reply_status(struct channel_request *request, int status)
{
	fuse_reply_err(request->fuse, -status);
}

static void plain_done(struct data_request *data, int status)
{
	reply_changed(RMEM_CONTAINER_OF(data, struct channel_request, data), status, reply_status);
}

void ops_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
		   struct fuse_file_info *fi)
{
	struct channel_request *request = channel_current();
	struct data_request *data = prepare(request, req, DATA_FALLOCATE, ops_open_file(fi)->inode);

	(void)ino;
	data->mode = mode;
	data->offset = (uint64_t)offset;
	data->length = (uint64_t)length;
	data->done = plain_done;
	/* The kernel says nothing about privileges here; the superuser keeps them, as elsewhere. */
	if (fuse_req_ctx(req)->uid != 0)
		data->flags |= DATA_DROP_PRIVILEGES;
	allow_interrupt(ops_mount(req), req, data);
	data_start(channel_data(request->channel), data);
}

static void seek_and_reply(struct channel_request *request)
{
	struct mount *mount = channel_mount(request->channel);
	struct inode *inode = request->seek.inode;
	uint64_t found = 0;
	int result;

	pthread_mutex_lock(&inode->lock);
	result = request->seek.whence == SEEK_DATA
			 ? extent_seek_data(mount->volume, inode, request->seek.offset, &found)
			 : extent_seek_hole(mount->volume, inode, request->seek.offset, &found);
	pthread_mutex_unlock(&inode->lock);
	if (result == 0)
		fuse_reply_lseek(request->fuse, (off_t)found);
	else
		fuse_reply_err(request->fuse, -result);
}

static void seek_job(struct volume_job *job)
{
	struct channel_request *request = RMEM_CONTAINER_OF(job, struct channel_request, job);
	struct mount *mount = channel_mount(request->channel);

	fuse_lowlevel_notify_inval_inode(mount->session, request->seek.inode->ino, 0, 0);
	seek_and_reply(request);
	channel_release_remote(request);
}

/* With the write-back cache the kernel may hold pages that we have not seen, and does not write
 * them before it asks: they would look like holes, and a copy would lose them. Invalidating makes
 * it write them first. That waits for writes which the reactors have to serve, so it is done
 * elsewhere. */
void ops_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi)
{
	struct channel_request *request = channel_current();
	struct mount *mount = ops_mount(req);

	(void)ino;
	if (whence != SEEK_DATA && whence != SEEK_HOLE) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	channel_keep(request, req);
	request->seek.inode = ops_open_file(fi)->inode;
	request->seek.offset = (uint64_t)offset;
	request->seek.whence = whence;
	if (mount->writeback && request->seek.inode->writers > 0) {
		request->job.run = seek_job;
		volume_defer(mount->volume, &request->job);
		return;
	}
	seek_and_reply(request);
	channel_release(request);
}

/* --- copy_file_range -------------------------------------------------------------------------- */

static void copy_read(struct channel_request *request);

static void reply_copied(struct channel_request *request, int status)
{
	if (request->copy.copied > 0 || status == 0)
		fuse_reply_write(request->fuse, request->copy.copied);
	else
		fuse_reply_err(request->fuse, -status);
}

static void copy_end(struct channel_request *request, int status)
{
	request->data.inode = request->copy.out;
	request->data.dropped = request->copy.dropped;
	reply_changed(request, status, reply_copied);
}

static void copy_written(struct data_request *data, int status)
{
	struct channel_request *request = RMEM_CONTAINER_OF(data, struct channel_request, data);

	if (status != 0) {
		copy_end(request, status);
		return;
	}
	request->copy.copied += data->transferred;
	request->copy.dropped |= data->dropped;
	request->copy.in_offset += data->transferred;
	request->copy.out_offset += data->transferred;
	request->copy.left -= data->transferred;
	if (request->copy.left == 0 || fuse_req_interrupted(request->fuse))
		copy_end(request, -EINTR);
	else
		copy_read(request);
}

static void copy_was_read(struct data_request *data, int status)
{
	struct channel_request *request = RMEM_CONTAINER_OF(data, struct channel_request, data);

	if (status != 0 || data->transferred == 0) {
		copy_end(request, status);
		return;
	}
	data->kind = DATA_WRITE;
	data->flags = fuse_req_ctx(request->fuse)->uid != 0 ? DATA_DROP_PRIVILEGES : 0;
	data->inode = request->copy.out;
	data->offset = request->copy.out_offset;
	data->length = data->transferred;
	data->done = copy_written;
	data_start(channel_data(request->channel), data);
}

static void copy_read(struct channel_request *request)
{
	struct data_request *data = &request->data;

	data->kind = DATA_READ;
	data->flags = 0;
	data->inode = request->copy.in;
	data->offset = request->copy.in_offset;
	data->length = rmem_min_u64(request->copy.left, DATA_TRANSFER_MAX);
	data->done = copy_was_read;
	data_start(channel_data(request->channel), data);
}

void ops_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t in, struct fuse_file_info *fi_in,
			 fuse_ino_t ino_out, off_t out, struct fuse_file_info *fi_out, size_t size,
			 int flags)
{
	struct channel_request *request = channel_current();

	(void)ino_in;
	(void)ino_out;
	if (flags != 0) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	prepare(request, req, DATA_READ, ops_open_file(fi_in)->inode);
	request->copy.in = ops_open_file(fi_in)->inode;
	request->copy.out = ops_open_file(fi_out)->inode;
	request->copy.in_offset = (uint64_t)in;
	request->copy.out_offset = (uint64_t)out;
	request->copy.left = size;
	request->copy.copied = 0;
	request->copy.dropped = false;
	copy_read(request);
}
