/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/fabric.h"

#include <string.h>

static const struct rmem_fabric *const fabrics[] = {
	&rmem_fabric_shm,
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
