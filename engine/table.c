/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/peers.h"

/* Acquire pairs with the store that published the table: its content is seen. */
const struct rmem_table *rmem_table_look(const struct rmem_peers *peers)
{
	return atomic_load_explicit(&peers->table, memory_order_acquire);
}
