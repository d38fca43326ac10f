/* SPDX-License-Identifier: Apache-2.0 */
/* A mapped file answers an access that fails (a lost server, a truncation) with SIGBUS in the
 * thread that made it. The handler jumps out of the access, back to where the thread began, which
 * reports it as an error like any other; a SIGBUS that isn't a worker's at its part ends the
 * process as if there were no handler. */
#include "tools/memtouch_crew.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/timer.h"
#include "tools/memtouch_worker.h"

struct member {
	struct touch_worker worker;
	pthread_t thread;
	struct touch_crew *crew;
};

struct touch_crew {
	_Atomic(bool) stop;
	int fd;		      /* counts news for the main thread */
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t gate;  /* `go` was set */
	pthread_cond_t left;  /* `state.ended` rose */
	bool go;
	struct touch_crew_state state;
	unsigned started;
	unsigned count;
	struct member members[];
};

static _Thread_local struct touch_worker *own_worker;

static void escape_from_access(int number, siginfo_t *info, void *context)
{
	struct touch_worker *worker = own_worker;
	const unsigned char *address = info->si_addr;

	(void)context;
	if (worker != NULL && address >= worker->memory &&
	    (uint64_t)(address - worker->memory) < worker->pages * RMEM_PAGE_BYTES) {
		worker->fault = address;
		siglongjmp(worker->escape, 1);
	}
	signal(number, SIG_DFL); /* the access is made again, and ends the process */
}

static void catch_faults(void)
{
	struct sigaction action = {.sa_sigaction = escape_from_access, .sa_flags = SA_SIGINFO};

	sigaction(SIGBUS, &action, NULL);
}

static void tell(struct touch_crew *crew, unsigned *counter)
{
	pthread_mutex_lock(&crew->lock);
	++*counter;
	pthread_cond_signal(&crew->left);
	pthread_mutex_unlock(&crew->lock);
	(void)eventfd_write(crew->fd, 1);
}

static void wait_for_go(struct touch_crew *crew)
{
	pthread_mutex_lock(&crew->lock);
	while (!crew->go)
		pthread_cond_wait(&crew->gate, &crew->lock);
	pthread_mutex_unlock(&crew->lock);
}

static int work(struct touch_crew *crew, struct touch_worker *worker)
{
	int rc = touch_worker_warm(worker);

	if (rc != 0)
		return rc;
	tell(crew, &crew->state.warm);
	wait_for_go(crew);
	while (rc == 0 && !touch_worker_stopped(worker))
		rc = touch_worker_step(worker);
	return rc;
}

static void *member_main(void *argument)
{
	struct member *member = argument;
	struct touch_worker *worker = &member->worker;

	own_worker = worker;
	/* With the signal mask: the handler's would block SIGBUS from then on. */
	if (sigsetjmp(worker->escape, 1) == 0)
		(void)work(member->crew, worker);
	else
		(void)touch_area_explain_fault(worker->area, (const void *)worker->fault,
					       &worker->error);
	own_worker = NULL;
	if (worker->error.code != 0)
		atomic_store_explicit(&member->crew->stop, true, memory_order_relaxed);
	tell(member->crew, &member->crew->state.ended);
	return NULL;
}

static int start(struct touch_crew *crew, struct rmem_error *error)
{
	for (unsigned i = 0; i < crew->count; i++) {
		struct member *member = &crew->members[i];
		int rc = pthread_create(&member->thread, NULL, member_main, member);

		if (rc != 0)
			return rmem_fail(error, rc, "can't start thread %u of %u: %s", i + 1,
					 crew->count, strerror(rc));
		crew->started++;
	}
	return 0;
}

static int set_up(struct touch_crew *crew, const struct touch_options *options,
		  const struct touch_area *area, struct rmem_error *error)
{
	crew->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (crew->fd < 0)
		return rmem_fail(error, errno, "no eventfd: %s", strerror(errno));
	for (unsigned i = 0; i < crew->count; i++) {
		struct member *member = &crew->members[i];
		int rc = touch_worker_init(&member->worker, options, area, i, error);

		if (rc != 0)
			return rc;
		member->worker.stop = &crew->stop;
		member->crew = crew;
	}
	return 0;
}

int touch_crew_create(const struct touch_options *options, const struct touch_area *area,
		      struct touch_crew **out, struct rmem_error *error)
{
	size_t bytes = sizeof(struct touch_crew) + options->threads * sizeof(struct member);
	struct touch_crew *crew = aligned_alloc(_Alignof(struct touch_crew), bytes);
	int rc;

	if (crew == NULL)
		return rmem_fail(error, ENOMEM, "no memory for the threads");
	memset(crew, 0, bytes);
	crew->fd = -1;
	crew->count = (unsigned)options->threads;
	pthread_mutex_init(&crew->lock, NULL);
	pthread_cond_init(&crew->gate, NULL);
	pthread_cond_init(&crew->left, NULL);
	catch_faults();
	rc = set_up(crew, options, area, error);
	if (rc == 0)
		rc = start(crew, error);
	if (rc == 0) {
		*out = crew;
		return 0;
	}
	touch_crew_stop(crew);
	/* They have just begun, and stop after a batch. */
	if (touch_crew_join(crew, 60000) == 0)
		touch_crew_destroy(crew);
	return rc;
}

int touch_crew_fd(const struct touch_crew *crew)
{
	return crew->fd;
}

void touch_crew_look(struct touch_crew *crew, struct touch_crew_state *state)
{
	eventfd_t news;

	(void)eventfd_read(crew->fd, &news);
	pthread_mutex_lock(&crew->lock);
	*state = crew->state;
	pthread_mutex_unlock(&crew->lock);
}

void touch_crew_go(struct touch_crew *crew)
{
	pthread_mutex_lock(&crew->lock);
	crew->go = true;
	pthread_cond_broadcast(&crew->gate);
	pthread_mutex_unlock(&crew->lock);
}

void touch_crew_stop(struct touch_crew *crew)
{
	atomic_store_explicit(&crew->stop, true, memory_order_relaxed);
	touch_crew_go(crew);
}

int touch_crew_join(struct touch_crew *crew, unsigned timeout_ms)
{
	struct timespec end;
	int rc = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += timeout_ms / 1000;
	end.tv_nsec += (long)(timeout_ms % 1000) * (long)RMEM_NS_PER_MS;
	if (end.tv_nsec >= (long)RMEM_NS_PER_S) {
		end.tv_nsec -= (long)RMEM_NS_PER_S;
		end.tv_sec++;
	}
	pthread_mutex_lock(&crew->lock);
	while (crew->state.ended < crew->started && rc == 0)
		rc = pthread_cond_timedwait(&crew->left, &crew->lock, &end);
	pthread_mutex_unlock(&crew->lock);
	for (; crew->started > 0; crew->started--) {
		pthread_t thread = crew->members[crew->started - 1].thread;

		if (rc == 0)
			pthread_join(thread, NULL);
		else
			pthread_detach(thread); /* nobody waits for it any more */
	}
	return -rc;
}

int touch_crew_error(struct touch_crew *crew, struct rmem_error *error)
{
	for (unsigned i = 0; i < crew->count; i++) {
		if (crew->members[i].worker.error.code != 0) {
			*error = crew->members[i].worker.error;
			return error->code;
		}
	}
	return 0;
}

void touch_crew_totals(const struct touch_crew *crew, struct touch_totals *totals)
{
	*totals = (struct touch_totals){0};
	for (unsigned i = 0; i < crew->count; i++) {
		const struct touch_worker *worker = &crew->members[i].worker;

		totals->warm_pages +=
			atomic_load_explicit(&worker->warm_pages, memory_order_relaxed);
		totals->read_pages +=
			atomic_load_explicit(&worker->read_pages, memory_order_relaxed);
		totals->write_pages +=
			atomic_load_explicit(&worker->write_pages, memory_order_relaxed);
	}
}

void touch_crew_destroy(struct touch_crew *crew)
{
	if (crew == NULL)
		return;
	for (unsigned i = 0; i < crew->count; i++)
		touch_worker_finish(&crew->members[i].worker);
	if (crew->fd >= 0)
		close(crew->fd);
	pthread_cond_destroy(&crew->left);
	pthread_cond_destroy(&crew->gate);
	pthread_mutex_destroy(&crew->lock);
	free(crew);
}
