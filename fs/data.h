/* SPDX-License-Identifier: Apache-2.0 */
/* The data path: from a range of a file to a batch of remote transfers, and back.
 *
 * One data_thread per reactor; everything that takes one is called on that reactor's thread, and a
 * request's `done` comes on it too. No step hands a request to another thread, except that a
 * request which had to wait at a file's gate for one of another reactor is sent home by a reactor
 * call.
 *
 * A request's life: enter the inode's gate; plan under the inode's lock (look the range up,
 * allocate for holes, build segments); submit one batch without any lock; apply under the lock
 * (written state, size, times, unmapping); leave the gate; done.
 *
 * With options.dirty_bytes, writes are "back": short ones end once they are copied into dirty pages
 * (data_stage.c), which data_flush.c takes to remote memory later. Space is allocated first, so
 * that a full volume is told to the writer. What goes to servers of this host alone goes through
 * all the same, unless options.stage_local: sending it is a copy, as staging it is. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "engine/rmem.h"
#include "fs/dirty_pool.h"
#include "fs/extent.h"
#include "fs/gate.h"
#include "fs/inode.h"
#include "fs/volume.h"

/* A read or write of 1 MiB at any offset touches 257 pages, each perhaps an extent of its own, and
 * with dirty bytes in its middle, and wants up to three pads of zeros. */
#define DATA_TRANSFER_MAX (1u << 20) /* bytes of one read or write */
#define DATA_SEGMENTS_MAX (2 * (DATA_TRANSFER_MAX / VOLUME_PAGE_BYTES) + 8)
#define DATA_PIECES_MAX	  64

enum data_kind {
	DATA_READ,
	DATA_WRITE,
	DATA_TRUNCATE,
	DATA_FALLOCATE,
	DATA_TRIM,    /* give back what growing took ahead of need; at last close */
	DATA_DISCARD, /* forget what is dirty: nobody will ever read it */
	DATA_SYNC, /* wait until what is dirty now was flushed; errors are in the inode's dirty_file
		    */
};

enum data_flags {
	DATA_KEEP_TIMES = 1,	  /* the kernel keeps mtime and will tell it */
	DATA_DROP_PRIVILEGES = 2, /* clear set-user-id, and set-group-id where it means execution */
};

struct data_request {
	/* In. The caller owns the request and keeps a reference on the inode until `done`. */
	enum data_kind kind;
	unsigned flags; /* enum data_flags */
	int mode;	/* fallocate: FALLOC_FL_... */
	struct inode *inode;
	uint64_t offset; /* truncate: the new size */
	uint64_t length;
	uint8_t *buffer; /* reads and writes: `length` bytes in the reactor's staging arena */
	void (*done)(struct data_request *request, int status);
	void *user;
	_Atomic(bool) interrupted; /* set by anybody: stop waiting for a lost server (-EINTR) */

	/* Out: bytes read (short at the end of the file) or written. */
	uint64_t transferred;
	bool dropped; /* set-user-id or set-group-id was cleared: the kernel should know */

	/* data.c's. */
	struct data_thread *thread;
	struct data_request *next;
	struct io_waiter waiter;
	struct dirty_wait pages; /* for a write that may be staged */
	uint32_t since_ms;	 /* waiting for them */
	uint64_t sequence;	 /* sync: up to this */
	struct rmem_call call;
	struct rmem_batch batch;
	uint64_t started_ns;  /* by a coarse clock */
	uint64_t deadline_ns; /* of waiting for a lost server; 0: not waiting yet */
	bool fresh;	      /* the write fills pages that were not written before */
	uint32_t segment_count;
	struct rmem_segment segments[DATA_SEGMENTS_MAX];
};

struct data_shared;
struct data_thread;

struct data_options {
	/* What was under way when a server was lost, or comes within this time after it, may still
	 * succeed until then: connections break that can be made again at once. 0: fails at once.
	 */
	unsigned grace_ms;
	unsigned
		wait_ms; /* for a lost server, before an operation fails with -EIO; 0: not at all */
	uint64_t dirty_bytes;		 /* memory for dirty pages; 0: all writes go through */
	unsigned dirty_age_ms;		 /* dirty pages are flushed when they are so old */
	uint64_t stage_bytes;		 /* longer writes go through */
	bool stage_local;		 /* stage writes to servers of this host, too */
	enum rmem_huge_pages huge_pages; /* of the memory for dirty pages */
	size_t stream_threshold_bytes;	 /* 0: the built-in default */
};

/* What all data threads of a mount share. The engine has its servers: when all of them are of this
 * host, there will be nothing to stage, and no memory is taken for it. */
int data_shared_create(struct rmem_engine *engine, struct volume *volume,
		       const struct data_options *options, struct data_shared **shared,
		       struct rmem_error *error) RMEM_MUST_CHECK;
void data_shared_destroy(struct data_shared *shared);

/* Whether operations wait for lost servers, so that an interrupt matters to them. */
bool data_waits(const struct data_shared *shared);

/* All are created before the first is driven. */
int data_thread_create(struct data_shared *shared, struct rmem_reactor *reactor,
		       struct data_thread **thread) RMEM_MUST_CHECK;
void data_thread_destroy(struct data_thread *thread); /* nothing may be in flight */

/* The thread has nothing to do just now: sends a little of what is dirty. */
void data_thread_idle(struct data_thread *thread);

/* The mount ends: flushes what is dirty, without waiting for its age. True: nothing is left; until
 * then drive the reactor and ask again. `give_up`: what cannot be flushed at once is dropped. */
bool data_thread_drain(struct data_thread *thread, bool give_up);

struct data_stats {
	uint64_t dirty_bytes, dirty_bytes_max; /* the latter 0: nothing is ever staged */
	uint64_t flushed_bytes, flush_batches, flush_errors;
	uint64_t throttled; /* writes that had to wait for a free page */
};
/* Any thread. False: writes go through, there is nothing to tell. */
bool data_stats_read(const struct data_shared *shared, struct data_stats *stats);

/* lseek with SEEK_DATA or SEEK_HOLE; inode->lock held. -ENXIO, -EIO, -ENOMEM. */
int data_seek(struct volume *volume, struct inode *inode, int whence, uint64_t offset,
	      uint64_t *found) RMEM_MUST_CHECK;

/* Starts a request; `done` may be called before this returns. Status: 0; -EIO (a server is lost, or
 * its memory); -ENOSPC; -EFBIG (beyond VOLUME_SIZE_MAX); -EINTR; -EOPNOTSUPP (fallocate modes other
 * than keep-size, punch-hole and zero-range); -ENOMEM. After an error nothing has changed but, for
 * a write, possibly the bytes of the range itself. */
void data_start(struct data_thread *thread, struct data_request *request);
