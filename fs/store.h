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
 * what store_sync() acknowledged is on the disk (store_options.sync_commits makes every commit
 * such).
 *
 * What that is worth when the host goes down: with sync_commits, everything. Without, pages of the
 * commits since the last sync reach the disk in any order, and LMDB reuses pages, so that a host
 * that goes down while commits are coming in can leave a store that is inconsistent, not just old.
 * The next opener is told (store_crashed()) and has to check it; there is no repair for a broken
 * tree. */
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
	/* A write transaction that gives space back in the end (removing a file, cutting one
	 * short), or puts a record of the same size as before. It may use the reserve that
	 * STORE_WRITE leaves: even deleting needs free pages for a while. */
	STORE_SHRINK,
};

struct store_options {
	const char *url;    /* "lmdb:/path/of/folder" */
	bool read_only;	    /* tools that look at a store in use */
	bool sync_commits;  /* every commit is durable on disk */
	uint64_t map_bytes; /* LMDB: the most the store can grow to (and a reserve of 8 MiB); 0: 16
			     * GiB. Address space and a sparse file, not disk */
	const char *holder; /* who we are, for the message to a second opener: "mount /mnt/x" */
};

/* Opens, and creates when missing (not when read_only). A store that somebody else holds for
 * writing is refused with -EBUSY and a message that names the holder; read_only opens it beside the
 * holder. Other errors: -EINVAL (URL), -ENOENT, -EACCES, -EPROTO (not a store, or of another
 * version), -EIO (truncated). A process opens a store once, and after its last fork: a child
 * neither uses nor closes it, and keeps it locked while it lives, unless it calls exec. */
int store_open(const struct store_options *options, struct store **store,
	       struct rmem_error *error) RMEM_MUST_CHECK;
void store_close(struct store *store); /* no transaction may be open; does not sync; NULL is fine */

/* A transaction is used by the thread that began it. A thread has one write transaction at a time,
 * and while it has, blocks every other writer: no waiting for anything else in between. Read
 * transactions block nobody, but keep the space of what changes meanwhile from being used again:
 * end them soon. Errors: -EROFS, -EIO, -ENOMEM, -ENOSPC, -EAGAIN (too many readers). */
int store_begin(struct store *store, enum store_mode mode, struct store_txn **txn) RMEM_MUST_CHECK;

/* `value` points into the store: valid until the transaction ends or its next put or delete.
 * Errors: -ENOENT, -EIO. */
int store_get(struct store_txn *txn, struct store_slice key,
	      struct store_slice *value) RMEM_MUST_CHECK;
/* Key and value are copied, and may not point into the store. After an error of a put or delete
 * other than -ENOENT and -EINVAL the transaction can only be aborted; a commit would abort it and
 * return that error. Errors: -ENOSPC (map or disk full), -EIO; -EINVAL (key empty or over
 * STORE_KEY_MAX). */
int store_put(struct store_txn *txn, struct store_slice key,
	      struct store_slice value) RMEM_MUST_CHECK;
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

/* Begins a transaction (STORE_WRITE or STORE_SHRINK), calls `change`, commits when it returned 0
 * and aborts otherwise; does it all again after a conflict (bounded: -EIO then), so `change` must
 * have no effect besides the transaction. */
/* Something in memory that has to follow a transaction: `ended` is called by store_commit() or
 * store_abort(), on their thread, when the store has done it; in the order of store_at_end(). The
 * hook is the caller's, and the transaction's until then. */
struct store_hook {
	void (*ended)(struct store_hook *hook, bool committed);
	struct store_hook *next;
};
void store_at_end(struct store_txn *txn, struct store_hook *hook);
bool store_has_hook(const struct store_txn *txn, const struct store_hook *hook);

typedef int store_change(struct store_txn *txn, void *user);
int store_update(struct store *store, store_change *change, void *user) RMEM_MUST_CHECK;
int store_shrink(struct store *store, store_change *change, void *user) RMEM_MUST_CHECK;

/* Blocks until everything committed before the call is durable. Any thread, beside transactions. */
int store_sync(struct store *store) RMEM_MUST_CHECK;

/* How much of the space that it may grow to (store_options.map_bytes) the store takes, what it can
 * use again not counted. Looks through the list of free pages: not for a hot path. Errors: -EIO,
 * -ENOMEM.
 */
int store_used(struct store_txn *txn, uint64_t *bytes) RMEM_MUST_CHECK;

/* Who holds the store for writing, for a person; "" when nobody does. */
void store_holder(struct store *store, char *text, size_t size);

/* Whether the host went down while the store was open, with commits that were not synced, before
 * this open: then it may be inconsistent (see above) and a check is due. Told once, to the next
 * opener. */
bool store_crashed(const struct store *store);
