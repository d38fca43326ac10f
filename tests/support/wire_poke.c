/* SPDX-License-Identifier: Apache-2.0 */
/* Sends a memory server what it should not get: foreign bytes, and its own messages cut short, bent
 * or repeated. After each, the server must still answer a well-behaved client.
 *
 *	wire-poke SOCKET
 *
 * Exit status 0 when it stood all that, 1 when not (stderr says after what). */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/server.h"
#include "engine/wire.h"

#define ANSWER_MS 10000 /* twice what a server gives a client to introduce itself */
#define IDLERS	  20

static const char *socket_path;
static char url[sizeof(struct sockaddr_un) + 8];

static void check_server(const char *after)
{
	struct rmem_status status;
	struct rmem_error error;

	if (rmem_server_query_status(url, 3000, &status, &error) == 0)
		return;
	fprintf(stderr, "wire-poke: after %s the server does not answer: %s\n", after, error.text);
	exit(1);
}

static int dial(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strncpy(address.sun_path, socket_path, sizeof(address.sun_path) - 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		fprintf(stderr, "wire-poke: %s: %s\n", socket_path, strerror(errno));
		exit(1);
	}
	return fd;
}

/* The server may hang up at any time. */
static void say(int fd, const void *data, size_t size)
{
	ssize_t done;

	do
		done = send(fd, data, size, MSG_NOSIGNAL);
	while (done > 0 && (size -= (size_t)done) > 0 &&
	       (data = (const char *)data + done) != NULL);
}

/* What the server says, until it hangs up or `until_ms` is over. */
static size_t hear(int fd, void *answer, size_t size, int until_ms)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	size_t heard = 0;

	while (heard < size && poll(&wait, 1, until_ms) == 1) {
		ssize_t got = recv(fd, (char *)answer + heard, size - heard, 0);

		if (got <= 0)
			return heard;
		heard += (size_t)got;
	}
	if (heard == 0) {
		fprintf(stderr, "wire-poke: neither an answer nor the end of the connection\n");
		exit(1);
	}
	return heard;
}

static void say_and_leave(const void *data, size_t size)
{
	int fd = dial();

	say(fd, data, size);
	close(fd);
}

static size_t good_hello(void *buffer)
{
	struct rmem_hello hello = {.pid = (uint32_t)getpid(), .name = "wire-poke", .host = "here"};

	return rmem_wire_put_hello(buffer, &hello);
}

static void cut_short(void)
{
	unsigned char message[RMEM_WIRE_MAX_BYTES];
	size_t length = good_hello(message);

	for (size_t cut = 0; cut < length; cut++)
		say_and_leave(message, cut);
	check_server("messages that were cut short");
}

/* Bent in one byte: refused or, where it is text, taken. */
static void bent(void)
{
	static const unsigned char values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
	unsigned char message[RMEM_WIRE_MAX_BYTES];
	size_t length = good_hello(message);

	for (size_t at = 0; at < length; at++) {
		unsigned char saved = message[at];

		for (size_t i = 0; i < sizeof(values); i++) {
			message[at] = values[i];
			say_and_leave(message, length);
		}
		message[at] = saved;
	}
	check_server("messages with a wrong byte");
}

/* Each must get an answer or the end of the connection, and not a welcome. */
static void foreign(void)
{
	static const char *const greetings[] = {
		"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
		"SSH-2.0-OpenSSH_9.2\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a record of another protocol",
		"RMEM, but not really, and then some more of it\n",
	};
	char answer[RMEM_WIRE_MAX_BYTES];
	enum rmem_wire_type type;
	size_t heard, length;

	for (size_t i = 0; i < sizeof(greetings) / sizeof(greetings[0]); i++) {
		int fd = dial();

		say(fd, greetings[i], strlen(greetings[i]));
		heard = hear(fd, answer, sizeof(answer), ANSWER_MS);
		if (heard > 0 && (rmem_wire_peek(answer, heard, &type, &length) != 0 ||
				  type != RMEM_WIRE_ERROR)) {
			fprintf(stderr, "wire-poke: greeting %zu got %zu strange bytes\n", i,
				heard);
			exit(1);
		}
		close(fd);
		check_server("a foreign protocol");
	}
}

static void lengths(void)
{
	static const uint32_t lies[] = {0, 1, 15, 16, 17, 191, 193, 4096, 4097, 1u << 20, ~0u};
	unsigned char message[RMEM_WIRE_MAX_BYTES];
	size_t length = good_hello(message);

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		memcpy(message + offsetof(struct rmem_wire_header, length), &lies[i], 4);
		say_and_leave(message, length);
		check_server("a message with a wrong length");
	}
}

static void flood(void)
{
	static unsigned char noise[1 << 20];
	unsigned state = 12345;

	for (size_t i = 0; i < sizeof(noise); i++) {
		state = state * 1103515245u + 12345u;
		noise[i] = (unsigned char)(state >> 16);
	}
	for (size_t i = 0; i < 300; i++)
		say_and_leave(noise + i * 3000, (i * 37) % 5000);
	say_and_leave(noise, sizeof(noise));
	check_server("a flood of noise");
}

/* Messages again and again on one connection, and what only a server says. */
static void out_of_turn(void)
{
	unsigned char message[RMEM_WIRE_MAX_BYTES];
	struct rmem_status status = {.program = "x", .backing = "y"};
	size_t length = good_hello(message);
	int fd = dial();

	for (unsigned i = 0; i < 1000; i++)
		say(fd, message, length);
	close(fd);
	check_server("a thousand introductions");
	length = rmem_wire_put_status(message, &status);
	say_and_leave(message, length);
	length = rmem_wire_put_error(message, RMEM_WIRE_CODE_BUSY, "you are busy");
	say_and_leave(message, length);
	check_server("a server's message to a server");
}

/* Those who connect and say nothing, or half of it, disturb nobody and are sent away. */
static void idle(void)
{
	unsigned char message[RMEM_WIRE_MAX_BYTES];
	size_t length = good_hello(message);
	int fds[IDLERS];

	for (size_t i = 0; i < IDLERS; i++) {
		fds[i] = dial();
		say(fds[i], message, i % 2 == 0 ? 0 : length / 2);
	}
	check_server("clients that say nothing");
	for (size_t i = 0; i < IDLERS; i++) {
		hear(fds[i], message, sizeof(message), ANSWER_MS);
		close(fds[i]);
	}
	check_server("clients that said nothing");
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fputs("usage: wire-poke SOCKET\n", stderr);
		return 2;
	}
	socket_path = argv[1];
	snprintf(url, sizeof(url), "shm:%s", argv[1]);
	check_server("nothing at all");
	cut_short();
	bent();
	foreign();
	lengths();
	flood();
	out_of_turn();
	idle();
	return 0;
}
