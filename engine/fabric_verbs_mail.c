/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/checked.h"
#include "engine/fabric_verbs.h"

#define SLOT_BYTES  ((size_t)RMEM_NOTICE_BYTES_MAX)
#define GRANT_BYTES sizeof(uint32_t)

static uint64_t make_id(const struct verbs_mail *mail, uint32_t what)
{
	return VERBS_MAIL_BIT | (uint64_t)mail->serial << 16 | what;
}

static uint32_t receive_count(const struct verbs_mail *mail)
{
	return mail->depth + VERBS_GRANT_SPARES;
}

/* --- Life --------------------------------------------------------------------------------------
 */

/* Places for receives, notices that go, and grants that go. */
static size_t memory_bytes(uint32_t depth)
{
	size_t slots = 2 * (size_t)depth + VERBS_GRANT_SPARES + VERBS_GRANTS;

	return rmem_round_up(slots * SLOT_BYTES, RMEM_PAGE_BYTES);
}

static int fill(struct verbs_mail *mail, struct ibv_pd *pd, struct rmem_error *error)
{
	size_t bytes = memory_bytes(mail->depth);
	struct rmem_error reason = {0};

	mail->letters = calloc(mail->mask + 1u, sizeof(*mail->letters));
	mail->memory = aligned_alloc(RMEM_PAGE_BYTES, bytes);
	if (mail->letters == NULL || mail->memory == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	memset(mail->memory, 0, bytes);
	mail->mr = verbs_register(pd,
				  &(struct verbs_stretch){.address = mail->memory,
							  .length = bytes,
							  .remote_address = (uintptr_t)mail->memory,
							  .access = IBV_ACCESS_LOCAL_WRITE},
				  &reason);
	return mail->mr != NULL ? 0 : rmem_fail(error, -reason.code, "%s", reason.text);
}

int verbs_mail_create(struct ibv_pd *pd, uint32_t depth, uint32_t serial, struct verbs_mail **mail,
		      struct rmem_error *error)
{
	struct verbs_mail *made = calloc(1, sizeof(*made));
	int rc;

	if (made == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	made->depth = depth;
	made->serial = serial;
	made->mask = 4 * depth - 1; /* no less than there are receives */
	rc = fill(made, pd, error);
	if (rc != 0) {
		verbs_mail_destroy(made);
		return rc;
	}
	*mail = made;
	return 0;
}

void verbs_mail_destroy(struct verbs_mail *mail)
{
	if (mail == NULL)
		return;
	if (mail->mr != NULL)
		ibv_dereg_mr(mail->mr);
	free(mail->memory);
	free(mail->letters);
	free(mail);
}

static int post_receive(struct verbs_mail *mail, uint32_t at)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(mail->memory + at * SLOT_BYTES),
		.length = RMEM_NOTICE_BYTES_MAX,
		.lkey = mail->mr->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = make_id(mail, at), .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	return -ibv_post_recv(mail->qp, &wr, &bad);
}

int verbs_mail_begin(struct verbs_mail *mail, struct ibv_qp *qp, bool can_inline)
{
	int rc = 0;

	mail->qp = qp;
	mail->can_inline = can_inline;
	for (uint32_t at = 0; rc == 0 && at < receive_count(mail); at++)
		rc = post_receive(mail, at);
	return rc;
}

/* --- Sending -----------------------------------------------------------------------------------
 */

/* The bytes go along with the request, or lie in a place of their own until it has gone. */
static void put_payload(const struct verbs_mail *mail, uint32_t place, const void *bytes,
			uint32_t length, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	uint8_t *slot = mail->memory + place * SLOT_BYTES;

	wr->sg_list = sge;
	wr->num_sge = length > 0;
	sge->length = length;
	if (mail->can_inline) {
		sge->addr = (uintptr_t)bytes;
		wr->send_flags |= IBV_SEND_INLINE;
		return;
	}
	memcpy(slot, bytes, length);
	sge->addr = (uintptr_t)slot;
	sge->lkey = mail->mr->lkey;
}

void verbs_mail_fill(struct verbs_mail *mail, const struct verbs_payload *payload,
		     struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	/* A place is free again when as many have been granted: the peer had it by then. */
	uint32_t place = receive_count(mail) + (mail->sent++ & (mail->depth - 1));

	wr->opcode = IBV_WR_SEND_WITH_IMM;
	wr->imm_data = htobe32(payload->transfer);
	put_payload(mail, place, payload->bytes, payload->length, wr, sge);
}

static void send_grant(struct verbs_mail *mail)
{
	uint32_t count = htole32(mail->owed);
	struct ibv_send_wr wr = {
		.wr_id = make_id(mail, VERBS_MAIL_GRANT),
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;
	struct ibv_sge sge;

	/* Grants end in order, so a place for each that can be under way is enough. */
	put_payload(mail, receive_count(mail) + mail->depth + mail->grants_sent % VERBS_GRANTS,
		    &count, GRANT_BYTES, &wr, &sge);
	if (ibv_post_send(mail->qp, &wr, &bad) != 0)
		return; /* the lane is in error, or the grant goes with the next */
	mail->grants_sent++;
	mail->grants_busy++;
	mail->owed = 0;
}

void verbs_mail_grant(struct verbs_mail *mail, uint32_t count)
{
	mail->owed += count;
	if (mail->grants_busy < VERBS_GRANTS)
		send_grant(mail);
}

/* --- Receiving ---------------------------------------------------------------------------------
 */

static enum verbs_news receive(struct verbs_mail *mail, const struct ibv_wc *wc, uint32_t *count)
{
	uint32_t at = (uint32_t)(wc->wr_id & 0xffff);
	uint32_t length = wc->opcode == IBV_WC_RECV ? wc->byte_len : 0;
	uint32_t value;

	if ((wc->wc_flags & IBV_WC_WITH_IMM) != 0) {
		mail->letters[mail->tail++ & mail->mask] = (struct verbs_letter){
			.transfer = be32toh(wc->imm_data),
			.receive = (uint16_t)at,
			.length = (uint16_t)length,
		};
		return VERBS_NEWS_NOTICE;
	}
	if (length != GRANT_BYTES)
		return VERBS_NEWS_BROKEN;
	memcpy(&value, mail->memory + at * SLOT_BYTES, sizeof(value));
	*count = le32toh(value);
	return post_receive(mail, at) == 0 ? VERBS_NEWS_GRANT : VERBS_NEWS_BROKEN;
}

enum verbs_news verbs_mail_complete(struct verbs_mail *mail, const struct ibv_wc *wc,
				    uint32_t *count)
{
	uint32_t what = (uint32_t)(wc->wr_id & 0xffff);

	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return VERBS_NEWS_NONE;
	if (wc->status != IBV_WC_SUCCESS)
		return VERBS_NEWS_BROKEN;
	if (what < VERBS_MAIL_GRANT)
		return receive(mail, wc, count);
	if (what == VERBS_MAIL_SEND)
		return VERBS_NEWS_SENT;
	mail->grants_busy--;
	if (mail->owed > 0)
		send_grant(mail);
	return VERBS_NEWS_NONE;
}

void verbs_mail_take(struct verbs_mail *mail, struct rmem_notice *notice)
{
	const struct verbs_letter *letter = &mail->letters[mail->head++ & mail->mask];

	notice->transfer = letter->transfer;
	notice->length = letter->length;
	memcpy(notice->bytes, mail->memory + letter->receive * SLOT_BYTES, letter->length);
	/* Where it fails the queue pair is in error, and the connection ends. */
	(void)post_receive(mail, letter->receive);
}

/* --- At the client -----------------------------------------------------------------------------
 * The reactor lists the mail in its queue when it starts, and only then grants the server all that
 * may be under way: the server begins without any credit, so nothing comes before. */

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER; /* connections are made side by side */
static uint32_t last_serial;

static int take_serial(struct verbs_mails *mails, uint32_t *serial, struct rmem_error *error)
{
	for (unsigned i = 0; i < VERBS_MAIL_SLOTS; i++) {
		bool *is_taken = &mails->is_taken[++last_serial & (VERBS_MAIL_SLOTS - 1)];

		if (*is_taken)
			continue;
		*is_taken = true;
		*serial = last_serial;
		return 0;
	}
	return rmem_fail(error, ENOSPC, "more than %d lanes with notices", VERBS_MAIL_SLOTS);
}

static int get_serial(struct rmem_cq *cq, uint32_t *serial, struct rmem_error *error)
{
	struct verbs_mails *mails;
	int rc;

	pthread_mutex_lock(&making);
	mails = atomic_load_explicit(&cq->mails, memory_order_relaxed);
	if (mails == NULL) {
		mails = calloc(1, sizeof(*mails));
		atomic_store_explicit(&cq->mails, mails, memory_order_release);
	}
	rc = mails == NULL ? rmem_fail(error, ENOMEM, "out of memory")
			   : take_serial(mails, serial, error);
	pthread_mutex_unlock(&making);
	return rc;
}

static void put_serial(struct rmem_cq *cq, uint32_t serial)
{
	struct verbs_mails *mails = atomic_load_explicit(&cq->mails, memory_order_relaxed);

	pthread_mutex_lock(&making);
	mails->is_taken[serial & (VERBS_MAIL_SLOTS - 1)] = false;
	pthread_mutex_unlock(&making);
}

int verbs_mailbox_open(struct rmem_lane_link *link, uint32_t notices, struct rmem_error *error)
{
	uint32_t serial = 0;
	int rc = get_serial(link->cq, &serial, error);

	if (rc != 0)
		return rc;
	rc = verbs_mail_create(link->conn->control.port->pd, notices, serial, &link->mail, error);
	if (rc != 0)
		put_serial(link->cq, serial);
	return rc;
}

void verbs_mailbox_close(struct rmem_lane_link *link)
{
	if (link->mail == NULL)
		return;
	put_serial(link->cq, link->mail->serial);
	verbs_mail_destroy(link->mail);
	link->mail = NULL;
}

int verbs_mailbox_begin(struct rmem_lane_link *link, uint32_t depth, uint32_t inline_bytes,
			struct rmem_error *error)
{
	struct verbs_mail *mail = link->mail;
	int rc;

	if (depth > mail->depth)
		return rmem_fail(error, EPROTO, "%s: the server's answer is garbled",
				 link->conn->control.where);
	mail->depth = depth;
	if (depth == 0)
		return 0;
	rc = verbs_mail_begin(mail, link->qp, inline_bytes >= RMEM_NOTICE_BYTES_MAX);
	return rc == 0 ? 0
		       : rmem_fail(error, -rc, "%s: no receives for notices: %s",
				   link->conn->control.where, strerror(-rc));
}

unsigned verbs_mailbox_complete(struct rmem_cq *cq, const struct ibv_wc *wc,
				struct rmem_completion *completion)
{
	/* Pairs with the release of the control thread that made the table. */
	struct verbs_mails *mails = atomic_load_explicit(&cq->mails, memory_order_acquire);
	struct verbs_mail *mail = *verbs_mail_slot(mails, wc->wr_id);
	enum verbs_news news;
	uint32_t count = 0;

	if (!verbs_mail_is(mail, wc->wr_id))
		return 0; /* of a lane that is gone */
	news = verbs_mail_complete(mail, wc, &count);
	if (news == VERBS_NEWS_NONE)
		return 0;
	completion->id = mail->id;
	completion->status = news == VERBS_NEWS_NOTICE ? RMEM_WC_NOTICE : RMEM_WC_GRANT;
	/* More than can be, where it is broken: so the lane will be failed. */
	completion->provider_status = news == VERBS_NEWS_BROKEN ? UINT32_MAX : count;
	return 1;
}

uint32_t verbs_lane_notices(const struct rmem_lane_link *link)
{
	return link->mail != NULL ? link->mail->depth : 0;
}

void verbs_notices_start(struct rmem_lane_link *link, uint64_t id)
{
	struct verbs_mail *mail = link->mail;
	uint64_t wr_id = make_id(mail, 0);
	struct verbs_mails *mails = atomic_load_explicit(&link->cq->mails, memory_order_acquire);

	mail->id = id;
	assert(*verbs_mail_slot(mails, wr_id) == NULL);
	*verbs_mail_slot(mails, wr_id) = mail;
	verbs_mail_grant(mail, mail->depth);
}

void verbs_notices_stop(struct rmem_lane_link *link)
{
	struct verbs_mails *mails = atomic_load_explicit(&link->cq->mails, memory_order_relaxed);
	struct verbs_mail **slot = verbs_mail_slot(mails, make_id(link->mail, 0));

	if (*slot == link->mail)
		*slot = NULL;
}

void verbs_notice_take(struct rmem_lane_link *link, struct rmem_notice *notice)
{
	verbs_mail_take(link->mail, notice);
}

void verbs_lane_grant(struct rmem_lane_link *link, uint32_t count)
{
	verbs_mail_grant(link->mail, count);
}
