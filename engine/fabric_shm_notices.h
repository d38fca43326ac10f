/* SPDX-License-Identifier: Apache-2.0 */
/* Notices between processes of one machine: what client and server share, and the half that is the
 * same on both sides. fabric_shm_mail.c is the client's, server_mail.c the server's.
 *
 * Each lane has a ring each way, in memory that the server makes for it. A slot is written by the
 * sender and carries its own sequence number, stored last with release: the receiver looks at the
 * slot that is next, and finds it there or not. Nothing else is shared but a counter each way of
 * what the receiver has granted.
 *
 * So that looking costs the same whatever the number of lanes, who receives has a bell: one page,
 * with a bit for each lane (64 lanes or more apart share one). The sender sets the bit after the
 * slot, and the receiver looks at the lanes whose bits it took out. A receiver that is going to
 * sleep says so in its bell and looks once more; a sender that finds that said after it has set its
 * bit wakes it. Both steps are sequentially consistent on both sides, so that one sees the other.
 *
 * What the other side writes is checked, whatever it is: sequence numbers and grants are compared,
 * never used as indices, lengths are limited. Memory of the other side's is only used if it can't
 * be shrunk, and it is the server that makes what may be written to with a system call. The
 * server's bell is one for all its clients, who could so hold back each other's notices; but each
 * of them may write to all of the pool, too. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/hint.h"
#include "engine/rmem.h"

#define SHM_BELL_BYTES 4096
#define SHM_BELL_BITS  64

struct shm_bell {
	_Atomic(uint64_t) rung;
	_Atomic(uint32_t) is_armed;
};
_Static_assert(offsetof(struct shm_bell, is_armed) == 8, "layout between programs");

struct shm_slot {
	_Atomic(uint32_t) sequence; /* how many were sent with this one; 0: none yet */
	uint32_t transfer;
	uint32_t length;
	uint8_t bytes[RMEM_NOTICE_BYTES_MAX];
	uint8_t reserved[52];
};
_Static_assert(sizeof(struct shm_slot) == RMEM_CACHE_PAIR, "layout between programs");
_Static_assert(offsetof(struct shm_slot, bytes) == 12, "layout between programs");

/* The ways: to the server, and from it. Their grants and then their slots follow each other. */
struct shm_grants {
	_Alignas(RMEM_CACHE_PAIR) _Atomic(uint32_t) count; /* since the beginning */
};
#define SHM_RING_HEAD_BYTES   (2 * sizeof(struct shm_grants))
#define SHM_RING_BYTES(depth) (SHM_RING_HEAD_BYTES + 2 * (size_t)(depth) * sizeof(struct shm_slot))

/* The descriptors with NOTICES; with NOTICES_REQUEST there is the client's bell. */
enum shm_notices_fd {
	SHM_FD_RING,
	SHM_FD_BELL, /* the server's */
	SHM_FD_WAKE_SERVER,
	SHM_FD_WAKE_CLIENT,
	SHM_FD_COUNT,
};

/* One side of a lane's notices. */
struct shm_notices {
	void *ring;
	size_t ring_bytes;
	uint32_t mask; /* of slots */
	struct shm_slot *out, *in;
	struct shm_grants *out_grants, *in_grants;
	uint32_t sent;
	uint32_t grants_seen;
	uint32_t reported; /* of those that came */
	uint32_t taken;
	struct shm_bell *bell; /* the other side's */
	uint64_t bell_bit;
	int wake_fd; /* likewise */
};

/* Memory to be shared, which can't shrink: made, with a descriptor to pass on. Errors: -ENOMEM,
 * -EMFILE. */
int shm_memory_make(size_t bytes, int *fd, void **map, struct rmem_error *error) RMEM_MUST_CHECK;
/* Somebody else's. Errors: -EPROTO (it is not what it should be), -ENOMEM. */
int shm_memory_map(int fd, size_t bytes, void **map, struct rmem_error *error) RMEM_MUST_CHECK;

enum shm_side { SHM_CLIENT, SHM_SERVER };

/* Sets up one side of a ring of `depth`, which is mapped already. */
void shm_notices_init(struct shm_notices *notices, enum shm_side side, void *ring, uint32_t depth);
/* Unmaps and closes all of it. */
void shm_notices_finish(struct shm_notices *notices);

void shm_notices_send(struct shm_notices *notices, uint32_t transfer, const void *bytes,
		      uint32_t length);
/* Whether one more has come; counts it as reported then. */
static inline bool shm_notices_report(struct shm_notices *notices)
{
	struct shm_slot *slot = &notices->in[notices->reported & notices->mask];

	/* Pairs with the sender's release: the rest of the slot, and what it wrote before, is seen.
	 */
	if (atomic_load_explicit(&slot->sequence, memory_order_acquire) != notices->reported + 1)
		return false;
	notices->reported++;
	return true;
}
/* Copies the oldest one out that was reported. */
void shm_notices_take(struct shm_notices *notices, struct rmem_notice *notice);
void shm_notices_grant(struct shm_notices *notices, uint32_t count);
/* What was granted since the last look. */
static inline uint32_t shm_notices_granted(struct shm_notices *notices)
{
	/* Pairs with the release of the grant: the slots that it speaks of were read. */
	uint32_t count = atomic_load_explicit(&notices->out_grants->count, memory_order_acquire);
	uint32_t fresh = count - notices->grants_seen;

	notices->grants_seen = count;
	return fresh;
}

/* The bits that were set, which are cleared. Costs a load when there are none. */
static inline uint64_t shm_bell_take(struct shm_bell *bell)
{
	if (RMEM_LIKELY(atomic_load_explicit(&bell->rung, memory_order_relaxed) == 0))
		return 0;
	return atomic_exchange_explicit(&bell->rung, 0, memory_order_acquire);
}

/* Before the last look and the sleep; and after it. */
static inline void shm_bell_arm(struct shm_bell *bell)
{
	atomic_store(&bell->is_armed, 1);
}

static inline void shm_bell_disarm(struct shm_bell *bell)
{
	atomic_store_explicit(&bell->is_armed, 0, memory_order_relaxed);
}
