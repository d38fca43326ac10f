/* SPDX-License-Identifier: Apache-2.0 */
/* The halves of a data request that happen under the inode's lock: plan before the transfer, apply
 * after it. Private to data*.c. */
#pragma once

#include "fs/data.h"
#include "fs/dirty.h"

#define DATA_THREADS_MAX RMEM_REACTORS_MAX

struct data_shared {
	struct rmem_engine *engine;
	struct volume *volume;
	struct data_options options;
	void *zeros; /* one registered page of zeros, the source of padding */
	struct rmem_memory *zeros_memory;
	struct dirty_pool *pool; /* NULL: all writes go through, also with options.dirty_bytes */
	uint32_t pool_high;	 /* used pages from which on they are flushed whatever their age */
	uint32_t pool_low;	 /* and from which on, when a thread has nothing else to do */
	unsigned thread_count;
	struct data_thread *threads[DATA_THREADS_MAX]; /* constant once one is driven */
	_Atomic(uint64_t) flushed_pages, flush_batches, flush_errors, used_max; /* relaxed */
};

struct data_flush;

struct data_thread {
	struct data_shared *shared;
	struct rmem_reactor *reactor;
	struct data_request *waiting; /* for a lost server */
	struct rmem_timeout retry;

	/* data_flush.c's. */
	struct data_request *throttled;		/* wait for dirty pages */
	struct inode *dirty_first, *dirty_last; /* files to look after, by ->list_next */
	uint32_t dirty_files;
	struct inode *queue_first, *queue_last; /* files that wait for one of `flushes` */
	struct inode *later;			/* files that wait for a lost server */
	struct data_flush *flushes, *free_flush;
	unsigned active;
	struct rmem_timeout tick, later_timer;
	struct rmem_call kick;
	_Atomic(bool) kicked; /* `kick` is on its way; set by anybody, cleared by the thread */
	bool ticking, running, draining, giving_up;
};

/* How a request found out that its server is gone. */
enum data_break { DATA_BROKE_IN_FLIGHT, DATA_BROKE_BEFORE };

/* From plan: the request must run alone; enter the gate again, exclusively. */
#define DATA_NEED_EXCLUSIVE 1
/* From plan: all is done, the bytes are in dirty pages. */
#define DATA_STAGED 2

/* Fills in request->segments and ->transferred. 0, DATA_NEED_EXCLUSIVE or -errno; -ENOTCONN: a
 * server is not there now. May be called again for the same request. */
int data_plan(struct data_shared *shared, struct data_request *request) RMEM_MUST_CHECK;
int data_plan_truncate(struct data_shared *shared, struct data_request *request) RMEM_MUST_CHECK;
int data_plan_fallocate(struct data_shared *shared, struct data_request *request) RMEM_MUST_CHECK;

/* The bytes have moved: makes the change visible. 0 or -errno. */
int data_apply(struct data_shared *shared, struct data_request *request) RMEM_MUST_CHECK;
int data_apply_truncate(struct data_shared *shared, struct data_request *request) RMEM_MUST_CHECK;
int data_apply_fallocate(struct data_shared *shared, struct data_request *request) RMEM_MUST_CHECK;

/* Adds a segment for `length` bytes at file offset `at` within `piece`. */
int data_add_segment(struct data_shared *shared, struct data_request *request,
		     const struct extent_piece *piece, uint64_t at, uint64_t length,
		     void *local) RMEM_MUST_CHECK;

/* Zeros the part of [from, to) that lies on a written page; both lie on one page. */
int data_zero_within_page(struct data_shared *shared, struct data_request *request, uint64_t from,
			  uint64_t to) RMEM_MUST_CHECK;

/* What lies between the old end of the file and `upto` on the page of the old end holds no meaning
 * so far, and may hold old bytes: it becomes part of the file now, so it is zeroed. */
int data_zero_gap(struct data_shared *shared, struct data_request *request,
		  uint64_t upto) RMEM_MUST_CHECK;

/* --- Writing back: data_stage.c --------------------------------------------------------------- */

/* Puts a write, whose pages have been allocated, into dirty pages: DATA_STAGED. 0: it has to go
 * through. DATA_NEED_EXCLUSIVE: it has to, and alone. */
int data_stage(struct data_shared *shared, struct data_request *request) RMEM_MUST_CHECK;

/* --- Writing back: data_flush.c --------------------------------------------------------------- */

int data_flush_init(struct data_thread *thread) RMEM_MUST_CHECK;
void data_flush_finish(struct data_thread *thread);

/* inode->lock held: the inode has dirty pages now. The thread sees to it that they are flushed. */
void data_flush_note(struct data_thread *thread, struct inode *inode);

/* No locks held: flushes what memory is short for, or what is old. */
void data_flush_pump(struct data_thread *thread);

/* A request of kind DATA_SYNC. */
void data_flush_sync(struct data_thread *thread, struct data_request *request);

/* Gets the pages that a write may be staged in. False: data_enter() will be called on the thread,
 * with pages or, if that takes too long, without. */
bool data_flush_reserve(struct data_thread *thread, struct data_request *request) RMEM_MUST_CHECK;
/* data.c's: on to the gate. */
void data_enter(struct data_request *request);

/* attr with times and privileges as after a change of data. */
void data_touch(struct data_request *request, struct inode_attr *attr);
