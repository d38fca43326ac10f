/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/pool.h"
#include "engine/wire.h"
#include "tests/support/fabric_rig.h"
#include "tests/support/runner.h"

#define MIB ((uint64_t)1 << 20)

static struct rmem_error error;
static char path[128];

static struct rmem_pool_options options_for(const char *backing)
{
	return (struct rmem_pool_options){
		.size_bytes = 4 * MIB,
		.backing = backing,
		.huge_pages = RMEM_HUGE_AUTO,
		.populate = RMEM_POPULATE_RESERVE,
		.cancel_fd = -1,
	};
}

static struct rmem_pool *create(const struct rmem_pool_options *options)
{
	struct rmem_pool *pool = NULL;
	int rc = rmem_pool_create(options, &pool, &error);

	ck_assert_msg(rc == 0, "%s", error.text);
	return pool;
}

/* Expects an error, and the words in its text. */
static void expect_refusal(const struct rmem_pool_options *options, int code, const char *words)
{
	struct rmem_pool *pool = NULL;

	ck_assert_int_eq(rmem_pool_create(options, &pool, &error), code);
	ck_assert_msg(strstr(error.text, words) != NULL, "%s", error.text);
}

static void set_up(void)
{
	rmem_log_set_level(RMEM_LOG_SERVER, RMEM_LOG_ERROR);
	snprintf(path, sizeof(path), "%s/pool-%ld", rig_folder(), (long)getpid());
}

START_TEST(an_anonymous_pool_can_neither_shrink_nor_grow)
{
	struct rmem_pool_options options = options_for(RMEM_POOL_ANONYMOUS);
	struct rmem_pool *pool = create(&options);

	ck_assert_uint_eq(pool->data_bytes, 4 * MIB);
	ck_assert_uint_eq(pool->data_offset, 0);
	ck_assert_int_eq(ftruncate(pool->fd, 4096), -1);
	ck_assert_int_eq(ftruncate(pool->fd, 64 * (off_t)MIB), -1);
	ck_assert_int_eq(fcntl(pool->fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	rmem_pool_destroy(pool);
}
END_TEST

START_TEST(all_memory_of_a_pool_exists_from_the_start)
{
	for (int touch = 0; touch < 2; touch++) {
		struct rmem_pool_options options = options_for(RMEM_POOL_ANONYMOUS);
		struct rmem_pool *pool;
		struct stat found;

		options.size_bytes = 130 * MIB + 4096; /* more than one thread's step */
		options.populate = touch ? RMEM_POPULATE_TOUCH : RMEM_POPULATE_RESERVE;
		pool = create(&options);
		ck_assert_int_eq(fstat(pool->fd, &found), 0);
		ck_assert_uint_eq((uint64_t)found.st_blocks * 512, options.size_bytes);
		for (uint64_t i = 0; i < options.size_bytes; i += 4096)
			ck_assert_uint_eq(pool->map[i], 0);
		rmem_pool_destroy(pool);
	}
}
END_TEST

START_TEST(each_anonymous_pool_has_an_incarnation_of_its_own)
{
	struct rmem_pool_options options = options_for(RMEM_POOL_ANONYMOUS);
	struct rmem_pool *first = create(&options), *second = create(&options);

	ck_assert_uint_ne(first->incarnation, 0);
	ck_assert_uint_ne(first->incarnation, second->incarnation);
	rmem_pool_destroy(first);
	rmem_pool_destroy(second);
}
END_TEST

START_TEST(a_pool_larger_than_memory_is_refused_with_the_figures)
{
	struct rmem_pool_options options = options_for(RMEM_POOL_ANONYMOUS);

	options.size_bytes = (uint64_t)64 << 40;
	expect_refusal(&options, -ENOMEM, "more than the");
	options.backing = "/dev/shm/rmem-test-too-large";
	expect_refusal(&options, -ENOMEM, "more than the");
	ck_assert_int_eq(access(options.backing, F_OK), -1);
}
END_TEST

START_TEST(a_size_that_is_no_multiple_of_a_page_is_refused)
{
	struct rmem_pool_options options = options_for(RMEM_POOL_ANONYMOUS);

	options.size_bytes = 4095;
	expect_refusal(&options, -EINVAL, "4095");
	options.size_bytes = 0;
	expect_refusal(&options, -EINVAL, "0");
}
END_TEST

START_TEST(huge_pages_that_are_not_there_are_refused_when_required)
{
	struct rmem_pool_options options = options_for(RMEM_POOL_ANONYMOUS);

	options.size_bytes = (uint64_t)64 << 40;
	options.huge_pages = RMEM_HUGE_REQUIRE;
	expect_refusal(&options, -ENOMEM, "nr_hugepages");
}
END_TEST

START_TEST(a_request_to_stop_ends_the_making_of_a_pool)
{
	struct rmem_pool_options options = options_for(RMEM_POOL_ANONYMOUS);
	int ends[2];

	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(write(ends[1], "", 1), 1);
	options.cancel_fd = ends[0];
	expect_refusal(&options, -ECANCELED, "stopped");
	options.populate = RMEM_POPULATE_TOUCH;
	expect_refusal(&options, -ECANCELED, "stopped");
	options.backing = path;
	expect_refusal(&options, -ECANCELED, "stopped");
	ck_assert_int_eq(access(path, F_OK), -1);
	close(ends[0]);
	close(ends[1]);
}
END_TEST

START_TEST(a_pool_file_keeps_content_and_incarnation_when_stopped)
{
	struct rmem_pool_options options = options_for(path);
	struct rmem_pool *pool = create(&options);
	uint64_t incarnation = pool->incarnation;

	ck_assert(pool->flags & RMEM_STATUS_PERSISTENT);
	memcpy(pool->map + pool->data_offset, "content", sizeof("content"));
	rmem_pool_destroy(pool);
	for (int touch = 0; touch < 2; touch++) {
		options.populate = touch ? RMEM_POPULATE_TOUCH : RMEM_POPULATE_RESERVE;
		pool = create(&options);
		ck_assert_uint_eq(pool->incarnation, incarnation);
		ck_assert_uint_eq(pool->data_bytes, 4 * MIB);
		ck_assert_str_eq((char *)pool->map + pool->data_offset, "content");
		rmem_pool_destroy(pool);
	}
}
END_TEST

/* A server that is killed while it has the pool. */
static void have_and_die(const struct rmem_pool_options *options)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct rmem_pool *pool;

		if (rmem_pool_create(options, &pool, &error) != 0)
			_exit(1);
		memcpy(pool->map + pool->data_offset, "left", sizeof("left"));
		_exit(0); /* without closing: what a signal would do */
	}
	ck_assert_int_gt(pid, 0);
	waitpid(pid, NULL, 0);
}

START_TEST(a_pool_file_keeps_content_and_incarnation_when_killed)
{
	struct rmem_pool_options options = options_for(path);
	struct rmem_pool *pool = create(&options);
	uint64_t incarnation = pool->incarnation;

	rmem_pool_destroy(pool);
	have_and_die(&options);
	pool = create(&options);
	ck_assert_uint_eq(pool->incarnation, incarnation);
	ck_assert_str_eq((char *)pool->map + pool->data_offset, "left");
	rmem_pool_destroy(pool);
}
END_TEST

/* Overwrites some bytes of the file; the checksum of a header is made right again. */
static void patch_header(size_t offset, const void *bytes, size_t length, int fix_checksum)
{
	int fd = open(path, O_RDWR);

	for (off_t slot = 0; slot < 2; slot++) {
		uint64_t sum = 0xcbf29ce484222325ull;
		uint8_t header[128];

		ck_assert_int_eq(pread(fd, header, 128, slot * 2048), 128);
		if (header[0] == 0)
			continue;
		memcpy(header + offset, bytes, length);
		for (unsigned i = 0; i < 120; i++)
			sum = (sum ^ header[i]) * 0x100000001b3ull;
		if (fix_checksum)
			memcpy(header + 120, &sum, 8);
		ck_assert_int_eq(pwrite(fd, header, 128, slot * 2048), 128);
	}
	close(fd);
}

START_TEST(content_that_an_earlier_boot_left_open_is_a_new_incarnation)
{
	struct rmem_pool_options options = options_for(path);
	struct rmem_pool *pool;
	uint64_t incarnation;

	have_and_die(&options);
	pool = create(&options);
	incarnation = pool->incarnation;
	rmem_pool_destroy(pool);
	have_and_die(&options);
	patch_header(48, "another boot id!", 16, 1);
	pool = create(&options);
	ck_assert_uint_ne(pool->incarnation, incarnation);
	incarnation = pool->incarnation;
	rmem_pool_destroy(pool);
	/* Once it was closed, a boot more or less makes no difference. */
	patch_header(48, "another boot id!", 16, 1);
	pool = create(&options);
	ck_assert_uint_eq(pool->incarnation, incarnation);
	rmem_pool_destroy(pool);
}
END_TEST

START_TEST(a_header_torn_by_a_crash_leaves_the_one_before)
{
	struct rmem_pool_options options = options_for(path);
	struct rmem_pool *pool = create(&options);
	uint64_t incarnation = pool->incarnation, sequences[2];
	int fd;

	rmem_pool_destroy(pool);
	fd = open(path, O_RDWR);
	for (off_t slot = 0; slot < 2; slot++)
		ck_assert_int_eq(pread(fd, &sequences[slot], 8, slot * 2048 + 16), 8);
	ck_assert_int_eq(pwrite(fd, "torn", 4, (sequences[0] > sequences[1] ? 0 : 2048) + 64), 4);
	close(fd);
	pool = create(&options);
	ck_assert_uint_eq(pool->incarnation, incarnation);
	rmem_pool_destroy(pool);
}
END_TEST

static void write_file(const void *bytes, size_t length)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_int_eq(write(fd, bytes, length), (ssize_t)length);
	close(fd);
}

START_TEST(a_file_that_is_no_pool_is_refused_and_left_alone)
{
	struct rmem_pool_options options = options_for(path);
	char text[] = "somebody's precious data", found[sizeof(text)] = "";
	int fd;

	write_file(text, sizeof(text));
	expect_refusal(&options, -EEXIST, "no pool file");
	fd = open(path, O_RDONLY);
	ck_assert_int_eq(read(fd, found, sizeof(found)), sizeof(text));
	ck_assert_int_eq(lseek(fd, 0, SEEK_END), sizeof(text));
	ck_assert_str_eq(found, text);
	close(fd);
}
END_TEST

START_TEST(an_empty_file_becomes_a_pool)
{
	struct rmem_pool_options options = options_for(path);
	struct rmem_pool *pool;

	write_file("", 0);
	pool = create(&options);
	rmem_pool_destroy(pool);
}
END_TEST

START_TEST(a_pool_file_of_another_size_keeps_its_own_or_is_refused)
{
	struct rmem_pool_options options = options_for(path);
	struct rmem_pool *pool = create(&options);

	rmem_pool_destroy(pool);
	options.size_bytes = 2 * MIB;
	pool = create(&options);
	ck_assert_uint_eq(pool->data_bytes, 4 * MIB);
	rmem_pool_destroy(pool);
	options.size_bytes = 8 * MIB;
	expect_refusal(&options, -EEXIST, "less than the 8 MiB");
}
END_TEST

START_TEST(a_pool_file_of_any_size_is_taken_when_none_was_asked_for)
{
	struct rmem_pool_options options = options_for(path);
	struct rmem_pool *pool = create(&options);
	uint64_t incarnation = pool->incarnation;

	rmem_pool_destroy(pool);
	options.any_size = true;
	options.size_bytes = 64 * MIB;
	pool = create(&options);
	ck_assert_uint_eq(pool->data_bytes, 4 * MIB);
	ck_assert_uint_eq(pool->incarnation, incarnation);
	rmem_pool_destroy(pool);
	unlink(path);
	pool = create(&options);
	ck_assert_uint_eq(pool->data_bytes, 64 * MIB);
	rmem_pool_destroy(pool);
	unlink(path);
}
END_TEST

START_TEST(a_pool_file_that_was_cut_is_refused)
{
	struct rmem_pool_options options = options_for(path);

	rmem_pool_destroy(create(&options));
	ck_assert_int_eq(truncate(path, 5 * (off_t)MIB), 0);
	expect_refusal(&options, -EEXIST, "cut or damaged");
}
END_TEST

START_TEST(a_pool_file_cut_while_it_is_open_does_not_kill_the_server)
{
	struct rmem_pool_options options = options_for(path);
	struct rmem_pool *pool = create(&options);

	rmem_log_set_level(RMEM_LOG_SERVER, (enum rmem_log_level)0);
	ck_assert_int_eq(truncate(path, 0), 0);
	rmem_pool_destroy(pool);
}
END_TEST

START_TEST(a_pool_file_of_another_version_is_refused)
{
	struct rmem_pool_options options = options_for(path);
	const uint32_t version = 2;

	rmem_pool_destroy(create(&options));
	patch_header(8, &version, 4, 1);
	expect_refusal(&options, -EEXIST, "another version");
	patch_header(8, &version, 4, 0);
	patch_header(40, "\1\2\3", 3, 0);
	expect_refusal(&options, -EEXIST, "no pool file");
}
END_TEST

START_TEST(a_pool_file_left_half_made_is_made_anew)
{
	struct rmem_pool_options options = options_for(path);
	const uint32_t making = 1;
	struct rmem_pool *pool;

	rmem_pool_destroy(create(&options));
	patch_header(12, &making, 4, 1);
	ck_assert_int_eq(truncate(path, 2 * (off_t)MIB), 0);
	options.size_bytes = 3 * MIB;
	pool = create(&options);
	ck_assert_uint_eq(pool->data_bytes, 3 * MIB);
	rmem_pool_destroy(pool);
}
END_TEST

START_TEST(a_second_server_on_a_pool_file_is_refused_with_the_pid_of_the_first)
{
	struct rmem_pool_options options = options_for(path);
	struct rmem_pool *pool = create(&options);
	char words[32];
	void *map;

	snprintf(words, sizeof(words), "process %ld", (long)getpid());
	expect_refusal(&options, -EBUSY, words);
	/* What a client has of it does not keep the lock. */
	map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, pool->fd, (off_t)pool->data_offset);
	ck_assert_ptr_ne(map, MAP_FAILED);
	rmem_pool_destroy(pool);
	pool = create(&options);
	rmem_pool_destroy(pool);
	munmap(map, 4096);
}
END_TEST

START_TEST(a_path_that_can_not_be_a_pool_is_refused)
{
	struct rmem_pool_options options = options_for(rig_folder());

	expect_refusal(&options, -EISDIR, "folder");
	options.backing = "/dev/null";
	expect_refusal(&options, -EINVAL, "not a regular file");
	options.backing = "/no/such/folder/pool";
	expect_refusal(&options, -ENOENT, "/no/such/folder/pool");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool");
	TCase *anonymous = tcase_create("anonymous"), *file = tcase_create("file");

	tcase_add_unchecked_fixture(anonymous, rig_folder_make, rig_folder_remove);
	tcase_add_unchecked_fixture(file, rig_folder_make, rig_folder_remove);
	tcase_add_checked_fixture(anonymous, set_up, NULL);
	tcase_add_checked_fixture(file, set_up, NULL);
	tcase_set_timeout(anonymous, 60);
	tcase_set_timeout(file, 60);
	tcase_add_test(anonymous, an_anonymous_pool_can_neither_shrink_nor_grow);
	tcase_add_test(anonymous, all_memory_of_a_pool_exists_from_the_start);
	tcase_add_test(anonymous, each_anonymous_pool_has_an_incarnation_of_its_own);
	tcase_add_test(anonymous, a_pool_larger_than_memory_is_refused_with_the_figures);
	tcase_add_test(anonymous, a_size_that_is_no_multiple_of_a_page_is_refused);
	tcase_add_test(anonymous, huge_pages_that_are_not_there_are_refused_when_required);
	tcase_add_test(anonymous, a_request_to_stop_ends_the_making_of_a_pool);
	tcase_add_test(file, a_pool_file_keeps_content_and_incarnation_when_stopped);
	tcase_add_test(file, a_pool_file_keeps_content_and_incarnation_when_killed);
	tcase_add_test(file, content_that_an_earlier_boot_left_open_is_a_new_incarnation);
	tcase_add_test(file, a_header_torn_by_a_crash_leaves_the_one_before);
	tcase_add_test(file, a_file_that_is_no_pool_is_refused_and_left_alone);
	tcase_add_test(file, an_empty_file_becomes_a_pool);
	tcase_add_test(file, a_pool_file_of_another_size_keeps_its_own_or_is_refused);
	tcase_add_test(file, a_pool_file_of_any_size_is_taken_when_none_was_asked_for);
	tcase_add_test(file, a_pool_file_that_was_cut_is_refused);
	tcase_add_test(file, a_pool_file_cut_while_it_is_open_does_not_kill_the_server);
	tcase_add_test(file, a_pool_file_of_another_version_is_refused);
	tcase_add_test(file, a_pool_file_left_half_made_is_made_anew);
	tcase_add_test(file, a_second_server_on_a_pool_file_is_refused_with_the_pid_of_the_first);
	tcase_add_test(file, a_path_that_can_not_be_a_pool_is_refused);
	suite_add_tcase(suite, anonymous);
	suite_add_tcase(suite, file);
	return run_suite(suite);
}
