/* SPDX-License-Identifier: Apache-2.0 */
/* The store's front: picks the back end by the scheme of the URL, checks arguments, does
 * conflicting transactions again. */
#include "fs/store.h"

#include <errno.h>
#include <string.h>

#include "engine/base/hint.h"
#include "fs/store_backend.h"

/* After this many conflicts in a row something is wrong with more than luck. */
#define CONFLICTS_MAX 100

static const struct store_backend *const backends[] = {
	&store_lmdb,
};

int store_open(const struct store_options *options, struct store **store, struct rmem_error *error)
{
	for (unsigned i = 0; i < RMEM_COUNT_OF(backends); i++) {
		size_t length = strlen(backends[i]->scheme);

		if (strncmp(options->url, backends[i]->scheme, length) == 0 &&
		    options->url[length] == ':')
			return backends[i]->open(options, options->url + length + 1, store, error);
	}
	return rmem_fail(error, EINVAL,
			 "store \"%s\": no such kind of store; use lmdb:/PATH/OF/FOLDER",
			 options->url);
}

void store_close(struct store *store)
{
	if (store != NULL)
		store->backend->close(store);
}

int store_begin(struct store *store, enum store_mode mode, struct store_txn **txn)
{
	int result;

	if (RMEM_UNLIKELY(mode != STORE_READ && store->read_only))
		return -EROFS;
	result = store->backend->begin(store, mode, txn);
	if (result == 0)
		(*txn)->hooks = NULL;
	return result;
}

void store_at_end(struct store_txn *txn, struct store_hook *hook)
{
	struct store_hook **end = &txn->hooks;

	while (*end != NULL)
		end = &(*end)->next;
	hook->next = NULL;
	*end = hook;
}

bool store_has_hook(const struct store_txn *txn, const struct store_hook *hook)
{
	const struct store_hook *at = txn->hooks;

	while (at != NULL && at != hook)
		at = at->next;
	return at != NULL;
}

static void run_hooks(struct store_hook *hook, bool committed)
{
	while (hook != NULL) {
		struct store_hook *next = hook->next; /* it is not ours any more once it ended */

		hook->ended(hook, committed);
		hook = next;
	}
}

static bool key_ok(struct store_slice key)
{
	return key.size > 0 && key.size <= STORE_KEY_MAX;
}

int store_get(struct store_txn *txn, struct store_slice key, struct store_slice *value)
{
	if (RMEM_UNLIKELY(!key_ok(key)))
		return -ENOENT;
	return txn->store->backend->get(txn, key, value);
}

int store_put(struct store_txn *txn, struct store_slice key, struct store_slice value)
{
	if (RMEM_UNLIKELY(!key_ok(key)))
		return -EINVAL;
	if (RMEM_UNLIKELY(txn->mode == STORE_READ))
		return -EROFS;
	return txn->store->backend->put(txn, key, value);
}

int store_delete(struct store_txn *txn, struct store_slice key)
{
	if (RMEM_UNLIKELY(!key_ok(key)))
		return -ENOENT;
	if (RMEM_UNLIKELY(txn->mode == STORE_READ))
		return -EROFS;
	return txn->store->backend->remove(txn, key);
}

int store_scan(struct store_txn *txn, struct store_slice prefix, struct store_slice after,
	       store_visit *visit, void *user)
{
	if (RMEM_UNLIKELY(prefix.size > STORE_KEY_MAX || after.size > STORE_KEY_MAX))
		return -EINVAL;
	return txn->store->backend->scan(txn, prefix, after, visit, user);
}

int store_commit(struct store_txn *txn)
{
	struct store_hook *hooks = txn->hooks;
	int result = txn->store->backend->commit(txn);

	run_hooks(hooks, result == 0);
	return result;
}

void store_abort(struct store_txn *txn)
{
	struct store_hook *hooks;

	if (txn == NULL)
		return;
	hooks = txn->hooks;
	txn->store->backend->abort(txn);
	run_hooks(hooks, false);
}

static int update(struct store *store, enum store_mode mode, store_change *change, void *user)
{
	struct store_txn *txn;
	int error;

	for (unsigned attempt = 0; attempt < CONFLICTS_MAX; attempt++) {
		error = store_begin(store, mode, &txn);
		if (error != 0)
			return error;
		error = change(txn, user);
		if (error != 0) {
			store_abort(txn);
			return error;
		}
		error = store_commit(txn);
		if (error != -EAGAIN)
			return error;
	}
	return -EIO;
}

int store_update(struct store *store, store_change *change, void *user)
{
	return update(store, STORE_WRITE, change, user);
}

int store_shrink(struct store *store, store_change *change, void *user)
{
	return update(store, STORE_SHRINK, change, user);
}

int store_sync(struct store *store)
{
	return store->backend->sync(store);
}

int store_used(struct store_txn *txn, uint64_t *bytes)
{
	return txn->store->backend->used(txn, bytes);
}

void store_holder(struct store *store, char *text, size_t size)
{
	store->backend->holder(store, text, size);
}

bool store_crashed(const struct store *store)
{
	return store->backend->crashed(store);
}
