/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/control.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/deadline.h"

int rmem_control_path(const char *url, const char **path, struct rmem_error *error)
{
	static const char scheme[] = "shm:";
	const size_t path_max = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;

	if (strncmp(url, scheme, sizeof(scheme) - 1) != 0)
		return rmem_fail(error, EINVAL, "%s: not a URL of the form shm:/PATH", url);
	*path = url + sizeof(scheme) - 1;
	if (**path != '/')
		return rmem_fail(error, EINVAL,
				 "%s: shm: wants the absolute path of the server's socket", url);
	if (strlen(*path) > path_max)
		return rmem_fail(error, ENAMETOOLONG,
				 "%s: the path of a socket has at most %zu bytes, this one has %zu",
				 url, path_max, strlen(*path));
	return 0;
}

static int connect_error(const char *path, int code, struct rmem_error *error)
{
	switch (code) {
	case ENOENT:
	case ENOTDIR:
		return rmem_fail(error, ENOENT,
				 "%s: no such socket: is rmemd running, and listening there?",
				 path);
	case ECONNREFUSED:
		return rmem_fail(error, ECONNREFUSED,
				 "%s: nobody answers: rmemd has ended without removing its socket, "
				 "start it again",
				 path);
	case EACCES:
	case EPERM:
		return rmem_fail(error, EACCES,
				 "%s: permission denied: the socket's access rights "
				 "(server.socket_mode) don't admit this user",
				 path);
	case EPROTOTYPE:
		return rmem_fail(error, EPROTO, "%s: some other program's socket, not rmemd's",
				 path);
	case EAGAIN:
	case EINPROGRESS:
		return rmem_fail(error, ETIMEDOUT,
				 "%s: rmemd doesn't accept the connection: is it stopped or stuck?",
				 path);
	default:
		return rmem_fail(error, code, "%s: can't connect: %s", path, strerror(code));
	}
}

/* A Unix socket's connect() waits only while the server's backlog is full, and then for as long as
 * the send timeout says. */
static void set_send_timeout(int fd, uint64_t deadline_ns)
{
	int left_ms = rmem_deadline_left_ms(deadline_ns);
	struct timeval left;

	if (left_ms == 0)
		left_ms = 1; /* 0 would mean for ever */
	left.tv_sec = left_ms / 1000;
	left.tv_usec = left_ms % 1000 * 1000L;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &left, sizeof(left));
}

int rmem_control_connect(const char *path, uint64_t deadline_ns, int *fd, struct rmem_error *error)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int made, rc;

	if (strlen(path) >= sizeof(address.sun_path))
		return rmem_fail(error, ENAMETOOLONG, "%s: too long for a socket's path", path);
	memcpy(address.sun_path, path, strlen(path));
	made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (made < 0)
		return rmem_fail(error, errno, "no socket: %s", strerror(errno));
	do {
		set_send_timeout(made, deadline_ns);
		rc = connect(made, (struct sockaddr *)&address, sizeof(address));
	} while (rc != 0 && errno == EINTR && rmem_deadline_left_ms(deadline_ns) > 0);
	if (rc != 0) {
		rc = connect_error(path, errno, error);
		close(made);
		return rc;
	}
	*fd = made;
	return 0;
}

void rmem_control_close_fds(struct rmem_control_message *message)
{
	while (message->fd_count > 0)
		close(message->fds[--message->fd_count]);
}

static void take_fds(struct msghdr *header, struct rmem_control_message *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c != NULL; c = CMSG_NXTHDR(header, c)) {
		size_t count;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (message->fd_count < RMEM_CONTROL_FDS_MAX)
				message->fds[message->fd_count++] = fd;
			else
				close(fd);
		}
	}
}

/* Up to `size` more bytes; 0 at the end of the stream. */
static ssize_t receive_some(int fd, struct rmem_control_message *message, size_t size)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(RMEM_CONTROL_FDS_MAX * sizeof(int))];
	} control;
	struct iovec vector = {.iov_base = message->bytes + message->length, .iov_len = size};
	struct msghdr header = {
		.msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	if (got >= 0)
		take_fds(&header, message);
	return got < 0 ? -errno : got;
}

static int lost(const char *path, int code, struct rmem_error *error)
{
	return rmem_fail(error, code,
			 "%s: the connection ended before the answer: %s; is that rmemd's socket?",
			 path, code == ECONNRESET ? "closed by the other side" : strerror(code));
}

/* Bytes until message->length has grown to `wanted`. */
static int receive_until(int fd, const char *path, size_t wanted, uint64_t deadline_ns,
			 struct rmem_control_message *message, struct rmem_error *error)
{
	while (message->length < wanted) {
		struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
		ssize_t got;
		int left_ms = rmem_deadline_left_ms(deadline_ns);

		if (left_ms == 0)
			return rmem_fail(error, ETIMEDOUT,
					 "%s: no answer in time: is that rmemd's socket, and is it "
					 "stopped or stuck?",
					 path);
		if (poll(&poll_fd, 1, left_ms) <= 0)
			continue;
		got = receive_some(fd, message, wanted - message->length);
		if (got == 0)
			return lost(path, ECONNRESET, error);
		if (got > 0)
			message->length += (size_t)got;
		else if (got != -EAGAIN && got != -EINTR)
			return lost(path, (int)-got, error);
	}
	return 0;
}

static int receive(int fd, const char *path, uint64_t deadline_ns,
		   struct rmem_control_message *message, struct rmem_error *error)
{
	size_t length;
	int rc;

	message->length = 0;
	message->fd_count = 0;
	/* The first four bytes tell a stranger, who may never send a whole header. */
	rc = receive_until(fd, path, sizeof(uint32_t), deadline_ns, message, error);
	if (rc != 0)
		return rc;
	rc = rmem_wire_peek(message->bytes, message->length, &message->type, &length);
	if (rc == -EAGAIN) {
		rc = receive_until(fd, path, sizeof(struct rmem_wire_header), deadline_ns, message,
				   error);
		if (rc != 0)
			return rc;
		rc = rmem_wire_peek(message->bytes, message->length, &message->type, &length);
	}
	if (rc == -EPROTONOSUPPORT)
		return rmem_fail(error, EPROTO,
				 "%s: rmemd there speaks another version of the protocol than this "
				 "program (%d): update the older of the two",
				 path, RMEM_WIRE_VERSION);
	if (rc != 0)
		return rmem_fail(error, EPROTO, "%s: the program behind this socket is no rmemd",
				 path);
	return receive_until(fd, path, length, deadline_ns, message, error);
}

/* Of the process, as its name and number are. Written before any thread connects. */
static uint8_t process_owner[RMEM_OWNER_BYTES];

void rmem_owner_set(const uint8_t owner[RMEM_OWNER_BYTES])
{
	memcpy(process_owner, owner, sizeof(process_owner));
}

static size_t make_hello(void *buffer, uint64_t features, struct rmem_auth_nonces *nonces)
{
	struct rmem_hello hello = {
		.features = features,
		.pid = (uint32_t)getpid(),
	};

	if (rmem_auth_is_on()) {
		rmem_auth_nonce(nonces->client);
		memcpy(hello.nonce, nonces->client, sizeof(hello.nonce));
		hello.features |= RMEM_WIRE_FEATURE_KEY;
	}
	memcpy(hello.owner, process_owner, sizeof(hello.owner));
	strncpy(hello.name, program_invocation_short_name, sizeof(hello.name) - 1);
	if (gethostname(hello.host, sizeof(hello.host) - 1) != 0)
		hello.host[0] = '\0';
	return rmem_wire_put_hello(buffer, &hello);
}

int rmem_control_code(uint32_t wire_code)
{
	switch (wire_code) {
	case RMEM_WIRE_CODE_BUSY:
		return EBUSY;
	case RMEM_WIRE_CODE_TIMEOUT:
		return ETIMEDOUT;
	case RMEM_WIRE_CODE_STOPPING:
		return ESHUTDOWN;
	case RMEM_WIRE_CODE_OWNED:
		return EEXIST;
	case RMEM_WIRE_CODE_KEY:
		return EACCES;
	default:
		return EPROTO;
	}
}

int rmem_control_refused(const char *where, const struct rmem_control_message *message,
			 struct rmem_error *error)
{
	struct rmem_wire_refusal refusal;

	if (rmem_wire_get_error(message->bytes, message->length, &refusal) != 0)
		return rmem_fail(error, EPROTO, "%s: a garbled answer", where);
	return rmem_fail(error, rmem_control_code(refusal.code), "%s: rmemd refused: %s", where,
			 refusal.text);
}

ssize_t rmem_control_send(int fd, const void *bytes, size_t length, const int *fds,
			  unsigned fd_count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(RMEM_CONTROL_FDS_MAX * sizeof(int))];
	} control = {0};
	struct iovec vector = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
	struct msghdr header = {.msg_iov = &vector, .msg_iovlen = 1};

	if (fd_count > 0) {
		struct cmsghdr *rights;

		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		rights = CMSG_FIRSTHDR(&header);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(rights), fds, fd_count * sizeof(int));
	}
	return sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* A request is far smaller than a socket's buffer: it goes out whole or the peer is broken. */
static int send_request(int fd, const char *path, const struct rmem_control_request *request,
			struct rmem_error *error)
{
	ssize_t sent = rmem_control_send(fd, request->bytes, request->length, &request->fd,
					 request->fd >= 0 ? 1 : 0);

	if (sent == (ssize_t)request->length)
		return 0;
	if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
		return 0; /* it may have said why before it closed: read that */
	return lost(path, sent < 0 ? errno : EIO, error);
}

int rmem_control_ask_with(int fd, const char *path, const struct rmem_control_request *request,
			  uint64_t deadline_ns, struct rmem_control_message *answer,
			  struct rmem_error *error)
{
	int rc;

	answer->fd_count = 0;
	rc = send_request(fd, path, request, error);
	if (rc == 0)
		rc = receive(fd, path, deadline_ns, answer, error);
	if (rc == 0 && answer->type == RMEM_WIRE_ERROR)
		rc = rmem_control_refused(path, answer, error);
	else if (rc == 0 && answer->type != request->wanted)
		rc = rmem_fail(error, EPROTO, "%s: an answer to something else", path);
	if (rc != 0)
		rmem_control_close_fds(answer);
	return rc;
}

int rmem_control_ask(int fd, const char *path, const void *request, size_t length,
		     enum rmem_wire_type wanted, uint64_t deadline_ns,
		     struct rmem_control_message *answer, struct rmem_error *error)
{
	const struct rmem_control_request plain = {request, length, -1, wanted};

	return rmem_control_ask_with(fd, path, &plain, deadline_ns, answer, error);
}

/* --- Greeting ----------------------------------------------------------------------------------
 */

/* Checks the server's proof and gives ours. */
static int answer_challenge(const struct rmem_control_way *way, enum rmem_wire_type wanted,
			    struct rmem_auth_nonces *nonces, struct rmem_control_message *answer,
			    struct rmem_error *error)
{
	uint8_t bytes[RMEM_WIRE_MAX_BYTES], proof[RMEM_AUTH_PROOF_BYTES];
	struct rmem_control_request request = {bytes, 0, -1, wanted};
	struct rmem_challenge challenge;

	if (rmem_wire_get_challenge(answer->bytes, answer->length, &challenge) != 0)
		return rmem_fail(error, EPROTO, "%s: a garbled answer", way->where);
	memcpy(nonces->server, challenge.nonce, sizeof(nonces->server));
	if (!rmem_auth_is_right(RMEM_AUTH_SERVER, nonces, challenge.proof))
		return rmem_fail(
			error, EACCES,
			"%s: the server has another key: auth.key_file must be the same on "
			"both sides",
			way->where);
	rmem_auth_prove(RMEM_AUTH_CLIENT, nonces, proof);
	request.length = rmem_wire_put_proof(bytes, proof);
	return way->ask(way->user, &request, answer, error);
}

/* Says hello with the features, and has the answer that is wanted to it. */
static int introduce(const struct rmem_control_way *way, uint64_t features,
		     enum rmem_wire_type wanted, struct rmem_control_message *answer,
		     struct rmem_error *error)
{
	uint8_t bytes[RMEM_WIRE_MAX_BYTES];
	struct rmem_auth_nonces nonces;
	struct rmem_control_request request = {bytes, make_hello(bytes, features, &nonces), -1,
					       wanted};
	int rc;

	answer->type = RMEM_WIRE_ERROR;
	if (!rmem_auth_is_on())
		return way->ask(way->user, &request, answer, error);
	request.wanted = RMEM_WIRE_CHALLENGE;
	rc = way->ask(way->user, &request, answer, error);
	if (rc != 0 && answer->type == wanted)
		return rmem_fail(error, EACCES,
				 "%s: the server asks for no key, so it may be anybody's: give it "
				 "this auth.key_file, too",
				 way->where);
	return rc == 0 ? answer_challenge(way, wanted, &nonces, answer, error) : rc;
}

int rmem_control_greet(const struct rmem_control_way *way, struct rmem_control_message *answer,
		       struct rmem_error *error)
{
	return introduce(way, RMEM_WIRE_FEATURE_NOTICES, RMEM_WIRE_WELCOME, answer, error);
}

int rmem_control_ask_status(const struct rmem_control_way *way, struct rmem_control_message *answer,
			    struct rmem_error *error)
{
	return introduce(way, RMEM_WIRE_FEATURE_ASK, RMEM_WIRE_STATUS, answer, error);
}
