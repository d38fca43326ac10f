/* SPDX-License-Identifier: Apache-2.0 */
/* The dirty pages of one file: what was written and remote memory does not have yet, with fs.write
 * at "back". A plain data structure: nothing here moves bytes or knows of threads. data_stage.c
 * puts pages in, data_flush.c takes them out.
 *
 * A page is dirty in one stretch of bytes, [from, to). Where remote memory holds nothing of the
 * page (a hole, or unwritten) the stretch is the whole page, the rest being zeros, because a page
 * counts as written only as a whole. Elsewhere it is what was written, and a write that would leave
 * a gap in it goes through instead: neither a mask of 4,096 bits a page nor reading the page first
 * is worth it for that. Bytes of a dirty page behind the end of the file are zeros.
 *
 * Bytes on their way to remote memory stay as they are: a write to such a page makes a new version
 * of it, and the old one, stale, is freed when it has arrived. A file has one flush under way at a
 * time, so versions arrive in order.
 *
 * Flushing goes in order of age. So `sequence` tells what an fsync has to wait for.
 *
 * The stored size of a file must not get ahead of its bytes: on a page that remote memory holds in
 * part, what is behind the old end is somebody's old bytes. The list of growth has the dirty pages
 * that a write beyond the end made or changed, with the size before; the first of them is what may
 * be stored (dirty_size_limit()).
 *
 * Every function wants inode->lock held; NULL stands for a file without dirty pages. */
#pragma once

#include "fs/dirty_pool.h"

#define DIRTY_BUCKETS 16 /* at first */

struct inode;
struct data_thread;
struct data_request;

enum dirty_flush {
	DIRTY_FLUSH_NONE,
	DIRTY_FLUSH_QUEUED, /* in a data thread's queue */
	DIRTY_FLUSH_RUNNING,
};

struct dirty_file {
	struct dirty_page **buckets; /* by number; `own` at first */
	uint32_t bucket_count;	     /* a power of two */
	uint32_t page_count;	     /* in the index: without stale ones */
	struct dirty_page *oldest, *newest;
	struct dirty_page *growth_first, *growth_last;
	uint64_t sequence; /* of the youngest page there ever was */

	/* Errors of flushes, for those who have the file open. */
	int error; /* the last one */
	uint32_t error_count;
	bool error_told; /* the last one, to somebody */

	/* data_flush.c's. */
	enum dirty_flush flush;
	struct data_request *waiters; /* syncs */
	uint64_t deadline_ns;	      /* of waiting for a lost server; 0: not waiting */
	bool listed; /* in a thread's list of dirty files, which holds a reference */
	struct inode *list_next, *queue_next;

	struct dirty_page *own[DIRTY_BUCKETS];
};

struct dirty_file *dirty_file_create(void); /* NULL: out of memory */
void dirty_file_destroy(struct dirty_file *file);

static inline bool dirty_any(const struct dirty_file *file)
{
	return file != NULL && file->oldest != NULL;
}

/* The current version of a page; NULL: clean. */
struct dirty_page *dirty_find(const struct dirty_file *file, uint64_t number);

/* Takes `page` in as page `number`, which is clean, with nothing in it yet. */
void dirty_add(struct dirty_file *file, struct dirty_page *page, uint64_t number);
/* Makes `page` a copy of `old`, which is on its way, and puts it in its place. */
void dirty_renew(struct dirty_file *file, struct dirty_page *old, struct dirty_page *page);
/* Forgets a page, whatever its state; it is the caller's then. */
void dirty_remove(struct dirty_file *file, struct dirty_page *page);
/* A page on its way did not arrive, and stays dirty: as before, or as if it had become so now. */
void dirty_retry(struct dirty_page *page);
void dirty_keep(struct dirty_file *file, struct dirty_page *page);
/* A stale page did not arrive: the version that took its place stands for both. `stale` is the
 * caller's then. */
void dirty_merge(struct dirty_file *file, struct dirty_page *stale);

/* The write that changed the page made the file longer than `size_before`. */
void dirty_note_growth(struct dirty_file *file, struct dirty_page *page, uint64_t size_before);
/* The size that the file may have in the store is at most this; UINT64_MAX: any. */
uint64_t dirty_size_limit(const struct dirty_file *file);

/* The first dirty bytes within [from, to) of the file. */
struct dirty_range {
	uint64_t offset, length;
	uint8_t *bytes;
};
bool dirty_next(const struct dirty_file *file, uint64_t from, uint64_t to,
		struct dirty_range *range);
static inline bool dirty_overlaps(const struct dirty_file *file, uint64_t from, uint64_t to)
{
	struct dirty_range range;

	return dirty_any(file) && dirty_next(file, from, to, &range);
}

/* Alone at the gate, so that nothing is on its way: */
/* [from, to) was written to remote memory; what is dirty of it follows. NULL: zeros. */
void dirty_overwrite(struct dirty_file *file, uint64_t from, uint64_t to, const uint8_t *bytes);
/* [from, to) reads as zeros now: pages wholly within are dropped, and returned as a list. */
struct dirty_page *dirty_punch(struct dirty_file *file, uint64_t from, uint64_t to) RMEM_MUST_CHECK;
/* The file ends at `size` now, and was longer. Likewise. */
struct dirty_page *dirty_truncate(struct dirty_file *file, uint64_t size) RMEM_MUST_CHECK;

/* The lowest dirty page >= `number`; UINT64_MAX: none. Looks at all of them. */
uint64_t dirty_first_from(const struct dirty_file *file, uint64_t number);

/* Errors. An open file description remembers which it has seen: what dirty_error_mark() says when
 * it is opened (an error that nobody was told of yet is seen by whoever opens next). */
void dirty_error_note(struct dirty_file *file, int error);
uint32_t dirty_error_mark(const struct dirty_file *file);
/* 0, or the error that came since `*seen`, once. */
int dirty_error_take(struct dirty_file *file, uint32_t *seen);

uint32_t dirty_now_ms(void); /* a coarse clock */
