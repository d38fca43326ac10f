/* SPDX-License-Identifier: Apache-2.0 */
/* What measurements run on: an engine, its connections, and a stretch of memory for each reactor,
 * here and on each server.
 *
 * A region of a server is divided among the reactors that use it (reactor r uses region r modulo
 * their number), so that no message crosses from one region to another. Memory is whole pages, made
 * and populated before anything is measured. Made and ended by the main thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/hint.h"
#include "engine/rmem.h"
#include "engine/staging.h"
#include "tools/bench_settings.h"

/* --- How much memory -------------------------------------------------------------------------- */

struct bench_budget {
	uint64_t wanted_bytes; /* of a reactor, so that each message has memory of its own */
	uint64_t
		share_bytes; /* of a reactor, here and on each server; less when there isn't more */
};

/* Divides `limit_bytes` among reactors, here (twice with settings->copy) and on `own_servers` in
 * this process. -ENOMEM when a
 * reactor's share does not hold one message of the largest size. Pure computation. */
int bench_budget_make(const struct bench_settings *settings, unsigned own_servers,
		      uint64_t limit_bytes, struct bench_budget *budget,
		      struct rmem_error *error) RMEM_MUST_CHECK;

/* settings->memory_bytes, or half of what this machine has free. */
uint64_t bench_budget_limit(const struct bench_settings *settings);

/* --- The rig ---------------------------------------------------------------------------------- */

struct bench_rig_options {
	struct rmem_engine_options engine;
	const char *const *urls; /* the caller's, until the rig is made */
	unsigned url_count;
	uint64_t share_bytes;	/* local memory of each reactor */
	bool has_twin;		/* memory to copy to without an engine, too */
	uint64_t message_bytes; /* the largest: a server must have room for one a reactor */
};

/* A reactor's memory on a server. */
struct bench_part {
	uint32_t region;
	uint64_t offset;
};

struct bench_rig {
	struct rmem_engine *engine;
	unsigned reactor_count;
	unsigned server_count; /* they have these numbers in the engine, from 0 */
	struct rmem_arena arena;
	struct rmem_memory *memory;
	uint64_t share_bytes; /* usable by a reactor: the least of local and remote */
	unsigned char *local[RMEM_REACTORS_MAX];
	struct rmem_arena twins;
	unsigned char *twin[RMEM_REACTORS_MAX]; /* as long as `local` each; NULL without */
	struct bench_part *parts; /* of server s for reactor r at s * reactor_count + r */
};

/* Makes the engine, connects, and registers memory. Errors: those of the engine, -ENOMEM,
 * -ETIMEDOUT (a server is not there; says why), -ENOSPC (a server has too little memory). */
int bench_rig_create(const struct bench_rig_options *options, struct bench_rig **rig,
		     struct rmem_error *error) RMEM_MUST_CHECK;

/* Nothing may be under way. NULL is fine. */
void bench_rig_destroy(struct bench_rig *rig);

static inline const struct bench_part *bench_rig_part(const struct bench_rig *rig, unsigned server,
						      unsigned reactor)
{
	return &rig->parts[server * rig->reactor_count + reactor];
}
