/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "engine/base/log.h"
#include "engine/base/memory_info.h"
#include "engine/wire.h"

#define MIB ((uint64_t)1 << 20)

/* A memfd of huge pages, or -errno. AUTO asks only when the machine has enough of them now, so
 * that the usual case, none configured, costs nothing. */
static int huge_memfd(uint64_t bytes, enum rmem_huge_pages wanted, uint32_t *page_bytes)
{
	uint64_t page = rmem_meminfo("Hugepagesize") * 1024;
	uint64_t free_pages = rmem_meminfo("HugePages_Free");
	uint64_t needed;
	int fd;

	if (wanted == RMEM_HUGE_OFF || page == 0 || !rmem_is_power_of_two(page) ||
	    page > UINT32_MAX)
		return -ENODEV;
	needed = (bytes + page - 1) / page;
	if (needed > free_pages)
		return -ENOMEM;
	fd = memfd_create("rmem-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	if (fd < 0)
		return -errno;
	*page_bytes = (uint32_t)page;
	return fd;
}

static int no_huge_pages(const struct rmem_pool_options *options, struct rmem_error *error)
{
	uint64_t page_kib = rmem_meminfo("Hugepagesize");
	uint64_t needed = page_kib == 0 ? 0 : options->size_bytes / 1024 / page_kib;

	return rmem_fail(
		error, ENOMEM,
		"a pool of %" PRIu64 " MiB in huge pages takes %" PRIu64 " of %" PRIu64
		" KiB, and %" PRIu64 " are free: raise vm.nr_hugepages, or set huge_pages to auto",
		options->size_bytes / MIB, needed, page_kib, rmem_meminfo("HugePages_Free"));
}

static int anonymous_fd(const struct rmem_pool_options *options, struct rmem_pool *pool,
			struct rmem_error *error)
{
	int rc;

	pool->fd = huge_memfd(options->size_bytes, options->huge_pages, &pool->page_bytes);
	if (pool->fd >= 0) {
		pool->flags |= RMEM_STATUS_HUGE_PAGES;
		return 0;
	}
	if (options->huge_pages == RMEM_HUGE_REQUIRE)
		return no_huge_pages(options, error);
	rc = rmem_memory_check("a pool", options->size_bytes, error);
	if (rc != 0)
		return rc;
	pool->page_bytes = RMEM_PAGE_BYTES;
	pool->fd = memfd_create("rmem-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (pool->fd < 0)
		return rmem_fail(error, errno, "no memory file for the pool: %s", strerror(errno));
	return 0;
}

/* The kernel takes the advice, and says yes, also where it won't follow it. */
static bool transparent_is_on(void)
{
	FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re");
	char text[128] = "";
	bool on;

	if (file == NULL)
		return false;
	on = fgets(text, sizeof(text), file) != NULL && strstr(text, "[never]") == NULL &&
	     strstr(text, "[deny]") == NULL;
	fclose(file);
	return on;
}

static int anonymous_map(struct rmem_pool *pool, enum rmem_huge_pages huge,
			 struct rmem_error *error)
{
	void *map;

	if (ftruncate(pool->fd, (off_t)pool->map_bytes) != 0)
		return rmem_fail(error, errno, "can't size the pool to %" PRIu64 " MiB: %s",
				 pool->map_bytes / MIB, strerror(errno));
	map = mmap(NULL, pool->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pool->fd, 0);
	if (map == MAP_FAILED)
		return rmem_fail(error, errno, "can't map a pool of %" PRIu64 " MiB: %s",
				 pool->map_bytes / MIB, strerror(errno));
	pool->map = map;
	/* Advice comes before the first touch: pages that exist stay as small as they are. */
	if (huge != RMEM_HUGE_OFF && pool->page_bytes == RMEM_PAGE_BYTES && transparent_is_on() &&
	    madvise(map, pool->map_bytes, MADV_HUGEPAGE) == 0)
		pool->flags |= RMEM_STATUS_TRANSPARENT;
	return 0;
}

static int anonymous_open(const struct rmem_pool_options *options, struct rmem_pool *pool,
			  struct rmem_error *error)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int rc;

	rc = anonymous_fd(options, pool, error);
	if (rc != 0)
		return rc;
	pool->data_bytes = options->size_bytes;
	pool->map_bytes = rmem_round_up(options->size_bytes, pool->page_bytes);
	rc = anonymous_map(pool, options->huge_pages, error);
	if (rc != 0)
		return rc;
	if (options->populate == RMEM_POPULATE_TOUCH)
		rc = rmem_pool_touch(pool, RMEM_POOL_FRESH, options->cancel_fd, error);
	else
		rc = rmem_pool_reserve(pool->fd, pool->map_bytes, options->cancel_fd, error);
	if (rc != 0)
		return rc;
	if (fcntl(pool->fd, F_ADD_SEALS, seals) != 0)
		return rmem_fail(error, errno, "can't seal the pool: %s", strerror(errno));
	return rmem_pool_new_incarnation(&pool->incarnation, error);
}

int rmem_pool_create(const struct rmem_pool_options *options, struct rmem_pool **pool,
		     struct rmem_error *error)
{
	bool anonymous = strcmp(options->backing, RMEM_POOL_ANONYMOUS) == 0;
	struct rmem_pool *made;
	int rc;

	if (options->size_bytes == 0 || options->size_bytes % RMEM_PAGE_BYTES != 0 ||
	    options->size_bytes > (uint64_t)INT64_MAX / 2)
		return rmem_fail(error, EINVAL,
				 "the size of a pool is a multiple of 4096, not %" PRIu64,
				 options->size_bytes);
	made = calloc(1, sizeof(*made));
	if (made == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	made->fd = made->lock_fd = -1;
	made->backing = strdup(options->backing);
	if (made->backing == NULL)
		rc = rmem_fail(error, ENOMEM, "out of memory");
	else if (anonymous)
		rc = anonymous_open(options, made, error);
	else
		rc = rmem_pool_file_open(options, made, error);
	if (rc != 0) {
		rmem_pool_destroy(made);
		return rc;
	}
	/* A core file of the server needs no pool in it. */
	madvise(made->map, made->map_bytes, MADV_DONTDUMP);
	*pool = made;
	return 0;
}

int rmem_pool_claim(struct rmem_pool *pool, const uint8_t owner[RMEM_OWNER_BYTES],
		    struct rmem_error *error)
{
	memcpy(pool->owner, owner, sizeof(pool->owner));
	return pool->flags & RMEM_STATUS_PERSISTENT ? rmem_pool_file_update(pool, error) : 0;
}

void rmem_pool_destroy(struct rmem_pool *pool)
{
	if (pool == NULL)
		return;
	rmem_pool_file_close(pool);
	if (pool->map != NULL)
		munmap(pool->map, pool->map_bytes);
	if (pool->fd >= 0)
		close(pool->fd);
	if (pool->lock_fd >= 0)
		close(pool->lock_fd);
	free(pool->backing);
	free(pool);
}
