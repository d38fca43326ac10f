/* SPDX-License-Identifier: Apache-2.0 */
/* Requests in and out of the FUSE device, one channel per reactor.
 *
 * A request is read straight into a staging slot such that the payload of a write starts on a page
 * boundary of registered memory: it goes to the servers from where the kernel put it. The data of a
 * read lands in the same place and goes to the kernel from there.
 *
 * While the reactor spins it reads the device without blocking (a request costs about 13 us that
 * way and about 20 us when a thread has to be woken); when it sleeps, the device is in its epoll
 * set. */
#pragma once

#include <stdint.h>

#include "engine/rmem.h"
#include "fs/data.h"
#include "fs/mount.h"

struct channel;
struct fuse_req;

/* Size of a staging slot: the page that the headers end on, and the payload. */
#define CHANNEL_SLOT_BYTES (VOLUME_PAGE_BYTES + DATA_TRANSFER_MAX)

/* One FUSE request and what its handling needs, without any allocation. */
struct channel_request {
	struct channel *channel;
	struct channel_request *next;
	const void *message; /* as the kernel sent it: struct fuse_in_header first */
	uint8_t *payload;    /* DATA_TRANSFER_MAX bytes, page aligned, registered */
	bool kept;
	bool refreshed; /* reads: the kernel was asked to write back first */
	struct fuse_req *fuse;
	struct data_request data;
	struct volume_sync sync;
	struct volume_job job;
	struct {
		void (*reply)(struct channel_request *request, int status);
		int status;
	} dropped;
	union {
		struct {
			struct inode *in, *out;
			uint64_t in_offset, out_offset, left, copied;
			bool dropped;
		} copy;
		struct {
			struct inode_attr attr;
			unsigned mask;
		} setattr;
		struct {
			struct inode *inode;
			uint64_t offset;
			int whence;
		} seek;
	};
};

/* `first`: the channel that reads the device, and calls the others when many requests wait; NULL for
 * itself. All are created before the first is driven. */
int channel_create(struct mount *mount, struct rmem_reactor *reactor, struct channel *first,
		   struct channel **channel, struct rmem_error *error) RMEM_MUST_CHECK;
/* No request may be in flight. */
void channel_destroy(struct channel *channel);

struct mount *channel_mount(struct channel *channel);
struct data_thread *channel_data(struct channel *channel);
struct rmem_reactor *channel_reactor(struct channel *channel);
unsigned channel_in_flight(const struct channel *channel);

/* The request that the calling thread is handling now. A handler that answers later calls
 * channel_keep() and then, on the channel's thread, channel_release(). */
struct channel_request *channel_current(void);
void channel_keep(struct channel_request *request, struct fuse_req *fuse);
void channel_release(struct channel_request *request);
/* From another thread. */
void channel_release_remote(struct channel_request *request);
