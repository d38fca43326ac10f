/* SPDX-License-Identifier: Apache-2.0 */
/* Ports: a local device each, found by the address that leads to a server.
 *
 * A port is shared by all that reach their servers through its device, also by several engines of a
 * process. Its anchor, an id bound to the device and used for nothing else, keeps the device open.
 *
 * What it can do: fabric_verbs_limits.c. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "engine/base/log.h"
#include "engine/fabric_verbs.h"

static pthread_mutex_t ports_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rmem_port *ports;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

void verbs_port_limits(const struct rmem_port *port, struct rmem_port_limits *limits)
{
	*limits = port->limits;
}

/* --- Life --------------------------------------------------------------------------------------
 */

static void port_destroy(struct rmem_port *port)
{
	if (port == NULL)
		return;
	if (port->pd != NULL)
		ibv_dealloc_pd(port->pd);
	if (port->anchor != NULL)
		rdma_destroy_id(port->anchor);
	if (port->channel != NULL)
		rdma_destroy_event_channel(port->channel);
	pthread_mutex_destroy(&port->lock);
	free(port);
}

static int nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ? -errno : 0;
}

/* Binds the anchor to the address that leads to `peer`, which says what device that is. */
static int bind_anchor(struct rmem_port *port, const struct sockaddr *peer, const char *where,
		       struct rmem_error *error)
{
	struct sockaddr_storage source;
	int rc = verbs_source(peer, where, &source, error);

	if (rc != 0)
		return rc;
	rc = verbs_channel_open(&port->channel, error);
	if (rc != 0)
		return rc;
	if (rdma_create_id(port->channel, &port->anchor, NULL, RDMA_PS_TCP) != 0)
		return rmem_fail(error, errno, "no connection manager's id: %s", strerror(errno));
	if (rdma_bind_addr(port->anchor, (struct sockaddr *)&source) != 0)
		return verbs_no_device(where, errno, error);
	port->context = port->anchor->verbs;
	if (port->context == NULL)
		return verbs_no_device(where, ENODEV, error);
	snprintf(port->name, sizeof(port->name), "%s", port->context->device->name);
	return 0;
}

static int port_fill(struct rmem_port *port, struct rmem_error *error)
{
	int rc;

	if (port->context->device->transport_type != IBV_TRANSPORT_IB)
		return rmem_fail(error, ENOTSUP,
				 "%s: an iWARP device; InfiniBand and RoCE are supported",
				 port->name);
	rc = nonblocking(port->context->async_fd);
	if (rc != 0)
		return rmem_fail(error, -rc, "%s: %s", port->name, strerror(-rc));
	port->pd = ibv_alloc_pd(port->context);
	if (port->pd == NULL)
		return rmem_fail(error, errno, "%s: no protection domain: %s", port->name,
				 strerror(errno));
	return 0;
}

static struct rmem_port *find_port(const struct ibv_context *context)
{
	struct rmem_port *port = ports;

	while (port != NULL && port->context != context)
		port = port->next;
	return port;
}

enum port_use { PORT_WHOLE, PORT_BARE };

/* Takes `made`, which is bound to its device, or one that is there for the device. */
static int adopt(struct rmem_port *made, enum port_use use, struct rmem_port **port,
		 struct rmem_error *error)
{
	struct rmem_port *old = find_port(made->context);
	int rc;

	if (old != NULL) {
		port_destroy(made);
		rc = use == PORT_WHOLE ? verbs_limits_get(old, error) : 0;
		old->users += rc == 0;
		*port = old;
		return rc;
	}
	rc = port_fill(made, error);
	if (rc == 0 && use == PORT_WHOLE)
		rc = verbs_limits_get(made, error);
	if (rc != 0) {
		port_destroy(made);
		return rc;
	}
	made->users = 1;
	made->next = ports;
	ports = made;
	*port = made;
	return 0;
}

/* Where the kernel doesn't copy pinned pages at fork() itself, the library keeps them out of the
 * child: a daemon that runs a helper would lose the pages that its device writes to. */
static void make_fork_safe(void)
{
	(void)ibv_fork_init();
}

static int open_port(const char *url, enum port_use use, struct rmem_port **port,
		     struct rmem_error *error)
{
	struct rmem_verbs_address address;
	struct sockaddr_storage peer;
	struct rmem_port *made;
	int rc;

	rc = rmem_verbs_parse(url, &address, error);
	if (rc == 0)
		rc = verbs_resolve(&address, &peer, error);
	if (rc != 0)
		return rc;
	pthread_once(&fork_once, make_fork_safe);
	made = calloc(1, sizeof(*made));
	if (made == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	pthread_mutex_init(&made->lock, NULL);
	LIST_INIT(&made->conns);
	rc = bind_anchor(made, (struct sockaddr *)&peer, url, error);
	if (rc != 0) {
		port_destroy(made);
		return rc;
	}
	pthread_mutex_lock(&ports_lock);
	rc = adopt(made, use, port, error);
	pthread_mutex_unlock(&ports_lock);
	return rc;
}

int verbs_port_open(const char *url, struct rmem_port **port, struct rmem_error *error)
{
	return open_port(url, PORT_WHOLE, port, error);
}

int verbs_port_open_bare(const char *url, struct rmem_port **port, struct rmem_error *error)
{
	return open_port(url, PORT_BARE, port, error);
}

void verbs_port_close(struct rmem_port *port)
{
	if (port == NULL)
		return;
	pthread_mutex_lock(&ports_lock);
	if (--port->users == 0) {
		struct rmem_port **at = &ports;

		while (*at != port)
			at = &(*at)->next;
		*at = port->next;
		port_destroy(port);
	}
	pthread_mutex_unlock(&ports_lock);
}

/* --- Memory ------------------------------------------------------------------------------------
 */

static int cannot_register(const struct ibv_pd *pd, size_t length, int code,
			   struct rmem_error *error)
{
	const char *device = pd->context->device->name;
	size_t kib = length / 1024;
	struct rlimit limit;

	if ((code == ENOMEM || code == EAGAIN) && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
	    limit.rlim_cur != RLIM_INFINITY)
		return rmem_fail(
			error, ENOMEM,
			"%s: can't register %zu KiB of memory: %s; this process may lock %" PRIu64
			" KiB (ulimit -l): raise that limit (LimitMEMLOCK= in a service unit, "
			"memlock in /etc/security/limits.conf), or use less memory",
			device, kib, strerror(code), (uint64_t)limit.rlim_cur / 1024);
	return rmem_fail(error, code, "%s: can't register %zu KiB of memory: %s", device, kib,
			 strerror(code));
}

/* Whether the process may lock more than before: as much as it may say for itself. */
static bool raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
		return false;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
}

struct ibv_mr *verbs_register(struct ibv_pd *pd, const struct verbs_stretch *stretch,
			      struct rmem_error *error)
{
	struct ibv_mr *mr;
	int code;

	do {
		mr = ibv_reg_mr_iova(pd, stretch->address, stretch->length, stretch->remote_address,
				     stretch->access);
		code = errno;
	} while (mr == NULL && code == ENOMEM && raise_limit());
	if (mr == NULL)
		(void)cannot_register(pd, stretch->length, code, error);
	return mr;
}

int verbs_mr_register(struct rmem_port *port, void *address, size_t length, struct rmem_mr **mr,
		      struct rmem_error *error)
{
	const struct verbs_stretch stretch = {
		.address = address,
		.length = length,
		.remote_address = (uintptr_t)address,
		.access = IBV_ACCESS_LOCAL_WRITE,
	};
	struct rmem_mr *made = malloc(sizeof(*made));
	struct rmem_error reason = {0};

	if (made == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	made->mr = verbs_register(port->pd, &stretch, &reason);
	if (made->mr == NULL) {
		free(made);
		if (error != NULL)
			*error = reason;
		return reason.code;
	}
	*mr = made;
	return 0;
}

void verbs_mr_unregister(struct rmem_mr *mr)
{
	if (mr == NULL)
		return;
	ibv_dereg_mr(mr->mr);
	free(mr);
}

uint32_t verbs_mr_key(const struct rmem_mr *mr)
{
	return mr->mr->lkey;
}

/* --- Events ------------------------------------------------------------------------------------
 */

static void tell(struct rmem_conn *conn, int trouble)
{
	const uint64_t one = 1;
	int none = 0;

	/* The first trouble is the reason for the others. */
	if (atomic_compare_exchange_strong(&conn->trouble, &none, trouble))
		(void)!write(conn->news_fd, &one, sizeof(one));
}

/* Tells those that go through the physical port; all of them for 0. */
static void tell_all(struct rmem_port *port, int physical, int trouble)
{
	struct rmem_conn *conn;

	LIST_FOREACH(conn, &port->conns, link)
	{
		if (physical == 0 || conn->control.leg.id->port_num == physical)
			tell(conn, trouble);
	}
}

static void take_device_event(struct rmem_port *port, const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_DEVICE_FATAL:
		tell_all(port, 0, -ENODEV);
		break;
	case IBV_EVENT_PORT_ERR:
		tell_all(port, event->element.port_num, -ENETDOWN);
		break;
	case IBV_EVENT_CQ_ERR:
		/* Control's queues have no context. */
		if (event->element.cq->cq_context != NULL) {
			struct rmem_cq *cq = event->element.cq->cq_context;

			atomic_store_explicit(&cq->is_broken, true, memory_order_relaxed);
		}
		tell_all(port, 0, -EIO);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_PATH_MIG_ERR:
		/* Acknowledged below: until then the queue pair, and so its owner, stays. */
		if (event->element.qp->qp_context != NULL)
			tell(event->element.qp->qp_context, -EIO);
		break;
	default:
		return;
	}
	rmem_log_warn(RMEM_LOG_FABRIC, "%s: %s", port->name, ibv_event_type_str(event->event_type));
}

void verbs_port_look(struct rmem_port *port)
{
	struct ibv_async_event event;

	pthread_mutex_lock(&port->lock);
	while (ibv_get_async_event(port->context, &event) == 0) {
		take_device_event(port, &event);
		ibv_ack_async_event(&event);
	}
	pthread_mutex_unlock(&port->lock);
}
