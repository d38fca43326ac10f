/* SPDX-License-Identifier: Apache-2.0 */
/* A lane: one queue pair with its credits, its ledger and the chain that is being built for it.
 *
 * Requests are planned straight into the lane's array, whose elements are linked for good; posting
 * cuts the link behind the last one, signals it and rings one doorbell. When the fabric takes
 * only a part, the rest stays open at the front of the array, may grow, and is posted after the
 * next completion. What was taken of it has no signal of its own: an orphan, that retires with
 * whatever completes next.
 *
 * A lane that failed is drained: it is put in error, one last signaled request goes behind all
 * others, and when that comes back every record still in the ledger has ended. Completions before
 * it retire what they say and no more, so each record ends exactly once, whichever way.
 *
 * Used by the reactor that owns the lane, but for init and finish. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/checked.h"
#include "engine/batch.h"
#include "engine/fabric.h"
#include "engine/ledger.h"
#include "engine/stats.h"

/* The id of a work request: | 0 | server 8 | lane 4 | generation 19 | sequence of its record 32 |.
 * The generation tells the connections to one server apart. */
#define RMEM_ID_GENERATIONS (1u << 19)

static inline uint64_t rmem_id_base(unsigned server, unsigned lane, uint32_t generation)
{
	return (uint64_t)server << 55 | (uint64_t)lane << 51 |
	       (uint64_t)(generation % RMEM_ID_GENERATIONS) << 32;
}

static inline unsigned rmem_id_server(uint64_t id)
{
	return (uint8_t)(id >> 55);
}

static inline unsigned rmem_id_lane(uint64_t id)
{
	return (unsigned)(id >> 51) & 15;
}

static inline uint32_t rmem_id_generation(uint64_t id)
{
	return (uint32_t)(id >> 32) % RMEM_ID_GENERATIONS;
}

static inline uint32_t rmem_id_sequence(uint64_t id)
{
	return (uint32_t)id;
}

enum rmem_lane_state {
	RMEM_LANE_OPEN,
	RMEM_LANE_DRAINING,
	RMEM_LANE_DRAINED,
};

/* Which of the dispatcher's lists the lane is in. */
enum rmem_lane_list {
	RMEM_LANE_UNLISTED,
	RMEM_LANE_TO_POST,
	RMEM_LANE_TO_RETRY,
};

struct rmem_lane {
	struct rmem_wr *wrs; /* post_batch of them; the first `open` are the open chain */
	uint64_t id_base;
	struct rmem_ledger ledger;
	uint32_t open;
	uint32_t post_batch;
	int (*post)(struct rmem_lane_link *link, struct rmem_wr *chain, struct rmem_wr **bad);
	struct rmem_lane_link *link;
	struct rmem_lane *next_open; /* in the dispatcher's list of lanes to post */
	uint8_t listed;		     /* enum rmem_lane_list */
	bool is_stalled;	     /* the open chain waits for a completion */
	bool is_drain_posted;
	uint8_t state;
	uint32_t signaled; /* sequence of the last record with a signal */
	uint32_t stuck_ms; /* how long a chain may be refused with nothing outstanding */
	uint64_t stuck_since_ns;
	const struct rmem_fabric *fabric;
};

struct rmem_lane_config {
	uint64_t id_base;
	uint32_t depth; /* credits; 2^n */
	uint32_t post_batch;
	uint32_t detect_ms;
};

/* The link must have room for one request more than `depth`. The lane takes it over, also on
 * failure. Errors: -EINVAL, -ENOMEM. */
int rmem_lane_init(struct rmem_lane *lane, const struct rmem_fabric *fabric,
		   struct rmem_lane_link *link,
		   const struct rmem_lane_config *config) RMEM_MUST_CHECK;
/* Nothing may be outstanding. */
void rmem_lane_finish(struct rmem_lane *lane);

/* How many requests may be added now. */
static inline uint32_t rmem_lane_room(const struct rmem_lane *lane)
{
	uint32_t room = rmem_ledger_room(&lane->ledger);
	uint32_t slots = lane->post_batch - lane->open;

	return room < slots ? room : slots;
}

/* Adds requests of the batch to the open chain, `budget->wr_max` at most, which is within the room.
 * Sets budget->id. Returns what rmem_plan_fill() does. */
int rmem_lane_fill(struct rmem_lane *lane, struct rmem_plan_target *target,
		   struct rmem_batch *batch, struct rmem_plan_budget *budget);

/* Adds the batch's notice to the open chain; there is room. */
void rmem_lane_add_notice(struct rmem_lane *lane, struct rmem_batch *batch);
/* Sends it with the last request of the open chain instead, which is a write of the batch's. */
void rmem_lane_join_notice(struct rmem_lane *lane, const struct rmem_batch *batch);

enum rmem_lane_posted {
	RMEM_LANE_POSTED,
	RMEM_LANE_STALLED, /* a completion will free room */
	RMEM_LANE_RETRY,   /* nothing is outstanding that would: try again next turn */
};

/* Posts the open chain, which is not empty. Or -errno: the lane must be failed. */
int rmem_lane_post(struct rmem_lane *lane, struct rmem_stats *stats);

/* Everything up to `sequence` has ended well. */
static inline void rmem_lane_retire(struct rmem_lane *lane, uint32_t sequence,
				    struct rmem_batch_list *done)
{
	struct rmem_ledger_record record;

	while (rmem_ledger_retire(&lane->ledger, sequence, &record))
		rmem_batch_release(done, record.owner, record.count);
}

/* Puts the lane in error and begins to drain it. The open chain is given up; batches that have
 * requests in it fail with `status`. */
void rmem_lane_fail(struct rmem_lane *lane, int status, struct rmem_batch_list *done);

/* Goes on draining: tries to post the last request if that is still to be done. */
void rmem_lane_drain(struct rmem_lane *lane, struct rmem_batch_list *done);

/* A completion came for a lane that is draining, or a failed one for any: retires what ended well
 * before it, and notes `status` for the batch it names. */
void rmem_lane_complete_failed(struct rmem_lane *lane, uint32_t sequence, int status,
			       struct rmem_batch_list *done);
