/* SPDX-License-Identifier: Apache-2.0 */
/* Putting the engine together, and taking it apart. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/peers.h"
#include "engine/port.h"
#include "engine/reactor.h"
#include "engine/rmem.h"

struct rmem_engine {
	struct rmem_engine_options options;
	struct rmem_registry registry;
	struct rmem_peers peers;
	unsigned reactor_count; /* made so far */
	struct rmem_reactor *reactors[RMEM_REACTORS_MAX];
};

void rmem_engine_options_init(struct rmem_engine_options *options)
{
	*options = (struct rmem_engine_options){
		.reactor_count = 1,
		.poll = RMEM_POLL_ADAPTIVE,
		.spin_us = 50,
		.lanes = 1,
		.depth = 256,
		.post_batch = 32,
		.chunk_bytes = 64 << 10,
		.chunks_max = 64,
		.staging_slot_bytes = 128 << 10,
		.staging_bytes = 64 << 20,
		.huge_pages = RMEM_HUGE_AUTO,
		.connect_timeout_ms = 5000,
		.detect_ms = 2000,
		.reconnect_min_ms = 100,
		.reconnect_max_ms = 5000,
	};
}

/* --- Options ---------------------------------------------------------------------------------- */

struct bound {
	const char *name;
	uint64_t value, min, max, multiple;
};

static int check_bounds(const struct bound *bounds, size_t count, struct rmem_error *error)
{
	for (size_t i = 0; i < count; i++) {
		const struct bound *at = &bounds[i];

		if (at->value < at->min || at->value > at->max)
			return rmem_fail(error, EINVAL, "%s is %llu: it must be from %llu to %llu",
					 at->name, (unsigned long long)at->value,
					 (unsigned long long)at->min, (unsigned long long)at->max);
		if (at->value % at->multiple)
			return rmem_fail(error, EINVAL, "%s is %llu: it must be a multiple of %llu",
					 at->name, (unsigned long long)at->value,
					 (unsigned long long)at->multiple);
	}
	return 0;
}

static int check_options(const struct rmem_engine_options *options, struct rmem_error *error)
{
	const uint64_t page = RMEM_PAGE_BYTES;
	const uint64_t day_ms = 86400000;
	const struct bound bounds[] = {
		{"reactor_count", options->reactor_count, 1, RMEM_REACTORS_MAX, 1},
		{"poll", options->poll, 0, RMEM_POLL_EVENT, 1},
		{"huge_pages", options->huge_pages, 0, RMEM_HUGE_REQUIRE, 1},
		{"lanes", options->lanes, 1, RMEM_LANES_MAX, 1},
		{"depth", options->depth, 1, RMEM_LEDGER_CAPACITY_MAX, 1},
		{"post_batch", options->post_batch, 1, 65536, 1},
		{"chunk_bytes", options->chunk_bytes, page, UINT64_MAX, page},
		{"chunks_max", options->chunks_max, 1, UINT32_MAX, 1},
		{"staging_slot_bytes", options->staging_slot_bytes, page, UINT32_MAX, page},
		{"staging_bytes", options->staging_bytes, options->staging_slot_bytes, UINT64_MAX,
		 1},
		{"notices", options->notices, 0, RMEM_NOTICES_MAX, 1},
		{"connect_timeout_ms", options->connect_timeout_ms, 1, day_ms, 1},
		{"detect_ms", options->detect_ms, 1, day_ms, 1},
		{"reconnect_max_ms", options->reconnect_max_ms, 1, day_ms, 1},
		{"reconnect_min_ms", options->reconnect_min_ms, 1, options->reconnect_max_ms, 1},
	};

	return check_bounds(bounds, RMEM_COUNT_OF(bounds), error);
}

/* --- Life ------------------------------------------------------------------------------------- */

static int add_reactor(struct rmem_engine *engine, struct rmem_error *error)
{
	struct rmem_reactor_options options = {
		.engine = &engine->options,
		.peers = &engine->peers,
		.index = engine->reactor_count,
	};
	struct rmem_reactor *reactor;
	struct rmem_memory *arena;
	int rc = rmem_reactor_create(&options, &reactor, error);

	if (rc)
		return rc;
	engine->reactors[engine->reactor_count++] = reactor;
	engine->peers.reactors[engine->peers.reactor_count++] = (struct rmem_peers_reactor){
		.reactor = reactor,
		.wake = rmem_reactor_wake,
		.epoch = &reactor->epoch,
	};
	/* No port is there yet: this only puts it on the list. */
	return rmem_registry_add(&engine->registry, reactor->arena.base, reactor->arena.length,
				 &arena, error);
}

static int fill(struct rmem_engine *engine, struct rmem_error *error)
{
	int rc = rmem_peers_init(&engine->peers, &engine->options, &engine->registry, error);

	while (rc == 0 && engine->reactor_count < engine->options.reactor_count)
		rc = add_reactor(engine, error);
	if (rc == 0)
		rc = rmem_peers_start(&engine->peers, error);
	return rc;
}

int rmem_engine_create(const struct rmem_engine_options *options, struct rmem_engine **engine,
		       struct rmem_error *error)
{
	struct rmem_engine *made;
	int rc = check_options(options, error);

	*engine = NULL;
	if (rc)
		return rc;
	made = aligned_alloc(RMEM_CACHE_PAIR, rmem_round_up(sizeof(*made), RMEM_CACHE_PAIR));
	if (!made)
		return rmem_fail(error, ENOMEM, "no memory for an engine");
	memset(made, 0, sizeof(*made));
	made->options = *options;
	rmem_registry_init(&made->registry, options->reactor_count, rmem_peers_publish_memory,
			   &made->peers);
	rc = fill(made, error);
	if (rc) {
		rmem_engine_destroy(made);
		return rc;
	}
	*engine = made;
	return 0;
}

void rmem_engine_destroy(struct rmem_engine *engine)
{
	if (!engine)
		return;
	rmem_peers_stop(&engine->peers);
	for (unsigned i = 0; i < engine->reactor_count; i++)
		rmem_reactor_quiesce(engine->reactors[i]);
	rmem_peers_finish(&engine->peers);
	rmem_registry_finish(&engine->registry);
	for (unsigned i = 0; i < engine->reactor_count; i++)
		rmem_reactor_destroy(engine->reactors[i]);
	free(engine);
}

/* --- The rest of the public calls ------------------------------------------------------------- */

unsigned rmem_engine_reactor_count(const struct rmem_engine *engine)
{
	return engine->reactor_count;
}

struct rmem_reactor *rmem_engine_reactor(struct rmem_engine *engine, unsigned index)
{
	return index < engine->reactor_count ? engine->reactors[index] : NULL;
}

int rmem_server_add(struct rmem_engine *engine, const char *url, unsigned *server,
		    struct rmem_error *error)
{
	return rmem_peers_add(&engine->peers, url, server, error);
}

int rmem_server_wait(struct rmem_engine *engine, unsigned server, unsigned timeout_ms,
		     struct rmem_error *error)
{
	return rmem_peers_wait(&engine->peers, server, timeout_ms, error);
}

int rmem_server_info(struct rmem_engine *engine, unsigned server, struct rmem_server_info *info)
{
	return rmem_peers_info(&engine->peers, server, info);
}

int rmem_memory_register(struct rmem_engine *engine, void *address, size_t length,
			 struct rmem_memory **memory, struct rmem_error *error)
{
	return rmem_registry_add(&engine->registry, address, length, memory, error);
}

void rmem_memory_unregister(struct rmem_memory *memory)
{
	rmem_registry_remove(memory);
}
