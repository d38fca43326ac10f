/* SPDX-License-Identifier: Apache-2.0 */
/* A fabric whose every move a test decides. Linked in place of engine/fabric.c: it is then the only
 * fabric there is.
 *
 * URLs are "fake:PORT/NAME", PORT a digit below FAKE_PORTS_MAX. Requests that were posted wait in
 * their lane until somebody executes them: the test, the post itself, or a thread. The fake is
 * strict where hardware is: silent success stays silent when the lane fails, a lane that is given
 * more than its depth or a queue that overflows is a failure, and so is a lane closed with requests
 * outstanding. One lock guards all of it; hooks are called under it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/fabric.h"

#define FAKE_PORTS_MAX 3
#define FAKE_LANES_MAX 512
#define FAKE_FAR_MAX   4096 /* notices that one lane remembers */

enum fake_mode {
	FAKE_MANUAL,  /* fake_run() executes */
	FAKE_AT_ONCE, /* posting executes */
	FAKE_THREAD,  /* a thread executes, lanes in random order */
};

struct fake_hooks {
	/* How many of the `count` requests of a chain the lane takes; when fewer, post returns *rc
	 * (-EAGAIN unless changed). NULL: all. */
	uint32_t (*accept)(void *user, unsigned lane, uint32_t count, int *rc);
	/* How a request ends, asked before it moves bytes. NULL: well. */
	enum rmem_wc_status (*execute)(void *user, unsigned lane, const struct rmem_wr *wr);
	void *user;
	bool covers_drains; /* `accept` is also asked for lanes in error */
};

/* Forgets all servers and hooks, as before the first use; every lane must have been closed. */
void fake_reset(enum fake_mode mode);
void fake_set_hooks(const struct fake_hooks *hooks);
void fake_set_depth_max(uint32_t depth_max);	/* of lanes; default 65536 */
void fake_set_cq_depth_max(uint32_t depth_max); /* default 2^20 */
/* Ends the thread of FAKE_THREAD, if there is one. */
void fake_stop(void);

/* A server comes up with a new incarnation and zeroed regions, dies (its lanes fail, its
 * connections are over), or doesn't answer for as long as `is_hanging`. */
void fake_server_start(const char *url, uint32_t region_count, uint64_t region_bytes);
void fake_server_stop(const char *url);
void fake_server_hang(const char *url, bool is_hanging);
uint8_t *fake_server_bytes(const char *url, uint32_t region);
unsigned fake_connect_count(const char *url); /* attempts so far */

/* Lanes are numbered in the order they were opened, from 0 since the reset. */
unsigned fake_lane_count(void);
uint32_t fake_lane_waiting(unsigned lane); /* requests not executed yet */
/* Executes up to `count` of them; returns how many there were. */
uint32_t fake_run(unsigned lane, uint32_t count);
/* Fails the lane as a broken cable would: what waits is flushed when it is run. */
void fake_lane_break(unsigned lane);

/* The far side of a lane's notices: what arrived there, in order; granting some of it again;
 * sending. False: the lane is in error or nobody listens, or there is no credit. */
uint32_t fake_far_arrived(unsigned lane);
uint32_t fake_far_transfer(unsigned lane, uint32_t at);
bool fake_far_grant(unsigned lane, uint32_t count);
bool fake_far_send(unsigned lane, uint32_t transfer);

/* Whether a request whose local memory touches these bytes has not ended. */
bool fake_is_outstanding(const void *address, size_t length);

/* How often the engine broke the rules: posted beyond depth, overflowed a queue, closed a lane with
 * something outstanding. Tests check that it is 0. */
unsigned fake_violations(void);
unsigned fake_open_lanes(void);
unsigned fake_open_conns(void);
