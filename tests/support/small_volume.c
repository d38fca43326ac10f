/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/small_volume.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/bitmap.h"
#include "fs/extent.h"
#include "fs/record.h"
#include "tests/support/faulty_store.h"
#include "tests/support/folder.h"
#include <check.h>

/* --- In place of volume.c and inode.c -----------------------------------------------------------
 */

const struct volume_region *volume_region(const struct volume *volume, uint32_t id)
{
	if (id == 0 || id > SMALL_VOLUME_REGIONS || volume->regions[id].id == 0)
		return NULL;
	return &volume->regions[id];
}

int inode_put_record(struct store_txn *txn, const struct inode *inode,
		     const struct inode_attr *attr)
{
	struct record_key key;
	struct record_inode value;

	if (inode->removed)
		return -ESTALE;
	return store_put(txn, record_key_number(&key, RECORD_INODE, inode->ino),
			 record_encode_inode(&value, attr));
}

void inode_mark_dirty(struct volume *volume, struct inode *inode, unsigned what)
{
	(void)volume;
	inode->dirty |= what;
}

/* ------------------------------------------------------------------------------------------------
 */

static void open_all(struct small_volume *small)
{
	char url[256];
	struct store_options options = {.url = url, .map_bytes = 256 << 20};
	struct rmem_error error = {0};
	struct store *real;

	snprintf(url, sizeof(url), "lmdb:%s/store", small->folder);
	ck_assert_msg(store_open(&options, &real, &error) == 0, "%s", error.text);
	small->volume.store = faulty_store_create(real);
	ck_assert_int_eq(alloc_create(&small->volume, &small->volume.allocator), 0);
}

static void close_all(struct small_volume *small)
{
	alloc_destroy(small->volume.allocator);
	store_close(small->volume.store);
	small->volume.allocator = NULL;
	small->volume.store = NULL;
}

void small_volume_init(struct small_volume *small, uint64_t stripe_bytes)
{
	memset(small, 0, sizeof(*small));
	folder_make(small->folder, sizeof(small->folder));
	small->volume.regions = small->regions;
	atomic_store(&small->volume.region_count, SMALL_VOLUME_REGIONS + 1);
	small->volume.stripe_bytes = stripe_bytes;
	open_all(small);
}

void small_volume_finish(struct small_volume *small)
{
	close_all(small);
	folder_remove(small->folder);
}

void small_volume_reopen(struct small_volume *small)
{
	close_all(small);
	for (uint32_t id = 1; id <= SMALL_VOLUME_REGIONS; id++) {
		small->regions[id].attached = false;
		if (small->regions[id].lost)
			small->regions[id].id = 0;
	}
	open_all(small);
}

void small_volume_attach(struct small_volume *small, uint32_t id, uint64_t pages)
{
	small->regions[id].id = id;
	small->regions[id].length = pages * VOLUME_PAGE_BYTES;
	ck_assert_int_eq(alloc_add_region(small->volume.allocator, id, pages), 0);
	small->regions[id].attached = true;
}

void small_volume_detach(struct small_volume *small, uint32_t id)
{
	small->regions[id].attached = false;
}

void small_volume_lose(struct small_volume *small, uint32_t id)
{
	small->regions[id].lost = true;
}

uint64_t *small_volume_bitmap(struct small_volume *small, uint32_t region)
{
	uint64_t pages = small->regions[region].length / VOLUME_PAGE_BYTES;
	uint64_t groups = (pages + RECORD_GROUP_PAGES - 1) / RECORD_GROUP_PAGES;
	uint64_t *words = calloc(groups, RECORD_GROUP_WORDS * sizeof(*words));
	struct store_slice value;
	struct record_key key;
	struct store_txn *txn;

	ck_assert_int_eq(store_begin(small->volume.store, STORE_READ, &txn), 0);
	for (uint64_t i = 0; i < groups; i++) {
		int error = store_get(txn, record_key_pair(&key, RECORD_BITMAP, region, i), &value);

		if (error == 0)
			error = record_decode_bitmap(value, words + i * RECORD_GROUP_WORDS);
		ck_assert(error == 0 || error == -ENOENT);
	}
	store_abort(txn);
	return words;
}

bool small_volume_is_taken(struct small_volume *small, uint32_t region, uint64_t page)
{
	uint64_t *words = small_volume_bitmap(small, region);
	bool taken = bitmap_test(words, (uint32_t)page);

	free(words);
	return taken;
}

static int put_inode(struct store_txn *txn, void *user)
{
	const struct inode *inode = user;

	return inode_put_record(txn, inode, &inode->attr);
}

void small_volume_create(struct small_volume *small, struct inode *inode, uint64_t ino)
{
	memset(inode, 0, sizeof(*inode));
	inode->ino = ino;
	inode->volume = &small->volume;
	inode->attr.mode = S_IFREG | 0644;
	inode->attr.nlink = 1;
	ck_assert_int_eq(store_update(small->volume.store, put_inode, inode), 0);
}

struct inode_attr small_volume_stored(struct small_volume *small, uint64_t ino)
{
	struct store_slice value;
	struct inode_attr attr;
	struct record_key key;
	struct store_txn *txn;

	ck_assert_int_eq(store_begin(small->volume.store, STORE_READ, &txn), 0);
	ck_assert_int_eq(store_get(txn, record_key_number(&key, RECORD_INODE, ino), &value), 0);
	ck_assert_int_eq(record_decode_inode(value, &attr), 0);
	store_abort(txn);
	return attr;
}
