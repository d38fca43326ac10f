/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/fabric_shm.h"

/* Acquire pairs with the release of the control thread that made it. */
struct shm_mail *shm_mail_of(const struct rmem_cq *cq)
{
	return atomic_load_explicit(&cq->mail, memory_order_acquire);
}
