/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the verbs provider share; only they include this.
 *
 *	fabric_verbs.c		the data path: queues, posting, polling, and the provider's table
 *	fabric_verbs_port.c	devices: registration, asynchronous events
 *	fabric_verbs_limits.c	what they can do
 *	fabric_verbs_address.c	from a name to an address, and to the device that leads there
 *	fabric_verbs_cm.c	queue pairs and the connection manager, for both sides
 *	fabric_verbs_control.c	a client's conversation with a server
 *	fabric_verbs_conn.c	a client's connections and lanes
 *	fabric_verbs_mail.c	notices, on either side of a lane
 *	fabric_verbs_server.c	the server's door
 *	fabric_verbs_device.c	the devices that it exports the pool through
 *	fabric_verbs_guest.c	the server's half of one client
 *	fabric_verbs_post.c	the server's half of notices
 *
 * Queue pairs are made and moved by hand (rdma_cm only carries the connection), because that is the
 * way to choose timeouts, the RNR timer and the path MTU: what rdma_cm leaves at 0 means 655 ms of
 * silence for the RNR timer. A lane is a connection of its own, and so is control, of which each
 * client has one; its end is the end of the client.
 *
 * A client's event channel belongs to one connection, so that connections that are made side by
 *side never wait for each other's events. Every wait is a poll() with a deadline. */
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "engine/control.h"
#include "engine/fabric.h"
#include "engine/notify.h"
#include "engine/rmem.h"
#include "engine/verbs.h"

#define VERBS_DETECT_MS	       2000 /* where nobody says how long */
#define VERBS_WHERE_BYTES      300
#define VERBS_CHAIN_MAX	       128 /* requests translated at a time */
#define VERBS_DEPTH_MAX	       32769
#define VERBS_CQ_DEPTH_MIN     256
#define VERBS_PRIVATE_MAX      256
#define VERBS_CONTROL_RECEIVES 4

struct rmem_mr {
	struct ibv_mr *mr;
};

/* --- Notices -----------------------------------------------------------------------------------
 * A notice is a SEND with its number as the immediate value and its payload as the message; an
 * empty one behind a write is the write's own immediate value. A grant is a SEND without one.
 * Either takes a receive at the peer, which has posted as many as may be under way.
 *
 * Work requests of notices' own have the top bit of their ids set, which the engine's have not:
 * | 1 | serial of the mail 32, at bit 16 | what 16 |; what is below VERBS_MAIL_GRANT is the number
 * of a receive. By the serial a completion finds its mail, or that it is gone: a device may still
 * deliver some of a queue pair that is. */
#define VERBS_MAIL_BIT	   ((uint64_t)1 << 63)
#define VERBS_MAIL_GRANT   0x8000u
#define VERBS_MAIL_SEND	   0x8001u
#define VERBS_GRANTS	   4	/* sends for them */
#define VERBS_GRANT_SPARES 2	/* receives for them: more are never under way, see notify.h */
#define VERBS_MAIL_SLOTS   4096 /* lanes with notices on a queue; 2^n */

/* What came and has not been taken. */
struct verbs_letter {
	uint32_t transfer;
	uint16_t receive;
	uint16_t length;
};

/* One side of a lane's notices; used by the thread that polls the queue. */
struct verbs_mail {
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *memory; /* of receives, then of sends where they can't go inline */
	uint32_t serial;
	uint32_t depth;
	uint32_t mask; /* of letters */
	uint32_t head, tail;
	uint32_t sent;
	uint32_t owed;	      /* to be granted, when a send is free */
	uint32_t grants_busy; /* sends of them under way */
	uint32_t grants_sent;
	bool can_inline;
	uint64_t id; /* to report with */
	struct verbs_letter *letters;
};

/* Of one queue, by serial. */
struct verbs_mails {
	struct verbs_mail *slots[VERBS_MAIL_SLOTS]; /* used by the thread that polls the queue */
	bool is_taken[VERBS_MAIL_SLOTS];	    /* by a lane that is open */
};

static inline struct verbs_mail **verbs_mail_slot(struct verbs_mails *mails, uint64_t wr_id)
{
	return &mails->slots[wr_id >> 16 & (VERBS_MAIL_SLOTS - 1)];
}

static inline bool verbs_mail_is(const struct verbs_mail *mail, uint64_t wr_id)
{
	return mail != NULL && mail->serial == (uint32_t)(wr_id >> 16);
}

struct rmem_cq {
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel;
	unsigned unacked;      /* events; to acknowledge one takes a lock, so many are at once */
	atomic_bool is_broken; /* written by whoever reads the device's events */
	/* Those between notices_start() and notices_stop(). Made by the first lane that wants
	 * notices, and published with release. */
	_Atomic(struct verbs_mails *) mails;
};

struct rmem_port {
	struct rmem_port *next; /* with users and next under the lock of all ports */
	unsigned users;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *anchor; /* bound to the device, which keeps it open */
	struct ibv_context *context;
	struct ibv_pd *pd;
	char name[64];
	bool has_limits;
	struct rmem_port_limits limits;
	uint8_t reads_max; /* in flight on one lane */
	unsigned next_vector;
	pthread_mutex_t lock; /* of connections and of reading the device's events */
	LIST_HEAD(, rmem_conn) conns;
};

/* One connected queue pair. */
struct verbs_leg {
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	bool is_over; /* it was connected, and is no longer */
	/* The last event about it, until it is taken. */
	bool has_event;
	enum rdma_cm_event_type event;
	int status;
	uint8_t private_length;
	uint8_t private_data[VERBS_PRIVATE_MAX];
};

/* How a queue pair behaves; codes of the specification. */
struct verbs_timing {
	uint8_t ack_timeout;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t rnr_timer;
	uint8_t reads_served; /* of the peer, at a time */
	uint32_t mtu_bytes;   /* in: at most; out: what it is */
};

struct verbs_control {
	struct rmem_port *port;
	struct rdma_event_channel *channel; /* of all legs of the connection */
	struct verbs_leg leg;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	unsigned unacked;
	struct ibv_mr *mr;
	uint8_t *memory; /* messages that come, then the one that goes */
	bool is_sending;
	bool is_probing;
	uint64_t probe_ns; /* since when a sign of life is waited for */
	uint64_t token;
	uint64_t deadline_ns;
	struct sockaddr_storage peer;
	char where[VERBS_WHERE_BYTES]; /* for messages */
};

struct rmem_lane_link {
	struct ibv_qp *qp;
	struct ibv_send_wr *wrs; /* chain_max of them, linked for good */
	struct ibv_sge *sges;	 /* RMEM_SGE_MAX for each */
	uint32_t chain_max;
	uint64_t chain_bytes; /* of what is translated */
	uint32_t sge_max;
	uint32_t inline_bytes;
	struct verbs_leg leg;
	struct rmem_conn *conn;
	LIST_ENTRY(rmem_lane_link) link; /* in conn->lanes */
	struct rmem_cq *cq;
	struct verbs_mail *mail; /* NULL: no notices */
};

struct rmem_conn {
	struct verbs_control control;
	unsigned timeout_ms; /* of one lane's connection */
	uint64_t incarnation;
	bool has_notices; /* the server can do them */
	uint32_t region_count;
	struct rmem_remote regions[RMEM_REGIONS_MAX];
	int epoll_fd; /* of all below, the event channel, and control's completions */
	int news_fd;  /* somebody else has read about us in the device's events */
	int timer_fd; /* time to see whether the server answers */
	int lost;     /* 0, or why it is over */
	unsigned detect_ms;
	atomic_int trouble; /* what was read: -errno */
	LIST_HEAD(, rmem_lane_link) lanes;
	LIST_ENTRY(rmem_conn) link; /* in port->conns, under its lock */
};

/* --- fabric_verbs.c ----------------------------------------------------------------------------
 */

enum rmem_wc_status verbs_wc_status(enum ibv_wc_status status);

/* --- fabric_verbs_mail.c -----------------------------------------------------------------------
 */

/* For `depth` notices each way, with memory registered. Errors: -ENOMEM, and as verbs_register().
 */
int verbs_mail_create(struct ibv_pd *pd, uint32_t depth, uint32_t serial, struct verbs_mail **mail,
		      struct rmem_error *error);
/* The queue pair is gone. NULL is fine. */
void verbs_mail_destroy(struct verbs_mail *mail);
/* Takes the queue pair, on which notices go inline if that can be, and posts all receives. */
int verbs_mail_begin(struct verbs_mail *mail, struct ibv_qp *qp, bool can_inline);

struct verbs_payload {
	uint32_t transfer;
	const void *bytes;
	uint32_t length;
};
/* The parts of a notice's request that are not the caller's: opcode, immediate value, payload. The
 * flags have been set. */
void verbs_mail_fill(struct verbs_mail *mail, const struct verbs_payload *payload,
		     struct ibv_send_wr *wr, struct ibv_sge *sge);
void verbs_mail_grant(struct verbs_mail *mail, uint32_t count);

enum verbs_news {
	VERBS_NEWS_NONE,
	VERBS_NEWS_NOTICE,
	VERBS_NEWS_GRANT,
	VERBS_NEWS_SENT,
	VERBS_NEWS_BROKEN, /* the queue pair is in error; nothing is said of how it ends */
};
/* What a completion with the mail's serial means; `*count` is how many a grant is for. */
enum verbs_news verbs_mail_complete(struct verbs_mail *mail, const struct ibv_wc *wc,
				    uint32_t *count);
void verbs_mail_take(struct verbs_mail *mail, struct rmem_notice *notice);

/* The client's: gets the lane ready for up to `notices`; the answer said `depth`. */
int verbs_mailbox_open(struct rmem_lane_link *link, uint32_t notices, struct rmem_error *error);
int verbs_mailbox_begin(struct rmem_lane_link *link, uint32_t depth, uint32_t inline_bytes,
			struct rmem_error *error);
void verbs_mailbox_close(struct rmem_lane_link *link);
/* The completion of a mail's own; up to one completion for the engine. */
unsigned verbs_mailbox_complete(struct rmem_cq *cq, const struct ibv_wc *wc,
				struct rmem_completion *completion);
uint32_t verbs_lane_notices(const struct rmem_lane_link *link);
void verbs_notices_start(struct rmem_lane_link *link, uint64_t id);
void verbs_notices_stop(struct rmem_lane_link *link);
void verbs_notice_take(struct rmem_lane_link *link, struct rmem_notice *notice);
void verbs_lane_grant(struct rmem_lane_link *link, uint32_t count);

/* --- fabric_verbs_port.c -----------------------------------------------------------------------
 */

int verbs_port_open(const char *url, struct rmem_port **port, struct rmem_error *error);
/* The same for control alone: nobody finds out the limits, which takes a while. */
int verbs_port_open_bare(const char *url, struct rmem_port **port, struct rmem_error *error);
void verbs_port_close(struct rmem_port *port);
void verbs_port_limits(const struct rmem_port *port, struct rmem_port_limits *limits);
int verbs_mr_register(struct rmem_port *port, void *address, size_t length, struct rmem_mr **mr,
		      struct rmem_error *error);
void verbs_mr_unregister(struct rmem_mr *mr);
uint32_t verbs_mr_key(const struct rmem_mr *mr);

/* Finds out the port's limits, if it has none yet. Under the lock of all ports. */
int verbs_limits_get(struct rmem_port *port, struct rmem_error *error);

/* Takes in the device's events and tells the connections that they concern. */
void verbs_port_look(struct rmem_port *port);

/* What the device is asked to register. */
struct verbs_stretch {
	void *address;
	size_t length;
	uint64_t remote_address; /* by which peers know it */
	int access;
};
/* Explains why it can't. NULL then. */
struct ibv_mr *verbs_register(struct ibv_pd *pd, const struct verbs_stretch *stretch,
			      struct rmem_error *error);

/* --- fabric_verbs_address.c --------------------------------------------------------------------
 */

#define HOW_TO_MAKE_A_DEVICE                                                                       \
	"soft-RoCE makes one of any Ethernet interface: modprobe rdma_rxe; "                       \
	"rdma link add rxe0 type rxe netdev eth0"

/* A channel for events that is read without waiting. Errors: no RDMA here, and what to do. */
int verbs_channel_open(struct rdma_event_channel **channel, struct rmem_error *error);
/* The connection manager doesn't tell a device that this user may not open from none: -EACCES and
 * the name of the first that it may not, or 0. */
int verbs_closed_device(const char *where, struct rmem_error *error);
/* What it means that an address leads to no device. */
int verbs_no_device(const char *where, int code, struct rmem_error *error);

/* Looks the host up. Errors: -EHOSTUNREACH. */
int verbs_resolve(const struct rmem_verbs_address *address, struct sockaddr_storage *found,
		  struct rmem_error *error);
/* "10.0.0.1" into `text`. */
void verbs_address_text(const struct sockaddr *address, char *text, size_t size);
/* The local address from which `peer` is reached; an unset one (family 0) leaves it to the kernel.
 */
int verbs_source(const struct sockaddr *peer, const char *where, struct sockaddr_storage *source,
		 struct rmem_error *error);

/* --- fabric_verbs_cm.c -------------------------------------------------------------------------
 */

int verbs_qp_init(struct rdma_cm_id *id, struct ibv_qp *qp);
/* Makes it ready to receive and to send. Errors: those of the device. */
int verbs_qp_ready(struct rdma_cm_id *id, struct ibv_qp *qp, struct verbs_timing *timing);
/* Everything outstanding is flushed. Any thread. */
void verbs_qp_abort(struct ibv_qp *qp);

/* For a peer that is dead when it hasn't answered for `detect_ms`. */
void verbs_timing_init(struct verbs_timing *timing, unsigned detect_ms);

/* Takes one event off the channel into the leg that it is about. -EAGAIN: there is none. */
int verbs_take_event(struct rdma_event_channel *channel);

struct verbs_dial {
	struct rmem_port *port;
	struct rdma_event_channel *channel;
	const struct sockaddr *peer;
	const char *where;
	uint64_t deadline_ns;
	uint64_t try_ns; /* of this try */
	struct ibv_qp_init_attr qp;
	struct verbs_timing timing;
	struct rmem_join join; /* what to say; mtu_bytes is filled in */
};
/* Makes a leg: resolves, connects, and has the answer in `answer`. Errors: -ECONNREFUSED (nobody
 * listens), -EHOSTUNREACH, -ETIMEDOUT, -EPROTO, -EBUSY, those of the device. */
int verbs_dial(struct verbs_dial *dial, struct verbs_leg *leg, struct rmem_join *answer,
	       struct rmem_error *error);
/* Of any state; NULL parts are fine. */
void verbs_leg_close(struct verbs_leg *leg);

/* --- fabric_verbs_control.c --------------------------------------------------------------------
 */

/* Connects to the server at `url` by `deadline_ns`. Closed by verbs_control_close() also when it
 * failed; `control` is zeroed before. */
int verbs_control_open(struct verbs_control *control, struct rmem_port *port, const char *url,
		       uint64_t deadline_ns, struct rmem_error *error);
void verbs_control_close(struct verbs_control *control);
/* As rmem_control_ask(). */
int verbs_control_ask(struct verbs_control *control, const void *request, size_t length,
		      enum rmem_wire_type wanted, struct rmem_control_message *answer,
		      struct rmem_error *error);
/* Looks at what came without being asked for: 0, or why the server is gone. */
int verbs_control_look(struct verbs_control *control);
/* Sees to it that control's next completion makes `completions` readable. */
int verbs_control_arm(struct verbs_control *control);
/* Asks for a sign of life. 0, or -ETIMEDOUT when it is asked for already, for at least
 * `patience_ms`. */
int verbs_control_probe(struct verbs_control *control, unsigned patience_ms);
/* Asks the server at `url` for its STATUS, without a connection to stay. */
int verbs_ask(const char *url, uint64_t deadline_ns, struct rmem_control_message *answer,
	      struct rmem_error *error);

/* --- fabric_verbs_conn.c -----------------------------------------------------------------------
 */

int verbs_connect(struct rmem_port *port, const char *url, unsigned timeout_ms,
		  struct rmem_conn **conn, struct rmem_error *error);
void verbs_conn_info(const struct rmem_conn *conn, struct rmem_conn_info *info);
int verbs_conn_fd(const struct rmem_conn *conn);
int verbs_conn_alive(struct rmem_conn *conn);
void verbs_disconnect(struct rmem_conn *conn);
int verbs_lane_open(struct rmem_conn *conn, struct rmem_cq *cq,
		    const struct rmem_lane_options *options, struct rmem_lane_link **link,
		    struct rmem_error *error);
void verbs_lane_close(struct rmem_lane_link *link);
