/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/data.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "engine/base/checked.h"
#include "engine/base/log.h"
#include "fs/data_plan.h"

#define RETRY_MS 20 /* how often a request that waits for a lost server looks again */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Ends a request that is inside the gate. inode->lock is held, and dropped here. */
static void finish_locked(struct data_request *request, int status)
{
	struct inode *inode = request->inode;
	struct data_thread *thread = request->thread;
	struct io_waiter *next = gate_leave(&inode->gate, &request->waiter);

	pthread_mutex_unlock(&inode->lock);
	gate_resume(next);
	if (request->pages.got != NULL)
		dirty_pool_put(thread->shared->pool, request->pages.got);
	request->done(request, status);
}

static void finish(struct data_request *request, int status)
{
	pthread_mutex_lock(&request->inode->lock);
	finish_locked(request, status);
}

/* A few nanoseconds, for a few milliseconds of error. */
static uint64_t coarse_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* When a request that finds its server gone may stop to try. */
static uint64_t deadline_of(const struct data_request *request, enum data_break broke)
{
	const struct data_shared *shared = request->thread->shared;
	uint64_t from_ns;

	if (shared->options.wait_ms != 0)
		return now_ns() + (uint64_t)shared->options.wait_ms * 1000000u;
	from_ns = broke == DATA_BROKE_IN_FLIGHT ? request->started_ns
						: volume_detached_ns(shared->volume);
	return from_ns + (uint64_t)shared->options.grace_ms * 1000000u;
}

/* A server is not there: fail, or try again until the deadline. */
static void wait_for_server(struct data_request *request, enum data_break broke)
{
	struct data_thread *thread = request->thread;
	uint64_t now = now_ns();

	if (request->deadline_ns == 0)
		request->deadline_ns = deadline_of(request, broke);
	if (atomic_load_explicit(&request->interrupted, memory_order_relaxed)) {
		finish(request, -EINTR);
		return;
	}
	if (now >= request->deadline_ns) {
		finish(request, -EIO);
		return;
	}
	request->next = thread->waiting;
	thread->waiting = request;
	if (request->next == NULL)
		rmem_timeout_set(thread->reactor, &thread->retry, RETRY_MS);
}

static void transferred(struct rmem_batch *batch, int status)
{
	struct data_request *request = RMEM_CONTAINER_OF(batch, struct data_request, batch);

	pthread_mutex_lock(&request->inode->lock);
	request->inode->through -= request->kind == DATA_WRITE;
	if (RMEM_LIKELY(status == 0)) {
		finish_locked(request, data_apply(request->thread->shared, request));
	} else if (status == -ENOTCONN) {
		pthread_mutex_unlock(&request->inode->lock);
		wait_for_server(request, DATA_BROKE_IN_FLIGHT);
	} else {
		finish_locked(request, -EIO);
	}
}

/* The write is in dirty pages. */
static void finish_staged(struct data_request *request)
{
	struct data_thread *thread = request->thread;

	data_flush_note(thread, request->inode);
	finish_locked(request, 0);
	data_flush_pump(thread);
}

static void resume(struct io_waiter *waiter)
{
	struct data_request *request = RMEM_CONTAINER_OF(waiter, struct data_request, waiter);

	rmem_reactor_call(request->thread->reactor, &request->call);
}

/* The request is inside the gate and inode->lock is held; it is dropped here. */
static void run_locked(struct data_request *request)
{
	struct data_thread *thread = request->thread;
	struct inode *inode = request->inode;
	int result = inode->removed ? -ESTALE : data_plan(thread->shared, request);

	if (result == DATA_NEED_EXCLUSIVE) {
		struct io_waiter *next = gate_leave(&inode->gate, &request->waiter);

		request->waiter.exclusive = true;
		if (!gate_enter(&inode->gate, &request->waiter)) {
			pthread_mutex_unlock(&inode->lock);
			gate_resume(next);
			return;
		}
		assert(next == NULL); /* who entered in between would have kept us out */
		result = data_plan(thread->shared, request);
	}
	if (result == DATA_STAGED) {
		finish_staged(request);
		return;
	}
	if (result == 0 && request->segment_count == 0) {
		finish_locked(request, data_apply(thread->shared, request));
		return;
	}
	if (result != 0 && result != -ENOTCONN) {
		finish_locked(request, result);
		return;
	}
	inode->through += result == 0 && request->kind == DATA_WRITE;
	pthread_mutex_unlock(&inode->lock);
	if (result == -ENOTCONN) {
		wait_for_server(request, DATA_BROKE_BEFORE);
		return;
	}
	request->batch = (struct rmem_batch){
		.op = request->kind == DATA_READ ? RMEM_READ : RMEM_WRITE,
		.segments = request->segments,
		.segment_count = request->segment_count,
		.done = transferred,
	};
	rmem_submit(thread->reactor, &request->batch);
}

static void run_resumed(struct rmem_call *call)
{
	struct data_request *request = RMEM_CONTAINER_OF(call, struct data_request, call);

	pthread_mutex_lock(&request->inode->lock);
	run_locked(request);
}

static void retry_waiting(struct rmem_timeout *timeout)
{
	struct data_thread *thread = RMEM_CONTAINER_OF(timeout, struct data_thread, retry);
	struct data_request *request = thread->waiting;

	thread->waiting = NULL;
	while (request != NULL) {
		struct data_request *next = request->next;

		pthread_mutex_lock(&request->inode->lock);
		run_locked(request);
		request = next;
	}
}

void data_enter(struct data_request *request)
{
	struct inode *inode = request->inode;

	request->call.fn = run_resumed;
	pthread_mutex_lock(&inode->lock);
	if (gate_enter(&inode->gate, &request->waiter))
		run_locked(request);
	else
		pthread_mutex_unlock(&inode->lock);
}

/* Whether the write should get pages to be staged in. */
static bool may_stage(const struct data_shared *shared, struct data_request *request)
{
	uint64_t first = request->offset / VOLUME_PAGE_BYTES;
	uint64_t last = (request->offset + request->length - 1) / VOLUME_PAGE_BYTES;

	if (shared->pool == NULL || request->kind != DATA_WRITE || request->length == 0 ||
	    request->length > shared->options.stage_bytes)
		return false;
	request->pages.count = (uint32_t)(last - first + 1);
	return request->pages.count <= shared->pool->count;
}

void data_start(struct data_thread *thread, struct data_request *request)
{
	if (request->kind != DATA_READ &&
	    !rmem_range_ok(request->offset, request->length, VOLUME_SIZE_MAX)) {
		request->done(request, -EFBIG);
		return;
	}
	request->thread = thread;
	request->transferred = 0;
	request->dropped = false;
	request->started_ns = coarse_now_ns();
	request->deadline_ns = 0;
	request->pages.got = NULL;
	request->waiter.exclusive = request->kind >= DATA_TRUNCATE;
	request->waiter.resume = resume;
	if (request->kind == DATA_SYNC)
		data_flush_sync(thread, request);
	else if (!may_stage(thread->shared, request) || data_flush_reserve(thread, request))
		data_enter(request);
}

/* They are what they are for as long as the mount lasts, up or down. */
static bool all_are_local(struct rmem_engine *engine)
{
	struct rmem_server_info info;

	for (unsigned i = 0; rmem_server_info(engine, i, &info) == 0; i++) {
		if (!info.is_copy)
			return false;
	}
	return true;
}

static int create_pool(struct data_shared *shared, struct rmem_error *error)
{
	const struct data_options *options = &shared->options;
	struct rmem_arena_options arena = {
		.slot_count = (unsigned)(options->dirty_bytes / VOLUME_PAGE_BYTES),
		.huge_pages = options->huge_pages,
		.stream_threshold_bytes = options->stream_threshold_bytes,
	};
	int status;

	if (options->dirty_bytes == 0)
		return 0;
	if (!options->stage_local && all_are_local(shared->engine)) {
		rmem_log_info(RMEM_LOG_FS, "fs.write is back, but all servers are of this host: "
					   "writes go through (see fs.stage_local)");
		return 0;
	}
	status = dirty_pool_create(shared->engine, &arena, &shared->pool, error);
	if (status == 0)
		shared->pool_high = shared->pool->count / 2;
	if (status == 0)
		shared->pool_low = shared->pool->count / 4 + 1;
	return status;
}

int data_shared_create(struct rmem_engine *engine, struct volume *volume,
		       const struct data_options *options, struct data_shared **result,
		       struct rmem_error *error)
{
	struct data_shared *shared = calloc(1, sizeof(*shared));
	int status;

	if (shared == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	shared->engine = engine;
	shared->volume = volume;
	shared->options = *options;
	shared->zeros = mmap(NULL, VOLUME_PAGE_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (shared->zeros == MAP_FAILED) {
		free(shared);
		return rmem_fail(error, ENOMEM, "out of memory");
	}
	status = rmem_memory_register(engine, shared->zeros, VOLUME_PAGE_BYTES,
				      &shared->zeros_memory, error);
	if (status == 0)
		status = create_pool(shared, error);
	if (status != 0) {
		data_shared_destroy(shared);
		return status;
	}
	*result = shared;
	return 0;
}

void data_shared_destroy(struct data_shared *shared)
{
	if (shared == NULL)
		return;
	dirty_pool_destroy(shared->pool);
	if (shared->zeros_memory != NULL)
		rmem_memory_unregister(shared->zeros_memory);
	munmap(shared->zeros, VOLUME_PAGE_BYTES);
	free(shared);
}

bool data_waits(const struct data_shared *shared)
{
	return shared->options.wait_ms != 0;
}

int data_thread_create(struct data_shared *shared, struct rmem_reactor *reactor,
		       struct data_thread **result)
{
	struct data_thread *thread = calloc(1, sizeof(*thread));

	if (thread == NULL)
		return -ENOMEM;
	thread->shared = shared;
	thread->reactor = reactor;
	thread->retry.fn = retry_waiting;
	if (shared->pool != NULL) {
		int status = data_flush_init(thread);

		if (status != 0) {
			data_thread_destroy(thread);
			return status;
		}
	}
	*result = thread;
	return 0;
}

void data_thread_destroy(struct data_thread *thread)
{
	if (thread == NULL)
		return;
	rmem_timeout_cancel(thread->reactor, &thread->retry);
	data_flush_finish(thread);
	free(thread);
}
