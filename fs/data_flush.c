/* SPDX-License-Identifier: Apache-2.0 */
/* When dirty pages go to remote memory. What becomes of a flush that was started is in
 * data_flush_run.c.
 *
 * A file that becomes dirty goes on the list of the thread that made it so, which flushes it when
 * its oldest page is old enough, or memory gets short: the oldest pages first, many at a time, one
 * flush a file. Whoever waits for a file to be flushed (fsync, close) flushes it himself, at once.
 *
 * A writer who finds no free page waits, and calls all threads to flush. The wait is bounded: pages
 * that cannot be flushed are dropped, with an error for the file; and who waited THROTTLE_MS goes
 * on without pages, so his write goes through. */
#include "fs/data_flush.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/base/checked.h"

#define THROTTLE_MS    1000
#define TICK_MS_MIN    10
#define TICK_MS_MAX    250
#define FLUSHES	       8  /* under way at a time, by one thread */
#define IDLE_PAGES     16 /* 64 KiB: one transfer where they lie side by side, some 5 us over shm */
#define FLUSHES_BEHIND 4  /* of these, for age and memory: the rest is for those who wait */

/* --- Lists ------------------------------------------------------------------------------------ */

static void list_push(struct data_thread *thread, struct inode *inode)
{
	inode->dirty_file->list_next = NULL;
	if (thread->dirty_first == NULL)
		thread->dirty_first = inode;
	else
		thread->dirty_last->dirty_file->list_next = inode;
	thread->dirty_last = inode;
	thread->dirty_files++;
}

static struct inode *list_pop(struct data_thread *thread)
{
	struct inode *inode = thread->dirty_first;

	thread->dirty_first = inode->dirty_file->list_next;
	thread->dirty_files--;
	return inode;
}

/* inode->lock held. */
void data_flush_queue(struct data_thread *thread, struct inode *inode)
{
	inode->dirty_file->flush = DIRTY_FLUSH_QUEUED;
	inode->dirty_file->queue_next = NULL;
	if (thread->queue_first == NULL)
		thread->queue_first = inode;
	else
		thread->queue_last->dirty_file->queue_next = inode;
	thread->queue_last = inode;
}

/* Not from within: what ends at once must not start the next one on its stack. */
void data_flush_run_queue(struct data_thread *thread)
{
	if (thread->running)
		return;
	thread->running = true;
	while (thread->queue_first != NULL && thread->free_flush != NULL) {
		struct inode *inode = thread->queue_first;

		thread->queue_first = inode->dirty_file->queue_next;
		data_flush_start(thread, inode, FLUSH_PAGES);
	}
	thread->running = false;
}

/* --- Age and memory --------------------------------------------------------------------------- */

static bool is_short(const struct data_thread *thread)
{
	const struct dirty_pool *pool = thread->shared->pool;

	return dirty_pool_used(pool) >= thread->shared->pool_high || dirty_pool_is_short(pool);
}

bool data_flush_is_due(const struct data_thread *thread, const struct inode *inode)
{
	const struct dirty_file *file = inode->dirty_file;
	uint32_t age_ms;

	if (!dirty_any(file))
		return false;
	age_ms = dirty_now_ms() - file->oldest->since_ms;
	return thread->draining || is_short(thread) ||
	       age_ms >= thread->shared->options.dirty_age_ms;
}

static void set_tick(struct data_thread *thread)
{
	uint64_t ms = rmem_max_u64(thread->shared->options.dirty_age_ms / 4, TICK_MS_MIN);

	thread->ticking = true;
	rmem_timeout_set(thread->reactor, &thread->tick, (unsigned)rmem_min_u64(ms, TICK_MS_MAX));
}

void data_flush_note(struct data_thread *thread, struct inode *inode)
{
	struct dirty_file *file = inode->dirty_file;

	if (RMEM_LIKELY(file->listed))
		return;
	file->listed = true;
	inode_ref(thread->shared->volume, inode);
	list_push(thread, inode);
	if (!thread->ticking)
		set_tick(thread);
}

/* Looks once at each file of the list, and lets go of those that are clean. */
static void look_at_files(struct data_thread *thread)
{
	for (uint32_t left = thread->dirty_files; left > 0 && thread->active < FLUSHES_BEHIND;
	     left--) {
		struct inode *inode = list_pop(thread);
		struct dirty_file *file = inode->dirty_file;

		pthread_mutex_lock(&inode->lock);
		if (!dirty_any(file) && file->flush == DIRTY_FLUSH_NONE) {
			file->listed = false;
			pthread_mutex_unlock(&inode->lock);
			inode_unref(thread->shared->volume, inode, 1);
			continue;
		}
		list_push(thread, inode);
		if (file->flush == DIRTY_FLUSH_NONE && data_flush_is_due(thread, inode))
			data_flush_queue(thread, inode);
		pthread_mutex_unlock(&inode->lock);
		data_flush_run_queue(thread);
	}
}

/* At queue depth 1 a thread waits as long as it works. What it sends then costs the next request
 * little or nothing; a quarter of the memory is left for what is soon written again. */
void data_thread_idle(struct data_thread *thread)
{
	const struct data_shared *shared = thread->shared;
	struct inode *inode;
	bool idle;

	if (shared->pool == NULL || dirty_pool_used(shared->pool) < shared->pool_low ||
	    thread->active > 0 || thread->dirty_files == 0)
		return;
	inode = list_pop(thread);
	list_push(thread, inode);
	pthread_mutex_lock(&inode->lock);
	idle = inode->dirty_file->flush == DIRTY_FLUSH_NONE && dirty_any(inode->dirty_file);
	if (idle)
		inode->dirty_file->flush = DIRTY_FLUSH_QUEUED;
	pthread_mutex_unlock(&inode->lock);
	if (idle)
		data_flush_start(thread, inode, IDLE_PAGES);
}

static void kick_others(const struct data_thread *thread)
{
	struct data_shared *shared = thread->shared;

	for (unsigned i = 0; i < shared->thread_count; i++) {
		struct data_thread *other = shared->threads[i];

		/* The call orders what it is about; the flag only keeps it from being queued twice.
		 */
		if (other != thread &&
		    !atomic_exchange_explicit(&other->kicked, true, memory_order_acq_rel))
			rmem_reactor_call(other->reactor, &other->kick);
	}
}

void data_flush_pump(struct data_thread *thread)
{
	struct data_shared *shared = thread->shared;
	uint32_t used;

	if (RMEM_LIKELY(!is_short(thread)))
		return;
	used = dirty_pool_used(shared->pool);
	if (used > atomic_load_explicit(&shared->used_max, memory_order_relaxed))
		atomic_store_explicit(&shared->used_max, used, memory_order_relaxed);
	if (thread->active >= FLUSHES_BEHIND)
		return;
	look_at_files(thread);
	if (thread->active == 0)
		kick_others(thread); /* it is theirs */
}

static void kicked(struct rmem_call *call)
{
	struct data_thread *thread = RMEM_CONTAINER_OF(call, struct data_thread, kick);

	atomic_store_explicit(&thread->kicked, false, memory_order_release);
	look_at_files(thread);
}

/* --- Waiting for pages ------------------------------------------------------------------------ */

static void unlink_throttled(struct data_thread *thread, struct data_request *request)
{
	struct data_request **at = &thread->throttled;

	while (*at != request)
		at = &(*at)->next;
	*at = request->next;
}

static void go_on(struct rmem_call *call)
{
	struct data_request *request = RMEM_CONTAINER_OF(call, struct data_request, call);

	unlink_throttled(request->thread, request);
	data_enter(request);
}

static void granted(struct dirty_wait *wait)
{
	struct data_request *request = RMEM_CONTAINER_OF(wait, struct data_request, pages);

	rmem_reactor_call(request->thread->reactor, &request->call);
}

bool data_flush_reserve(struct data_thread *thread, struct data_request *request)
{
	request->pages.granted = granted;
	request->call.fn = go_on;
	if (RMEM_LIKELY(dirty_pool_take(thread->shared->pool, &request->pages)))
		return true;
	request->since_ms = dirty_now_ms();
	request->next = thread->throttled;
	thread->throttled = request;
	if (!thread->ticking)
		set_tick(thread);
	look_at_files(thread);
	kick_others(thread);
	return false;
}

/* Who waited too long goes on without. */
static void look_at_throttled(struct data_thread *thread)
{
	struct data_request *request = thread->throttled;

	while (request != NULL) {
		struct data_request *next = request->next;
		bool old = dirty_now_ms() - request->since_ms >= THROTTLE_MS;

		if (old && dirty_pool_cancel(thread->shared->pool, &request->pages)) {
			unlink_throttled(thread, request);
			data_enter(request);
		}
		request = next;
	}
}

static void tick(struct rmem_timeout *timeout)
{
	struct data_thread *thread = RMEM_CONTAINER_OF(timeout, struct data_thread, tick);

	thread->ticking = false;
	look_at_throttled(thread);
	look_at_files(thread);
	if (!thread->ticking && (thread->dirty_files > 0 || thread->throttled != NULL))
		set_tick(thread);
}

/* --- Waiting for a flush ---------------------------------------------------------------------- */

void data_flush_sync(struct data_thread *thread, struct data_request *request)
{
	struct inode *inode = request->inode;
	struct dirty_file *file;

	pthread_mutex_lock(&inode->lock);
	file = inode->dirty_file;
	if (!dirty_any(file)) {
		pthread_mutex_unlock(&inode->lock);
		request->done(request, 0);
		return;
	}
	request->sequence = file->sequence;
	request->next = file->waiters;
	file->waiters = request;
	if (file->flush == DIRTY_FLUSH_NONE)
		data_flush_queue(thread, inode);
	pthread_mutex_unlock(&inode->lock);
	data_flush_run_queue(thread);
}

/* --- Life ------------------------------------------------------------------------------------- */

int data_flush_init(struct data_thread *thread)
{
	struct data_shared *shared = thread->shared;

	if (shared->thread_count == DATA_THREADS_MAX)
		return -ENOSPC;
	thread->flushes = calloc(FLUSHES, sizeof(*thread->flushes));
	if (thread->flushes == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < FLUSHES; i++) {
		thread->flushes[i].next = thread->free_flush;
		thread->free_flush = &thread->flushes[i];
	}
	thread->tick.fn = tick;
	thread->later_timer.fn = data_flush_later;
	thread->kick.fn = kicked;
	shared->threads[shared->thread_count++] = thread;
	return 0;
}

void data_flush_finish(struct data_thread *thread)
{
	if (thread->flushes == NULL)
		return;
	rmem_timeout_cancel(thread->reactor, &thread->tick);
	rmem_timeout_cancel(thread->reactor, &thread->later_timer);
	free(thread->flushes);
}

bool data_thread_drain(struct data_thread *thread, bool give_up)
{
	if (thread->flushes == NULL)
		return true;
	thread->draining = true;
	thread->giving_up = give_up;
	if (give_up && thread->later != NULL)
		data_flush_later(&thread->later_timer);
	look_at_files(thread);
	return thread->dirty_files == 0 && thread->active == 0 && thread->queue_first == NULL &&
	       thread->later == NULL;
}

bool data_stats_read(const struct data_shared *shared, struct data_stats *stats)
{
	const struct dirty_pool *pool = shared->pool;

	*stats = (struct data_stats){0};
	if (pool == NULL)
		return shared->options.dirty_bytes > 0;
	*stats = (struct data_stats){
		.dirty_bytes = (uint64_t)dirty_pool_used(pool) * VOLUME_PAGE_BYTES,
		.dirty_bytes_max = (uint64_t)pool->count * VOLUME_PAGE_BYTES,
		.flushed_bytes =
			atomic_load_explicit(&shared->flushed_pages, memory_order_relaxed) *
			VOLUME_PAGE_BYTES,
		.flush_batches = atomic_load_explicit(&shared->flush_batches, memory_order_relaxed),
		.flush_errors = atomic_load_explicit(&shared->flush_errors, memory_order_relaxed),
		.throttled = atomic_load_explicit(&pool->throttled, memory_order_relaxed),
	};
	return true;
}
