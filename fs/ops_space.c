/* SPDX-License-Identifier: Apache-2.0 */
/* Size and space of files, seeking in them, copying between them. */
#include <errno.h>
#include <linux/fuse.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "fs/ops.h"

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
		ops_reply_error(request->fuse, status);
	}
	inode_unref(mount->volume, data->inode, 1);
	channel_release(request);
}

void ops_truncate(fuse_req_t req, struct inode *inode, const struct inode_attr *attr, unsigned mask)
{
	struct channel_request *request = channel_current();
	const struct fuse_setattr_in *in = ops_message_body(request);
	struct mount *mount = ops_mount(req);
	struct data_request *data = ops_prepare(request, req, DATA_TRUNCATE, inode);

	request->setattr.attr = *attr;
	request->setattr.mask = mask;
	data->offset = attr->size;
	data->length = 0;
	data->done = truncated;
	if (!mount->killpriv_v2 || (in->valid & FATTR_KILL_SUIDGID))
		data->flags |= DATA_DROP_PRIVILEGES;
	ops_drop_capability(mount, inode);
	ops_allow_interrupt(mount, req, data);
	data_start(channel_data(request->channel), data);
}

static void reply_status(struct channel_request *request, int status)
{
	fuse_reply_err(request->fuse, -status);
}

static void plain_done(struct data_request *data, int status)
{
	ops_reply_changed(RMEM_CONTAINER_OF(data, struct channel_request, data), status,
			  reply_status);
}

void ops_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
		   struct fuse_file_info *fi)
{
	struct channel_request *request = channel_current();
	struct data_request *data =
		ops_prepare(request, req, DATA_FALLOCATE, ops_open_file(fi)->inode);

	(void)ino;
	data->mode = mode;
	data->offset = (uint64_t)offset;
	data->length = (uint64_t)length;
	data->done = plain_done;
	/* The kernel says nothing about privileges here; the superuser keeps them, as elsewhere. */
	if (fuse_req_ctx(req)->uid != 0)
		data->flags |= DATA_DROP_PRIVILEGES;
	ops_allow_interrupt(ops_mount(req), req, data);
	data_start(channel_data(request->channel), data);
}

static void seek_and_reply(struct channel_request *request)
{
	struct mount *mount = channel_mount(request->channel);
	struct inode *inode = request->seek.inode;
	uint64_t found = 0;
	int result;

	pthread_mutex_lock(&inode->lock);
	result =
		data_seek(mount->volume, inode, request->seek.whence, request->seek.offset, &found);
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

/* The kernel may hold pages that we have not seen, written through a mapping or into its write-back
 * cache, and does not write them before it asks: they would look like holes, and a copy would lose
 * them. Invalidating makes it write them first. That waits for writes which the reactors have to
 * serve, so it is done elsewhere. */
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
	if (ops_has_writers(request->seek.inode)) {
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
	ops_reply_changed(request, status, reply_copied);
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
	ops_prepare(request, req, DATA_READ, ops_open_file(fi_in)->inode);
	request->copy.in = ops_open_file(fi_in)->inode;
	request->copy.out = ops_open_file(fi_out)->inode;
	request->copy.in_offset = (uint64_t)in;
	request->copy.out_offset = (uint64_t)out;
	request->copy.left = size;
	request->copy.copied = 0;
	request->copy.dropped = false;
	copy_read(request);
}
