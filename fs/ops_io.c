/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes, and what all requests that move data share. They are answered by the reactor
 * that took them, when their batch has ended. */
#include <errno.h>
#include <linux/fuse.h>

#include "engine/base/checked.h"
#include "fs/ops.h"

/* --- Shared ----------------------------------------------------------------------------------- */

const void *ops_message_body(const struct channel_request *request)
{
	return (const uint8_t *)request->message + sizeof(struct fuse_in_header);
}

static void set_interrupted(fuse_req_t req, void *user)
{
	struct data_request *data = user;

	(void)req;
	atomic_store_explicit(&data->interrupted, true, memory_order_relaxed);
}

/* Prepares what reads, writes and their like have in common. */
struct data_request *ops_prepare(struct channel_request *request, fuse_req_t req,
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

/* Only a request that has to wait for a server can be interrupted; the registration costs a lock,
 * so it is made only on mounts that wait. */
void ops_allow_interrupt(struct mount *mount, fuse_req_t req, struct data_request *data)
{
	if (data_waits(mount->data))
		fuse_req_interrupt_func(req, set_interrupted, data);
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
 * mode, is told first. Invalidations are sent from a thread that serves no requests, so that they
 * can never wait for themselves. */
void ops_reply_changed(struct channel_request *request, int status,
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

/* --- Read and write --------------------------------------------------------------------------- */

static void read_again(struct rmem_call *call)
{
	struct channel_request *request =
		RMEM_CONTAINER_OF(call, struct channel_request, data.call);

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

	return file->direct && channel_mount(request->channel)->writeback && !request->refreshed &&
	       ops_has_writers(file->inode);
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

void ops_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct channel_request *request = channel_current();
	struct data_request *data = ops_prepare(request, req, DATA_READ, ops_open_file(fi)->inode);

	(void)ino;
	data->offset = (uint64_t)offset;
	data->length = rmem_min_u64(size, DATA_TRANSFER_MAX);
	data->done = read_done;
	data->user = ops_open_file(fi);
	request->refreshed = false;
	ops_allow_interrupt(ops_mount(req), req, data);
	data_start(channel_data(request->channel), data);
}

static void reply_count(struct channel_request *request, int status)
{
	if (RMEM_LIKELY(status == 0))
		fuse_reply_write(request->fuse, request->data.transferred);
	else
		fuse_reply_err(request->fuse, -status);
}

static void write_done(struct data_request *data, int status)
{
	ops_reply_changed(RMEM_CONTAINER_OF(data, struct channel_request, data), status,
			  reply_count);
}

void ops_write(fuse_req_t req, fuse_ino_t ino, const char *payload, size_t size, off_t offset,
	       struct fuse_file_info *fi)
{
	struct channel_request *request = channel_current();
	const struct fuse_write_in *in = ops_message_body(request);
	struct mount *mount = ops_mount(req);
	struct inode *inode = ops_open_file(fi)->inode;
	struct data_request *data = ops_prepare(request, req, DATA_WRITE, inode);

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
	ops_allow_interrupt(mount, req, data);
	data_start(channel_data(request->channel), data);
}
