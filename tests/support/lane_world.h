/* SPDX-License-Identifier: Apache-2.0 */
/* A lane, a fabric that does what it is told, and what a dispatcher does between them, in one
 * struct that can be copied: the world that test_lane_explore.c walks through. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/lane.h"
#include "tests/support/runner.h"

#define DEPTH_MAX 4
#define BATCHES	  (DEPTH_MAX + 2)
#define NOBODY	  255 /* whose the request that ends a drain is */
#define MOVES_MAX 64

/* Check's own assertions tell the parent process each time: too slow for millions. */
#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			ck_abort_msg("%s", #condition);                                            \
	} while (0)

enum request_state { WAITING, EXECUTED };

struct request {
	uint32_t sequence;
	uint8_t owner;
	uint8_t state;
	bool is_signaled;
};

struct completion {
	uint32_t sequence;
	bool is_ok;
};

/* What the test knows of a batch. */
struct owner {
	bool is_live;
	uint8_t added;	  /* requests */
	uint8_t executed; /* of them */
};

/* All that a move may change; pointers in it stay what they are. */
struct world {
	struct rmem_lane lane;
	struct rmem_ledger_record records[DEPTH_MAX];
	struct rmem_wr wrs[DEPTH_MAX];
	struct rmem_batch batches[BATCHES];
	struct rmem_batch_list done;
	struct owner owners[BATCHES];
	uint8_t planning; /* the batch that waits for room; NOBODY: none */
	uint8_t open[DEPTH_MAX];
	unsigned open_count;
	struct request queue[DEPTH_MAX + 1]; /* the fabric's */
	unsigned queue_count;
	struct completion completions[DEPTH_MAX + 1];
	unsigned completion_count;
	bool is_error;
	uint32_t generation;
};

enum kind {
	ADD,
	ADD_PART,
	POST,
	REFUSE,
	EXECUTE,
	FAIL_ONE,
	FLUSH,
	FLUSH_RUN,
	COMPLETE,
	GIVE_UP,
	REOPEN
};

struct move {
	enum kind kind;
	uint32_t count;
};

extern struct world now;
extern bool world_was_full; /* since world_start(), in some state */

/* An empty lane. `first_sequence` is that of its first record, also when it is opened again. */
void world_start(uint32_t depth, uint32_t post_batch, uint32_t first_sequence);

/* What may happen next. */
unsigned world_moves(struct move moves[MOVES_MAX]);
void world_make(const struct move *move);

/* Fails the test if something does not hold that must in every state. */
void world_check(void);
