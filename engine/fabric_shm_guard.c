/* SPDX-License-Identifier: Apache-2.0 */
/* The handler reads a table that control threads write. `base` is stored last when an entry is
 * taken, and cleared first when it is given up; the handler looks for an address that somebody is
 * copying to or from at this moment, so the entry it finds can't be one that is being removed. */
#include "engine/fabric_shm_guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define GUARDS_MAX 1024

struct guard {
	_Atomic(uintptr_t) base; /* 0: free */
	_Atomic(size_t) bytes;
	_Atomic(atomic_bool *) is_cut;
	atomic_int fd;
};

static struct guard guards[GUARDS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of taking and giving up */
static pthread_once_t installed = PTHREAD_ONCE_INIT;
static struct sigaction previous;

static struct guard *find(uintptr_t address)
{
	for (unsigned i = 0; i < GUARDS_MAX; i++) {
		uintptr_t base = atomic_load(&guards[i].base);

		if (base != 0 && address >= base && address - base < atomic_load(&guards[i].bytes))
			return &guards[i];
	}
	return NULL;
}

/* Everything it calls is a system call, and safe in a signal handler. */
static bool replace(struct guard *guard)
{
	int saved = errno;
	void *map;

	/* Before the memory is replaced: another thread that copies into what comes in its place
	 * finds it set when it has done so. */
	atomic_store(atomic_load(&guard->is_cut), true);
	map = mmap((void *)atomic_load(&guard->base), atomic_load(&guard->bytes),
		   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
		   -1, 0);
	shutdown(atomic_load(&guard->fd), SHUT_RDWR);
	errno = saved;
	return map != MAP_FAILED;
}

static void on_bus_error(int signal_number, siginfo_t *info, void *context)
{
	/* A positive code is the kernel's, about an address; others are from kill(). */
	if (info->si_code > 0) {
		struct guard *guard = find((uintptr_t)info->si_addr);

		if (guard != NULL && replace(guard))
			return;
	}
	if ((previous.sa_flags & SA_SIGINFO) != 0) {
		previous.sa_sigaction(signal_number, info, context);
	} else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
		previous.sa_handler(signal_number);
	} else {
		/* It strikes again on return, and ends the program as it would have. */
		signal(SIGBUS, SIG_DFL);
		if (info->si_code <= 0)
			raise(SIGBUS);
	}
}

static void install(void)
{
	struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};

	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, &previous);
}

int shm_guard_add(void *map, size_t bytes, atomic_bool *is_cut, int fd, struct rmem_error *error)
{
	struct guard *guard = guards;

	pthread_once(&installed, install);
	pthread_mutex_lock(&lock);
	while (guard < guards + GUARDS_MAX && atomic_load(&guard->base) != 0)
		guard++;
	if (guard == guards + GUARDS_MAX) {
		pthread_mutex_unlock(&lock);
		return rmem_fail(error, ENOSPC, "more than %d regions in files", GUARDS_MAX);
	}
	atomic_store(&guard->bytes, bytes);
	atomic_store(&guard->is_cut, is_cut);
	atomic_store(&guard->fd, fd);
	atomic_store(&guard->base, (uintptr_t)map);
	pthread_mutex_unlock(&lock);
	return 0;
}

void shm_guard_remove(void *map)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < GUARDS_MAX; i++) {
		if (atomic_load(&guards[i].base) == (uintptr_t)map)
			atomic_store(&guards[i].base, 0);
	}
	pthread_mutex_unlock(&lock);
}
