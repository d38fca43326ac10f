/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/rig.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "fs/channel.h"

static void *run_server(void *argument)
{
	struct rig_server *server = argument;
	struct rmem_error error = {0};

	if (rmem_server_run(server->server, &error) != 0)
		fprintf(stderr, "server: %s\n", error.text);
	return NULL;
}

void rig_start_server(struct rig *rig, unsigned index, uint64_t pool_bytes)
{
	struct rig_server *server = &rig->servers[index];
	struct rmem_server_options options;
	struct rmem_error error = {0};
	char url[sizeof(server->url)], backing[160];

	snprintf(url, sizeof(url), "shm:%s/%s%u.sock", rig->folder,
		 rig->options.far >> index & 1 ? "far" : "s", index);
	memcpy(server->url, url, sizeof(url));
	rmem_server_options_init(&options);
	options.pool.size_bytes = pool_bytes;
	snprintf(backing, sizeof(backing), "%s/pool%u", rig->folder, index);
	if (rig->options.keeps_memory)
		options.pool.backing = backing;
	ck_assert_int_eq(rmem_server_create(&options, &server->server, &error), 0);
	ck_assert_msg(rmem_server_listen(server->server, server->url, &error) == 0, "%s",
		      error.text);
	ck_assert_msg(rmem_server_start(server->server, &error) == 0, "%s", error.text);
	ck_assert_int_eq(pthread_create(&server->thread, NULL, run_server, server), 0);
}

void rig_stop_server(struct rig *rig, unsigned index)
{
	struct rig_server *server = &rig->servers[index];

	rmem_server_stop(server->server);
	pthread_join(server->thread, NULL);
	rmem_server_destroy(server->server);
	server->server = NULL;
}

/* On the engine's control thread. */
static void server_changed(void *user, unsigned server, enum rmem_server_state state)
{
	struct rig *rig = user;
	struct rmem_server_info info;
	struct rmem_error error;

	if (rmem_server_info(rig->engine, server, &info) != 0)
		return;
	if (state != RMEM_SERVER_UP)
		volume_detach(rig->volume, server);
	else if (volume_attach(rig->volume, server, &info, &error) != 0)
		fprintf(stderr, "attach: %s\n", error.text);
}

void rig_wait_server(struct rig *rig, unsigned index, enum rmem_server_state state)
{
	struct rmem_server_info info;
	bool noticed = false;

	for (unsigned i = 0; i < 2000 && !noticed; i++) {
		usleep(5000);
		ck_assert_int_eq(rmem_server_info(rig->engine, rig->indexes[index], &info), 0);
		noticed = info.state == state && (!rig->options.follows ||
						  volume_region(rig->volume, index + 1)->attached ==
							  (state == RMEM_SERVER_UP));
	}
	ck_assert(noticed);
}

static void start_engine(struct rig *rig, const struct rig_options *options)
{
	struct rmem_engine_options engine;
	struct rmem_server_info info;
	struct rmem_error error = {0};

	rmem_engine_options_init(&engine);
	engine.reactor_count = options->reactors;
	engine.staging_slot_bytes = CHANNEL_SLOT_BYTES;
	engine.staging_bytes = 4 * CHANNEL_SLOT_BYTES;
	engine.reconnect_min_ms = 10;
	engine.reconnect_max_ms = 50;
	if (options->follows) {
		engine.server_event = server_changed;
		engine.user = rig;
	}
	ck_assert_msg(rmem_engine_create(&engine, &rig->engine, &error) == 0, "%s", error.text);
	for (unsigned i = 0; i < options->servers; i++) {
		rig_start_server(rig, i, options->pool_bytes);
		ck_assert_int_eq(
			rmem_server_add(rig->engine, rig->servers[i].url, &rig->indexes[i], &error),
			0);
		ck_assert_msg(rmem_server_wait(rig->engine, rig->indexes[i], 5000, &error) == 0,
			      "%s", error.text);
		ck_assert_int_eq(rmem_server_info(rig->engine, rig->indexes[i], &info), 0);
		ck_assert_msg(volume_attach(rig->volume, rig->indexes[i], &info, &error) == 0, "%s",
			      error.text);
	}
}

void rig_start(struct rig *rig, const struct rig_options *options)
{
	struct volume_options volume = {0};
	struct data_options data = {
		.wait_ms = options->wait_ms,
		.dirty_bytes = options->dirty_bytes,
		.dirty_age_ms = options->dirty_age_ms,
		.stage_bytes = options->stage_bytes,
		.stage_local = options->stage_local,
	};
	struct rmem_error error = {0};
	char url[256];

	for (unsigned module = 0; module < RMEM_LOG_MODULES; module++)
		rmem_log_set_level((enum rmem_log_module)module, RMEM_LOG_ERROR);
	memset(rig, 0, sizeof(*rig));
	rig->options = *options;
	rig->server_count = options->servers;
	rig->reactor_count = options->reactors;
	strcpy(rig->folder, "/tmp/rmem-rig-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(rig->folder));
	snprintf(url, sizeof(url), "lmdb:%s/store", rig->folder);
	volume.store.url = url;
	volume.store.map_bytes = 1ull << 30;
	volume.store.holder = "a test";
	volume.stripe_bytes = options->stripe_bytes;
	volume.sync_interval_ms = 50;
	ck_assert_msg(volume_open(&volume, &rig->volume, &error) == 0, "%s", error.text);
	start_engine(rig, options);
	ck_assert_int_eq(data_shared_create(rig->engine, rig->volume, &data, &rig->data, &error),
			 0);
	for (unsigned i = 0; i < options->reactors; i++)
		ck_assert_int_eq(data_thread_create(rig->data, rmem_engine_reactor(rig->engine, i),
						    &rig->threads[i]),
				 0);
}

/* Flushes what is dirty, as a mount does that ends. */
static void drain(struct rig *rig)
{
	bool clean = false;

	for (unsigned turn = 0; !clean; turn++) {
		clean = true;
		for (unsigned i = 0; i < rig->reactor_count; i++) {
			if (!data_thread_drain(rig->threads[i], turn > 1000))
				clean = false;
			rmem_reactor_run(rmem_engine_reactor(rig->engine, i), 1);
		}
		ck_assert_uint_lt(turn, 10000);
	}
}

void rig_stop(struct rig *rig)
{
	char command[160];

	drain(rig);

	for (unsigned i = 0; i < rig->reactor_count; i++)
		data_thread_destroy(rig->threads[i]);
	data_shared_destroy(rig->data);
	rmem_engine_destroy(rig->engine);
	ck_assert_int_eq(volume_close(rig->volume), 0);
	for (unsigned i = 0; i < rig->server_count; i++)
		if (rig->servers[i].server != NULL)
			rig_stop_server(rig, i);
	snprintf(command, sizeof(command), "rm -rf %s", rig->folder);
	ck_assert_int_eq(system(command), 0);
}

struct waiting {
	bool ended;
	int status;
};

static void ended(struct data_request *request, int status)
{
	struct waiting *waiting = request->user;

	waiting->status = status;
	waiting->ended = true;
}

int rig_run(struct rig *rig, unsigned reactor, struct data_request *request)
{
	struct waiting waiting = {0};

	request->done = ended;
	request->user = &waiting;
	data_start(rig->threads[reactor], request);
	while (!waiting.ended)
		rmem_reactor_run(rmem_engine_reactor(rig->engine, reactor), 100);
	return waiting.status;
}
