/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/dispatch.h"

/* The endpoint is not its server's current one: it is draining, or this is nobody's. */
static RMEM_COLD struct rmem_endpoint *find_draining(const struct rmem_dispatch *dispatch,
						     uint64_t id)
{
	struct rmem_endpoint *at = dispatch->draining;

	while (at && (at->target.server != rmem_id_server(id) ||
		      at->generation != rmem_id_generation(id)))
		at = at->next_draining;
	return at;
}

struct rmem_endpoint *rmem_dispatch_find(const struct rmem_dispatch *dispatch, uint64_t id)
{
	struct rmem_endpoint *endpoint = dispatch->endpoints[rmem_id_server(id)];

	if (RMEM_LIKELY(endpoint && endpoint->generation == rmem_id_generation(id)))
		return endpoint;
	return find_draining(dispatch, id);
}
