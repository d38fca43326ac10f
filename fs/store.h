/* SPDX-License-Identifier: Apache-2.0 */
/* The metadata store: an ordered, transactional key-value interface with several back ends.
 *
 * Everything the filesystem knows lives here (fs/record.h has the keys); the bytes of files do not.
 * Filesystem logic is written once, above this interface.
 *
 * Transactions are serializable: a reader sees one state, a writer sees its own writes. A store may
 * run write transactions one after the other (LMDB: begin waits for the other writer) or side by
 * side with a conflict at commit (Redis): callers always handle -EAGAIN from commit by doing the
 * whole transaction again, and store_update() below does just that.
 *
 * Durability has two steps. What store_commit() acknowledged survives a kill of this process;
 * what store_sync() acknowledged survives a crash of the host (store_options.sync_commits makes
 * every commit such). A transaction is used by the thread that began it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"

#define STORE_KEY_MAX 400 /* bytes */

struct store;
struct store_txn;

struct store_slice {
	const void *data;
	size_t size;
};

enum store_mode {
	STORE_READ,
	STORE_WRITE,
};

struct store_options {
	const char *url;     /* "lmdb:/path/of/folder" */
	bool read_only;      /* tools that look at a store in use */
	bool sync_commits;   /* every commit is durable on disk */
	uint64_t map_bytes;  /* LMDB: the most the store can grow to */
	const char *holder;  /* who we are, for the message to a second opener: "mount /mnt/x" */
};

/* Opens, and creates when missing (not when read_only). A store that somebody else holds for writing
 * is refused with -EBUSY and a message that names the holder; read_only opens it beside the holder.
 * Other errors: -EINVAL (URL), -ENOENT, -EACCES, -EPROTO (not a store, or of another version). */
int store_open(const struct store_options *options, struct store **store, struct rmem_error *error)
	RMEM_MUST_CHECK;
void store_close(struct store *store); /* no transaction may be open; does not sync; NULL is fine */

/* Errors: -EROFS, -EIO, -ENOMEM, -EAGAIN (no free reader slot). */
int store_begin(struct store *store, enum store_mode mode, struct store_txn **txn) RMEM_MUST_CHECK;

/* `value` points into the store: valid until the transaction ends or its next put or delete.
 * Errors: -ENOENT, -EIO. */
int store_get(struct store_txn *txn, struct store_slice key, struct store_slice *value)
	RMEM_MUST_CHECK;
/* Errors: -ENOSPC (map or disk full), -EIO; -EINVAL (key empty or over STORE_KEY_MAX). */
int store_put(struct store_txn *txn, struct store_slice key, struct store_slice value)
	RMEM_MUST_CHECK;
/* Errors: -ENOENT, -ENOSPC, -EIO. */
int store_delete(struct store_txn *txn, struct store_slice key) RMEM_MUST_CHECK;

/* Calls `visit` for each key that begins with `prefix` and is greater than `after` (empty: from the
 * first), in order of bytes, until it returns non-zero, which is returned: > 0 means "enough".
 * `visit` must not change the store. Errors: those of `visit`, -EIO. */
typedef int store_visit(void *user, struct store_slice key, struct store_slice value);
int store_scan(struct store_txn *txn, struct store_slice prefix, struct store_slice after,
	       store_visit *visit, void *user) RMEM_MUST_CHECK;

/* Ends the transaction, whatever it returns: 0 all of it happened, otherwise none of it did.
 * Errors: -EAGAIN (conflict: do it again), -ENOSPC, -EIO. */
int store_commit(struct store_txn *txn) RMEM_MUST_CHECK;
void store_abort(struct store_txn *txn); /* NULL is fine */

/* Begins a write transaction, calls `change`, commits when it returned 0 and aborts otherwise; does
 * it all again after a conflict (bounded), so `change` must have no effect besides the transaction. */
int store_update(struct store *store, int (*change)(struct store_txn *txn, void *user), void *user)
	RMEM_MUST_CHECK;

/* Blocks until everything committed before the call is durable. Any thread, beside transactions. */
int store_sync(struct store *store) RMEM_MUST_CHECK;

/* Who holds the store for writing, for a person; "" when nobody does. */
void store_holder(struct store *store, char *text, size_t size);
