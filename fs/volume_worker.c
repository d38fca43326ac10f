/* SPDX-License-Identifier: Apache-2.0 */
/* One thread for whatever may block for long. It does what is due first: the periodic flush, then
 * all syncs that wait (with one store_sync() for all of them), then one job; a job that is long
 * does a piece of its work and defers itself again, so that an fsync never waits for a large
 * reclaim.
 *
 * A periodic sync that failed has lost something that somebody may have written long ago and will
 * ask about only later, when the disk says yes again: the failure is kept and given to the syncs
 * that wait next. A periodic flush that failed leaves its inodes dirty, and whoever flushes them
 * meets the error himself. */
#include "fs/volume_worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/log.h"
#include "fs/inode.h"

struct volume_worker {
	struct volume *volume;
	pthread_t thread;

	pthread_mutex_t lock; /* guards this paragraph */
	pthread_cond_t wake;
	struct volume_job *job_head, *job_tail;
	struct volume_sync *sync_head, *sync_tail;
	bool stop;

	/* The worker's own. */
	struct timespec flush_due;
	int kept_error; /* of a periodic sync */
	bool failing;	/* the last periodic flush failed, and that was logged */
};

static void set_flush_due(struct volume_worker *worker)
{
	unsigned interval_ms = worker->volume->sync_interval_ms;

	clock_gettime(CLOCK_MONOTONIC, &worker->flush_due);
	worker->flush_due.tv_sec += interval_ms / 1000;
	worker->flush_due.tv_nsec += (long)(interval_ms % 1000) * 1000000;
	if (worker->flush_due.tv_nsec >= 1000000000) {
		worker->flush_due.tv_nsec -= 1000000000;
		worker->flush_due.tv_sec++;
	}
}

static bool flush_is_due(const struct volume_worker *worker)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec != worker->flush_due.tv_sec)
		return now.tv_sec > worker->flush_due.tv_sec;
	return now.tv_nsec >= worker->flush_due.tv_nsec;
}

static void flush_periodically(struct volume_worker *worker)
{
	int flushed = inode_flush_all(worker->volume);
	int synced = store_sync(worker->volume->store);
	int error = flushed != 0 ? flushed : synced;

	if (synced != 0)
		worker->kept_error = synced;
	if (error != 0 && !worker->failing)
		rmem_log_error(RMEM_LOG_FS,
			       "cannot put changes of files into the store: %s; "
			       "they are kept and tried again every %u ms",
			       strerror(-error), worker->volume->sync_interval_ms);
	if (error == 0 && worker->failing)
		rmem_log_warn(RMEM_LOG_FS, "the store takes changes of files again");
	worker->failing = error != 0;
	set_flush_due(worker);
}

static void run_syncs(struct volume_worker *worker, struct volume_sync *sync)
{
	int error = store_sync(worker->volume->store);

	if (error == 0) {
		error = worker->kept_error;
		worker->kept_error = 0;
	}
	while (sync != NULL) {
		struct volume_sync *next = sync->next; /* done() may free it */

		sync->done(sync, error);
		sync = next;
	}
}

/* Lock held; does one thing without it. False: nothing is there. */
static bool run_one(struct volume_worker *worker)
{
	struct volume_sync *syncs = worker->sync_head;
	struct volume_job *job = worker->job_head;

	if (syncs != NULL) {
		worker->sync_head = worker->sync_tail = NULL;
		pthread_mutex_unlock(&worker->lock);
		run_syncs(worker, syncs);
	} else if (job != NULL) {
		worker->job_head = job->next;
		if (job->next == NULL)
			worker->job_tail = NULL;
		pthread_mutex_unlock(&worker->lock);
		job->run(job);
	} else {
		return false;
	}
	pthread_mutex_lock(&worker->lock);
	return true;
}

static void *work(void *user)
{
	struct volume_worker *worker = user;

	pthread_setname_np(pthread_self(), "rmem-volume");
	set_flush_due(worker);
	pthread_mutex_lock(&worker->lock);
	for (;;) {
		if (flush_is_due(worker)) {
			pthread_mutex_unlock(&worker->lock);
			flush_periodically(worker);
			pthread_mutex_lock(&worker->lock);
		}
		if (run_one(worker))
			continue;
		if (worker->stop)
			break;
		pthread_cond_timedwait(&worker->wake, &worker->lock, &worker->flush_due);
	}
	pthread_mutex_unlock(&worker->lock);
	return NULL;
}

int volume_worker_create(struct volume *volume, struct volume_worker **out)
{
	struct volume_worker *worker = calloc(1, sizeof(*worker));
	pthread_condattr_t attr;
	int error;

	if (worker == NULL)
		return -ENOMEM;
	worker->volume = volume;
	pthread_mutex_init(&worker->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&worker->wake, &attr);
	pthread_condattr_destroy(&attr);
	error = pthread_create(&worker->thread, NULL, work, worker);
	if (error != 0) {
		pthread_cond_destroy(&worker->wake);
		pthread_mutex_destroy(&worker->lock);
		free(worker);
		return -error;
	}
	*out = worker;
	return 0;
}

void volume_worker_destroy(struct volume_worker *worker)
{
	if (worker == NULL)
		return;
	pthread_mutex_lock(&worker->lock);
	worker->stop = true;
	pthread_cond_signal(&worker->wake);
	pthread_mutex_unlock(&worker->lock);
	pthread_join(worker->thread, NULL);
	pthread_cond_destroy(&worker->wake);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
}

void volume_defer(struct volume *volume, struct volume_job *job)
{
	struct volume_worker *worker = volume->worker;

	job->next = NULL;
	pthread_mutex_lock(&worker->lock);
	if (worker->job_tail != NULL)
		worker->job_tail->next = job;
	else
		worker->job_head = job;
	worker->job_tail = job;
	pthread_cond_signal(&worker->wake);
	pthread_mutex_unlock(&worker->lock);
}

void volume_sync(struct volume *volume, struct volume_sync *sync)
{
	struct volume_worker *worker = volume->worker;

	sync->next = NULL;
	pthread_mutex_lock(&worker->lock);
	if (worker->sync_tail != NULL)
		worker->sync_tail->next = sync;
	else
		worker->sync_head = sync;
	worker->sync_tail = sync;
	pthread_cond_signal(&worker->wake);
	pthread_mutex_unlock(&worker->lock);
}
