/* SPDX-License-Identifier: Apache-2.0 */
/* The conversation with one client.
 *
 * Replies are small, and sending one never waits: a client that doesn't take its replies is ended,
 * so nothing is ever queued for it. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "engine/server_internal.h"

#define COMPLAINTS_PER_SECOND 10

bool server_may_complain(struct rmem_server *server)
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
		return true;
	}
	server->complaints_hidden++;
	return false;
}

void server_client_close(struct server_client *client)
{
	struct rmem_server *server = client->server;

	if (client->is_greeted) {
		TAILQ_REMOVE(&server->greeted, client, link);
		server->greeted_count--;
		rmem_log_info(RMEM_LOG_SERVER, "%s left (clients: %u)", client->label,
			      server->greeted_count);
	} else {
		TAILQ_REMOVE(&server->waiting, client, link);
	}
	server->client_count--;
	client->transport->close(client);
}

bool server_is_full(struct rmem_server *server)
{
	if (server->client_count < server->options.clients_max)
		return false;
	if (server_may_complain(server))
		rmem_log_warn(RMEM_LOG_SERVER, "a client turned away: %u are connected already",
			      server->client_count);
	return true;
}

/* A client that can't take it learns from the end of the connection. */
static void refuse(struct server_client *client, enum rmem_wire_code code, const char *text)
{
	uint8_t message[RMEM_WIRE_MAX_BYTES];
	size_t length = rmem_wire_put_error(message, code, text);

	(void)client->transport->send(client, message, length, -1);
}

static void turn_away(struct server_client *client, enum rmem_wire_code code, const char *text)
{
	if (server_may_complain(client->server))
		rmem_log_warn(RMEM_LOG_SERVER, "%s turned away: %s", client->label, text);
	refuse(client, code, text);
	server_client_close(client);
}

/* Memory that holds somebody's content is for nobody else: two volumes in one pool would write over
 * each other's files, and neither would notice. */
static bool claim(struct server_client *client, const uint8_t owner[RMEM_OWNER_BYTES])
{
	static const uint8_t nobody[RMEM_OWNER_BYTES];
	struct rmem_pool *pool = client->server->pool;
	struct rmem_error error;
	char text[200], name[2 * RMEM_OWNER_BYTES + 1];

	if (memcmp(pool->owner, owner, RMEM_OWNER_BYTES) == 0)
		return true;
	if (memcmp(pool->owner, nobody, RMEM_OWNER_BYTES) == 0) {
		if (rmem_pool_claim(pool, owner, &error) == 0)
			return true;
		rmem_log_error(RMEM_LOG_SERVER, "%s", error.text);
		turn_away(client, RMEM_WIRE_CODE_INTERNAL, "the pool file can't be written");
		return false;
	}
	for (unsigned i = 0; i < RMEM_OWNER_BYTES; i++)
		snprintf(name + 2 * (size_t)i, 3, "%02x", pool->owner[i]);
	snprintf(text, sizeof(text),
		 "its memory holds another volume (%s), which this would write over; to give that "
		 "up, start rmemd anew%s",
		 name, pool->flags & RMEM_STATUS_PERSISTENT ? " without its pool file" : "");
	turn_away(client, RMEM_WIRE_CODE_OWNED, text);
	return false;
}

/* Each handler returns whether the client may stay. */

static bool tell_status(struct server_client *client)
{
	uint8_t reply[RMEM_WIRE_MAX_BYTES];
	struct rmem_status status;
	size_t length;

	rmem_server_status(client->server, &status);
	length = rmem_wire_put_status(reply, &status);
	if (client->transport->send(client, reply, length, -1))
		return true;
	turn_away(client, RMEM_WIRE_CODE_INTERNAL, "it doesn't read its replies");
	return false;
}

/* The client may stay. */
static bool welcome(struct server_client *client)
{
	const struct rmem_hello *hello = &client->hello;
	struct rmem_server *server = client->server;
	uint8_t reply[RMEM_WIRE_MAX_BYTES];
	size_t length;

	if ((hello->features & RMEM_WIRE_FEATURE_ASK) != 0)
		return tell_status(client);
	if (!claim(client, hello->owner))
		return false;
	length = rmem_wire_put_welcome(reply, client->welcome);
	if (!client->transport->send(client, reply, length, client->pool_fd)) {
		turn_away(client, RMEM_WIRE_CODE_INTERNAL, "the welcome could not be sent");
		return false;
	}
	snprintf(client->label, sizeof(client->label), "%s (%s on %s)", hello->name, client->from,
		 hello->host);
	TAILQ_REMOVE(&server->waiting, client, link);
	TAILQ_INSERT_TAIL(&server->greeted, client, link);
	client->is_greeted = true;
	server->greeted_count++;
	rmem_log_info(RMEM_LOG_SERVER, "%s connected (clients: %u)", client->label,
		      server->greeted_count);
	return true;
}

static void want_key(struct server_client *client)
{
	turn_away(client, RMEM_WIRE_CODE_KEY,
		  "this server serves only who has its key: set auth.key_file");
}

static bool challenge(struct server_client *client)
{
	struct rmem_challenge challenge;
	uint8_t reply[RMEM_WIRE_MAX_BYTES];
	size_t length;

	if ((client->hello.features & RMEM_WIRE_FEATURE_KEY) == 0) {
		want_key(client);
		return false;
	}
	memcpy(client->nonces.client, client->hello.nonce, sizeof(client->nonces.client));
	rmem_auth_nonce(client->nonces.server);
	memcpy(challenge.nonce, client->nonces.server, sizeof(challenge.nonce));
	rmem_auth_prove(RMEM_AUTH_SERVER, &client->nonces, challenge.proof);
	length = rmem_wire_put_challenge(reply, &challenge);
	if (!client->transport->send(client, reply, length, -1)) {
		turn_away(client, RMEM_WIRE_CODE_INTERNAL, "the challenge could not be sent");
		return false;
	}
	client->is_challenged = true;
	return true;
}

static bool greet(struct server_client *client, size_t length)
{
	if (client->is_greeted || client->is_challenged) {
		turn_away(client, RMEM_WIRE_CODE_PROTOCOL, "a second greeting");
		return false;
	}
	if (rmem_wire_get_hello(client->request, length, &client->hello) != 0) {
		turn_away(client, RMEM_WIRE_CODE_PROTOCOL, "a garbled greeting");
		return false;
	}
	return rmem_auth_is_on() ? challenge(client) : welcome(client);
}

static bool check_proof(struct server_client *client, size_t length)
{
	uint8_t proof[RMEM_AUTH_PROOF_BYTES];

	if (!client->is_challenged || rmem_wire_get_proof(client->request, length, proof) != 0) {
		turn_away(client, RMEM_WIRE_CODE_PROTOCOL, "a garbled proof");
		return false;
	}
	client->is_challenged = false; /* one guess each */
	if (!rmem_auth_is_right(RMEM_AUTH_CLIENT, &client->nonces, proof)) {
		turn_away(client, RMEM_WIRE_CODE_KEY,
			  "it has another key: auth.key_file must be the same on both sides");
		return false;
	}
	return welcome(client);
}

static bool answer_status(struct server_client *client, size_t length)
{
	if (rmem_wire_get_status_request(client->request, length) != 0) {
		turn_away(client, RMEM_WIRE_CODE_PROTOCOL, "a garbled request");
		return false;
	}
	/* Who has been greeted has proved it. */
	if (rmem_auth_is_on() && !client->is_greeted) {
		want_key(client);
		return false;
	}
	return tell_status(client);
}

static bool give_notices(struct server_client *client, size_t length)
{
	struct rmem_wire_bells bells;

	if (!client->is_greeted || client->transport->notices == NULL ||
	    rmem_wire_get_notices(client->request, length, &bells) != 0) {
		turn_away(client, RMEM_WIRE_CODE_PROTOCOL, "a garbled request");
		return false;
	}
	if (client->transport->notices(client, &bells))
		return true;
	turn_away(client, RMEM_WIRE_CODE_INTERNAL, "it can't have notices");
	return false;
}

static bool handle(struct server_client *client, enum rmem_wire_type type, size_t length)
{
	switch (type) {
	case RMEM_WIRE_HELLO:
		return greet(client, length);
	case RMEM_WIRE_STATUS_REQUEST:
		return answer_status(client, length);
	case RMEM_WIRE_NOTICES_REQUEST:
		return give_notices(client, length);
	case RMEM_WIRE_PROOF:
		return check_proof(client, length);
	case RMEM_WIRE_CHALLENGE:
	case RMEM_WIRE_NOTICES:
	case RMEM_WIRE_WELCOME:
	case RMEM_WIRE_STATUS:
	case RMEM_WIRE_ERROR:
		break;
	}
	turn_away(client, RMEM_WIRE_CODE_PROTOCOL, "a message that is not for a server");
	return false;
}

bool server_client_handle(struct server_client *client)
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

void server_client_enter(struct server_client *client)
{
	struct rmem_server *server = client->server;

	snprintf(client->label, sizeof(client->label), "%s", client->from);
	client->deadline_ns = rmem_deadline_in_ms(server->options.handshake_ms);
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
		refuse(client, RMEM_WIRE_CODE_STOPPING, "the server stops");
		server_client_close(client);
	}
}
