/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: what leads to one server, with the endpoint that each reactor has of it.
 *
 * Made whole before any reactor sees it, immutable from then on but for what is the reactors'
 * (their endpoints), and taken apart only when no reactor has its endpoint attached or can come to
 * see it in a table. Threads of the control side. */
#pragma once

#include "engine/dispatch.h"
#include "engine/port.h"
#include "engine/rmem.h"

struct rmem_connection {
	const struct rmem_fabric *fabric;
	struct rmem_port_entry *port;
	struct rmem_conn *conn;
	unsigned server;
	uint32_t generation;
	struct rmem_conn_info info;
	uint64_t retired_epoch;	      /* the first table without it; 0 while it is in use */
	struct rmem_connection *next; /* in the list of retired ones */
	unsigned endpoint_count;
	struct rmem_endpoint *endpoints[]; /* one a reactor */
};

struct rmem_connection_options {
	const struct rmem_engine_options *engine;
	struct rmem_registry *registry;
	const char *url;
	unsigned server;
	uint32_t generation;
};

/* Connects and opens all lanes of all reactors. Takes about connect_timeout_ms at most. Errors:
 * those of the fabric, -EPROTO (the server describes itself in a way that makes no sense). */
int rmem_connection_create(const struct rmem_connection_options *options,
			   struct rmem_connection **connection,
			   struct rmem_error *error) RMEM_MUST_CHECK;
void rmem_connection_destroy(struct rmem_connection *connection);

/* 0 while it works, as the fabric sees it; otherwise why it is over, in words. */
int rmem_connection_alive(struct rmem_connection *connection, struct rmem_error *error);
/* The same as the reactors see it: what they met and noted at their endpoints. */
int rmem_connection_failure(const struct rmem_connection *connection, struct rmem_error *error);
