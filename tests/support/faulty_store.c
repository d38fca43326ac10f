/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/faulty_store.h"

#include <stdlib.h>

#include "fs/store_backend.h"

struct faulty_store {
	struct store base;
	struct store *real;
	unsigned fail_put, fail_commits;
	int put_error, commit_error;
	bool struck;
	unsigned commits;
};

struct faulty_txn {
	struct store_txn base;
	struct store_txn *real;
};

static struct faulty_store *store_of(const struct store_txn *txn)
{
	return (struct faulty_store *)txn->store;
}

static struct store_txn *real_of(struct store_txn *txn)
{
	return ((struct faulty_txn *)txn)->real;
}

static void faulty_close(struct store *base)
{
	store_close(((struct faulty_store *)base)->real);
	free(base);
}

static int faulty_begin(struct store *base, enum store_mode mode, struct store_txn **result)
{
	struct faulty_txn *txn = calloc(1, sizeof(*txn));
	int error = store_begin(((struct faulty_store *)base)->real, mode, &txn->real);

	txn->base = (struct store_txn){.store = base, .mode = mode};
	if (error != 0) {
		free(txn);
		return error;
	}
	*result = &txn->base;
	return 0;
}

static int faulty_get(struct store_txn *txn, struct store_slice key, struct store_slice *value)
{
	return store_get(real_of(txn), key, value);
}

static int strike(struct faulty_store *store)
{
	if (store->fail_put == 0 || --store->fail_put > 0)
		return 0;
	store->struck = true;
	return store->put_error;
}

static int faulty_put(struct store_txn *txn, struct store_slice key, struct store_slice value)
{
	int error = strike(store_of(txn));

	return error != 0 ? error : store_put(real_of(txn), key, value);
}

static int faulty_remove(struct store_txn *txn, struct store_slice key)
{
	int error = strike(store_of(txn));

	return error != 0 ? error : store_delete(real_of(txn), key);
}

static int faulty_scan(struct store_txn *txn, struct store_slice prefix, struct store_slice after,
		       store_visit *visit, void *user)
{
	return store_scan(real_of(txn), prefix, after, visit, user);
}

static void faulty_abort(struct store_txn *txn)
{
	store_abort(real_of(txn));
	free(txn);
}

static int faulty_commit(struct store_txn *txn)
{
	struct faulty_store *store = store_of(txn);
	int error;

	if (txn->mode != STORE_READ && store->fail_commits > 0) {
		store->fail_commits--;
		store->struck = true;
		faulty_abort(txn);
		return store->commit_error;
	}
	error = store_commit(real_of(txn));
	store->commits += error == 0 && txn->mode != STORE_READ;
	free(txn);
	return error;
}

static int faulty_sync(struct store *base)
{
	return store_sync(((struct faulty_store *)base)->real);
}

static void faulty_holder(struct store *base, char *text, size_t size)
{
	store_holder(((struct faulty_store *)base)->real, text, size);
}

static int faulty_used(struct store_txn *base, uint64_t *bytes)
{
	return store_used(((struct faulty_txn *)base)->real, bytes);
}

static bool faulty_crashed(const struct store *base)
{
	return store_crashed(((const struct faulty_store *)base)->real);
}

static const struct store_backend backend = {
	.scheme = "faulty",
	.close = faulty_close,
	.begin = faulty_begin,
	.get = faulty_get,
	.put = faulty_put,
	.remove = faulty_remove,
	.scan = faulty_scan,
	.commit = faulty_commit,
	.abort = faulty_abort,
	.sync = faulty_sync,
	.holder = faulty_holder,
	.used = faulty_used,
	.crashed = faulty_crashed,
};

struct store *faulty_store_create(struct store *real)
{
	struct faulty_store *store = calloc(1, sizeof(*store));

	store->base.backend = &backend;
	store->real = real;
	return &store->base;
}

void faulty_store_fail_put(struct store *base, unsigned nth, int error)
{
	struct faulty_store *store = (struct faulty_store *)base;

	store->fail_put = nth;
	store->put_error = error;
	store->struck = false;
}

void faulty_store_fail_commits(struct store *base, unsigned count, int error)
{
	struct faulty_store *store = (struct faulty_store *)base;

	store->fail_commits = count;
	store->commit_error = error;
	store->struck = false;
}

bool faulty_store_disarm(struct store *base)
{
	struct faulty_store *store = (struct faulty_store *)base;
	bool struck = store->struck;

	store->fail_put = store->fail_commits = 0;
	store->struck = false;
	return struck;
}

unsigned faulty_store_commits(const struct store *base)
{
	return ((const struct faulty_store *)base)->commits;
}
