/* SPDX-License-Identifier: Apache-2.0 */
/* A dispatcher with endpoints on fake servers, driven by the test alone: no reactor, no control
 * thread, nothing that moves by itself. */
#pragma once

#include "engine/dispatch.h"
#include "engine/endpoint.h"
#include "engine/port.h"
#include "engine/rmem.h"
#include "tests/support/fake_fabric.h"

#define DRIG_SERVERS_MAX  8
#define DRIG_REGION_BYTES ((uint64_t)8 << 20)
#define DRIG_LOCAL_BYTES  ((size_t)16 << 20)

struct drig_shape {
	enum fake_mode mode;
	unsigned servers;
	unsigned lanes;
	unsigned depth;
	unsigned post_batch;
	size_t chunk_bytes; /* 0: 64 KiB */
	unsigned notices;
};

struct drig {
	struct rmem_engine_options options;
	struct rmem_registry registry;
	struct rmem_memory_map *map;
	uint8_t *local; /* DRIG_LOCAL_BYTES, registered */
	struct rmem_metrics metrics;
	struct rmem_dispatch dispatch;
	unsigned notified;
	unsigned servers;
	uint32_t generation;
	char urls[DRIG_SERVERS_MAX][24];
	struct rmem_connection *connections[DRIG_SERVERS_MAX];
};

void drig_start(struct drig *rig, const struct drig_shape *shape);
/* Abandons what is in flight and takes everything down; fails the test if the engine broke a rule
 * of the fabric. */
void drig_finish(struct drig *rig);

/* The server (must be up) gets a new connection; the last must be over. */
void drig_connect(struct drig *rig, unsigned server);
/* Whether the reactor let go of the connection; then it is destroyed. */
bool drig_collect(struct drig *rig, unsigned server);
struct rmem_endpoint *drig_endpoint(struct drig *rig, unsigned server);

/* One turn as a reactor does it: flush, poll, call back. Returns the batches that ended. */
unsigned drig_turn(struct drig *rig);
/* Only the poll. */
void drig_poll(struct drig *rig);

/* A batch that notes its end. */
struct drig_batch {
	struct rmem_batch batch;
	struct rmem_notice notice;
	unsigned ended; /* how often */
	int status;
	bool was_outstanding; /* some of it was, when it ended */
	struct rmem_segment segments[];
};

/* `count` segments for the caller to fill in; freed with free(). */
struct drig_batch *drig_batch(enum rmem_op op, unsigned count);
void drig_submit(struct drig *rig, struct drig_batch *batch);
