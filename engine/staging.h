/* SPDX-License-Identifier: Apache-2.0 */
/* A staging arena: the registered local memory of one reactor that data passes through.
 *
 * It is one mapping, made and populated at start, so that a fabric registers it once and nothing
 * on the data path faults or allocates. It is cut into equal slots; the free ones form a stack,
 * so that the slot put back last, which the caches still hold, is taken first. get and put are a
 * few instructions. When all slots are taken, get returns NULL and the caller applies
 * back-pressure; the arena never grows.
 *
 * The owner is one thread: init, finish, get and put are its calls only (init and finish may be
 * another's before and after). rmem_arena_read() is anybody's. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/base/error.h"
#include "engine/base/hint.h"
#include "engine/rmem.h"
#include "engine/stream_policy.h"

/* What the memory turned out to be. */
enum rmem_arena_pages {
	RMEM_ARENA_NORMAL,
	RMEM_ARENA_TRANSPARENT, /* huge as far as the kernel found some */
	RMEM_ARENA_HUGETLB,
};

struct rmem_arena_options {
	size_t slot_bytes; /* a multiple of RMEM_PAGE_BYTES */
	unsigned slot_count;
	enum rmem_huge_pages huge_pages;
	size_t stream_threshold_bytes; /* 0: measured, see rmem_stream_threshold_bytes() */
};

struct rmem_arena {
	/* Constant between init and finish. [base, base + length) is what to register; it may
	 * reach beyond the last slot. */
	unsigned char *base;
	size_t length;
	size_t slot_bytes;
	size_t stream_threshold_bytes;
	uint32_t slot_count;
	enum rmem_arena_pages pages;

	/* The owner's. */
	uint32_t *free_slots; /* a stack of indexes */
	uint32_t free_count;
	uint64_t *taken; /* one bit a slot: catches what is put back twice */

	/* Written by the owner, read by anybody, relaxed: each is a number for people. */
	_Atomic(uint32_t) used, used_max;
	_Atomic(uint64_t) refused;
};

/* Maps and populates the memory. With RMEM_HUGE_AUTO: pages of hugetlbfs if enough are free, else
 * transparent huge pages, else normal ones. Which NUMA node it lies on is decided here, by the
 * calling thread: call where the reactor will run.
 * Errors: -EINVAL (sizes), -ENOMEM (says how much was wanted and what to change). */
int rmem_arena_init(struct rmem_arena *arena, const struct rmem_arena_options *options,
		    struct rmem_error *error) RMEM_MUST_CHECK;

/* Unmaps; nothing may be registered or in flight any more. Slots still taken go with the rest.
 * An arena that is zeroed or whose init failed is fine. */
void rmem_arena_finish(struct rmem_arena *arena);

/* A slot of slot_bytes, page aligned, with whatever it held last; NULL when all are taken. */
void *rmem_arena_get(struct rmem_arena *arena);

/* Takes a slot back. A pointer that is no taken slot of this arena is a bug and asserted. */
void rmem_arena_put(struct rmem_arena *arena, void *slot);

struct rmem_arena_stats {
	uint32_t slots;
	uint32_t used;	   /* now */
	uint32_t used_max; /* since init */
	uint64_t refused;  /* gets that returned NULL */
};

/* Any thread. */
void rmem_arena_read(const struct rmem_arena *arena, struct rmem_arena_stats *stats);

/* "normal", "transparent huge", "huge". */
const char *rmem_arena_pages_name(enum rmem_arena_pages pages);

/* --- Streaming policy ------------------------------------------------------------------------- */

/* For bytes on their way out: a staged write, zeroes to be sent. Copies into an arena's memory, or
 * sets it, past the caches when it is whole pages, enough of them (stream_threshold_bytes), and
 * what went through the arenas of this process lately was not touched again soon: see
 * engine/stream_policy.h. Any thread. Measured on a Sapphire Rapids server, GB/s of copies from
 * warm memory, memcpy() against streaming: to a destination in memory 6.4 against 9.7 at 4 KiB
 * and 7.1 against 18.4 at 64 KiB; to one in the last-level cache 22.6 against 10.8 at 4 KiB
 * and 19.6 against 18.7 at 64 KiB. */
static inline void rmem_staging_copy_out(const struct rmem_arena *arena, void *to, const void *from,
					 size_t length);
static inline void rmem_staging_fill_out(const struct rmem_arena *arena, void *to,
					 unsigned char byte, size_t length);

/* Copies bytes that are staged, for a reader: ordinary stores, and a sign that they are read. */
static inline void rmem_staging_copy_in(void *to, const void *from, size_t length);

/* For who decides himself, and then notes it: rmem_stream_policy_note_write(), and _read(). */
bool rmem_staging_should_stream(const struct rmem_arena *arena, size_t length);
extern struct rmem_stream_policy rmem_staging_policy;

/* Of stream_threshold_bytes and more. */
void rmem_staging_copy_out_long(const struct rmem_arena *arena, void *to, const void *from,
				size_t length);
void rmem_staging_fill_out_long(const struct rmem_arena *arena, void *to, unsigned char byte,
				size_t length);

/* Short ones are decided on in the caller: what a call saves on the stack waits behind the stores
 * of the copy before, which took 4 % from copying pages to and fro. */
static inline void rmem_staging_copy_out(const struct rmem_arena *arena, void *to, const void *from,
					 size_t length)
{
	if (length < arena->stream_threshold_bytes)
		memcpy(to, from, length);
	else
		rmem_staging_copy_out_long(arena, to, from, length);
}

static inline void rmem_staging_fill_out(const struct rmem_arena *arena, void *to,
					 unsigned char byte, size_t length)
{
	if (length < arena->stream_threshold_bytes)
		memset(to, byte, length);
	else
		rmem_staging_fill_out_long(arena, to, byte, length);
}

static inline void rmem_staging_copy_in(void *to, const void *from, size_t length)
{
	rmem_stream_policy_note_read(&rmem_staging_policy, from, length);
	memcpy(to, from, length);
}
