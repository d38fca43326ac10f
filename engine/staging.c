/* SPDX-License-Identifier: Apache-2.0 */
/* The memory is populated here and not by the first use: a fault costs a microsecond and more
 * (zeroing a huge page: a hundred), and a shortage shows at start, as an error, not in the middle
 * of a transfer, as a signal. MADV_POPULATE_WRITE reports it even where a control group limits huge
 * pages below what mmap() promised. Before Linux 5.14 it is unknown, and pages are touched. */
#include "engine/staging.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/checked.h"
#include "engine/base/memory_info.h"
#include "engine/pool.h"
#include "engine/stream.h"

#define HUGE_BYTES ((size_t)2 << 20)
#define HUGE_2MB   (21 << MAP_HUGE_SHIFT)
#define KIB	   ((size_t)1 << 10)
#define MIB	   ((size_t)1 << 20)

/* One for all arenas: who writes a slot and who reads it may be different threads. */
struct rmem_stream_policy rmem_staging_policy;
static pthread_once_t policy_once = PTHREAD_ONCE_INIT;

static void init_policy(void)
{
	rmem_stream_policy_init(&rmem_staging_policy);
}

static int populate(unsigned char *base, size_t length)
{
	while (madvise(base, length, MADV_POPULATE_WRITE) != 0) {
		if (errno == EINTR || errno == EAGAIN)
			continue;
		if (errno != EINVAL)
			return -errno;
		for (size_t i = 0; i < length; i += RMEM_PAGE_BYTES)
			*(volatile unsigned char *)&base[i] = 0;
		break;
	}
	return 0;
}

/* NULL with errno set. */
static unsigned char *map(size_t length, int flags)
{
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* Maps more than `bytes` and gives back both ends, so that the arena starts where a transparent
 * huge page can. */
static unsigned char *map_aligned(size_t bytes)
{
	unsigned char *start = map(bytes + HUGE_BYTES, 0);
	size_t head = -(uintptr_t)start % HUGE_BYTES;

	if (start == NULL)
		return NULL;
	if (head > 0)
		munmap(start, head);
	munmap(start + head + bytes, HUGE_BYTES - head);
	return start + head;
}

/* Gives `base` to the arena once it is populated, else unmaps it. */
static int adopt(struct rmem_arena *arena, unsigned char *base, size_t length)
{
	int rc = populate(base, length);

	if (rc != 0) {
		munmap(base, length);
		return rc;
	}
	arena->base = base;
	arena->length = length;
	return 0;
}

static int map_hugetlb(struct rmem_arena *arena, size_t bytes)
{
	size_t length = rmem_round_up(bytes, HUGE_BYTES);
	unsigned char *base = map(length, MAP_HUGETLB | HUGE_2MB);

	if (base == NULL)
		return -errno;
	arena->pages = RMEM_ARENA_HUGETLB;
	return adopt(arena, base, length);
}

/* Both are advice: a kernel that was built without transparent huge pages refuses it. */
static int map_transparent(struct rmem_arena *arena, size_t bytes)
{
	unsigned char *base = map_aligned(bytes);

	if (base == NULL)
		return -errno;
	arena->pages = madvise(base, bytes, MADV_HUGEPAGE) == 0 ? RMEM_ARENA_TRANSPARENT
								: RMEM_ARENA_NORMAL;
	return adopt(arena, base, bytes);
}

static int map_normal(struct rmem_arena *arena, size_t bytes)
{
	unsigned char *base = map(bytes, 0);

	if (base == NULL)
		return -errno;
	madvise(base, bytes, MADV_NOHUGEPAGE);
	arena->pages = RMEM_ARENA_NORMAL;
	return adopt(arena, base, bytes);
}

static unsigned long free_huge_pages(void)
{
	FILE *file = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "re");
	unsigned long count = 0;

	if (file == NULL)
		return 0;
	if (fscanf(file, "%lu", &count) != 1)
		count = 0;
	fclose(file);
	return count;
}

static int map_memory(struct rmem_arena *arena, size_t bytes, enum rmem_huge_pages policy,
		      struct rmem_error *error)
{
	bool huge =
		policy == RMEM_HUGE_REQUIRE || (policy == RMEM_HUGE_AUTO && bytes >= HUGE_BYTES);
	int rc = huge ? map_hugetlb(arena, bytes) : -ENOMEM;
	uint64_t available;

	if (rc == 0)
		return 0;
	if (policy == RMEM_HUGE_REQUIRE)
		return rmem_fail(error, ENOMEM,
				 "a staging arena of %zu MiB needs %zu huge pages of 2 MiB and %lu "
				 "are free (%s): raise vm.nr_hugepages, make the arena smaller, or "
				 "don't require huge pages",
				 (bytes + MIB - 1) / MIB, (bytes + HUGE_BYTES - 1) / HUGE_BYTES,
				 free_huge_pages(), strerror(-rc));
	/* Populating more than there is would end with the kernel killing somebody. A /proc that
	 * does not say is no reason to refuse. */
	available = rmem_meminfo("MemAvailable") * KIB;
	if (available != 0 && bytes > available)
		return rmem_fail(error, ENOMEM,
				 "a staging arena of %zu MiB is more than the %llu MiB of memory "
				 "that are free here: make it smaller",
				 bytes / MIB, (unsigned long long)available / MIB);
	rc = huge ? map_transparent(arena, bytes) : map_normal(arena, bytes);
	if (rc == 0)
		return 0;
	return rmem_fail(error, ENOMEM,
			 "no memory for a staging arena of %zu KiB: %s; make it smaller, or raise "
			 "the limits of this process (ulimit -v; ulimit -l if it locks its memory)",
			 bytes / KIB, strerror(-rc));
}

static int check_options(const struct rmem_arena_options *options, struct rmem_error *error)
{
	if (options->slot_bytes == 0 || options->slot_bytes % RMEM_PAGE_BYTES != 0)
		return rmem_fail(error, EINVAL,
				 "a staging slot of %zu bytes: it must be a multiple of %u",
				 options->slot_bytes, RMEM_PAGE_BYTES);
	if (options->slot_count == 0)
		return rmem_fail(error, EINVAL,
				 "a staging arena without slots: it must hold at least one of %zu "
				 "bytes",
				 options->slot_bytes);
	/* Rounding up to a huge page must fit as well. */
	if (options->slot_count > (SIZE_MAX / 2 - HUGE_BYTES) / options->slot_bytes)
		return rmem_fail(error, EINVAL, "%u staging slots of %zu bytes: too large",
				 options->slot_count, options->slot_bytes);
	return 0;
}

static int init_slots(struct rmem_arena *arena, unsigned count, struct rmem_error *error)
{
	arena->free_slots = calloc(count, sizeof(*arena->free_slots));
	arena->taken = calloc(count / 64 + 1, sizeof(*arena->taken));
	if (arena->free_slots == NULL || arena->taken == NULL)
		return rmem_fail(error, ENOMEM, "no memory to manage %u staging slots", count);
	for (unsigned i = 0; i < count; i++)
		arena->free_slots[i] = count - 1 - i;
	arena->slot_count = count;
	arena->free_count = count;
	return 0;
}

int rmem_arena_init(struct rmem_arena *arena, const struct rmem_arena_options *options,
		    struct rmem_error *error)
{
	int rc;

	*arena = (struct rmem_arena){.slot_bytes = options->slot_bytes,
				     .stream_threshold_bytes = options->stream_threshold_bytes};
	pthread_once(&policy_once, init_policy);
	if (arena->stream_threshold_bytes == 0)
		arena->stream_threshold_bytes = rmem_stream_threshold_bytes();
	rc = check_options(options, error);
	if (rc == 0)
		rc = map_memory(arena, options->slot_count * options->slot_bytes,
				options->huge_pages, error);
	if (rc == 0)
		rc = init_slots(arena, options->slot_count, error);
	if (rc != 0)
		rmem_arena_finish(arena);
	return rc;
}

void rmem_arena_finish(struct rmem_arena *arena)
{
	if (arena->base != NULL)
		munmap(arena->base, arena->length);
	free(arena->free_slots);
	free(arena->taken);
	*arena = (struct rmem_arena){0};
}

static void set_used(struct rmem_arena *arena)
{
	uint32_t used = arena->slot_count - arena->free_count;

	atomic_store_explicit(&arena->used, used, memory_order_relaxed);
	if (used > atomic_load_explicit(&arena->used_max, memory_order_relaxed))
		atomic_store_explicit(&arena->used_max, used, memory_order_relaxed);
}

void *rmem_arena_get(struct rmem_arena *arena)
{
	uint32_t index;

	if (RMEM_UNLIKELY(arena->free_count == 0)) {
		uint64_t refused = atomic_load_explicit(&arena->refused, memory_order_relaxed);

		atomic_store_explicit(&arena->refused, refused + 1, memory_order_relaxed);
		return NULL;
	}
	index = arena->free_slots[--arena->free_count];
	arena->taken[index / 64] |= 1ull << (index % 64);
	set_used(arena);
	return arena->base + index * arena->slot_bytes;
}

void rmem_arena_put(struct rmem_arena *arena, void *slot)
{
	/* Wraps for what lies in front, and is then beyond the last slot as well. */
	uintptr_t offset = (uintptr_t)slot - (uintptr_t)arena->base;
	size_t index = offset / arena->slot_bytes;
	uint64_t bit = 1ull << (index % 64);

	assert(index < arena->slot_count);
	assert(offset % arena->slot_bytes == 0);
	assert(arena->taken[index / 64] & bit);
	arena->taken[index / 64] &= ~bit;
	arena->free_slots[arena->free_count++] = (uint32_t)index;
	set_used(arena);
}

void rmem_arena_read(const struct rmem_arena *arena, struct rmem_arena_stats *stats)
{
	stats->slots = arena->slot_count;
	stats->used = atomic_load_explicit(&arena->used, memory_order_relaxed);
	stats->used_max = atomic_load_explicit(&arena->used_max, memory_order_relaxed);
	stats->refused = atomic_load_explicit(&arena->refused, memory_order_relaxed);
}

const char *rmem_arena_pages_name(enum rmem_arena_pages pages)
{
	static const char *const names[] = {
		[RMEM_ARENA_NORMAL] = "normal",
		[RMEM_ARENA_TRANSPARENT] = "transparent huge",
		[RMEM_ARENA_HUGETLB] = "huge",
	};

	assert(pages < RMEM_COUNT_OF(names));
	return names[pages];
}

/* --- Streaming policy ------------------------------------------------------------------------- */

bool rmem_staging_should_stream(const struct rmem_arena *arena, size_t length)
{
	return length >= arena->stream_threshold_bytes && length % RMEM_PAGE_BYTES == 0 &&
	       rmem_stream_policy_wants(&rmem_staging_policy);
}

/* Noted also where it is not streamed: that is how it is found out that it could be. */
void rmem_staging_copy_out_long(const struct rmem_arena *arena, void *to, const void *from,
				size_t length)
{
	bool streams = rmem_staging_should_stream(arena, length);

	rmem_stream_policy_note_write(&rmem_staging_policy, to, length);
	if (streams)
		rmem_stream_copy(to, from, length);
	else
		memcpy(to, from, length);
}

void rmem_staging_fill_out_long(const struct rmem_arena *arena, void *to, unsigned char byte,
				size_t length)
{
	bool streams = rmem_staging_should_stream(arena, length);

	rmem_stream_policy_note_write(&rmem_staging_policy, to, length);
	if (streams)
		rmem_stream_fill(to, byte, length);
	else
		memset(to, byte, length);
}
