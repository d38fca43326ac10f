/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs and the connection manager: what the client's and the server's side have in common,
 * and making a connection from a client. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "engine/base/checked.h"
#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "engine/fabric_verbs.h"

/* Reasons of a refusal, as the specification numbers them. */
#define REJECT_NO_SERVICE 8
#define REJECT_STALE	  10
#define REJECT_CONSUMER	  28

#define STALE_TRIES    5
#define RESOLVE_MIN_MS 50
#define CONNECT_MIN_MS 1000

/* --- Queue pairs -------------------------------------------------------------------------------
 */

int verbs_qp_init(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask;

	if (rdma_init_qp_attr(id, &attr, &mask) != 0)
		return -errno;
	/* The side that connects is given no rights at all here, and none later. Yet its peer asks
	 * for signs of life by writes of no bytes, and a device refuses those, too, with the end of
	 * the connection. What else may be written is for the memory to say. */
	attr.qp_access_flags |= IBV_ACCESS_REMOTE_WRITE;
	return -ibv_modify_qp(qp, &attr, mask);
}

static enum ibv_mtu mtu_code(uint32_t bytes)
{
	unsigned code = IBV_MTU_256;

	while (code < IBV_MTU_4096 && 128u << (code + 1) <= bytes)
		code++;
	return (enum ibv_mtu)code;
}

int verbs_qp_ready(struct rdma_cm_id *id, struct ibv_qp *qp, struct verbs_timing *timing)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int mask, code;

	if (rdma_init_qp_attr(id, &attr, &mask) != 0)
		return -errno;
	/* Those of the kernel's bits that only its own callers may set. */
	mask &= (1 << 21) - 1;
	if (timing->mtu_bytes != 0 && mtu_code(timing->mtu_bytes) < attr.path_mtu)
		attr.path_mtu = mtu_code(timing->mtu_bytes);
	timing->mtu_bytes = 128u << attr.path_mtu;
	attr.min_rnr_timer = timing->rnr_timer;
	attr.max_dest_rd_atomic = timing->reads_served;
	code = ibv_modify_qp(qp, &attr, mask | IBV_QP_MIN_RNR_TIMER);
	if (code != 0)
		return -code;
	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RTS;
	if (rdma_init_qp_attr(id, &attr, &mask) != 0)
		return -errno;
	attr.timeout = timing->ack_timeout;
	attr.retry_cnt = timing->retry_count;
	attr.rnr_retry = timing->rnr_retry_count;
	return -ibv_modify_qp(qp, &attr, mask);
}

void verbs_qp_abort(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	/* Fails when it is in error already, or when its device is gone. */
	(void)ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

void verbs_timing_init(struct verbs_timing *timing, unsigned detect_ms)
{
	const struct rmem_verbs_options *options = rmem_verbs_options();
	unsigned tries = options->retry_count + 1;
	uint64_t total_us = (uint64_t)(detect_ms > 0 ? detect_ms : VERBS_DETECT_MS) * 1000 / 2;

	/* Half, because a device may take up to four times as long as it was told, and does take
	 * up to twice as long. */
	if (options->ack_timeout_us > 0)
		total_us = (uint64_t)options->ack_timeout_us * tries;
	*timing = (struct verbs_timing){
		.ack_timeout = rmem_verbs_timeout_code(total_us, tries),
		.retry_count = (uint8_t)options->retry_count,
		.rnr_retry_count = (uint8_t)options->rnr_retry_count,
		.rnr_timer = rmem_verbs_rnr_code(options->rnr_timer_us),
		.mtu_bytes = options->mtu_bytes,
	};
}

/* --- Events ------------------------------------------------------------------------------------
 */

static void note_event(struct verbs_leg *leg, const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *param = &event->param.conn;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_CHANGE: /* the connection goes on, or fails by itself */
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		leg->is_over = true;
		break;
	default:
		break;
	}
	leg->has_event = true;
	leg->event = event->event;
	leg->status = event->status;
	leg->private_length = 0;
	if (param->private_data != NULL) {
		leg->private_length = param->private_data_len;
		memcpy(leg->private_data, param->private_data, param->private_data_len);
	}
}

int verbs_take_event(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;

	static_assert(VERBS_PRIVATE_MAX > UINT8_MAX, "any private data fits");
	if (rdma_get_cm_event(channel, &event) != 0)
		return -errno;
	if (event->id->context != NULL)
		note_event(event->id->context, event);
	rdma_ack_cm_event(event);
	return 0;
}

static int no_answer(const struct verbs_dial *dial, struct rmem_error *error)
{
	return rmem_fail(error, ETIMEDOUT,
			 "%s: no answer in time: is the host up, with an RDMA device, and nothing "
			 "between that drops its packets?",
			 dial->where);
}

/* The next event about the leg. -ETIMEDOUT: none by `deadline_ns`. */
static int wait_event(const struct verbs_dial *dial, struct verbs_leg *leg, uint64_t deadline_ns,
		      struct rmem_error *error)
{
	while (!leg->has_event) {
		int rc = verbs_take_event(dial->channel);

		if (rc == 0)
			continue;
		if (rc != -EAGAIN && rc != -EINTR)
			return rmem_fail(error, -rc, "%s: the RDMA connection manager: %s",
					 dial->where, strerror(-rc));
		struct pollfd poll_fd = {.fd = dial->channel->fd, .events = POLLIN};
		int left_ms = rmem_deadline_left_ms(deadline_ns);

		if (left_ms == 0)
			return no_answer(dial, error);
		poll(&poll_fd, 1, left_ms);
	}
	rmem_log_debug(RMEM_LOG_FABRIC, "%s: %s (status %d), %d ms left", dial->where,
		       rdma_event_str(leg->event), leg->status,
		       rmem_deadline_left_ms(dial->deadline_ns));
	leg->has_event = false;
	return 0;
}

static int code_of(int status)
{
	return status < 0 ? -status : EHOSTUNREACH;
}

static int denied(const struct verbs_dial *dial, const struct verbs_leg *leg,
		  struct rmem_error *error)
{
	struct rmem_wire_refusal refusal;

	if (rmem_wire_get_denial(leg->private_data, leg->private_length, &refusal) != 0)
		return rmem_fail(error, EPROTO, "%s: the program that listens there is no rmemd",
				 dial->where);
	return rmem_fail(error, rmem_control_code(refusal.code), "%s: rmemd refused: %s",
			 dial->where, refusal.text);
}

static int explain(const struct verbs_dial *dial, const struct verbs_leg *leg,
		   struct rmem_error *error)
{
	int code = code_of(leg->status);

	switch (leg->event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
		if (code == ETIMEDOUT)
			return no_answer(dial, error);
		if (code == ENODEV || code == EADDRNOTAVAIL)
			return verbs_no_device(dial->where, code, error);
		return rmem_fail(error, code, "%s: the address can't be reached: %s", dial->where,
				 strerror(code));
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return rmem_fail(error, code, "%s: no RDMA route leads there: %s", dial->where,
				 strerror(code));
	case RDMA_CM_EVENT_REJECTED:
		if (leg->status == REJECT_CONSUMER)
			return denied(dial, leg, error);
		if (leg->status == REJECT_NO_SERVICE)
			return rmem_fail(error, ECONNREFUSED,
					 "%s: nobody listens there: is rmemd running, and "
					 "listening at that address and port?",
					 dial->where);
		return rmem_fail(error, ECONNREFUSED, "%s: the connection was rejected (reason %d)",
				 dial->where, leg->status);
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return rmem_fail(error, ENODEV, "%s: the RDMA device was removed", dial->where);
	default:
		return rmem_fail(error, code, "%s: can't connect: %s (%s)", dial->where,
				 strerror(code), rdma_event_str(leg->event));
	}
}

static int expect(const struct verbs_dial *dial, struct verbs_leg *leg,
		  enum rdma_cm_event_type wanted, struct rmem_error *error)
{
	int rc = wait_event(dial, leg, dial->try_ns, error);

	if (rc != 0 || (leg->event == wanted && leg->status == 0))
		return rc;
	return explain(dial, leg, error);
}

/* --- Dialling ----------------------------------------------------------------------------------
 */

static int fail_qp(const struct verbs_dial *dial, int code, struct rmem_error *error)
{
	if (code == ENOMEM)
		return rmem_fail(error, code,
				 "%s: device %s has no queue pair of %u requests left: lower "
				 "engine.depth, engine.lanes or the number of reactors",
				 dial->where, dial->port->name, dial->qp.cap.max_send_wr);
	return rmem_fail(error, code, "%s: device %s: no queue pair: %s", dial->where,
			 dial->port->name, strerror(code));
}

/* The kernel asks who has the address, and may miss an answer that comes before it listens, as from
 * the other end of a cable to oneself: it only looks again when its time is out. So it gets little
 * time, and more with each try. */
static int resolve_address(struct verbs_dial *dial, struct verbs_leg *leg, struct sockaddr *source,
			   struct rmem_error *error)
{
	struct sockaddr *peer = (struct sockaddr *)(uintptr_t)dial->peer;

	for (int try_ms = RESOLVE_MIN_MS;; try_ms *= 2) {
		int left_ms = rmem_deadline_left_ms(dial->deadline_ns);
		bool is_last = left_ms <= try_ms;
		int rc;

		if (rdma_resolve_addr(leg->id, source, peer, is_last ? left_ms : try_ms) != 0)
			return verbs_no_device(dial->where, errno, error);
		rc = wait_event(dial, leg, dial->deadline_ns, error);
		if (rc != 0)
			return rc;
		if (leg->event == RDMA_CM_EVENT_ADDR_RESOLVED && leg->status == 0)
			return 0;
		if (leg->event != RDMA_CM_EVENT_ADDR_ERROR || leg->status != -ETIMEDOUT || is_last)
			return explain(dial, leg, error);
		source = NULL; /* it is bound to that now */
	}
}

static int resolve(struct verbs_dial *dial, struct verbs_leg *leg, struct rmem_error *error)
{
	uint8_t traffic_class = (uint8_t)rmem_verbs_options()->traffic_class;
	struct sockaddr_storage source;
	int rc, left_ms;

	rc = verbs_source(dial->peer, dial->where, &source, error);
	if (rc != 0)
		return rc;
	if (rdma_create_id(dial->channel, &leg->id, leg, RDMA_PS_TCP) != 0)
		return rmem_fail(error, errno, "no connection manager's id: %s", strerror(errno));
	if (traffic_class != 0 && rdma_set_option(leg->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS,
						  &traffic_class, sizeof(traffic_class)) != 0)
		return rmem_fail(error, errno, "%s: traffic class %u: %s", dial->where,
				 traffic_class, strerror(errno));
	rc = resolve_address(dial, leg, (struct sockaddr *)&source, error);
	if (rc != 0)
		return rc;
	if (leg->id->verbs != dial->port->context)
		return rmem_fail(error, EAGAIN, "%s: the route there has just moved from %s to %s",
				 dial->where, dial->port->name, leg->id->verbs->device->name);
	dial->try_ns = dial->deadline_ns;
	left_ms = rmem_deadline_left_ms(dial->deadline_ns);
	if (left_ms == 0) /* which the kernel takes for a mistake */
		return no_answer(dial, error);
	if (rdma_resolve_route(leg->id, left_ms) != 0)
		return rmem_fail(error, errno, "%s: no RDMA route leads there: %s", dial->where,
				 strerror(errno));
	return expect(dial, leg, RDMA_CM_EVENT_ROUTE_RESOLVED, error);
}

static int introduce(struct verbs_dial *dial, struct verbs_leg *leg, struct rmem_error *error)
{
	uint8_t bytes[RMEM_WIRE_DENIAL_MAX_BYTES];
	struct rdma_conn_param param = {
		.private_data = bytes,
		.initiator_depth = dial->port->reads_max,
		.flow_control = 1,
		.retry_count = dial->timing.retry_count,
		.rnr_retry_count = dial->timing.rnr_retry_count,
	};
	int rc;

	leg->qp = ibv_create_qp(dial->port->pd, &dial->qp);
	if (leg->qp == NULL)
		return fail_qp(dial, errno, error);
	rc = verbs_qp_init(leg->id, leg->qp);
	if (rc != 0)
		return fail_qp(dial, -rc, error);
	dial->join.mtu_bytes = dial->timing.mtu_bytes;
	param.private_data_len = (uint8_t)rmem_wire_put_join(bytes, &dial->join);
	param.qp_num = leg->qp->qp_num;
	if (rdma_connect(leg->id, &param) != 0)
		return rmem_fail(error, errno, "%s: can't connect: %s", dial->where,
				 strerror(errno));
	return expect(dial, leg, RDMA_CM_EVENT_CONNECT_RESPONSE, error);
}

/* Both sides must cut their messages alike: the answer says how. */
static int settle(struct verbs_dial *dial, struct verbs_leg *leg, struct rmem_join *answer,
		  struct rmem_error *error)
{
	int rc = rmem_wire_get_join(leg->private_data, leg->private_length, answer);

	if (rc != 0 || answer->kind != dial->join.kind || answer->mtu_bytes == 0)
		return rmem_fail(error, EPROTO, "%s: the program that listens there is no rmemd",
				 dial->where);
	dial->timing.mtu_bytes = answer->mtu_bytes;
	rc = verbs_qp_ready(leg->id, leg->qp, &dial->timing);
	if (rc != 0)
		return fail_qp(dial, -rc, error);
	if (dial->timing.mtu_bytes != answer->mtu_bytes)
		return rmem_fail(error, EPROTO,
				 "%s: the path MTU is %u bytes here and %u at the server: make "
				 "the interfaces' alike, or set verbs.mtu",
				 dial->where, dial->timing.mtu_bytes, answer->mtu_bytes);
	if (rdma_establish(leg->id) != 0)
		return rmem_fail(error, errno, "%s: can't connect: %s", dial->where,
				 strerror(errno));
	return 0;
}

/* Whether it is worth while to try once more. */
static bool is_passing(const struct verbs_dial *dial, const struct verbs_leg *leg, int rc,
		       unsigned tries)
{
	/* The server still has a connection of a queue pair that had our number before, and has
	 * just begun to take it down. */
	if (rc == -ECONNREFUSED && leg->event == RDMA_CM_EVENT_REJECTED &&
	    leg->status == REJECT_STALE)
		return tries < STALE_TRIES;
	return rc == -ETIMEDOUT && rmem_deadline_left_ms(dial->deadline_ns) > 0;
}

int verbs_dial(struct verbs_dial *dial, struct verbs_leg *leg, struct rmem_join *answer,
	       struct rmem_error *error)
{
	uint64_t patience_ms = CONNECT_MIN_MS;

	for (unsigned tries = 1;; tries++, patience_ms *= 2) {
		bool again;
		int rc = resolve(dial, leg, error);

		/* The connection manager takes more than four seconds to send a request again
		 * that was lost; so it gets a new one after less. */
		dial->try_ns = rmem_min_u64(dial->deadline_ns,
					    rmem_now_ns() + patience_ms * RMEM_NS_PER_MS);
		if (rc == 0)
			rc = introduce(dial, leg, error);
		if (rc == 0)
			rc = settle(dial, leg, answer, error);
		if (rc == 0)
			return 0;
		again = is_passing(dial, leg, rc, tries);
		verbs_leg_close(leg);
		if (!again)
			return rc;
	}
}

void verbs_leg_close(struct verbs_leg *leg)
{
	/* The id goes last: until then events may come for it. What it was connected to learns of
	 * the end by that. */
	if (leg->qp != NULL)
		ibv_destroy_qp(leg->qp);
	if (leg->id != NULL)
		rdma_destroy_id(leg->id);
	*leg = (struct verbs_leg){0};
}
