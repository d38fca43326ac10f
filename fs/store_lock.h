/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of a store that lies in a folder: one process writes it, and whoever comes second is
 * told who that is.
 *
 * It is an open-file-description lock on the file "rmemfs.lock", which ends with the process
 * however that ends. The file's text says who took it last, and how that ended: whether everything
 * was synced when it was closed, and in which boot of the host that was. A file that still says
 * "open" from an earlier boot means that the host went down under an open store. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/error.h"

struct store_lock {
	int fd;	      /* -1: not held */
	bool clean;   /* the store was synced when it was closed, or is new */
	bool crashed; /* it was not, and the host went down since */
};

/* Takes the lock of `folder`. Durable before it returns. -EBUSY names the holder. */
int store_lock_take(struct store_lock *lock, const char *folder, const char *holder,
		    struct rmem_error *error) RMEM_MUST_CHECK;

/* For those who only read: finds out how it ended before, takes nothing. */
void store_lock_peek(struct store_lock *lock, const char *folder);

/* `clean`: everything that was committed is durable. Does nothing when not held. */
void store_lock_release(struct store_lock *lock, bool clean);

/* Who holds it, as "NAME (process N on HOST)"; "" when nobody does. */
void store_lock_holder(const char *folder, char *text, size_t size);
