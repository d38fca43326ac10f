/* SPDX-License-Identifier: Apache-2.0 */
/* Notices of clients on this machine. The server has one bell for all of them, and is woken by one
 * descriptor; each peer has a ring, made for it here. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "engine/base/log.h"
#include "engine/fabric_shm_notices.h"
#include "engine/server_internal.h"

struct server_mail {
	struct server_intake intake;
	struct server_source wake;
	struct shm_bell *bell;
	int bell_fd;
	unsigned next_bit;
	LIST_HEAD(, server_local_peer) listeners[SHM_BELL_BITS];
};

struct server_local_peer {
	struct rmem_peer peer;
	struct shm_notices notices;
	int socket;
	unsigned bit;
	LIST_ENTRY(server_local_peer) bell_link; /* among those of the bit */
	LIST_ENTRY(server_local_peer) link;	 /* among the client's */
};

static struct server_local_peer *local_of(struct rmem_peer *peer)
{
	return RMEM_CONTAINER_OF(peer, struct server_local_peer, peer);
}

/* --- A peer ----------------------------------------------------------------------------------- */

static int local_send(struct rmem_peer *peer, const struct rmem_notice *notice)
{
	shm_notices_send(&local_of(peer)->notices, notice->transfer, notice->bytes, notice->length);
	return 0;
}

static void local_grant(struct rmem_peer *peer, uint32_t count)
{
	shm_notices_grant(&local_of(peer)->notices, count);
}

/* The loop finds the connection ended. */
static void local_end(struct rmem_peer *peer)
{
	shutdown(local_of(peer)->socket, SHUT_RDWR);
}

static void local_free(struct rmem_peer *peer)
{
	struct server_local_peer *local = local_of(peer);

	shm_notices_finish(&local->notices);
	free(local);
}

static const struct server_peer_kind kind = {
	.send = local_send,
	.grant = local_grant,
	.end = local_end,
	.free = local_free,
};

/* --- Taking in -------------------------------------------------------------------------------- */

static unsigned look_at(struct server_local_peer *local)
{
	struct rmem_notice notice;
	unsigned came = 0;

	/* No more than there can be: somebody who breaks the rules holds up nobody. */
	for (; !local->peer.is_over && came < local->peer.notify.depth; came++) {
		/* Every time: what comes last may answer what was sent a moment ago. */
		uint32_t granted = shm_notices_granted(&local->notices);

		if (granted > 0)
			server_peer_granted(&local->peer, granted);
		if (!shm_notices_report(&local->notices))
			return came;
		shm_notices_take(&local->notices, &notice);
		server_peer_notice(&local->peer, &notice);
	}
	/* What is left is looked at in the next turn. */
	atomic_fetch_or_explicit(&local->peer.server->mail->bell->rung, (uint64_t)1 << local->bit,
				 memory_order_relaxed);
	return came;
}

static unsigned mail_poll(struct server_intake *intake)
{
	struct server_mail *mail = RMEM_CONTAINER_OF(intake, struct server_mail, intake);
	uint64_t rung = shm_bell_take(mail->bell);
	unsigned came = 0;

	while (RMEM_UNLIKELY(rung != 0)) {
		struct server_local_peer *local;

		LIST_FOREACH(local, &mail->listeners[__builtin_ctzll(rung)], bell_link)
		came += look_at(local);
		rung &= rung - 1;
	}
	return came;
}

static void mail_arm(struct server_intake *intake)
{
	shm_bell_arm(RMEM_CONTAINER_OF(intake, struct server_mail, intake)->bell);
}

static void mail_disarm(struct server_intake *intake)
{
	shm_bell_disarm(RMEM_CONTAINER_OF(intake, struct server_mail, intake)->bell);
}

static void wake_ready(struct server_source *source, uint32_t events)
{
	uint64_t count;

	(void)events;
	(void)!read(source->fd, &count, sizeof(count));
}

/* --- Joining and leaving ---------------------------------------------------------------------- */

void server_mail_destroy(struct rmem_server *server)
{
	struct server_mail *mail = server->mail;

	if (mail == NULL)
		return;
	if (mail->bell != NULL) {
		munmap(mail->bell, SHM_BELL_BYTES);
		close(mail->bell_fd);
	}
	if (mail->wake.fd >= 0)
		close(mail->wake.fd);
	free(mail);
	server->mail = NULL;
}

static int mail_fill(struct rmem_server *server, struct server_mail *mail, struct rmem_error *error)
{
	void *map;
	int rc = shm_memory_make(SHM_BELL_BYTES, &mail->bell_fd, &map, error);

	if (rc != 0)
		return rc;
	mail->bell = map;
	mail->wake.ready = wake_ready;
	mail->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (mail->wake.fd < 0)
		return rmem_fail(error, errno, "no descriptor for notices: %s", strerror(errno));
	return server_watch(server, &mail->wake, error);
}

static int mail_get(struct rmem_server *server, struct rmem_error *error)
{
	int rc;

	if (server->mail != NULL)
		return 0;
	server->mail = calloc(1, sizeof(*server->mail));
	if (server->mail == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	server->mail->wake.fd = -1;
	rc = mail_fill(server, server->mail, error);
	if (rc != 0) {
		server_mail_destroy(server);
		return rc;
	}
	server->mail->intake = (struct server_intake){
		.poll = mail_poll,
		.arm = mail_arm,
		.disarm = mail_disarm,
	};
	SLIST_INSERT_HEAD(&server->intakes, &server->mail->intake, link);
	return 0;
}

/* Makes the ring and takes the client's bell; `*ring_fd` is the caller's then. */
static int fill(struct server_local_peer *local, const struct server_mail_request *request,
		uint32_t depth, int *ring_fd, struct rmem_error *error)
{
	void *ring, *bell;
	int rc = shm_memory_make(SHM_RING_BYTES(depth), ring_fd, &ring, error);

	if (rc != 0)
		return rc;
	shm_notices_init(&local->notices, SHM_SERVER, ring, depth);
	rc = shm_memory_map(request->bell_fd, SHM_BELL_BYTES, &bell, error);
	if (rc != 0)
		return rc;
	local->notices.bell = bell;
	local->notices.bell_bit = (uint64_t)1 << request->bells.bit;
	local->notices.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (local->notices.wake_fd < 0)
		return rmem_fail(error, errno, "no descriptor for notices: %s", strerror(errno));
	return 0;
}

static bool answer(const struct server_local_peer *local, const struct server_mail *mail,
		   uint32_t depth, int ring_fd)
{
	const int fds[SHM_FD_COUNT] = {
		[SHM_FD_RING] = ring_fd,
		[SHM_FD_BELL] = mail->bell_fd,
		[SHM_FD_WAKE_SERVER] = mail->wake.fd,
		[SHM_FD_WAKE_CLIENT] = local->notices.wake_fd,
	};
	const struct rmem_wire_bells bells = {depth, local->bit};
	uint8_t bytes[RMEM_WIRE_MAX_BYTES];
	size_t length = rmem_wire_put_notices(bytes, RMEM_WIRE_NOTICES, &bells);

	return rmem_control_send(local->socket, bytes, length, fds, SHM_FD_COUNT) ==
	       (ssize_t)length;
}

static bool decline(int socket)
{
	const struct rmem_wire_bells none = {0};
	uint8_t bytes[RMEM_WIRE_MAX_BYTES];
	size_t length = rmem_wire_put_notices(bytes, RMEM_WIRE_NOTICES, &none);

	return rmem_control_send(socket, bytes, length, NULL, 0) == (ssize_t)length;
}

bool server_mail_join(struct server_client *client, const struct server_mail_request *request,
		      struct server_local_peers *peers)
{
	struct rmem_server *server = client->server;
	uint32_t depth = server_agree_notices(server, request->bells.notices);
	struct server_local_peer *local;
	struct rmem_error error = {0};
	int ring_fd = -1;
	bool is_sent;
	int rc;

	if (depth == 0)
		return decline(request->socket);
	local = calloc(1, sizeof(*local));
	if (local == NULL)
		return false;
	local->notices.wake_fd = -1;
	local->socket = request->socket;
	rc = mail_get(server, &error);
	if (rc == 0)
		rc = fill(local, request, depth, &ring_fd, &error);
	if (rc != 0 && server_may_complain(server))
		rmem_log_warn(RMEM_LOG_SERVER, "%s: no notices: %s", client->label, error.text);
	if (rc == 0)
		local->bit = server->mail->next_bit++ % SHM_BELL_BITS;
	is_sent = rc == 0 && answer(local, server->mail, depth, ring_fd);
	if (ring_fd >= 0)
		close(ring_fd);
	local->peer = (struct rmem_peer){.kind = &kind, .client = client};
	if (!is_sent) {
		local_free(&local->peer);
		return false;
	}
	LIST_INSERT_HEAD(&server->mail->listeners[local->bit], local, bell_link);
	LIST_INSERT_HEAD(peers, local, link);
	server_peer_join(&local->peer, depth, depth);
	return true;
}

void server_mail_leave(struct server_local_peers *peers)
{
	struct server_local_peer *local;

	while ((local = LIST_FIRST(peers)) != NULL) {
		LIST_REMOVE(local, link);
		LIST_REMOVE(local, bell_link);
		server_peer_leave(&local->peer);
	}
}
