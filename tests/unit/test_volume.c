/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/record.h"
#include "tests/support/runner.h"
#include "tests/support/store_check.h"
#include "tests/support/volume_fixture.h"

static struct volume_fixture fixture;
static struct record_key key_buffer;

#define MIB (1ull << 20)

static void setup(void)
{
	volume_fixture_init(&fixture);
}

static void teardown(void)
{
	store_fault_updates(0);
	store_fault_syncs(0);
	volume_fixture_finish(&fixture);
}

static void put_inode(struct inode *inode)
{
	inode_unref(fixture.volume, inode, 1);
}

static bool has_session(uint64_t number)
{
	return volume_fixture_read(&fixture, record_key_number(&key_buffer, RECORD_MOUNT, number),
				   NULL, 0) >= 0;
}

/* --- Opening ---------------------------------------------------------------------------------- */

START_TEST(a_new_volume_has_a_root_directory)
{
	struct inode *root = volume_fixture_inode(&fixture, INODE_ROOT), *parent;
	struct volume_usage usage;

	ck_assert(S_ISDIR(root->attr.mode));
	ck_assert_uint_eq(root->attr.nlink, 2);
	ck_assert_int_eq(namespace_lookup(fixture.volume, root, "..", &parent), 0);
	ck_assert_ptr_eq(parent, root);
	put_inode(parent);
	put_inode(root);
	volume_usage(fixture.volume, &usage);
	ck_assert_uint_eq(usage.inodes, 1);
	ck_assert_uint_eq(usage.pages_total, 0);
}
END_TEST

START_TEST(a_volume_keeps_its_uuid_and_counts_its_mounts)
{
	uint64_t first = fixture.volume->mount_id;
	uint8_t uuid[16];

	memcpy(uuid, fixture.volume->uuid, 16);
	volume_fixture_close(&fixture);
	volume_fixture_open(&fixture);
	ck_assert_int_eq(memcmp(uuid, fixture.volume->uuid, 16), 0);
	ck_assert_uint_eq(fixture.volume->mount_id, first + 1);
	ck_assert(has_session(first + 1));
	ck_assert(!has_session(first));
}
END_TEST

static int put_pair(struct store_txn *txn, void *user)
{
	const struct store_slice *pair = user;

	return store_put(txn, pair[0], pair[1]);
}

static void put_raw(struct store_slice key, struct store_slice value)
{
	struct store_options options = volume_fixture_options(&fixture).store;
	struct store_slice pair[2] = {key, value};
	struct store *store;
	struct rmem_error error;

	ck_assert_int_eq(store_open(&options, &store, &error), 0);
	ck_assert_int_eq(store_update(store, put_pair, pair), 0);
	store_close(store);
}

static int try_open(struct rmem_error *error)
{
	struct volume_options options = volume_fixture_options(&fixture);

	return volume_open(&options, &fixture.volume, error);
}

START_TEST(a_volume_of_another_format_is_refused)
{
	struct record_volume value;
	struct rmem_error error = {0};

	volume_fixture_read(&fixture, record_key_kind(&key_buffer, RECORD_VOLUME), &value,
			    sizeof(value));
	volume_fixture_close(&fixture);
	value.format = htole32(RECORD_FORMAT + 1);
	put_raw(record_key_kind(&key_buffer, RECORD_VOLUME),
		(struct store_slice){.data = &value, .size = sizeof(value)});
	ck_assert_int_eq(try_open(&error), -EPROTO);
	ck_assert_ptr_nonnull(strstr(error.text, "format"));
	ck_assert_ptr_nonnull(strstr(error.text, fixture.url));
}
END_TEST

START_TEST(a_store_of_something_else_is_refused_and_kept)
{
	struct rmem_error error = {0};

	volume_fixture_close(&fixture);
	snprintf(fixture.url, sizeof(fixture.url), "lmdb:%s/other", fixture.folder);
	put_raw((struct store_slice){.data = "mine", .size = 4},
		(struct store_slice){.data = "value", .size = 5});
	ck_assert_int_eq(try_open(&error), -EPROTO);
	ck_assert_int_eq(try_open(&error), -EPROTO);
}
END_TEST

START_TEST(a_mounted_volume_is_refused_to_others_with_its_holders_name)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct rmem_error error = {0};
		int result = try_open(&error);

		_exit(result == -EBUSY && strstr(error.text, "test") != NULL ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* --- Sessions --------------------------------------------------------------------------------- */

/* In a child that dies with a deleted file open. Returns the file's number. */
static uint64_t die_with_open_file(void)
{
	int ends[2], status;
	uint64_t ino = 0;
	pid_t pid;

	volume_fixture_close(&fixture);
	ck_assert_int_eq(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		struct inode *root, *file;

		volume_fixture_open(&fixture);
		root = volume_fixture_inode(&fixture, INODE_ROOT);
		file = volume_fixture_create(&fixture, root, "file", S_IFREG | 0600);
		file->opens = 1;
		ck_assert_int_eq(namespace_unlink(fixture.volume, root, "file"), 0);
		ck_assert(file->orphan);
		ck_assert_int_eq(write(ends[1], &file->ino, 8), 8);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(read(ends[0], &ino, 8), 8);
	close(ends[0]);
	close(ends[1]);
	return ino;
}

START_TEST(a_dead_mounts_session_and_deleted_files_go_with_the_next_open)
{
	uint64_t ino = die_with_open_file();
	struct volume_usage usage;
	struct inode *inode;

	store_check_clean(fixture.url);
	volume_fixture_open(&fixture);
	ck_assert(!has_session(fixture.volume->mount_id - 1));
	ck_assert_int_eq(inode_get(fixture.volume, ino, &inode), -ENOENT);
	ck_assert_int_eq(volume_fixture_read(&fixture,
					     record_key_number(&key_buffer, RECORD_INODE, ino),
					     NULL, 0),
			 -ENOENT);
	volume_usage(fixture.volume, &usage);
	ck_assert_uint_eq(usage.inodes, 1);
	volume_fixture_close(&fixture);
	store_check_clean(fixture.url);
}
END_TEST

START_TEST(a_file_with_a_name_survives_an_orphan_record)
{
	struct inode *root = volume_fixture_inode(&fixture, INODE_ROOT), *found;
	struct inode *file = volume_fixture_create(&fixture, root, "file", S_IFREG | 0600);
	uint64_t ino = file->ino;
	struct record_number value;

	put_inode(file);
	put_inode(root);
	volume_fixture_close(&fixture);
	put_raw(record_key_pair(&key_buffer, RECORD_ORPHAN, 1, ino),
		record_encode_number(&value, RECORD_ORPHAN, 0));
	volume_fixture_open(&fixture);
	root = volume_fixture_inode(&fixture, INODE_ROOT);
	ck_assert_int_eq(namespace_lookup(fixture.volume, root, "file", &found), 0);
	ck_assert_uint_eq(found->ino, ino);
	put_inode(found);
	put_inode(root);
	volume_fixture_close(&fixture);
	store_check_clean(fixture.url);
}
END_TEST

START_TEST(closing_with_a_deleted_file_open_leaves_nothing_of_it)
{
	struct inode *root = volume_fixture_inode(&fixture, INODE_ROOT);
	struct inode *file = volume_fixture_create(&fixture, root, "file", S_IFREG | 0600);

	file->opens = 1;
	ck_assert_int_eq(namespace_unlink(fixture.volume, root, "file"), 0);
	ck_assert(file->orphan);
	volume_fixture_close(&fixture); /* as when the mount is ended under an open file */
	store_check_clean(fixture.url);
	volume_fixture_open(&fixture);
	volume_fixture_close(&fixture);
}
END_TEST

START_TEST(inode_numbers_are_not_given_twice)
{
	uint64_t last = 0;

	for (int turn = 0; turn < 3; turn++) {
		struct inode *root = volume_fixture_inode(&fixture, INODE_ROOT);

		for (int i = 0; i < 5000; i++) {
			char name[32];
			struct inode *file;

			snprintf(name, sizeof(name), "%d-%d", turn, i);
			file = volume_fixture_create(&fixture, root, name, S_IFREG | 0600);
			ck_assert_uint_gt(file->ino, last);
			last = file->ino;
			put_inode(file);
			ck_assert_int_eq(namespace_unlink(fixture.volume, root, name), 0);
		}
		put_inode(root);
		volume_fixture_close(&fixture);
		volume_fixture_open(&fixture);
	}
}
END_TEST

/* --- Servers ---------------------------------------------------------------------------------- */

static const struct volume_region *region(uint32_t id)
{
	const struct volume_region *found = volume_region(fixture.volume, id);

	ck_assert_ptr_nonnull(found);
	ck_assert_uint_eq(found->id, id);
	return found;
}

static int attach(unsigned server, const char *url, uint64_t incarnation, unsigned regions,
		  uint64_t bytes, struct rmem_error *error)
{
	struct rmem_server_info info = {
		.state = RMEM_SERVER_UP,
		.incarnation = incarnation,
		.region_count = regions,
	};

	snprintf(info.url, sizeof(info.url), "%s", url);
	for (unsigned i = 0; i < regions; i++)
		info.regions[i].length = bytes;
	return volume_attach(fixture.volume, server, &info, error);
}

START_TEST(a_new_server_brings_free_space)
{
	struct volume_usage usage;
	struct rmem_error error;

	ck_assert_int_eq(attach(3, "shm:/a", 100, 2, 64 * MIB, &error), 0);
	ck_assert(region(1)->attached && !region(1)->lost);
	ck_assert_uint_eq(region(1)->server, 3);
	ck_assert_uint_eq(region(1)->server_region, 0);
	ck_assert_uint_eq(region(2)->server_region, 1);
	ck_assert_uint_eq(region(2)->length, 64 * MIB);
	ck_assert_ptr_null(volume_region(fixture.volume, 0));
	ck_assert_ptr_null(volume_region(fixture.volume, 3));
	volume_usage(fixture.volume, &usage);
	ck_assert_uint_eq(usage.pages_total, 128 * MIB / VOLUME_PAGE_BYTES);
	ck_assert_uint_eq(usage.pages_free, usage.pages_total);
	ck_assert_uint_eq(usage.pages_available, usage.pages_total);
}
END_TEST

/* As df has it: what is there keeps its size, and only what can be used shrinks. */
START_TEST(a_server_that_is_down_is_counted_but_not_available)
{
	struct volume_usage usage;
	struct rmem_error error;

	ck_assert_int_eq(attach(0, "shm:/a", 100, 1, 64 * MIB, &error), 0);
	ck_assert_int_eq(attach(1, "shm:/b", 200, 1, 32 * MIB, &error), 0);
	volume_detach(fixture.volume, 0);
	volume_usage(fixture.volume, &usage);
	ck_assert_uint_eq(usage.pages_total, 96 * MIB / VOLUME_PAGE_BYTES);
	ck_assert_uint_eq(usage.pages_free, usage.pages_total);
	ck_assert_uint_eq(usage.pages_available, 32 * MIB / VOLUME_PAGE_BYTES);
	volume_fixture_close(&fixture);
	volume_fixture_open(&fixture);
	volume_usage(fixture.volume, &usage);
	ck_assert_uint_eq(usage.pages_total, 96 * MIB / VOLUME_PAGE_BYTES);
	ck_assert_uint_eq(usage.pages_available, 0);
}
END_TEST

START_TEST(a_known_server_gets_its_regions_again)
{
	struct rmem_error error;

	ck_assert_int_eq(attach(0, "shm:/a", 100, 1, 64 * MIB, &error), 0);
	ck_assert_int_eq(attach(1, "shm:/b", 200, 1, 32 * MIB, &error), 0);
	volume_fixture_close(&fixture);
	volume_fixture_open(&fixture);
	ck_assert(!region(1)->attached && !region(2)->attached);
	ck_assert(!region(1)->lost);
	ck_assert_int_eq(volume_report_missing(fixture.volume), 2);
	/* In another order, as the configuration may have it. */
	ck_assert_int_eq(attach(0, "shm:/b", 200, 1, 32 * MIB, &error), 0);
	ck_assert(!region(1)->attached && region(2)->attached);
	ck_assert_uint_eq(region(2)->server, 0);
	ck_assert_int_eq(volume_report_missing(fixture.volume), 1);
	ck_assert_int_eq(attach(1, "shm:/a", 100, 1, 64 * MIB, &error), 0);
	ck_assert_uint_eq(region(1)->server, 1);
	ck_assert_int_eq(volume_report_missing(fixture.volume), 0);
	ck_assert_ptr_null(volume_region(fixture.volume, 3));
}
END_TEST

START_TEST(a_server_that_lost_its_memory_has_new_regions)
{
	struct volume_usage usage;
	struct rmem_error error;

	ck_assert_int_eq(attach(0, "shm:/a", 100, 1, 64 * MIB, &error), 0);
	volume_detach(fixture.volume, 0);
	ck_assert(!region(1)->attached && !region(1)->lost);
	ck_assert_int_eq(attach(0, "shm:/a", 101, 1, 32 * MIB, &error), 0);
	ck_assert(region(1)->lost);
	ck_assert(region(2)->attached && !region(2)->lost);
	volume_usage(fixture.volume, &usage);
	ck_assert_uint_eq(usage.pages_total, 32 * MIB / VOLUME_PAGE_BYTES);
	volume_fixture_close(&fixture);
	store_check_clean(fixture.url);
	volume_fixture_open(&fixture);
	ck_assert(region(1)->lost);
	ck_assert(!region(2)->lost);
	ck_assert_int_eq(volume_report_missing(fixture.volume), 1);
	/* Lost while nobody was looking. */
	ck_assert_int_eq(attach(0, "shm:/a", 102, 1, 32 * MIB, &error), 0);
	ck_assert(region(2)->lost && region(3)->attached);
	ck_assert_int_eq(volume_report_missing(fixture.volume), 0);
}
END_TEST

START_TEST(a_server_that_came_back_is_attached_again)
{
	struct rmem_error error;

	ck_assert_int_eq(attach(0, "shm:/a", 100, 1, 64 * MIB, &error), 0);
	volume_detach(fixture.volume, 1);
	ck_assert(region(1)->attached);
	volume_detach(fixture.volume, 0);
	ck_assert(!region(1)->attached);
	ck_assert_int_eq(attach(0, "shm:/a", 100, 1, 64 * MIB, &error), 0);
	ck_assert(region(1)->attached && !region(1)->lost);
	ck_assert_ptr_null(volume_region(fixture.volume, 2));
}
END_TEST

START_TEST(a_pool_is_known_at_another_address)
{
	struct rmem_error error;

	ck_assert_int_eq(attach(0, "shm:/a", 100, 1, 64 * MIB, &error), 0);
	volume_fixture_close(&fixture);
	volume_fixture_open(&fixture);
	ck_assert_int_eq(attach(0, "shm:/moved", 100, 1, 64 * MIB, &error), 0);
	ck_assert(region(1)->attached && !region(1)->lost);
	ck_assert_ptr_null(volume_region(fixture.volume, 2));
	/* Who now is at the old address is somebody new. */
	ck_assert_int_eq(attach(1, "shm:/a", 300, 1, 64 * MIB, &error), 0);
	ck_assert(!region(1)->lost && region(2)->attached);
}
END_TEST

START_TEST(a_pool_of_another_size_is_refused)
{
	struct rmem_error error = {0};

	ck_assert_int_eq(attach(0, "shm:/a", 100, 1, 64 * MIB, &error), 0);
	volume_fixture_close(&fixture);
	volume_fixture_open(&fixture);
	ck_assert_int_eq(attach(0, "shm:/a", 100, 1, 32 * MIB, &error), -EPROTO);
	ck_assert_ptr_nonnull(strstr(error.text, "shm:/a"));
	ck_assert(!region(1)->attached);
}
END_TEST

START_TEST(a_pool_that_grew_brings_more_regions)
{
	struct rmem_error error;

	ck_assert_int_eq(attach(0, "shm:/a", 100, 1, 64 * MIB, &error), 0);
	ck_assert_int_eq(attach(1, "shm:/b", 200, 1, 64 * MIB, &error), 0);
	volume_fixture_close(&fixture);
	volume_fixture_open(&fixture);
	ck_assert_int_eq(attach(0, "shm:/a", 100, 2, 64 * MIB, &error), 0);
	ck_assert(region(1)->attached && region(3)->attached);
	ck_assert_uint_eq(region(3)->server_region, 1);
}
END_TEST

START_TEST(one_server_under_two_names_is_refused)
{
	struct rmem_error error = {0};

	ck_assert_int_eq(attach(0, "shm:/a", 100, 1, 64 * MIB, &error), 0);
	ck_assert_int_eq(attach(1, "shm:/alias", 100, 1, 64 * MIB, &error), -EEXIST);
	ck_assert_ptr_nonnull(strstr(error.text, "shm:/alias"));
}
END_TEST

START_TEST(an_attach_that_cannot_be_stored_changes_nothing)
{
	struct rmem_error error = {0};

	store_fault_arm(-EIO, 1);
	ck_assert_int_eq(attach(0, "shm:/a", 100, 1, 64 * MIB, &error), -EIO);
	ck_assert_uint_eq(store_fault_disarm(), 0);
	ck_assert_ptr_null(volume_region(fixture.volume, 1));
	ck_assert_int_eq(attach(0, "shm:/a", 100, 1, 64 * MIB, &error), 0);
	ck_assert(region(1)->attached);
}
END_TEST

START_TEST(a_server_is_attached_also_when_the_store_is_full)
{
	struct rmem_error error = {0};

	store_fault_arm(-ENOSPC, 1); /* and the reserve is there */
	ck_assert_int_eq(attach(0, "shm:/a", 100, 1, 64 * MIB, &error), 0);
	ck_assert(region(1)->attached);
}
END_TEST

/* --- The worker ------------------------------------------------------------------------------- */

struct waiter {
	struct volume_job job;
	struct volume_sync sync;
	_Atomic(unsigned) runs;
	_Atomic(int) status;
};

static void run_job(struct volume_job *job)
{
	RMEM_CONTAINER_OF(job, struct waiter, job)->runs++;
}

static void synced(struct volume_sync *sync, int status)
{
	struct waiter *waiter = RMEM_CONTAINER_OF(sync, struct waiter, sync);

	waiter->status = status;
	waiter->runs++;
}

static void wait_for(const _Atomic(unsigned) *count, unsigned wanted)
{
	for (int i = 0; i < 10000 && *count < wanted; i++)
		usleep(1000);
	ck_assert_uint_eq(*count, wanted);
}

START_TEST(jobs_run_on_the_worker_and_before_the_end)
{
	struct waiter waiters[50] = {0};

	for (int i = 0; i < 50; i++) {
		waiters[i].job.run = run_job;
		volume_defer(fixture.volume, &waiters[i].job);
	}
	wait_for(&waiters[0].runs, 1);
	volume_fixture_close(&fixture);
	for (int i = 0; i < 50; i++)
		ck_assert_uint_eq(waiters[i].runs, 1);
}
END_TEST

START_TEST(every_sync_is_answered)
{
	struct waiter waiters[50] = {0};

	for (int i = 0; i < 50; i++) {
		waiters[i].sync.done = synced;
		waiters[i].status = 1;
		volume_sync(fixture.volume, &waiters[i].sync);
	}
	for (int i = 0; i < 50; i++) {
		wait_for(&waiters[i].runs, 1);
		ck_assert_int_eq(waiters[i].status, 0);
	}
}
END_TEST

static int sync_once(void)
{
	struct waiter waiter = {.sync = {.done = synced}};

	volume_sync(fixture.volume, &waiter.sync);
	wait_for(&waiter.runs, 1);
	return waiter.status;
}

START_TEST(a_failed_sync_is_told_to_who_waits)
{
	store_fault_syncs(-EIO);
	ck_assert_int_eq(sync_once(), -EIO);
	store_fault_syncs(0);
	ck_assert_int_eq(sync_once(), 0);
}
END_TEST

static void use_interval(unsigned interval_ms)
{
	volume_fixture_close(&fixture);
	fixture.sync_interval_ms = interval_ms;
	volume_fixture_open(&fixture);
}

START_TEST(a_sync_that_failed_in_the_background_is_told_to_the_next_who_waits)
{
	use_interval(20);
	store_fault_syncs(-EIO);
	usleep(200000);
	store_fault_syncs(0);
	usleep(100000);
	ck_assert_int_eq(sync_once(), -EIO);
	ck_assert_int_eq(sync_once(), 0);
}
END_TEST

static int64_t stored_mtime(uint64_t ino)
{
	struct record_inode value;
	struct inode_attr attr;
	ssize_t size = volume_fixture_read(
		&fixture, record_key_number(&key_buffer, RECORD_INODE, ino), &value, sizeof(value));

	ck_assert_int_eq(record_decode_inode(
				 (struct store_slice){.data = &value, .size = (size_t)size}, &attr),
			 0);
	return attr.mtime_ns;
}

static void set_mtime(struct inode *inode, int64_t ns)
{
	struct inode_attr attr = {.mtime_ns = ns};

	ck_assert_int_eq(namespace_setattr(fixture.volume, inode, &attr, NAMESPACE_MTIME), 0);
}

START_TEST(dirty_inodes_are_flushed_in_the_background)
{
	struct inode *root;

	use_interval(20);
	root = volume_fixture_inode(&fixture, INODE_ROOT);
	set_mtime(root, 12345);
	for (int i = 0; i < 5000 && stored_mtime(INODE_ROOT) != 12345; i++)
		usleep(1000);
	ck_assert_int_eq(stored_mtime(INODE_ROOT), 12345);
	put_inode(root);
}
END_TEST

START_TEST(a_flush_that_fails_in_the_background_is_tried_again)
{
	struct inode *root;

	use_interval(20);
	root = volume_fixture_inode(&fixture, INODE_ROOT);
	store_fault_updates(-ENOSPC);
	set_mtime(root, 777);
	usleep(100000);
	ck_assert_int_ne(stored_mtime(INODE_ROOT), 777);
	ck_assert_int_eq(inode_flush(fixture.volume, root), -ENOSPC);
	store_fault_updates(0);
	for (int i = 0; i < 5000 && stored_mtime(INODE_ROOT) != 777; i++)
		usleep(1000);
	ck_assert_int_eq(stored_mtime(INODE_ROOT), 777);
	put_inode(root);
}
END_TEST

START_TEST(closing_flushes_what_is_dirty)
{
	struct inode *root = volume_fixture_inode(&fixture, INODE_ROOT);

	set_mtime(root, 4711);
	put_inode(root);
	ck_assert_int_ne(stored_mtime(INODE_ROOT), 4711);
	volume_fixture_close(&fixture);
	volume_fixture_open(&fixture);
	ck_assert_int_eq(stored_mtime(INODE_ROOT), 4711);
}
END_TEST

START_TEST(closing_tells_when_something_could_not_be_flushed)
{
	struct inode *root = volume_fixture_inode(&fixture, INODE_ROOT);
	struct volume *volume = fixture.volume;

	set_mtime(root, 1);
	store_fault_updates(-EIO);
	fixture.volume = NULL;
	ck_assert_int_eq(volume_close(volume), -EIO);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("volume");
	TCase *open = tcase_create("open"), *servers = tcase_create("servers");
	TCase *worker = tcase_create("worker");

	tcase_add_checked_fixture(open, setup, teardown);
	tcase_add_checked_fixture(servers, setup, teardown);
	tcase_add_checked_fixture(worker, setup, teardown);
	tcase_set_timeout(open, 60);
	tcase_set_timeout(worker, 60);
	tcase_add_test(open, a_new_volume_has_a_root_directory);
	tcase_add_test(open, a_volume_keeps_its_uuid_and_counts_its_mounts);
	tcase_add_test(open, a_volume_of_another_format_is_refused);
	tcase_add_test(open, a_store_of_something_else_is_refused_and_kept);
	tcase_add_test(open, a_mounted_volume_is_refused_to_others_with_its_holders_name);
	tcase_add_test(open, a_dead_mounts_session_and_deleted_files_go_with_the_next_open);
	tcase_add_test(open, a_file_with_a_name_survives_an_orphan_record);
	tcase_add_test(open, closing_with_a_deleted_file_open_leaves_nothing_of_it);
	tcase_add_test(open, inode_numbers_are_not_given_twice);
	tcase_add_test(servers, a_new_server_brings_free_space);
	tcase_add_test(servers, a_known_server_gets_its_regions_again);
	tcase_add_test(servers, a_server_that_is_down_is_counted_but_not_available);
	tcase_add_test(servers, a_server_that_lost_its_memory_has_new_regions);
	tcase_add_test(servers, a_server_that_came_back_is_attached_again);
	tcase_add_test(servers, a_pool_is_known_at_another_address);
	tcase_add_test(servers, a_pool_of_another_size_is_refused);
	tcase_add_test(servers, a_pool_that_grew_brings_more_regions);
	tcase_add_test(servers, one_server_under_two_names_is_refused);
	tcase_add_test(servers, an_attach_that_cannot_be_stored_changes_nothing);
	tcase_add_test(servers, a_server_is_attached_also_when_the_store_is_full);
	tcase_add_test(worker, jobs_run_on_the_worker_and_before_the_end);
	tcase_add_test(worker, every_sync_is_answered);
	tcase_add_test(worker, a_failed_sync_is_told_to_who_waits);
	tcase_add_test(worker, a_sync_that_failed_in_the_background_is_told_to_the_next_who_waits);
	tcase_add_test(worker, dirty_inodes_are_flushed_in_the_background);
	tcase_add_test(worker, a_flush_that_fails_in_the_background_is_tried_again);
	tcase_add_test(worker, closing_flushes_what_is_dirty);
	tcase_add_test(worker, closing_tells_when_something_could_not_be_flushed);
	suite_add_tcase(s, open);
	suite_add_tcase(s, servers);
	suite_add_tcase(s, worker);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
