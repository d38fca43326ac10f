/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/fabric.h"

#include <errno.h>
#include <string.h>

static const struct rmem_fabric *const fabrics[] = {
	&rmem_fabric_shm,
#if RMEM_VERBS
	&rmem_fabric_verbs,
#endif
};

const struct rmem_fabric *rmem_fabric_find(const char *url)
{
	for (unsigned i = 0; i < RMEM_COUNT_OF(fabrics); i++) {
		size_t length = strlen(fabrics[i]->scheme);

		if (strncmp(url, fabrics[i]->scheme, length) == 0 && url[length] == ':')
			return fabrics[i];
	}
	return NULL;
}

int rmem_fabric_unknown(const char *url, struct rmem_error *error)
{
	if (strncmp(url, "verbs:", 6) == 0)
		return rmem_fail(
			error, EINVAL,
			"%s: this program was built without RDMA: install libibverbs-dev "
			"and librdmacm-dev and build it again (meson setup -Dverbs=enabled)",
			url);
	return rmem_fail(error, EINVAL,
			 "%s: there is no such fabric; an address looks like shm:/path/to/socket "
			 "or verbs://10.0.0.1:7471",
			 url);
}
