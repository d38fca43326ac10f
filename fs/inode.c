/* SPDX-License-Identifier: Apache-2.0 */
/* The table of inodes, their references and the dirty list.
 *
 * One mutex guards table, references and dirty list: it is held for a hash lookup and a counter,
 * some 50 ns, never for a store access. An inode that has to be read from the store is put into the
 * table first, as INODE_LOADING: whoever wants the same inode finds it there and waits, so that no
 * object made from an old record can appear beside or after one that was changed.
 *
 * The dirty list is in inode_dirty.c; what is put into the store, and what is deleted from it, in
 * inode_store.c. */
#include "fs/inode.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/log.h"
#include "fs/dirty.h"
#include "fs/extent.h"
#include "fs/inode_table.h"

int64_t inode_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int inode_table_create(struct inode_table **out)
{
	struct inode_table *table = calloc(1, sizeof(*table));

	if (table == NULL)
		return -ENOMEM;
	pthread_mutex_init(&table->lock, NULL);
	pthread_cond_init(&table->loaded, NULL);
	*out = table;
	return 0;
}

static void inode_free(struct inode *inode)
{
	extent_map_destroy(inode->map);
	dirty_file_destroy(inode->dirty_file);
	pthread_mutex_destroy(&inode->lock);
	free(inode);
}

/* Table lock held. An object with one reference, being loaded; NULL: out of memory. */
static struct inode *table_add(struct volume *volume, uint64_t ino)
{
	struct inode *inode = calloc(1, sizeof(*inode));

	if (inode == NULL)
		return NULL;
	inode->ino = ino;
	inode->refs = 1;
	inode->state = INODE_LOADING;
	inode->volume = volume;
	HASH_ADD(hh, volume->inodes->hash, ino, sizeof(inode->ino), inode);
	if (inode->hh.tbl == NULL) { /* the table could not grow */
		free(inode);
		return NULL;
	}
	pthread_mutex_init(&inode->lock, NULL);
	gate_init(&inode->gate);
	return inode;
}

/* Table lock held: ends INODE_LOADING. True: the caller frees the object. */
static bool table_settle(struct inode_table *table, struct inode *inode, int status)
{
	if (table->waiters > 0)
		pthread_cond_broadcast(&table->loaded);
	if (status == 0) {
		inode->state = INODE_READY;
		return false;
	}
	inode->state = INODE_FAILED;
	inode->load_error = status;
	HASH_DEL(table->hash, inode);
	return --inode->refs == 0;
}

/* Table lock held; `inode` carries a reference for us, which is given back on failure. */
static int wait_loaded(struct inode_table *table, struct inode *inode)
{
	int error;

	while (inode->state == INODE_LOADING) {
		table->waiters++;
		pthread_cond_wait(&table->loaded, &table->lock);
		table->waiters--;
	}
	if (inode->state == INODE_READY)
		return 0;
	error = inode->load_error;
	if (--inode->refs == 0)
		inode_free(inode);
	return error;
}

static int load_new(struct volume *volume, struct inode *inode)
{
	struct inode_table *table = volume->inodes;
	int error = inode_load_record(volume, inode->ino, &inode->attr);
	bool unused;

	pthread_mutex_lock(&table->lock);
	unused = table_settle(table, inode, error);
	pthread_mutex_unlock(&table->lock);
	if (unused)
		inode_free(inode);
	return error;
}

int inode_get(struct volume *volume, uint64_t ino, struct inode **out)
{
	struct inode_table *table = volume->inodes;
	struct inode *inode;
	int error = 0;

	pthread_mutex_lock(&table->lock);
	HASH_FIND (hh, table->hash, &ino, sizeof(ino), inode)
		;
	if (RMEM_LIKELY(inode != NULL)) {
		inode->refs++;
		if (RMEM_UNLIKELY(inode->state != INODE_READY))
			error = wait_loaded(table, inode);
		pthread_mutex_unlock(&table->lock);
	} else {
		inode = table_add(volume, ino);
		pthread_mutex_unlock(&table->lock);
		error = inode == NULL ? -ENOMEM : load_new(volume, inode);
	}
	if (error == 0)
		*out = inode;
	return error;
}

int inode_prepare(struct volume *volume, uint64_t ino, const struct inode_attr *attr,
		  struct inode **out)
{
	struct inode_table *table = volume->inodes;
	struct inode *inode;

	pthread_mutex_lock(&table->lock);
	inode = table_add(volume, ino);
	pthread_mutex_unlock(&table->lock);
	if (inode == NULL)
		return -ENOMEM;
	inode->attr = *attr;
	*out = inode;
	return 0;
}

void inode_publish(struct inode *inode, int status)
{
	struct inode_table *table = inode->volume->inodes;
	bool unused;

	pthread_mutex_lock(&table->lock);
	unused = table_settle(table, inode, status);
	pthread_mutex_unlock(&table->lock);
	if (unused)
		inode_free(inode);
}

void inode_ref(struct volume *volume, struct inode *inode)
{
	pthread_mutex_lock(&volume->inodes->lock);
	assert(inode->refs > 0);
	inode->refs++;
	pthread_mutex_unlock(&volume->inodes->lock);
}

static void reclaim_failed(const struct inode *inode, int error)
{
	rmem_log_error(RMEM_LOG_FS,
		       "cannot free the deleted file with inode %llu: %s; "
		       "its space comes back with the next mount",
		       (unsigned long long)inode->ino, strerror(-error));
}

/* All of it, now. */
static void reclaim_orphan(struct inode *inode)
{
	struct volume *volume = inode->volume;
	int result;

	do {
		result = inode_reclaim(volume, volume->mount_id, inode->ino);
	} while (result > 0);
	if (result < 0)
		reclaim_failed(inode, result);
	inode_free(inode);
}

/* On the worker: a piece of it, and the rest when others had their turn. */
static void reclaim_piece(struct volume_job *job)
{
	struct inode *inode = RMEM_CONTAINER_OF(job, struct inode, reclaim);
	struct volume *volume = inode->volume;
	int result = inode_reclaim(volume, volume->mount_id, inode->ino);

	if (result > 0) {
		volume_defer(volume, job);
		return;
	}
	if (result < 0)
		reclaim_failed(inode, result);
	inode_free(inode);
}

/* Giving back this much takes about a millisecond; more is the worker's. */
#define QUICK_PAGES  4096u
#define QUICK_XATTRS 16u

bool inode_is_quick(const struct inode_attr *attr)
{
	return attr->pages <= QUICK_PAGES && attr->xattr_count <= QUICK_XATTRS;
}

/* Table lock held, and dropped here. */
static void unref_locked(struct volume *volume, struct inode *inode, uint64_t count)
{
	struct inode_table *table = volume->inodes;

	assert(inode->refs >= count);
	inode->refs -= count;
	if (inode->refs > 0) {
		pthread_mutex_unlock(&table->lock);
		return;
	}
	HASH_DEL(table->hash, inode);
	pthread_mutex_unlock(&table->lock);

	assert(inode->opens == 0 && inode->dirty == 0);
	assert(!dirty_any(inode->dirty_file)); /* they hold a reference */
	if (!inode->orphan) {
		inode_free(inode);
	} else if (inode_is_quick(&inode->attr)) {
		reclaim_orphan(inode);
	} else {
		inode->reclaim.run = reclaim_piece;
		volume_defer(volume, &inode->reclaim);
	}
}

void inode_unref(struct volume *volume, struct inode *inode, uint64_t count)
{
	pthread_mutex_lock(&volume->inodes->lock);
	unref_locked(volume, inode, count);
}

void inode_forget(struct volume *volume, uint64_t ino, uint64_t count)
{
	struct inode_table *table = volume->inodes;
	struct inode *inode;

	pthread_mutex_lock(&table->lock);
	HASH_FIND (hh, table->hash, &ino, sizeof(ino), inode)
		;
	if (inode == NULL || inode->state != INODE_READY || inode->refs < count) {
		pthread_mutex_unlock(&table->lock);
		rmem_log_warn(RMEM_LOG_FS, "the kernel forgets inode %llu, which it does not hold",
			      (unsigned long long)ino);
		return;
	}
	unref_locked(volume, inode, count);
}

void inode_set_add(struct inode_set *set, struct inode *inode)
{
	unsigned i;

	for (i = 0; i < set->count; i++) {
		if (set->inodes[i] == inode)
			return;
	}
	if (inode == NULL)
		return;
	assert(set->count < INODE_LOCK_MAX);
	for (i = set->count++; i > 0 && set->inodes[i - 1]->ino > inode->ino; i--)
		set->inodes[i] = set->inodes[i - 1];
	set->inodes[i] = inode;
}

void inode_set_lock(struct inode_set *set)
{
	unsigned i;

	for (i = 0; i < set->count; i++)
		pthread_mutex_lock(&set->inodes[i]->lock);
}

void inode_set_unlock(const struct inode_set *set)
{
	unsigned i;

	for (i = set->count; i > 0; i--)
		pthread_mutex_unlock(&set->inodes[i - 1]->lock);
}

void inode_table_destroy(struct volume *volume, struct inode_table *table)
{
	struct inode *inode;

	if (table == NULL)
		return;
	while ((inode = table->hash) != NULL) {
		HASH_DEL(table->hash, inode);
		if (inode->orphan)
			reclaim_orphan(inode);
		else
			inode_free(inode);
	}
	pthread_cond_destroy(&table->loaded);
	pthread_mutex_destroy(&table->lock);
	free(table);
	volume->inodes = NULL;
}
