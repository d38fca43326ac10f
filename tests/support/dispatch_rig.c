/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/dispatch_rig.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int publish(void *user, struct rmem_memory_map *map)
{
	struct drig *rig = user;

	free(rig->map);
	rig->map = map;
	return 0;
}

static void notify(void *user)
{
	struct drig *rig = user;

	rig->notified++;
}

void drig_connect(struct drig *rig, unsigned server)
{
	struct rmem_connection_options options = {
		.engine = &rig->options,
		.registry = &rig->registry,
		.url = rig->urls[server],
		.server = server,
		.generation = ++rig->generation,
	};
	struct rmem_connection *connection;
	struct rmem_error error = {0};
	int rc = rmem_connection_create(&options, &connection, &error);

	ck_assert_msg(rc == 0, "%s", error.text);
	ck_assert_ptr_null(rig->connections[server]);
	rig->connections[server] = connection;
	rmem_memory_view_set(&connection->endpoints[0]->target.memory, rig->map);
	rmem_dispatch_attach(&rig->dispatch, connection->endpoints[0]);
}

bool drig_collect(struct drig *rig, unsigned server)
{
	if (atomic_load(&rig->connections[server]->endpoints[0]->is_attached))
		return false;
	rmem_connection_destroy(rig->connections[server]);
	rig->connections[server] = NULL;
	return true;
}

struct rmem_endpoint *drig_endpoint(struct drig *rig, unsigned server)
{
	return rig->connections[server]->endpoints[0];
}

void drig_start(struct drig *rig, const struct drig_shape *shape)
{
	struct rmem_memory *memory;
	struct rmem_port_entry *port;
	struct rmem_error error = {0};

	memset(rig, 0, sizeof(*rig));
	fake_reset(shape->mode);
	rmem_engine_options_init(&rig->options);
	rig->options.lanes = shape->lanes;
	rig->options.depth = shape->depth;
	rig->options.post_batch = shape->post_batch;
	rig->options.notices = shape->notices;
	rig->options.detect_ms = 20;
	if (shape->chunk_bytes)
		rig->options.chunk_bytes = shape->chunk_bytes;
	rig->servers = shape->servers;
	rmem_registry_init(&rig->registry, 1, publish, rig);
	rig->local = aligned_alloc(RMEM_PAGE_BYTES, DRIG_LOCAL_BYTES);
	memset(rig->local, 0, DRIG_LOCAL_BYTES);
	ck_assert_int_eq(
		rmem_registry_add(&rig->registry, rig->local, DRIG_LOCAL_BYTES, &memory, &error),
		0);
	ck_assert_int_eq(rmem_registry_port(&rig->registry, "fake:0/x", &port, &error), 0);
	ck_assert_int_eq(port->fabric->cq_resize(port->cqs[0], 65536, &error), 0);
	rmem_stats_init(&rig->metrics.stats);
	rmem_sampler_init(&rig->metrics.sampler, 1);
	rmem_dispatch_init(&rig->dispatch, &rig->metrics, notify, rig);
	rig->dispatch.server_count = shape->servers;
	for (unsigned i = 0; i < shape->servers; i++) {
		snprintf(rig->urls[i], sizeof(rig->urls[i]), "fake:0/s%u", i);
		fake_server_start(rig->urls[i], 2, DRIG_REGION_BYTES);
		drig_connect(rig, i);
	}
}

static unsigned poll(struct drig *rig)
{
	const struct rmem_port_entry *port = rig->registry.ports[0];
	struct rmem_completion completions[16];
	int count = port->fabric->cq_poll(port->cqs[0], completions, 16);

	ck_assert_int_ge(count, 0);
	rmem_dispatch_complete(&rig->dispatch, completions, (unsigned)count);
	rmem_dispatch_run_notices(&rig->dispatch);
	return (unsigned)count;
}

void drig_poll(struct drig *rig)
{
	while (poll(rig) > 0)
		;
}

unsigned drig_turn(struct drig *rig)
{
	rmem_dispatch_flush(&rig->dispatch);
	drig_poll(rig);
	return rmem_dispatch_run_done(&rig->dispatch);
}

void drig_finish(struct drig *rig)
{
	rmem_dispatch_abandon(&rig->dispatch);
	for (int i = 0; rig->dispatch.draining && i < 1000; i++) {
		for (unsigned lane = 0; lane < fake_lane_count(); lane++)
			fake_run(lane, UINT32_MAX);
		drig_turn(rig);
	}
	ck_assert_ptr_null(rig->dispatch.draining);
	for (unsigned i = 0; i < rig->servers; i++) {
		if (rig->connections[i])
			ck_assert(drig_collect(rig, i));
	}
	rmem_registry_finish(&rig->registry);
	ck_assert_uint_eq(fake_open_lanes(), 0);
	ck_assert_uint_eq(fake_open_conns(), 0);
	ck_assert_uint_eq(fake_violations(), 0);
	free(rig->local);
	free(rig->map);
	fake_reset(FAKE_MANUAL);
}

static void ended(struct rmem_batch *batch, int status)
{
	struct drig_batch *at = batch->user;

	at->ended++;
	at->status = status;
	for (uint32_t i = 0; i < batch->segment_count; i++) {
		if (fake_is_outstanding(at->segments[i].local, at->segments[i].length))
			at->was_outstanding = true;
	}
}

struct drig_batch *drig_batch(enum rmem_op op, unsigned count)
{
	struct drig_batch *made = calloc(1, sizeof(*made) + count * sizeof(struct rmem_segment));

	made->batch = (struct rmem_batch){
		.op = op,
		.segment_count = count,
		.segments = made->segments,
		.done = ended,
		.user = made,
	};
	return made;
}

void drig_submit(struct drig *rig, struct drig_batch *batch)
{
	rmem_dispatch_submit(&rig->dispatch, &batch->batch);
}
