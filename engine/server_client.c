/* SPDX-License-Identifier: Apache-2.0 */
/* The conversation with one client.
 *
 * Replies are small and go out with one send(): a client that doesn't read its replies fills its
 * socket and is ended, so nothing is ever queued for it. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "engine/server_internal.h"

#define COMPLAINTS_PER_SECOND 10

int server_may_complain(struct rmem_server *server)
{
	uint64_t second = rmem_now_ns() / RMEM_NS_PER_S;

	if (second != server->complaint_second) {
		if (server->complaints_hidden > 0)
			rmem_log_warn(RMEM_LOG_SERVER, "%u more complaints like these",
				      server->complaints_hidden);
		server->complaint_second = second;
		server->complaints = server->complaints_hidden = 0;
	}
	if (server->complaints < COMPLAINTS_PER_SECOND) {
		server->complaints++;
		return 1;
	}
	server->complaints_hidden++;
	return 0;
}

void server_refuse(int fd, enum rmem_wire_code code, const char *text)
{
	uint8_t message[RMEM_WIRE_MAX_BYTES];
	size_t length = rmem_wire_put_error(message, code, text);

	/* A peer that can't take it learns from the end of the connection. */
	(void)!send(fd, message, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void server_client_close(struct server_client *client)
{
	struct rmem_server *server = client->server;

	if (client->is_greeted) {
		TAILQ_REMOVE(&server->greeted, client, link);
		server->greeted_count--;
		rmem_log_info(RMEM_LOG_SERVER, "%s left; %u clients", client->label,
			      server->greeted_count);
	} else {
		TAILQ_REMOVE(&server->waiting, client, link);
	}
	server->client_count--;
	close(client->source.fd); /* which takes it out of the epoll set */
	free(client);
}

static void turn_away(struct server_client *client, enum rmem_wire_code code, const char *text)
{
	if (server_may_complain(client->server))
		rmem_log_warn(RMEM_LOG_SERVER, "%s turned away: %s", client->label, text);
	server_refuse(client->source.fd, code, text);
	server_client_close(client);
}

/* Sends a whole message, with a descriptor when `fd` is one. False: the client is to be ended. */
static bool send_message(struct server_client *client, const void *message, size_t length, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec vector = {.iov_base = (void *)(uintptr_t)message, .iov_len = length};
	struct msghdr header = {.msg_iov = &vector, .msg_iovlen = 1};

	if (fd >= 0) {
		struct cmsghdr *rights;

		header.msg_control = control.bytes;
		header.msg_controllen = sizeof(control.bytes);
		rights = CMSG_FIRSTHDR(&header);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(rights), &fd, sizeof(int));
	}
	return sendmsg(client->source.fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)length;
}

/* Each handler returns whether the client may stay. */

static bool greet(struct server_client *client, size_t length)
{
	struct rmem_server *server = client->server;
	uint8_t reply[RMEM_WIRE_MAX_BYTES];
	struct rmem_hello hello;

	if (client->is_greeted) {
		turn_away(client, RMEM_WIRE_CODE_PROTOCOL, "a second greeting");
		return false;
	}
	if (rmem_wire_get_hello(client->request, length, &hello) != 0) {
		turn_away(client, RMEM_WIRE_CODE_PROTOCOL, "a garbled greeting");
		return false;
	}
	length = rmem_wire_put_welcome(reply, &server->welcome);
	if (!send_message(client, reply, length, server->pool->fd)) {
		turn_away(client, RMEM_WIRE_CODE_INTERNAL, "the welcome could not be sent");
		return false;
	}
	snprintf(client->label, sizeof(client->label), "%s (process %ld of user %ld on %s)",
		 hello.name, (long)client->peer.pid, (long)client->peer.uid, hello.host);
	TAILQ_REMOVE(&server->waiting, client, link);
	TAILQ_INSERT_TAIL(&server->greeted, client, link);
	client->is_greeted = 1;
	server->greeted_count++;
	rmem_log_info(RMEM_LOG_SERVER, "%s connected; %u clients", client->label,
		      server->greeted_count);
	return true;
}

static bool tell_status(struct server_client *client, size_t length)
{
	uint8_t reply[RMEM_WIRE_MAX_BYTES];
	struct rmem_status status;

	if (rmem_wire_get_status_request(client->request, length) != 0) {
		turn_away(client, RMEM_WIRE_CODE_PROTOCOL, "a garbled request");
		return false;
	}
	rmem_server_status(client->server, &status);
	length = rmem_wire_put_status(reply, &status);
	if (send_message(client, reply, length, -1))
		return true;
	turn_away(client, RMEM_WIRE_CODE_INTERNAL, "it doesn't read its replies");
	return false;
}

static bool handle(struct server_client *client, enum rmem_wire_type type, size_t length)
{
	switch (type) {
	case RMEM_WIRE_HELLO:
		return greet(client, length);
	case RMEM_WIRE_STATUS_REQUEST:
		return tell_status(client, length);
	case RMEM_WIRE_WELCOME:
	case RMEM_WIRE_STATUS:
	case RMEM_WIRE_ERROR:
		break;
	}
	turn_away(client, RMEM_WIRE_CODE_PROTOCOL, "a message that is not for a server");
	return false;
}

/* Handles the whole messages that have come. */
static bool handle_all(struct server_client *client)
{
	while (client->used > 0) {
		enum rmem_wire_type type;
		size_t length;
		int rc = rmem_wire_peek(client->request, client->used, &type, &length);

		if (rc == -EAGAIN)
			return true;
		if (rc == -EPROTONOSUPPORT) {
			char text[100];

			snprintf(text, sizeof(text),
				 "another version of the protocol; this server speaks version %d",
				 RMEM_WIRE_VERSION);
			turn_away(client, RMEM_WIRE_CODE_VERSION, text);
			return false;
		}
		if (rc != 0 || length > sizeof(client->request)) {
			turn_away(client, RMEM_WIRE_CODE_PROTOCOL,
				  "this is rmemd, and that was no message for it");
			return false;
		}
		if (client->used < length)
			return true;
		if (!handle(client, type, length))
			return false;
		client->used -= length;
		memmove(client->request, client->request + length, client->used);
	}
	return true;
}

static void client_ready(struct server_source *source, uint32_t events)
{
	struct server_client *client = RMEM_CONTAINER_OF(source, struct server_client, source);
	ssize_t got;

	(void)events; /* whatever it is, reading tells */
	/* Never full here: a message that doesn't fit has been refused. Descriptors that a client
	 * sends along are dropped by the kernel, because nothing asks for them. */
	got = recv(source->fd, client->request + client->used,
		   sizeof(client->request) - client->used, MSG_DONTWAIT);
	if (got > 0) {
		client->used += (size_t)got;
		handle_all(client);
	} else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
		server_client_close(client);
	}
}

void server_client_accept(struct rmem_server *server, int fd)
{
	struct server_client *client = calloc(1, sizeof(*client));
	struct epoll_event event = {.events = EPOLLIN};
	socklen_t size = sizeof(client->peer);

	if (client == NULL) {
		close(fd);
		return;
	}
	client->server = server;
	client->source = (struct server_source){.ready = client_ready, .fd = fd};
	client->deadline_ns = rmem_deadline_in_ms(server->options.handshake_ms);
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &client->peer, &size);
	snprintf(client->label, sizeof(client->label), "process %ld of user %ld",
		 (long)client->peer.pid, (long)client->peer.uid);
	event.data.ptr = &client->source;
	if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
		close(fd);
		free(client);
		return;
	}
	TAILQ_INSERT_TAIL(&server->waiting, client, link);
	server->client_count++;
}

int server_client_expire(struct rmem_server *server)
{
	struct server_client *client;

	while ((client = TAILQ_FIRST(&server->waiting)) != NULL) {
		int left_ms = rmem_deadline_left_ms(client->deadline_ns);

		if (left_ms > 0)
			return left_ms;
		turn_away(client, RMEM_WIRE_CODE_TIMEOUT, "it did not introduce itself in time");
	}
	return -1;
}

void server_client_close_all(struct rmem_server *server)
{
	struct server_client *client;

	while ((client = TAILQ_FIRST(&server->waiting)) != NULL)
		server_client_close(client);
	while ((client = TAILQ_FIRST(&server->greeted)) != NULL) {
		server_refuse(client->source.fd, RMEM_WIRE_CODE_STOPPING, "the server stops");
		server_client_close(client);
	}
}
