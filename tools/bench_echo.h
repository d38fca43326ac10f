/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of rmem-bench lat --op send: writes back what was written to it. */
#pragma once

#include <stdatomic.h>

#include "tools/bench_end.h"

/* How a client says hello, in a notice: poll mode, bytes to write back, the URL of its own server.
 */
#define BENCH_ECHO_HELLO "%u %llu %s"

struct bench_echo {
	struct bench_end end;
	struct rmem_engine_options options;
	enum rmem_poll_mode mode;
	uint64_t bytes;
	const char *client;  /* where the client is; NULL: it says */
	atomic_bool is_over; /* set by another thread: it returns soon. Relaxed: says no more */
};

/* Listens at `url`, with room for `bytes`. Errors: as for bench_end_init(). */
int bench_echo_init(struct bench_echo *echo, const char *url, uint64_t bytes,
		    const struct rmem_engine_options *options,
		    struct rmem_error *error) RMEM_MUST_CHECK;
void bench_echo_finish(struct bench_echo *echo);

/* Serves one client after the other, until bench_stop or `is_over` is set. */
void bench_echo_run(struct bench_echo *echo);
