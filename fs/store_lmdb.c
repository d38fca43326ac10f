/* SPDX-License-Identifier: Apache-2.0 */
/* The store in an LMDB environment: a folder on a local disk.
 *
 * Cost of a transaction decides the speed of everything that changes names, so by default commits
 * are not synced and the environment is written through its map (store_lmdb_space.c says how that
 * is safe on a full disk, and lmdb_space_can_back() where). A kill of the process loses nothing:
 * what was committed is in the page cache, and what was not, no committed page refers to.
 * sync_commits turns both off: pages are written with pwrite and synced before the page that refers
 * to them.
 *
 * Readers get their slot per transaction, not per thread (MDB_NOTLS): a reader may end in another
 * thread's time, and reactors come and go. Pages are cleared when they are allocated where LMDB
 * does not map them: heap content of this process does not belong on a disk. */
#include "fs/store_lmdb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/checked.h"
#include "engine/base/hint.h"

int lmdb_error(int code)
{
	switch (code) {
	case 0:
		return 0;
	case MDB_NOTFOUND:
		return -ENOENT;
	case MDB_MAP_FULL:
		return -ENOSPC;
	case MDB_READERS_FULL:
		return -EAGAIN;
	case MDB_VERSION_MISMATCH:
	case MDB_INVALID:
		return -EPROTO;
	case MDB_BAD_VALSIZE:
		return -EINVAL;
	case EACCES: /* a write where it is not allowed */
		return -EROFS;
	default:
		return code > 0 ? -code : -EIO;
	}
}

static struct store_slice slice_of(MDB_val value)
{
	return (struct store_slice){value.mv_data, value.mv_size};
}

static MDB_val val_of(struct store_slice slice)
{
	return (MDB_val){.mv_data = (void *)(uintptr_t)slice.data, .mv_size = slice.size};
}

/* --- Transactions ------------------------------------------------------------------------------
 */

/* The holder opened the store with a larger map than we knew. */
static RMEM_COLD int begin_resized(struct lmdb_store *store, struct lmdb_txn *txn)
{
	int code = mdb_env_set_mapsize(store->env, 0);

	return code != 0 ? code : mdb_txn_begin(store->env, NULL, MDB_RDONLY, &txn->txn);
}

static int begin_writing(struct lmdb_store *store, struct lmdb_txn *txn)
{
	int error;

	pthread_mutex_lock(&store->writer);
	error = lmdb_error(mdb_txn_begin(store->env, NULL, 0, &txn->txn));
	if (RMEM_UNLIKELY(error != 0))
		goto unlock;
	error = lmdb_space_begin(store, txn);
	if (RMEM_LIKELY(error == 0))
		return 0;
	mdb_txn_abort(txn->txn);
unlock:
	pthread_mutex_unlock(&store->writer);
	return error;
}

static int begin_reading(struct lmdb_store *store, struct lmdb_txn *txn)
{
	int code = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &txn->txn);

	if (RMEM_UNLIKELY(code == MDB_MAP_RESIZED))
		code = begin_resized(store, txn);
	return lmdb_error(code);
}

static int lmdb_begin(struct store *base, enum store_mode mode, struct store_txn **result)
{
	struct lmdb_store *store = (struct lmdb_store *)base;
	struct lmdb_txn *txn = malloc(sizeof(*txn));
	int error;

	if (txn == NULL)
		return -ENOMEM;
	txn->base = (struct store_txn){.store = base, .mode = mode};
	txn->error = 0;
	error = mode == STORE_READ ? begin_reading(store, txn) : begin_writing(store, txn);
	if (RMEM_UNLIKELY(error != 0)) {
		free(txn);
		return error;
	}
	*result = &txn->base;
	return 0;
}

static int lmdb_get(struct store_txn *base, struct store_slice key, struct store_slice *value)
{
	struct lmdb_txn *txn = (struct lmdb_txn *)base;
	MDB_val k = val_of(key), v;
	int code = mdb_get(txn->txn, lmdb_store_of(base)->dbi, &k, &v);

	if (code != 0)
		return lmdb_error(code);
	*value = slice_of(v);
	return 0;
}

static int lmdb_put(struct store_txn *base, struct store_slice key, struct store_slice value)
{
	struct lmdb_txn *txn = (struct lmdb_txn *)base;
	MDB_val k = val_of(key), v = val_of(value);

	if (RMEM_UNLIKELY(txn->error != 0))
		return txn->error;
	txn->error = lmdb_space_take(lmdb_store_of(base), txn, value.size);
	if (txn->error == 0)
		txn->error = lmdb_error(mdb_put(txn->txn, lmdb_store_of(base)->dbi, &k, &v, 0));
	return txn->error;
}

static int lmdb_remove(struct store_txn *base, struct store_slice key)
{
	struct lmdb_txn *txn = (struct lmdb_txn *)base;
	MDB_val k = val_of(key);
	int error;

	if (RMEM_UNLIKELY(txn->error != 0))
		return txn->error;
	error = lmdb_space_take(lmdb_store_of(base), txn, 0);
	if (error == 0)
		error = lmdb_error(mdb_del(txn->txn, lmdb_store_of(base)->dbi, &k, NULL));
	if (error != -ENOENT)
		txn->error = error;
	return error;
}

static bool begins_with(MDB_val key, struct store_slice prefix)
{
	return key.mv_size >= prefix.size &&
	       (prefix.size == 0 || memcmp(key.mv_data, prefix.data, prefix.size) == 0);
}

static bool equals(MDB_val key, struct store_slice other)
{
	return key.mv_size == other.size && memcmp(key.mv_data, other.data, other.size) == 0;
}

/* Puts the cursor on the first key that is not before `from`. */
static int seek(MDB_cursor *cursor, struct store_slice from, MDB_val *key, MDB_val *value)
{
	if (from.size == 0)
		return mdb_cursor_get(cursor, key, value, MDB_FIRST);
	*key = val_of(from);
	return mdb_cursor_get(cursor, key, value, MDB_SET_RANGE);
}

static bool sorts_before(struct store_slice a, struct store_slice b)
{
	int order = 0;

	if (a.size > 0 && b.size > 0)
		order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
	return order != 0 ? order < 0 : a.size < b.size;
}

static int lmdb_scan(struct store_txn *base, struct store_slice prefix, struct store_slice after,
		     store_visit *visit, void *user)
{
	struct lmdb_txn *txn = (struct lmdb_txn *)base;
	MDB_cursor *cursor;
	MDB_val key, value;
	int result = 0, code = mdb_cursor_open(txn->txn, lmdb_store_of(base)->dbi, &cursor);

	if (code != 0)
		return lmdb_error(code);
	code = seek(cursor, sorts_before(after, prefix) ? prefix : after, &key, &value);
	if (code == 0 && after.size > 0 && equals(key, after))
		code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
	while (code == 0 && begins_with(key, prefix)) {
		result = visit(user, slice_of(key), slice_of(value));
		if (result != 0)
			break;
		code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
	}
	mdb_cursor_close(cursor);
	if (result == 0 && code != 0 && code != MDB_NOTFOUND)
		result = lmdb_error(code);
	return result;
}

static void end(struct lmdb_txn *txn)
{
	if (txn->base.mode != STORE_READ)
		pthread_mutex_unlock(&lmdb_store_of(&txn->base)->writer);
	free(txn);
}

static void lmdb_abort(struct store_txn *base)
{
	struct lmdb_txn *txn = (struct lmdb_txn *)base;

	mdb_txn_abort(txn->txn);
	end(txn);
}

/* The first `commits` commits are durable. */
static void note_synced(struct lmdb_store *store, uint64_t commits)
{
	uint64_t synced = atomic_load(&store->synced);

	while (synced < commits && !atomic_compare_exchange_weak(&store->synced, &synced, commits))
		continue;
}

static int lmdb_commit(struct store_txn *base)
{
	struct lmdb_store *store = lmdb_store_of(base);
	struct lmdb_txn *txn = (struct lmdb_txn *)base;
	int error = txn->error;

	if (RMEM_UNLIKELY(error != 0)) {
		lmdb_abort(base);
		return error;
	}
	error = lmdb_error(mdb_txn_commit(txn->txn)); /* frees it whatever comes out */
	if (error == 0 && base->mode != STORE_READ) {
		uint64_t before =
			atomic_fetch_add_explicit(&store->commits, 1, memory_order_release);

		if (store->sync_commits)
			note_synced(store, before + 1);
	}
	end(txn);
	return error;
}

static int lmdb_sync(struct store *base)
{
	struct lmdb_store *store = (struct lmdb_store *)base;
	uint64_t commits = atomic_load_explicit(&store->commits, memory_order_acquire);
	int dead, code;

	if (base->read_only || atomic_load(&store->synced) >= commits)
		return 0;
	/* A tool that was killed while it read would keep pages from being used again for ever. */
	code = mdb_reader_check(store->env, &dead);
	if (code == 0)
		code = mdb_env_sync(store->env, 1);
	if (code != 0)
		return lmdb_error(code);
	note_synced(store, commits);
	return 0;
}

static int lmdb_used(struct store_txn *base, uint64_t *bytes)
{
	struct lmdb_store *store = lmdb_store_of(base);
	uint64_t pages, free_pages;
	MDB_envinfo info;
	int error = lmdb_error(mdb_env_info(store->env, &info));

	if (error == 0)
		error = lmdb_space_count_free(store->env, &free_pages);
	if (error != 0)
		return error;
	pages = info.me_last_pgno + 1;
	*bytes = (pages - rmem_min_u64(pages, free_pages)) * RMEM_PAGE_BYTES;
	return 0;
}

static void lmdb_holder(struct store *base, char *text, size_t size)
{
	store_lock_holder(((struct lmdb_store *)base)->folder, text, size);
}

static bool lmdb_crashed(const struct store *base)
{
	return ((const struct lmdb_store *)base)->lock.crashed;
}

const struct store_backend store_lmdb = {
	.scheme = "lmdb",
	.open = lmdb_open,
	.close = lmdb_close,
	.begin = lmdb_begin,
	.get = lmdb_get,
	.put = lmdb_put,
	.remove = lmdb_remove,
	.scan = lmdb_scan,
	.commit = lmdb_commit,
	.abort = lmdb_abort,
	.sync = lmdb_sync,
	.used = lmdb_used,
	.holder = lmdb_holder,
	.crashed = lmdb_crashed,
};
