/* SPDX-License-Identifier: Apache-2.0 */
/* Far servers without a network: shm, but for its saying that transfers are copies of our own.
 * Takes the place of engine/fabric.c; "shm:/PATH/farN.sock" is such a server, other paths are plain
 * shm. */
#include <errno.h>
#include <string.h>

#include "engine/fabric.h"

static struct rmem_fabric far_fabric;

/* Before any thread. */
__attribute__((constructor)) static void make_far_fabric(void)
{
	far_fabric = rmem_fabric_shm;
	far_fabric.is_copy = false;
}

const struct rmem_fabric *rmem_fabric_find(const char *url)
{
	if (strncmp(url, "shm:", 4) != 0)
		return NULL;
	return strstr(url, "/far") != NULL ? &far_fabric : &rmem_fabric_shm;
}

int rmem_fabric_unknown(const char *url, struct rmem_error *error)
{
	return rmem_fail(error, EINVAL, "%s: not shm", url);
}
