/* SPDX-License-Identifier: Apache-2.0 */
/* What the server's own files share. server.c has the loop, server_client.c the conversation with
 * one client, whatever way it came; server_local.c brings clients of this machine through a socket,
 * which server_socket.c puts into the file system. server_peer.c has those who send notices,
 * server_mail.c the ones of this machine. */
#pragma once

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "engine/base/spin.h"
#include "engine/control.h"
#include "engine/notify.h"
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

/* A way in for clients, of one kind for each scheme of a URL. */
struct server_door {
	const struct server_door_kind *kind;
	struct rmem_server *server;
	SLIST_ENTRY(server_door) link;
};

struct server_door_kind {
	const char *scheme;
	/* Makes the URL this server's. Errors: as rmem_server_listen(). */
	int (*claim)(struct rmem_server *server, const char *url, struct server_door **door,
		     struct rmem_error *error);
	/* From here on clients can come; the pool is there. */
	int (*open)(struct server_door *door, struct rmem_error *error);
	/* Whether it was opened or not. All clients have been closed. */
	void (*close)(struct server_door *door);
	/* Any thread of any program, which need not be a server: asks the server at `url` for its
	 * STATUS. Errors: as rmem_server_query_status(). */
	int (*ask)(const char *url, uint64_t deadline_ns, struct rmem_control_message *answer,
		   struct rmem_error *error);
};

extern const struct server_door_kind server_door_local;
extern const struct server_door_kind server_door_verbs;

struct server_client;

/* --- Peers: who sends and gets notices -------------------------------------------------------- */

struct server_peer_kind {
	/* There is a credit. 0, or -ENOTCONN. */
	int (*send)(struct rmem_peer *peer, const struct rmem_notice *notice);
	void (*grant)(struct rmem_peer *peer, uint32_t count);
	/* It broke the rules: has its connection ended, but later. */
	void (*end)(struct rmem_peer *peer);
	void (*free)(struct rmem_peer *peer);
};

struct rmem_peer {
	const struct server_peer_kind *kind;
	struct rmem_server *server;
	struct server_client *client;
	void *user;
	bool is_over; /* nothing more is sent or taken in */
	bool has_left;
	bool is_awaited; /* by rmem_peer_wait(), which frees it then */
	bool is_refused; /* was told -EAGAIN */
	struct rmem_notify notify;
};

/* `kind` and `client` are set. It may be sent `credits` before it grants more. */
void server_peer_join(struct rmem_peer *peer, uint32_t depth, uint32_t credits);
/* How many of the `wanted` notices each way a peer may have. */
uint32_t server_agree_notices(const struct rmem_server *server, uint32_t wanted);
/* It may be gone then. */
void server_peer_leave(struct rmem_peer *peer);
/* A notice came from it; it granted some. */
void server_peer_notice(struct rmem_peer *peer, const struct rmem_notice *notice);
void server_peer_granted(struct rmem_peer *peer, uint32_t count);

/* Where notices come in: looked at in every turn. */
struct server_intake {
	/* Returns how many there were. Ends no client. */
	unsigned (*poll)(struct server_intake *intake);
	/* From here on what comes makes a descriptor readable that the loop watches. */
	void (*arm)(struct server_intake *intake);
	void (*disarm)(struct server_intake *intake);
	SLIST_ENTRY(server_intake) link;
};

struct server_mail;
struct server_local_peer;
LIST_HEAD(server_local_peers, server_local_peer);

/* A client of this machine asks for notices; `bell_fd` is its own. Sends the answer over `socket`.
 * False: the client is to be ended. */
struct server_mail_request {
	struct rmem_wire_bells bells;
	int bell_fd;
	int socket;
};
bool server_mail_join(struct server_client *client, const struct server_mail_request *request,
		      struct server_local_peers *peers);
void server_mail_leave(struct server_local_peers *peers);
void server_mail_destroy(struct rmem_server *server);

/* How a client is talked to. */
struct server_transport {
	/* Sends a message whole, with a descriptor unless `fd` is -1, and does not wait for it to
	 * arrive. False: it can't be sent, and the client is to be ended. */
	bool (*send)(struct server_client *client, const void *message, size_t length, int fd);
	/* Ends the connection and frees the client, as soon as what was sent is on its way. */
	void (*close)(struct server_client *client);
	/* It asks for notices. NULL: there is no such request here. False: it is to be ended. */
	bool (*notices)(struct server_client *client, const struct rmem_wire_bells *bells);
};

/* A client: the part that all of them have. */
struct server_client {
	const struct server_transport *transport;
	struct rmem_server *server;
	const struct rmem_welcome *welcome; /* what it is greeted with */
	int pool_fd;			    /* that goes with it; -1 for none */
	bool is_greeted;
	bool is_challenged; /* has said hello, and is to prove that it has the key */
	struct rmem_hello hello;
	struct rmem_auth_nonces nonces;
	TAILQ_ENTRY(server_client) link; /* in `waiting` or `greeted` */
	uint64_t deadline_ns;		 /* while waiting */
	char from[64];			 /* process, or address */
	char label[200];		 /* that and who it is, for the log */
	size_t used;
	uint8_t request[SERVER_REQUEST_MAX];
};
TAILQ_HEAD(server_clients, server_client);

struct rmem_server {
	struct rmem_server_options options;
	struct rmem_pool *pool;	     /* NULL until it is started */
	struct rmem_welcome welcome; /* for clients that map the pool */
	int epoll_fd;
	int spare_fd; /* given up to turn away a client when descriptors have run out */
	struct server_source stop;
	uint64_t started_ns;
	unsigned client_count;
	unsigned greeted_count;
	struct server_clients waiting; /* in the order of their deadlines */
	struct server_clients greeted;
	SLIST_HEAD(, server_door) doors;
	SLIST_HEAD(, server_intake) intakes;
	unsigned peer_count;
	bool is_stopping;
	unsigned turns;
	uint64_t idle_ns; /* since when no notice has come; 0: not known */
	bool has_slept;	  /* since then */
	struct rmem_spin spin;
	struct server_mail *mail;  /* NULL until a client of this machine wants notices */
	struct verbs_house *verbs; /* what doors of that kind share; NULL: there are none */
	/* Complaints about clients are limited, else a flood of clients is one of log lines. */
	uint64_t complaint_second;
	unsigned complaints, complaints_hidden;
};

/* One turn, waiting for `timeout_ms` at most (-1: no limit) as the poll mode says. Errors: -EIO. */
int server_turn(struct rmem_server *server, int timeout_ms);

/* Adds a source to the loop, until its descriptor is closed. */
int server_watch(struct rmem_server *server, struct server_source *source,
		 struct rmem_error *error) RMEM_MUST_CHECK;

/* A client came. The caller has set transport, server, welcome, pool_fd and `from`. */
void server_client_enter(struct server_client *client);
/* The bytes that came from it have been put behind those in `request`, and `used` counts them in:
 * handles the whole messages. False: the client is gone. */
bool server_client_handle(struct server_client *client);
void server_client_close(struct server_client *client);
/* Ends those whose time is up; returns the milliseconds to the next deadline, -1 for none. */
int server_client_expire(struct rmem_server *server);
void server_client_close_all(struct rmem_server *server);

/* Whether there is no room for another client; complains then. */
bool server_is_full(struct rmem_server *server);
/* Whether one more complaint may be logged now. */
bool server_may_complain(struct rmem_server *server);
