/* SPDX-License-Identifier: Apache-2.0 */
/* A flush: the oldest dirty pages of a file as one batch. It is inside the file's gate while its
 * bytes move, so that no truncation gives their pages to another file.
 *
 * Errors are dealt with as the kernel does in its page cache. A page whose server is lost is given
 * up (after fs.wait, if operations wait for servers): the file's next fsync or close says -EIO,
 * once to each open file description, and reads show what remote memory has, which for a page that
 * nothing was ever flushed to is zeros. One kind stays dirty and is tried again with each round, as
 * long as its server may come back: a page that remote memory holds in part and that a write beyond
 * the end of the file made longer. Dropped, it would show somebody's old bytes. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "engine/base/checked.h"
#include "engine/base/log.h"
#include "fs/data_flush.h"

#define PAGE	 VOLUME_PAGE_BYTES
#define LATER_MS 20

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- Pages ------------------------------------------------------------------------------------ */

/* The page is clean, or forgotten. */
static void release_page(struct data_flush *flush, struct dirty_page *page)
{
	dirty_remove(flush->inode->dirty_file, page);
	page->next = flush->freed;
	flush->freed = page;
}

/* Not arrived: as dirty as before. */
static void return_page(struct data_flush *flush, struct dirty_page *page)
{
	if (page->state == DIRTY_STALE) {
		dirty_merge(flush->inode->dirty_file, page);
		page->next = flush->freed;
		flush->freed = page;
	} else {
		dirty_retry(page);
	}
}

enum fate {
	FATE_LOST,	  /* its memory is gone */
	FATE_UNREACHABLE, /* and may come back */
};

static void fail_page(struct data_flush *flush, struct dirty_page *page, enum fate fate)
{
	bool keep =
		fate == FATE_UNREACHABLE && page->grows && !page->fresh && !flush->thread->draining;

	if (page->state == DIRTY_STALE) {
		return_page(flush, page);
		flush->lost++;
		return;
	}
	flush->lost += !page->failed;
	page->failed = true;
	if (keep)
		dirty_keep(flush->inode->dirty_file, page);
	else
		release_page(flush, page);
}

/* --- Collecting ------------------------------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b)
{
	const struct dirty_page *const *one = a, *const *other = b;

	return ((*one)->number > (*other)->number) - ((*one)->number < (*other)->number);
}

static void take_oldest(struct data_flush *flush)
{
	struct dirty_page *page = flush->inode->dirty_file->oldest;
	bool sorted = true;

	flush->count = 0;
	for (; page != NULL && flush->count < flush->most; page = page->newer) {
		assert(page->state == DIRTY_IDLE); /* one flush a file */
		page->state = DIRTY_WRITING;
		if (flush->count > 0 && flush->pages[flush->count - 1]->number > page->number)
			sorted = false;
		flush->pages[flush->count++] = page;
	}
	if (!sorted)
		qsort(flush->pages, flush->count, sizeof(flush->pages[0]), compare_numbers);
}

/* A page that lies in `piece`: keeps it, with its segment, or is done with it. -ENOTCONN: not now.
 */
static int plan_page(struct data_flush *flush, struct dirty_page *page,
		     const struct extent_piece *piece)
{
	const struct volume_region *region =
		volume_region(flush->thread->shared->volume, piece->region);
	uint64_t at = page->number * PAGE;

	page->fresh = piece->kind == EXTENT_UNWRITTEN;
	if (piece->kind == EXTENT_HOLE) { /* a punch that failed half-way */
		release_page(flush, page);
	} else if (region == NULL || region->lost) {
		fail_page(flush, page, FATE_LOST);
	} else if (!region->attached) {
		return -ENOTCONN;
	} else {
		flush->segments[flush->count] = (struct rmem_segment){
			.local = page->bytes + page->from,
			.remote = piece->region_offset + (at - piece->offset) + page->from,
			.length = (uint64_t)(page->to - page->from),
			.region = region->server_region,
			.server = region->server,
		};
		flush->pages[flush->count++] = page;
	}
	return 0;
}

static bool can_wait(struct data_flush *flush, enum data_break broke)
{
	const struct data_shared *shared = flush->thread->shared;
	struct dirty_file *file = flush->inode->dirty_file;
	unsigned wait_ms = shared->options.wait_ms;
	uint64_t grace_ns = (uint64_t)shared->options.grace_ms * 1000000u;

	if (flush->thread->giving_up)
		return false;
	/* Counted from the loss, or the files of a server that is gone would wait in turn. */
	if (wait_ms == 0 && broke == DATA_BROKE_BEFORE)
		return now_ns() < volume_detached_ns(shared->volume) + grace_ns;
	if (file->deadline_ns == 0)
		file->deadline_ns = now_ns() + (wait_ms == 0 ? grace_ns : wait_ms * 1000000ull);
	return now_ns() < file->deadline_ns;
}

/* Pages from pages[from] on, neighbours in the file, that lie in the pieces. Returns the index of
 * the first behind them; -ENOTCONN: a server is awaited. */
static int plan_pieces(struct data_flush *flush, uint32_t from, uint32_t to,
		       const struct extent_piece *pieces, int count)
{
	uint32_t i = from;

	for (int piece = 0; piece < count; piece++) {
		uint64_t end = (pieces[piece].offset + pieces[piece].length) / PAGE;

		for (; i < to && flush->pages[i]->number < end; i++) {
			struct dirty_page *page = flush->pages[i];

			if (plan_page(flush, page, &pieces[piece]) == 0)
				continue;
			if (can_wait(flush, DATA_BROKE_BEFORE))
				return -ENOTCONN;
			fail_page(flush, page, FATE_UNREACHABLE);
		}
	}
	return (int)i;
}

/* Neighbours in the file: pages[from, to). Those that can go move up to pages[count], and the
 * others are done with. -ENOTCONN: a server is awaited. */
static int plan_run(struct data_flush *flush, uint32_t from, uint32_t to)
{
	struct extent_piece pieces[DATA_PIECES_MAX];
	uint32_t i = from;

	while (i < to) {
		int count = extent_lookup(flush->thread->shared->volume, flush->inode,
					  flush->pages[i]->number * PAGE, (uint64_t)(to - i) * PAGE,
					  pieces, DATA_PIECES_MAX);
		int next = plan_pieces(flush, i, to, pieces, count);

		if (next < 0)
			return next;
		if ((uint32_t)next == i)
			break;
		i = (uint32_t)next;
	}
	/* The store cannot say: next time. */
	flush->lost += i < to;
	for (; i < to; i++)
		dirty_keep(flush->inode->dirty_file, flush->pages[i]);
	return 0;
}

static int plan(struct data_flush *flush)
{
	uint32_t total = flush->count, from = 0, to;
	int result = 0;

	flush->count = 0;
	for (; result == 0 && from < total; from = to) {
		to = from + 1;
		while (to < total && flush->pages[to]->number == flush->pages[to - 1]->number + 1)
			to++;
		result = plan_run(flush, from, to);
	}
	return result;
}

/* Before anything was sent. */
static void take_back(struct data_flush *flush)
{
	struct dirty_page *page = flush->inode->dirty_file->oldest;

	for (; page != NULL; page = page->newer)
		if (page->state == DIRTY_WRITING)
			dirty_retry(page);
	flush->count = 0;
}

/* --- Ending ----------------------------------------------------------------------------------- */

static void sync_done(struct rmem_call *call)
{
	struct data_request *request = RMEM_CONTAINER_OF(call, struct data_request, call);

	request->done(request, 0);
}

/* Those whose pages have all been seen to. */
static struct data_request *take_satisfied(struct dirty_file *file)
{
	struct data_request **at = &file->waiters, *list = NULL;

	while (*at != NULL) {
		struct data_request *request = *at;

		if (file->oldest != NULL && file->oldest->sequence <= request->sequence) {
			at = &request->next;
			continue;
		}
		*at = request->next;
		request->next = list;
		list = request;
	}
	return list;
}

static void note_lost(struct data_flush *flush)
{
	struct data_shared *shared = flush->thread->shared;

	if (flush->lost == 0)
		return;
	flush->inode->dirty_file->deadline_ns = 0;
	dirty_error_note(flush->inode->dirty_file, -EIO);
	atomic_fetch_add_explicit(&shared->flush_errors, 1, memory_order_relaxed);
	rmem_log_error(RMEM_LOG_FS,
		       "inode %llu: %u written pages could not be flushed, their server is lost; "
		       "the next fsync or close says so",
		       (unsigned long long)flush->inode->ino, flush->lost);
}

/* inode->lock held, inside the gate; drops and leaves both. */
static void end_locked(struct data_flush *flush, bool later)
{
	struct inode *inode = flush->inode;
	struct dirty_file *file = inode->dirty_file;
	struct data_thread *thread = flush->thread;
	struct io_waiter *next = gate_leave(&inode->gate, &flush->waiter);
	struct dirty_page *freed = flush->freed;
	struct data_request *satisfied;

	note_lost(flush);
	inode_mark_dirty(thread->shared->volume, inode, INODE_DIRTY_ATTR | INODE_DIRTY_MAP);
	file->flush = DIRTY_FLUSH_NONE;
	satisfied = take_satisfied(file);
	if (later) {
		file->flush = DIRTY_FLUSH_QUEUED;
		file->queue_next = thread->later;
		thread->later = inode;
		rmem_timeout_set(thread->reactor, &thread->later_timer, LATER_MS);
	} else if (file->waiters != NULL ||
		   (flush->lost == 0 && data_flush_is_due(thread, inode))) {
		data_flush_queue(thread, inode);
	}
	flush->next = thread->free_flush;
	thread->free_flush = flush;
	thread->active--;
	pthread_mutex_unlock(&inode->lock); /* from here on it may be gone */
	gate_resume(next);
	while (satisfied != NULL) {
		struct data_request *request = satisfied;

		satisfied = request->next;
		request->call.fn = sync_done;
		rmem_reactor_call(request->thread->reactor, &request->call);
	}
	dirty_pool_put(thread->shared->pool, freed);
	data_flush_run_queue(thread);
}

static void flushed(struct rmem_batch *batch, int status);

static void submit(struct data_flush *flush)
{
	flush->batch = (struct rmem_batch){
		.op = RMEM_WRITE,
		.segments = flush->segments,
		.segment_count = flush->count,
		.done = flushed,
	};
	rmem_submit(flush->thread->reactor, &flush->batch);
}

static void give_back_all(struct data_flush *flush)
{
	for (uint32_t i = 0; i < flush->count; i++)
		return_page(flush, flush->pages[i]);
	flush->count = 0;
}

/* inode->lock held; the bytes are there. */
static void arrived(struct data_flush *flush)
{
	struct data_shared *shared = flush->thread->shared;

	for (uint32_t i = 0; i < flush->count; i++) {
		struct dirty_page *page = flush->pages[i];

		if (page->fresh)
			extent_mark_written(shared->volume, flush->inode, page->number * PAGE,
					    PAGE);
		release_page(flush, page);
	}
	flush->inode->dirty_file->deadline_ns = 0;
	atomic_fetch_add_explicit(&shared->flushed_pages, flush->count, memory_order_relaxed);
	atomic_fetch_add_explicit(&shared->flush_batches, 1, memory_order_relaxed);
}

/* inode->lock held: what was for `server` has failed, the rest can be sent again. */
static void fail_server(struct data_flush *flush, uint16_t server)
{
	uint32_t total = flush->count;

	flush->count = 0;
	for (uint32_t i = 0; i < total; i++) {
		if (flush->segments[i].server == server) {
			fail_page(flush, flush->pages[i], FATE_UNREACHABLE);
			continue;
		}
		flush->segments[flush->count] = flush->segments[i];
		flush->pages[flush->count++] = flush->pages[i];
	}
	assert(flush->count < total); /* so this ends */
}

static void flushed(struct rmem_batch *batch, int status)
{
	struct data_flush *flush = RMEM_CONTAINER_OF(batch, struct data_flush, batch);
	struct data_thread *thread = flush->thread;

	pthread_mutex_lock(&flush->inode->lock);
	if (RMEM_LIKELY(status == 0)) {
		arrived(flush);
	} else if (status == -ENOTCONN && can_wait(flush, DATA_BROKE_IN_FLIGHT)) {
		give_back_all(flush);
		end_locked(flush, true);
		return;
	} else {
		fail_server(flush, batch->failed_server);
		if (flush->count > 0) {
			pthread_mutex_unlock(&flush->inode->lock);
			submit(flush);
			return;
		}
	}
	end_locked(flush, false);
	data_flush_pump(thread);
}

/* --- Starting --------------------------------------------------------------------------------- */

/* inode->lock held, inside the gate. */
static void run_locked(struct data_flush *flush)
{
	flush->freed = NULL;
	flush->lost = 0;
	take_oldest(flush);
	if (plan(flush) == -ENOTCONN) {
		take_back(flush);
		end_locked(flush, true);
	} else if (flush->count == 0) {
		end_locked(flush, false);
	} else {
		pthread_mutex_unlock(&flush->inode->lock);
		submit(flush);
	}
}

static void run_called(struct rmem_call *call)
{
	struct data_flush *flush = RMEM_CONTAINER_OF(call, struct data_flush, call);

	pthread_mutex_lock(&flush->inode->lock);
	run_locked(flush);
}

static void resume(struct io_waiter *waiter)
{
	struct data_flush *flush = RMEM_CONTAINER_OF(waiter, struct data_flush, waiter);

	rmem_reactor_call(flush->thread->reactor, &flush->call);
}

void data_flush_start(struct data_thread *thread, struct inode *inode, uint32_t most)
{
	struct data_flush *flush = thread->free_flush;

	thread->free_flush = flush->next;
	thread->active++;
	flush->thread = thread;
	flush->inode = inode;
	flush->most = most;
	flush->waiter = (struct io_waiter){.resume = resume};
	flush->call.fn = run_called;
	pthread_mutex_lock(&inode->lock);
	inode->dirty_file->flush = DIRTY_FLUSH_RUNNING;
	if (gate_enter(&inode->gate, &flush->waiter))
		run_locked(flush);
	else
		pthread_mutex_unlock(&inode->lock);
}

void data_flush_later(struct rmem_timeout *timeout)
{
	struct data_thread *thread = RMEM_CONTAINER_OF(timeout, struct data_thread, later_timer);
	struct inode *inode = thread->later;

	thread->later = NULL;
	while (inode != NULL) {
		struct inode *next = inode->dirty_file->queue_next;

		pthread_mutex_lock(&inode->lock);
		data_flush_queue(thread, inode);
		pthread_mutex_unlock(&inode->lock);
		inode = next;
	}
	data_flush_run_queue(thread);
}
