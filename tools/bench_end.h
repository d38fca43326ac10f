/* SPDX-License-Identifier: Apache-2.0 */
/* One end of two that write into each other's memory: a memory server that the other end writes to,
 * and an engine that writes to the other's. What was written is told by an empty notice, which
 * travels in the same message; to wait for the other end is to wait for its notice. One thread owns
 * all of it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/spin.h"
#include "engine/rmem.h"
#include "engine/server.h"
#include "engine/staging.h"

struct bench_end {
	struct rmem_server *server;
	struct rmem_peer *peer; /* the other end's reactor; NULL: it isn't here */
	uint32_t next;		/* the number of its next notice */
	bool has_word;		/* its last notice had something in it: this */
	struct rmem_notice word;

	struct rmem_engine *engine; /* NULL: not connected */
	struct rmem_reactor *reactor;
	unsigned other; /* the server at the other end */
	uint64_t room;	/* bytes there */
	struct rmem_arena arena;
	void *local; /* what is written */
	struct rmem_memory *memory;
	uint64_t local_bytes;
	struct rmem_spin spin;

	struct rmem_segment segment;
	struct rmem_notice notice; /* that goes */
	struct rmem_batch batch;
	bool is_sending;
	int status;
};

/* Listens at `url`, with memory for messages of up to `bytes`. Errors: those of servers, -ENOMEM.
 */
int bench_end_init(struct bench_end *end, const char *url, uint64_t bytes,
		   struct rmem_error *error) RMEM_MUST_CHECK;
/* A zeroed one is fine. */
void bench_end_finish(struct bench_end *end);

/* Connects to the other end at `url`, anew if it was connected. Errors: those of servers, and
 * -EOPNOTSUPP: what is there takes no notices. */
int bench_end_connect(struct bench_end *end, const struct rmem_engine_options *options,
		      const char *url, struct rmem_error *error) RMEM_MUST_CHECK;
void bench_end_disconnect(struct bench_end *end);

/* Writes `bytes` (0: nothing) and tells: by an empty notice, or with `text`, which is shorter than
 * RMEM_NOTICE_BYTES_MAX; NULL: none. Doesn't wait. Errors: -ENOTCONN, -EIO, that of the last one.
 */
int bench_end_send(struct bench_end *end, uint64_t bytes, const char *text) RMEM_MUST_CHECK;

/* Waits for the other end's next notice in the way that `mode` says. Errors: -ENOTCONN: it has
 * left; -ETIMEDOUT; -ECANCELED: bench_stop, or the server's end. */
int bench_end_wait(struct bench_end *end, enum rmem_poll_mode mode,
		   unsigned timeout_ms) RMEM_MUST_CHECK;
