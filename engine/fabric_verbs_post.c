/* SPDX-License-Identifier: Apache-2.0 */
/* Notices at the server: a completion queue for each device that clients with notices come through,
 * apart from that of control, so that it can be polled without end at no cost to anything else. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/checked.h"
#include "engine/base/log.h"
#include "engine/fabric_verbs_server.h"

#define COMPLETIONS_TAKEN 32
#define QUEUE_MIN	  512
#define ACKS_AT_ONCE	  256

struct verbs_post {
	struct server_intake intake;
	struct server_source source;
	struct verbs_device *device;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	unsigned unacked;
	uint32_t wanted; /* completions that the lanes on it may cause */
	uint32_t last_serial;
	struct verbs_mails mails;
};

struct verbs_guest_peer {
	struct rmem_peer peer;
	struct verbs_post *post;
	struct verbs_guest_lane *lane;
	struct verbs_mail *mail;
	bool has_joined;
	uint32_t unsignaled; /* sends, since the last that was signaled */
};

static struct verbs_guest_peer *guest_of(struct rmem_peer *peer)
{
	return RMEM_CONTAINER_OF(peer, struct verbs_guest_peer, peer);
}

/* Twice what may be under way: sends give their places back some at a time. */
static uint32_t send_places(uint32_t depth)
{
	return 2 * depth + VERBS_GRANTS;
}

static uint32_t completions_of(uint32_t depth)
{
	return depth + VERBS_GRANT_SPARES + send_places(depth);
}

/* --- A peer ------------------------------------------------------------------------------------
 */

static int guest_send(struct rmem_peer *peer, const struct rmem_notice *notice)
{
	struct verbs_guest_peer *guest = guest_of(peer);
	uint32_t signal_at = peer->notify.depth > 4 ? peer->notify.depth / 4 : 1;
	const struct verbs_payload payload = {notice->transfer, notice->bytes, notice->length};
	struct ibv_send_wr wr = {
		.wr_id = VERBS_MAIL_BIT | (uint64_t)guest->mail->serial << 16 | VERBS_MAIL_SEND,
	};
	struct ibv_send_wr *bad;
	struct ibv_sge sge;

	if (++guest->unsignaled >= signal_at) {
		wr.send_flags = IBV_SEND_SIGNALED;
		guest->unsignaled = 0;
	}
	verbs_mail_fill(guest->mail, &payload, &wr, &sge);
	if (ibv_post_send(guest->mail->qp, &wr, &bad) == 0)
		return 0;
	/* There was a place, so it is in error. */
	peer->is_over = true;
	peer->kind->end(peer);
	return -ENOTCONN;
}

static void guest_grant(struct rmem_peer *peer, uint32_t count)
{
	verbs_mail_grant(guest_of(peer)->mail, count);
}

static void guest_end(struct rmem_peer *peer)
{
	struct verbs_guest_lane *lane = guest_of(peer)->lane;

	verbs_qp_abort(lane->party.qp);
	(void)rdma_disconnect(lane->party.id); /* the connection manager will say so */
}

static void guest_free(struct rmem_peer *peer)
{
	struct verbs_guest_peer *guest = guest_of(peer);

	verbs_mail_destroy(guest->mail);
	free(guest);
}

static const struct server_peer_kind kind = {
	.send = guest_send,
	.grant = guest_grant,
	.end = guest_end,
	.free = guest_free,
};

/* --- Taking in ---------------------------------------------------------------------------------
 */

static void break_off(struct verbs_guest_peer *guest, const char *why)
{
	rmem_log_debug(RMEM_LOG_SERVER, "%s: its notices have ended: %s", guest->peer.client->label,
		       why);
	if (!guest->peer.is_over)
		guest_end(&guest->peer);
	guest->peer.is_over = true;
}

/* The first grant makes a peer of it: from then on it can be sent to. */
static void granted(struct verbs_guest_peer *guest, uint32_t count)
{
	uint32_t depth = guest->mail->depth;

	if (guest->has_joined) {
		server_peer_granted(&guest->peer, count);
	} else if (count > depth) {
		break_off(guest, "too large a grant");
	} else {
		guest->has_joined = true;
		server_peer_join(&guest->peer, depth, count);
	}
}

static unsigned complete(struct verbs_post *post, const struct ibv_wc *wc)
{
	struct verbs_mail *mail = *verbs_mail_slot(&post->mails, wc->wr_id);
	struct verbs_guest_peer *guest;
	struct rmem_notice notice;
	uint32_t count = 0;

	if (!verbs_mail_is(mail, wc->wr_id))
		return 0; /* of one that has left */
	guest = (struct verbs_guest_peer *)(uintptr_t)mail->id;
	switch (verbs_mail_complete(mail, wc, &count)) {
	case VERBS_NEWS_NOTICE:
		verbs_mail_take(mail, &notice);
		if (guest->has_joined)
			server_peer_notice(&guest->peer, &notice);
		else
			break_off(guest, "a notice before the first grant");
		return 1;
	case VERBS_NEWS_GRANT:
		granted(guest, count);
		return 0;
	case VERBS_NEWS_BROKEN:
		break_off(guest, ibv_wc_status_str(wc->status));
		return 0;
	default:
		return 0;
	}
}

static unsigned post_poll(struct server_intake *intake)
{
	struct verbs_post *post = RMEM_CONTAINER_OF(intake, struct verbs_post, intake);
	struct ibv_wc wcs[COMPLETIONS_TAKEN];
	unsigned came = 0;
	int got;

	do {
		got = ibv_poll_cq(post->cq, COMPLETIONS_TAKEN, wcs);
		for (int i = 0; i < got; i++)
			came += complete(post, &wcs[i]);
	} while (got == COMPLETIONS_TAKEN);
	return came;
}

static void post_arm(struct server_intake *intake)
{
	struct verbs_post *post = RMEM_CONTAINER_OF(intake, struct verbs_post, intake);

	if (ibv_req_notify_cq(post->cq, 0) != 0)
		rmem_log_error(RMEM_LOG_SERVER, "%s: the completion queue is broken",
			       post->device->context->device->name);
}

static void post_disarm(struct server_intake *intake)
{
	(void)intake; /* a device tells once */
}

static void post_ready(struct server_source *source, uint32_t events)
{
	struct verbs_post *post = RMEM_CONTAINER_OF(source, struct verbs_post, source);
	struct ibv_cq *cq;
	void *context;

	(void)events;
	while (ibv_get_cq_event(post->channel, &cq, &context) == 0)
		post->unacked++;
	if (post->unacked >= ACKS_AT_ONCE) {
		ibv_ack_cq_events(post->cq, post->unacked);
		post->unacked = 0;
	}
}

/* --- The queue ---------------------------------------------------------------------------------
 */

static void post_free(struct verbs_post *post)
{
	if (post->unacked > 0)
		ibv_ack_cq_events(post->cq, post->unacked);
	if (post->cq != NULL)
		ibv_destroy_cq(post->cq);
	if (post->channel != NULL)
		ibv_destroy_comp_channel(post->channel);
	free(post);
}

void verbs_post_destroy(struct verbs_post *post)
{
	if (post == NULL)
		return;
	SLIST_REMOVE(&post->device->house->server->intakes, &post->intake, server_intake, link);
	post_free(post);
}

static int post_fill(struct verbs_post *post, struct rmem_error *error)
{
	struct ibv_context *context = post->device->context;

	post->channel = ibv_create_comp_channel(context);
	if (post->channel != NULL)
		post->cq = ibv_create_cq(context, QUEUE_MIN, NULL, post->channel, 0);
	if (post->cq == NULL ||
	    fcntl(post->channel->fd, F_SETFL, fcntl(post->channel->fd, F_GETFL) | O_NONBLOCK) != 0)
		return rmem_fail(error, errno, "no completion queue: %s", strerror(errno));
	post->source = (struct server_source){.ready = post_ready, .fd = post->channel->fd};
	return server_watch(post->device->house->server, &post->source, error);
}

static int post_get(struct verbs_device *device, struct rmem_error *error)
{
	struct verbs_post *made;
	int rc;

	if (device->post != NULL)
		return 0;
	made = calloc(1, sizeof(*made));
	if (made == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	made->device = device;
	rc = post_fill(made, error);
	if (rc != 0) {
		post_free(made);
		return rc;
	}
	made->intake = (struct server_intake){
		.poll = post_poll,
		.arm = post_arm,
		.disarm = post_disarm,
	};
	SLIST_INSERT_HEAD(&device->house->server->intakes, &made->intake, link);
	device->post = made;
	return 0;
}

/* Sees to it that the queue can hold what one more lane may cause. */
static int reserve(struct verbs_post *post, uint32_t more, struct rmem_error *error)
{
	uint32_t depth = (uint32_t)post->cq->cqe;
	int code;

	while (depth < post->wanted + more)
		depth *= 2;
	if (depth > (uint32_t)post->cq->cqe) {
		code = ibv_resize_cq(post->cq, (int)depth);
		if (code != 0)
			return rmem_fail(error, code, "no completion queue of %u entries: %s",
					 depth, strerror(code));
	}
	post->wanted += more;
	return 0;
}

static int take_serial(struct verbs_post *post, uint32_t *serial, struct rmem_error *error)
{
	for (unsigned i = 0; i < VERBS_MAIL_SLOTS; i++) {
		bool *is_taken =
			&post->mails.is_taken[++post->last_serial & (VERBS_MAIL_SLOTS - 1)];

		if (*is_taken)
			continue;
		*is_taken = true;
		*serial = post->last_serial;
		return 0;
	}
	return rmem_fail(error, ENOSPC, "more than %d peers", VERBS_MAIL_SLOTS);
}

/* --- Coming and going --------------------------------------------------------------------------
 */

static int peer_fill(struct verbs_guest_peer *guest, uint32_t depth, struct rmem_error *error)
{
	struct verbs_device *device = guest->lane->party.guest->device;
	uint32_t serial = 0;
	int rc = post_get(device, error);

	if (rc != 0)
		return rc;
	rc = take_serial(device->post, &serial, error);
	if (rc != 0)
		return rc;
	rc = verbs_mail_create(device->pd, depth, serial, &guest->mail, error);
	if (rc == 0)
		rc = reserve(device->post, completions_of(depth), error);
	if (rc != 0) {
		device->post->mails.is_taken[serial & (VERBS_MAIL_SLOTS - 1)] = false;
		return rc;
	}
	guest->post = device->post;
	guest->mail->id = (uintptr_t)guest;
	device->post->mails.slots[serial & (VERBS_MAIL_SLOTS - 1)] = guest->mail;
	return 0;
}

struct verbs_guest_peer *verbs_peer_create(struct verbs_guest_lane *lane, uint32_t wanted)
{
	struct rmem_server *server = lane->party.guest->client.server;
	uint32_t depth = server_agree_notices(server, wanted);
	struct verbs_guest_peer *guest;
	struct rmem_error error = {0};

	if (depth == 0)
		return NULL;
	guest = calloc(1, sizeof(*guest));
	if (guest == NULL)
		return NULL;
	guest->lane = lane;
	guest->peer.kind = &kind;
	guest->peer.client = &lane->party.guest->client;
	if (peer_fill(guest, depth, &error) == 0)
		return guest;
	if (server_may_complain(server))
		rmem_log_warn(RMEM_LOG_SERVER, "%s: no notices: %s", guest->peer.client->label,
			      error.text);
	guest_free(&guest->peer);
	return NULL;
}

uint32_t verbs_peer_depth(const struct verbs_guest_peer *peer)
{
	return peer != NULL ? peer->mail->depth : 0;
}

void verbs_peer_attr(const struct verbs_guest_peer *peer, struct ibv_qp_init_attr *attr)
{
	attr->send_cq = attr->recv_cq = peer->post->cq;
	attr->cap.max_send_wr = send_places(peer->mail->depth);
	attr->cap.max_recv_wr = peer->mail->depth + VERBS_GRANT_SPARES;
	attr->cap.max_inline_data = RMEM_NOTICE_BYTES_MAX;
}

int verbs_peer_begin(struct verbs_guest_peer *peer, uint32_t inline_bytes)
{
	return verbs_mail_begin(peer->mail, peer->lane->party.qp,
				inline_bytes >= RMEM_NOTICE_BYTES_MAX);
}

void verbs_peer_leave(struct verbs_guest_peer *peer)
{
	struct verbs_post *post;
	uint32_t at;

	if (peer == NULL)
		return;
	post = peer->post;
	at = peer->mail->serial & (VERBS_MAIL_SLOTS - 1);
	post->mails.slots[at] = NULL;
	post->mails.is_taken[at] = false;
	post->wanted -= completions_of(peer->mail->depth);
	if (peer->has_joined)
		server_peer_leave(&peer->peer);
	else
		guest_free(&peer->peer);
}
