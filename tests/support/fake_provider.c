/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/fake_internal.h"

/* --- Ports and memory ------------------------------------------------------------------------- */

static int port_open(const char *url, struct rmem_port **port, struct rmem_error *error)
{
	unsigned index = (unsigned)(url[5] - '0');

	if (strncmp(url, "fake:", 5) != 0 || index >= FAKE_PORTS_MAX || url[6] != '/' || !url[7])
		return rmem_fail(error, EINVAL, "%s: not a fake address", url);
	pthread_mutex_lock(&fake.lock);
	*port = &fake.ports[index];
	(*port)->index = index;
	(*port)->users++;
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

static void port_close(struct rmem_port *port)
{
	pthread_mutex_lock(&fake.lock);
	if (port->users-- == 0)
		fake.violations++;
	pthread_mutex_unlock(&fake.lock);
}

static void port_limits(const struct rmem_port *port, struct rmem_port_limits *limits)
{
	(void)port;
	*limits = (struct rmem_port_limits){
		.depth_max = fake.depth_max,
		.sge_max = 4,
		.inline_max_bytes = 0,
		.cq_depth_max = fake.cq_depth_max,
		.message_max_bytes = 1 << 20,
	};
}

static int mr_register(struct rmem_port *port, void *address, size_t length, struct rmem_mr **mr,
		       struct rmem_error *error)
{
	int rc = -ENOMEM;

	*mr = malloc(sizeof(**mr));
	pthread_mutex_lock(&fake.lock);
	for (unsigned i = 0; *mr && rc && i < FAKE_MRS_MAX; i++) {
		if (fake.mrs[i])
			continue;
		**mr = (struct rmem_mr){port, (uintptr_t)address, length, ++fake.keys};
		fake.mrs[i] = *mr;
		rc = 0;
	}
	pthread_mutex_unlock(&fake.lock);
	return rc ? rmem_fail(error, ENOMEM, "no room for one more registration") : 0;
}

static void mr_unregister(struct rmem_mr *mr)
{
	pthread_mutex_lock(&fake.lock);
	for (unsigned i = 0; i < FAKE_MRS_MAX; i++) {
		if (fake.mrs[i] == mr)
			fake.mrs[i] = NULL;
	}
	pthread_mutex_unlock(&fake.lock);
	free(mr);
}

static uint32_t mr_key(const struct rmem_mr *mr)
{
	return mr->key;
}

/* --- Completion queues ------------------------------------------------------------------------ */

static int cq_create(struct rmem_port *port, uint32_t depth, struct rmem_cq **cq,
		     struct rmem_error *error)
{
	(void)port;
	(void)error;
	*cq = calloc(1, sizeof(**cq));
	(*cq)->depth = depth;
	(*cq)->ring = calloc(depth, sizeof(struct cqe));
	(*cq)->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return 0;
}

static int cq_resize(struct rmem_cq *cq, uint32_t depth, struct rmem_error *error)
{
	struct cqe *ring = calloc(depth, sizeof(*ring));

	(void)error;
	pthread_mutex_lock(&fake.lock);
	for (uint32_t i = 0; i < cq->count; i++)
		ring[i] = cq->ring[(cq->head + i) % cq->depth];
	free(cq->ring);
	cq->ring = ring;
	cq->head = 0;
	cq->depth = depth;
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

static void cq_destroy(struct rmem_cq *cq)
{
	close(cq->fd);
	free(cq->ring);
	free(cq);
}

static int cq_poll(struct rmem_cq *cq, struct rmem_completion *completions, unsigned count)
{
	unsigned taken = 0;

	pthread_mutex_lock(&fake.lock);
	while (taken < count && cq->count > 0) {
		struct cqe *at = &cq->ring[cq->head];

		completions[taken++] = at->completion;
		if (at->link) /* else it is about no request */
			at->link->in_flight -= at->retires;
		cq->head = (cq->head + 1) % cq->depth;
		cq->count--;
	}
	pthread_mutex_unlock(&fake.lock);
	return (int)taken;
}

static int cq_fd(const struct rmem_cq *cq)
{
	return cq->fd;
}

static int cq_arm(struct rmem_cq *cq)
{
	pthread_mutex_lock(&fake.lock);
	cq->is_armed = true;
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

static void cq_ack(struct rmem_cq *cq)
{
	uint64_t value;

	(void)!read(cq->fd, &value, sizeof(value));
}

/* --- Connections ------------------------------------------------------------------------------ */

/* Waits while the server hangs. */
static bool answers(struct fake_server *server, unsigned timeout_ms)
{
	const struct timespec ms = {.tv_nsec = 1000000};
	bool is_hanging = true;

	for (unsigned i = 0; i < timeout_ms && is_hanging; i++) {
		pthread_mutex_lock(&fake.lock);
		is_hanging = server->is_hanging;
		pthread_mutex_unlock(&fake.lock);
		if (is_hanging)
			nanosleep(&ms, NULL);
	}
	return !is_hanging;
}

static int connect_to(struct rmem_port *port, const char *url, unsigned timeout_ms,
		      struct rmem_conn **conn, struct rmem_error *error)
{
	struct fake_server *server;
	struct rmem_conn *made;
	bool is_up;

	pthread_mutex_lock(&fake.lock);
	server = fake_server_at(url);
	server->connects++;
	pthread_mutex_unlock(&fake.lock);
	if (!answers(server, timeout_ms))
		return rmem_fail(error, ETIMEDOUT, "%s: no answer", url);
	made = calloc(1, sizeof(*made));
	pthread_mutex_lock(&fake.lock);
	is_up = server->is_up;
	made->server = server;
	made->port = port;
	made->incarnation = server->incarnation;
	made->region_count = server->region_count;
	for (uint32_t i = 0; i < made->region_count; i++)
		made->regions[i] = (struct rmem_remote){
			.address = (uint64_t)i << 40,
			.length = server->region_bytes,
			.key = (uint32_t)server->incarnation * FAKE_REGIONS_MAX + i,
			.id = i,
		};
	fake.open_conns += is_up;
	pthread_mutex_unlock(&fake.lock);
	if (!is_up) {
		free(made);
		return rmem_fail(error, ECONNREFUSED, "%s: nobody is there", url);
	}
	made->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	*conn = made;
	return 0;
}

static void conn_info(const struct rmem_conn *conn, struct rmem_conn_info *info)
{
	info->incarnation = conn->incarnation;
	info->region_count = conn->region_count;
	info->regions = conn->regions;
}

static int conn_fd(const struct rmem_conn *conn)
{
	return conn->fd;
}

static int conn_alive(struct rmem_conn *conn)
{
	bool is_over;

	pthread_mutex_lock(&fake.lock);
	/* Also a server that died, or was replaced, before the connection had a lane. */
	is_over = conn->is_over || !conn->server->is_up ||
		  conn->server->incarnation != conn->incarnation;
	pthread_mutex_unlock(&fake.lock);
	return is_over ? -ECONNRESET : 0;
}

static void disconnect(struct rmem_conn *conn)
{
	pthread_mutex_lock(&fake.lock);
	fake.open_conns--;
	pthread_mutex_unlock(&fake.lock);
	close(conn->fd);
	free(conn);
}

/* --- Lanes ------------------------------------------------------------------------------------ */

static int lane_open(struct rmem_conn *conn, struct rmem_cq *cq,
		     const struct rmem_lane_options *options, struct rmem_lane_link **link,
		     struct rmem_error *error)
{
	struct rmem_lane_link *made = calloc(1, sizeof(*made));
	int rc = 0;

	made->conn = conn;
	made->cq = cq;
	made->depth = options->depth;
	made->waiting = calloc(made->depth, sizeof(*made->waiting));
	made->mail.depth =
		options->notices < FAKE_NOTICES_MAX ? options->notices : FAKE_NOTICES_MAX;
	pthread_mutex_lock(&fake.lock);
	if (conn->is_over || !conn->server->is_up ||
	    conn->server->incarnation != conn->incarnation || fake.lane_count == FAKE_LANES_MAX)
		rc = -ECONNRESET;
	if (rc == 0) {
		made->number = fake.lane_count;
		fake.lanes[fake.lane_count++] = made;
		fake.open_lanes++;
	}
	pthread_mutex_unlock(&fake.lock);
	if (rc) {
		free(made->waiting);
		free(made);
		return rmem_fail(error, -rc, "the server died meanwhile");
	}
	*link = made;
	return 0;
}

/* Under the lock. */
static int post_locked(struct rmem_lane_link *link, struct rmem_wr *chain, struct rmem_wr **bad)
{
	uint32_t count = 0;
	uint32_t accepted;
	int rc = -EAGAIN;

	for (const struct rmem_wr *at = chain; at; at = at->next)
		count++;
	accepted = count;
	if (fake.hooks.accept && (!link->is_in_error || fake.hooks.covers_drains))
		accepted = fake.hooks.accept(fake.hooks.user, link->number, count, &rc);
	for (*bad = chain; *bad && accepted > 0; *bad = (*bad)->next, accepted--) {
		if (link->in_flight == link->depth) {
			fake.violations++;
			return -EAGAIN;
		}
		if ((*bad)->op >= RMEM_WR_WRITE_NOTICE &&
		    ++link->mail.posted - link->mail.granted > link->mail.depth)
			fake.violations++;
		link->waiting[(link->head + link->count++) % link->depth] = **bad;
		link->in_flight++;
		if (fake.mode == FAKE_AT_ONCE)
			fake_execute(link);
	}
	return *bad ? rc : 0;
}

static int lane_post(struct rmem_lane_link *link, struct rmem_wr *chain, struct rmem_wr **bad)
{
	int rc;

	pthread_mutex_lock(&fake.lock);
	rc = post_locked(link, chain, bad);
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

static void lane_abort(struct rmem_lane_link *link)
{
	pthread_mutex_lock(&fake.lock);
	link->is_in_error = true;
	pthread_mutex_unlock(&fake.lock);
}

static void lane_close(struct rmem_lane_link *link)
{
	pthread_mutex_lock(&fake.lock);
	if (link->in_flight > 0)
		fake.violations++;
	fake.lanes[link->number] = NULL;
	fake.open_lanes--;
	pthread_mutex_unlock(&fake.lock);
	free(link->waiting);
	free(link);
}

/* --- Notices ---------------------------------------------------------------------------------- */

static uint32_t lane_notices(const struct rmem_lane_link *link)
{
	return link->mail.depth;
}

static void notices_start(struct rmem_lane_link *link, uint64_t id)
{
	pthread_mutex_lock(&fake.lock);
	if (link->mail.is_started)
		fake.violations++;
	link->mail.is_started = true;
	link->mail.id = id;
	pthread_mutex_unlock(&fake.lock);
}

static void notices_stop(struct rmem_lane_link *link)
{
	pthread_mutex_lock(&fake.lock);
	if (!link->mail.is_started)
		fake.violations++;
	link->mail.is_started = false;
	pthread_mutex_unlock(&fake.lock);
}

static void notice_take(struct rmem_lane_link *link, struct rmem_notice *notice)
{
	pthread_mutex_lock(&fake.lock);
	if (link->mail.taken == link->mail.far_sent)
		fake.violations++;
	*notice = link->mail.coming[link->mail.taken++ % FAKE_NOTICES_MAX];
	pthread_mutex_unlock(&fake.lock);
}

static void notices_grant(struct rmem_lane_link *link, uint32_t count)
{
	pthread_mutex_lock(&fake.lock);
	link->mail.far_granted += count;
	if (count == 0 || link->mail.taken - link->mail.far_granted > link->mail.depth)
		fake.violations++; /* more than were taken */
	pthread_mutex_unlock(&fake.lock);
}

static const struct rmem_fabric fake_fabric = {
	.scheme = "fake",
	.port_open = port_open,
	.port_close = port_close,
	.port_limits = port_limits,
	.mr_register = mr_register,
	.mr_unregister = mr_unregister,
	.mr_key = mr_key,
	.cq_create = cq_create,
	.cq_resize = cq_resize,
	.cq_destroy = cq_destroy,
	.cq_poll = cq_poll,
	.cq_fd = cq_fd,
	.cq_arm = cq_arm,
	.cq_ack = cq_ack,
	.connect = connect_to,
	.conn_info = conn_info,
	.conn_fd = conn_fd,
	.conn_alive = conn_alive,
	.disconnect = disconnect,
	.lane_open = lane_open,
	.lane_post = lane_post,
	.lane_abort = lane_abort,
	.lane_close = lane_close,
	.lane_notices = lane_notices,
	.notices_start = notices_start,
	.notices_stop = notices_stop,
	.notice_take = notice_take,
	.notices_grant = notices_grant,
};

const struct rmem_fabric *rmem_fabric_find(const char *url)
{
	return strncmp(url, "fake:", 5) == 0 ? &fake_fabric : NULL;
}

int rmem_fabric_unknown(const char *url, struct rmem_error *error)
{
	return rmem_fail(error, EINVAL, "%s: not a fake address", url);
}
