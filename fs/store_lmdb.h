/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the LMDB back end. Private to store_lmdb*.c, the only files that include lmdb.h. */
#pragma once

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "fs/store_backend.h"
#include "fs/store_lock.h"

/* Pages of the file, and how many of them may be used. See store_lmdb_space.c. Owned by the writer.
 */
struct lmdb_space {
	int fd;
	bool backed;	       /* `pages_backed` means blocks on the disk */
	uint64_t pages_backed; /* pages [0, here) exist */
	uint64_t pages_limit;
};

struct lmdb_store {
	struct store base;
	MDB_env *env;
	MDB_dbi dbi;
	char *folder;
	struct store_lock lock;
	/* Held during a write transaction, before LMDB's own lock: writers of this process, which
	 * are all writers there are, wait here. */
	pthread_mutex_t writer;
	struct lmdb_space space; /* writer */
	/* Counts of successful write transactions, and how many of them are known to be durable.
	 * The writer adds to the first with release after the commit; who syncs reads it with
	 * acquire before the sync, so what was counted is covered by it. */
	_Atomic(uint64_t) commits;
	_Atomic(uint64_t) synced;
	bool sync_commits;
};

struct lmdb_txn {
	struct store_txn base;
	MDB_txn *txn;
	int error; /* the first one: a commit answers it */
	/* Writers: page accounting. */
	uint64_t base_pages; /* of the file when the transaction began */
	uint64_t need_pages; /* that it may have added since, at most */
	uint64_t free_pages; /* within the file; counted when first needed */
	unsigned op_pages;   /* that one put or delete may add, without its value */
	bool counted;
};

static inline struct lmdb_store *lmdb_store_of(const struct store_txn *txn)
{
	return (struct lmdb_store *)txn->store;
}

int lmdb_open(const struct store_options *options, const char *location, struct store **store,
	      struct rmem_error *error) RMEM_MUST_CHECK;
void lmdb_close(struct store *store);

/* LMDB's codes are positive errnos or its own negative ones. */
int lmdb_error(int code);

/* The page accounting of a store that is open for writing. */
void lmdb_space_init(struct lmdb_space *space, int fd, uint64_t pages_used, uint64_t pages_limit);
/* Whether the folder's filesystem keeps its promise that allocated blocks can be written. */
bool lmdb_space_can_back(const char *folder);

/* Pages within the file that are free, at the last commit. */
int lmdb_space_count_free(MDB_env *env, uint64_t *pages) RMEM_MUST_CHECK;

/* Begins accounting. -ENOSPC: not even the transaction itself fits. */
int lmdb_space_begin(struct lmdb_store *store, struct lmdb_txn *txn) RMEM_MUST_CHECK;
/* Before each put or delete of a value of `bytes`. */
int lmdb_space_take(struct lmdb_store *store, struct lmdb_txn *txn, size_t bytes) RMEM_MUST_CHECK;
