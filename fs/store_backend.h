/* SPDX-License-Identifier: Apache-2.0 */
/* What a back end of the store implements. Private to store*.c, and to tests that put a back end of
 * their own in between. Contracts are those of fs/store.h; what store.c has checked already: keys
 * are 1..STORE_KEY_MAX bytes, puts and deletes come in write transactions only. */
#pragma once

#include "fs/store.h"

struct store_backend {
	const char *scheme; /* of the URL */
	/* `location` is the URL after its scheme. */
	int (*open)(const struct store_options *options, const char *location, struct store **store,
		    struct rmem_error *error);
	void (*close)(struct store *store);
	int (*begin)(struct store *store, enum store_mode mode, struct store_txn **txn);
	int (*get)(struct store_txn *txn, struct store_slice key, struct store_slice *value);
	int (*put)(struct store_txn *txn, struct store_slice key, struct store_slice value);
	int (*remove)(struct store_txn *txn, struct store_slice key);
	int (*scan)(struct store_txn *txn, struct store_slice prefix, struct store_slice after,
		    store_visit *visit, void *user);
	int (*commit)(struct store_txn *txn);
	void (*abort)(struct store_txn *txn);
	int (*sync)(struct store *store);
	int (*used)(struct store_txn *txn, uint64_t *bytes);
	void (*holder)(struct store *store, char *text, size_t size);
	bool (*crashed)(const struct store *store);
};

/* The beginning of a back end's own structs. */
struct store {
	const struct store_backend *backend;
	bool read_only;
};

struct store_txn {
	struct store *store;
	enum store_mode mode;
	struct store_hook *hooks; /* store.c's */
};

extern const struct store_backend store_lmdb;
