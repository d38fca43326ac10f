/* SPDX-License-Identifier: Apache-2.0 */
/* Between fake_fabric.c, which has the state and what tests do to it, and fake_provider.c, which is
 * what the engine calls. */
#pragma once

#include <pthread.h>

#include "engine/rmem.h"
#include "tests/support/fake_fabric.h"

#define FAKE_SERVERS_MAX  256
#define FAKE_REGIONS_MAX  4
#define FAKE_MRS_MAX	  256
#define FAKE_DEPTH_MAX	  65536
#define FAKE_CQ_DEPTH_MAX (1u << 20)

struct rmem_port {
	unsigned users;
	unsigned index;
};

struct rmem_mr {
	struct rmem_port *port;
	uintptr_t start;
	size_t length;
	uint32_t key;
};

struct cqe {
	struct rmem_completion completion;
	struct rmem_lane_link *link;
	uint32_t retires;
};

struct rmem_cq {
	struct cqe *ring;
	uint32_t depth;
	uint32_t head, count;
	bool is_armed;
	int fd;
};

struct fake_server {
	char url[100];
	bool is_up;
	bool is_hanging;
	unsigned connects;
	uint64_t incarnation;
	uint32_t region_count;
	uint64_t region_bytes;
	uint8_t *bytes[FAKE_REGIONS_MAX];
};

struct rmem_conn {
	struct fake_server *server;
	struct rmem_port *port;
	uint64_t incarnation;
	bool is_over;
	int fd;
	uint32_t region_count;
	struct rmem_remote regions[FAKE_REGIONS_MAX];
};

#define FAKE_NOTICES_MAX 64

/* Notices of a lane, both ways. */
struct fake_mail {
	uint32_t depth; /* 0: none */
	bool is_started;
	uint64_t id;
	uint32_t posted;  /* by the engine */
	uint32_t granted; /* of those, by the far side */
	uint32_t arrived; /* of those, at the far side */
	uint32_t transfers[FAKE_FAR_MAX];
	uint32_t far_sent, far_granted; /* by the engine */
	uint32_t taken;
	struct rmem_notice coming[FAKE_NOTICES_MAX]; /* far_sent - taken of them */
};

struct rmem_lane_link {
	struct rmem_conn *conn;
	struct rmem_cq *cq;
	unsigned number;
	bool is_in_error;
	uint32_t depth;
	uint32_t in_flight; /* posted, and not known by the engine to have ended */
	uint32_t silent;    /* of those: executed without a completion */
	uint32_t head, count;
	struct rmem_wr *waiting; /* a ring of `depth` */
	struct fake_mail mail;
};

struct fake_state {
	pthread_mutex_t lock; /* of everything */
	enum fake_mode mode;
	struct fake_hooks hooks;
	uint32_t depth_max, cq_depth_max;
	uint64_t incarnations;
	uint32_t keys;
	unsigned violations;
	unsigned open_lanes, open_conns;
	struct rmem_port ports[FAKE_PORTS_MAX];
	struct rmem_mr *mrs[FAKE_MRS_MAX];
	unsigned server_count;
	struct fake_server servers[FAKE_SERVERS_MAX];
	unsigned lane_count;
	struct rmem_lane_link *lanes[FAKE_LANES_MAX];
	pthread_t thread;
	bool has_thread;
};

extern struct fake_state fake;

/* Under the lock. */
struct fake_server *fake_server_at(const char *url); /* made if it is new */
void fake_execute(struct rmem_lane_link *link);
void fake_report(struct rmem_lane_link *link, const struct rmem_completion *completion);
