/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to an echo and back, one at a time: a write with a notice each way. */
#pragma once

#include "tools/bench_crew.h"
#include "tools/bench_ground.h"

struct bench_send;

/* For the servers' echo, if they are the ground's own, or for what is at the first server named.
 * `samples`: operations at most. Errors: -EINVAL (no --answer), -EOPNOTSUPP (no echo there), those
 * of servers, -ENOMEM. */
int bench_send_create(const struct bench_ground *ground, uint64_t samples, struct bench_send **send,
		      struct rmem_error *error) RMEM_MUST_CHECK;
void bench_send_destroy(struct bench_send *send);

/* Both ends wait as `mode` says. Errors: -ECANCELED, -ENOTCONN, -ETIMEDOUT. */
int bench_send_measure(struct bench_send *send, const struct bench_load *load,
		       enum rmem_poll_mode mode, struct bench_result *result,
		       struct rmem_error *error) RMEM_MUST_CHECK;
