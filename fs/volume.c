/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing. volume_session.c has the sessions, volume_attach.c servers and regions,
 * volume_worker.c the worker thread. */
#include "fs/volume.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "fs/alloc.h"
#include "fs/check.h"
#include "fs/inode.h"
#include "fs/volume_parts.h"
#include "fs/volume_worker.h"

static int count_record(void *user, struct store_slice key, struct store_slice value)
{
	(void)key;
	(void)value;
	++*(uint64_t *)user;
	return 0;
}

/* A million takes about a tenth of a second. */
static int count_inodes(struct volume *volume)
{
	struct record_key prefix;
	struct store_txn *txn;
	uint64_t count = 0;
	int error = store_begin(volume->store, STORE_READ, &txn);

	if (error != 0)
		return error;
	error = store_scan(txn, record_key_kind(&prefix, RECORD_INODE), (struct store_slice){0},
			   count_record, &count);
	store_abort(txn);
	atomic_store_explicit(&volume->inode_count, count, memory_order_relaxed);
	return error;
}

/* Frees a volume that may be half built; nothing is flushed. */
static void volume_destroy(struct volume *volume)
{
	volume_worker_destroy(volume->worker);
	inode_table_destroy(volume, volume->inodes);
	alloc_destroy(volume->allocator);
	store_close(volume->store);
	volume_regions_finish(volume);
	pthread_mutex_destroy(&volume->region_lock);
	pthread_mutex_destroy(&volume->namespace_lock);
	free(volume);
}

static int open_parts(struct volume *volume, struct rmem_error *error)
{
	int status = inode_table_create(&volume->inodes);

	if (status == 0)
		status = alloc_create(volume, &volume->allocator);
	if (status == 0)
		status = volume_regions_allocate(volume);
	if (status == 0)
		volume_session_recover(volume);
	if (status == 0)
		status = count_inodes(volume);
	if (status == 0)
		status = volume_worker_create(volume, &volume->worker);
	if (status != 0)
		return rmem_fail(error, -status, "cannot open the volume: %s", strerror(-status));
	return 0;
}

/* The host went down while the store took commits: it may be inconsistent, and then mounting would
 * make things worse. */
static int check_after_crash(struct volume *volume, const char *url, struct rmem_error *error)
{
	struct check_options options = {.store = volume->store};
	struct check_result result;
	int status;

	if (!store_crashed(volume->store))
		return 0;
	rmem_log_warn(RMEM_LOG_FS, "the host went down while %s was mounted: checking it", url);
	status = check_run(&options, &result);
	if (status == -ENOENT || status == -EPROTO)
		return 0; /* no volume, or none of ours: that is told later */
	if (status != 0 || result.findings[CHECK_SERIOUS] > 0)
		return rmem_fail(error, EIO,
				 "store %s is damaged since the host went down: see what "
				 "rmemctl check says, repair it with rmemctl check --repair, or "
				 "take a copy of the store from before",
				 url);
	if (!check_is_clean(&result))
		rmem_log_warn(RMEM_LOG_FS,
			      "store %s is usable, but not clean: rmemctl check --repair mends it",
			      url);
	return 0;
}

int volume_open(const struct volume_options *options, struct volume **out, struct rmem_error *error)
{
	struct volume *volume = calloc(1, sizeof(*volume));
	int status;

	if (volume == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	pthread_mutex_init(&volume->namespace_lock, NULL);
	pthread_mutex_init(&volume->region_lock, NULL);
	volume->stripe_bytes = options->stripe_bytes;
	volume->sync_interval_ms = options->sync_interval_ms;
	status = store_open(&options->store, &volume->store, error);
	if (status == 0)
		status = check_after_crash(volume, options->store.url, error);
	if (status == 0)
		status = volume_session_begin(volume, options, error);
	if (status == 0)
		status = volume_regions_load(volume, error);
	if (status == 0)
		status = open_parts(volume, error);
	if (status != 0) {
		volume_destroy(volume);
		return status;
	}
	*out = volume;
	return 0;
}

static int first_of(int error, int next)
{
	return error != 0 ? error : next;
}

int volume_close(struct volume *volume)
{
	int error = inode_flush_all(volume);

	volume_worker_destroy(volume->worker);
	volume->worker = NULL;
	/* Once more: jobs that ran until the end may have changed inodes. */
	error = first_of(error, inode_flush_all(volume));
	inode_table_destroy(volume, volume->inodes);
	error = first_of(error, store_sync(volume->store));
	if (error == 0)
		error = volume_session_end(volume);
	if (error == 0)
		error = store_sync(volume->store);
	volume_destroy(volume);
	return error;
}

/* --- Numbers ---------------------------------------------------------------------------------- */

static int reserve_numbers(struct store_txn *txn, void *user)
{
	uint64_t *first = user;
	struct record_key buffer;
	struct record_number value;
	struct store_slice key = record_key_kind(&buffer, RECORD_NUMBERS), stored;
	int error = store_get(txn, key, &stored);

	if (error == 0)
		error = record_decode_number(stored, RECORD_NUMBERS, first);
	if (error != 0)
		return error == -ENOENT ? -EIO : error;
	return store_put(txn, key,
			 record_encode_number(&value, RECORD_NUMBERS, *first + RECORD_INO_RESERVE));
}

int volume_reserve_ino(struct volume *volume, uint64_t *ino)
{
	if (RMEM_UNLIKELY(volume->ino_next == volume->ino_end)) {
		uint64_t first;
		int error = store_update(volume->store, reserve_numbers, &first);

		if (error != 0)
			return error;
		volume->ino_next = first;
		volume->ino_end = first + RECORD_INO_RESERVE;
	}
	*ino = volume->ino_next++;
	return 0;
}
