/* SPDX-License-Identifier: Apache-2.0 */
/* Between peers.c and peers_control.c. All under the lock. */
#pragma once

#include "engine/peers.h"

/* Publishes a table of how things are now, and wakes the reactors. 0 or -ENOMEM. */
int rmem_peers_publish(struct rmem_peers *peers);

/* Frees retired tables and takes out the retired connections that nobody uses any more: the caller
 * destroys those without the lock. */
struct rmem_connection *rmem_peers_reclaim(struct rmem_peers *peers);
