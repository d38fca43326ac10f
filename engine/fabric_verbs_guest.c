/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "engine/base/checked.h"
#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "engine/fabric_verbs_server.h"

#define REQUESTS_BYTES (GUEST_RECEIVES * SERVER_REQUEST_MAX)
#define MEMORY_BYTES   (REQUESTS_BYTES + GUEST_SENDS * RMEM_WIRE_MAX_BYTES)
#define PROBE_TICKS    4

/* | generation 32 | seat 24 | what 8 |; what is below ID_SEND the number of a receive. */
enum { ID_SEND = GUEST_RECEIVES, ID_PROBE = ID_SEND + GUEST_SENDS };
#define SEATS_MAX (1u << 24)

static uint64_t make_id(const struct verbs_guest *guest, unsigned what)
{
	return (uint64_t)guest->generation << 32 | (uint64_t)guest->seat << 8 | what;
}

static uint8_t *request_at(const struct verbs_guest *guest, unsigned at)
{
	return guest->memory + (size_t)at * SERVER_REQUEST_MAX;
}

static uint8_t *reply_at(const struct verbs_guest *guest, unsigned at)
{
	return guest->memory + REQUESTS_BYTES + (size_t)at * RMEM_WIRE_MAX_BYTES;
}

/* --- Messages ----------------------------------------------------------------------------------
 */

static int post_receive(struct verbs_guest *guest, unsigned at)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)request_at(guest, at),
		.length = SERVER_REQUEST_MAX,
		.lkey = guest->mr->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = make_id(guest, at), .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	return ibv_post_recv(guest->party.qp, &wr, &bad);
}

static bool guest_send(struct server_client *client, const void *message, size_t length, int fd)
{
	struct verbs_guest *guest = RMEM_CONTAINER_OF(client, struct verbs_guest, client);
	struct ibv_send_wr wr = {
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;
	struct ibv_sge sge;
	unsigned at = 0;

	(void)fd;
	while (at < GUEST_SENDS && (guest->sending & 1u << at) != 0)
		at++;
	if (at == GUEST_SENDS || length > RMEM_WIRE_MAX_BYTES)
		return false; /* it asks faster than it listens */
	memcpy(reply_at(guest, at), message, length);
	sge = (struct ibv_sge){
		.addr = (uintptr_t)reply_at(guest, at),
		.length = (uint32_t)length,
		.lkey = guest->mr->lkey,
	};
	wr.sg_list = &sge;
	wr.wr_id = make_id(guest, ID_SEND + at);
	if (ibv_post_send(guest->party.qp, &wr, &bad) != 0)
		return false;
	guest->sending |= 1u << at;
	return true;
}

/* Asks for a sign of life: a write of no bytes, which the device at the other end answers without
 * any program. False: it can't be asked, or the last question is still without an answer. Some
 * devices ask for ever when they may ask seven times (soft-RoCE does), so that is not left to the
 * device. */
static bool probe(struct verbs_guest *guest)
{
	struct ibv_send_wr wr = {
		.wr_id = make_id(guest, ID_PROBE),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	if (guest->is_probing)
		return false;
	guest->is_probing = ibv_post_send(guest->party.qp, &wr, &bad) == 0;
	return guest->is_probing;
}

/* --- Leaving -----------------------------------------------------------------------------------
 */

static void party_finish(struct verbs_party *party)
{
	if (party->qp != NULL)
		ibv_destroy_qp(party->qp);
	if (party->id != NULL)
		rdma_destroy_id(party->id); /* tells the peer, if it is connected */
}

static void lane_destroy(struct verbs_guest_lane *lane)
{
	LIST_REMOVE(lane, link);
	lane->party.guest->lane_count--;
	party_finish(&lane->party);
	verbs_peer_leave(lane->peer);
	free(lane);
}

static void guest_destroy(struct verbs_guest *guest)
{
	struct verbs_house *house = guest->device->house;
	struct verbs_guest_lane *lane;

	while ((lane = LIST_FIRST(&guest->lanes)) != NULL)
		lane_destroy(lane);
	party_finish(&guest->party);
	if (guest->mr != NULL)
		ibv_dereg_mr(guest->mr);
	guest->device->guest_count--;
	house->seats[guest->seat] = NULL;
	free(guest->memory);
	free(guest);
}

static void guest_close(struct server_client *client)
{
	struct verbs_guest *guest = RMEM_CONTAINER_OF(client, struct verbs_guest, client);
	struct verbs_guest_lane *lane;

	if (guest->sending == 0) {
		guest_destroy(guest);
		return;
	}
	while ((lane = LIST_FIRST(&guest->lanes)) != NULL)
		lane_destroy(lane);
	guest->is_leaving = true;
	guest->linger_ns = rmem_deadline_in_ms(GUEST_LINGER_MS);
}

static const struct server_transport transport = {
	.send = guest_send,
	.close = guest_close,
};

void verbs_party_ended(struct verbs_party *party)
{
	struct verbs_guest *guest = party->guest;

	if (party->role == VERBS_GUEST_LANE)
		lane_destroy(RMEM_CONTAINER_OF(party, struct verbs_guest_lane, party));
	else if (guest->is_leaving)
		guest_destroy(guest);
	else
		server_client_close(&guest->client);
}

static void give_up(struct verbs_guest *guest)
{
	rmem_log_warn(RMEM_LOG_SERVER, "%s does not answer", guest->client.label);
	server_client_close(&guest->client);
}

void verbs_guest_tick(struct verbs_house *house)
{
	bool is_time_to_probe = ++house->ticks % PROBE_TICKS == 0;
	uint64_t now_ns = rmem_now_ns();

	for (unsigned i = 0; i < house->seat_count; i++) {
		struct verbs_guest *guest = house->seats[i];

		if (guest == NULL)
			continue;
		if (guest->is_leaving && guest->linger_ns <= now_ns)
			guest_destroy(guest);
		else if (is_time_to_probe && guest->client.is_greeted && !guest->is_leaving &&
			 !probe(guest))
			give_up(guest);
	}
}

bool verbs_guest_lingers(const struct verbs_house *house)
{
	for (unsigned i = 0; i < house->seat_count; i++) {
		if (house->seats[i] != NULL)
			return true;
	}
	return false;
}

void verbs_guest_end_all(struct verbs_house *house)
{
	for (unsigned i = 0; i < house->seat_count; i++) {
		if (house->seats[i] != NULL)
			guest_destroy(house->seats[i]);
	}
}

/* --- Completions -------------------------------------------------------------------------------
 */

static void take_request(struct verbs_guest *guest, unsigned at, uint32_t length)
{
	struct server_client *client = &guest->client;

	if (guest->is_leaving)
		return;
	/* Each message is a SEND of its own: what an earlier one left incomplete stays so. */
	if (length > sizeof(client->request) - client->used) {
		server_client_close(client);
		return;
	}
	memcpy(client->request + client->used, request_at(guest, at), length);
	client->used += length;
	if (post_receive(guest, at) != 0)
		server_client_close(client);
	else
		(void)server_client_handle(client);
}

void verbs_guest_complete(struct verbs_house *house, const struct ibv_wc *wc)
{
	uint32_t seat = (uint32_t)(wc->wr_id >> 8) & (SEATS_MAX - 1);
	unsigned what = (unsigned)(wc->wr_id & 0xff);
	struct verbs_guest *guest = seat < house->seat_count ? house->seats[seat] : NULL;

	if (guest == NULL || guest->generation != (uint32_t)(wc->wr_id >> 32))
		return; /* it has left */
	if (wc->status != IBV_WC_SUCCESS) {
		rmem_log_debug(RMEM_LOG_SERVER, "%s: %s", guest->client.label,
			       ibv_wc_status_str(wc->status));
		verbs_party_ended(&guest->party);
		return;
	}
	if (what < GUEST_RECEIVES) {
		take_request(guest, what, wc->byte_len);
		return;
	}
	if (what == ID_PROBE)
		guest->is_probing = false;
	else
		guest->sending &= ~(1u << (what - ID_SEND));
	if (guest->is_leaving && guest->sending == 0)
		guest_destroy(guest);
}

/* --- Joining -----------------------------------------------------------------------------------
 */

void verbs_turn_away(struct rdma_cm_id *id, enum rmem_wire_code code, const char *text)
{
	uint8_t bytes[RMEM_WIRE_DENIAL_MAX_BYTES];
	size_t length = rmem_wire_put_denial(bytes, code, text);

	(void)rdma_reject(id, bytes, (uint8_t)length);
	rdma_destroy_id(id);
}

static int make_qp(struct verbs_party *party, const struct verbs_device *device,
		   struct ibv_qp_init_attr *attr)
{
	attr->qp_type = IBV_QPT_RC;
	party->qp = ibv_create_qp(device->pd, attr);
	if (party->qp == NULL && attr->cap.max_inline_data > 0) {
		attr->cap.max_inline_data = 0; /* not every device can */
		party->qp = ibv_create_qp(device->pd, attr);
	}
	if (party->qp == NULL)
		return -errno;
	return verbs_qp_init(party->id, party->qp);
}

/* Answers the request; from here on the peer may use the queue pair. */
static int accept_party(struct verbs_party *party, const struct verbs_request *request)
{
	uint8_t bytes[RMEM_WIRE_DENIAL_MAX_BYTES];
	const struct rmem_verbs_options *options = rmem_verbs_options();
	uint8_t reads_max = request->device->reads_max;
	struct rdma_conn_param param = {
		.private_data = bytes,
		.flow_control = 1,
		.rnr_retry_count = (uint8_t)options->rnr_retry_count,
		.qp_num = party->qp->qp_num,
	};
	struct rmem_join answer = request->join;
	struct verbs_timing timing;
	int rc;

	verbs_timing_init(&timing, GUEST_DETECT_MS);
	timing.reads_served = request->reads < reads_max ? request->reads : reads_max;
	if (timing.mtu_bytes == 0 ||
	    (request->join.mtu_bytes != 0 && request->join.mtu_bytes < timing.mtu_bytes))
		timing.mtu_bytes = request->join.mtu_bytes;
	rc = verbs_qp_ready(party->id, party->qp, &timing);
	if (rc != 0)
		return rc;
	answer.token = party->guest->token;
	answer.mtu_bytes = timing.mtu_bytes;
	param.private_data_len = (uint8_t)rmem_wire_put_join(bytes, &answer);
	param.responder_resources = timing.reads_served;
	party->id->context = party;
	return rdma_accept(party->id, &param) != 0 ? -errno : 0;
}

static void complain(const struct verbs_house *house, const struct verbs_request *request, int rc)
{
	if (server_may_complain(house->server))
		rmem_log_warn(RMEM_LOG_SERVER, "%s: a connection can't be accepted: %s",
			      request->device->context->device->name, strerror(-rc));
}

static int take_seat(struct verbs_house *house, struct verbs_guest *guest)
{
	for (unsigned i = 0; i < house->seat_count; i++) {
		if (house->seats[i] != NULL)
			continue;
		house->seats[i] = guest;
		guest->seat = i;
		guest->generation = ++house->generations[i];
		return 0;
	}
	return -EBUSY;
}

static int guest_fill(struct verbs_guest *guest, const struct verbs_request *request)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = guest->device->cq,
		.recv_cq = guest->device->cq,
		.cap = {.max_send_wr = GUEST_SENDS + 1,
			.max_recv_wr = GUEST_RECEIVES,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	int rc;

	/* By it lanes get in: nobody is to guess it. */
	if (getrandom(&guest->token, sizeof(guest->token), 0) != sizeof(guest->token))
		return -EIO;
	guest->memory =
		aligned_alloc(RMEM_PAGE_BYTES, rmem_round_up(MEMORY_BYTES, RMEM_PAGE_BYTES));
	if (guest->memory == NULL)
		return -ENOMEM;
	guest->mr =
		ibv_reg_mr(guest->device->pd, guest->memory, MEMORY_BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (guest->mr == NULL)
		return -errno;
	rc = make_qp(&guest->party, guest->device, &attr);
	for (unsigned i = 0; rc == 0 && i < GUEST_RECEIVES; i++)
		rc = -post_receive(guest, i);
	if (rc == 0)
		rc = accept_party(&guest->party, request);
	return rc;
}

static void guest_join(struct verbs_house *house, const struct verbs_request *request)
{
	struct verbs_guest *guest = calloc(1, sizeof(*guest));
	int rc;

	if (guest == NULL || take_seat(house, guest) != 0) {
		free(guest);
		verbs_turn_away(request->id, RMEM_WIRE_CODE_BUSY,
				"it has as many clients as it may have");
		return;
	}
	LIST_INIT(&guest->lanes);
	guest->device = request->device;
	guest->device->guest_count++;
	guest->party = (struct verbs_party){
		.role = VERBS_GUEST,
		.id = request->id,
		.guest = guest,
	};
	guest->client.transport = &transport;
	guest->client.server = house->server;
	guest->client.welcome = &request->device->welcome;
	guest->client.pool_fd = -1;
	verbs_address_text(rdma_get_peer_addr(request->id), guest->client.from,
			   sizeof(guest->client.from));
	rc = guest_fill(guest, request);
	if (rc == 0) {
		server_client_enter(&guest->client);
		return;
	}
	complain(house, request, rc);
	guest->party.id = NULL;
	guest_destroy(guest);
	verbs_turn_away(request->id, RMEM_WIRE_CODE_INTERNAL, strerror(-rc));
}

static struct verbs_guest *find_guest(const struct verbs_house *house, uint64_t token)
{
	for (unsigned i = 0; i < house->seat_count; i++) {
		struct verbs_guest *guest = house->seats[i];

		if (guest != NULL && guest->token == token && guest->client.is_greeted &&
		    !guest->is_leaving)
			return guest;
	}
	return NULL;
}

static int lane_fill(struct verbs_guest_lane *lane, const struct verbs_request *request)
{
	/* Nothing is sent or received on it from here but notices. */
	struct ibv_qp_init_attr attr = {
		.send_cq = request->device->cq,
		.recv_cq = request->device->cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct verbs_request agreed = *request;
	int rc;

	lane->peer = verbs_peer_create(lane, request->join.notices);
	if (lane->peer != NULL)
		verbs_peer_attr(lane->peer, &attr);
	agreed.join.notices = verbs_peer_depth(lane->peer);
	rc = make_qp(&lane->party, request->device, &attr);
	if (rc == 0 && lane->peer != NULL)
		rc = verbs_peer_begin(lane->peer, attr.cap.max_inline_data);
	if (rc == 0)
		rc = accept_party(&lane->party, &agreed);
	return rc;
}

static void lane_join(struct verbs_house *house, const struct verbs_request *request)
{
	struct verbs_guest *guest = find_guest(house, request->join.token);
	struct verbs_guest_lane *lane;
	int rc;

	if (guest == NULL || guest->device != request->device) {
		verbs_turn_away(request->id, RMEM_WIRE_CODE_PROTOCOL,
				"a lane of a client that is not here");
		return;
	}
	lane = guest->lane_count < GUEST_LANES_MAX ? calloc(1, sizeof(*lane)) : NULL;
	if (lane == NULL) {
		verbs_turn_away(request->id, RMEM_WIRE_CODE_BUSY, "too many lanes of one client");
		return;
	}
	lane->party = (struct verbs_party){
		.role = VERBS_GUEST_LANE,
		.id = request->id,
		.guest = guest,
	};
	LIST_INSERT_HEAD(&guest->lanes, lane, link);
	guest->lane_count++;
	rc = lane_fill(lane, request);
	if (rc == 0)
		return;
	complain(house, request, rc);
	lane->party.id = NULL;
	lane_destroy(lane);
	verbs_turn_away(request->id, RMEM_WIRE_CODE_INTERNAL, strerror(-rc));
}

void verbs_guest_join(struct verbs_house *house, const struct verbs_request *request)
{
	if (request->join.kind == RMEM_WIRE_JOIN_LANE)
		lane_join(house, request);
	else if (server_is_full(house->server) ||
		 request->device->guest_count >= request->device->guests_max)
		verbs_turn_away(request->id, RMEM_WIRE_CODE_BUSY,
				"it has as many clients as it may have");
	else
		guest_join(house, request);
}
