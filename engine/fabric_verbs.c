/* SPDX-License-Identifier: Apache-2.0 */
/* The data path: nothing here but cq_create, cq_resize and cq_destroy makes a system call, unless
 * the device's library does (soft-RoCE rings its doorbell by one).
 *
 * A request is not counted here: the device's send queue is the credit, as large as was asked for
 * when the lane was opened or larger, and full is when the device says so. It makes room when a
 * completion is polled, for all requests up to that one. */
#include "engine/fabric_verbs.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POLL_MAX    32
#define ACK_MAX	    1024
#define RING_BYTES  (16 * 1024) /* no more than one request goes beyond with one doorbell */
#define READ_WEIGHT 2048 /* soft-RoCE answers each read from a softirq of its own: 8 at a time */

/* --- Completion queues -------------------------------------------------------------------------
 */

static int make_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ? -errno : 0;
}

static int check_depth(const struct ibv_context *context, uint32_t depth, uint32_t max,
		       struct rmem_error *error)
{
	if (depth > 0 && depth <= max)
		return 0;
	return rmem_fail(error, EINVAL,
			 "a completion queue of %u entries: device %s can have up to %u", depth,
			 context->device->name, max);
}

static void cq_destroy(struct rmem_cq *cq)
{
	if (cq == NULL)
		return;
	if (cq->unacked > 0)
		ibv_ack_cq_events(cq->cq, cq->unacked);
	if (cq->cq != NULL)
		ibv_destroy_cq(cq->cq);
	if (cq->channel != NULL)
		ibv_destroy_comp_channel(cq->channel);
	free(atomic_load(&cq->mails));
	free(cq);
}

static int cq_create(struct rmem_port *port, uint32_t depth, struct rmem_cq **cq,
		     struct rmem_error *error)
{
	uint32_t max = port->limits.cq_depth_max;
	uint32_t wanted = depth < VERBS_CQ_DEPTH_MIN ? VERBS_CQ_DEPTH_MIN : depth;
	struct rmem_cq *made;
	int vector, rc;

	rc = check_depth(port->context, depth, max, error);
	if (rc != 0)
		return rc;
	made = calloc(1, sizeof(*made));
	if (made == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	vector = (int)(port->next_vector++ % (unsigned)port->context->num_comp_vectors);
	made->channel = ibv_create_comp_channel(port->context);
	if (made->channel != NULL && make_nonblocking(made->channel->fd) == 0)
		made->cq = ibv_create_cq(port->context, (int)(wanted > max ? max : wanted), made,
					 made->channel, vector);
	if (made->cq == NULL) {
		rc = rmem_fail(error, errno, "%s: no completion queue of %u entries: %s",
			       port->name, depth, strerror(errno));
		cq_destroy(made);
		return rc;
	}
	*cq = made;
	return 0;
}

static int cq_resize(struct rmem_cq *cq, uint32_t depth, struct rmem_error *error)
{
	int code;

	if (depth <= (uint32_t)cq->cq->cqe)
		return 0;
	code = ibv_resize_cq(cq->cq, (int)depth);
	if (code == 0)
		return 0;
	return rmem_fail(error, code,
			 "device %s can't give a completion queue %u entries: %s; lower "
			 "engine.depth or engine.lanes",
			 cq->cq->context->device->name, depth, strerror(code));
}

enum rmem_wc_status verbs_wc_status(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return RMEM_WC_OK;
	case IBV_WC_WR_FLUSH_ERR:
		return RMEM_WC_FLUSHED;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
		return RMEM_WC_REMOTE_ACCESS;
	case IBV_WC_LOC_LEN_ERR:
	case IBV_WC_LOC_QP_OP_ERR:
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
		return RMEM_WC_LOCAL_ERROR;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_REM_ABORT_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		return RMEM_WC_PEER_LOST;
	default:
		return RMEM_WC_OTHER;
	}
}

static inline void report(const struct ibv_wc *wc, struct rmem_completion *completion)
{
	completion->id = wc->wr_id;
	completion->provider_status = (uint32_t)wc->status;
	/* In an error nothing but wr_id, status and the queue pair's number is valid. */
	if (RMEM_LIKELY(wc->status == IBV_WC_SUCCESS))
		completion->status = RMEM_WC_OK;
	else
		completion->status = verbs_wc_status(wc->status);
}

static int cq_poll(struct rmem_cq *cq, struct rmem_completion *completions, unsigned count)
{
	struct ibv_wc wcs[POLL_MAX];
	int max = count < POLL_MAX ? (int)count : POLL_MAX;
	int got, reported = 0;

	do {
		got = ibv_poll_cq(cq->cq, max, wcs);
		for (int i = 0; i < got; i++) {
			if (RMEM_UNLIKELY((wcs[i].wr_id & VERBS_MAIL_BIT) != 0))
				reported += (int)verbs_mailbox_complete(cq, &wcs[i],
									&completions[reported]);
			else
				report(&wcs[i], &completions[reported++]);
		}
		/* "Nothing" is to mean that the queue was empty. */
	} while (RMEM_UNLIKELY(got == max && reported == 0));
	if (RMEM_LIKELY(reported > 0))
		return reported;
	/* Relaxed: it is set for good, and nothing else comes with it. */
	if (RMEM_UNLIKELY(got < 0 || atomic_load_explicit(&cq->is_broken, memory_order_relaxed)))
		return -EIO;
	return 0;
}

static int cq_fd(const struct rmem_cq *cq)
{
	return cq->channel->fd;
}

static int cq_arm(struct rmem_cq *cq)
{
	return -ibv_req_notify_cq(cq->cq, 0);
}

static void cq_ack(struct rmem_cq *cq)
{
	struct ibv_cq *which;
	void *context;

	while (ibv_get_cq_event(cq->channel, &which, &context) == 0)
		cq->unacked++;
	if (cq->unacked >= ACK_MAX) {
		ibv_ack_cq_events(cq->cq, cq->unacked);
		cq->unacked = 0;
	}
}

/* --- Posting -----------------------------------------------------------------------------------
 */

/* False: the request makes no sense. A device may answer that with "full", so it is found here. */
static inline bool translate_transfer(struct rmem_lane_link *link, uint32_t at,
				      const struct rmem_wr *wr)
{
	struct ibv_send_wr *to = &link->wrs[at];
	struct ibv_sge *sges = &link->sges[at * RMEM_SGE_MAX];
	uint64_t total = 0;

	if (RMEM_UNLIKELY(wr->sge_count > link->sge_max))
		return false;
	for (unsigned i = 0; i < wr->sge_count; i++) {
		sges[i].addr = (uintptr_t)wr->sge[i].address;
		sges[i].length = wr->sge[i].length;
		sges[i].lkey = wr->sge[i].key;
		total += wr->sge[i].length;
	}
	to->wr_id = wr->id;
	to->num_sge = wr->sge_count;
	to->opcode = wr->op == RMEM_WR_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	to->send_flags = (wr->flags & RMEM_WR_SIGNALED) != 0 ? IBV_SEND_SIGNALED : 0;
	to->wr.rdma.remote_addr = wr->remote_address;
	to->wr.rdma.rkey = wr->remote_key;
	link->chain_bytes += wr->op == RMEM_WR_READ && total < READ_WEIGHT ? READ_WEIGHT : total;
	if ((wr->flags & RMEM_WR_INLINE) == 0)
		return true;
	to->send_flags |= IBV_SEND_INLINE;
	return wr->op != RMEM_WR_READ && total <= link->inline_bytes;
}

/* The same for what carries a notice. */
static __attribute__((noinline)) bool translate_notice(struct rmem_lane_link *link, uint32_t at,
						       const struct rmem_wr *wr)
{
	struct ibv_send_wr *to = &link->wrs[at];
	struct verbs_payload payload = {.transfer = wr->transfer};

	if (wr->op > RMEM_WR_NOTICE || verbs_lane_notices(link) == 0)
		return false;
	if (wr->op == RMEM_WR_WRITE_NOTICE) {
		if (!translate_transfer(link, at, wr))
			return false;
		to->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		to->imm_data = htobe32(wr->transfer);
		return true;
	}
	if (wr->sge_count > 0) {
		payload.bytes = wr->sge[0].address;
		payload.length = wr->sge[0].length;
	}
	if (wr->sge_count > 1 || payload.length > RMEM_NOTICE_BYTES_MAX)
		return false;
	to->wr_id = wr->id;
	to->send_flags = (wr->flags & RMEM_WR_SIGNALED) != 0 ? IBV_SEND_SIGNALED : 0;
	if ((wr->flags & RMEM_WR_FENCE) != 0)
		to->send_flags |= IBV_SEND_FENCE;
	verbs_mail_fill(link->mail, &payload, to, &link->sges[at * RMEM_SGE_MAX]);
	return true;
}

static inline bool translate(struct rmem_lane_link *link, uint32_t at, const struct rmem_wr *wr)
{
	if (RMEM_UNLIKELY(wr->op > RMEM_WR_WRITE))
		return translate_notice(link, at, wr);
	return translate_transfer(link, at, wr);
}

/* Posts the first `count` translated requests with one doorbell; `*taken` are the device's. */
static int ring(struct rmem_lane_link *link, uint32_t count, uint32_t *taken)
{
	struct ibv_send_wr *last = &link->wrs[count - 1];
	struct ibv_send_wr *bad = NULL;
	int code;

	last->next = NULL;
	code = ibv_post_send(link->qp, link->wrs, &bad);
	if (count < link->chain_max)
		last->next = last + 1;
	*taken = count;
	if (RMEM_LIKELY(code == 0))
		return 0;
	*taken = bad == NULL ? 0 : (uint32_t)(bad - link->wrs);
	return code == ENOMEM ? -EAGAIN : -code;
}

/* The first `count` requests from here were translated and not taken. */
static RMEM_COLD void give_back(struct rmem_lane_link *link, const struct rmem_wr *wr,
				uint32_t count)
{
	for (; count > 0; count--, wr = wr->next) {
		if (wr->op == RMEM_WR_NOTICE)
			link->mail->sent--;
	}
}

/* Rings more than once for a chain of large requests: the card begins sooner, and soft-RoCE sends
 * in the call itself, where a long stretch makes the kernel move the rest to a thread that competes
 * with who polls (reads of 4 KiB then came at half the rate on one processor). */
static int lane_post(struct rmem_lane_link *link, struct rmem_wr *chain, struct rmem_wr **bad)
{
	while (chain != NULL) {
		struct rmem_wr *wr = chain;
		uint32_t count = 0, taken = 0;
		int rc = 0, refused = 0;

		link->chain_bytes = 0;
		while (wr != NULL && count < link->chain_max && link->chain_bytes < RING_BYTES) {
			if (RMEM_UNLIKELY(!translate(link, count, wr))) {
				refused = -EINVAL;
				break;
			}
			count++;
			wr = wr->next;
		}
		if (RMEM_LIKELY(count > 0))
			rc = ring(link, count, &taken);
		if (RMEM_LIKELY(rc == 0 && refused == 0)) {
			chain = wr;
			continue;
		}
		for (; taken > 0; taken--, count--)
			chain = chain->next;
		*bad = chain;
		give_back(link, chain, count);
		return rc != 0 ? rc : refused;
	}
	return 0;
}

static void lane_abort(struct rmem_lane_link *link)
{
	verbs_qp_abort(link->qp);
}

const struct rmem_fabric rmem_fabric_verbs = {
	.scheme = "verbs",
	.port_open = verbs_port_open,
	.port_close = verbs_port_close,
	.port_limits = verbs_port_limits,
	.mr_register = verbs_mr_register,
	.mr_unregister = verbs_mr_unregister,
	.mr_key = verbs_mr_key,
	.cq_create = cq_create,
	.cq_resize = cq_resize,
	.cq_destroy = cq_destroy,
	.cq_poll = cq_poll,
	.cq_fd = cq_fd,
	.cq_arm = cq_arm,
	.cq_ack = cq_ack,
	.connect = verbs_connect,
	.conn_info = verbs_conn_info,
	.conn_fd = verbs_conn_fd,
	.conn_alive = verbs_conn_alive,
	.disconnect = verbs_disconnect,
	.lane_open = verbs_lane_open,
	.lane_post = lane_post,
	.lane_abort = lane_abort,
	.lane_close = verbs_lane_close,
	.lane_notices = verbs_lane_notices,
	.notices_start = verbs_notices_start,
	.notices_stop = verbs_notices_stop,
	.notice_take = verbs_notice_take,
	.notices_grant = verbs_lane_grant,
};
