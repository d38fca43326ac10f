/* SPDX-License-Identifier: Apache-2.0 */
/* Memory servers of the benchmark's own: in this process, over shm, each with a thread that does
 * nothing once its clients are connected. Their sockets lie in a new folder under $TMPDIR, or /tmp,
 * that goes when they are stopped. Used by the main thread. */
#pragma once

#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/hint.h"
#include "engine/rmem.h"

struct bench_servers;

struct bench_servers_options {
	unsigned count;
	uint64_t pool_bytes; /* of each; whole pages */
	enum rmem_huge_pages huge_pages;
};

/* Errors: those of rmem_server_create(), listen() and start(), and of making folder and threads. */
int bench_servers_start(const struct bench_servers_options *options, struct bench_servers **servers,
			struct rmem_error *error) RMEM_MUST_CHECK;

/* Ends them and removes their folder. No transfer may be under way. NULL is fine. */
void bench_servers_stop(struct bench_servers *servers);

const char *bench_servers_url(const struct bench_servers *servers, unsigned index);
