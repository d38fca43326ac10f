/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/memtouch_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "engine/stream.h"
#include "tests/support/runner.h"
#include "tools/memtouch_crew.h"
#include "tools/memtouch_pattern.h"

#define PAGES	 256u /* of a MiB */
#define LIMIT_MS 30000

static struct touch_options options;
static struct touch_area area;
static struct touch_worker worker;
static _Atomic(bool) stop;
static struct rmem_error error;

static void set_up(void)
{
	options = (struct touch_options){
		.thread_mib = 1, .threads = 1, .ratio = 50, .page_log_ival = 256, .seed = 1};
	stop = false;
	ck_assert_int_eq(rmem_stream_select(RMEM_STREAM_AUTO, NULL), 0);
}

static void begin(void)
{
	ck_assert_msg(touch_area_create(&options, &area, &error) == 0, "%s", error.text);
	memset(&worker, 0, sizeof(worker));
	worker.stop = &stop;
	ck_assert_int_eq(touch_worker_init(&worker, &options, &area, 0, &error), 0);
}

static void end(void)
{
	touch_worker_finish(&worker);
	touch_area_destroy(&area);
}

static unsigned pages_with(unsigned char byte)
{
	unsigned count = 0;

	for (unsigned page = 0; page < PAGES; page++) {
		const unsigned char *bytes = area.memory + page * RMEM_PAGE_BYTES;

		count += bytes[0] == byte && memcmp(bytes, bytes + 1, RMEM_PAGE_BYTES - 1) == 0;
	}
	return count;
}

START_TEST(warm_up_writes_every_page)
{
	options.nt_stores = _i & 1;
	options.verify = _i & 2;
	begin();
	ck_assert_uint_eq(pages_with(0), PAGES);
	ck_assert_int_eq(touch_worker_warm(&worker), 0);
	ck_assert_uint_eq(pages_with(0), 0);
	ck_assert_uint_eq(worker.warm_pages, PAGES);
	ck_assert_uint_eq(worker.read_pages + worker.write_pages, 0);
	for (unsigned page = 0; options.verify && page < PAGES; page++)
		ck_assert(touch_pattern_ok(area.memory + page * RMEM_PAGE_BYTES,
					   touch_pattern_salt(1), (struct touch_mark){0, page, 1}));
	end();
}
END_TEST

START_TEST(warm_up_can_be_stopped)
{
	stop = true;
	begin();
	ck_assert_int_eq(touch_worker_warm(&worker), -ECANCELED);
	ck_assert_uint_eq(worker.warm_pages, 0);
	end();
}
END_TEST

START_TEST(touches_are_counted_and_follow_the_ratio)
{
	static const unsigned ratios[] = {0, 50, 100, 7};
	uint64_t writes;

	options.ratio = ratios[_i / 2];
	options.random = _i % 2;
	begin();
	ck_assert_int_eq(touch_worker_warm(&worker), 0);
	for (unsigned i = 0; i < 100; i++)
		ck_assert_int_eq(touch_worker_step(&worker), 0);
	ck_assert_uint_eq(worker.read_pages + worker.write_pages, 100 * 256);
	writes = worker.write_pages;
	if (options.ratio == 0 || options.ratio == 100)
		ck_assert_uint_eq(writes, options.ratio * 256);
	else /* 25,600 draws: 2 percent are more than 6 sigma */
		ck_assert_double_eq_tol((double)writes / 256, (double)options.ratio, 2);
	end();
}
END_TEST

START_TEST(in_order_every_page_has_its_turn)
{
	options.ratio = 100;
	options.verify = true;
	options.page_log_ival = 100; /* no divisor: runs end in the middle */
	begin();
	ck_assert_int_eq(touch_worker_warm(&worker), 0);
	for (unsigned i = 0; i < PAGES; i++)
		ck_assert_int_eq(touch_worker_step(&worker), 0);
	for (unsigned page = 0; page < PAGES; page++)
		ck_assert_uint_eq(worker.passes[page], 101);
	end();
}
END_TEST

START_TEST(at_random_every_page_has_a_turn_but_not_equally_many)
{
	uint32_t least = UINT32_MAX, most = 0;

	options.ratio = 100;
	options.random = true;
	options.verify = true;
	begin();
	for (unsigned i = 0; i < 100; i++)
		ck_assert_int_eq(touch_worker_step(&worker), 0);
	for (unsigned page = 0; page < PAGES; page++) {
		least = worker.passes[page] < least ? worker.passes[page] : least;
		most = worker.passes[page] > most ? worker.passes[page] : most;
	}
	ck_assert_uint_gt(least, 50);
	ck_assert_uint_lt(most, 160);
	ck_assert_uint_gt(most, least);
	end();
}
END_TEST

START_TEST(the_seed_decides_what_happens)
{
	uint64_t writes[3];

	for (unsigned i = 0; i < 3; i++) {
		options.seed = i == 2 ? 99 : 5;
		options.page_log_ival = 10007;
		begin();
		ck_assert_int_eq(touch_worker_step(&worker), 0);
		writes[i] = worker.write_pages;
		end();
	}
	ck_assert_uint_eq(writes[0], writes[1]);
	ck_assert_uint_ne(writes[0], writes[2]);
}
END_TEST

START_TEST(verification_passes_while_nothing_is_wrong)
{
	options.verify = true;
	options.nt_stores = _i & 1;
	options.random = _i & 2;
	begin();
	ck_assert_int_eq(touch_worker_warm(&worker), 0);
	for (unsigned i = 0; i < 50; i++)
		ck_assert_int_eq(touch_worker_step(&worker), 0);
	ck_assert_uint_gt(worker.read_pages, 0);
	end();
}
END_TEST

START_TEST(verification_finds_one_byte)
{
	options.verify = true;
	options.ratio = 0;
	options.nt_stores = _i;
	begin();
	ck_assert_int_eq(touch_worker_warm(&worker), 0);
	ck_assert_int_eq(touch_worker_step(&worker), 0);
	area.memory[200 * RMEM_PAGE_BYTES + 77] ^= 4;
	ck_assert_int_eq(touch_worker_step(&worker), -EILSEQ);
	ck_assert_ptr_nonnull(strstr(worker.error.text, "thread 0, page 200, pass 1: 1 of 512"));
	end();
}
END_TEST

START_TEST(verification_finds_a_page_that_went_back_in_time)
{
	unsigned char old[RMEM_PAGE_BYTES];

	options.verify = true;
	options.ratio = 100;
	begin();
	ck_assert_int_eq(touch_worker_warm(&worker), 0);
	memcpy(old, area.memory, sizeof(old));
	ck_assert_int_eq(touch_worker_step(&worker), 0);
	memcpy(area.memory, old, sizeof(old));
	options.ratio = 0;
	worker.next_writes = false;
	ck_assert_int_eq(touch_worker_step(&worker), -EILSEQ);
	ck_assert_ptr_nonnull(strstr(worker.error.text, "pass 2: 512 of 512"));
	ck_assert_ptr_nonnull(strstr(worker.error.text, "wrote there in pass 1"));
	end();
}
END_TEST

/* --- Threads */

static void wait_for(struct touch_crew *crew, struct touch_crew_state wanted)
{
	struct pollfd news = {.fd = touch_crew_fd(crew), .events = POLLIN};
	struct touch_crew_state state;

	do {
		ck_assert_int_eq(poll(&news, 1, LIMIT_MS), 1);
		touch_crew_look(crew, &state);
	} while (state.warm < wanted.warm || state.ended < wanted.ended);
}

START_TEST(a_crew_warms_up_works_and_stops)
{
	struct touch_totals totals;
	struct touch_crew *crew;

	options.threads = 4;
	options.verify = true;
	ck_assert_int_eq(touch_area_create(&options, &area, &error), 0);
	ck_assert_int_eq(touch_crew_create(&options, &area, &crew, &error), 0);
	wait_for(crew, (struct touch_crew_state){.warm = 4});
	touch_crew_totals(crew, &totals);
	ck_assert_uint_eq(totals.warm_pages, 4 * PAGES);
	ck_assert_uint_eq(totals.read_pages + totals.write_pages, 0);
	touch_crew_go(crew);
	do {
		touch_crew_totals(crew, &totals);
	} while (totals.read_pages < PAGES || totals.write_pages < PAGES);
	touch_crew_stop(crew);
	ck_assert_int_eq(touch_crew_join(crew, LIMIT_MS), 0);
	ck_assert_int_eq(touch_crew_error(crew, &error), 0);
	touch_crew_destroy(crew);
	touch_area_destroy(&area);
}
END_TEST

START_TEST(a_crew_can_be_stopped_at_the_gate)
{
	struct touch_crew *crew;

	options.threads = 2;
	ck_assert_int_eq(touch_area_create(&options, &area, &error), 0);
	ck_assert_int_eq(touch_crew_create(&options, &area, &crew, &error), 0);
	wait_for(crew, (struct touch_crew_state){.warm = 2});
	touch_crew_stop(crew);
	ck_assert_int_eq(touch_crew_join(crew, LIMIT_MS), 0);
	ck_assert_int_eq(touch_crew_error(crew, &error), 0);
	touch_crew_destroy(crew);
	touch_area_destroy(&area);
}
END_TEST

/* A file that shrinks under its mapping: SIGBUS becomes an error, and the others stop. */
START_TEST(a_file_that_is_cut_off_ends_the_crew_with_an_error)
{
	char path[300];
	struct touch_crew *crew;

	snprintf(path, sizeof(path), "%s/file", getenv("TMPDIR"));
	options.threads = 3;
	options.file = path;
	ck_assert_msg(touch_area_create(&options, &area, &error) == 0, "%s", error.text);
	ck_assert_int_eq(touch_crew_create(&options, &area, &crew, &error), 0);
	wait_for(crew, (struct touch_crew_state){.warm = 3});
	touch_crew_go(crew);
	ck_assert_int_eq(truncate(path, (2 << 20) + 5), 0);
	wait_for(crew, (struct touch_crew_state){.ended = 3});
	ck_assert_int_eq(touch_crew_join(crew, LIMIT_MS), 0);
	ck_assert_int_eq(touch_crew_error(crew, &error), -EFAULT);
	ck_assert_msg(strstr(error.text, "truncated to 2097157 bytes") != NULL, "%s", error.text);
	touch_crew_destroy(crew);
	touch_area_destroy(&area);
}
END_TEST

static void *cut_later(void *path)
{
	usleep(200000);
	ck_assert_int_eq(truncate(path, 10), 0);
	return NULL;
}

/* The kernel may show zeros before it knows that the file was truncated. */
START_TEST(zeros_are_a_truncation_when_one_follows_at_once)
{
	char path[300];
	pthread_t thread;

	snprintf(path, sizeof(path), "%s/zeros", getenv("TMPDIR"));
	options.file = path;
	options.verify = true;
	options.ratio = 0;
	begin();
	ck_assert_int_eq(touch_worker_warm(&worker), 0);
	memset(area.memory + 7 * RMEM_PAGE_BYTES + 9, 0, RMEM_PAGE_BYTES - 9);
	if (_i == 0)
		ck_assert_int_eq(pthread_create(&thread, NULL, cut_later, path), 0);
	ck_assert_int_eq(touch_worker_step(&worker), _i == 0 ? -EFAULT : -EILSEQ);
	if (_i == 0)
		pthread_join(thread, NULL);
	ck_assert_msg(strstr(worker.error.text, _i == 0 ? "truncated to 10 bytes"
							: "page 7, pass 1: 511 of 512") != NULL,
		      "%s", worker.error.text);
	end();
}
END_TEST

START_TEST(a_file_has_all_its_bytes_and_keeps_what_is_behind)
{
	char path[300];
	char tail[5] = {0};
	int fd;

	snprintf(path, sizeof(path), "%s/tail", getenv("TMPDIR"));
	fd = open(path, O_CREAT | O_RDWR, 0600);
	ck_assert_int_eq(pwrite(fd, "tail", 5, 1 << 20), 5);
	options.file = path;
	begin();
	ck_assert(!area.created);
	ck_assert_int_eq(touch_worker_warm(&worker), 0);
	ck_assert_int_eq(touch_area_sync(&area, &error), 0);
	end();
	ck_assert_int_eq(pread(fd, tail, 5, 1 << 20), 5);
	ck_assert_str_eq(tail, "tail");
	ck_assert_int_eq(lseek(fd, 0, SEEK_END), (1 << 20) + 5);
	close(fd);
}
END_TEST

START_TEST(what_cannot_be_mapped_is_refused)
{
	options.file = "/dev/null";
	ck_assert_int_eq(touch_area_create(&options, &area, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.text, "not a regular file"));
	options.file = "/";
	ck_assert_int_eq(touch_area_create(&options, &area, &error), -EISDIR);
	options.file = "/no/such/folder/file";
	ck_assert_int_eq(touch_area_create(&options, &area, &error), -ENOENT);
	options.file = NULL;
	options.thread_mib = TOUCH_THREAD_MIB_MAX;
	options.threads = TOUCH_THREADS_MAX;
	ck_assert_int_eq(touch_area_create(&options, &area, &error), -ENOMEM);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("memtouch_worker");
	TCase *tcase = tcase_create("worker");

	tcase_add_checked_fixture(tcase, set_up, NULL);
	tcase_add_loop_test(tcase, warm_up_writes_every_page, 0, 4);
	tcase_add_test(tcase, warm_up_can_be_stopped);
	tcase_add_loop_test(tcase, touches_are_counted_and_follow_the_ratio, 0, 8);
	tcase_add_test(tcase, in_order_every_page_has_its_turn);
	tcase_add_test(tcase, at_random_every_page_has_a_turn_but_not_equally_many);
	tcase_add_test(tcase, the_seed_decides_what_happens);
	tcase_add_loop_test(tcase, verification_passes_while_nothing_is_wrong, 0, 4);
	tcase_add_loop_test(tcase, verification_finds_one_byte, 0, 2);
	tcase_add_test(tcase, verification_finds_a_page_that_went_back_in_time);
	tcase_add_test(tcase, a_crew_warms_up_works_and_stops);
	tcase_add_test(tcase, a_crew_can_be_stopped_at_the_gate);
	tcase_add_test(tcase, a_file_that_is_cut_off_ends_the_crew_with_an_error);
	tcase_add_loop_test(tcase, zeros_are_a_truncation_when_one_follows_at_once, 0, 2);
	tcase_add_test(tcase, a_file_has_all_its_bytes_and_keeps_what_is_behind);
	tcase_add_test(tcase, what_cannot_be_mapped_is_refused);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
