/* SPDX-License-Identifier: Apache-2.0 */
/* Making memory exist.
 *
 * Zeroing is what takes the time (seconds per 10 GiB and processor), so it is spread over threads
 * in steps; progress is told for pools that take longer than a moment. MADV_POPULATE_* reports an
 * exhausted file system or memory as an error where touching would end in a signal. Kernels before
 * 5.14 lack it: there pages are touched by hand, which is safe on a file because its memory was
 * reserved before, and on anonymous memory ends, when it runs out, as it does for any program. */
#include "engine/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "engine/base/deadline.h"
#include "engine/base/log.h"

#define RESERVE_STEP_BYTES ((uint64_t)1 << 30)
#define TOUCH_STEP_BYTES   ((uint64_t)64 << 20)
#define TOUCH_THREADS_MAX  32
#define PROGRESS_NS	   ((uint64_t)2 * RMEM_NS_PER_S)
#define MIB		   ((uint64_t)1 << 20)

int rmem_pool_new_incarnation(uint64_t *incarnation, struct rmem_error *error)
{
	do {
		if (getrandom(incarnation, sizeof(*incarnation), 0) != sizeof(*incarnation))
			return rmem_fail(error, EIO, "no random numbers from the kernel: %s",
					 strerror(errno));
	} while (*incarnation == 0);
	return 0;
}

struct progress {
	const char *doing;
	uint64_t bytes;
	_Atomic(uint64_t) next_report_ns;
};

/* Any of the threads: the one that moves the time on is the one that speaks. */
static void progress_tell(struct progress *progress, uint64_t done)
{
	uint64_t due = atomic_load_explicit(&progress->next_report_ns, memory_order_relaxed);
	uint64_t now = rmem_now_ns();

	if (now < due ||
	    !atomic_compare_exchange_strong(&progress->next_report_ns, &due, now + PROGRESS_NS))
		return;
	rmem_log_info(RMEM_LOG_SERVER, "%s the pool: %" PRIu64 " of %" PRIu64 " MiB",
		      progress->doing, done / MIB, progress->bytes / MIB);
}

static void progress_init(struct progress *progress, const char *doing, uint64_t bytes)
{
	progress->doing = doing;
	progress->bytes = bytes;
	atomic_init(&progress->next_report_ns, rmem_now_ns() + PROGRESS_NS);
}

static bool is_cancelled(int cancel_fd)
{
	struct pollfd poll_fd = {.fd = cancel_fd, .events = POLLIN};

	return cancel_fd >= 0 && poll(&poll_fd, 1, 0) > 0;
}

static int cancelled(struct rmem_error *error)
{
	return rmem_fail(error, ECANCELED, "stopped while the pool was being made");
}

int rmem_pool_reserve(int fd, uint64_t bytes, int cancel_fd, struct rmem_error *error)
{
	struct progress progress;
	uint64_t done = 0;

	progress_init(&progress, "reserving", bytes);
	while (done < bytes) {
		uint64_t step = rmem_min_u64(RESERVE_STEP_BYTES, bytes - done);

		if (is_cancelled(cancel_fd))
			return cancelled(error);
		if (fallocate(fd, 0, (off_t)done, (off_t)step) != 0) {
			if (errno == EINTR)
				continue;
			return rmem_fail(error, errno,
					 "can't reserve %" PRIu64
					 " MiB for the pool: %s after %" PRIu64 " MiB",
					 bytes / MIB, strerror(errno), done / MIB);
		}
		done += step;
		progress_tell(&progress, done);
	}
	return 0;
}

struct touch {
	uint8_t *map;
	uint64_t bytes;
	enum rmem_pool_access access;
	int cancel_fd;
	struct progress progress;
	_Atomic(uint64_t) next; /* the first byte that nobody took yet */
	_Atomic(uint64_t) done;
	_Atomic(int) error; /* of the first thread that failed */
};

static void touch_by_hand(uint8_t *at, uint64_t bytes, enum rmem_pool_access access)
{
	for (uint64_t i = 0; i < bytes; i += RMEM_PAGE_BYTES) {
		if (access == RMEM_POOL_SURVIVED)
			(void)*(volatile uint8_t *)&at[i];
		else
			*(volatile uint8_t *)&at[i] = 0;
	}
}

static int touch_step(uint8_t *at, uint64_t bytes, enum rmem_pool_access access)
{
	int advice = access == RMEM_POOL_SURVIVED ? MADV_POPULATE_READ : MADV_POPULATE_WRITE;

	while (madvise(at, bytes, advice) != 0) {
		if (errno == EINTR || errno == EAGAIN)
			continue;
		if (errno != EINVAL)
			return -errno;
		touch_by_hand(at, bytes, access);
		break;
	}
	return 0;
}

static void *touch_work(void *argument)
{
	struct touch *touch = argument;

	while (atomic_load_explicit(&touch->error, memory_order_relaxed) == 0) {
		uint64_t at = atomic_fetch_add_explicit(&touch->next, TOUCH_STEP_BYTES,
							memory_order_relaxed);
		uint64_t step;
		int rc;

		if (at >= touch->bytes)
			break;
		step = rmem_min_u64(TOUCH_STEP_BYTES, touch->bytes - at);
		if (is_cancelled(touch->cancel_fd))
			rc = -ECANCELED;
		else
			rc = touch_step(touch->map + at, step, touch->access);
		if (rc != 0)
			atomic_store(&touch->error, rc);
		progress_tell(&touch->progress, atomic_fetch_add(&touch->done, step) + step);
	}
	return NULL;
}

static unsigned touch_threads(uint64_t bytes)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t steps = (bytes + TOUCH_STEP_BYTES - 1) / TOUCH_STEP_BYTES;
	uint64_t threads = processors < 1 ? 1 : (uint64_t)processors;

	return (unsigned)rmem_min_u64(rmem_min_u64(threads, steps), TOUCH_THREADS_MAX);
}

int rmem_pool_touch(const struct rmem_pool *pool, enum rmem_pool_access access, int cancel_fd,
		    struct rmem_error *error)
{
	struct touch touch = {.map = pool->map,
			      .bytes = pool->map_bytes,
			      .access = access,
			      .cancel_fd = cancel_fd};
	pthread_t threads[TOUCH_THREADS_MAX];
	unsigned wanted = touch_threads(touch.bytes);
	unsigned started = 0;
	int rc;

	progress_init(&touch.progress, "populating", touch.bytes);
	/* This thread works too, so one that can't be started only costs time. */
	while (started + 1 < wanted &&
	       pthread_create(&threads[started], NULL, touch_work, &touch) == 0)
		started++;
	touch_work(&touch);
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	rc = atomic_load(&touch.error);
	if (rc == -ECANCELED)
		return cancelled(error);
	if (rc == 0)
		return 0;
	return rmem_fail(error, ENOMEM,
			 "the memory of the pool (%" PRIu64
			 " MiB) can't be had: %s; make it smaller",
			 touch.bytes / MIB, strerror(-rc));
}
