/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/extent.h"
#include "fs/record.h"
#include "tests/support/runner.h"
#include "tests/support/store_check.h"
#include "tests/support/volume_fixture.h"

static struct volume_fixture fixture;
static struct inode *root;
static struct record_key key_buffer;

static void setup(void)
{
	volume_fixture_init(&fixture);
	volume_fixture_attach(&fixture, 0, "shm:/a", 1, 256u << 20);
	root = volume_fixture_inode(&fixture, INODE_ROOT);
}

static void teardown(void)
{
	inode_unref(fixture.volume, root, 1);
	volume_fixture_close(&fixture);
	store_check_clean(fixture.url);
	volume_fixture_finish(&fixture);
}

static struct inode *create(const char *name)
{
	return volume_fixture_create(&fixture, root, name, S_IFREG | 0644);
}

static void put(struct inode *inode)
{
	inode_unref(fixture.volume, inode, 1);
}

static bool has_record(uint64_t ino)
{
	return volume_fixture_read(&fixture, record_key_number(&key_buffer, RECORD_INODE, ino),
				   NULL, 0) >= 0;
}

static bool has_orphan(uint64_t ino)
{
	return volume_fixture_read(
		       &fixture,
		       record_key_pair(&key_buffer, RECORD_ORPHAN, fixture.volume->mount_id, ino),
		       NULL, 0) >= 0;
}

static struct inode_attr stored(uint64_t ino)
{
	struct record_inode value;
	struct inode_attr attr;
	ssize_t size = volume_fixture_read(
		&fixture, record_key_number(&key_buffer, RECORD_INODE, ino), &value, sizeof(value));
	struct store_slice slice = {.data = &value, .size = (size_t)size};

	ck_assert_int_gt(size, 0);
	ck_assert_int_eq(record_decode_inode(slice, &attr), 0);
	return attr;
}

static void touch(struct inode *inode, int64_t mtime_ns)
{
	pthread_mutex_lock(&inode->lock);
	inode->attr.mtime_ns = mtime_ns;
	inode_mark_dirty(fixture.volume, inode, INODE_DIRTY_ATTR);
	pthread_mutex_unlock(&inode->lock);
}

static void open_file(struct inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	inode->opens++;
	pthread_mutex_unlock(&inode->lock);
}

static void close_file(struct inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	inode->opens--;
	pthread_mutex_unlock(&inode->lock);
	put(inode);
}

static uint64_t pages_free(void)
{
	struct volume_usage usage;

	volume_usage(fixture.volume, &usage);
	return usage.pages_free;
}

static void write_pages(struct inode *inode, uint64_t offset, uint64_t pages)
{
	pthread_mutex_lock(&inode->lock);
	ck_assert_int_eq(extent_allocate(fixture.volume, inode, offset, pages * VOLUME_PAGE_BYTES,
					 EXTENT_EXACT),
			 0);
	extent_mark_written(fixture.volume, inode, offset, pages * VOLUME_PAGE_BYTES);
	inode_mark_dirty(fixture.volume, inode, INODE_DIRTY_ATTR | INODE_DIRTY_MAP);
	pthread_mutex_unlock(&inode->lock);
}

/* --- The table -------------------------------------------------------------------------------- */

START_TEST(an_inode_is_one_object_for_all_who_hold_it)
{
	struct inode *file = create("file"), *again = volume_fixture_inode(&fixture, file->ino);

	ck_assert_ptr_eq(file, again);
	put(again);
	put(file);
}
END_TEST

START_TEST(a_forgotten_inode_comes_back_from_the_store)
{
	struct inode *file = create("file");
	struct inode_attr attr = file->attr;
	struct record_inode before, after;
	uint64_t ino = file->ino;

	put(file);
	file = volume_fixture_inode(&fixture, ino);
	/* As records: between the fields of the structs there may be anything. */
	(void)record_encode_inode(&before, &attr);
	(void)record_encode_inode(&after, &file->attr);
	ck_assert_int_eq(memcmp(&before, &after, sizeof(before)), 0);
	put(file);
}
END_TEST

START_TEST(an_inode_that_does_not_exist_is_not_got)
{
	struct inode *inode;

	ck_assert_int_eq(inode_get(fixture.volume, 99999, &inode), -ENOENT);
	ck_assert_int_eq(inode_get(fixture.volume, 0, &inode), -ENOENT);
}
END_TEST

START_TEST(the_kernel_forgets_by_number)
{
	struct inode *file = create("file");
	uint64_t ino = file->ino;

	inode_ref(fixture.volume, file);
	inode_ref(fixture.volume, file);
	inode_forget(fixture.volume, ino, 2);
	ck_assert_uint_eq(file->refs, 1);
	inode_forget(fixture.volume, ino, 1);
	inode_forget(fixture.volume, ino, 1);	/* too often: refused */
	inode_forget(fixture.volume, 99999, 1); /* never known */
}
END_TEST

static void *get_and_put(void *user)
{
	const uint64_t *ino = user;

	for (int i = 0; i < 2000; i++) {
		struct inode *inode;

		if (inode_get(fixture.volume, *ino, &inode) != 0)
			return user;
		inode_unref(fixture.volume, inode, 1);
	}
	return NULL;
}

START_TEST(threads_that_load_one_inode_at_once_all_get_it)
{
	struct inode *file = create("file");
	uint64_t ino = file->ino;
	pthread_t threads[4];
	void *failed;

	put(file);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, get_and_put, &ino), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &failed);
		ck_assert_ptr_null(failed);
	}
}
END_TEST

/* --- Dirty inodes ----------------------------------------------------------------------------- */

START_TEST(a_dirty_inode_stays_until_it_is_flushed)
{
	struct inode *file = create("file");
	uint64_t ino = file->ino;

	touch(file, 55);
	put(file);
	file = volume_fixture_inode(&fixture, ino);
	ck_assert_int_eq(file->attr.mtime_ns, 55);
	ck_assert_int_ne(stored(ino).mtime_ns, 55);
	ck_assert_int_eq(inode_flush(fixture.volume, file), 0);
	ck_assert_int_eq(stored(ino).mtime_ns, 55);
	ck_assert_uint_eq(file->refs, 1);
	put(file);
}
END_TEST

START_TEST(a_flush_counts_the_version_up_and_only_when_it_stores)
{
	struct inode *file = create("file");
	uint64_t version = file->attr.version;

	ck_assert_int_eq(inode_flush(fixture.volume, file), 0);
	ck_assert_uint_eq(file->attr.version, version);
	touch(file, 1);
	ck_assert_int_eq(inode_flush(fixture.volume, file), 0);
	ck_assert_uint_eq(file->attr.version, version + 1);
	ck_assert_uint_eq(stored(file->ino).version, version + 1);
	put(file);
}
END_TEST

START_TEST(a_flush_that_fails_keeps_the_inode_dirty)
{
	struct inode *file = create("file");

	touch(file, 66);
	store_fault_arm(-EIO, 1);
	ck_assert_int_eq(inode_flush(fixture.volume, file), -EIO);
	ck_assert_uint_eq(store_fault_disarm(), 0);
	ck_assert_uint_ne(file->dirty, 0);
	ck_assert_int_eq(inode_flush(fixture.volume, file), 0);
	ck_assert_int_eq(stored(file->ino).mtime_ns, 66);
	put(file);
}
END_TEST

START_TEST(flushing_all_tries_each_and_tells_the_first_error)
{
	struct inode *files[10];
	char name[16];

	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "%d", i);
		files[i] = create(name);
		touch(files[i], 100 + i);
	}
	store_fault_arm(-EIO, 3);
	ck_assert_int_eq(inode_flush_all(fixture.volume), -EIO);
	ck_assert_uint_eq(store_fault_disarm(), 0);
	for (int i = 0; i < 10; i++)
		ck_assert(i < 3 ? files[i]->dirty != 0 : files[i]->dirty == 0);
	ck_assert_int_eq(inode_flush_all(fixture.volume), 0);
	for (int i = 0; i < 10; i++) {
		ck_assert_int_eq(stored(files[i]->ino).mtime_ns, 100 + i);
		put(files[i]);
	}
}
END_TEST

START_TEST(a_flush_stores_which_pages_were_written)
{
	struct inode *file = create("file");
	struct extent_piece piece;
	uint64_t ino = file->ino;

	write_pages(file, 0, 3);
	ck_assert_int_eq(inode_flush(fixture.volume, file), 0);
	put(file);
	file = volume_fixture_inode(&fixture, ino);
	pthread_mutex_lock(&file->lock);
	ck_assert_int_eq(extent_lookup(fixture.volume, file, 0, 4 * VOLUME_PAGE_BYTES, &piece, 1),
			 1);
	pthread_mutex_unlock(&file->lock);
	ck_assert_int_eq(piece.kind, EXTENT_WRITTEN);
	ck_assert_uint_eq(piece.length, 3 * VOLUME_PAGE_BYTES);
	put(file);
}
END_TEST

/* --- The end of an inode ---------------------------------------------------------------------- */

START_TEST(a_closed_file_goes_with_its_last_name)
{
	uint64_t before = pages_free();
	struct inode *file = create("file");

	write_pages(file, 0, 100);
	ck_assert_uint_eq(pages_free(), before - 100);
	ck_assert_int_eq(namespace_unlink(fixture.volume, root, "file"), 0);
	ck_assert(file->removed && !file->orphan);
	ck_assert_uint_eq(file->dirty, 0);
	ck_assert(!has_record(file->ino));
	ck_assert_uint_eq(pages_free(), before);
	put(file);
}
END_TEST

START_TEST(nothing_is_stored_for_a_removed_inode)
{
	struct inode *file = create("file"), *again;
	struct inode_attr attr = {.mode = 0600};
	struct namespace_xattr xattr = {.name = "user.a", .value = "b", .size = 1};

	ck_assert_int_eq(namespace_unlink(fixture.volume, root, "file"), 0);
	touch(file, 1);
	ck_assert_uint_eq(file->dirty, 0);
	ck_assert_int_eq(inode_flush(fixture.volume, file), 0);
	ck_assert_int_eq(namespace_setattr(fixture.volume, file, &attr, NAMESPACE_MODE), 0);
	ck_assert_int_eq(namespace_setxattr(fixture.volume, file, &xattr), -ESTALE);
	ck_assert_int_eq(namespace_link(fixture.volume, file, root, "again"), -ENOENT);
	ck_assert_int_eq(inode_get(fixture.volume, file->ino, &again), 0);
	put(again);
	ck_assert(!has_record(file->ino));
	put(file);
}
END_TEST

START_TEST(a_file_that_may_be_asked_for_lives_until_it_is_forgotten)
{
	struct inode *file = create("file"), *other, *link;
	struct namespace_create symlink = {.mode = S_IFLNK | 0777, .target = "target"};
	struct namespace_xattr xattr = {.name = "user.a", .value = "b", .size = 1};
	char target[VOLUME_PAGE_BYTES], value;
	uint64_t ino = file->ino;

	/* By itself it would go; see a_closed_file_goes_with_its_last_name. */
	ck_assert_int_eq(namespace_setxattr(fixture.volume, file, &xattr), 0);
	ck_assert_int_eq(namespace_unlink(fixture.volume, root, "file"), 0);
	ck_assert(file->orphan && has_record(ino) && has_orphan(ino));
	ck_assert_int_eq(namespace_getxattr(fixture.volume, file, "user.a", &value, 1), 1);
	put(file);
	ck_assert(!has_record(ino) && !has_orphan(ino));

	ck_assert_int_eq(namespace_create(fixture.volume, root, "link", &symlink, &link), 0);
	ck_assert_int_eq(namespace_unlink(fixture.volume, root, "link"), 0);
	ck_assert_int_eq(namespace_readlink(fixture.volume, link, target), 0);
	ck_assert_str_eq(target, "target");
	ino = link->ino;
	put(link);
	ck_assert(!has_record(ino) && !has_orphan(ino));

	file = create("one");
	other = create("two");
	ck_assert_int_eq(namespace_unlink(fixture.volume, root, "one"), 0);
	ck_assert(file->removed);
	namespace_met_removed(fixture.volume);
	ck_assert_int_eq(namespace_unlink(fixture.volume, root, "two"), 0);
	ck_assert(other->orphan && !other->removed && has_record(other->ino));
	put(file);
	put(other);
}
END_TEST

START_TEST(an_open_file_lives_until_it_is_closed)
{
	uint64_t before = pages_free(), ino;
	struct inode *file = create("file"), *again;

	ino = file->ino;
	write_pages(file, 0, 10);
	open_file(file);
	ck_assert_int_eq(namespace_unlink(fixture.volume, root, "file"), 0);
	ck_assert(file->orphan && !file->removed);
	ck_assert(has_record(ino) && has_orphan(ino));
	write_pages(file, 1 << 20, 10);
	ck_assert_uint_eq(pages_free(), before - 20);
	close_file(file);
	ck_assert(!has_record(ino) && !has_orphan(ino));
	ck_assert_uint_eq(pages_free(), before);
	ck_assert_int_eq(inode_get(fixture.volume, ino, &again), -ENOENT);
}
END_TEST

START_TEST(a_file_with_bytes_under_way_lives_until_they_have_arrived)
{
	struct io_waiter waiter = {.exclusive = false};
	uint64_t before = pages_free(), ino;
	struct inode *file = create("file");

	ino = file->ino;
	write_pages(file, 0, 10);
	pthread_mutex_lock(&file->lock);
	ck_assert(gate_enter(&file->gate, &waiter));
	pthread_mutex_unlock(&file->lock);
	ck_assert_int_eq(namespace_unlink(fixture.volume, root, "file"), 0);
	ck_assert(file->orphan);
	ck_assert_uint_eq(pages_free(), before - 10);
	pthread_mutex_lock(&file->lock);
	ck_assert_ptr_null(gate_leave(&file->gate, &waiter));
	pthread_mutex_unlock(&file->lock);
	put(file);
	ck_assert(!has_record(ino));
	ck_assert_uint_eq(pages_free(), before);
}
END_TEST

START_TEST(a_large_file_is_freed_in_the_background)
{
	uint64_t before = pages_free(), ino;
	struct inode *file = create("file");

	ino = file->ino;
	/* Scattered, so that it takes many extents. */
	for (uint64_t i = 0; i < 6000; i++)
		write_pages(file, i * 2 * VOLUME_PAGE_BYTES, 1);
	ck_assert_int_eq(inode_flush(fixture.volume, file), 0);
	ck_assert_int_eq(namespace_unlink(fixture.volume, root, "file"), 0);
	ck_assert(file->orphan);
	put(file);
	/* Memory follows the store. */
	for (int i = 0; i < 10000 && (has_record(ino) || pages_free() != before); i++)
		usleep(1000);
	ck_assert(!has_record(ino) && !has_orphan(ino));
	ck_assert_uint_eq(pages_free(), before);
}
END_TEST

START_TEST(many_attributes_go_with_their_inode)
{
	struct inode *file = create("file");
	uint64_t ino = file->ino;
	char name[32];

	for (int i = 0; i < 200; i++) {
		struct namespace_xattr xattr = {.name = name, .value = name, .size = 20};

		snprintf(name, sizeof(name), "user.attribute-%d", i);
		ck_assert_int_eq(namespace_setxattr(fixture.volume, file, &xattr), 0);
	}
	ck_assert_int_eq(namespace_unlink(fixture.volume, root, "file"), 0);
	put(file);
	for (int i = 0; i < 10000 && has_record(ino); i++)
		usleep(1000);
	ck_assert(!has_record(ino)); /* and teardown's check finds no stray attribute */
}
END_TEST

START_TEST(a_reclaim_that_fails_is_left_to_the_next_mount)
{
	struct inode *file = create("file");
	uint64_t ino = file->ino, before;

	before = pages_free();
	write_pages(file, 0, 10);
	open_file(file);
	ck_assert_int_eq(namespace_unlink(fixture.volume, root, "file"), 0);
	store_fault_arm(-EIO, 1);
	close_file(file);
	ck_assert_uint_eq(store_fault_disarm(), 0);
	ck_assert(has_record(ino) && has_orphan(ino));
	inode_unref(fixture.volume, root, 1);
	volume_fixture_close(&fixture);
	volume_fixture_open(&fixture);
	volume_fixture_attach(&fixture, 0, "shm:/a", 1, 256u << 20);
	root = volume_fixture_inode(&fixture, INODE_ROOT);
	ck_assert(!has_record(ino) && !has_orphan(ino));
	ck_assert_uint_eq(pages_free(), before);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("inode");
	TCase *table = tcase_create("table"), *dirty = tcase_create("dirty");
	TCase *end = tcase_create("end");

	tcase_add_checked_fixture(table, setup, teardown);
	tcase_add_checked_fixture(dirty, setup, teardown);
	tcase_add_checked_fixture(end, setup, teardown);
	tcase_set_timeout(end, 60);
	tcase_add_test(table, an_inode_is_one_object_for_all_who_hold_it);
	tcase_add_test(table, a_forgotten_inode_comes_back_from_the_store);
	tcase_add_test(table, an_inode_that_does_not_exist_is_not_got);
	tcase_add_test(table, the_kernel_forgets_by_number);
	tcase_add_test(table, threads_that_load_one_inode_at_once_all_get_it);
	tcase_add_test(dirty, a_dirty_inode_stays_until_it_is_flushed);
	tcase_add_test(dirty, a_flush_counts_the_version_up_and_only_when_it_stores);
	tcase_add_test(dirty, a_flush_that_fails_keeps_the_inode_dirty);
	tcase_add_test(dirty, flushing_all_tries_each_and_tells_the_first_error);
	tcase_add_test(dirty, a_flush_stores_which_pages_were_written);
	tcase_add_test(end, a_closed_file_goes_with_its_last_name);
	tcase_add_test(end, nothing_is_stored_for_a_removed_inode);
	tcase_add_test(end, a_file_that_may_be_asked_for_lives_until_it_is_forgotten);
	tcase_add_test(end, an_open_file_lives_until_it_is_closed);
	tcase_add_test(end, a_file_with_bytes_under_way_lives_until_they_have_arrived);
	tcase_add_test(end, a_large_file_is_freed_in_the_background);
	tcase_add_test(end, many_attributes_go_with_their_inode);
	tcase_add_test(end, a_reclaim_that_fails_is_left_to_the_next_mount);
	suite_add_tcase(s, table);
	suite_add_tcase(s, dirty);
	suite_add_tcase(s, end);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
