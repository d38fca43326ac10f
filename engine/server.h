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
 * KiB, has to be done with its introduction within handshake_ms, and can disturb no other one.
 *
 * Clients may send notices (see rmem.h), and be sent some. Who sends and receives at the other end
 * is a peer: one reactor of one client. Whatever takes a peer belongs to the server's thread, which
 * calls back from rmem_server_run(), rmem_server_poll() and rmem_peer_wait(). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/pool.h"
#include "engine/rmem.h"
#include "engine/wire.h"

struct rmem_server;
struct rmem_peer;

enum rmem_peer_event {
	RMEM_PEER_JOINED,
	RMEM_PEER_READY, /* it takes notices again, after rmem_peer_notify() said -EAGAIN */
	RMEM_PEER_LEFT,	 /* and is gone when the callback returns, with what was under way */
};

struct rmem_server_options {
	struct rmem_pool_options pool;
	uint64_t region_max_bytes; /* the pool is cut into regions of at most this; 0: one region */
	unsigned clients_max;	   /* connected at a time */
	unsigned handshake_ms;
	unsigned socket_mode; /* access rights of Unix sockets */
	/* Whoever reaches a network address that it listens on may read and write the pool. */
	bool allow_unauthenticated;

	unsigned notices; /* under way with a peer at most, each way; 0: nobody gets any */
	/* How the server waits while it has peers. It sleeps by default, which costs a sender a
	 * system call; RMEM_POLL_BUSY and, for spin_us after the last notice, RMEM_POLL_ADAPTIVE
	 * take a processor. */
	enum rmem_poll_mode poll;
	unsigned spin_us;
	/* For each notice that came, and for each event; either may be NULL. They may call
	 * rmem_peer_notify() and what only asks. */
	void (*notice)(void *user, struct rmem_peer *peer, const struct rmem_notice *notice);
	void (*peer_event)(void *user, struct rmem_peer *peer, enum rmem_peer_event event);
	void *user;
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

/* One turn without waiting, in place of rmem_server_run(): takes in the notices that came and, now
 * and then, what else happened. Returns the number of notices. */
unsigned rmem_server_poll(struct rmem_server *server);

/* Sends a notice to the peer; it is copied. Errors: -EAGAIN (as many as may be are under way:
 * RMEM_PEER_READY will tell), -EINVAL (too long), -ENOTCONN (the connection is over). */
int rmem_peer_notify(struct rmem_peer *peer, const struct rmem_notice *notice) RMEM_MUST_CHECK;

/* Whether the notice with this number has come from the peer. */
bool rmem_peer_has_arrived(const struct rmem_peer *peer, uint32_t transfer);

/* Runs the server until it has. Not from within a callback. Errors: -ETIMEDOUT; -ENOTCONN: the peer
 * has left, and is gone; -ECANCELED: rmem_server_stop(). */
int rmem_peer_wait(struct rmem_peer *peer, uint32_t transfer, unsigned timeout_ms) RMEM_MUST_CHECK;

/* For the user's own data about the peer; NULL at first. */
void rmem_peer_set_user(struct rmem_peer *peer, void *user);
void *rmem_peer_user(const struct rmem_peer *peer);

/* What it exports and who is there, once it is started. The thread that runs it. */
void rmem_server_status(const struct rmem_server *server, struct rmem_status *status);

/* Any thread of any program: asks the server at `url` how it is, within `timeout_ms`. Errors: as
 * for connecting to it: -EINVAL, -ENOENT, -ECONNREFUSED, -EACCES, -ETIMEDOUT, -EPROTO, -EBUSY. */
int rmem_server_query_status(const char *url, unsigned timeout_ms, struct rmem_status *status,
			     struct rmem_error *error) RMEM_MUST_CHECK;
