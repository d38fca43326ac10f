/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps a process alive when the file behind a pool is cut.
 *
 * A server's anonymous pool is sealed and can't shrink. A pool in a file can be truncated by
 * anybody with the right to, and memory can fail: touching such a page is a SIGBUS, which would
 * end the program and, with a mount daemon, the mount. For guarded memory, a handler puts empty
 * memory in its place, so that the copy runs to its end, and says so in `*is_cut`: whoever copied
 * looks at it afterwards, and knows that the bytes went nowhere. A SIGBUS from elsewhere goes to
 * the handler that was there before.
 *
 * The handler is installed with the first guard. Adding and removing are for control threads. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>

#include "engine/base/error.h"

/* Guards [map, map + bytes) until it is removed. On a fault `is_cut` becomes true and the
 * connection at `fd` is shut down, which is how its owner gets to know. Both must stay valid.
 * Errors: -ENOSPC (too many guarded mappings). */
int shm_guard_add(void *map, size_t bytes, atomic_bool *is_cut, int fd,
		  struct rmem_error *error) RMEM_MUST_CHECK;

/* Does nothing when it is not guarded. Nobody may be copying any more. */
void shm_guard_remove(void *map);
