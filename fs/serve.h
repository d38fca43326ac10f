/* SPDX-License-Identifier: Apache-2.0 */
/* Serving a mount: a thread per reactor, and the main thread that waits for the end. */
#pragma once

#include "engine/rmem.h"
#include "fs/mount.h"

struct server_threads;

/* Creates a channel per reactor and starts their threads. mount->ready is called from one of them.
 */
int serve_start(struct mount *mount, struct rmem_engine *engine, struct server_threads **threads,
		struct rmem_error *error) RMEM_MUST_CHECK;

/* Blocks until the mount is gone: unmounted by somebody, or by us after SIGTERM, SIGINT or SIGHUP
 * (which the caller has blocked in every thread). `ready` runs on this thread once the kernel has
 * accepted the mount. */
void serve_wait(struct server_threads *threads, const char *mountpoint, void (*ready)(void *user),
		void *user);

/* Ends the threads, after the requests in flight. NULL is fine. */
void serve_stop(struct server_threads *threads);
