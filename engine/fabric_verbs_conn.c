/* SPDX-License-Identifier: Apache-2.0 */
/* A client's connections: control first, then as many lanes as are asked for. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "engine/fabric_verbs.h"

#define PROBE_MIN_MS 10

/* --- Connecting --------------------------------------------------------------------------------
 */

static int watch(struct rmem_conn *conn, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(conn->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int make_descriptors(struct rmem_conn *conn, struct rmem_error *error)
{
	conn->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	conn->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	conn->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (conn->epoll_fd < 0 || conn->news_fd < 0 || conn->timer_fd < 0 ||
	    watch(conn, conn->news_fd) != 0 || watch(conn, conn->timer_fd) != 0)
		return rmem_fail(error, errno, "no descriptors for a connection: %s",
				 strerror(errno));
	return 0;
}

static int watch_control(struct rmem_conn *conn, struct rmem_error *error)
{
	const struct verbs_control *control = &conn->control;

	if (watch(conn, control->channel->fd) != 0 || watch(conn, control->completions->fd) != 0 ||
	    watch(conn, control->port->context->async_fd) != 0)
		return rmem_fail(error, errno, "no descriptors for a connection: %s",
				 strerror(errno));
	return 0;
}

static int ask(void *user, const struct rmem_control_request *request,
	       struct rmem_control_message *answer, struct rmem_error *error)
{
	struct verbs_control *control = user;

	return verbs_control_ask(control, request->bytes, request->length, request->wanted, answer,
				 error);
}

static int greet(struct rmem_conn *conn, struct rmem_error *error)
{
	const struct rmem_control_way way = {ask, &conn->control, conn->control.where};
	struct rmem_control_message answer;
	struct rmem_welcome welcome;
	int rc;

	rc = rmem_control_greet(&way, &answer, error);
	if (rc != 0)
		return rc;
	if (rmem_wire_get_welcome(answer.bytes, answer.length, &welcome) != 0)
		return rmem_fail(error, EPROTO, "%s: the server's answer is garbled",
				 conn->control.where);
	conn->incarnation = welcome.incarnation;
	conn->region_count = welcome.region_count;
	conn->has_notices = (welcome.features & RMEM_WIRE_FEATURE_NOTICES) != 0;
	for (uint32_t i = 0; i < welcome.region_count; i++)
		conn->regions[i] = welcome.regions[i].remote;
	return 0;
}

static int fill(struct rmem_conn *conn, struct rmem_port *port, const char *url,
		struct rmem_error *error)
{
	int rc = make_descriptors(conn, error);

	if (rc == 0)
		rc = verbs_control_open(&conn->control, port, url,
					rmem_deadline_in_ms(conn->timeout_ms), error);
	if (rc == 0)
		rc = greet(conn, error);
	if (rc == 0)
		rc = watch_control(conn, error);
	if (rc == 0 && verbs_control_arm(&conn->control) != 0)
		rc = rmem_fail(error, EIO, "%s: the completion queue can't be armed",
			       conn->control.where);
	return rc;
}

int verbs_connect(struct rmem_port *port, const char *url, unsigned timeout_ms,
		  struct rmem_conn **conn, struct rmem_error *error)
{
	struct rmem_conn *made = calloc(1, sizeof(*made));
	int rc;

	if (made == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	made->epoll_fd = made->news_fd = made->timer_fd = -1;
	made->timeout_ms = timeout_ms;
	LIST_INIT(&made->lanes);
	rc = fill(made, port, url, error);
	if (rc != 0) {
		verbs_disconnect(made);
		return rc;
	}
	pthread_mutex_lock(&port->lock);
	LIST_INSERT_HEAD(&port->conns, made, link);
	pthread_mutex_unlock(&port->lock);
	*conn = made;
	return 0;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void verbs_disconnect(struct rmem_conn *conn)
{
	struct rmem_port *port;

	if (conn == NULL)
		return;
	assert(LIST_EMPTY(&conn->lanes));
	port = conn->control.port;
	/* It is in the list once it has been connected whole. */
	if (conn->link.le_prev != NULL) {
		pthread_mutex_lock(&port->lock);
		LIST_REMOVE(conn, link);
		pthread_mutex_unlock(&port->lock);
	}
	close_fd(conn->epoll_fd);
	verbs_control_close(&conn->control);
	close_fd(conn->timer_fd);
	close_fd(conn->news_fd);
	free(conn);
}

void verbs_conn_info(const struct rmem_conn *conn, struct rmem_conn_info *info)
{
	info->incarnation = conn->incarnation;
	info->region_count = conn->region_count;
	info->regions = conn->regions;
}

int verbs_conn_fd(const struct rmem_conn *conn)
{
	return conn->epoll_fd;
}

/* --- Looking -----------------------------------------------------------------------------------
 */

static int look_at_legs(struct rmem_conn *conn)
{
	const struct rmem_lane_link *lane;
	int rc;

	while ((rc = verbs_take_event(conn->control.channel)) == 0)
		;
	if (rc != -EAGAIN && rc != -EINTR)
		return rc;
	if (conn->control.leg.is_over)
		return -ECONNRESET;
	LIST_FOREACH(lane, &conn->lanes, link)
	{
		if (lane->leg.is_over)
			return -ECONNRESET;
	}
	return 0;
}

/* What ended the connection; the more telling reasons first. */
static int look(struct rmem_conn *conn)
{
	uint64_t count;
	int rc;

	verbs_port_look(conn->control.port);
	rc = atomic_load(&conn->trouble);
	if (rc == 0)
		rc = verbs_control_arm(&conn->control);
	if (rc == 0)
		rc = verbs_control_look(&conn->control);
	if (rc == 0)
		rc = look_at_legs(conn);
	if (rc == 0 && read(conn->timer_fd, &count, sizeof(count)) == sizeof(count))
		rc = verbs_control_probe(&conn->control, conn->detect_ms / 2);
	return rc;
}

static bool is_quiet(const struct rmem_conn *conn)
{
	struct epoll_event event;

	return epoll_wait(conn->epoll_fd, &event, 1, 0) == 0;
}

int verbs_conn_alive(struct rmem_conn *conn)
{
	struct rmem_lane_link *lane;

	if (conn->lost != 0 || is_quiet(conn))
		return conn->lost;
	conn->lost = look(conn);
	if (conn->lost == 0)
		return 0;
	rmem_log_debug(RMEM_LOG_FABRIC, "%s: the connection is over: %s", conn->control.where,
		       strerror(-conn->lost));
	LIST_FOREACH(lane, &conn->lanes, link)
	verbs_qp_abort(lane->qp);
	return conn->lost;
}

/* --- Lanes -------------------------------------------------------------------------------------
 */

/* A server that has nothing to do may be dead for a quarter of the time before it is asked for a
 * sign of life, has half of it to answer, and it takes up to another quarter to look. */
static void start_probing(struct rmem_conn *conn, unsigned detect_ms)
{
	uint64_t ms = rmem_max_u64(detect_ms / 4, PROBE_MIN_MS);
	const struct timespec period = {
		.tv_sec = (time_t)(ms / 1000),
		.tv_nsec = (long)(ms % 1000 * RMEM_NS_PER_MS),
	};
	const struct itimerspec timer = {.it_interval = period, .it_value = period};

	if (detect_ms == 0 || conn->detect_ms != 0)
		return;
	conn->detect_ms = detect_ms;
	timerfd_settime(conn->timer_fd, 0, &timer, NULL);
}

static int check_options(const struct rmem_conn *conn, const struct rmem_lane_options *options,
			 struct rmem_error *error)
{
	const struct rmem_port *port = conn->control.port;
	const struct rmem_port_limits *limits = &port->limits;

	if (options->depth == 0 || options->depth > limits->depth_max ||
	    options->inline_bytes > limits->inline_max_bytes)
		return rmem_fail(error, EINVAL,
				 "%s: a lane of depth %u with %u bytes inline, where up to %u and "
				 "%u can be had",
				 port->name, options->depth, options->inline_bytes,
				 limits->depth_max, limits->inline_max_bytes);
	if (conn->lost != 0)
		return rmem_fail(error, -conn->lost, "%s: the connection is lost: %s",
				 conn->control.where, strerror(-conn->lost));
	return 0;
}

static int make_chain(struct rmem_lane_link *lane, struct rmem_error *error)
{
	uint32_t count = lane->chain_max;

	lane->wrs = calloc(count, sizeof(*lane->wrs));
	lane->sges = calloc((size_t)count * RMEM_SGE_MAX, sizeof(*lane->sges));
	if (lane->wrs == NULL || lane->sges == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < count; i++) {
		lane->wrs[i].sg_list = &lane->sges[(size_t)i * RMEM_SGE_MAX];
		lane->wrs[i].next = i + 1 < count ? &lane->wrs[i + 1] : NULL;
	}
	return 0;
}

static int dial(struct rmem_lane_link *lane, const struct rmem_lane_options *options,
		struct rmem_error *error)
{
	struct verbs_control *control = &lane->conn->control;
	struct ibv_cq *cq = lane->cq->cq;
	uint32_t notices = verbs_lane_notices(lane);
	struct verbs_dial dial = {
		.port = control->port,
		.channel = control->channel,
		.peer = (struct sockaddr *)&control->peer,
		.where = control->where,
		.deadline_ns = rmem_deadline_in_ms(lane->conn->timeout_ms),
		.qp = {.qp_context = lane->conn,
		       .send_cq = cq,
		       .recv_cq = cq,
		       .cap = {.max_send_wr = options->depth + (notices > 0 ? VERBS_GRANTS : 0),
			       .max_recv_wr = notices > 0 ? notices + VERBS_GRANT_SPARES : 1,
			       .max_send_sge = lane->sge_max,
			       .max_recv_sge = 1,
			       .max_inline_data = options->inline_bytes},
		       .qp_type = IBV_QPT_RC},
		.join = {.kind = RMEM_WIRE_JOIN_LANE, .token = control->token, .notices = notices},
	};
	struct rmem_join answer;
	int rc;

	verbs_timing_init(&dial.timing, options->detect_ms);
	rc = verbs_dial(&dial, &lane->leg, &answer, error);
	if (rc != 0)
		return rc;
	lane->qp = lane->leg.qp;
	return notices > 0 ? verbs_mailbox_begin(lane, answer.notices, options->inline_bytes, error)
			   : 0;
}

int verbs_lane_open(struct rmem_conn *conn, struct rmem_cq *cq,
		    const struct rmem_lane_options *options, struct rmem_lane_link **link,
		    struct rmem_error *error)
{
	struct rmem_lane_link *made;
	int rc = check_options(conn, options, error);

	if (rc != 0)
		return rc;
	made = calloc(1, sizeof(*made));
	if (made == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	made->conn = conn;
	made->cq = cq;
	made->sge_max = conn->control.port->limits.sge_max;
	made->inline_bytes = options->inline_bytes;
	made->chain_max = VERBS_CHAIN_MAX;
	LIST_INSERT_HEAD(&conn->lanes, made, link);
	rc = make_chain(made, error);
	if (rc == 0 && options->notices > 0 && conn->has_notices)
		rc = verbs_mailbox_open(made, options->notices, error);
	if (rc == 0)
		rc = dial(made, options, error);
	if (rc != 0) {
		verbs_lane_close(made);
		return rc;
	}
	start_probing(conn, options->detect_ms);
	*link = made;
	return 0;
}

void verbs_lane_close(struct rmem_lane_link *link)
{
	if (link == NULL)
		return;
	LIST_REMOVE(link, link);
	verbs_leg_close(&link->leg);
	verbs_mailbox_close(link);
	free(link->wrs);
	free(link->sges);
	free(link);
}
