/* SPDX-License-Identifier: Apache-2.0 */
/* The volume's worker thread: deferred jobs, syncs that requests wait for, and the periodic flush.
 */
#pragma once

#include "fs/volume.h"

int volume_worker_create(struct volume *volume, struct volume_worker **worker) RMEM_MUST_CHECK;

/* Runs everything that was deferred, then stops. NULL is fine. */
void volume_worker_destroy(struct volume_worker *worker);
