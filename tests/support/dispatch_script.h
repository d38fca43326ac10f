/* SPDX-License-Identifier: Apache-2.0 */
/* A dispatcher rig whose fabric does what a script says, and the batches and checks that tests of
 * lanes share. One rig at a time: each test is a process of its own. */
#pragma once

#include "tests/support/dispatch_rig.h"

extern struct drig rig;

/* What the hooks do. */
struct script {
	uint32_t accept;      /* of the next chain; all when it is at least as long */
	int rc;		      /* what the post returns then */
	unsigned times;	      /* so often */
	uint64_t fail_remote; /* the request for this address fails; UINT64_MAX: none */
	enum rmem_wc_status status;
};

extern struct script script;
extern const struct fake_hooks script_hooks;

void script_start(const struct drig_shape *shape);
/* One server, one lane of 64, chains of 32. */
void script_start_plain(void);

/* `count` segments of 512 bytes, none next to another, at places of their own: segment n at n * 512
 * of the local memory and n * 1024 of region 0 of server 0. */
struct drig_batch *script_batch(enum rmem_op op, unsigned first, unsigned count);
/* Fills the local memory of segments with what is not zero. */
void script_paint(unsigned first, unsigned count);
/* Whether server 0 has the segment's bytes. */
bool script_arrived(unsigned segment);
/* Executes everything there is, and whatever that leads to. */
void script_run_all(void);
/* The batch ended, once, with nothing outstanding and this status. Frees it. */
void script_expect_end(struct drig_batch *batch, int status);
uint64_t script_stat(enum rmem_stat which);
