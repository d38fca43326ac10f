/* SPDX-License-Identifier: Apache-2.0 */
/* How much of its file a transaction may use.
 *
 * Two needs meet here. The store is written through its memory map, which costs a third of the
 * processor time of write() per transaction (2.5 against 7.5 us for a create); but a page of the
 * map without a block on a full disk is a SIGBUS. So blocks are allocated ahead: before each put
 * and delete we know an upper bound of the pages that the transaction can have added to the file,
 * and the file is backed at least so far. And a store that is full must let files be deleted, while
 * each deletion copies pages first; so STORE_WRITE stops 8 MiB before the end, which STORE_SHRINK
 * may use.
 *
 * The bound. LMDB copies each page on the way from the root to a leaf when it first changes it in a
 * transaction: at most `depth` pages a put, as many again when all of them split and a new root,
 * and the pages of the value. A delete takes in one neighbour on each level instead. The commit
 * writes a list of the pages that were freed. Nearly always pages come from those that earlier
 * transactions freed and nothing is added, so what is counted in `need_pages` starts from the true
 * size again with each transaction.
 *
 * Near the end the file can't grow, yet freed pages within it may still be many: then they are
 * counted (in LMDB's own table of them) before a transaction is refused. A part of the reserve is
 * left out of this, should LMDB grow the file nevertheless. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

#include "engine/base/checked.h"
#include "engine/base/hint.h"
#include "fs/store_lmdb.h"

#define RESERVE_PAGES  2048u /* 8 MiB; store.h tells */
#define GROW_PAGES     4096u /* 16 MiB */
#define COMMIT_PAGES   48u   /* the table of freed pages, and slack */
#define FREE_PAGES_MIN 64u
#define FREE_DBI       0u /* LMDB's table of freed pages: transaction -> count, page numbers */

bool lmdb_space_can_back(const char *folder)
{
	struct statfs fs;

	if (statfs(folder, &fs) != 0)
		return false;
	/* Filesystems that copy on write need new blocks for pages that have some: they are out,
	 * and those that we don't know too. */
	switch ((unsigned long)fs.f_type) {
	case EXT4_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
	case TMPFS_MAGIC:
		return true;
	default:
		return false;
	}
}

static int back(struct lmdb_space *space, uint64_t pages)
{
	const uint64_t page_bytes = RMEM_PAGE_BYTES;

	if (!space->backed)
		return 0;
	if (fallocate(space->fd, FALLOC_FL_KEEP_SIZE, (off_t)(space->pages_backed * page_bytes),
		      (off_t)((pages - space->pages_backed) * page_bytes)) != 0)
		return -errno;
	return 0;
}

/* Moves pages_backed to `pages` or, when that goes, further. */
static int grow(struct lmdb_space *space, uint64_t pages)
{
	uint64_t ahead = rmem_min_u64(space->pages_backed + GROW_PAGES, space->pages_limit);
	int error;

	if (pages > space->pages_limit)
		return -ENOSPC;
	ahead = rmem_max_u64(ahead, pages);
	error = back(space, ahead);
	if (error == -ENOSPC && ahead > pages) {
		ahead = pages;
		error = back(space, ahead);
	}
	if (error == 0)
		space->pages_backed = ahead;
	return error;
}

void lmdb_space_init(struct lmdb_space *space, int fd, uint64_t pages_used, uint64_t pages_limit)
{
	space->fd = fd;
	space->pages_backed = 0;
	space->pages_limit = rmem_max_u64(pages_limit, pages_used) + RESERVE_PAGES;
}

static int sum_free(MDB_cursor *cursor, uint64_t *pages)
{
	MDB_val key, data;
	int code;

	*pages = 0;
	while ((code = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) == 0) {
		size_t count;

		if (data.mv_size < sizeof(count))
			continue;
		memcpy(&count, data.mv_data, sizeof(count));
		*pages += count;
	}
	return code == MDB_NOTFOUND ? 0 : code;
}

/* LMDB shows its table to readers only, so this is what the last commit left. */
int lmdb_space_count_free(MDB_env *env, uint64_t *pages)
{
	MDB_cursor *cursor;
	MDB_txn *reader;
	int code = mdb_txn_begin(env, NULL, MDB_RDONLY, &reader);

	if (code != 0)
		return lmdb_error(code);
	code = mdb_cursor_open(reader, FREE_DBI, &cursor);
	if (code == 0) {
		code = sum_free(cursor, pages);
		mdb_cursor_close(cursor);
	}
	mdb_txn_abort(reader);
	return lmdb_error(code);
}

/* The file can't grow so far that the reserve is left. What must not be is a page without a block;
 * beyond the map LMDB doesn't go by itself. */
static RMEM_COLD int take_within(struct lmdb_store *store, struct lmdb_txn *txn)
{
	const struct lmdb_space *space = &store->space;
	uint64_t end = txn->base_pages + txn->need_pages, wanted;
	int error;

	if (end > space->pages_backed && space->pages_backed < space->pages_limit)
		return -ENOSPC;
	if (txn->base.mode == STORE_SHRINK)
		return 0;
	if (!txn->counted) {
		error = lmdb_space_count_free(store->env, &txn->free_pages);
		if (error != 0)
			return error;
		txn->counted = true;
	}
	/* In the upper half of the reserve the file may still grow a little while there are some
	 * free pages; in the lower half, which is for deleting, they have to be enough. */
	wanted = end + RESERVE_PAGES / 2 <= space->pages_backed ? FREE_PAGES_MIN
								: 2 * txn->need_pages;
	return wanted <= txn->free_pages ? 0 : -ENOSPC;
}

static int take(struct lmdb_store *store, struct lmdb_txn *txn, uint64_t pages)
{
	struct lmdb_space *space = &store->space;
	uint64_t end, reserve = txn->base.mode == STORE_SHRINK ? 0 : RESERVE_PAGES;
	int error;

	txn->need_pages += pages;
	end = txn->base_pages + txn->need_pages + reserve;
	if (RMEM_LIKELY(end <= space->pages_backed))
		return 0;
	error = grow(space, end);
	return error == -ENOSPC ? take_within(store, txn) : error;
}

int lmdb_space_begin(struct lmdb_store *store, struct lmdb_txn *txn)
{
	MDB_envinfo info;
	MDB_stat stat;
	int code;

	code = mdb_env_info(store->env, &info);
	if (code == 0)
		code = mdb_stat(txn->txn, store->dbi, &stat);
	if (code != 0)
		return lmdb_error(code);
	txn->base_pages = info.me_last_pgno + 1;
	txn->need_pages = 0;
	txn->counted = false;
	txn->op_pages = 2 * stat.ms_depth + 4;
	return take(store, txn, COMMIT_PAGES);
}

int lmdb_space_take(struct lmdb_store *store, struct lmdb_txn *txn, size_t bytes)
{
	/* Half a page: from there on LMDB gives a value pages of its own. */
	uint64_t pages = bytes > RMEM_PAGE_BYTES / 4 ? bytes / RMEM_PAGE_BYTES + 2 : 0;

	return take(store, txn, txn->op_pages + pages);
}
