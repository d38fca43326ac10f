/* SPDX-License-Identifier: Apache-2.0 */
/* A whole stack in one process: memory servers over shm, an engine, a volume on LMDB in a folder of
 * its own, data threads. For tests of what lies between the store and FUSE. */
#pragma once

#include <pthread.h>

#include "engine/rmem.h"
#include "engine/server.h"
#include "fs/data.h"
#include "fs/volume.h"

#define RIG_SERVERS_MAX	 4
#define RIG_REACTORS_MAX 4

struct rig_server {
	struct rmem_server *server;
	char url[256];
	pthread_t thread;
};

struct rig_options {
	unsigned servers, reactors;
	uint64_t pool_bytes; /* of each server */
	uint64_t stripe_bytes;
	unsigned wait_ms;
	bool keeps_memory; /* a server that is stopped and started again has its bytes */
	bool follows;	   /* the volume is told when servers come and go, as by the mount */
	/* With dirty_bytes: writes are back. Servers are of this host. */
	uint64_t dirty_bytes, stage_bytes;
	unsigned dirty_age_ms;
	bool stage_local;
	/* Servers, as a set, that count as far away. For programs with far_fabric_dep. */
	unsigned far;
};

struct rig {
	struct rig_options options;
	char folder[128];
	unsigned server_count, reactor_count;
	struct rig_server servers[RIG_SERVERS_MAX];
	unsigned indexes[RIG_SERVERS_MAX]; /* in the engine */
	struct rmem_engine *engine;
	struct volume *volume;
	struct data_shared *data;
	struct data_thread *threads[RIG_REACTORS_MAX];
};

/* Each aborts the test when something fails. */
void rig_start(struct rig *rig, const struct rig_options *options);
void rig_stop(struct rig *rig);

/* Ends a server as if it had been killed, or starts it again on the same URL (with new memory,
 * unless it keeps it). */
void rig_stop_server(struct rig *rig, unsigned index);
void rig_start_server(struct rig *rig, unsigned index, uint64_t pool_bytes);

/* Waits until the engine, and with `follows` the volume, has noticed. */
void rig_wait_server(struct rig *rig, unsigned index, enum rmem_server_state state);

/* Runs one request to its end on reactor `reactor`, which the calling thread drives. */
int rig_run(struct rig *rig, unsigned reactor, struct data_request *request);
