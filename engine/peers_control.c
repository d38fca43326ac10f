/* SPDX-License-Identifier: Apache-2.0 */
/* The control thread: it sleeps until something about a connection changed or an attempt is due,
 * then walks all servers. Each step takes the lock for as long as it changes something and never
 * while it waits, connects, closes or calls the user. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/timer.h"
#include "engine/peers_internal.h"

#define ATTEMPTS_MAX 64 /* at a time */
#define RETIRED_MAX  4	/* connections to one server that some reactor holds back */
#define STACK_BYTES  ((size_t)256 << 10) /* of an attempt; name resolution is the deepest part */
#define EVENTS_MAX   32

/* --- Attempts --------------------------------------------------------------------------------- */

static void *attempt_main(void *argument)
{
	struct rmem_server *server = argument;
	struct rmem_peers *peers = server->peers;
	struct rmem_connection_options options = {
		.engine = peers->options,
		.registry = peers->registry,
		.url = server->url,
		.server = server->index,
		.generation = server->generation,
	};
	struct rmem_connection *connection = NULL;
	struct rmem_error error = {0};
	int rc = rmem_connection_create(&options, &connection, &error);

	pthread_mutex_lock(&peers->lock);
	server->result = connection;
	if (rc) {
		server->error = error;
		pthread_cond_broadcast(&peers->changed); /* who waits may only wait for that */
	}
	server->attempt = RMEM_ATTEMPT_ENDED;
	pthread_mutex_unlock(&peers->lock);
	rmem_peers_notify(peers);
	return NULL;
}

/* Starts a thread that takes no signals: they are for the threads the program made itself. */
static int start_thread(pthread_t *thread, void *(*main)(void *), void *argument, size_t stack)
{
	pthread_attr_t attributes;
	sigset_t all;
	sigset_t before;
	int code;

	pthread_attr_init(&attributes);
	if (stack)
		pthread_attr_setstacksize(&attributes, stack);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(thread, &attributes, main, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -code;
}

static void retry_later(struct rmem_server *server)
{
	const struct rmem_engine_options *options = server->peers->options;
	uint64_t pause_ms = server->backoff_ms;

	if (server->waiters > 0)
		pause_ms = rmem_min_u64(pause_ms, RMEM_PAUSE_WAITED_MS);
	server->due_ns = rmem_now_ns() + pause_ms * RMEM_NS_PER_MS;
	server->backoff_ms *= 2;
	if (server->backoff_ms > options->reconnect_max_ms || server->backoff_ms == 0)
		server->backoff_ms = options->reconnect_max_ms;
}

static void begin_attempt(struct rmem_server *server)
{
	struct rmem_peers *peers = server->peers;
	int rc;

	server->generation++;
	server->attempt = RMEM_ATTEMPT_RUNNING;
	rc = start_thread(&server->thread, attempt_main, server, STACK_BYTES);
	if (rc) {
		server->attempt = RMEM_ATTEMPT_NONE;
		rmem_fail(&server->error, -rc, "no thread to connect with: %s", strerror(-rc));
		retry_later(server);
		return;
	}
	peers->attempt_count++;
	peers->walk_first = server->index + 1;
}

/* --- Up and down ------------------------------------------------------------------------------ */

static void watch(struct rmem_peers *peers, struct rmem_server *server)
{
	const struct rmem_connection *connection = server->connection;
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = server};
	int fd = connection->fabric->conn_fd(connection->conn);

	server->is_unwatched = fd < 0 || epoll_ctl(peers->epoll_fd, EPOLL_CTL_ADD, fd, &event);
	server->is_suspect = true; /* it may have ended before it was watched */
}

static void unwatch(struct rmem_peers *peers, const struct rmem_connection *connection)
{
	int fd = connection->fabric->conn_fd(connection->conn);

	if (fd >= 0)
		epoll_ctl(peers->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void set_state(struct rmem_server *server, enum rmem_server_state state)
{
	struct rmem_peers *peers = server->peers;
	const struct rmem_engine_options *options = peers->options;

	server->state = state;
	pthread_cond_broadcast(&peers->changed);
	pthread_mutex_unlock(&peers->lock);
	if (state == RMEM_SERVER_UP)
		rmem_log_info(RMEM_LOG_ENGINE, "server %u (%s) is up", server->index, server->url);
	else
		rmem_log_warn(RMEM_LOG_ENGINE, "server %u (%s) is down: %s", server->index,
			      server->url, server->error.text);
	if (options->server_event)
		options->server_event(options->user, server->index, state);
	pthread_mutex_lock(&peers->lock);
}

static void come_up(struct rmem_server *server)
{
	struct rmem_peers *peers = server->peers;
	struct rmem_connection *connection = server->result;

	server->result = NULL;
	server->connection = connection;
	if (rmem_peers_publish(peers)) {
		server->connection = NULL;
		rmem_fail(&server->error, ENOMEM, "no memory for a new endpoint table");
		pthread_mutex_unlock(&peers->lock);
		rmem_connection_destroy(connection);
		pthread_mutex_lock(&peers->lock);
		retry_later(server);
		return;
	}
	server->incarnation = connection->info.incarnation;
	server->region_count = connection->info.region_count;
	for (unsigned i = 0; i < server->region_count; i++)
		server->lengths[i] = connection->info.regions[i].length;
	server->up_ns = rmem_now_ns();
	server->error = (struct rmem_error){0};
	watch(peers, server);
	set_state(server, RMEM_SERVER_UP);
}

static void go_down(struct rmem_server *server, const struct rmem_error *reason)
{
	struct rmem_peers *peers = server->peers;
	struct rmem_connection *connection = server->connection;

	server->connection = NULL;
	if (rmem_peers_publish(peers)) { /* out of memory: reactors can't be told yet */
		server->connection = connection;
		server->is_suspect = true;
		return;
	}
	server->error = *reason;
	unwatch(peers, connection);
	/* One that comes up only to fail at once is not to be tried at full speed for ever. */
	if (rmem_now_ns() - server->up_ns >=
	    (uint64_t)peers->options->reconnect_max_ms * RMEM_NS_PER_MS)
		server->backoff_ms = peers->options->reconnect_min_ms;
	connection->retired_epoch =
		atomic_load_explicit(&peers->table, memory_order_relaxed)->epoch;
	connection->next = peers->retired;
	peers->retired = connection;
	server->retired_count++;
	retry_later(server);
	set_state(server, RMEM_SERVER_DOWN);
}

/* --- The walk --------------------------------------------------------------------------------- */

static void end_attempt(struct rmem_server *server)
{
	struct rmem_peers *peers = server->peers;

	pthread_join(server->thread, NULL); /* it has nothing left to do */
	server->attempt = RMEM_ATTEMPT_NONE;
	peers->attempt_count--;
	if (server->result) {
		come_up(server);
		return;
	}
	rmem_log_debug(RMEM_LOG_ENGINE, "server %u (%s): %s", server->index, server->url,
		       server->error.text);
	retry_later(server);
}

/* Asks the fabric only when there is reason to: that may take a system call. */
static bool is_over(struct rmem_server *server, struct rmem_error *reason)
{
	bool is_suspect = server->is_suspect;

	server->is_suspect = server->is_unwatched;
	return (is_suspect && rmem_connection_alive(server->connection, reason)) ||
	       rmem_connection_failure(server->connection, reason);
}

static void look_at(struct rmem_server *server)
{
	struct rmem_peers *peers = server->peers;
	struct rmem_error reason = {0};

	if (server->attempt == RMEM_ATTEMPT_ENDED)
		end_attempt(server);
	if (server->connection) {
		if (is_over(server, &reason))
			go_down(server, &reason);
		return;
	}
	if (server->attempt == RMEM_ATTEMPT_NONE && peers->attempt_count < ATTEMPTS_MAX &&
	    server->retired_count < RETIRED_MAX && server->due_ns <= rmem_now_ns())
		begin_attempt(server);
}

/* How long nothing is due. */
static int sleep_ms(const struct rmem_peers *peers)
{
	uint64_t now_ns = rmem_now_ns();
	uint64_t left_ms = INT_MAX;

	for (unsigned i = 0; i < peers->server_count; i++) {
		const struct rmem_server *server = peers->servers[i];
		uint64_t ms = 0;

		if (server->connection && !server->is_suspect)
			continue;
		if (!server->connection &&
		    (server->attempt != RMEM_ATTEMPT_NONE || server->retired_count >= RETIRED_MAX ||
		     peers->attempt_count >= ATTEMPTS_MAX))
			continue; /* a notification comes */
		if (server->connection)
			ms = peers->options->detect_ms / 2 + 1;
		else if (server->due_ns > now_ns)
			ms = (server->due_ns - now_ns) / RMEM_NS_PER_MS + 1;
		if (ms < left_ms)
			left_ms = ms;
	}
	return left_ms >= INT_MAX ? -1 : (int)left_ms;
}

static void wait_for_events(struct rmem_peers *peers, int timeout_ms)
{
	struct epoll_event events[EVENTS_MAX];
	uint64_t value;
	int count = epoll_wait(peers->epoll_fd, events, EVENTS_MAX, timeout_ms);

	for (int i = 0; i < count; i++) {
		struct rmem_server *server = events[i].data.ptr;

		if (server)
			server->is_suspect = true;
		else
			(void)!read(peers->wake_fd, &value, sizeof(value));
	}
}

static void destroy_list(struct rmem_connection *connection)
{
	while (connection) {
		struct rmem_connection *next = connection->next;

		rmem_connection_destroy(connection);
		connection = next;
	}
}

/* Begins behind the server that was last to get an attempt, so that all get their turn when there
 * are more that need one than may be made at a time. */
static void walk(struct rmem_peers *peers)
{
	unsigned first = peers->walk_first;

	for (unsigned i = 0; i < peers->server_count && !peers->is_stopping; i++)
		look_at(peers->servers[(first + i) % peers->server_count]);
}

static void *control_main(void *argument)
{
	struct rmem_peers *peers = argument;

	pthread_mutex_lock(&peers->lock);
	while (!peers->is_stopping) {
		struct rmem_connection *unused;
		int timeout_ms;

		walk(peers);
		unused = rmem_peers_reclaim(peers);
		timeout_ms = unused ? 0 : sleep_ms(peers);
		pthread_mutex_unlock(&peers->lock);
		destroy_list(unused);
		wait_for_events(peers, timeout_ms);
		pthread_mutex_lock(&peers->lock);
	}
	pthread_mutex_unlock(&peers->lock);
	return NULL;
}

int rmem_peers_start(struct rmem_peers *peers, struct rmem_error *error)
{
	int rc = start_thread(&peers->thread, control_main, peers, 0);

	if (rc)
		return rmem_fail(error, -rc, "no control thread: %s", strerror(-rc));
	peers->is_started = true;
	return 0;
}

void rmem_peers_stop(struct rmem_peers *peers)
{
	if (!peers->is_started)
		return;
	pthread_mutex_lock(&peers->lock);
	peers->is_stopping = true;
	pthread_mutex_unlock(&peers->lock);
	rmem_peers_notify(peers);
	pthread_join(peers->thread, NULL);
	for (unsigned i = 0; i < peers->server_count; i++) {
		struct rmem_server *server = peers->servers[i];
		bool is_trying;

		/* Its thread may be writing it at this moment. */
		pthread_mutex_lock(&peers->lock);
		is_trying = server->attempt != RMEM_ATTEMPT_NONE;
		pthread_mutex_unlock(&peers->lock);
		if (!is_trying)
			continue;
		pthread_join(server->thread, NULL);
		server->attempt = RMEM_ATTEMPT_NONE;
		rmem_connection_destroy(server->result);
		server->result = NULL;
	}
	peers->is_started = false;
}
