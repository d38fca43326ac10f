/* SPDX-License-Identifier: Apache-2.0 */
/* What a device can do is asked, and where the answer says little, tried: the depth of a send queue
 * depends on what a request may hold, and nobody tells how much that may be inline. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "engine/base/checked.h"
#include "engine/base/log.h"
#include "engine/fabric_verbs.h"
#include "engine/memory.h"

static bool try_qp(struct ibv_pd *pd, struct ibv_cq *cq, const struct ibv_qp_cap *cap,
		   uint32_t *inline_bytes)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = *cap,
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	if (qp == NULL)
		return false;
	*inline_bytes = attr.cap.max_inline_data;
	ibv_destroy_qp(qp);
	return true;
}

/* Finds out how much can be inline, and then how deep a queue of such requests can be. */
static int probe_queue(struct rmem_port *port, uint32_t depth, struct rmem_error *error)
{
	struct ibv_cq *cq = ibv_create_cq(port->context, 1, NULL, NULL, 0);
	struct ibv_qp_cap cap = {
		.max_send_wr = 16,
		.max_recv_wr = 1,
		.max_send_sge = port->limits.sge_max,
		.max_recv_sge = 1,
		.max_inline_data = rmem_verbs_options()->inline_bytes,
	};
	bool is_good = false;
	uint32_t got;

	if (cq == NULL)
		return rmem_fail(error, errno, "%s: no completion queue: %s", port->name,
				 strerror(errno));
	while (!(is_good = try_qp(port->pd, cq, &cap, &got)) && cap.max_inline_data > 0)
		cap.max_inline_data /= 2;
	if (is_good) {
		port->limits.inline_max_bytes = (uint32_t)rmem_min_u64(cap.max_inline_data, got);
		cap.max_send_wr = depth;
		while (!(is_good = try_qp(port->pd, cq, &cap, &got)) && cap.max_send_wr > 1)
			cap.max_send_wr /= 2;
		port->limits.depth_max = cap.max_send_wr;
	}
	ibv_destroy_cq(cq);
	if (is_good)
		return 0;
	return rmem_fail(error, errno, "%s: no queue pair, not even a small one: %s", port->name,
			 strerror(errno));
}

static void tell_limits(const struct rmem_port *port)
{
	const struct rmem_port_limits *limits = &port->limits;
	unsigned wanted = rmem_verbs_options()->inline_bytes;

	rmem_log_debug(
		RMEM_LOG_FABRIC,
		"%s: up to %u requests in a send queue, %u pieces and %u inline bytes in a "
		"request, %u completions in a queue, %u reads in flight, messages of %" PRIu64
		" bytes",
		port->name, limits->depth_max, limits->sge_max, limits->inline_max_bytes,
		limits->cq_depth_max, port->reads_max, limits->message_max_bytes);
	if (limits->inline_max_bytes < wanted)
		rmem_log_info(RMEM_LOG_FABRIC, "%s: verbs.inline is %u here instead of %u",
			      port->name, limits->inline_max_bytes, wanted);
}

static int read_limits(struct rmem_port *port, struct rmem_error *error)
{
	struct ibv_device_attr device;
	struct ibv_port_attr physical;
	uint64_t depth;
	int code = ibv_query_device(port->context, &device);

	if (code == 0)
		code = ibv_query_port(port->context, port->anchor->port_num, &physical);
	if (code != 0)
		return rmem_fail(error, code, "%s: the device does not say what it can do: %s",
				 port->name, strerror(code));
	port->limits.sge_max = (uint32_t)rmem_min_u64((uint64_t)device.max_sge, RMEM_SGE_MAX);
	port->limits.cq_depth_max = (uint32_t)device.max_cqe;
	port->limits.message_max_bytes = physical.max_msg_sz;
	port->reads_max = (uint8_t)rmem_min_u64((uint64_t)device.max_qp_init_rd_atom, 128);
	depth = rmem_min_u64((uint64_t)device.max_qp_wr, (uint64_t)device.max_cqe);
	depth = rmem_min_u64(depth, VERBS_DEPTH_MAX);
	return probe_queue(port, (uint32_t)depth, error);
}

/* What was found out about a device before: it takes a while, and a port is opened for each server.
 */
static struct finding {
	char name[64];
	__be64 guid;
	unsigned inline_wanted;
	uint8_t reads_max;
	struct rmem_port_limits limits;
} findings[RMEM_PORTS_MAX]; /* under the lock of all ports */
static unsigned finding_count;

static struct finding *find_out(const struct rmem_port *port)
{
	__be64 guid = ibv_get_device_guid(port->context->device);

	for (unsigned i = 0; i < finding_count; i++) {
		struct finding *at = &findings[i];

		if (at->guid == guid && strcmp(at->name, port->name) == 0 &&
		    at->inline_wanted == rmem_verbs_options()->inline_bytes)
			return at;
	}
	return NULL;
}

int verbs_limits_get(struct rmem_port *port, struct rmem_error *error)
{
	struct finding *finding = find_out(port);
	int rc;

	if (port->has_limits)
		return 0;
	if (finding != NULL) {
		port->limits = finding->limits;
		port->reads_max = finding->reads_max;
		port->has_limits = true;
		return 0;
	}
	rc = read_limits(port, error);
	if (rc != 0)
		return rc;
	port->has_limits = true;
	tell_limits(port);
	if (finding_count == RMEM_PORTS_MAX)
		finding_count = 0; /* start over */
	finding = &findings[finding_count++];
	*finding = (struct finding){
		.guid = ibv_get_device_guid(port->context->device),
		.inline_wanted = rmem_verbs_options()->inline_bytes,
		.reads_max = port->reads_max,
		.limits = port->limits,
	};
	memcpy(finding->name, port->name, sizeof(finding->name));
	return 0;
}
