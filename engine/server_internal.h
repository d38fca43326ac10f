/* SPDX-License-Identifier: Apache-2.0 */
/* What the server's own files share. server.c has the loop and the listeners, server_client.c the
 * conversation with one client, server_socket.c the socket in the file system. */
#pragma once

#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "engine/server.h"

/* Longest message that a client may send. */
#define SERVER_REQUEST_MAX 512

/* What an epoll event leads to. */
struct server_source {
	void (*ready)(struct server_source *source, uint32_t events);
	int fd;
};

/* A listening socket in the file system, with the lock that makes it ours. */
struct server_socket {
	int fd;
	int lock_fd;
	dev_t device;
	ino_t inode; /* of the socket that was bound: only that one is removed */
	char *path;
	char *lock_path;
};

/* Makes the path this server's, and free. Errors: as rmem_server_listen(). */
int server_socket_claim(const char *path, struct server_socket *listening,
			struct rmem_error *error) RMEM_MUST_CHECK;
/* From here on clients can connect. Errors: those of the file system. */
int server_socket_listen(struct server_socket *listening, unsigned mode,
			 struct rmem_error *error) RMEM_MUST_CHECK;
void server_socket_close(struct server_socket *listening);

struct server_listener {
	struct server_source source;
	struct rmem_server *server;
	struct server_socket socket;
	SLIST_ENTRY(server_listener) link;
};

struct server_client {
	struct server_source source;
	struct rmem_server *server;
	TAILQ_ENTRY(server_client) link; /* in `waiting` or `greeted` */
	uint64_t deadline_ns;		 /* while waiting */
	struct ucred peer;
	int is_greeted;
	char label[160]; /* for the log */
	size_t used;
	uint8_t request[SERVER_REQUEST_MAX];
};
TAILQ_HEAD(server_clients, server_client);

struct rmem_server {
	struct rmem_server_options options;
	struct rmem_pool *pool;	     /* NULL until it is started */
	struct rmem_welcome welcome; /* the same for everybody */
	int epoll_fd;
	int spare_fd; /* given up to turn away a client when descriptors have run out */
	struct server_source stop;
	uint64_t started_ns;
	unsigned client_count;
	unsigned greeted_count;
	struct server_clients waiting; /* in the order of their deadlines */
	struct server_clients greeted;
	SLIST_HEAD(, server_listener) listeners;
	/* Complaints about clients are limited, else a flood of clients is one of log lines. */
	uint64_t complaint_second;
	unsigned complaints, complaints_hidden;
};

/* Takes over `fd`. */
void server_client_accept(struct rmem_server *server, int fd);
void server_client_close(struct server_client *client);
/* Ends those whose time is up; returns the milliseconds to the next deadline, -1 for none. */
int server_client_expire(struct rmem_server *server);
void server_client_close_all(struct rmem_server *server);

/* Sends an error to a socket that is about to be closed; best effort. */
void server_refuse(int fd, enum rmem_wire_code code, const char *text);

/* Whether one more complaint may be logged now. */
int server_may_complain(struct rmem_server *server);
