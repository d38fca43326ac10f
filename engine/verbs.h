/* SPDX-License-Identifier: Apache-2.0 */
/* Settings and addresses of the verbs fabric.
 *
 * Here is what needs no RDMA library: every build has it, also one without the fabric. The settings
 * are the process's, because devices and their ports are. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"

#define RMEM_VERBS_PORT	     7471
#define RMEM_VERBS_RETRY_MAX 7
#define RMEM_VERBS_RNR_MAX   6 /* 7 would be for ever */

struct rmem_verbs_options {
	/* The local address or the device (mlx5_0, rxe0) to connect from; NULL: the one that
	 * the route to the server leads through. The string must stay. */
	const char *source;
	unsigned port;		  /* service port of URLs that name none */
	unsigned mtu_bytes;	  /* path MTU at most: 256, 512 .. 4096; 0: the path's */
	unsigned retry_count;	  /* times that a request without an answer is sent again */
	unsigned ack_timeout_us;  /* before each of them; 0: from the time to detect a dead peer */
	unsigned rnr_retry_count; /* the same for a peer that isn't ready to receive */
	unsigned rnr_timer_us;	  /* how long it then asks for patience */
	unsigned traffic_class;	  /* of all packets; 0..255 */
	unsigned inline_bytes;	  /* a write up to this travels within its work request */
};

void rmem_verbs_options_init(struct rmem_verbs_options *options);

/* Takes effect for ports, connections and servers made from then on. Before other threads are
 * there. Errors: -EINVAL (an option out of range, named). */
int rmem_verbs_configure(const struct rmem_verbs_options *options,
			 struct rmem_error *error) RMEM_MUST_CHECK;

/* Those in force. */
const struct rmem_verbs_options *rmem_verbs_options(void);

#define RMEM_VERBS_HOST_BYTES 256

struct rmem_verbs_address {
	char host[RMEM_VERBS_HOST_BYTES]; /* a name, or an address without brackets */
	char port[6];
};

/* Takes "verbs://HOST", "verbs://HOST:PORT" or "verbs://[IPV6]:PORT" apart; looks nothing up.
 * Errors: -EINVAL. */
int rmem_verbs_parse(const char *url, struct rmem_verbs_address *address,
		     struct rmem_error *error) RMEM_MUST_CHECK;

/* --- Codes of the InfiniBand specification -----------------------------------------------------
 */

/* The largest local ACK timeout (4.096 us * 2^code, 1..31) with which `tries` of them in a row take
 * no longer than `total_us`. */
uint8_t rmem_verbs_timeout_code(uint64_t total_us, unsigned tries);

/* The smallest RNR NAK timer (1..31) of at least `us`; 0, the longest of 655 ms, if there is none.
 */
uint8_t rmem_verbs_rnr_code(unsigned us);
