/* SPDX-License-Identifier: Apache-2.0 */
/* The provider interface: what the engine asks of something that moves bytes.
 *
 * A fabric (struct rmem_fabric, one static table per provider) makes ports. A port is one local
 * device with its protection domain: local memory is registered with a port, completion queues
 * and lanes belong to one. A connection leads from a port to one server; it carries the control
 * exchange (version, regions, incarnation) and reports the peer's end. Lanes hang off a
 * connection, one queue pair each, and complete into the completion queue of their reactor.
 *
 * Contract of every provider (tests/unit/test_fabric_conformance.c, test_fabric_queues.c,
 * test_fabric_notices.c and test_fabric_errors.c hold all of them to it):
 *  - a lane executes its work requests in order and completes them in order; an unsignaled one
 *    completes silently with the next signaled one; an unsignaled one that fails completes with an
 *    error and its own id;
 *  - after a failed completion or an abort the lane is in error: nothing moves bytes any more, and
 *    every request that has not run completes with RMEM_WC_FLUSHED, also without a signal; those
 *    that have run without a signal may do so, too, or end silently with the next that completes;
 *  - a lane in error still takes requests, the one with no SGE included, and flushes them in turn:
 *    the engine posts a last signaled one behind all others, and when that one comes back flushed
 *    nothing of the lane's is outstanding any more;
 *  - post() takes as many requests of the chain as there is room for and says where it stopped;
 *    -EAGAIN is "queue full, try after a completion" and nothing else. The chain is the caller's
 *    again when post() returns;
 *  - no call on the data path blocks, allocates or locks.
 *
 * Which thread: post, poll, arm, ack and resize: the reactor that owns lane and queue. Everything
 * else: threads of the engine's control side. Of those calls, the ones on a connection and its
 * lanes come from one thread at a time, but connections are made side by side; port_open, mr_* and
 * cq_create come one at a time in the whole engine; and all of them come while reactors are
 * polling the queues that new or closed lanes belong to. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/hint.h"

struct rmem_port;
struct rmem_mr; /* local memory, registered with one port */
struct rmem_cq;
struct rmem_conn;
struct rmem_lane_link; /* the provider's half of a lane */
struct rmem_listener;

#define RMEM_SGE_MAX 8

enum rmem_wr_op {
	RMEM_WR_READ,
	RMEM_WR_WRITE,
	/* A write, and an empty notice with it. */
	RMEM_WR_WRITE_NOTICE,
	/* A notice: its bytes, of RMEM_NOTICE_BYTES_MAX at most in one SGE or none, are taken when
	 * it is posted, and need no key. Nothing remote is named. */
	RMEM_WR_NOTICE,
};

enum rmem_wr_flags {
	RMEM_WR_SIGNALED = 1,
	RMEM_WR_INLINE = 2,
	RMEM_WR_FENCE = 4, /* not before earlier reads of the lane have ended */
};

struct rmem_sge {
	void *address;
	uint32_t length;
	uint32_t key; /* from rmem_mr_key() */
};

/* A region as the peer described it; `address` is what the fabric adds offsets to. */
struct rmem_remote {
	uint64_t address;
	uint64_t length;
	uint32_t key;
	uint32_t id;
};

struct rmem_wr {
	struct rmem_wr *next;
	uint64_t id;		 /* its top bit is the provider's, and clear here */
	uint64_t remote_address; /* remote->address + offset */
	uint32_t remote_key;
	uint8_t op;
	uint8_t flags;
	uint16_t sge_count;
	struct rmem_sge sge[RMEM_SGE_MAX];
	uint32_t transfer; /* of a notice */
	uint32_t reserved;
};

enum rmem_wc_status {
	RMEM_WC_OK,
	RMEM_WC_FLUSHED,       /* the lane was in error */
	RMEM_WC_REMOTE_ACCESS, /* bad key or out of range at the peer */
	RMEM_WC_LOCAL_ERROR,   /* bad local key or length */
	RMEM_WC_PEER_LOST,     /* retries exhausted, peer gone */
	RMEM_WC_OTHER,
	/* Not about a request: see notices_start(). */
	RMEM_WC_NOTICE, /* one has come in, and is to be taken */
	RMEM_WC_GRANT,	/* the peer takes `provider_status` more */
};

struct rmem_completion {
	uint64_t id;
	enum rmem_wc_status status;
	uint32_t provider_status; /* the fabric's own code, for the log */
};

struct rmem_port_limits {
	uint32_t depth_max; /* work requests per lane */
	uint32_t sge_max;
	uint32_t inline_max_bytes;
	uint32_t cq_depth_max;
	uint64_t message_max_bytes;
};

struct rmem_conn_info {
	uint64_t incarnation;
	uint32_t region_count;
	const struct rmem_remote *regions; /* the connection's, until disconnect */
};

struct rmem_lane_options {
	uint32_t depth; /* requests outstanding at most, unsignaled ones included */
	uint32_t inline_bytes;
	uint32_t detect_ms; /* a peer that stopped answering must fail requests within this */
	/* Where the processor copies, writes from this length on go past its caches; 0: the
	 * built-in threshold. */
	size_t stream_bytes;
	/* Notices under way each way, wanted: the lane may get fewer. 2^n, or 0: none. */
	uint32_t notices;
};

/* Completions that a lane with `notices` may cause besides those of requests. */
#define RMEM_NOTICE_COMPLETIONS(notices) ((notices) > 0 ? (notices) + 8 : 0)

struct rmem_notice;

struct rmem_fabric {
	const char *scheme; /* of the URL: "shm", "verbs" */

	/* Transfers are copies that lane_post() makes itself, with this processor: when it returns,
	 * the bytes have moved. Copying them elsewhere first, to answer early, can only cost. */
	bool is_copy;

	/* The port that leads to `url`: made if need be, and shared by URLs that use the same
	 * device: those get the same pointer, and close it once for each time they opened it.
	 * Checks the URL; doesn't wait for the peer. Errors: -EINVAL, -ENODEV, ... */
	int (*port_open)(const char *url, struct rmem_port **port, struct rmem_error *error);
	void (*port_close)(struct rmem_port *port);
	void (*port_limits)(const struct rmem_port *port, struct rmem_port_limits *limits);

	int (*mr_register)(struct rmem_port *port, void *address, size_t length,
			   struct rmem_mr **mr, struct rmem_error *error);
	void (*mr_unregister)(struct rmem_mr *mr);
	uint32_t (*mr_key)(const struct rmem_mr *mr);

	/* A queue that never overruns as long as at most `depth` requests are outstanding on it. */
	int (*cq_create)(struct rmem_port *port, uint32_t depth, struct rmem_cq **cq,
			 struct rmem_error *error);
	/* Grows it; no completion is lost. */
	int (*cq_resize)(struct rmem_cq *cq, uint32_t depth, struct rmem_error *error);
	void (*cq_destroy)(struct rmem_cq *cq);
	/* Up to `count` completions; 0 none; -errno the queue is broken. */
	int (*cq_poll)(struct rmem_cq *cq, struct rmem_completion *completions, unsigned count);
	/* Descriptor that becomes readable after cq_arm() once a completion arrives. After arming,
	 * poll once more: what arrived before is not announced. cq_ack() consumes the event. */
	int (*cq_fd)(const struct rmem_cq *cq);
	int (*cq_arm)(struct rmem_cq *cq);
	void (*cq_ack)(struct rmem_cq *cq);

	/* Connects and exchanges regions within `timeout_ms`. Errors: -ECONNREFUSED, -ENOENT,
	 * -ETIMEDOUT, -EPROTO (the peer is no rmemd, or of another version), ... */
	int (*connect)(struct rmem_port *port, const char *url, unsigned timeout_ms,
		       struct rmem_conn **conn, struct rmem_error *error);
	void (*conn_info)(const struct rmem_conn *conn, struct rmem_conn_info *info);
	/* Descriptor that becomes readable when something happened to the connection;
	 * conn_alive() then looks: 0, or the reason for which it is over. */
	int (*conn_fd)(const struct rmem_conn *conn);
	int (*conn_alive)(struct rmem_conn *conn);
	/* All lanes must have been closed. */
	void (*disconnect)(struct rmem_conn *conn);

	int (*lane_open)(struct rmem_conn *conn, struct rmem_cq *cq,
			 const struct rmem_lane_options *options, struct rmem_lane_link **link,
			 struct rmem_error *error);
	/* Posts a chain. 0, or -errno with *bad the first request that was not taken. */
	int (*lane_post)(struct rmem_lane_link *link, struct rmem_wr *chain, struct rmem_wr **bad);
	/* Puts the lane in error: what has not run is flushed. Any thread. */
	void (*lane_abort)(struct rmem_lane_link *link);
	/* Nothing may be outstanding. */
	void (*lane_close)(struct rmem_lane_link *link);

	/* Notices; NULL in a fabric that has none. A lane may send as many as lane_notices() says,
	 * then as many more as grants say; posting more than that is a programming error. Each side
	 * grants what it has taken, in its own time: a receiver is never overrun.
	 * The thread that polls the lane's queue starts them, with the id that the queue is to
	 * report theirs with, and stops them before it lets go of the lane. In between it takes
	 * each notice as it is reported, in the order of the reports, before the next poll. */
	uint32_t (*lane_notices)(const struct rmem_lane_link *link); /* 0: the peer takes none */
	void (*notices_start)(struct rmem_lane_link *link, uint64_t id);
	void (*notices_stop)(struct rmem_lane_link *link);
	void (*notice_take)(struct rmem_lane_link *link, struct rmem_notice *notice);
	/* Lets the peer send `count` more, at once or soon; no more than were taken. */
	void (*notices_grant)(struct rmem_lane_link *link, uint32_t count);
};

/* The provider for a URL, by its scheme; NULL when there is none. */
const struct rmem_fabric *rmem_fabric_find(const char *url);

/* Says why there is none. Returns -EINVAL. */
int rmem_fabric_unknown(const char *url, struct rmem_error *error);

extern const struct rmem_fabric rmem_fabric_shm;
extern const struct rmem_fabric rmem_fabric_verbs; /* where RMEM_VERBS is 1 */
