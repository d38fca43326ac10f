/* SPDX-License-Identifier: Apache-2.0 */
/* Writing back: what is staged and when it is flushed, what becomes of it when servers are lost.
 * That the bytes are right whatever happens is in test_data.c. */
#include <errno.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "fs/data.h"
#include "fs/dirty.h"
#include "fs/inode_table.h"
#include "fs/namespace.h"
#include "tests/support/rig.h"
#include "tests/support/runner.h"

#define PAGE VOLUME_PAGE_BYTES
#define LONG 3600000u /* ms: never, for a test */

static const struct rig_options usual = {
	.servers = 1,
	.reactors = 1,
	.pool_bytes = 16u << 20,
	.stripe_bytes = 64u << 10,
	.dirty_bytes = 4u << 20,
	.dirty_age_ms = LONG,
	.stage_bytes = 128u << 10,
	.stage_local = true,
	.follows = true,
};

static struct inode *create_file(struct rig *rig, const char *name)
{
	struct namespace_create create = {.mode = S_IFREG | 0644};
	struct inode *root, *inode;

	ck_assert_int_eq(inode_get(rig->volume, INODE_ROOT, &root), 0);
	ck_assert_int_eq(namespace_create(rig->volume, root, name, &create, &inode), 0);
	inode_unref(rig->volume, root, 1);
	return inode;
}

static struct data_request *request_create(struct rig *rig, unsigned reactor)
{
	struct data_request *request = calloc(1, sizeof(*request));

	request->buffer = rmem_staging_get(rmem_engine_reactor(rig->engine, reactor));
	ck_assert_ptr_nonnull(request->buffer);
	return request;
}

static void request_destroy(struct rig *rig, unsigned reactor, struct data_request *request)
{
	rmem_staging_put(rmem_engine_reactor(rig->engine, reactor), request->buffer);
	free(request);
}

struct range {
	uint64_t offset, length;
};

static int run_on(struct rig *rig, unsigned reactor, struct data_request *request,
		  enum data_kind kind, struct inode *inode, struct range range)
{
	request->kind = kind;
	request->inode = inode;
	request->offset = range.offset;
	request->length = range.length;
	return rig_run(rig, reactor, request);
}

static int run(struct rig *rig, struct data_request *request, enum data_kind kind,
	       struct inode *inode, struct range range)
{
	return run_on(rig, 0, request, kind, inode, range);
}

static void write_fill(struct rig *rig, struct data_request *request, struct inode *inode,
		       struct range range, uint8_t fill)
{
	memset(request->buffer, fill, range.length);
	ck_assert_int_eq(run(rig, request, DATA_WRITE, inode, range), 0);
	ck_assert_uint_eq(request->transferred, range.length);
}

static void expect_fill(struct rig *rig, struct data_request *request, struct inode *inode,
			struct range range, uint8_t fill)
{
	memset(request->buffer, (uint8_t)~fill, range.length);
	ck_assert_int_eq(run(rig, request, DATA_READ, inode, range), 0);
	ck_assert_uint_eq(request->transferred, range.length);
	for (uint64_t i = 0; i < range.length; i++)
		ck_assert_uint_eq(request->buffer[i], fill);
}

static void sync_file(struct rig *rig, struct data_request *request, struct inode *inode)
{
	ck_assert_int_eq(run(rig, request, DATA_SYNC, inode, (struct range){0}), 0);
}

static struct data_stats stats_of(const struct rig *rig)
{
	struct data_stats stats;

	ck_assert(data_stats_read(rig->data, &stats));
	return stats;
}

static int take_error(struct inode *inode, uint32_t *seen)
{
	int error;

	pthread_mutex_lock(&inode->lock);
	error = dirty_error_take(inode->dirty_file, seen);
	pthread_mutex_unlock(&inode->lock);
	return error;
}

static uint64_t stored_size(struct rig *rig, struct inode *inode)
{
	struct inode_attr attr;

	ck_assert_int_eq(inode_flush(rig->volume, inode), 0);
	ck_assert_int_eq(inode_load_record(rig->volume, inode->ino, &attr), 0);
	return attr.size;
}

/* Pages here and there of an allocated file are written to already, so that a run of dirty ones is
 * in more pieces than are looked up at once. */
static void write_many_pieces(struct rig *rig, struct data_request *request, struct inode *inode)
{
	const uint64_t pages = 3 * DATA_PIECES_MAX;

	request->mode = 0;
	ck_assert_int_eq(run(rig, request, DATA_FALLOCATE, inode, (struct range){0, pages * PAGE}),
			 0);
	for (uint64_t page = 0; page < pages; page += 2)
		write_fill(rig, request, inode, (struct range){page * PAGE, PAGE}, 1);
	sync_file(rig, request, inode);
	for (uint64_t page = 0; page < pages; page++)
		write_fill(rig, request, inode, (struct range){page * PAGE, PAGE}, 2);
}

/* --- When ------------------------------------------------------------------------------------- */

START_TEST(a_sync_sends_all_however_many_pieces_it_is_in)
{
	struct data_request *request;
	struct inode *inode;
	struct rig rig;

	rig_start(&rig, &usual);
	request = request_create(&rig, 0);
	inode = create_file(&rig, "file");
	write_many_pieces(&rig, request, inode);
	ck_assert_uint_eq(stats_of(&rig).dirty_bytes, 3 * DATA_PIECES_MAX * PAGE);
	sync_file(&rig, request, inode);
	ck_assert_uint_eq(stats_of(&rig).dirty_bytes, 0);
	inode_unref(rig.volume, inode, 1);
	request_destroy(&rig, 0, request);
	rig_stop(&rig);
}
END_TEST

START_TEST(writes_wait_are_seen_and_go_together)
{
	struct data_request *request;
	struct inode *inode;
	struct rig rig;

	rig_start(&rig, &usual);
	request = request_create(&rig, 0);
	inode = create_file(&rig, "file");
	for (unsigned i = 0; i < 100; i++)
		write_fill(&rig, request, inode, (struct range){i * PAGE, PAGE}, 0x41);
	write_fill(&rig, request, inode, (struct range){10 * PAGE + 100, 5000}, 0x42);
	ck_assert_uint_eq(stats_of(&rig).dirty_bytes, 100 * PAGE);
	ck_assert_uint_eq(stats_of(&rig).flush_batches, 0);
	expect_fill(&rig, request, inode, (struct range){0, 10 * PAGE + 100}, 0x41);
	expect_fill(&rig, request, inode, (struct range){10 * PAGE + 100, 5000}, 0x42);
	sync_file(&rig, request, inode);
	ck_assert_uint_eq(stats_of(&rig).dirty_bytes, 0);
	ck_assert_uint_eq(stats_of(&rig).flushed_bytes, 100 * PAGE);
	ck_assert_uint_eq(stats_of(&rig).flush_batches, 1);
	expect_fill(&rig, request, inode, (struct range){0, 10 * PAGE + 100}, 0x41);
	expect_fill(&rig, request, inode, (struct range){10 * PAGE + 100, 5000}, 0x42);
	inode_unref(rig.volume, inode, 1);
	request_destroy(&rig, 0, request);
	rig_stop(&rig);
}
END_TEST

START_TEST(long_writes_go_through)
{
	struct data_request *request;
	struct inode *inode;
	struct rig rig;

	rig_start(&rig, &usual);
	request = request_create(&rig, 0);
	inode = create_file(&rig, "file");
	write_fill(&rig, request, inode, (struct range){0, 256u << 10}, 1);
	ck_assert_uint_eq(stats_of(&rig).dirty_bytes, 0);
	/* Over dirty bytes as well, which follow. */
	write_fill(&rig, request, inode, (struct range){PAGE, 2 * PAGE}, 2);
	ck_assert_uint_eq(stats_of(&rig).dirty_bytes, 2 * PAGE);
	write_fill(&rig, request, inode, (struct range){2 * PAGE, 256u << 10}, 3);
	expect_fill(&rig, request, inode, (struct range){PAGE, PAGE}, 2);
	expect_fill(&rig, request, inode, (struct range){2 * PAGE, 256u << 10}, 3);
	sync_file(&rig, request, inode);
	expect_fill(&rig, request, inode, (struct range){PAGE, PAGE}, 2);
	expect_fill(&rig, request, inode, (struct range){2 * PAGE, 256u << 10}, 3);
	inode_unref(rig.volume, inode, 1);
	request_destroy(&rig, 0, request);
	rig_stop(&rig);
}
END_TEST

START_TEST(age_flushes)
{
	struct rig_options options = usual;
	struct data_request *request;
	struct inode *inode;
	struct rig rig;

	options.dirty_age_ms = 50;
	rig_start(&rig, &options);
	request = request_create(&rig, 0);
	inode = create_file(&rig, "file");
	write_fill(&rig, request, inode, (struct range){0, PAGE}, 7);
	ck_assert_uint_eq(stats_of(&rig).dirty_bytes, PAGE);
	for (unsigned i = 0; i < 100 && stats_of(&rig).dirty_bytes > 0; i++)
		rmem_reactor_run(rmem_engine_reactor(rig.engine, 0), 100);
	ck_assert_uint_eq(stats_of(&rig).dirty_bytes, 0);
	inode_unref(rig.volume, inode, 1);
	request_destroy(&rig, 0, request);
	rig_stop(&rig);
}
END_TEST

START_TEST(truncation_and_holes_discard)
{
	struct data_request *request;
	struct inode *inode;
	struct rig rig;

	rig_start(&rig, &usual);
	request = request_create(&rig, 0);
	inode = create_file(&rig, "file");
	write_fill(&rig, request, inode, (struct range){0, 16 * PAGE}, 5);
	request->mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	ck_assert_int_eq(
		run(&rig, request, DATA_FALLOCATE, inode, (struct range){PAGE + 100, 4 * PAGE}), 0);
	ck_assert_uint_eq(stats_of(&rig).dirty_bytes, 13 * PAGE);
	ck_assert_int_eq(run(&rig, request, DATA_TRUNCATE, inode, (struct range){10 * PAGE - 9, 0}),
			 0);
	ck_assert_uint_eq(stats_of(&rig).dirty_bytes, 7 * PAGE);
	ck_assert_int_eq(run(&rig, request, DATA_DISCARD, inode, (struct range){0}), 0);
	ck_assert_uint_eq(stats_of(&rig).dirty_bytes, 0);
	sync_file(&rig, request, inode);
	ck_assert_uint_eq(stats_of(&rig).flushed_bytes, 0);
	inode_unref(rig.volume, inode, 1);
	request_destroy(&rig, 0, request);
	rig_stop(&rig);
}
END_TEST

START_TEST(the_stored_size_waits_for_the_bytes)
{
	struct data_request *request;
	struct inode *inode;
	struct rig rig;

	rig_start(&rig, &usual);
	request = request_create(&rig, 0);
	inode = create_file(&rig, "file");
	write_fill(&rig, request, inode, (struct range){0, 1000}, 5);
	ck_assert_uint_eq(stored_size(&rig, inode), 0);
	sync_file(&rig, request, inode);
	ck_assert_uint_eq(stored_size(&rig, inode), 1000);
	write_fill(&rig, request, inode, (struct range){1000, 500},
		   6); /* on a page that is there */
	write_fill(&rig, request, inode, (struct range){100, 50}, 7);
	write_fill(&rig, request, inode, (struct range){8 * PAGE, 256u << 10},
		   8); /* goes through */
	ck_assert_uint_eq(stored_size(&rig, inode), 1000);
	ck_assert_int_eq(run(&rig, request, DATA_TRUNCATE, inode, (struct range){800, 0}), 0);
	ck_assert_uint_eq(stored_size(&rig, inode), 800);
	write_fill(&rig, request, inode, (struct range){2000, 100}, 9);
	ck_assert_uint_eq(stored_size(&rig, inode), 800);
	sync_file(&rig, request, inode);
	ck_assert_uint_eq(stored_size(&rig, inode), 2100);
	expect_fill(&rig, request, inode, (struct range){100, 50}, 7);
	expect_fill(&rig, request, inode, (struct range){800, 1200}, 0);
	inode_unref(rig.volume, inode, 1);
	request_destroy(&rig, 0, request);
	rig_stop(&rig);
}
END_TEST

START_TEST(a_full_pool_is_told_to_the_writer)
{
	struct rig_options options = usual;
	struct data_request *request;
	struct inode *inode;
	struct rig rig;
	uint64_t at = 0;
	int status = 0;

	options.pool_bytes = 8u << 20;
	options.dirty_bytes = 32u << 20; /* more than fits */
	rig_start(&rig, &options);
	request = request_create(&rig, 0);
	inode = create_file(&rig, "file");
	memset(request->buffer, 1, PAGE);
	for (; status == 0; at += PAGE)
		status = run(&rig, request, DATA_WRITE, inode, (struct range){at, PAGE});
	ck_assert_int_eq(status, -ENOSPC);
	ck_assert_uint_eq(at - PAGE, 8u << 20);
	ck_assert_uint_eq(stats_of(&rig).flushed_bytes, 0);
	sync_file(&rig, request, inode);
	ck_assert_uint_eq(stats_of(&rig).flushed_bytes, 8u << 20);
	expect_fill(&rig, request, inode, (struct range){at - 9 * PAGE, 8 * PAGE}, 1);
	inode_unref(rig.volume, inode, 1);
	request_destroy(&rig, 0, request);
	rig_stop(&rig);
}
END_TEST

/* --- Several threads -------------------------------------------------------------------------- */

#define FILES	3u
#define RECORDS 300u

struct worker {
	struct rig *rig;
	struct inode **inodes;
	unsigned reactor;
	pthread_t thread;
};

/* Each thread has its own bytes of each page of each file, and finds there what it wrote. */
static void *write_and_check(void *argument)
{
	struct worker *worker = argument;
	struct data_request *request = request_create(worker->rig, worker->reactor);
	unsigned seed = worker->reactor + 1;
	uint8_t is[FILES][RECORDS] = {0};

	for (unsigned i = 0; i < 1200; i++) {
		unsigned file = (unsigned)rand_r(&seed) % FILES;
		unsigned record = (unsigned)rand_r(&seed) % RECORDS;
		struct range range = {record * 1500u + worker->reactor * 700u, 700};

		if (i % 50 == 0) {
			ck_assert_int_eq(run_on(worker->rig, worker->reactor, request, DATA_SYNC,
						worker->inodes[file], range),
					 0);
		} else if (i % 2 == 0 && is[file][record] > 0) {
			ck_assert_int_eq(run_on(worker->rig, worker->reactor, request, DATA_READ,
						worker->inodes[file], range),
					 0);
			for (unsigned byte = 0; byte < 700; byte++)
				ck_assert_uint_eq(request->buffer[byte], is[file][record]);
		} else {
			is[file][record] = (uint8_t)(1 + rand_r(&seed) % 255);
			memset(request->buffer, is[file][record], 700);
			ck_assert_int_eq(run_on(worker->rig, worker->reactor, request, DATA_WRITE,
						worker->inodes[file], range),
					 0);
		}
	}
	request_destroy(worker->rig, worker->reactor, request);
	return NULL;
}

/* Its reactor runs until all are done: who waits for memory may need it. */
static _Atomic(unsigned) busy_workers;

static void *work(void *argument)
{
	struct worker *worker = argument;

	write_and_check(worker);
	atomic_fetch_sub(&busy_workers, 1);
	while (atomic_load(&busy_workers) > 0)
		rmem_reactor_run(rmem_engine_reactor(worker->rig->engine, worker->reactor), 10);
	return NULL;
}

START_TEST(threads_that_share_files_and_have_no_room_see_their_own_bytes)
{
	struct rig_options options = usual;
	struct inode *inodes[FILES];
	struct worker workers[2];
	struct rig rig;

	options.reactors = 2;
	options.dirty_bytes = _i == 0 ? 8 * PAGE : 64 * PAGE;
	options.dirty_age_ms = 20;
	rig_start(&rig, &options);
	for (unsigned i = 0; i < FILES; i++) {
		char name[8];

		snprintf(name, sizeof(name), "f%u", i);
		inodes[i] = create_file(&rig, name);
	}
	atomic_store(&busy_workers, 2);
	for (unsigned i = 0; i < 2; i++) {
		workers[i] = (struct worker){.rig = &rig, .inodes = inodes, .reactor = i};
		ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(workers[i].thread, NULL);
	for (unsigned i = 0; i < FILES; i++)
		inode_unref(rig.volume, inodes[i], 1);
	ck_assert_uint_eq(stats_of(&rig).flush_errors, 0);
	rig_stop(&rig);
}
END_TEST

/* --- Lost servers ----------------------------------------------------------------------------- */

START_TEST(a_lost_server_is_told_once_to_each_and_counted)
{
	struct data_request *request;
	struct inode *inode, *other;
	uint32_t one = 0, two = 0, late;
	struct rig rig;

	rig_start(&rig, &usual);
	request = request_create(&rig, 0);
	inode = create_file(&rig, "file");
	other = create_file(&rig, "other");
	write_fill(&rig, request, inode, (struct range){0, 8 * PAGE}, 1);
	rig_stop_server(&rig, 0);
	rig_wait_server(&rig, 0, RMEM_SERVER_DOWN);
	expect_fill(&rig, request, inode, (struct range){0, 8 * PAGE}, 1);
	memset(request->buffer, 2, PAGE);
	ck_assert_int_eq(run(&rig, request, DATA_WRITE, other, (struct range){0, PAGE}), -EIO);
	sync_file(&rig, request, inode);
	ck_assert_int_eq(take_error(inode, &one), -EIO);
	ck_assert_int_eq(take_error(inode, &one), 0);
	ck_assert_int_eq(take_error(inode, &two), -EIO);
	ck_assert_int_eq(take_error(inode, &two), 0);
	late = dirty_error_mark(inode->dirty_file);
	ck_assert_int_eq(take_error(inode, &late), 0);
	ck_assert_uint_eq(stats_of(&rig).flush_errors, 1);
	ck_assert_uint_eq(stats_of(&rig).dirty_bytes, 0);
	sync_file(&rig, request, inode);
	ck_assert_int_eq(take_error(inode, &one), 0);
	inode_unref(rig.volume, inode, 1);
	inode_unref(rig.volume, other, 1);
	request_destroy(&rig, 0, request);
	rig_stop(&rig);
}
END_TEST

START_TEST(what_is_lost_in_many_pieces_is_told_at_once)
{
	struct data_request *request;
	struct inode *inode;
	uint32_t seen = 0;
	struct rig rig;

	rig_start(&rig, &usual);
	request = request_create(&rig, 0);
	inode = create_file(&rig, "file");
	write_many_pieces(&rig, request, inode);
	rig_stop_server(&rig, 0);
	rig_wait_server(&rig, 0, RMEM_SERVER_DOWN);
	for (unsigned i = 0; i < 2; i++) {
		sync_file(&rig, request, inode);
		ck_assert_int_eq(take_error(inode, &seen), i == 0 ? -EIO : 0);
	}
	ck_assert_uint_eq(stats_of(&rig).dirty_bytes, 0);
	inode_unref(rig.volume, inode, 1);
	request_destroy(&rig, 0, request);
	rig_stop(&rig);
}
END_TEST

START_TEST(what_other_servers_hold_arrives)
{
	struct rig_options options = usual;
	struct data_request *request;
	struct inode *inode;
	unsigned arrived = 0;
	struct rig rig;

	options.servers = 3;
	rig_start(&rig, &options);
	request = request_create(&rig, 0);
	inode = create_file(&rig, "file");
	for (unsigned i = 0; i < 6; i++)
		write_fill(&rig, request, inode, (struct range){i * (64u << 10), 64u << 10}, 9);
	rig_stop_server(&rig, 1);
	if (_i == 1) /* else the flush finds out */
		rig_wait_server(&rig, 1, RMEM_SERVER_DOWN);
	sync_file(&rig, request, inode);
	rig_wait_server(&rig, 1, RMEM_SERVER_DOWN);
	for (unsigned i = 0; i < 6; i++) {
		struct range range = {i * (64u << 10), 64u << 10};

		if (run(&rig, request, DATA_READ, inode, range) == 0 && request->buffer[0] == 9) {
			expect_fill(&rig, request, inode, range, 9);
			arrived++;
		}
	}
	ck_assert_uint_eq(arrived, 4);
	ck_assert_uint_eq(stats_of(&rig).dirty_bytes, 0);
	inode_unref(rig.volume, inode, 1);
	request_destroy(&rig, 0, request);
	rig_stop(&rig);
}
END_TEST

/* An append to a page that the server has: if its bytes were dropped, the file would end in what
 * was on that page before. */
START_TEST(an_append_that_cannot_be_flushed_shows_no_old_bytes)
{
	struct rig_options options = usual;
	struct data_request *request;
	struct inode *dirt, *root, *inode;
	uint32_t seen = 0;
	struct rig rig;

	options.pool_bytes = 64 * PAGE;
	options.keeps_memory = true;
	options.stage_bytes = PAGE;
	rig_start(&rig, &options);
	request = request_create(&rig, 0);
	dirt = create_file(&rig, "dirt");
	write_fill(&rig, request, dirt, (struct range){0, 64 * PAGE}, 0xdd);
	ck_assert_int_eq(inode_get(rig.volume, INODE_ROOT, &root), 0);
	ck_assert_int_eq(namespace_unlink(rig.volume, root, "dirt"), 0);
	inode_unref(rig.volume, root, 1);
	inode_unref(rig.volume, dirt, 1);
	inode = create_file(&rig, "file");
	/* Goes through, and leaves the rest of its second page as it was. */
	write_fill(&rig, request, inode, (struct range){0, PAGE + 100}, 1);
	ck_assert_uint_eq(stats_of(&rig).dirty_bytes, 0);
	write_fill(&rig, request, inode, (struct range){PAGE + 100, 100}, 2);
	ck_assert_uint_eq(stats_of(&rig).dirty_bytes, PAGE);
	rig_stop_server(&rig, 0);
	rig_wait_server(&rig, 0, RMEM_SERVER_DOWN);
	sync_file(&rig, request, inode);
	ck_assert_int_eq(take_error(inode, &seen), -EIO);
	ck_assert_uint_eq(stored_size(&rig, inode), PAGE + 100);
	rig_start_server(&rig, 0, options.pool_bytes);
	rig_wait_server(&rig, 0, RMEM_SERVER_UP);
	expect_fill(&rig, request, inode, (struct range){0, PAGE + 100}, 1);
	expect_fill(&rig, request, inode, (struct range){PAGE + 100, 100}, 2);
	sync_file(&rig, request, inode);
	ck_assert_int_eq(take_error(inode, &seen), 0);
	ck_assert_uint_eq(stored_size(&rig, inode), PAGE + 200);
	expect_fill(&rig, request, inode, (struct range){PAGE + 100, 100}, 2);
	inode_unref(rig.volume, inode, 1);
	request_destroy(&rig, 0, request);
	rig_stop(&rig);
}
END_TEST

/* With fs.wait, a server that comes back in time costs nothing but time. */
static void *restart_server(void *argument)
{
	struct rig *rig = argument;

	usleep(300000);
	rig_start_server(rig, 0, rig->options.pool_bytes);
	return NULL;
}

START_TEST(a_flush_waits_for_a_server_that_comes_back)
{
	struct rig_options options = usual;
	struct data_request *request;
	struct inode *inode;
	uint32_t seen = 0;
	pthread_t thread;
	struct rig rig;

	options.wait_ms = 10000;
	options.keeps_memory = true;
	rig_start(&rig, &options);
	request = request_create(&rig, 0);
	inode = create_file(&rig, "file");
	write_fill(&rig, request, inode, (struct range){0, 8 * PAGE}, 1);
	rig_stop_server(&rig, 0);
	if (_i == 1)
		rig_wait_server(&rig, 0, RMEM_SERVER_DOWN);
	ck_assert_int_eq(pthread_create(&thread, NULL, restart_server, &rig), 0);
	sync_file(&rig, request, inode);
	pthread_join(thread, NULL);
	ck_assert_int_eq(take_error(inode, &seen), 0);
	ck_assert_uint_eq(stats_of(&rig).flush_errors, 0);
	ck_assert_uint_eq(stats_of(&rig).dirty_bytes, 0);
	expect_fill(&rig, request, inode, (struct range){0, 8 * PAGE}, 1);
	inode_unref(rig.volume, inode, 1);
	request_destroy(&rig, 0, request);
	rig_stop(&rig);
}
END_TEST

/* Random page writes, syncs, and a server that comes and goes with its memory. A page holds what it
 * held at the last sync that went well or one of the writes since; a sync tells when it is not the
 * last one. */
#define SPAN 48u /* pages of the file */

struct history {
	uint32_t oldest, newest; /* versions that the page may hold; 0: zeros */
};

static void write_version(struct rig *rig, struct data_request *request, struct inode *inode,
			  unsigned page, uint32_t version)
{
	for (unsigned i = 0; i < PAGE / 8; i++) {
		uint32_t mark[2] = {page, version};

		memcpy(request->buffer + 8 * (size_t)i, mark, 8);
	}
	ck_assert_int_eq(run(rig, request, DATA_WRITE, inode, (struct range){page * PAGE, PAGE}),
			 0);
}

static void check_versions(struct rig *rig, struct data_request *request, struct inode *inode,
			   struct history *history)
{
	for (unsigned page = 0; page < SPAN; page++) {
		uint32_t mark[2];

		ck_assert_int_eq(
			run(rig, request, DATA_READ, inode, (struct range){page * PAGE, PAGE}), 0);
		memcpy(mark, request->buffer, 8);
		for (unsigned i = 0; i < PAGE / 8; i++)
			ck_assert_mem_eq(request->buffer + 8 * (size_t)i, mark, 8);
		ck_assert(mark[1] == 0 || mark[0] == page);
		ck_assert_uint_ge(mark[1], history[page].oldest);
		ck_assert_uint_le(mark[1], history[page].newest);
		history[page].oldest = history[page].newest = mark[1];
	}
}

START_TEST(random_losses_lose_no_more_than_was_told)
{
	struct rig_options options = usual;
	struct history history[SPAN] = {0};
	struct data_request *request;
	struct inode *inode;
	uint32_t version = 0, seen = 0;
	struct rig rig;

	srand(17 + (unsigned)_i);
	options.servers = 2;
	options.stripe_bytes = 4 * PAGE;
	options.keeps_memory = true;
	options.dirty_bytes = 256 * PAGE;
	options.dirty_age_ms = _i % 2 ? LONG : 10;
	rig_start(&rig, &options);
	request = request_create(&rig, 0);
	inode = create_file(&rig, "file");
	ck_assert_int_eq(run(&rig, request, DATA_TRUNCATE, inode, (struct range){SPAN * PAGE, 0}),
			 0);
	for (unsigned round = 0; round < 12; round++) {
		bool lose = rand() % 2;

		for (unsigned i = 0; i < 60; i++) {
			unsigned page = (unsigned)rand() % SPAN;

			write_version(&rig, request, inode, page, ++version);
			history[page].newest = version;
		}
		if (lose) {
			rig_stop_server(&rig, 1);
			if (rand() % 2)
				rig_wait_server(&rig, 1, RMEM_SERVER_DOWN);
		}
		sync_file(&rig, request, inode);
		if (take_error(inode, &seen) == 0) {
			for (unsigned page = 0; page < SPAN; page++)
				history[page].oldest = history[page].newest;
		} else {
			ck_assert(lose);
		}
		if (lose) {
			rig_wait_server(&rig, 1, RMEM_SERVER_DOWN);
			rig_start_server(&rig, 1, options.pool_bytes);
			rig_wait_server(&rig, 1, RMEM_SERVER_UP);
		}
		check_versions(&rig, request, inode, history);
	}
	ck_assert_uint_gt(seen, 0);
	inode_unref(rig.volume, inode, 1);
	request_destroy(&rig, 0, request);
	rig_stop(&rig);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("data_back");
	TCase *tcase = tcase_create("data_back");

	tcase_set_timeout(tcase, 100);
	tcase_add_test(tcase, a_sync_sends_all_however_many_pieces_it_is_in);
	tcase_add_test(tcase, writes_wait_are_seen_and_go_together);
	tcase_add_test(tcase, long_writes_go_through);
	tcase_add_test(tcase, age_flushes);
	tcase_add_test(tcase, truncation_and_holes_discard);
	tcase_add_test(tcase, the_stored_size_waits_for_the_bytes);
	tcase_add_test(tcase, a_full_pool_is_told_to_the_writer);
	tcase_add_loop_test(tcase, threads_that_share_files_and_have_no_room_see_their_own_bytes, 0,
			    2);
	tcase_add_test(tcase, a_lost_server_is_told_once_to_each_and_counted);
	tcase_add_test(tcase, what_is_lost_in_many_pieces_is_told_at_once);
	tcase_add_loop_test(tcase, what_other_servers_hold_arrives, 0, 2);
	tcase_add_test(tcase, an_append_that_cannot_be_flushed_shows_no_old_bytes);
	tcase_add_loop_test(tcase, a_flush_waits_for_a_server_that_comes_back, 0, 2);
	tcase_add_loop_test(tcase, random_losses_lose_no_more_than_was_told, 0, 4);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
