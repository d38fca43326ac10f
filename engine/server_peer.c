/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "engine/base/checked.h"
#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "engine/server_internal.h"

static void tell(struct rmem_peer *peer, enum rmem_peer_event event)
{
	const struct rmem_server_options *options = &peer->server->options;

	if (options->peer_event != NULL)
		options->peer_event(options->user, peer, event);
}

uint32_t server_agree_notices(const struct rmem_server *server, uint32_t wanted)
{
	uint32_t max = (uint32_t)rmem_min_u64(server->options.notices, RMEM_NOTICES_MAX);

	while (wanted > max)
		wanted /= 2;
	return wanted;
}

void server_peer_join(struct rmem_peer *peer, uint32_t depth, uint32_t credits)
{
	peer->server = peer->client->server;
	rmem_notify_init(&peer->notify, depth);
	peer->notify.credits = credits;
	peer->server->peer_count++;
	rmem_log_debug(RMEM_LOG_SERVER, "%s: up to %u notices each way", peer->client->label,
		       depth);
	tell(peer, RMEM_PEER_JOINED);
}

void server_peer_leave(struct rmem_peer *peer)
{
	peer->is_over = true;
	peer->has_left = true;
	peer->server->peer_count--;
	tell(peer, RMEM_PEER_LEFT);
	if (!peer->is_awaited)
		peer->kind->free(peer);
}

static void break_off(struct rmem_peer *peer)
{
	if (peer->is_over)
		return;
	if (server_may_complain(peer->server))
		rmem_log_warn(RMEM_LOG_SERVER, "%s: it breaks the rules of notices",
			      peer->client->label);
	peer->is_over = true;
	peer->kind->end(peer);
}

void server_peer_notice(struct rmem_peer *peer, const struct rmem_notice *notice)
{
	const struct rmem_server_options *options = &peer->server->options;
	uint32_t grant = rmem_notify_take(&peer->notify, notice->transfer);

	if (grant > 0)
		peer->kind->grant(peer, grant);
	if (options->notice != NULL)
		options->notice(options->user, peer, notice);
}

void server_peer_granted(struct rmem_peer *peer, uint32_t count)
{
	if (!rmem_notify_granted(&peer->notify, count)) {
		break_off(peer);
		return;
	}
	if (!peer->is_refused)
		return;
	peer->is_refused = false;
	tell(peer, RMEM_PEER_READY);
}

/* --- The public calls ------------------------------------------------------------------------- */

int rmem_peer_notify(struct rmem_peer *peer, const struct rmem_notice *notice)
{
	if (notice->length > RMEM_NOTICE_BYTES_MAX)
		return -EINVAL;
	if (peer->is_over)
		return -ENOTCONN;
	if (!rmem_notify_send(&peer->notify)) {
		peer->is_refused = true;
		return -EAGAIN;
	}
	return peer->kind->send(peer, notice);
}

bool rmem_peer_has_arrived(const struct rmem_peer *peer, uint32_t transfer)
{
	return rmem_notify_has_arrived(&peer->notify, transfer);
}

int rmem_peer_wait(struct rmem_peer *peer, uint32_t transfer, unsigned timeout_ms)
{
	struct rmem_server *server = peer->server;
	uint64_t deadline_ns = rmem_deadline_in_ms(timeout_ms);
	int rc = 0;

	peer->is_awaited = true;
	while (rc == 0 && !rmem_peer_has_arrived(peer, transfer)) {
		int left_ms = rmem_deadline_left_ms(deadline_ns);

		if (peer->has_left)
			rc = -ENOTCONN;
		else if (server->is_stopping)
			rc = -ECANCELED;
		else if (left_ms == 0)
			rc = -ETIMEDOUT;
		else
			rc = server_turn(server, left_ms);
	}
	peer->is_awaited = false;
	if (rc == -ENOTCONN)
		peer->kind->free(peer);
	return rc;
}

void rmem_peer_set_user(struct rmem_peer *peer, void *user)
{
	peer->user = user;
}

void *rmem_peer_user(const struct rmem_peer *peer)
{
	return peer->user;
}
