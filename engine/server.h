/* SPDX-License-Identifier: Apache-2.0 */
/* The memory server: owns a pool, exports it as regions, and stays out of the way.
 *
 *	rmem_server_options_init(&options);
 *	rmem_server_create(&options, &server, &error);
 *	rmem_server_listen(server, "shm:/run/rmemd.sock", &error);
 *	rmem_server_start(server, &error);
 *	rmem_server_run(server, &error);	// until rmem_server_stop()
 *	rmem_server_destroy(server);
 *
 * One thread creates, runs and destroys it. It serves clients only while they introduce themselves;
 * after that the kernel (or the card) moves their bytes. A client costs a descriptor and a few
 * KiB, has to be done with its introduction within handshake_ms, and can disturb no other one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/pool.h"
#include "engine/wire.h"

struct rmem_server;

struct rmem_server_options {
	struct rmem_pool_options pool;
	uint64_t region_max_bytes; /* the pool is cut into regions of at most this; 0: one region */
	unsigned clients_max;	   /* connected at a time */
	unsigned handshake_ms;
	unsigned socket_mode; /* access rights of Unix sockets */
	/* Whoever reaches a network address that it listens on may read and write the pool. */
	bool allow_unauthenticated;
};

/* An anonymous pool of no size yet, and defaults for the rest. */
void rmem_server_options_init(struct rmem_server_options *options);

/* Nothing that takes long or much; the strings in `options` are copied. Errors: -ENOMEM, -EMFILE.
 */
int rmem_server_create(const struct rmem_server_options *options, struct rmem_server **server,
		       struct rmem_error *error) RMEM_MUST_CHECK;

/* Reserves `url` ("shm:/PATH", "verbs://HOST:PORT") for this server, which listens there once it is
 * started; so a second server is refused before it takes memory for a pool. A socket that a dead
 * server left is removed. Errors: -EADDRINUSE (a live server has it; its pid is named), -EINVAL
 * (URL), -EEXIST (something that is no socket), -EPERM (a network address, and
 * allow_unauthenticated is not set), -ENODEV (no RDMA device), and those of the file system. */
int rmem_server_listen(struct rmem_server *server, const char *url,
		       struct rmem_error *error) RMEM_MUST_CHECK;

/* Makes the pool, which may take its time, and opens the doors. Errors: those of
 * rmem_pool_create(), -EINVAL (too many regions), -ECANCELED (stopped meanwhile), and those of the
 * file system. */
int rmem_server_start(struct rmem_server *server, struct rmem_error *error) RMEM_MUST_CHECK;

/* Serves until it is stopped. Errors: -EIO (the event loop failed). */
int rmem_server_run(struct rmem_server *server, struct rmem_error *error) RMEM_MUST_CHECK;

/* Any thread, and signal handlers: makes rmem_server_run() return soon, or at once if it has not
 * been called yet. */
void rmem_server_stop(struct rmem_server *server);

/* Says goodbye to the clients, removes the sockets, marks a pool file clean. NULL is fine. */
void rmem_server_destroy(struct rmem_server *server);

/* What it exports and who is there, once it is started. The thread that runs it. */
void rmem_server_status(const struct rmem_server *server, struct rmem_status *status);

/* Any thread of any program: asks the server at `url` how it is, within `timeout_ms`. Errors: as
 * for connecting to it: -EINVAL, -ENOENT, -ECONNREFUSED, -EACCES, -ETIMEDOUT, -EPROTO, -EBUSY. */
int rmem_server_query_status(const char *url, unsigned timeout_ms, struct rmem_status *status,
			     struct rmem_error *error) RMEM_MUST_CHECK;
