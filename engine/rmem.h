/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's public header: everything a program needs to move bytes to and from remote memory.
 *
 *	struct rmem_engine *engine;
 *	rmem_engine_create(&options, &engine, &error);
 *	rmem_server_add(engine, "shm:/run/rmemd.sock", &server, &error);
 *	rmem_server_wait(engine, server, 5000, &error);
 *	struct rmem_reactor *reactor = rmem_engine_reactor(engine, 0);
 *	void *page = rmem_staging_get(reactor);
 *	struct rmem_segment segment = { .server = server, .region = 0, .local = page,
 *					.remote = 0, .length = 4096 };
 *	struct rmem_batch batch = { .op = RMEM_WRITE, .segments = &segment,
 *				    .segment_count = 1, .done = my_callback };
 *	rmem_submit(reactor, &batch);
 *	while (!my_flag)
 *		rmem_reactor_run(reactor, -1);
 *
 * Who calls what: an engine is created, used and destroyed by one thread (the "main" thread). A
 * reactor is driven by one thread at a time; every function that takes a reactor must be called by
 * that thread, unless its comment says otherwise. Servers are connected, lost and reconnected by
 * the engine's own control thread; reactors learn of it through a table that is published whole.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/hint.h"

struct rmem_engine;
struct rmem_reactor;
struct rmem_notice;

/* --- Options ---------------------------------------------------------------------------------- */

enum rmem_poll_mode {
	RMEM_POLL_ADAPTIVE, /* spin for spin_us (longer where that pays, see engine/base/spin.h),
				then arm, poll once more and sleep */
	RMEM_POLL_BUSY,	    /* never sleep */
	RMEM_POLL_EVENT,    /* sleep at once */
};

enum rmem_huge_pages {
	RMEM_HUGE_AUTO, /* hugetlbfs, else transparent, else normal pages */
	RMEM_HUGE_OFF,
	RMEM_HUGE_REQUIRE,
};

enum rmem_server_state {
	RMEM_SERVER_CONNECTING, /* never reached so far */
	RMEM_SERVER_UP,
	RMEM_SERVER_DOWN, /* lost; being reconnected */
};

struct rmem_engine_options {
	unsigned reactor_count;
	enum rmem_poll_mode poll;
	unsigned spin_us;
	unsigned lanes;		       /* per endpoint, 1..RMEM_LANES_MAX */
	unsigned depth;		       /* work requests in flight per lane; rounded up to 2^n */
	unsigned post_batch;	       /* work requests per doorbell at most */
	size_t chunk_bytes;	       /* transfers are cut to this; multiple of 4096 */
	unsigned chunks_max;	       /* pieces of one transfer at most */
	size_t staging_slot_bytes;     /* size of one staging slot; multiple of 4096 */
	size_t staging_bytes;	       /* staging arena per reactor */
	size_t stream_threshold_bytes; /* 0: the built-in default */
	enum rmem_huge_pages huge_pages;
	unsigned connect_timeout_ms;
	unsigned detect_ms; /* a dead server is noticed within this */
	unsigned reconnect_min_ms, reconnect_max_ms;
	/* Called on the control thread when a server came up or went down. May be NULL. Must not
	 * block and must not call back into the engine except for the query functions. */
	void (*server_event)(void *user, unsigned server, enum rmem_server_state state);
	/* Notices under way between a reactor and a server, each way, before the receiver has
	 * answered for them: 0 to RMEM_NOTICES_MAX, rounded down to 2^n. 0 (the default): none are
	 * sent or received, and no server is asked for the means. */
	unsigned notices;
	/* Called from rmem_reactor_poll/run of the reactor for each notice that came. May submit.
	 * May be NULL: arrivals are noted all the same. */
	void (*notice)(void *user, struct rmem_reactor *reactor, unsigned server,
		       const struct rmem_notice *notice);
	void *user;
};

#define RMEM_LANES_MAX	  16
#define RMEM_SERVERS_MAX  256
#define RMEM_REGIONS_MAX  64 /* per server */
#define RMEM_REACTORS_MAX 64
#define RMEM_NOTICES_MAX  1024

/* Fills in the defaults (the same as the configuration's). */
void rmem_engine_options_init(struct rmem_engine_options *options);

/* Starts the control thread and creates the reactors with their staging arenas.
 * Errors: -EINVAL (an option out of range, named), -ENOMEM (says which limit to raise). */
int rmem_engine_create(const struct rmem_engine_options *options, struct rmem_engine **engine,
		       struct rmem_error *error) RMEM_MUST_CHECK;

/* Stops the control thread, closes every connection, frees the reactors. No thread may be inside
 * a reactor function any more; batches still in flight are not called back. NULL is fine. */
void rmem_engine_destroy(struct rmem_engine *engine);

/* Says whose content this process keeps in servers' memory: a number that others do not have, such
 * as the uuid of a volume. A server belongs to the first owner that it meets, for as long as it
 * keeps the content, and turns away everybody else, who would write over it. Without an owner only
 * memory that belongs to nobody can be used. Before the first rmem_server_add() of the process. */
#define RMEM_OWNER_BYTES 16
void rmem_owner_set(const uint8_t owner[RMEM_OWNER_BYTES]);

/* --- Servers (any thread) --------------------------------------------------------------------- */

/* Adds a server and starts connecting to it in the background, for ever, with back-off. `*server`
 * is its index in this engine, from 0 in order of addition. The URL is copied.
 * Errors: -EINVAL (malformed URL, unknown fabric), -ENOSPC (RMEM_SERVERS_MAX). */
int rmem_server_add(struct rmem_engine *engine, const char *url, unsigned *server,
		    struct rmem_error *error) RMEM_MUST_CHECK;

/* Waits until the server is up. Errors: -ETIMEDOUT, with the reason of the last failed attempt. */
int rmem_server_wait(struct rmem_engine *engine, unsigned server, unsigned timeout_ms,
		     struct rmem_error *error) RMEM_MUST_CHECK;

struct rmem_region_info {
	uint64_t length; /* bytes */
};

struct rmem_server_info {
	char url[256];
	enum rmem_server_state state;
	uint64_t incarnation;  /* of the last successful connection; 0 before the first */
	unsigned region_count; /* likewise */
	struct rmem_region_info regions[RMEM_REGIONS_MAX];
	/* The server is on this host, and a transfer is a copy made while it is posted: it costs
	 * the caller's time, and nothing is left to wait for. Known from the URL, and constant. */
	bool is_copy;
	char last_error[256]; /* why it is not up; "" when it is */
};

/* Errors: -ENOENT (no such server). */
int rmem_server_info(struct rmem_engine *engine, unsigned server,
		     struct rmem_server_info *info) RMEM_MUST_CHECK;

/* --- Transfers -------------------------------------------------------------------------------- */

/* A small message to the peer, which arrives behind the transfer that it belongs to. */
#define RMEM_NOTICE_BYTES_MAX 64
struct rmem_notice {
	/* A number by which the peer can ask whether this has arrived. Count them up by 1 from one
	 * notice to a peer to the next, and every answer is exact; with other numbers, answers are
	 * about the latest RMEM_ARRIVALS notices or so. Wraps around. */
	uint32_t transfer;
	uint32_t length; /* of the payload: 0 to RMEM_NOTICE_BYTES_MAX */
	uint8_t bytes[RMEM_NOTICE_BYTES_MAX];
};

enum rmem_op {
	RMEM_READ,  /* remote to local */
	RMEM_WRITE, /* local to remote */
};

/* The unit a caller asks for: `length` bytes between `local` and offset `remote` of a region.
 * `local` lies in the reactor's staging arena or in memory from rmem_memory_register(). */
struct rmem_segment {
	void *local;
	uint64_t remote;
	uint64_t length;
	uint32_t region;
	uint16_t server;
	uint16_t reserved;
};

/* A set of segments that completes as one. The caller owns it and the segment array and keeps both
 * unchanged until `done` was called; `done` may free or resubmit them. Segments may go to several
 * servers and regions, and are not ordered among each other. */
struct rmem_batch {
	enum rmem_op op;
	uint32_t segment_count;
	const struct rmem_segment *segments;
	/* Called exactly once, from rmem_reactor_poll/run/flush of the reactor. NULL: see
	 * rmem_batch_status(). `status`: 0; -ECANCELED: see rmem_batch_cancel(); -ENOTCONN: a
	 * server is down or was lost on the way (bytes may have moved); -ERANGE: outside the
	 * region; -EINVAL: no such server or region, memory not registered; -EIO: the fabric
	 * reported an error. The first failure counts; every segment has ended (completed or been
	 * flushed) when `done` is called. */
	void (*done)(struct rmem_batch *batch, int status);
	void *user;

	/* NULL, or what to tell server `notice_server` once all of the batch has been done there.
	 * It travels behind the batch on the same lane, in the same message as its last piece if
	 * that is a write and the notice is empty. Then all segments are that server's; there may
	 * be none. The batch ends when the notice is at the server, whose program may be yet to
	 * look. It is sent unless the batch
	 * fails, and waits, without holding up other batches, while as many as engine.notices are
	 * under way. More errors for `status` then: -EINVAL: too long a notice, or a segment for
	 * another server; -EOPNOTSUPP: the server or the fabric takes no notices. */
	const struct rmem_notice *notice;
	uint16_t notice_server;

	/* Out: which server the first failure was on; valid when status != 0. */
	uint16_t failed_server;

	/* The engine's, from rmem_submit() until `done`. */
	struct {
		struct rmem_batch *next;
		uint32_t segment; /* cursor of what is still to be planned */
		uint32_t
			pending; /* work requests posted and not completed, plus 1 while planning */
		uint64_t offset;
		int32_t status;
		uint32_t lane;
		uint64_t submitted_ns; /* 0: not sampled */
	} engine;
};

/* Hands a batch to the reactor. It is posted at the latest by the next rmem_reactor_flush(), poll
 * or run, together with everything else submitted by then; `done` is never called from within.
 * Never fails: errors arrive through `done`. */
void rmem_submit(struct rmem_reactor *reactor, struct rmem_batch *batch);

/* Posts what was submitted, as far as credits reach; the rest goes when completions free room. */
void rmem_reactor_flush(struct rmem_reactor *reactor);

/* --- Following a batch ------------------------------------------------------------------------ */

/* How a batch that was submitted stands: -EINPROGRESS, or, from when `done` is called on, its
 * status. `done` may be NULL for a batch that is followed so. */
static inline int rmem_batch_status(const struct rmem_batch *batch)
{
	return batch->engine.next == batch ? batch->engine.status : -EINPROGRESS;
}

/* Runs the reactor until the batch has ended. Returns its status, or -ETIMEDOUT, and then it is
 * still under way. `timeout_ms` -1: no limit. */
int rmem_batch_wait(struct rmem_reactor *reactor, const struct rmem_batch *batch,
		    int timeout_ms) RMEM_MUST_CHECK;

/* Gives up what has not been handed to the fabric yet, such as what waits for room or its notice
 * for credit. The batch then ends with -ECANCELED, as soon as what has been handed over ended;
 * until `done` its memory is in use. Errors, and it ends as it would have: -EALREADY (it has
 * ended), -EBUSY (all of it is on its way; that ends within detect_ms). */
int rmem_batch_cancel(struct rmem_reactor *reactor, struct rmem_batch *batch) RMEM_MUST_CHECK;

/* --- Notices that come in -----------------------------------------------------------------------
 */

/* Whether the server's notice with this number has come to this reactor, over the connection that
 * there is now. The reactor takes notices in while it is polled or run. */
#define RMEM_ARRIVALS 2048
bool rmem_notice_has_arrived(const struct rmem_reactor *reactor, unsigned server,
			     uint32_t transfer);

/* Runs the reactor until it has. Errors: -ETIMEDOUT, -ENOTCONN (the server is down or was lost). */
int rmem_notice_wait(struct rmem_reactor *reactor, unsigned server, uint32_t transfer,
		     unsigned timeout_ms) RMEM_MUST_CHECK;

/* --- Local memory ----------------------------------------------------------------------------- */

/* A free slot of the staging arena (options.staging_slot_bytes, page aligned, registered), or
 * NULL when all are taken: wait for a batch to end, then ask again. */
void *rmem_staging_get(struct rmem_reactor *reactor);
void rmem_staging_put(struct rmem_reactor *reactor, void *slot);

/* Registers memory of the caller's for use as `local` by every reactor of the engine; it must stay
 * mapped until unregistered, when no transfer may use it. Main thread, or any thread under the
 * caller's own exclusion against transfers that use the memory. Page aligned.
 * Errors: -EINVAL, -ENOMEM (locked-memory limit, named), -ENOSPC (too many). */
struct rmem_memory;
int rmem_memory_register(struct rmem_engine *engine, void *address, size_t length,
			 struct rmem_memory **memory, struct rmem_error *error) RMEM_MUST_CHECK;
void rmem_memory_unregister(struct rmem_memory *memory);

/* --- Reactors --------------------------------------------------------------------------------- */

unsigned rmem_engine_reactor_count(const struct rmem_engine *engine);
struct rmem_reactor *rmem_engine_reactor(struct rmem_engine *engine, unsigned index);

/* One turn without waiting: posts, polls completions, calls back, runs calls from other threads
 * and timers, and - every few turns, or when asked to by an event - looks at watched descriptors.
 * Returns the number of things done (0: idle). */
unsigned rmem_reactor_poll(struct rmem_reactor *reactor);

/* Turns until something was done or `timeout_ms` passed (-1: no limit), spinning and sleeping as
 * the poll mode says. Returns the number of things done. A signal that interrupts the sleep
 * returns 0. */
unsigned rmem_reactor_run(struct rmem_reactor *reactor, int timeout_ms);

/* Adds a descriptor to what the reactor waits for while it sleeps; `fn` runs on the reactor's
 * thread from poll/run when `events` (EPOLLIN...) are there. While it spins, a descriptor is looked
 * at through `spin_fn` instead when one is given: called every turn, it returns the number of
 * things it did (0: nothing was there). This is how the FUSE device is polled without a system call
 * for epoll. `watch` is the caller's and stays until removed. Errors: those of epoll_ctl. */
struct rmem_watch {
	int fd;
	uint32_t events;
	void (*fn)(struct rmem_watch *watch, uint32_t events);
	unsigned (*spin_fn)(struct rmem_watch *watch);
	void *user;
	struct rmem_watch *next; /* the reactor's, as is the next */
	bool is_counted;
};
int rmem_reactor_watch(struct rmem_reactor *reactor, struct rmem_watch *watch) RMEM_MUST_CHECK;
void rmem_reactor_unwatch(struct rmem_reactor *reactor, struct rmem_watch *watch);

/* Any thread: runs `fn` on the reactor's thread soon, waking it if it sleeps. `call` is the
 * caller's and must stay until `fn` starts (fn may free it). Calls of one thread run in order. */
struct rmem_call {
	void (*fn)(struct rmem_call *call);
	struct rmem_call *next; /* the queue's */
};
void rmem_reactor_call(struct rmem_reactor *reactor, struct rmem_call *call);

/* A one-shot timer on the reactor's thread. Setting a set timer moves it. */
struct rmem_timeout {
	uint64_t due_ns; /* the reactor's; 0: not set */
	void (*fn)(struct rmem_timeout *timeout);
	struct rmem_timeout *next;
};
void rmem_timeout_set(struct rmem_reactor *reactor, struct rmem_timeout *timeout,
		      unsigned delay_ms);
void rmem_timeout_cancel(struct rmem_reactor *reactor, struct rmem_timeout *timeout);

/* What the reactor counted, and how long its batches took in ns: see stats.h. Any thread. Latencies
 * are sampled, and only while rmem_timer_set(RMEM_LOG_ENGINE, true) is in force. */
struct rmem_stats;
struct rmem_histogram;
const struct rmem_stats *rmem_reactor_stats(const struct rmem_reactor *reactor);
const struct rmem_histogram *rmem_reactor_latency(const struct rmem_reactor *reactor,
						  enum rmem_op op);
