/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing an LMDB store: its folder, lock, file and map. */
#include "fs/store_lmdb.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "engine/base/hint.h"

#define MAP_BYTES_DEFAULT (16ull << 30)
#define MAP_BYTES_MIN	  (1ull << 20)
#define READERS_MAX	  1024u /* far more than threads */
/* LMDB may leave the last pages of its file unwritten when they are free. More missing than that is
 * a file that was cut. */
#define MISSING_BYTES_MAX (1u << 20)

static int make_folder(const char *folder, struct rmem_error *error)
{
	if (mkdir(folder, 0700) == 0 || errno == EEXIST)
		return 0;
	return rmem_fail(error, errno, "store %s: can't make the folder: %s", folder,
			 strerror(errno));
}

static int open_failed(struct lmdb_store *store, int code, struct rmem_error *error)
{
	switch (code) {
	case MDB_INVALID:
	case MDB_VERSION_MISMATCH:
		return rmem_fail(error, EPROTO,
				 "store %s: data.mdb is not an LMDB file of this version",
				 store->folder);
	case MDB_CORRUPTED:
		return rmem_fail(error, EIO, "store %s: data.mdb is damaged", store->folder);
	default:
		return rmem_fail(error, code > 0 ? code : EIO, "store %s: %s", store->folder,
				 mdb_strerror(code));
	}
}

static uint64_t file_bytes(const struct lmdb_store *store)
{
	char path[PATH_MAX];
	struct stat st;
	int length = snprintf(path, sizeof(path), "%s/data.mdb", store->folder);

	if (length >= (int)sizeof(path) || stat(path, &st) != 0)
		return 0;
	return (uint64_t)st.st_size;
}

static unsigned env_flags(struct lmdb_store *store, const struct store_options *options)
{
	if (options->read_only)
		return MDB_NOTLS | MDB_RDONLY;
	store->space.backed = lmdb_space_can_back(store->folder);
	if (options->sync_commits)
		return MDB_NOTLS;
	return MDB_NOTLS | MDB_NOSYNC | (store->space.backed ? MDB_WRITEMAP : 0u);
}

/* Looks at the file that is there without changing it: one that lost its end would be a SIGBUS, and
 * opening it for writing would make it longer. */
static int check_length(struct lmdb_store *store, struct rmem_error *error)
{
	uint64_t bytes = file_bytes(store), used;
	MDB_envinfo info;
	MDB_stat stat;
	MDB_env *env;
	int code;

	if (bytes == 0)
		return 0;
	code = mdb_env_create(&env);
	if (code != 0)
		return open_failed(store, code, error);
	code = mdb_env_open(env, store->folder, MDB_NOTLS | MDB_RDONLY, 0600);
	if (code == 0)
		code = mdb_env_info(env, &info);
	if (code == 0)
		code = mdb_env_stat(env, &stat);
	mdb_env_close(env);
	if (code != 0)
		return open_failed(store, code, error);
	used = (info.me_last_pgno + 1) * stat.ms_psize;
	if (bytes + MISSING_BYTES_MAX < used)
		return rmem_fail(
			error, EIO,
			"store %s: data.mdb has %llu bytes where %llu are expected: it was "
			"truncated",
			store->folder, (unsigned long long)bytes, (unsigned long long)used);
	return 0;
}

static int prepare_writing(struct lmdb_store *store, const MDB_envinfo *info,
			   const struct store_options *options, struct rmem_error *error)
{
	uint64_t bytes = options->map_bytes != 0 ? options->map_bytes : MAP_BYTES_DEFAULT;
	uint64_t limit = rmem_max_u64(bytes, MAP_BYTES_MIN) / RMEM_PAGE_BYTES;
	mdb_filehandle_t fd;
	int code = mdb_env_get_fd(store->env, &fd);

	if (code != 0)
		return open_failed(store, code, error);
	lmdb_space_init(&store->space, fd, info->me_last_pgno + 1, limit);
	code = mdb_env_set_mapsize(store->env, store->space.pages_limit * RMEM_PAGE_BYTES);
	if (code != 0)
		return open_failed(store, code, error);
	return 0;
}

static int open_database(struct lmdb_store *store, struct rmem_error *error)
{
	MDB_txn *txn;
	int code = mdb_txn_begin(store->env, NULL, store->base.read_only ? MDB_RDONLY : 0, &txn);

	if (code != 0)
		return open_failed(store, code, error);
	code = mdb_dbi_open(txn, NULL, 0, &store->dbi);
	if (code == 0)
		code = mdb_txn_commit(txn);
	else
		mdb_txn_abort(txn);
	return code != 0 ? open_failed(store, code, error) : 0;
}

static int open_env(struct lmdb_store *store, const struct store_options *options,
		    struct rmem_error *error)
{
	MDB_envinfo info;
	MDB_stat stat;
	int dead, code, result = check_length(store, error);

	if (result != 0)
		return result;
	code = mdb_env_create(&store->env);
	if (code == 0)
		code = mdb_env_set_maxreaders(store->env, READERS_MAX);
	if (code == 0)
		code = mdb_env_open(store->env, store->folder, env_flags(store, options), 0600);
	if (code == 0)
		code = mdb_env_info(store->env, &info);
	if (code == 0)
		code = mdb_env_stat(store->env, &stat);
	if (code == 0)
		code = mdb_reader_check(store->env, &dead);
	if (code != 0)
		return open_failed(store, code, error);
	if (stat.ms_psize != RMEM_PAGE_BYTES)
		return rmem_fail(error, EPROTO, "store %s: has pages of %u bytes instead of %u",
				 store->folder, stat.ms_psize, RMEM_PAGE_BYTES);
	if (!options->read_only)
		result = prepare_writing(store, &info, options, error);
	return result == 0 ? open_database(store, error) : result;
}

void lmdb_close(struct store *base)
{
	struct lmdb_store *store = (struct lmdb_store *)base;

	if (store->env != NULL)
		mdb_env_close(store->env);
	store_lock_release(&store->lock,
			   atomic_load(&store->synced) == atomic_load(&store->commits));
	free(store->folder);
	free(store);
}

int lmdb_open(const struct store_options *options, const char *location, struct store **result,
	      struct rmem_error *error)
{
	struct lmdb_store *store;
	int code = 0;

	if (location[0] == '\0')
		return rmem_fail(error, EINVAL, "store \"%s\": no folder given", options->url);
	store = calloc(1, sizeof(*store));
	if (store == NULL || (store->folder = strdup(location)) == NULL) {
		free(store);
		return rmem_fail(error, ENOMEM, "store %s: out of memory", location);
	}
	store->base = (struct store){&store_lmdb, options->read_only};
	store->lock.fd = -1;
	pthread_mutex_init(&store->writer, NULL);
	store->sync_commits = options->sync_commits;
	if (options->read_only) {
		store_lock_peek(&store->lock, location);
	} else {
		code = make_folder(location, error);
		if (code == 0)
			code = store_lock_take(&store->lock, location, options->holder, error);
	}
	if (code == 0)
		code = open_env(store, options, error);
	/* What a process that was killed committed may still have to be synced. */
	atomic_store(&store->commits, 1);
	atomic_store(&store->synced, store->lock.clean ? 1 : 0);
	if (code != 0) {
		lmdb_close(&store->base);
		return code;
	}
	*result = &store->base;
	return 0;
}
