/* SPDX-License-Identifier: Apache-2.0 */
/* Writing back where some servers are of this host and some are far away: which writes are staged.
 * That the bytes are right whatever the mixture is in test_data.c. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/data.h"
#include "fs/namespace.h"
#include "tests/support/rig.h"
#include "tests/support/runner.h"

#define PAGE	VOLUME_PAGE_BYTES
#define STRIPE	(16 * PAGE)
#define STRIPES 8u

/* One near, one far. */
static const struct rig_options mixed = {
	.servers = 2,
	.far = 1u << 1,
	.reactors = 1,
	.pool_bytes = 16u << 20,
	.stripe_bytes = STRIPE,
	.dirty_bytes = 4u << 20,
	.dirty_age_ms = 3600000,
	.stage_bytes = 128u << 10,
	.follows = true,
};

struct far_test {
	struct rig rig;
	struct inode *inode;
	struct data_request *request;
	uint64_t near, far; /* offsets of a stripe each, the near one before the far one */
};

static int run(struct far_test *test, enum data_kind kind, uint64_t offset, uint64_t length)
{
	test->request->kind = kind;
	test->request->inode = test->inode;
	test->request->offset = offset;
	test->request->length = length;
	return rig_run(&test->rig, 0, test->request);
}

static void write_fill(struct far_test *test, uint64_t offset, uint64_t length, uint8_t fill)
{
	memset(test->request->buffer, fill, length);
	ck_assert_int_eq(run(test, DATA_WRITE, offset, length), 0);
}

static void expect_fill(struct far_test *test, uint64_t offset, uint64_t length, uint8_t fill)
{
	memset(test->request->buffer, (uint8_t)~fill, length);
	ck_assert_int_eq(run(test, DATA_READ, offset, length), 0);
	ck_assert_uint_eq(test->request->transferred, length);
	for (uint64_t i = 0; i < length; i++)
		ck_assert_uint_eq(test->request->buffer[i], fill);
}

static struct data_stats stats_of(const struct far_test *test)
{
	struct data_stats stats;

	ck_assert(data_stats_read(test->rig.data, &stats));
	return stats;
}

static uint64_t dirty_pages(const struct far_test *test)
{
	return stats_of(test).dirty_bytes / PAGE;
}

static bool is_far(struct far_test *test, uint64_t offset)
{
	const struct volume_region *region;
	struct extent_piece piece;

	pthread_mutex_lock(&test->inode->lock);
	ck_assert_int_eq(extent_lookup(test->rig.volume, test->inode, offset, PAGE, &piece, 1), 1);
	pthread_mutex_unlock(&test->inode->lock);
	region = volume_region(test->rig.volume, piece.region);
	ck_assert_ptr_nonnull(region);
	return region->server == test->rig.indexes[1];
}

/* A file of whole stripes on both servers, flushed. */
static void far_start(struct far_test *test, const struct rig_options *options)
{
	struct namespace_create create = {.mode = S_IFREG | 0644};
	struct inode *root;
	uint64_t stripe = 0;

	*test = (struct far_test){0};
	rig_start(&test->rig, options);
	test->request = calloc(1, sizeof(*test->request));
	test->request->buffer = rmem_staging_get(rmem_engine_reactor(test->rig.engine, 0));
	ck_assert_int_eq(inode_get(test->rig.volume, INODE_ROOT, &root), 0);
	ck_assert_int_eq(namespace_create(test->rig.volume, root, "file", &create, &test->inode),
			 0);
	inode_unref(test->rig.volume, root, 1);
	write_fill(test, 0, STRIPES * STRIPE, 1); /* too long to be staged */
	ck_assert_int_eq(run(test, DATA_SYNC, 0, 0), 0);
	ck_assert_uint_eq(stats_of(test).flushed_bytes, 0);
	while (stripe < STRIPES - 1 &&
	       (is_far(test, stripe * STRIPE) || !is_far(test, (stripe + 1) * STRIPE)))
		stripe++;
	test->near = stripe * STRIPE;
	test->far = (stripe + 1) * STRIPE;
}

static void far_stop(struct far_test *test)
{
	inode_unref(test->rig.volume, test->inode, 1);
	rmem_staging_put(rmem_engine_reactor(test->rig.engine, 0), test->request->buffer);
	free(test->request);
	rig_stop(&test->rig);
}

START_TEST(only_what_needs_a_far_server_is_staged)
{
	struct far_test test;

	far_start(&test, &mixed);
	ck_assert_uint_lt(test.far, STRIPES * STRIPE);
	write_fill(&test, test.near, PAGE, 2);
	write_fill(&test, test.near + 3 * PAGE + 100, 5000, 3);
	ck_assert_uint_eq(dirty_pages(&test), 0);
	write_fill(&test, test.far, PAGE, 4);
	write_fill(&test, test.far + 2 * PAGE + 100, 100, 5);
	ck_assert_uint_eq(dirty_pages(&test), 2);
	expect_fill(&test, test.near, PAGE, 2);
	expect_fill(&test, test.near + 3 * PAGE + 100, 5000, 3);
	expect_fill(&test, test.far, PAGE, 4);
	ck_assert_int_eq(run(&test, DATA_SYNC, 0, 0), 0);
	ck_assert_uint_eq(stats_of(&test).flushed_bytes, 2 * PAGE);
	expect_fill(&test, test.far, PAGE, 4);
	expect_fill(&test, test.far + PAGE, PAGE + 100, 1);
	expect_fill(&test, test.far + 2 * PAGE + 100, 100, 5);
	far_stop(&test);
}
END_TEST

/* A write over both is staged whole; so is what comes over its near pages while they are dirty. */
START_TEST(a_write_over_both_is_staged_whole)
{
	struct far_test test;

	far_start(&test, &mixed);
	write_fill(&test, test.far - 2 * PAGE, 4 * PAGE, 2);
	ck_assert_uint_eq(dirty_pages(&test), 4);
	write_fill(&test, test.far - 2 * PAGE, 2 * PAGE, 3);
	ck_assert_uint_eq(dirty_pages(&test), 4);
	expect_fill(&test, test.far - 2 * PAGE, 2 * PAGE, 3);
	expect_fill(&test, test.far, 2 * PAGE, 2);
	/* Others beside them go through. */
	write_fill(&test, test.far - 4 * PAGE, PAGE, 4);
	ck_assert_uint_eq(dirty_pages(&test), 4);
	ck_assert_int_eq(run(&test, DATA_SYNC, 0, 0), 0);
	ck_assert_uint_eq(stats_of(&test).flushed_bytes, 4 * PAGE);
	write_fill(&test, test.far - 2 * PAGE, 2 * PAGE, 5);
	ck_assert_uint_eq(dirty_pages(&test), 0);
	expect_fill(&test, test.far - 4 * PAGE, PAGE, 4);
	expect_fill(&test, test.far - 2 * PAGE, 2 * PAGE, 5);
	expect_fill(&test, test.far, 2 * PAGE, 2);
	far_stop(&test);
}
END_TEST

/* The end of the file on a far page that is dirty: a near write behind it makes the rest of that
 * page zeros, so it is staged with it. */
START_TEST(a_near_write_behind_a_dirty_far_end_is_staged)
{
	struct far_test test;

	far_start(&test, &mixed);
	ck_assert_int_eq(run(&test, DATA_TRUNCATE, test.far + 100, 0), 0);
	write_fill(&test, test.far + 50, 50, 2);
	ck_assert_uint_eq(dirty_pages(&test), 1);
	write_fill(&test, test.far + STRIPE, PAGE, 3);
	ck_assert(!is_far(&test, test.far + STRIPE));
	ck_assert_uint_eq(dirty_pages(&test), 2);
	for (unsigned i = 0; i < 2; i++) {
		expect_fill(&test, test.far, 50, 1);
		expect_fill(&test, test.far + 50, 50, 2);
		expect_fill(&test, test.far + 100, STRIPE - 100, 0);
		expect_fill(&test, test.far + STRIPE, PAGE, 3);
		ck_assert_int_eq(run(&test, DATA_SYNC, 0, 0), 0);
	}
	ck_assert_uint_eq(dirty_pages(&test), 0);
	far_stop(&test);
}
END_TEST

START_TEST(with_near_servers_alone_nothing_is_staged)
{
	struct rig_options options = mixed;
	struct far_test test;

	options.far = 0;
	far_start(&test, &options);
	for (unsigned i = 0; i < 64; i++)
		write_fill(&test, i * (PAGE + 100), 700, (uint8_t)i);
	ck_assert_uint_eq(dirty_pages(&test), 0);
	ck_assert_uint_eq(stats_of(&test).dirty_bytes_max, 0);
	for (unsigned i = 0; i < 64; i++)
		expect_fill(&test, i * (PAGE + 100), 700, (uint8_t)i);
	ck_assert_int_eq(run(&test, DATA_SYNC, 0, 0), 0);
	ck_assert_uint_eq(stats_of(&test).flushed_bytes, 0);
	ck_assert_uint_eq(stats_of(&test).flush_batches, 0);
	ck_assert_int_eq(run(&test, DATA_DISCARD, 0, 0), 0);
	far_stop(&test);
}
END_TEST

START_TEST(when_asked_for_near_writes_are_staged)
{
	struct rig_options options = mixed;
	struct far_test test;

	options.far = _i == 0 ? 0 : 1u << 1;
	options.stage_local = true;
	far_start(&test, &options);
	write_fill(&test, 0, 3 * PAGE, 2);
	write_fill(&test, STRIPE, 3 * PAGE, 3);
	ck_assert_uint_eq(dirty_pages(&test), 6);
	ck_assert_int_eq(run(&test, DATA_SYNC, 0, 0), 0);
	ck_assert_uint_eq(stats_of(&test).flushed_bytes, 6 * PAGE);
	expect_fill(&test, 0, 3 * PAGE, 2);
	expect_fill(&test, STRIPE, 3 * PAGE, 3);
	far_stop(&test);
}
END_TEST

/* What writes learn at once of a server that is gone is as without writing back. */
START_TEST(a_far_server_that_is_gone_stops_only_its_own)
{
	struct far_test test;

	far_start(&test, &mixed);
	rig_stop_server(&test.rig, 1);
	rig_wait_server(&test.rig, 1, RMEM_SERVER_DOWN);
	write_fill(&test, test.near, PAGE, 2);
	expect_fill(&test, test.near, PAGE, 2);
	ck_assert_int_lt(run(&test, DATA_WRITE, test.far, PAGE), 0);
	ck_assert_uint_eq(dirty_pages(&test), 0);
	rig_start_server(&test.rig, 1, mixed.pool_bytes);
	far_stop(&test);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("data_far");
	TCase *tcase = tcase_create("data_far");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, only_what_needs_a_far_server_is_staged);
	tcase_add_test(tcase, a_write_over_both_is_staged_whole);
	tcase_add_test(tcase, a_near_write_behind_a_dirty_far_end_is_staged);
	tcase_add_test(tcase, with_near_servers_alone_nothing_is_staged);
	tcase_add_loop_test(tcase, when_asked_for_near_writes_are_staged, 0, 2);
	tcase_add_test(tcase, a_far_server_that_is_gone_stops_only_its_own);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
