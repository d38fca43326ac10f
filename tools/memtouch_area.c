/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/memtouch_area.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "engine/base/memory_info.h"

#define CUT_MS	    2000 /* from a file's being cut until the kernel knows, on a busy host */
#define CUT_STEP_MS 10

static int open_file(struct touch_area *area, struct rmem_error *error)
{
	struct stat status;

	area->fd = open(area->path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (area->fd < 0 && errno == ENOENT) {
		area->fd = open(area->path, O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, 0666);
		area->created = area->fd >= 0;
	}
	if (area->fd < 0)
		return rmem_fail(error, errno, "can't open %s for reading and writing: %s",
				 area->path, strerror(errno));
	if (fstat(area->fd, &status) != 0)
		return rmem_fail(error, errno, "can't look at %s: %s", area->path, strerror(errno));
	if (!S_ISREG(status.st_mode))
		return rmem_fail(error, EINVAL, "%s can't be mapped: it is not a regular file",
				 area->path);
	return 0;
}

/* Blocks for all of it; where the file system can't do that, at least its size. */
static int reserve_file(const struct touch_area *area, struct rmem_error *error)
{
	struct stat status;
	int rc = fallocate(area->fd, 0, 0, (off_t)area->bytes) == 0 ? 0 : errno;

	if (rc == EOPNOTSUPP) {
		rc = fstat(area->fd, &status) == 0 ? 0 : errno;
		if (rc == 0 && (uint64_t)status.st_size < area->bytes)
			rc = ftruncate(area->fd, (off_t)area->bytes) == 0 ? 0 : errno;
	}
	if (rc != 0)
		return rmem_fail(error, rc, "no %" PRIu64 " MiB for %s: %s",
				 area->bytes / TOUCH_MIB, area->path, strerror(rc));
	return 0;
}

static int map(struct touch_area *area, struct rmem_error *error)
{
	int flags = area->fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	void *memory = mmap(NULL, area->bytes, PROT_READ | PROT_WRITE, flags, area->fd, 0);

	if (memory == MAP_FAILED && area->fd >= 0)
		return rmem_fail(
			error, errno,
			"%s can't be mapped for writing: %s (its file system, or an option "
			"it is mounted with, may not allow it)",
			area->path, strerror(errno));
	if (memory == MAP_FAILED)
		return rmem_fail(error, errno, "no memory: %" PRIu64 " MiB: %s",
				 area->bytes / TOUCH_MIB, strerror(errno));
	area->memory = memory;
	return 0;
}

static int prepare(struct touch_area *area, struct rmem_error *error)
{
	int rc;

	if (area->path == NULL) {
		rc = rmem_memory_check("--num_threads times --thread_mem", area->bytes, error);
	} else {
		rc = open_file(area, error);
		if (rc == 0)
			rc = reserve_file(area, error);
	}
	if (rc == 0)
		rc = map(area, error);
	return rc;
}

int touch_area_create(const struct touch_options *options, struct touch_area *area,
		      struct rmem_error *error)
{
	int rc;

	*area = (struct touch_area){
		.fd = -1, .path = options->file, .bytes = touch_options_bytes(options)};
	rc = prepare(area, error);
	if (rc != 0) {
		if (area->created)
			(void)unlink(area->path);
		touch_area_destroy(area);
	}
	return rc;
}

void touch_area_destroy(struct touch_area *area)
{
	if (area->memory != NULL)
		(void)munmap(area->memory, area->bytes);
	if (area->fd >= 0)
		close(area->fd);
	*area = (struct touch_area){.fd = -1};
}

int touch_area_flush(const struct touch_area *area, uint64_t offset, uint64_t bytes,
		     struct rmem_error *error)
{
	if (area->fd < 0)
		return 0;
	if (msync(area->memory + offset, bytes, MS_SYNC) != 0)
		return rmem_fail(error, errno, "writing %s back failed: %s (is its server gone?)",
				 area->path, strerror(errno));
	/* Both are advice. The page cache keeps what is mapped, so that goes first. */
	(void)madvise(area->memory + offset, bytes, MADV_DONTNEED);
	(void)posix_fadvise(area->fd, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
	return 0;
}

int touch_area_sync(const struct touch_area *area, struct rmem_error *error)
{
	if (area->fd >= 0 && fsync(area->fd) != 0)
		return rmem_fail(error, errno, "writing %s back failed: %s (is its server gone?)",
				 area->path, strerror(errno));
	return 0;
}

static int fail_cut(const struct touch_area *area, uint64_t offset, uint64_t size,
		    struct rmem_error *error)
{
	return rmem_fail(error, EFAULT,
			 "%s can't be accessed at byte %" PRIu64 ": it was truncated to %" PRIu64
			 " bytes",
			 area->path, offset, size);
}

int touch_area_explain_fault(const struct touch_area *area, const void *address,
			     struct rmem_error *error)
{
	uint64_t offset = (uint64_t)((const unsigned char *)address - area->memory);
	struct stat status;

	if (area->fd < 0)
		return rmem_fail(error, EFAULT,
				 "the memory at MiB %" PRIu64
				 " can't be accessed: a hardware error",
				 offset / TOUCH_MIB);
	if (fstat(area->fd, &status) == 0 && offset >= (uint64_t)status.st_size)
		return fail_cut(area, offset, (uint64_t)status.st_size, error);
	return rmem_fail(error, EFAULT,
			 "%s can't be accessed at byte %" PRIu64
			 ": an I/O error (a server that was lost, or a full file system)",
			 area->path, offset);
}

int touch_area_explain_zeros(const struct touch_area *area, const void *page,
			     struct rmem_error *error)
{
	uint64_t offset = (uint64_t)((const unsigned char *)page - area->memory);
	struct stat status;

	if (area->fd < 0)
		return 0;
	for (unsigned ms = 0; ms < CUT_MS && fstat(area->fd, &status) == 0; ms += CUT_STEP_MS) {
		uint64_t size = (uint64_t)status.st_size;

		if (size < offset + RMEM_PAGE_BYTES)
			return fail_cut(area, rmem_max_u64(offset, size), size, error);
		usleep(CUT_STEP_MS * 1000);
	}
	return 0;
}
