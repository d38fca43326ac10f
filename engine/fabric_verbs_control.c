/* SPDX-License-Identifier: Apache-2.0 */
/* A client's conversation with a memory server over a queue pair of its own.
 *
 * Messages are those of engine/wire.h, each a SEND of its own. The queue pair is also how either
 * side finds out that the other is gone without a word: a write of no bytes needs no memory and no
 * program at the other end, but is answered by a device that is alive. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "engine/fabric_verbs.h"

#define SLOTS	     (VERBS_CONTROL_RECEIVES + 1)
#define MEMORY_BYTES ((size_t)SLOTS * RMEM_WIRE_MAX_BYTES)
#define CQ_DEPTH     (VERBS_CONTROL_RECEIVES + 2)

/* Ids of work requests: below these, the number of a receive. */
enum { ID_SEND = VERBS_CONTROL_RECEIVES, ID_PROBE };

static uint8_t *slot(const struct verbs_control *control, uint64_t at)
{
	return control->memory + at * RMEM_WIRE_MAX_BYTES;
}

static int post_receive(struct verbs_control *control, uint64_t at)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)slot(control, at),
		.length = RMEM_WIRE_MAX_BYTES,
		.lkey = control->mr->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = at, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	return -ibv_post_recv(control->leg.qp, &wr, &bad);
}

static int post_send(struct verbs_control *control, const void *message, size_t length)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)slot(control, ID_SEND),
		.length = (uint32_t)length,
		.lkey = control->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = ID_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;
	int code;

	if (control->is_sending || length > RMEM_WIRE_MAX_BYTES)
		return -EBUSY;
	memcpy(slot(control, ID_SEND), message, length);
	code = ibv_post_send(control->leg.qp, &wr, &bad);
	control->is_sending = code == 0;
	return -code;
}

int verbs_control_probe(struct verbs_control *control, unsigned patience_ms)
{
	struct ibv_send_wr wr = {
		.wr_id = ID_PROBE,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;
	int code;

	/* By the clock and not by how often we come here: a thread that got no processor for a
	 * while comes here twice in a row. */
	if (control->is_probing)
		return rmem_now_ns() - control->probe_ns >= (uint64_t)patience_ms * RMEM_NS_PER_MS
			       ? -ETIMEDOUT
			       : 0;
	code = ibv_post_send(control->leg.qp, &wr, &bad);
	control->is_probing = code == 0;
	control->probe_ns = rmem_now_ns();
	return -code;
}

int verbs_control_arm(struct verbs_control *control)
{
	struct ibv_cq *cq;
	void *context;

	while (ibv_get_cq_event(control->completions, &cq, &context) == 0)
		control->unacked++;
	return -ibv_req_notify_cq(control->cq, 0);
}

/* Takes one completion. 0: nothing came, or nothing that matters. 1: a message, in receive `*at`,
 * of
 * `*length` bytes. Or -errno: the server is gone. */
static int take_one(struct verbs_control *control, uint64_t *at, size_t *length, bool *is_empty)
{
	struct ibv_wc wc;
	int got = ibv_poll_cq(control->cq, 1, &wc);

	*is_empty = got == 0;
	if (got < 0)
		return -EIO;
	if (got == 0)
		return 0;
	if (wc.status != IBV_WC_SUCCESS)
		rmem_log_debug(RMEM_LOG_FABRIC, "%s: control request %d failed: %s", control->where,
			       (int)wc.wr_id, ibv_wc_status_str(wc.status));
	if (wc.status != IBV_WC_SUCCESS)
		return wc.status == IBV_WC_RETRY_EXC_ERR ? -ETIMEDOUT : -ECONNRESET;
	if (wc.wr_id == ID_SEND)
		control->is_sending = false;
	else if (wc.wr_id == ID_PROBE)
		control->is_probing = false;
	if (wc.wr_id >= VERBS_CONTROL_RECEIVES)
		return 0;
	*at = wc.wr_id;
	*length = wc.byte_len;
	return 1;
}

int verbs_control_look(struct verbs_control *control)
{
	bool is_empty;

	do {
		enum rmem_wire_type type;
		size_t length, said;
		uint64_t at;
		int rc = take_one(control, &at, &length, &is_empty);

		if (rc < 0)
			return rc;
		if (rc == 0)
			continue;
		/* A server says nothing to a client that it has greeted, but goodbye. */
		if (rmem_wire_peek(slot(control, at), length, &type, &said) == 0 &&
		    type == RMEM_WIRE_ERROR)
			return -ESHUTDOWN;
		return -EPROTO;
	} while (!is_empty);
	return 0;
}

/* --- Asking ------------------------------------------------------------------------------------
 */

static int lost(const struct verbs_control *control, int rc, struct rmem_error *error)
{
	return rmem_fail(error, -rc, "%s: the connection ended before the answer: %s",
			 control->where,
			 rc == -ECONNRESET ? "closed by the other side" : strerror(-rc));
}

/* Until a message or the end of the connection comes. */
static int wait_message(struct verbs_control *control, uint64_t *at, size_t *length,
			struct rmem_error *error)
{
	for (;;) {
		struct pollfd fds[] = {
			{.fd = control->completions->fd, .events = POLLIN},
			{.fd = control->channel->fd, .events = POLLIN},
		};
		int rc = verbs_control_arm(control);
		int left_ms;
		bool is_empty = false;

		while (rc == 0 && !is_empty) /* what came before it was armed is not announced */
			rc = take_one(control, at, length, &is_empty);
		if (rc == 1)
			return 0;
		if (rc < 0)
			return lost(control, rc, error);
		while (verbs_take_event(control->channel) == 0)
			;
		if (control->leg.is_over)
			return lost(control, -ECONNRESET, error);
		left_ms = rmem_deadline_left_ms(control->deadline_ns);
		if (left_ms == 0)
			return rmem_fail(error, ETIMEDOUT,
					 "%s: no answer in time: is rmemd there stopped or stuck?",
					 control->where);
		poll(fds, 2, left_ms);
	}
}

static int take_message(struct verbs_control *control, uint64_t at, size_t length,
			struct rmem_control_message *answer, struct rmem_error *error)
{
	size_t said;
	int rc;

	if (length > sizeof(answer->bytes))
		return rmem_fail(error, EPROTO, "%s: a garbled answer", control->where);
	memcpy(answer->bytes, slot(control, at), length);
	answer->length = length;
	rc = post_receive(control, at);
	if (rc != 0)
		return lost(control, rc, error);
	rc = rmem_wire_peek(answer->bytes, length, &answer->type, &said);
	if (rc == -EPROTONOSUPPORT)
		return rmem_fail(error, EPROTO,
				 "%s: rmemd there speaks another version of the protocol than this "
				 "program (%d): update the older of the two",
				 control->where, RMEM_WIRE_VERSION);
	if (rc != 0 || said != length)
		return rmem_fail(error, EPROTO, "%s: a garbled answer", control->where);
	return 0;
}

int verbs_control_ask(struct verbs_control *control, const void *request, size_t length,
		      enum rmem_wire_type wanted, struct rmem_control_message *answer,
		      struct rmem_error *error)
{
	uint64_t at = 0;
	size_t came = 0;
	int rc;

	answer->fd_count = 0;
	rc = post_send(control, request, length);
	if (rc != 0)
		return lost(control, rc, error);
	rc = wait_message(control, &at, &came, error);
	if (rc == 0)
		rc = take_message(control, at, came, answer, error);
	if (rc == 0 && answer->type == RMEM_WIRE_ERROR)
		rc = rmem_control_refused(control->where, answer, error);
	else if (rc == 0 && answer->type != wanted)
		rc = rmem_fail(error, EPROTO, "%s: an answer to something else", control->where);
	return rc;
}

/* --- Life --------------------------------------------------------------------------------------
 */

static int make_queue(struct verbs_control *control, struct rmem_error *error)
{
	const struct verbs_stretch stretch = {
		.address = control->memory,
		.length = MEMORY_BYTES,
		.remote_address = (uintptr_t)control->memory,
		.access = IBV_ACCESS_LOCAL_WRITE,
	};
	struct ibv_context *context = control->port->context;
	struct rmem_error reason = {0};

	control->completions = ibv_create_comp_channel(context);
	if (control->completions != NULL)
		control->cq = ibv_create_cq(context, CQ_DEPTH, NULL, control->completions, 0);
	if (control->completions == NULL || control->cq == NULL ||
	    fcntl(control->completions->fd, F_SETFL,
		  fcntl(control->completions->fd, F_GETFL) | O_NONBLOCK) != 0)
		return rmem_fail(error, errno, "%s: no completion queue: %s", control->port->name,
				 strerror(errno));
	control->mr = verbs_register(control->port->pd, &stretch, &reason);
	if (control->mr != NULL)
		return 0;
	return rmem_fail(error, -reason.code, "%s", reason.text);
}

static int dial(struct verbs_control *control, struct rmem_error *error)
{
	struct verbs_dial dial = {
		.port = control->port,
		.channel = control->channel,
		.peer = (struct sockaddr *)&control->peer,
		.where = control->where,
		.deadline_ns = control->deadline_ns,
		.qp = {.send_cq = control->cq,
		       .recv_cq = control->cq,
		       .cap = {.max_send_wr = 2,
			       .max_recv_wr = VERBS_CONTROL_RECEIVES,
			       .max_send_sge = 1,
			       .max_recv_sge = 1},
		       .qp_type = IBV_QPT_RC},
		.join = {.kind = RMEM_WIRE_JOIN_CONTROL},
	};
	struct rmem_join answer;
	int rc;

	verbs_timing_init(&dial.timing, 0);
	rc = verbs_dial(&dial, &control->leg, &answer, error);
	if (rc != 0)
		return rc;
	control->token = answer.token;
	for (uint64_t i = 0; rc == 0 && i < VERBS_CONTROL_RECEIVES; i++)
		rc = post_receive(control, i);
	return rc == 0 ? 0 : lost(control, rc, error);
}

int verbs_control_open(struct verbs_control *control, struct rmem_port *port, const char *url,
		       uint64_t deadline_ns, struct rmem_error *error)
{
	struct rmem_verbs_address address;
	int rc;

	strncpy(control->where, url, sizeof(control->where) - 1);
	control->port = port;
	control->deadline_ns = deadline_ns;
	rc = rmem_verbs_parse(url, &address, error);
	if (rc == 0)
		rc = verbs_resolve(&address, &control->peer, error);
	if (rc == 0)
		rc = verbs_channel_open(&control->channel, error);
	if (rc != 0)
		return rc;
	control->memory = aligned_alloc(RMEM_PAGE_BYTES, MEMORY_BYTES);
	if (control->memory == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	memset(control->memory, 0, MEMORY_BYTES);
	rc = make_queue(control, error);
	return rc == 0 ? dial(control, error) : rc;
}

void verbs_control_close(struct verbs_control *control)
{
	verbs_leg_close(&control->leg);
	if (control->unacked > 0)
		ibv_ack_cq_events(control->cq, control->unacked);
	if (control->cq != NULL)
		ibv_destroy_cq(control->cq);
	if (control->completions != NULL)
		ibv_destroy_comp_channel(control->completions);
	if (control->mr != NULL)
		ibv_dereg_mr(control->mr);
	if (control->channel != NULL)
		rdma_destroy_event_channel(control->channel);
	free(control->memory);
	*control = (struct verbs_control){0};
}

static int ask_it(void *user, const struct rmem_control_request *request,
		  struct rmem_control_message *answer, struct rmem_error *error)
{
	return verbs_control_ask(user, request->bytes, request->length, request->wanted, answer,
				 error);
}

int verbs_ask(const char *url, uint64_t deadline_ns, struct rmem_control_message *answer,
	      struct rmem_error *error)
{
	struct verbs_control control = {0};
	const struct rmem_control_way way = {ask_it, &control, url};
	struct rmem_port *port;
	int rc;

	rc = verbs_port_open_bare(url, &port, error);
	if (rc != 0)
		return rc;
	rc = verbs_control_open(&control, port, url, deadline_ns, error);
	if (rc == 0)
		rc = rmem_control_ask_status(&way, answer, error);
	verbs_control_close(&control);
	verbs_port_close(port);
	return rc;
}
