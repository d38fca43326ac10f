/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/volume_fixture.h"

#include <check.h>
#include <errno.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

struct volume_options volume_fixture_options(const struct volume_fixture *fixture)
{
	return (struct volume_options){
		.store =
			{
				.url = fixture->url,
				.map_bytes = 256u << 20,
				.holder = "test",
			},
		.stripe_bytes = 1 << 20,
		.sync_interval_ms = fixture->sync_interval_ms,
	};
}

void volume_fixture_open(struct volume_fixture *fixture)
{
	struct volume_options options = volume_fixture_options(fixture);
	struct rmem_error error = {0};
	int status = volume_open(&options, &fixture->volume, &error);

	ck_assert_msg(status == 0, "volume_open: %s", error.text);
}

void volume_fixture_init(struct volume_fixture *fixture)
{
	const char *base = getenv("TMPDIR");

	memset(fixture, 0, sizeof(*fixture));
	snprintf(fixture->folder, sizeof(fixture->folder), "%s/rmemfs-test-XXXXXX",
		 base != NULL && strlen(base) < 30 ? base : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(fixture->folder));
	snprintf(fixture->url, sizeof(fixture->url), "lmdb:%s/s", fixture->folder);
	fixture->sync_interval_ms = 3600000;
	volume_fixture_open(fixture);
}

void volume_fixture_close(struct volume_fixture *fixture)
{
	struct volume *volume = fixture->volume;

	fixture->volume = NULL;
	ck_assert_int_eq(volume_close(volume), 0);
}

void volume_fixture_finish(struct volume_fixture *fixture)
{
	if (fixture->volume != NULL)
		volume_fixture_close(fixture);
	ck_assert_int_eq(nftw(fixture->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void volume_fixture_attach(struct volume_fixture *fixture, unsigned server, const char *url,
			   uint64_t incarnation, uint64_t bytes)
{
	struct rmem_server_info info = {
		.state = RMEM_SERVER_UP,
		.incarnation = incarnation,
		.region_count = 1,
		.regions = {{.length = bytes}},
	};
	struct rmem_error error = {0};
	int status;

	snprintf(info.url, sizeof(info.url), "%s", url);
	status = volume_attach(fixture->volume, server, &info, &error);
	ck_assert_msg(status == 0, "volume_attach: %s", error.text);
}

struct inode *volume_fixture_inode(struct volume_fixture *fixture, uint64_t ino)
{
	struct inode *inode;

	ck_assert_int_eq(inode_get(fixture->volume, ino, &inode), 0);
	return inode;
}

struct inode *volume_fixture_create(struct volume_fixture *fixture, struct inode *parent,
				    const char *name, mode_t mode)
{
	struct namespace_create create = {.mode = mode, .target = "target"};
	struct inode *inode;

	ck_assert_int_eq(namespace_create(fixture->volume, parent, name, &create, &inode), 0);
	return inode;
}

ssize_t volume_fixture_read(struct volume_fixture *fixture, struct store_slice key, void *buffer,
			    size_t room)
{
	struct store_txn *txn;
	struct store_slice value;
	ssize_t result;

	ck_assert_int_eq(store_begin(fixture->volume->store, STORE_READ, &txn), 0);
	result = store_get(txn, key, &value);
	if (result == 0 && buffer != NULL) {
		ck_assert_uint_le(value.size, room);
		memcpy(buffer, value.data, value.size);
	}
	if (result == 0)
		result = (ssize_t)value.size;
	store_abort(txn);
	return result;
}

/* --- Faults ----------------------------------------------------------------------------------- */

static _Thread_local int fault_error;
static _Thread_local unsigned fault_count;
static _Atomic(int) update_error, sync_error;

void store_fault_updates(int error)
{
	atomic_store(&update_error, error);
}

void store_fault_syncs(int error)
{
	atomic_store(&sync_error, error);
}

void store_fault_arm(int error, unsigned count)
{
	fault_error = error;
	fault_count = count;
}

unsigned store_fault_disarm(void)
{
	unsigned left = fault_count;

	fault_count = 0;
	return left;
}

typedef int store_transact(struct store *store, store_change *change, void *user);

static int transact(store_transact *real, enum store_mode mode, struct store *store,
		    store_change *change, void *user)
{
	int error_of_all = atomic_load(&update_error);

	if (error_of_all != 0)
		return error_of_all;
	while (fault_count > 0) {
		struct store_txn *txn;
		int error = store_begin(store, mode, &txn);

		if (error != 0)
			return error;
		error = change(txn, user);
		store_abort(txn);
		if (error != 0)
			return error;
		fault_count--;
		if (fault_error != -EAGAIN)
			return fault_error;
	}
	return real(store, change, user);
}

/* The linker puts these in front of the real ones (--wrap). */
store_transact __wrap_store_update, __real_store_update;
store_transact __wrap_store_shrink, __real_store_shrink;

int __wrap_store_update(struct store *store, store_change *change, void *user)
{
	return transact(__real_store_update, STORE_WRITE, store, change, user);
}

int __wrap_store_shrink(struct store *store, store_change *change, void *user)
{
	return transact(__real_store_shrink, STORE_SHRINK, store, change, user);
}

int __wrap_store_sync(struct store *store);
int __real_store_sync(struct store *store);

int __wrap_store_sync(struct store *store)
{
	int error = atomic_load(&sync_error);

	return error != 0 ? error : __real_store_sync(store);
}
