/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of flushing share. Private to data_flush*.c. */
#pragma once

#include "fs/data_plan.h"

#define FLUSH_PAGES 512u /* of one batch: 2 MiB */

/* A number of pages of one file on their way. */
struct data_flush {
	struct data_flush *next;
	struct data_thread *thread;
	struct inode *inode;
	struct io_waiter waiter;
	struct rmem_call call;
	struct rmem_batch batch;
	struct dirty_page *freed; /* done with, for the pool */
	uint32_t lost;		  /* pages that were given up */
	uint32_t most;		  /* pages to take */
	uint32_t count;		  /* pages and their segments, in order of the file */
	struct dirty_page *pages[FLUSH_PAGES];
	struct rmem_segment segments[FLUSH_PAGES];
};

/* inode->lock held: puts the inode in the thread's queue; then, without it, data_flush_run_queue().
 */
void data_flush_queue(struct data_thread *thread, struct inode *inode);
void data_flush_run_queue(struct data_thread *thread);

/* inode->lock held: whether what is dirty of it should not wait any longer. */
bool data_flush_is_due(const struct data_thread *thread, const struct inode *inode);

/* Takes a free flush for at most `most` pages of an inode that was queued. */
void data_flush_start(struct data_thread *thread, struct inode *inode, uint32_t most);

/* Tries those again that wait for a lost server. */
void data_flush_later(struct rmem_timeout *timeout);
