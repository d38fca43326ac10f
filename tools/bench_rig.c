/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_rig.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/base/checked.h"
#include "engine/base/memory_info.h"
#include "engine/pool.h"

#define KIB ((uint64_t)1 << 10)

/* --- How much memory -------------------------------------------------------------------------- */

uint64_t bench_budget_limit(const struct bench_settings *settings)
{
	uint64_t available_bytes;

	if (settings->memory_bytes != 0)
		return settings->memory_bytes;
	available_bytes = rmem_meminfo("MemAvailable") * KIB;
	return available_bytes != 0 ? available_bytes / 2 : UINT64_MAX; /* a /proc that is silent */
}

int bench_budget_make(const struct bench_settings *settings, unsigned own_servers,
		      uint64_t limit_bytes, struct bench_budget *budget, struct rmem_error *error)
{
	uint64_t stretches = settings->reactors * (1 + settings->copy + (uint64_t)own_servers);
	uint64_t most = rmem_round_down(limit_bytes / stretches, RMEM_PAGE_BYTES);
	char size[BENCH_SIZE_TEXT], share[BENCH_SIZE_TEXT], limit[BENCH_SIZE_TEXT];

	budget->wanted_bytes = rmem_round_up(
		settings->size_max * settings->batch * settings->in_flight, RMEM_PAGE_BYTES);
	budget->share_bytes = rmem_min_u64(budget->wanted_bytes, most);
	if (budget->share_bytes >= settings->size_max)
		return 0;
	return rmem_fail(
		error, ENOMEM,
		"a message of %s does not fit: of %s of memory a reactor's part is %s, here "
		"and on each server (%llu reactors, %u servers); lower --size or "
		"--reactors, or raise --memory",
		bench_size_text(settings->size_max, size),
		bench_size_text(rmem_round_down(limit_bytes, KIB), limit),
		bench_size_text(most, share), (unsigned long long)settings->reactors, own_servers);
}

/* --- Servers ---------------------------------------------------------------------------------- */

/* Divides the regions of server `server` among the reactors. */
static int divide(struct bench_rig *rig, unsigned server, const struct rmem_server_info *info,
		  struct rmem_error *error)
{
	unsigned users;

	if (info->region_count == 0)
		return rmem_fail(error, ENOSPC, "%s: exports no memory", info->url);
	users = (rig->reactor_count + info->region_count - 1) / info->region_count;
	for (unsigned reactor = 0; reactor < rig->reactor_count; reactor++) {
		struct bench_part *part = &rig->parts[server * rig->reactor_count + reactor];
		uint64_t length;

		part->region = reactor % info->region_count;
		length = rmem_round_down(info->regions[part->region].length / users,
					 RMEM_PAGE_BYTES);
		part->offset = reactor / info->region_count * length;
		rig->share_bytes = rmem_min_u64(rig->share_bytes, length);
	}
	return 0;
}

static int connect_one(struct bench_rig *rig, const char *url, unsigned timeout_ms,
		       struct rmem_error *error)
{
	struct rmem_server_info info;
	unsigned server;
	int rc = rmem_server_add(rig->engine, url, &server, error);

	if (rc == 0)
		rc = rmem_server_wait(rig->engine, server, timeout_ms, error);
	if (rc == 0 && rmem_server_info(rig->engine, server, &info) != 0)
		rc = rmem_fail(error, ENOENT, "%s: no such server", url);
	if (rc == 0)
		rc = divide(rig, server, &info, error);
	return rc;
}

static int connect_all(struct bench_rig *rig, const struct bench_rig_options *options,
		       struct rmem_error *error)
{
	char size[BENCH_SIZE_TEXT];

	for (unsigned i = 0; i < options->url_count; i++) {
		int rc = connect_one(rig, options->urls[i], options->engine.connect_timeout_ms,
				     error);

		if (rc != 0)
			return rc;
		if (rig->share_bytes < options->message_bytes)
			return rmem_fail(error, ENOSPC,
					 "%s: too little memory to give each of %u reactors room "
					 "for a message of %s: lower --size or --reactors",
					 options->urls[i], rig->reactor_count,
					 bench_size_text(options->message_bytes, size));
	}
	return 0;
}

/* --- Memory and life -------------------------------------------------------------------------- */

static int make_memory(struct bench_rig *rig, const struct bench_rig_options *options,
		       struct rmem_error *error)
{
	struct rmem_arena_options arena = {
		.slot_bytes = options->share_bytes,
		.slot_count = rig->reactor_count,
		.huge_pages = options->engine.huge_pages,
	};
	int rc = rmem_arena_init(&rig->arena, &arena, error);

	if (rc != 0)
		return rmem_fail_prefix(error, rc, "memory for messages (see --memory)");
	if (options->has_twin)
		rc = rmem_arena_init(&rig->twins, &arena, error);
	if (rc != 0)
		return rmem_fail_prefix(error, rc, "memory to copy to (see --memory)");
	for (unsigned i = 0; i < rig->reactor_count; i++) {
		rig->local[i] = rmem_arena_get(&rig->arena);
		if (options->has_twin)
			rig->twin[i] = rmem_arena_get(&rig->twins);
	}
	return rmem_memory_register(rig->engine, rig->arena.base, rig->arena.length, &rig->memory,
				    error);
}

static int fill(struct bench_rig *rig, const struct bench_rig_options *options,
		struct rmem_error *error)
{
	int rc = rmem_engine_create(&options->engine, &rig->engine, error);

	if (rc == 0)
		rc = make_memory(rig, options, error);
	if (rc == 0)
		rc = connect_all(rig, options, error);
	return rc;
}

int bench_rig_create(const struct bench_rig_options *options, struct bench_rig **rig,
		     struct rmem_error *error)
{
	struct bench_rig *made = calloc(1, sizeof(*made));
	int rc;

	*rig = NULL;
	if (made != NULL)
		made->parts = calloc((size_t)options->url_count * options->engine.reactor_count,
				     sizeof(*made->parts));
	if (made == NULL || made->parts == NULL) {
		free(made);
		return rmem_fail(error, ENOMEM, "out of memory");
	}
	made->reactor_count = options->engine.reactor_count;
	made->server_count = options->url_count;
	made->share_bytes = options->share_bytes;
	rc = fill(made, options, error);
	if (rc != 0) {
		bench_rig_destroy(made);
		return rc;
	}
	*rig = made;
	return 0;
}

void bench_rig_destroy(struct bench_rig *rig)
{
	if (rig == NULL)
		return;
	rmem_memory_unregister(rig->memory);
	rmem_engine_destroy(rig->engine);
	rmem_arena_finish(&rig->arena);
	rmem_arena_finish(&rig->twins);
	free(rig->parts);
	free(rig);
}
