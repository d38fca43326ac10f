/* SPDX-License-Identifier: Apache-2.0 */
/* Into the background, in such a way that the caller's shell learns how it went.
 *
 * daemon_start() forks before any device is opened or thread started (registered memory does not
 * survive a fork). The parent waits until the child calls daemon_ready() or ends, repeats what the
 * child had to say, and exits accordingly. */
#pragma once

#include "engine/base/error.h"

/* Returns in the child only, unless there is an error. */
int daemon_start(struct rmem_error *error) RMEM_MUST_CHECK;

/* The child works: the parent exits with 0, stdin, stdout and stderr go to /dev/null. No-op when
 * daemon_start() was not called. */
void daemon_ready(void);
