/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the shm provider share: fabric_shm.c has the data path, fabric_shm_conn.c
 * ports, registration and connections, fabric_shm_mail.c notices.
 *
 * The server's pool is mapped here, and a request is executed by the reactor inside lane_post(): a
 * copy needs a processor, and the reactor's is the one that has the request in its cache. Nothing
 * is stored but completions, each with the number of requests that it retires; polling them is what
 * makes room in the lane, as it is with a network card. So order, credits and errors are those of a
 * queue pair, and a request costs its checks, its copy and no more.
 *
 * A queue and the lanes on it are written by their reactor alone, but for two atomics: the `state`
 * of a lane, which any thread may end, and the number of lanes of a queue. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "engine/fabric.h"
#include "engine/fabric_shm_notices.h"
#include "engine/rmem.h"
#include "engine/stream_policy.h"

#define SHM_MR_MAX	      1024 /* a power of two */
#define SHM_DEPTH_MAX	      65536
#define SHM_CQ_DEPTH_MAX      (1u << 24)
#define SHM_INLINE_MAX_BYTES  64
#define SHM_MESSAGE_MAX_BYTES ((uint64_t)1 << 30)

/* Local memory. A key is the index in its low bits and a generation above them, so that the key of
 * memory that was unregistered does not fit what took its place. `key` is stored with release
 * after the rest and loaded with acquire before it. */
struct shm_mr_entry {
	_Atomic(uint32_t) key; /* 0: free */
	uint32_t generation;
	uintptr_t base;
	size_t length;
	uint64_t padding; /* a size that is shifted to, not multiplied */
};

struct rmem_port {
	pthread_mutex_t lock; /* users and taking entries */
	unsigned users;
	struct rmem_stream_policy stream_policy; /* of the pools' memory */
	struct shm_mr_entry mrs[SHM_MR_MAX];
};

struct rmem_mr {
	struct shm_mr_entry *entry;
	uint32_t key;
};

/* A completion and what polling it gives back. */
struct shm_cqe {
	struct rmem_completion completion;
	struct rmem_lane_link *link;
	uint32_t retires; /* requests of the lane */
};

struct rmem_cq {
	struct shm_cqe *ring;
	uint32_t mask;
	uint32_t head, tail;  /* free running; tail - head completions wait */
	uint32_t outstanding; /* requests posted and not retired: what may yet complete */
	bool is_armed;
	int event_fd;
	_Atomic(struct shm_mail *) mail; /* NULL until a lane on it wants notices */
	atomic_uint lanes;		 /* open on it */
	int epoll_fd;			 /* event_fd and what servers wake it by */
};

enum shm_lane_state {
	SHM_LANE_RUNNING,
	SHM_LANE_ERROR, /* for good */
};

struct shm_region {
	uint64_t address;
	uint64_t length;
	uint8_t *map;
	uint32_t key; /* the region's index is in its low bits */
};

struct rmem_lane_link {
	atomic_int state; /* enum shm_lane_state; any thread may end it */
	const struct shm_region *regions;
	const struct shm_mr_entry *mrs;
	struct rmem_cq *cq;
	uint32_t depth;
	uint32_t in_flight; /* posted, and their completion not polled yet */
	uint32_t uncovered; /* of them: executed, with no completion behind them */
	uint32_t inline_bytes;
	uint64_t stream_bytes; /* writes of whole pages from this on may go past the caches */
	uint64_t watch_bytes;  /* requests from this on are noted for deciding that */
	struct rmem_stream_policy *stream_policy; /* the port's */
	struct rmem_conn *conn;
	LIST_ENTRY(rmem_lane_link) link; /* in conn->lanes, under its lock */
	struct shm_mailbox *box;	 /* NULL: no notices */
	int wake_fd;			 /* by which the server wakes the reactor; or -1 */
};

struct shm_mapping {
	void *map;
	size_t bytes;
};

struct rmem_conn {
	int fd;
	char *path;
	unsigned timeout_ms;
	bool has_notices;			  /* the server can do them */
	const struct shm_mr_entry *mrs;		  /* the port's */
	struct rmem_stream_policy *stream_policy; /* likewise */
	uint64_t incarnation;
	uint32_t region_count;
	struct rmem_remote remotes[RMEM_REGIONS_MAX];
	struct shm_mapping mappings[RMEM_REGIONS_MAX];
	/* Those that do not exist have key 0 and length 0. */
	struct shm_region regions[RMEM_REGIONS_MAX];
	/* The file behind the mappings was cut: what was copied since went nowhere. Set by the
	 * guard's signal handler, seen by whoever copied. */
	atomic_bool is_cut;
	pthread_mutex_t lock;
	int lost; /* 0, or why it is over; under the lock */
	LIST_HEAD(, rmem_lane_link) lanes;
};

/* fabric_shm_conn.c */
int shm_port_open(const char *url, struct rmem_port **port, struct rmem_error *error);
void shm_port_close(struct rmem_port *port);
void shm_port_limits(const struct rmem_port *port, struct rmem_port_limits *limits);
int shm_mr_register(struct rmem_port *port, void *address, size_t length, struct rmem_mr **mr,
		    struct rmem_error *error);
void shm_mr_unregister(struct rmem_mr *mr);
uint32_t shm_mr_key(const struct rmem_mr *mr);
int shm_connect(struct rmem_port *port, const char *url, unsigned timeout_ms,
		struct rmem_conn **conn, struct rmem_error *error);
void shm_conn_info(const struct rmem_conn *conn, struct rmem_conn_info *info);
int shm_conn_fd(const struct rmem_conn *conn);
int shm_conn_alive(struct rmem_conn *conn);
void shm_disconnect(struct rmem_conn *conn);

/* fabric_shm.c */
void shm_lane_abort(struct rmem_lane_link *link);

/* fabric_shm_mail.c */
/* What a poll looks up: the queue's, or NULL. In fabric_shm_context.c, by itself, as is all that
 * tools/ablation/ replaces to tell what it is worth. */
struct shm_mail *shm_mail_of(const struct rmem_cq *cq);
void shm_mail_destroy(struct shm_mail *mail);
void shm_mail_arm(struct shm_mail *mail);
unsigned shm_mail_poll(struct shm_mail *mail, struct rmem_completion *completions, unsigned count);
/* Asks the server for notices on a lane; what was made is closed by shm_mailbox_close(), also when
 * it failed. */
int shm_mailbox_open(struct rmem_lane_link *link, uint32_t notices, struct rmem_error *error);
void shm_mailbox_close(struct rmem_lane_link *link);
/* False: the lane has none. */
bool shm_mailbox_send(struct rmem_lane_link *link, const struct rmem_wr *wr);
uint32_t shm_lane_notices(const struct rmem_lane_link *link);
void shm_notices_start(struct rmem_lane_link *link, uint64_t id);
void shm_notices_stop(struct rmem_lane_link *link);
void shm_notice_take(struct rmem_lane_link *link, struct rmem_notice *notice);
void shm_lane_grant(struct rmem_lane_link *link, uint32_t count);
