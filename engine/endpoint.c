/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/endpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/checked.h"
#include "engine/base/log.h"

#define PIECE_BYTES_MAX (1u << 30) /* lengths of SGEs are 32-bit */

/* --- Sizes ------------------------------------------------------------------------------------ */

static uint32_t round_depth(uint32_t wanted, uint32_t max)
{
	uint32_t depth = 1;

	while (depth < wanted && depth < RMEM_LEDGER_CAPACITY_MAX)
		depth *= 2;
	while (depth > 1 && depth > max)
		depth /= 2;
	return depth;
}

static uint32_t notices(const struct rmem_engine_options *options)
{
	return options->notices > 0 ? round_depth(options->notices, options->notices) : 0;
}

/* How many requests a lane may have in flight: what was asked for, as far as the device's send and
 * completion queues go. One more than that is for the request that ends a drain. */
static uint32_t lane_depth(const struct rmem_engine_options *options,
			   const struct rmem_port_limits *port)
{
	uint64_t others = RMEM_NOTICE_COMPLETIONS(notices(options));
	uint64_t room = port->cq_depth_max > others ? port->cq_depth_max - others : 0;
	uint64_t max = rmem_min_u64(port->depth_max, room / options->lanes);

	return round_depth(options->depth, max > 1 ? (uint32_t)max - 1 : 1);
}

static void set_limits(struct rmem_plan_limits *limits, const struct rmem_engine_options *options,
		       const struct rmem_port_limits *port)
{
	uint64_t piece = rmem_min_u64(port->message_max_bytes, PIECE_BYTES_MAX);

	piece = rmem_max_u64(rmem_round_down(piece, RMEM_PAGE_BYTES), RMEM_PAGE_BYTES);
	limits->piece_max_bytes = (uint32_t)piece;
	limits->chunk_bytes = (uint32_t)rmem_min_u64(options->chunk_bytes, piece);
	limits->chunks_max = options->chunks_max;
	limits->sge_max = (uint32_t)rmem_min_u64(port->sge_max, RMEM_SGE_MAX);
	limits->inline_bytes = port->inline_max_bytes;
}

/* --- Endpoints -------------------------------------------------------------------------------- */

static void endpoint_destroy(struct rmem_endpoint *endpoint)
{
	if (!endpoint)
		return;
	for (uint32_t i = 0; i < endpoint->lane_count; i++)
		rmem_lane_finish(&endpoint->lanes[i]);
	free(endpoint->notify);
	free(endpoint);
}

/* Takes note of how many notices the first lane got. */
static int take_notices(const struct rmem_connection *connection, const struct rmem_lane_link *link,
			struct rmem_endpoint *endpoint)
{
	const struct rmem_fabric *fabric = connection->fabric;
	uint32_t count = fabric->lane_notices ? fabric->lane_notices(link) : 0;

	if (count == 0)
		return 0;
	endpoint->notify = malloc(sizeof(*endpoint->notify));
	if (!endpoint->notify)
		return -ENOMEM;
	rmem_notify_init(endpoint->notify, count);
	endpoint->cq_depth += RMEM_NOTICE_COMPLETIONS(count);
	return 0;
}

static int lane_create(const struct rmem_connection *connection, unsigned reactor,
		       const struct rmem_connection_options *options,
		       struct rmem_endpoint *endpoint, struct rmem_error *error)
{
	const struct rmem_port_entry *port = connection->port;
	uint32_t depth = lane_depth(options->engine, &port->limits);
	struct rmem_lane_options lane_options = {
		.depth = depth + 1, /* one for the request that ends a drain */
		.inline_bytes = port->limits.inline_max_bytes,
		.detect_ms = options->engine->detect_ms,
		.stream_bytes = options->engine->stream_threshold_bytes,
		.notices = endpoint->lane_count == 0 ? notices(options->engine) : 0,
	};
	struct rmem_lane_config config = {
		.id_base = rmem_id_base(options->server, endpoint->lane_count, options->generation),
		.depth = depth,
		.post_batch = (uint32_t)rmem_min_u64(options->engine->post_batch, depth),
		.detect_ms = options->engine->detect_ms,
	};
	struct rmem_lane_link *link;
	int rc = connection->fabric->lane_open(connection->conn, port->cqs[reactor], &lane_options,
					       &link, error);

	if (rc)
		return rc;
	rc = rmem_lane_init(&endpoint->lanes[endpoint->lane_count++], connection->fabric, link,
			    &config);
	endpoint->cq_depth += lane_options.depth;
	if (rc == 0 && lane_options.notices > 0)
		rc = take_notices(connection, link, endpoint);
	return rc ? rmem_fail(error, -rc, "no memory for a lane of %u requests", depth) : 0;
}

static int endpoint_create(struct rmem_connection *connection, unsigned reactor,
			   const struct rmem_connection_options *options, struct rmem_error *error)
{
	const struct rmem_engine_options *engine = options->engine;
	size_t bytes = sizeof(struct rmem_endpoint) + engine->lanes * sizeof(struct rmem_lane);
	struct rmem_endpoint *endpoint =
		aligned_alloc(RMEM_CACHE_PAIR, rmem_round_up(bytes, RMEM_CACHE_PAIR));
	int rc;

	if (!endpoint)
		return rmem_fail(error, ENOMEM, "no memory for an endpoint");
	memset(endpoint, 0, bytes);
	connection->endpoints[reactor] = endpoint;
	endpoint->target.regions = connection->info.regions;
	endpoint->target.region_count = connection->info.region_count;
	endpoint->target.server = options->server;
	endpoint->target.memory.port = connection->port->index;
	set_limits(&endpoint->target.limits, engine, &connection->port->limits);
	endpoint->generation = options->generation % RMEM_ID_GENERATIONS;
	endpoint->spread_bytes =
		engine->lanes > 1 ? endpoint->target.limits.chunk_bytes : UINT64_MAX;
	for (unsigned i = 0; i < engine->lanes; i++) {
		rc = lane_create(connection, reactor, options, endpoint, error);
		if (rc)
			return rc;
	}
	return 0;
}

/* --- Connections ------------------------------------------------------------------------------ */

void rmem_connection_destroy(struct rmem_connection *connection)
{
	if (!connection)
		return;
	for (unsigned i = 0; i < connection->endpoint_count; i++)
		endpoint_destroy(connection->endpoints[i]);
	if (connection->conn)
		connection->fabric->disconnect(connection->conn);
	free(connection);
}

static int check_info(const struct rmem_conn_info *info, struct rmem_error *error)
{
	if (info->region_count == 0 || info->region_count > RMEM_REGIONS_MAX)
		return rmem_fail(error, EPROTO, "the server exports %u regions, not 1 to %d",
				 info->region_count, RMEM_REGIONS_MAX);
	for (uint32_t i = 0; i < info->region_count; i++) {
		const struct rmem_remote *region = &info->regions[i];

		if (!rmem_range_ok(region->address, region->length, UINT64_MAX))
			return rmem_fail(error, EPROTO, "region %u of the server wraps around", i);
	}
	return 0;
}

/* Says once a port which settings its device forced down. */
static void tell_limits(struct rmem_port_entry *port, const struct rmem_engine_options *options)
{
	uint32_t depth = lane_depth(options, &port->limits);
	uint64_t message = port->limits.message_max_bytes;

	if (atomic_exchange(&port->is_told, true))
		return;
	if (depth < options->depth)
		rmem_log_warn(
			RMEM_LOG_ENGINE,
			"engine.depth is %u instead of %u here: the %s device takes up to %u "
			"requests in a send queue and %u completions in a queue, for %u lanes",
			depth, options->depth, port->fabric->scheme, port->limits.depth_max,
			port->limits.cq_depth_max, options->lanes);
	if (message < options->chunk_bytes && message < PIECE_BYTES_MAX)
		rmem_log_warn(RMEM_LOG_ENGINE,
			      "engine.chunk is %" PRIu64
			      " bytes instead of %zu here: the %s device "
			      "takes no longer message",
			      rmem_round_down(message, RMEM_PAGE_BYTES), options->chunk_bytes,
			      port->fabric->scheme);
}

static int fill(struct rmem_connection *connection, const struct rmem_connection_options *options,
		struct rmem_error *error)
{
	const struct rmem_fabric *fabric = connection->fabric;
	int rc = rmem_registry_port(options->registry, options->url, &connection->port, error);

	if (rc)
		return rc;
	tell_limits(connection->port, options->engine);
	rc = fabric->connect(connection->port->port, options->url,
			     options->engine->connect_timeout_ms, &connection->conn, error);
	if (rc)
		return rc;
	fabric->conn_info(connection->conn, &connection->info);
	rc = check_info(&connection->info, error);
	if (rc)
		return rc;
	for (unsigned i = 0; i < connection->endpoint_count; i++) {
		rc = endpoint_create(connection, i, options, error);
		if (rc)
			return rc;
	}
	return 0;
}

int rmem_connection_create(const struct rmem_connection_options *options,
			   struct rmem_connection **connection, struct rmem_error *error)
{
	unsigned count = options->registry->reactor_count;
	struct rmem_connection *made = calloc(1, sizeof(*made) + count * sizeof(void *));
	int rc;

	*connection = NULL;
	if (!made)
		return rmem_fail(error, ENOMEM, "no memory for a connection");
	made->fabric = rmem_fabric_find(options->url);
	made->server = options->server;
	made->generation = options->generation;
	made->endpoint_count = count;
	rc = fill(made, options, error);
	if (rc) {
		rmem_connection_destroy(made);
		return rc;
	}
	*connection = made;
	return 0;
}

static const char *wc_text(uint32_t status)
{
	switch (status) {
	case RMEM_WC_FLUSHED:
		return "flushed";
	case RMEM_WC_REMOTE_ACCESS:
		return "the server refused access to its memory";
	case RMEM_WC_LOCAL_ERROR:
		return "local memory was refused";
	case RMEM_WC_PEER_LOST:
		return "the server no longer answers";
	default:
		return "the fabric reported an error";
	}
}

static const char *end_text(int rc)
{
	switch (rc) {
	case -ESHUTDOWN:
		return "the server was stopped";
	case -ECONNRESET:
		return "the server is gone";
	case -EPROTO:
		return "the server breaks the rules";
	default:
		return strerror(-rc);
	}
}

int rmem_connection_alive(struct rmem_connection *connection, struct rmem_error *error)
{
	int rc = connection->fabric->conn_alive(connection->conn);

	return rc ? rmem_fail(error, -rc, "%s", end_text(rc)) : 0;
}

int rmem_connection_failure(const struct rmem_connection *connection, struct rmem_error *error)
{
	for (unsigned i = 0; i < connection->endpoint_count; i++) {
		const struct rmem_endpoint *endpoint = connection->endpoints[i];
		/* Pairs with the release of the reactor that filled in wc_*. */
		int failure = atomic_load_explicit(&endpoint->failure, memory_order_acquire);

		if (failure == 0)
			continue;
		if (endpoint->wc_status != RMEM_WC_OK)
			return rmem_fail(error, -failure, "a transfer failed: %s (status %u)",
					 wc_text(endpoint->wc_status),
					 endpoint->wc_provider_status);
		return rmem_fail(error, -failure, "posting failed: %s", strerror(-failure));
	}
	return 0;
}
