/* SPDX-License-Identifier: Apache-2.0 */
/* The memory server's side of the verbs provider: what its files share. All of it is used by the
 * thread that runs the server.
 *
 * The pool is registered once with each device that clients come through. A client is a guest, with
 * one queue pair for control; its lanes are known by the token that it got with that one, and end
 * with it. After that nobody here has any part in what clients read and write.
 *
 * Completions carry the number of a guest's seat, not a pointer: a device may still deliver some of
 * a queue pair that is gone. A seat that is taken again has another generation. */
#pragma once

#include <sys/queue.h>

#include "engine/fabric_verbs.h"
#include "engine/server_internal.h"

#define GUEST_RECEIVES	 4
#define GUEST_SENDS	 2
#define GUEST_LANES_MAX	 (RMEM_REACTORS_MAX * RMEM_LANES_MAX)
#define GUEST_DETECT_MS	 8000 /* a client that is dead is one after this */
#define GUEST_LINGER_MS	 1000 /* for a last message to be on its way */
#define GUEST_CQ_ENTRIES (GUEST_RECEIVES + GUEST_SENDS + 1)

struct verbs_house;
struct verbs_guest;
struct verbs_post;	 /* a device's notices */
struct verbs_guest_peer; /* a lane's */

/* One device, with the pool registered. */
struct verbs_device {
	struct verbs_house *house;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	unsigned unacked;
	unsigned guest_count, guests_max; /* by the size of the queue */
	uint8_t reads_max;
	struct server_source completions;
	struct server_source events;
	struct ibv_mr *mrs[RMEM_REGIONS_MAX];
	struct rmem_welcome welcome; /* of the server, with this device's keys */
	struct verbs_post *post;     /* NULL until a client wants notices */
	SLIST_ENTRY(verbs_device) link;
};

/* Which part of a client an id of the connection manager belongs to. */
enum verbs_role { VERBS_GUEST, VERBS_GUEST_LANE };

struct verbs_party {
	enum verbs_role role;
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	struct verbs_guest *guest;
};

struct verbs_guest_lane {
	struct verbs_party party;
	struct verbs_guest_peer *peer; /* NULL: no notices */
	LIST_ENTRY(verbs_guest_lane) link;
};

struct verbs_guest {
	struct server_client client;
	struct verbs_party party;
	struct verbs_device *device;
	uint64_t token;
	uint32_t seat;
	uint32_t generation;
	unsigned lane_count;
	LIST_HEAD(, verbs_guest_lane) lanes;
	struct ibv_mr *mr;
	uint8_t *memory;    /* what it may say, then what it is told */
	unsigned sending;   /* one bit for each message on its way */
	bool is_probing;    /* a sign of life was asked for */
	bool is_leaving;    /* closed, and waits for the last message to be on its way */
	uint64_t linger_ns; /* until then at most */
};

/* What the server's doors of this kind share. */
struct verbs_house {
	struct rmem_server *server;
	unsigned door_count;
	struct ibv_context **contexts; /* of all devices; they stay open for it */
	struct server_source timer;
	unsigned ticks;
	uint64_t address_bits; /* so that an address of another time fits nothing */
	SLIST_HEAD(, verbs_device) devices;
	struct verbs_guest **seats;
	uint32_t *generations; /* of the seats */
	unsigned seat_count;
};

/* --- fabric_verbs_device.c ---------------------------------------------------------------------
 */

/* The device of the context, made if need be. NULL: it can't be used, and `error`, which is not
 * NULL, says why. */
struct verbs_device *verbs_device_get(struct verbs_house *house, struct ibv_context *context,
				      struct rmem_error *error);
/* Every device that a wildcard address may be reached through. */
int verbs_device_get_all(struct verbs_house *house, struct rmem_error *error);
void verbs_device_destroy(struct verbs_device *device);
/* Takes in what has completed. */
void verbs_device_poll(struct verbs_device *device);

/* --- fabric_verbs_guest.c ----------------------------------------------------------------------
 */

/* A connection request: answers it, or turns it down. The id is taken over. */
struct verbs_request {
	struct verbs_device *device;
	struct rdma_cm_id *id;
	uint8_t reads; /* that the client wants in flight */
	struct rmem_join join;
};
void verbs_guest_join(struct verbs_house *house, const struct verbs_request *request);
/* Tells the peer why not, and destroys the id. */
void verbs_turn_away(struct rdma_cm_id *id, enum rmem_wire_code code, const char *text);
/* The connection of the party is over. */
void verbs_party_ended(struct verbs_party *party);
/* A completion on a device's queue. */
void verbs_guest_complete(struct verbs_house *house, const struct ibv_wc *wc);
/* Once a second: ends those that lingered long enough, and sees who still answers. */
void verbs_guest_tick(struct verbs_house *house);
/* Whether some still linger. */
bool verbs_guest_lingers(const struct verbs_house *house);
/* Ends all at once. */
void verbs_guest_end_all(struct verbs_house *house);

/* --- fabric_verbs_post.c -----------------------------------------------------------------------
 */

/* For up to `wanted` notices each way on the lane, if they can be had: NULL if not. */
struct verbs_guest_peer *verbs_peer_create(struct verbs_guest_lane *lane, uint32_t wanted);
uint32_t verbs_peer_depth(const struct verbs_guest_peer *peer);
/* What the lane's queue pair must be like. */
void verbs_peer_attr(const struct verbs_guest_peer *peer, struct ibv_qp_init_attr *attr);
/* The queue pair is there. Posts the receives. */
int verbs_peer_begin(struct verbs_guest_peer *peer, uint32_t inline_bytes);
/* The queue pair is gone. NULL is fine. */
void verbs_peer_leave(struct verbs_guest_peer *peer);
/* No lanes are left. */
void verbs_post_destroy(struct verbs_post *post);
