/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of this machine: they come through a Unix socket and get the pool's descriptor with their
 * welcome. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/server_internal.h"

#define ACCEPTS_PER_TURN 64

struct local_door {
	struct server_door door;
	struct server_source source;
	struct server_socket socket;
};

struct local_client {
	struct server_client client;
	struct server_source source;
	int passed_fd; /* that came with a message; -1: none */
	struct server_local_peers peers;
};

/* --- Clients ---------------------------------------------------------------------------------- */

static bool send_bytes(int socket, const void *message, size_t length, int fd)
{
	return rmem_control_send(socket, message, length, &fd, fd >= 0 ? 1 : 0) == (ssize_t)length;
}

static bool local_send(struct server_client *client, const void *message, size_t length, int fd)
{
	struct local_client *local = RMEM_CONTAINER_OF(client, struct local_client, client);

	/* A client that doesn't read fills its socket, and is ended. */
	return send_bytes(local->source.fd, message, length, fd);
}

static void drop_fd(struct local_client *local)
{
	if (local->passed_fd >= 0)
		close(local->passed_fd);
	local->passed_fd = -1;
}

static void local_close(struct server_client *client)
{
	struct local_client *local = RMEM_CONTAINER_OF(client, struct local_client, client);

	server_mail_leave(&local->peers);
	drop_fd(local);
	close(local->source.fd); /* which takes it out of the epoll set */
	free(local);
}

static bool local_notices(struct server_client *client, const struct rmem_wire_bells *bells)
{
	struct local_client *local = RMEM_CONTAINER_OF(client, struct local_client, client);
	const struct server_mail_request request = {
		.bells = *bells,
		.bell_fd = local->passed_fd,
		.socket = local->source.fd,
	};
	bool is_joined = server_mail_join(client, &request, &local->peers);

	drop_fd(local);
	return is_joined;
}

static const struct server_transport transport = {
	.send = local_send,
	.close = local_close,
	.notices = local_notices,
};

/* Of the descriptors that a client sends along the last one is kept for the message that it came
 * with. */
static ssize_t receive(struct local_client *local, void *bytes, size_t size)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec vector = {.iov_base = bytes, .iov_len = size};
	struct msghdr header = {
		.msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_LEN(sizeof(int)), /* the kernel drops more than one */
	};
	ssize_t got = recvmsg(local->source.fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *rights = got >= 0 ? CMSG_FIRSTHDR(&header) : NULL;

	if (rights == NULL || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS ||
	    rights->cmsg_len < CMSG_LEN(sizeof(int)))
		return got;
	drop_fd(local);
	memcpy(&local->passed_fd, CMSG_DATA(rights), sizeof(int));
	return got;
}

static void client_ready(struct server_source *source, uint32_t events)
{
	struct local_client *local = RMEM_CONTAINER_OF(source, struct local_client, source);
	struct server_client *client = &local->client;
	ssize_t got;

	(void)events; /* whatever it is, reading tells */
	/* Never full here: a message that doesn't fit has been refused. */
	got = receive(local, client->request + client->used,
		      sizeof(client->request) - client->used);
	if (got > 0) {
		client->used += (size_t)got;
		if (server_client_handle(client) && client->used == 0)
			drop_fd(local); /* nothing wanted it */
	} else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
		server_client_close(client);
	}
}

/* Takes over `fd`. */
static void admit(struct rmem_server *server, int fd)
{
	struct local_client *local = calloc(1, sizeof(*local));
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);

	if (local == NULL) {
		close(fd);
		return;
	}
	local->source = (struct server_source){.ready = client_ready, .fd = fd};
	local->passed_fd = -1;
	LIST_INIT(&local->peers);
	local->client.transport = &transport;
	local->client.server = server;
	local->client.welcome = &server->welcome;
	local->client.pool_fd = server->pool->fd;
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	snprintf(local->client.from, sizeof(local->client.from), "process %ld of user %ld",
		 (long)peer.pid, (long)peer.uid);
	if (server_watch(server, &local->source, NULL) != 0) {
		close(fd);
		free(local);
		return;
	}
	server_client_enter(&local->client);
}

/* --- The socket ------------------------------------------------------------------------------- */

/* Best effort: the peer also learns from the end of the connection. */
static void turn_away(int fd, const char *text)
{
	uint8_t message[RMEM_WIRE_MAX_BYTES];
	size_t length = rmem_wire_put_error(message, RMEM_WIRE_CODE_BUSY, text);

	(void)send_bytes(fd, message, length, -1);
	close(fd);
}

/* Out of descriptors: the spare one is given up for a moment, to tell the client and to take it
 * off the queue, which would otherwise keep the loop busy. */
static void turn_away_without_fd(struct rmem_server *server, int listening)
{
	int fd;

	if (server_may_complain(server))
		rmem_log_error(
			RMEM_LOG_SERVER,
			"out of file descriptors with %u clients: raise the limit (ulimit -n)",
			server->client_count);
	close(server->spare_fd);
	fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		turn_away(fd, "the server is out of file descriptors");
	server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void door_ready(struct server_source *source, uint32_t events)
{
	struct local_door *local = RMEM_CONTAINER_OF(source, struct local_door, source);
	struct rmem_server *server = local->door.server;

	(void)events;
	for (unsigned i = 0; i < ACCEPTS_PER_TURN; i++) {
		int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EMFILE || errno == ENFILE))
			turn_away_without_fd(server, source->fd);
		if (fd < 0)
			return;
		if (server_is_full(server))
			turn_away(fd, "it has as many clients as it may have");
		else
			admit(server, fd);
	}
}

static int claim(struct rmem_server *server, const char *url, struct server_door **door,
		 struct rmem_error *error)
{
	struct local_door *made;
	const char *path;
	int rc;

	(void)server;
	rc = rmem_control_path(url, &path, error);
	if (rc != 0)
		return rc;
	made = calloc(1, sizeof(*made));
	if (made == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	rc = server_socket_claim(path, &made->socket, error);
	if (rc != 0) {
		free(made);
		return rc;
	}
	*door = &made->door;
	return 0;
}

static int open_door(struct server_door *door, struct rmem_error *error)
{
	struct local_door *local = RMEM_CONTAINER_OF(door, struct local_door, door);
	struct rmem_server *server = door->server;
	int rc = server_socket_listen(&local->socket, server->options.socket_mode, error);

	if (rc != 0)
		return rc;
	local->source.ready = door_ready;
	local->source.fd = local->socket.fd;
	return server_watch(server, &local->source, error);
}

static void close_door(struct server_door *door)
{
	struct local_door *local = RMEM_CONTAINER_OF(door, struct local_door, door);

	server_socket_close(&local->socket);
	free(local);
}

struct asking {
	const char *path;
	int fd;
	uint64_t deadline_ns;
};

static int ask_it(void *user, const struct rmem_control_request *request,
		  struct rmem_control_message *answer, struct rmem_error *error)
{
	const struct asking *asking = user;

	return rmem_control_ask_with(asking->fd, asking->path, request, asking->deadline_ns, answer,
				     error);
}

static int ask(const char *url, uint64_t deadline_ns, struct rmem_control_message *answer,
	       struct rmem_error *error)
{
	struct asking asking = {.deadline_ns = deadline_ns};
	struct rmem_control_way way = {.ask = ask_it, .user = &asking};
	int rc;

	rc = rmem_control_path(url, &asking.path, error);
	if (rc == 0)
		rc = rmem_control_connect(asking.path, deadline_ns, &asking.fd, error);
	if (rc != 0)
		return rc;
	way.where = asking.path;
	rc = rmem_control_ask_status(&way, answer, error);
	close(asking.fd);
	return rc;
}

const struct server_door_kind server_door_local = {
	.scheme = "shm",
	.claim = claim,
	.open = open_door,
	.close = close_door,
	.ask = ask,
};
