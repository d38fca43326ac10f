/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of the conversation with a memory server over its Unix socket.
 *
 * Every call is bounded by a deadline (rmem_now_ns() time) and may be made by any thread; nothing
 * is shared. Errors name the socket and what to do about it. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/error.h"
#include "engine/wire.h"

#define RMEM_CONTROL_FDS_MAX 8

/* A message and the descriptors that came with it; the receiver closes them. */
struct rmem_control_message {
	enum rmem_wire_type type;
	size_t length;
	unsigned fd_count;
	int fds[RMEM_CONTROL_FDS_MAX];
	uint8_t bytes[RMEM_WIRE_MAX_BYTES];
};

/* The path in "shm:PATH"; points into `url`. Errors: -EINVAL (no such URL), -ENAMETOOLONG. */
int rmem_control_path(const char *url, const char **path, struct rmem_error *error) RMEM_MUST_CHECK;

/* Connects. Errors: -ENOENT (no socket there), -ECONNREFUSED (nobody behind it), -EACCES,
 * -ETIMEDOUT, -EPROTO (not this kind of socket). */
int rmem_control_connect(const char *path, uint64_t deadline_ns, int *fd,
			 struct rmem_error *error) RMEM_MUST_CHECK;

/* Sends `request` of `length` bytes and waits for the message of type `wanted` that answers it.
 * An ERROR instead of it becomes the error: -EPROTO (the peer is no rmemd, or speaks another
 * version), -EBUSY, -ETIMEDOUT, -ESHUTDOWN, -ECONNRESET. On an error no descriptor is left open. */
int rmem_control_ask(int fd, const char *path, const void *request, size_t length,
		     enum rmem_wire_type wanted, uint64_t deadline_ns,
		     struct rmem_control_message *answer, struct rmem_error *error) RMEM_MUST_CHECK;

/* The same for a request with a descriptor. */
struct rmem_control_request {
	const void *bytes;
	size_t length;
	int fd; /* -1: none; stays the caller's */
	enum rmem_wire_type wanted;
};
int rmem_control_ask_with(int fd, const char *path, const struct rmem_control_request *request,
			  uint64_t deadline_ns, struct rmem_control_message *answer,
			  struct rmem_error *error) RMEM_MUST_CHECK;

/* One call of sendmsg(), which does not wait: the bytes, and up to RMEM_CONTROL_FDS_MAX
 * descriptors. Returns what that does. */
ssize_t rmem_control_send(int fd, const void *bytes, size_t length, const int *fds,
			  unsigned fd_count);

/* Introduces this process to a server by whatever way leads there, proves that it has the key if it
 * has one, and has the server do the same. The answer is WELCOME. Errors: as rmem_control_ask();
 * -EACCES (one side has no key, or another one). */
struct rmem_control_way {
	/* One question, as rmem_control_ask(). */
	int (*ask)(void *user, const struct rmem_control_request *request,
		   struct rmem_control_message *answer, struct rmem_error *error);
	void *user;
	const char *where; /* for messages */
};
int rmem_control_greet(const struct rmem_control_way *way, struct rmem_control_message *answer,
		       struct rmem_error *error) RMEM_MUST_CHECK;
/* The same of a process that only asks: the answer is STATUS. */
int rmem_control_ask_status(const struct rmem_control_way *way, struct rmem_control_message *answer,
			    struct rmem_error *error) RMEM_MUST_CHECK;

/* For other ways to a server: explains an ERROR that came as an answer, and what its code is as a
 * positive errno. */
int rmem_control_refused(const char *where, const struct rmem_control_message *message,
			 struct rmem_error *error);
int rmem_control_code(uint32_t wire_code);

void rmem_control_close_fds(struct rmem_control_message *message);
