/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/reactor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "engine/base/timer.h"

#define TICK_TURNS   32	  /* turns between looks at clock and descriptors; 2^n */
#define QUIESCE_MS   2000 /* for what is outstanding at the end */
#define CQ_DEPTH_MIN 256

/* --- Queues and tables ------------------------------------------------------------------------ */

static void acknowledge(struct rmem_watch *watch, uint32_t events)
{
	struct rmem_queue *queue = watch->user;

	(void)events;
	queue->port->fabric->cq_ack(queue->cq);
}

static void add_queue(struct rmem_reactor *reactor, const struct rmem_port_entry *port)
{
	struct rmem_queue *queue = &reactor->queues[reactor->queue_count++];

	*queue = (struct rmem_queue){
		.poll = port->fabric->cq_poll,
		.cq = port->cqs[reactor->index],
		.port = port,
		.depth = 1,
		.watch = {.events = EPOLLIN, .fn = acknowledge, .user = queue},
	};
	queue->watch.fd = port->fabric->cq_fd(queue->cq);
	if (queue->watch.fd >= 0 && rmem_waiter_watch_sleeping(&reactor->waiter, &queue->watch))
		reactor->poll = RMEM_POLL_BUSY; /* sleeping would miss it */
}

/* Sees to it that the queue can hold all that its endpoints may cause. */
static int reserve(struct rmem_queue *queue, uint32_t more, struct rmem_error *error)
{
	uint64_t wanted = (uint64_t)queue->wanted + more;
	uint64_t depth = queue->depth > CQ_DEPTH_MIN ? queue->depth : CQ_DEPTH_MIN;
	uint32_t max = queue->port->limits.cq_depth_max;
	int rc;

	if (wanted > max)
		return rmem_fail(error, ENOSPC,
				 "the completion queue would need %llu entries and the device has "
				 "%u: lower engine.depth or engine.lanes",
				 (unsigned long long)wanted, max);
	while (depth < wanted)
		depth *= 2;
	depth = rmem_min_u64(depth, max);
	if (depth > queue->depth) {
		rc = queue->port->fabric->cq_resize(queue->cq, (uint32_t)depth, error);
		if (rc)
			return rc;
		queue->depth = (uint32_t)depth;
	}
	queue->wanted = (uint32_t)wanted;
	return 0;
}

static void attach(struct rmem_reactor *reactor, const struct rmem_connection *connection)
{
	struct rmem_endpoint *endpoint = connection->endpoints[reactor->index];
	struct rmem_error error = {0};
	/* Relaxed: only this thread stores what is looked for here. */
	int failure = atomic_load_explicit(&endpoint->failure, memory_order_relaxed);

	if (failure) /* it was here before and failed; the control thread will see */
		return;
	failure = reserve(&reactor->queues[connection->port->index], endpoint->cq_depth, &error);
	if (failure == 0) {
		endpoint->cq_wanted = &reactor->queues[connection->port->index].wanted;
		rmem_dispatch_attach(&reactor->dispatch, endpoint);
		return;
	}
	rmem_log_error(RMEM_LOG_ENGINE, "%s", error.text);
	atomic_store_explicit(&endpoint->failure, failure, memory_order_release);
	rmem_peers_notify(reactor->peers);
}

/* Takes in a new table. */
static RMEM_COLD void adopt(struct rmem_reactor *reactor, const struct rmem_table *table)
{
	struct rmem_dispatch *dispatch = &reactor->dispatch;

	while (reactor->queue_count < table->port_count)
		add_queue(reactor, table->ports[reactor->queue_count]);
	dispatch->server_count = table->server_count;
	for (unsigned i = 0; i < table->server_count; i++) {
		const struct rmem_connection *connection = table->connections[i];
		struct rmem_endpoint *is = dispatch->endpoints[i];
		struct rmem_endpoint *shall =
			connection ? connection->endpoints[reactor->index] : NULL;

		if (is && is != shall)
			rmem_dispatch_detach(dispatch, is);
		if (shall && is != shall)
			attach(reactor, connection);
		if (dispatch->endpoints[i])
			rmem_memory_view_set(&dispatch->endpoints[i]->target.memory, table->memory);
	}
	reactor->table = table;
	rmem_stats_count(&reactor->metrics.stats, RMEM_STAT_TABLE_RELOADS);
	/* Release: what this thread did with older tables is done when the epoch is seen. */
	atomic_store_explicit(&reactor->epoch, table->epoch, memory_order_release);
	rmem_peers_notify(reactor->peers);
}

static inline void look_at_table(struct rmem_reactor *reactor)
{
	const struct rmem_table *table = rmem_table_look(reactor->peers);

	if (RMEM_UNLIKELY(table != reactor->table))
		adopt(reactor, table);
}

/* --- A turn ----------------------------------------------------------------------------------- */

/* Returns how many notices came. */
static unsigned poll_queue(struct rmem_reactor *reactor, struct rmem_queue *queue)
{
	struct rmem_completion completions[RMEM_COMPLETIONS_MAX];
	int count = queue->poll(queue->cq, completions, RMEM_COMPLETIONS_MAX);

	if (RMEM_LIKELY(count >= 0)) {
		if (count == 0)
			return 0;
		rmem_dispatch_complete(&reactor->dispatch, completions, (unsigned)count);
		reactor->progress++;
		return rmem_dispatch_has_notices(&reactor->dispatch)
			       ? rmem_dispatch_run_notices(&reactor->dispatch)
			       : 0;
	}
	if (queue->is_broken)
		return 0;
	queue->is_broken = true;
	rmem_log_error(RMEM_LOG_ENGINE, "a completion queue broke: %s", strerror(-count));
	return 0;
}

/* What needs no look every turn. */
static unsigned tick(struct rmem_reactor *reactor)
{
	unsigned did = rmem_waiter_run_timeouts(&reactor->waiter);

	if (reactor->waiter.still_count > 0) {
		int ran = rmem_waiter_wait(&reactor->waiter, 0);

		did += ran > 0 ? (unsigned)ran : 0;
	}
	return did;
}

static inline unsigned turn(struct rmem_reactor *reactor)
{
	struct rmem_dispatch *dispatch = &reactor->dispatch;
	unsigned did = 0;

	look_at_table(reactor);
	if (rmem_dispatch_has_work(dispatch))
		rmem_dispatch_flush(dispatch);
	if (RMEM_UNLIKELY(rmem_dispatch_has_notices(dispatch))) /* a callback polls */
		did += rmem_dispatch_run_notices(dispatch);
	for (unsigned i = 0; i < reactor->queue_count; i++)
		did += poll_queue(reactor, &reactor->queues[i]);
	if (dispatch->done.first)
		did += rmem_dispatch_run_done(dispatch);
	if (RMEM_UNLIKELY(rmem_waiter_has_calls(&reactor->waiter)))
		did += rmem_waiter_run_calls(&reactor->waiter);
	if (reactor->waiter.spinning)
		did += rmem_waiter_spin(&reactor->waiter);
	if (RMEM_UNLIKELY((++reactor->turn & (TICK_TURNS - 1)) == 0))
		did += tick(reactor);
	if (rmem_dispatch_has_work(dispatch))
		rmem_dispatch_flush(dispatch);
	rmem_stats_count(&reactor->metrics.stats, RMEM_STAT_POLLS);
	if (did == 0)
		rmem_stats_count(&reactor->metrics.stats, RMEM_STAT_POLLS_EMPTY);
	return did;
}

unsigned rmem_reactor_poll(struct rmem_reactor *reactor)
{
	return turn(reactor);
}

/* --- Waiting ---------------------------------------------------------------------------------- */

static int arm(struct rmem_reactor *reactor)
{
	for (unsigned i = 0; i < reactor->queue_count; i++) {
		struct rmem_queue *queue = &reactor->queues[i];
		int rc = queue->port->fabric->cq_arm(queue->cq);

		if (rc)
			return rc;
	}
	rmem_stats_count(&reactor->metrics.stats, RMEM_STAT_ARMS);
	return 0;
}

/* Sleeps until something happens or `timeout_ms` passed; returns what was done, or -EINTR. */
static int nap(struct rmem_reactor *reactor, int timeout_ms)
{
	struct rmem_waiter *waiter = &reactor->waiter;
	const struct rmem_table *table;
	uint32_t progress = reactor->progress;
	unsigned did;
	int ran;

	rmem_waiter_prepare(waiter);
	if (arm(reactor)) {
		rmem_waiter_cancel(waiter);
		return (int)turn(reactor);
	}
	/* The last look: a turn, with what other threads change looked at in sequence with the
	 * announcement. */
	did = rmem_waiter_run_calls(waiter);
	table = atomic_load(&reactor->peers->table);
	if (table != reactor->table)
		adopt(reactor, table);
	did += turn(reactor);
	/* Completions that came may not be all of those that wait, and the rest isn't announced. */
	if (did > 0 || progress != reactor->progress ||
	    rmem_dispatch_is_restless(&reactor->dispatch)) {
		rmem_waiter_cancel(waiter);
		return (int)did;
	}
	rmem_stats_count(&reactor->metrics.stats, RMEM_STAT_SLEEPS);
	ran = rmem_waiter_wait(waiter, timeout_ms);
	if (ran < 0)
		return ran;
	return ran + (int)rmem_waiter_run_timeouts(waiter) + (int)turn(reactor);
}

/* How much of the time is left, for epoll; 0 when it is over. */
static int left_ms(uint64_t waited_ns, int timeout_ms)
{
	uint64_t limit_ns = (uint64_t)timeout_ms * RMEM_NS_PER_MS;

	if (timeout_ms < 0)
		return -1;
	if (waited_ns >= limit_ns)
		return 0;
	return (int)((limit_ns - waited_ns + RMEM_NS_PER_MS - 1) / RMEM_NS_PER_MS);
}

/* Where a run stands. */
struct patience {
	uint64_t start_ns; /* 0: the clock was not read yet */
	uint32_t turns;	   /* since something came */
};

/* Transfers that come in keep the reactor awake, also while no batch is complete; and what was
 * submitted since is to be waited for anew. */
static bool has_moved(struct rmem_reactor *reactor)
{
	uint64_t batches = atomic_load_explicit(&reactor->metrics.stats.values[RMEM_STAT_BATCHES],
						memory_order_relaxed);

	if (reactor->progress == reactor->idle_progress && batches == reactor->idle_batches)
		return false;
	reactor->idle_progress = reactor->progress;
	reactor->idle_batches = batches;
	return true;
}

/* Whether to read the clock in this turn: in event mode always, otherwise now and then. */
static bool is_time_to_look(struct rmem_reactor *reactor, struct patience *patience)
{
	if (has_moved(reactor)) {
		reactor->idle_ns = 0;
		patience->turns = 0;
	}
	patience->turns++;
	return reactor->poll == RMEM_POLL_EVENT || patience->turns % TICK_TURNS == 0;
}

/* Whether something is to come over the fabric, and not only what others may want at any time. */
static bool is_expecting(const struct rmem_reactor *reactor)
{
	const struct rmem_dispatch *dispatch = &reactor->dispatch;

	return dispatch->under_way > 0 || dispatch->notice != NULL || reactor->is_awaiting;
}

/* Returns what nap() does. */
static int nap_and_learn(struct rmem_reactor *reactor, int timeout_ms)
{
	uint64_t idle_ns = reactor->idle_ns;
	uint32_t progress = reactor->progress;
	int rc = nap(reactor, timeout_ms);

	rmem_spin_learn(&reactor->spin, rmem_now_ns() - idle_ns, reactor->progress != progress);
	return rc;
}

/* Naps if it is time to; returns what was done, -EINTR, or -ETIMEDOUT when the time is over. */
static int look_at_clock(struct rmem_reactor *reactor, struct patience *patience, int timeout_ms)
{
	uint64_t now_ns = rmem_now_ns();
	int left;

	if (patience->start_ns == 0)
		patience->start_ns = now_ns;
	if (reactor->idle_ns == 0)
		reactor->idle_ns = now_ns;
	left = left_ms(now_ns - patience->start_ns, timeout_ms);
	if (left == 0)
		return -ETIMEDOUT;
	if (reactor->poll == RMEM_POLL_EVENT)
		return nap(reactor, left);
	if (reactor->poll == RMEM_POLL_BUSY)
		return (int)turn(reactor);
	if (is_expecting(reactor))
		return now_ns - reactor->idle_ns < reactor->spin.limit_ns
			       ? (int)turn(reactor)
			       : nap_and_learn(reactor, left);
	return now_ns - reactor->idle_ns < reactor->spin.base_ns ? (int)turn(reactor)
								 : nap(reactor, left);
}

unsigned rmem_reactor_run(struct rmem_reactor *reactor, int timeout_ms)
{
	struct patience patience = {0};
	unsigned did = turn(reactor);

	while (did == 0 && timeout_ms != 0) {
		if (RMEM_UNLIKELY(is_time_to_look(reactor, &patience))) {
			int rc = look_at_clock(reactor, &patience, timeout_ms);

			if (rc < 0)
				break;
			did = (unsigned)rc;
		} else {
			did = turn(reactor);
		}
	}
	if (did > 0)
		reactor->idle_ns = 0;
	return did;
}

/* --- The public calls ------------------------------------------------------------------------- */

void rmem_submit(struct rmem_reactor *reactor, struct rmem_batch *batch)
{
	rmem_dispatch_submit(&reactor->dispatch, batch);
}

void rmem_reactor_flush(struct rmem_reactor *reactor)
{
	look_at_table(reactor);
	rmem_dispatch_flush(&reactor->dispatch);
}

int rmem_batch_wait(struct rmem_reactor *reactor, const struct rmem_batch *batch, int timeout_ms)
{
	uint64_t deadline_ns = timeout_ms < 0 ? 0 : rmem_deadline_in_ms((unsigned)timeout_ms);

	while (rmem_batch_status(batch) == -EINPROGRESS) {
		int left_ms = timeout_ms < 0 ? -1 : rmem_deadline_left_ms(deadline_ns);

		if (left_ms == 0) {
			/* A look at what has come meanwhile is always taken. */
			rmem_reactor_poll(reactor);
			return rmem_batch_status(batch) == -EINPROGRESS ? -ETIMEDOUT
									: rmem_batch_status(batch);
		}
		rmem_reactor_run(reactor, left_ms);
	}
	return rmem_batch_status(batch);
}

int rmem_batch_cancel(struct rmem_reactor *reactor, struct rmem_batch *batch)
{
	return rmem_dispatch_cancel(&reactor->dispatch, batch);
}

bool rmem_notice_has_arrived(const struct rmem_reactor *reactor, unsigned server, uint32_t transfer)
{
	const struct rmem_endpoint *endpoint =
		server < RMEM_SERVERS_MAX ? reactor->dispatch.endpoints[server] : NULL;

	return endpoint && endpoint->notify && rmem_notify_has_arrived(endpoint->notify, transfer);
}

int rmem_notice_wait(struct rmem_reactor *reactor, unsigned server, uint32_t transfer,
		     unsigned timeout_ms)
{
	uint64_t deadline_ns = rmem_deadline_in_ms(timeout_ms);
	int rc = 0;

	rmem_reactor_poll(reactor); /* takes in the table, if it is the first time */
	reactor->is_awaiting = true;
	reactor->idle_ns = 0;
	while (rc == 0 && !rmem_notice_has_arrived(reactor, server, transfer)) {
		int left_ms = rmem_deadline_left_ms(deadline_ns);

		if (server >= RMEM_SERVERS_MAX || !reactor->dispatch.endpoints[server])
			rc = -ENOTCONN;
		else if (left_ms == 0)
			rc = -ETIMEDOUT;
		else
			rmem_reactor_run(reactor, left_ms);
	}
	reactor->is_awaiting = false;
	return rc;
}

static void call_notice(void *user, unsigned server, const struct rmem_notice *notice)
{
	struct rmem_reactor *reactor = user;

	reactor->options->notice(reactor->options->user, reactor, server, notice);
}

void *rmem_staging_get(struct rmem_reactor *reactor)
{
	void *slot = rmem_arena_get(&reactor->arena);

	if (RMEM_UNLIKELY(!slot))
		rmem_stats_count(&reactor->metrics.stats, RMEM_STAT_STAGING_EMPTY);
	return slot;
}

void rmem_staging_put(struct rmem_reactor *reactor, void *slot)
{
	rmem_arena_put(&reactor->arena, slot);
}

int rmem_reactor_watch(struct rmem_reactor *reactor, struct rmem_watch *watch)
{
	return rmem_waiter_watch(&reactor->waiter, watch);
}

void rmem_reactor_unwatch(struct rmem_reactor *reactor, struct rmem_watch *watch)
{
	rmem_waiter_unwatch(&reactor->waiter, watch);
}

void rmem_reactor_call(struct rmem_reactor *reactor, struct rmem_call *call)
{
	rmem_waiter_call(&reactor->waiter, call);
}

void rmem_timeout_set(struct rmem_reactor *reactor, struct rmem_timeout *timeout, unsigned delay_ms)
{
	rmem_waiter_timeout_set(&reactor->waiter, timeout, delay_ms);
}

void rmem_timeout_cancel(struct rmem_reactor *reactor, struct rmem_timeout *timeout)
{
	rmem_waiter_timeout_cancel(&reactor->waiter, timeout);
}

const struct rmem_stats *rmem_reactor_stats(const struct rmem_reactor *reactor)
{
	return &reactor->metrics.stats;
}

const struct rmem_histogram *rmem_reactor_latency(const struct rmem_reactor *reactor,
						  enum rmem_op op)
{
	return &reactor->metrics.latency_ns[op];
}

void rmem_reactor_wake(void *user)
{
	struct rmem_reactor *reactor = user;

	rmem_waiter_wake(&reactor->waiter);
}

/* --- Life ------------------------------------------------------------------------------------- */

static int fill(struct rmem_reactor *reactor, const struct rmem_reactor_options *options,
		struct rmem_error *error)
{
	const struct rmem_engine_options *engine = options->engine;
	struct rmem_arena_options arena = {
		.slot_bytes = engine->staging_slot_bytes,
		.slot_count = (unsigned)(engine->staging_bytes / engine->staging_slot_bytes),
		.huge_pages = engine->huge_pages,
		.stream_threshold_bytes = engine->stream_threshold_bytes,
	};
	int rc = rmem_waiter_init(&reactor->waiter, error);

	if (rc)
		return rc;
	rc = rmem_arena_init(&reactor->arena, &arena, error);
	if (rc)
		return rc;
	rmem_stats_init(&reactor->metrics.stats);
	rmem_histogram_init(&reactor->metrics.latency_ns[RMEM_READ]);
	rmem_histogram_init(&reactor->metrics.latency_ns[RMEM_WRITE]);
	rmem_sampler_init(&reactor->metrics.sampler, 16);
	rmem_dispatch_init(&reactor->dispatch, &reactor->metrics, rmem_peers_notify,
			   options->peers);
	if (engine->notice) {
		reactor->dispatch.notice = call_notice;
		reactor->dispatch.notice_user = reactor;
	}
	reactor->options = engine;
	reactor->peers = options->peers;
	reactor->index = options->index;
	reactor->poll = engine->poll;
	rmem_spin_init(&reactor->spin, (uint64_t)engine->spin_us * RMEM_NS_PER_US);
	return 0;
}

int rmem_reactor_create(const struct rmem_reactor_options *options, struct rmem_reactor **reactor,
			struct rmem_error *error)
{
	struct rmem_reactor *made =
		aligned_alloc(RMEM_CACHE_PAIR, rmem_round_up(sizeof(*made), RMEM_CACHE_PAIR));
	int rc;

	*reactor = NULL;
	if (!made)
		return rmem_fail(error, ENOMEM, "no memory for a reactor");
	memset(made, 0, sizeof(*made));
	made->waiter.epoll_fd = -1;
	made->waiter.wake_fd = -1;
	rc = fill(made, options, error);
	if (rc) {
		rmem_reactor_destroy(made);
		return rc;
	}
	*reactor = made;
	return 0;
}

void rmem_reactor_destroy(struct rmem_reactor *reactor)
{
	if (!reactor)
		return;
	rmem_arena_finish(&reactor->arena);
	rmem_waiter_finish(&reactor->waiter);
	free(reactor);
}

void rmem_reactor_quiesce(struct rmem_reactor *reactor)
{
	struct rmem_dispatch *dispatch = &reactor->dispatch;
	uint64_t deadline_ns = rmem_now_ns() + (uint64_t)QUIESCE_MS * RMEM_NS_PER_MS;

	rmem_dispatch_abandon(dispatch);
	while (dispatch->draining && rmem_now_ns() < deadline_ns) {
		for (unsigned i = 0; i < reactor->queue_count; i++)
			poll_queue(reactor, &reactor->queues[i]);
		rmem_dispatch_flush(dispatch);
	}
	if (dispatch->draining)
		rmem_log_error(RMEM_LOG_ENGINE, "a fabric did not give back its transfers");
}
