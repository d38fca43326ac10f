/* SPDX-License-Identifier: Apache-2.0 */
/* The devices that clients come through, each with the whole pool registered. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/checked.h"
#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "engine/fabric_verbs_server.h"

#define COMPLETIONS_TAKEN 32
#define MIB		  ((uint64_t)1 << 20)

void verbs_device_destroy(struct verbs_device *device)
{
	verbs_post_destroy(device->post);
	if (device->unacked > 0)
		ibv_ack_cq_events(device->cq, device->unacked);
	if (device->cq != NULL)
		ibv_destroy_cq(device->cq);
	if (device->channel != NULL)
		ibv_destroy_comp_channel(device->channel);
	for (unsigned i = 0; i < RMEM_REGIONS_MAX; i++) {
		if (device->mrs[i] != NULL)
			ibv_dereg_mr(device->mrs[i]);
	}
	if (device->pd != NULL)
		ibv_dealloc_pd(device->pd);
	free(device);
}

void verbs_device_poll(struct verbs_device *device)
{
	struct ibv_wc wcs[COMPLETIONS_TAKEN];
	int got;

	do {
		got = ibv_poll_cq(device->cq, COMPLETIONS_TAKEN, wcs);
		for (int i = 0; i < got; i++)
			verbs_guest_complete(device->house, &wcs[i]);
	} while (got > 0);
}

static void completions_ready(struct server_source *source, uint32_t events)
{
	struct verbs_device *device = RMEM_CONTAINER_OF(source, struct verbs_device, completions);
	struct ibv_cq *cq;
	void *context;

	(void)events;
	while (ibv_get_cq_event(device->channel, &cq, &context) == 0)
		device->unacked++;
	/* Armed before it is emptied: what comes later is announced. */
	if (ibv_req_notify_cq(device->cq, 0) != 0)
		rmem_log_error(RMEM_LOG_SERVER, "%s: the completion queue is broken",
			       device->context->device->name);
	verbs_device_poll(device);
}

static void events_ready(struct server_source *source, uint32_t events)
{
	struct verbs_device *device = RMEM_CONTAINER_OF(source, struct verbs_device, events);
	struct ibv_async_event event;

	(void)events;
	while (ibv_get_async_event(device->context, &event) == 0) {
		switch (event.event_type) {
		case IBV_EVENT_DEVICE_FATAL:
		case IBV_EVENT_PORT_ERR:
		case IBV_EVENT_CQ_ERR:
			rmem_log_error(RMEM_LOG_SERVER, "%s: %s", device->context->device->name,
				       ibv_event_type_str(event.event_type));
			break;
		default: /* queue pairs: their clients see to it */
			rmem_log_debug(RMEM_LOG_SERVER, "%s: %s", device->context->device->name,
				       ibv_event_type_str(event.event_type));
			break;
		}
		ibv_ack_async_event(&event);
	}
}

static int register_region(struct verbs_device *device, uint32_t id, struct rmem_error *error)
{
	const struct rmem_server *server = device->house->server;
	struct rmem_welcome_region *region = &device->welcome.regions[id];
	const struct verbs_stretch stretch = {
		.address = server->pool->map + region->fd_offset,
		.length = region->remote.length,
		.remote_address = region->remote.address | device->house->address_bits,
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};

	device->mrs[id] = verbs_register(device->pd, &stretch, error);
	if (device->mrs[id] == NULL)
		return error->code;
	region->remote.address = stretch.remote_address;
	region->remote.key = device->mrs[id]->rkey;
	region->fd_index = RMEM_WIRE_NO_FD;
	region->fd_offset = 0;
	return 0;
}

static int register_pool(struct verbs_device *device, struct rmem_error *error)
{
	const struct rmem_server *server = device->house->server;
	const char *name = device->context->device->name;
	uint64_t begin_ns = rmem_now_ns();
	int rc = 0;

	device->welcome = server->welcome;
	for (uint32_t i = 0; rc == 0 && i < device->welcome.region_count; i++)
		rc = register_region(device, i, error);
	if (rc == 0)
		rmem_log_info(RMEM_LOG_SERVER,
			      "registered %" PRIu64 " MiB with %s in %" PRIu64 " ms",
			      server->pool->data_bytes / MIB, name,
			      (rmem_now_ns() - begin_ns) / RMEM_NS_PER_MS);
	return rc;
}

static int nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ? -errno : 0;
}

static int make_queue(struct verbs_device *device, struct rmem_error *error)
{
	const char *name = device->context->device->name;
	unsigned wanted = device->house->server->options.clients_max * GUEST_CQ_ENTRIES;
	struct ibv_device_attr limits;
	int code = ibv_query_device(device->context, &limits);

	if (code != 0)
		return rmem_fail(error, code, "%s: the device does not say what it can do: %s",
				 name, strerror(code));
	device->reads_max = (uint8_t)rmem_min_u64((uint64_t)limits.max_qp_rd_atom, 128);
	if (wanted > (unsigned)limits.max_cqe) {
		wanted = (unsigned)limits.max_cqe;
		rmem_log_warn(RMEM_LOG_SERVER, "%s: room for %u clients only", name,
			      wanted / GUEST_CQ_ENTRIES);
	}
	device->guests_max = wanted / GUEST_CQ_ENTRIES;
	device->channel = ibv_create_comp_channel(device->context);
	if (device->channel != NULL)
		device->cq = ibv_create_cq(device->context, (int)wanted, NULL, device->channel, 0);
	if (device->cq == NULL || ibv_req_notify_cq(device->cq, 0) != 0 ||
	    nonblocking(device->channel->fd) != 0 || nonblocking(device->context->async_fd) != 0)
		return rmem_fail(error, errno, "%s: no completion queue: %s", name,
				 strerror(errno));
	return 0;
}

static int device_fill(struct verbs_device *device, struct rmem_error *error)
{
	struct rmem_server *server = device->house->server;
	int rc;

	if (device->context->device->transport_type != IBV_TRANSPORT_IB)
		return rmem_fail(error, ENOTSUP,
				 "%s: an iWARP device; InfiniBand and RoCE are supported",
				 device->context->device->name);
	device->pd = ibv_alloc_pd(device->context);
	if (device->pd == NULL)
		return rmem_fail(error, errno, "%s: no protection domain: %s",
				 device->context->device->name, strerror(errno));
	rc = register_pool(device, error);
	if (rc == 0)
		rc = make_queue(device, error);
	if (rc != 0)
		return rc;
	device->completions =
		(struct server_source){.ready = completions_ready, .fd = device->channel->fd};
	device->events =
		(struct server_source){.ready = events_ready, .fd = device->context->async_fd};
	rc = server_watch(server, &device->completions, error);
	if (rc == 0)
		rc = server_watch(server, &device->events, error);
	return rc;
}

struct verbs_device *verbs_device_get(struct verbs_house *house, struct ibv_context *context,
				      struct rmem_error *error)
{
	struct verbs_device *device;

	SLIST_FOREACH(device, &house->devices, link)
	{
		if (device->context == context)
			return device;
	}
	device = calloc(1, sizeof(*device));
	if (device == NULL) {
		(void)rmem_fail(error, ENOMEM, "out of memory");
		return NULL;
	}
	device->house = house;
	device->context = context;
	if (device_fill(device, error) != 0) {
		verbs_device_destroy(device);
		return NULL;
	}
	SLIST_INSERT_HEAD(&house->devices, device, link);
	return device;
}

static bool has_active_port(struct ibv_context *context)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;

	if (ibv_query_device(context, &device) != 0)
		return false;
	for (uint8_t i = 1; i <= device.phys_port_cnt; i++) {
		if (ibv_query_port(context, i, &port) == 0 && port.state == IBV_PORT_ACTIVE)
			return true;
	}
	return false;
}

int verbs_device_get_all(struct verbs_house *house, struct rmem_error *error)
{
	unsigned count = 0;

	for (unsigned i = 0; house->contexts != NULL && house->contexts[i] != NULL; i++) {
		struct ibv_context *context = house->contexts[i];

		if (context->device->transport_type != IBV_TRANSPORT_IB ||
		    !has_active_port(context))
			continue;
		if (verbs_device_get(house, context, error) == NULL)
			return error->code;
		count++;
	}
	if (count == 0)
		rmem_log_warn(RMEM_LOG_SERVER,
			      "no RDMA device is up yet; clients come once one is ('rdma link' "
			      "shows them)");
	return 0;
}
