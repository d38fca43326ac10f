/* SPDX-License-Identifier: Apache-2.0 */
/* What is particular to the LMDB back end: its files, and a disk that is full. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/store.h"
#include "tests/support/folder.h"
#include "tests/support/runner.h"

static char base[200];

static void make_base(void)
{
	folder_make(base, sizeof(base));
}

static void remove_base(void)
{
	folder_remove(base);
}

static void path_of(char path[300], const char *file)
{
	snprintf(path, 300, "%s/store/%s", base, file);
}

static const char *store_url(void)
{
	static char url[300];

	snprintf(url, sizeof(url), "lmdb:%s/store", base);
	return url;
}

static int try_open(bool read_only, struct store **store, struct rmem_error *error)
{
	struct store_options options = {.url = store_url(),
					.read_only = read_only,
					.map_bytes = 32 << 20,
					.holder = "the test"};

	*error = (struct rmem_error){0};
	return store_open(&options, store, error);
}

static struct store *open_store(bool read_only)
{
	struct rmem_error error;
	struct store *store;

	ck_assert_msg(try_open(read_only, &store, &error) == 0, "%s", error.text);
	return store;
}

static int put_one(struct store_txn *txn, void *user)
{
	unsigned number = *(unsigned *)user;
	static const char value[1000];
	struct store_slice key = {&number, sizeof(number)};

	return store_put(txn, key, (struct store_slice){value, sizeof(value)});
}

static int delete_one(struct store_txn *txn, void *user)
{
	return store_delete(txn, (struct store_slice){user, sizeof(unsigned)});
}

static void put_many(struct store *store, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		ck_assert_int_eq(store_update(store, put_one, &i), 0);
}

/* As if the host had been started again since: another boot id in the lock file. */
static void pretend_reboot(void)
{
	char path[300], text[2000], *boot;
	FILE *file;
	size_t size;

	path_of(path, "rmemfs.lock");
	file = fopen(path, "r+");
	ck_assert_ptr_nonnull(file);
	size = fread(text, 1, sizeof(text) - 1, file);
	text[size] = '\0';
	boot = strstr(text, "boot: ");
	ck_assert_ptr_nonnull(boot);
	boot[6] = boot[6] == 'x' ? 'y' : 'x';
	rewind(file);
	ck_assert_uint_eq(fwrite(text, 1, size, file), size);
	ck_assert_int_eq(fclose(file), 0);
}

START_TEST(reboot_under_an_unsynced_store_is_noticed_once)
{
	struct store *store = open_store(false);

	put_many(store, 1);
	store_close(store);
	store = open_store(false);
	ck_assert(!store_crashed(store)); /* the same boot */
	store_close(store);
	pretend_reboot();
	store = open_store(true);
	ck_assert(store_crashed(store));
	store_close(store);
	store = open_store(false);
	ck_assert(store_crashed(store));
	ck_assert_int_eq(store_sync(store), 0);
	store_close(store);
	pretend_reboot();
	store = open_store(false);
	ck_assert(!store_crashed(store));
	store_close(store);
}
END_TEST

START_TEST(reboot_after_a_synced_close_is_no_crash)
{
	struct store *store = open_store(false);

	put_many(store, 1);
	ck_assert_int_eq(store_sync(store), 0);
	store_close(store);
	pretend_reboot();
	store = open_store(false);
	ck_assert(!store_crashed(store));
	put_many(store, 1);
	ck_assert_int_eq(store_sync(store), 0);
	put_many(store, 1);
	store_close(store);
	pretend_reboot();
	store = open_store(false);
	ck_assert(store_crashed(store));
	store_close(store);
}
END_TEST

static void assert_refused(int code, const char *words)
{
	struct rmem_error error;
	struct store *store;

	for (int read_only = 0; read_only < 2; read_only++) {
		ck_assert_int_eq(try_open(read_only, &store, &error), code);
		ck_assert_msg(strstr(error.text, words) != NULL, "%s", error.text);
	}
}

static void write_file(const char *file, const char *text, size_t size)
{
	char path[300];
	int fd;

	path_of(path, file);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, size), (ssize_t)size);
	close(fd);
}

START_TEST(foreign_data_file_is_refused)
{
	static const char text[10000] = "This is not a database.";
	char folder[300];

	path_of(folder, "");
	ck_assert_int_eq(mkdir(folder, 0700), 0);
	write_file("data.mdb", text, sizeof(text));
	assert_refused(-EPROTO, "data.mdb");
}
END_TEST

START_TEST(truncated_data_file_is_refused_and_not_touched)
{
	struct store *store = open_store(false);
	char path[300];
	struct stat st;

	put_many(store, 3000);
	ck_assert_int_eq(store_sync(store), 0);
	store_close(store);
	path_of(path, "data.mdb");
	ck_assert_int_eq(truncate(path, 100 * 4096), 0);
	assert_refused(-EIO, "truncated");
	assert_refused(-EIO, "truncated");
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_size, 100 * 4096);
}
END_TEST

START_TEST(map_smaller_than_the_store_leaves_it_readable_and_shrinkable)
{
	struct store_options options = {.url = store_url(), .map_bytes = 1 << 20};
	struct store *store = open_store(false);
	struct store_txn *txn;
	struct store_slice value;

	put_many(store, 4000);
	store_close(store);
	ck_assert_int_eq(store_open(&options, &store, NULL), 0);
	for (unsigned i = 0; i < 4000; i++) {
		ck_assert_int_eq(store_begin(store, STORE_READ, &txn), 0);
		ck_assert_int_eq(store_get(txn, (struct store_slice){&i, sizeof(i)}, &value), 0);
		store_abort(txn);
		ck_assert_int_eq(store_shrink(store, delete_one, &i), 0);
	}
	store_close(store);
}
END_TEST

/* --- A full disk: on a filesystem of our own, where we may mount one ----------------------------
 */

#define DISK_BYTES "28m"

static bool mount_disk(void)
{
	char folder[300];

	path_of(folder, "");
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return false;
	return mkdir(folder, 0700) == 0 &&
	       mount("none", folder, "tmpfs", 0, "size=" DISK_BYTES) == 0;
}

/* Takes all that is left of the disk but `spare` bytes. */
static void fill_disk(const char *file, off_t spare)
{
	struct statvfs fs;
	char path[300];
	int fd;

	path_of(path, file);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstatvfs(fd, &fs), 0);
	ck_assert_int_eq(posix_fallocate(fd, 0, (off_t)(fs.f_bavail * fs.f_frsize) - spare), 0);
	close(fd);
}

static unsigned put_until_full(struct store *store)
{
	unsigned count = 0;
	int error;

	while ((error = store_update(store, put_one, &count)) == 0)
		count++;
	ck_assert_int_eq(error, -ENOSPC);
	return count;
}

/* A SIGBUS ends the test, which is what it is about. */
static void use_full_disk(void)
{
	struct store *store = open_store(false);
	unsigned filled, again;
	char path[300];

	put_many(store, 10);
	fill_disk("filler", 0);
	filled = put_until_full(store);
	for (unsigned i = 0; i < filled; i++)
		ck_assert_int_eq(store_shrink(store, delete_one, &i), 0);
	again = put_until_full(store);
	ck_assert_uint_gt(again, filled / 2);
	ck_assert_int_eq(store_sync(store), 0);
	path_of(path, "filler");
	ck_assert_int_eq(unlink(path), 0);
	put_many(store, again + 3000);
	store_close(store);
	store = open_store(false);
	store_close(store);
}

static void open_on_full_disk(void)
{
	struct rmem_error error;
	struct store *store;
	unsigned number = 1;

	fill_disk("filler", 0);
	if (try_open(false, &store, &error) == 0) {
		ck_assert_int_eq(store_update(store, put_one, &number), -ENOSPC);
		store_close(store);
	} else {
		ck_assert_int_eq(error.code, -ENOSPC);
		ck_assert_str_ne(error.text, "");
	}
}

static void on_small_disk(void (*body)(void))
{
	pid_t pid = fork();
	int status;

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		if (!mount_disk())
			_exit(1);
		body();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

START_TEST(full_disk_is_an_error_and_deleting_goes_on)
{
	on_small_disk(use_full_disk);
}
END_TEST

START_TEST(full_disk_at_opening_is_an_error)
{
	on_small_disk(open_on_full_disk);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("store_lmdb");
	TCase *files = tcase_create("files"), *disk;

	tcase_add_checked_fixture(files, make_base, remove_base);
	tcase_set_timeout(files, 60);
	tcase_add_test(files, reboot_under_an_unsynced_store_is_noticed_once);
	tcase_add_test(files, reboot_after_a_synced_close_is_no_crash);
	tcase_add_test(files, foreign_data_file_is_refused);
	tcase_add_test(files, truncated_data_file_is_refused_and_not_touched);
	tcase_add_test(files, map_smaller_than_the_store_leaves_it_readable_and_shrinkable);
	suite_add_tcase(suite, files);
	if (geteuid() == 0) {
		disk = tcase_create("full disk");
		tcase_add_checked_fixture(disk, make_base, remove_base);
		tcase_set_timeout(disk, 60);
		tcase_add_test(disk, full_disk_is_an_error_and_deleting_goes_on);
		tcase_add_test(disk, full_disk_at_opening_is_an_error);
		suite_add_tcase(suite, disk);
	} else {
		fputs("# full disk: not tested, mounting a small one takes root\n", stderr);
	}
	return run_suite(suite);
}
