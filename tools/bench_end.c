/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_end.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "engine/base/checked.h"
#include "engine/base/timer.h"
#include "tools/bench_worker.h"

#define NOTICES	   256 /* a grant, a message of its own, goes after half of them */
#define LOOK_TURNS 32  /* turns between looks at the clock */
#define NAP_MS	   100 /* between looks at the stop flag */
#define YIELD_NS   (10 * (uint64_t)RMEM_NS_PER_US)

/* --- The server's side ------------------------------------------------------------------------ */

static void came(void *user, struct rmem_peer *peer, const struct rmem_notice *notice)
{
	struct bench_end *end = user;

	if (peer != end->peer || notice->length == 0)
		return;
	end->has_word = true;
	end->word = *notice;
}

static void peer_event(void *user, struct rmem_peer *peer, enum rmem_peer_event event)
{
	struct bench_end *end = user;

	if (event == RMEM_PEER_LEFT && peer == end->peer) {
		end->peer = NULL;
	} else if (event == RMEM_PEER_JOINED && end->peer == NULL) {
		end->peer = peer;
		end->next = 1;
		end->has_word = false;
	}
}

static int serve(struct bench_end *end, const char *url, struct rmem_error *error)
{
	struct rmem_server_options options;
	int rc;

	rmem_server_options_init(&options);
	options.pool.size_bytes = end->local_bytes;
	options.pool.populate = RMEM_POPULATE_TOUCH;
	options.allow_unauthenticated = true; /* there is nothing but messages in it */
	options.notices = NOTICES;
	options.poll = RMEM_POLL_EVENT; /* who spins does so here */
	options.notice = came;
	options.peer_event = peer_event;
	options.user = end;
	rc = rmem_server_create(&options, &end->server, error);
	if (rc == 0)
		rc = rmem_server_listen(end->server, url, error);
	return rc == 0 ? rmem_server_start(end->server, error) : rc;
}

int bench_end_init(struct bench_end *end, const char *url, uint64_t bytes, struct rmem_error *error)
{
	struct rmem_arena_options arena = {.slot_count = 1, .huge_pages = RMEM_HUGE_AUTO};
	int rc;

	*end = (struct bench_end){.local_bytes = rmem_round_up(bytes, RMEM_PAGE_BYTES)};
	arena.slot_bytes = end->local_bytes;
	rc = rmem_arena_init(&end->arena, &arena, error);
	if (rc != 0)
		return rmem_fail_prefix(error, rc, "memory for messages");
	end->local = rmem_arena_get(&end->arena);
	rc = serve(end, url, error);
	if (rc != 0)
		bench_end_finish(end);
	return rc;
}

void bench_end_finish(struct bench_end *end)
{
	bench_end_disconnect(end);
	rmem_server_destroy(end->server);
	rmem_arena_finish(&end->arena);
	*end = (struct bench_end){0};
}

/* --- The engine's side ------------------------------------------------------------------------ */

void bench_end_disconnect(struct bench_end *end)
{
	rmem_memory_unregister(end->memory);
	rmem_engine_destroy(end->engine);
	end->memory = NULL;
	end->engine = NULL;
	end->reactor = NULL;
	end->is_sending = false;
	end->notice.transfer = 0;
	end->status = 0;
}

static int connect_engine(struct bench_end *end, const struct rmem_engine_options *options,
			  const char *url, struct rmem_error *error)
{
	struct rmem_server_info info;
	int rc = rmem_engine_create(options, &end->engine, error);

	if (rc == 0)
		rc = rmem_memory_register(end->engine, end->arena.base, end->arena.length,
					  &end->memory, error);
	if (rc == 0)
		rc = rmem_server_add(end->engine, url, &end->other, error);
	if (rc == 0)
		rc = rmem_server_wait(end->engine, end->other, options->connect_timeout_ms, error);
	if (rc != 0)
		return rc;
	if (rmem_server_info(end->engine, end->other, &info) != 0 || info.region_count == 0)
		return rmem_fail(error, ENOSPC, "%s: exports no memory", url);
	end->room = info.regions[0].length;
	end->reactor = rmem_engine_reactor(end->engine, 0);
	return 0;
}

int bench_end_connect(struct bench_end *end, const struct rmem_engine_options *options,
		      const char *url, struct rmem_error *error)
{
	struct rmem_engine_options own = *options;
	int rc;

	bench_end_disconnect(end);
	own.reactor_count = 1;
	own.poll = RMEM_POLL_BUSY; /* it has nothing to wait for */
	own.notices = NOTICES;
	rmem_spin_init(&end->spin, (uint64_t)options->spin_us * RMEM_NS_PER_US);
	rc = connect_engine(end, &own, url, error);
	if (rc != 0)
		bench_end_disconnect(end);
	return rc;
}

static void sent(struct rmem_batch *batch, int status)
{
	struct bench_end *end = batch->user;

	end->status = status;
	end->is_sending = false;
}

int bench_end_send(struct bench_end *end, uint64_t bytes, const char *text)
{
	/* The answer to the last one has come, so it is over but for its completion. */
	while (end->is_sending)
		rmem_reactor_run(end->reactor, NAP_MS);
	if (end->status != 0)
		return end->status;
	end->notice.transfer++;
	end->notice.length = 0;
	if (text != NULL) {
		end->notice.length = (uint32_t)strnlen(text, RMEM_NOTICE_BYTES_MAX);
		memcpy(end->notice.bytes, text, end->notice.length);
	}
	end->segment = (struct rmem_segment){
		.local = end->local,
		.length = bytes,
		.server = (uint16_t)end->other,
	};
	end->batch = (struct rmem_batch){
		.op = RMEM_WRITE,
		.segment_count = bytes > 0,
		.segments = &end->segment,
		.notice = &end->notice,
		.notice_server = (uint16_t)end->other,
		.done = sent,
		.user = end,
	};
	end->is_sending = true;
	rmem_submit(end->reactor, &end->batch);
	rmem_reactor_flush(end->reactor);
	return 0;
}

/* --- Waiting ---------------------------------------------------------------------------------- */

static bool has_come(const struct bench_end *end)
{
	return end->peer != NULL && rmem_peer_has_arrived(end->peer, end->next);
}

/* What may be seen now and then: 0, or why there is nothing to wait for any more. */
static int look(struct bench_end *end, const struct rmem_peer *peer)
{
	if (bench_is_stopped())
		return -ECANCELED;
	if (peer != NULL && end->peer != peer)
		return -ENOTCONN;
	if (end->is_sending)
		rmem_reactor_poll(end->reactor);
	return end->status;
}

/* Until it has come or the time is over: 0 or -ETIMEDOUT, or what look() says. */
static int spin(struct bench_end *end, uint64_t spin_ns)
{
	const struct rmem_peer *peer = end->peer;
	uint64_t start_ns = 0, now_ns;
	int rc;

	for (uint32_t turns = 1;; turns++) {
		rmem_server_poll(end->server);
		if (has_come(end))
			return 0;
		if (turns % LOOK_TURNS != 0)
			continue;
		rc = look(end, peer);
		if (rc != 0)
			return rc;
		now_ns = rmem_now_ns();
		if (start_ns == 0)
			start_ns = now_ns;
		if (now_ns - start_ns >= spin_ns)
			return -ETIMEDOUT;
		/* The other end may be waiting for this processor. */
		if (now_ns - start_ns >= YIELD_NS)
			sched_yield();
	}
}

static int doze(struct bench_end *end, unsigned timeout_ms)
{
	const struct rmem_peer *peer = end->peer;
	uint64_t start_ns = rmem_now_ns();
	int rc;

	do {
		rc = look(end, peer);
		if (rc == 0)
			rc = rmem_peer_wait(end->peer, end->next, NAP_MS);
	} while (rc == -ETIMEDOUT &&
		 rmem_now_ns() - start_ns < (uint64_t)timeout_ms * RMEM_NS_PER_MS);
	return rc;
}

/* As a reactor and a server do it in that mode. */
static int wait_adaptively(struct bench_end *end, unsigned timeout_ms)
{
	uint64_t start_ns;
	int rc = spin(end, end->spin.limit_ns);

	if (rc != -ETIMEDOUT || end->peer == NULL)
		return rc;
	start_ns = rmem_now_ns() - end->spin.limit_ns;
	rc = doze(end, timeout_ms);
	rmem_spin_learn(&end->spin, rmem_now_ns() - start_ns, rc == 0);
	return rc;
}

int bench_end_wait(struct bench_end *end, enum rmem_poll_mode mode, unsigned timeout_ms)
{
	int rc;

	if (mode == RMEM_POLL_BUSY || end->peer == NULL)
		rc = spin(end, (uint64_t)timeout_ms * RMEM_NS_PER_MS);
	else if (mode == RMEM_POLL_ADAPTIVE)
		rc = wait_adaptively(end, timeout_ms);
	else
		rc = doze(end, timeout_ms);
	if (rc == 0)
		end->next++;
	return rc;
}
