/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/fabric_shm_notices.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- Memory ----------------------------------------------------------------------------------- */

static int map_fd(int fd, size_t bytes, void **map, struct rmem_error *error)
{
	void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (made == MAP_FAILED)
		return rmem_fail(error, errno, "no memory for notices: %s", strerror(errno));
	*map = made;
	return 0;
}

int shm_memory_make(size_t bytes, int *fd, void **map, struct rmem_error *error)
{
	int made = memfd_create("rmem-notices", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int rc;

	if (made < 0)
		return rmem_fail(error, errno, "no memory for notices: %s", strerror(errno));
	if (ftruncate(made, (off_t)bytes) != 0 ||
	    fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		rc = rmem_fail(error, errno, "no memory for notices: %s", strerror(errno));
	else
		rc = map_fd(made, bytes, map, error);
	if (rc != 0) {
		close(made);
		return rc;
	}
	*fd = made;
	return 0;
}

/* A file that can be cut, or is of pages that may be missing when they are touched, could end this
 * process by a signal. */
int shm_memory_map(int fd, size_t bytes, void **map, struct rmem_error *error)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat found;

	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &found) != 0 ||
	    found.st_size < (off_t)bytes || found.st_blksize > (blksize_t)RMEM_PAGE_BYTES)
		return rmem_fail(error, EPROTO, "what should be memory for notices is not");
	return map_fd(fd, bytes, map, error);
}

/* --- Rings ------------------------------------------------------------------------------------ */

void shm_notices_init(struct shm_notices *notices, enum shm_side side, void *ring, uint32_t depth)
{
	struct shm_grants *grants = ring;
	struct shm_slot *slots = (void *)((uint8_t *)ring + SHM_RING_HEAD_BYTES);
	unsigned out = side == SHM_CLIENT ? 0 : 1;

	*notices = (struct shm_notices){
		.ring = ring,
		.ring_bytes = SHM_RING_BYTES(depth),
		.mask = depth - 1,
		.out = slots + (size_t)out * depth,
		.in = slots + (size_t)(1 - out) * depth,
		.out_grants = &grants[out],
		.in_grants = &grants[1 - out],
		.wake_fd = -1,
	};
}

void shm_notices_finish(struct shm_notices *notices)
{
	if (notices->ring != NULL)
		munmap(notices->ring, notices->ring_bytes);
	if (notices->bell != NULL)
		munmap(notices->bell, SHM_BELL_BYTES);
	if (notices->wake_fd >= 0)
		close(notices->wake_fd);
	*notices = (struct shm_notices){.wake_fd = -1};
}

static RMEM_COLD void wake(struct shm_notices *notices)
{
	const uint64_t one = 1;

	/* Of several that find it asleep, one makes the system call. */
	if (atomic_exchange(&notices->bell->is_armed, 0) != 0)
		(void)!write(notices->wake_fd, &one, sizeof(one));
}

static void ring(struct shm_notices *notices)
{
	struct shm_bell *bell = notices->bell;

	atomic_fetch_or(&bell->rung, notices->bell_bit);
	if (RMEM_UNLIKELY(atomic_load(&bell->is_armed) != 0))
		wake(notices);
}

void shm_notices_send(struct shm_notices *notices, uint32_t transfer, const void *bytes,
		      uint32_t length)
{
	struct shm_slot *slot = &notices->out[notices->sent & notices->mask];

	slot->transfer = transfer;
	slot->length = length;
	if (length > 0)
		memcpy(slot->bytes, bytes, length);
	atomic_store_explicit(&slot->sequence, ++notices->sent, memory_order_release);
	ring(notices);
}

void shm_notices_take(struct shm_notices *notices, struct rmem_notice *notice)
{
	const struct shm_slot *slot = &notices->in[notices->taken++ & notices->mask];
	uint32_t length = *(volatile const uint32_t *)&slot->length; /* once: it may change */

	notice->transfer = slot->transfer;
	notice->length = length <= RMEM_NOTICE_BYTES_MAX ? length : RMEM_NOTICE_BYTES_MAX;
	memcpy(notice->bytes, slot->bytes, notice->length);
}

void shm_notices_grant(struct shm_notices *notices, uint32_t count)
{
	uint32_t before = atomic_load_explicit(&notices->in_grants->count, memory_order_relaxed);

	/* Release: the slots were read before they may be written again. */
	atomic_store_explicit(&notices->in_grants->count, before + count, memory_order_release);
	ring(notices);
}
