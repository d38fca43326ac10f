/* SPDX-License-Identifier: Apache-2.0 */
/* What extents promise, case by case; test_extent_model.c goes at random. */
#include "fs/extent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/bitmap.h"
#include "fs/record.h"
#include "tests/support/faulty_store.h"
#include "tests/support/runner.h"
#include "tests/support/small_volume.h"

#define PAGE   ((uint64_t)VOLUME_PAGE_BYTES)
#define MIB    (1ull << 20)
#define CHUNK  VOLUME_CHUNK_BYTES
#define STRIPE MIB

static struct small_volume small;
static struct inode inode;
static struct volume *volume;

static void setup(void)
{
	small_volume_init(&small, STRIPE);
	volume = &small.volume;
	small_volume_create(&small, &inode, 42);
}

static void teardown(void)
{
	extent_map_destroy(inode.map);
	small_volume_finish(&small);
}

static uint64_t free_bytes(void)
{
	struct alloc_usage usage;

	alloc_usage(volume->allocator, &usage);
	return usage.available * PAGE;
}

static int allocate(uint64_t offset, uint64_t length)
{
	return extent_allocate(volume, &inode, offset, length, EXTENT_GROW);
}

/* As the data path does: allocate, write, move the end. */
static void write_range(uint64_t offset, uint64_t length)
{
	ck_assert_int_eq(allocate(offset, length), 0);
	extent_mark_written(volume, &inode, offset, length);
	if (offset + length > inode.attr.size)
		inode.attr.size = offset + length;
	inode.dirty |= INODE_DIRTY_MAP;
}

static int flush_in(struct store_txn *txn, void *user)
{
	int error = inode_put_record(txn, &inode, &inode.attr);

	(void)user;
	return error != 0 ? error : extent_flush(volume, &inode, txn);
}

static void flush(void)
{
	ck_assert_int_eq(store_update(volume->store, flush_in, NULL), 0);
	extent_flushed(&inode);
	inode.dirty = 0;
}

/* What memory has goes: only the store is left. */
static void reload(void)
{
	extent_map_destroy(inode.map);
	inode.map = NULL;
	inode.dirty = 0;
	inode.attr = small_volume_stored(&small, inode.ino);
}

static unsigned lookup(uint64_t offset, uint64_t length, struct extent_piece *pieces,
		       unsigned capacity)
{
	int count = extent_lookup(volume, &inode, offset, length, pieces, capacity);

	ck_assert_int_ge(count, 1);
	return (unsigned)count;
}

/* The one piece that the range is. */
static struct extent_piece whole(uint64_t offset, uint64_t length)
{
	struct extent_piece pieces[2];

	ck_assert_uint_eq(lookup(offset, length, pieces, 2), 1);
	ck_assert_uint_eq(pieces[0].offset, offset);
	ck_assert_uint_eq(pieces[0].length, length);
	return pieces[0];
}

static int truncate_to(uint64_t size)
{
	struct inode_attr attr = inode.attr;

	attr.size = size;
	return extent_unmap(volume, &inode, (size + PAGE - 1) / PAGE * PAGE, UINT64_MAX, &attr);
}

START_TEST(new_file_is_a_hole)
{
	small_volume_attach(&small, 1, 1000);
	ck_assert_int_eq(whole(0, 3 * CHUNK + 5).kind, EXTENT_HOLE);
	ck_assert_int_eq(whole(VOLUME_SIZE_MAX - 100, 100).kind, EXTENT_HOLE);
}
END_TEST

START_TEST(small_file_takes_the_pages_it_needs)
{
	small_volume_attach(&small, 1, 1000);
	write_range(0, 1);
	ck_assert_uint_eq(inode.attr.pages, 1);
	write_range(PAGE - 1, 2);
	ck_assert_uint_eq(inode.attr.pages, 2);
	ck_assert_uint_eq(free_bytes(), 998 * PAGE);
	ck_assert_uint_eq(small_volume_stored(&small, 42).pages, 2);
	ck_assert_int_eq(whole(0, 2 * PAGE).kind, EXTENT_WRITTEN);
	ck_assert_int_eq(whole(2 * PAGE, PAGE).kind, EXTENT_HOLE);
}
END_TEST

START_TEST(allocated_pages_are_unwritten_until_they_are_marked)
{
	struct extent_piece pieces[4];

	small_volume_attach(&small, 1, 1000);
	ck_assert_int_eq(allocate(10 * PAGE, 6 * PAGE), 0);
	ck_assert_int_eq(whole(10 * PAGE, 6 * PAGE).kind, EXTENT_UNWRITTEN);
	extent_mark_written(volume, &inode, 12 * PAGE + 100, PAGE);
	ck_assert_uint_eq(lookup(9 * PAGE, 8 * PAGE, pieces, 4), 4);
	ck_assert_int_eq(pieces[0].kind, EXTENT_HOLE);
	ck_assert_int_eq(pieces[1].kind, EXTENT_UNWRITTEN);
	ck_assert_int_eq(pieces[2].kind, EXTENT_WRITTEN);
	ck_assert_uint_eq(pieces[2].offset, 12 * PAGE);
	ck_assert_uint_eq(pieces[2].length, 2 * PAGE);
	ck_assert_uint_eq(pieces[2].region_offset, pieces[1].region_offset + 2 * PAGE);
	ck_assert_int_eq(pieces[3].kind, EXTENT_UNWRITTEN);
	/* Only whole pages are zeroed by unmarking. */
	extent_mark_unwritten(volume, &inode, 12 * PAGE + 1, 2 * PAGE - 1);
	ck_assert_int_eq(whole(12 * PAGE, PAGE).kind, EXTENT_WRITTEN);
	ck_assert_int_eq(whole(13 * PAGE, PAGE).kind, EXTENT_UNWRITTEN);
}
END_TEST

START_TEST(lookup_fills_no_more_than_there_is_room)
{
	struct extent_piece pieces[2];

	small_volume_attach(&small, 1, 1000);
	for (uint64_t page = 0; page < 10; page += 2)
		write_range(page * PAGE, PAGE);
	ck_assert_uint_eq(lookup(100, 10 * PAGE, pieces, 2), 2);
	ck_assert_uint_eq(pieces[0].offset, 100);
	ck_assert_uint_eq(pieces[0].length, PAGE - 100);
	ck_assert_uint_eq(pieces[1].offset, PAGE);
	ck_assert_uint_eq(pieces[1].length, PAGE);
}
END_TEST

START_TEST(range_without_holes_costs_no_transaction)
{
	unsigned commits;

	small_volume_attach(&small, 1, 1000);
	write_range(0, 10 * PAGE);
	commits = faulty_store_commits(volume->store);
	write_range(5, 10 * PAGE - 5);
	ck_assert_int_eq(extent_allocate(volume, &inode, 0, 10 * PAGE, EXTENT_GROW), 0);
	ck_assert_uint_eq(faulty_store_commits(volume->store), commits);
}
END_TEST

START_TEST(written_state_reaches_the_store_with_flush)
{
	small_volume_attach(&small, 1, 1000);
	write_range(0, 5 * PAGE);
	reload();
	ck_assert_int_eq(whole(0, 5 * PAGE).kind, EXTENT_UNWRITTEN);
	extent_mark_written(volume, &inode, 0, 5 * PAGE);
	extent_mark_unwritten(volume, &inode, 3 * PAGE, PAGE);
	flush();
	reload();
	ck_assert_int_eq(whole(0, 3 * PAGE).kind, EXTENT_WRITTEN);
	ck_assert_int_eq(whole(3 * PAGE, PAGE).kind, EXTENT_UNWRITTEN);
	ck_assert_int_eq(whole(4 * PAGE, PAGE).kind, EXTENT_WRITTEN);
}
END_TEST

START_TEST(growing_file_is_given_more_and_trimmed_later)
{
	unsigned commits = faulty_store_commits(volume->store);

	small_volume_attach(&small, 1, 1 << 20);
	for (uint64_t at = 0; at < 256 * MIB; at += MIB)
		write_range(at, MIB);
	/* Not one for each of the 256 writes. */
	ck_assert_uint_le(faulty_store_commits(volume->store) - commits, 40);
	ck_assert(extent_wants_trim(&inode));
	write_range(256 * MIB, PAGE);
	flush();
	ck_assert_int_eq(extent_trim(volume, &inode), 0);
	ck_assert(!extent_wants_trim(&inode));
	ck_assert_uint_eq(inode.attr.pages, 256 * MIB / PAGE + 1);
	ck_assert_uint_eq(free_bytes(), ((1ull << 20) - inode.attr.pages) * PAGE);
	ck_assert_uint_eq(small_volume_stored(&small, 42).pages, inode.attr.pages);
	/* In one region it lies in one piece, as far as groups of 128 MiB go. */
	ck_assert_int_eq(whole(0, 60 * MIB).kind, EXTENT_WRITTEN);
}
END_TEST

START_TEST(file_that_grows_in_leaps_takes_the_pages_it_needs)
{
	small_volume_attach(&small, 1, 1 << 20);
	write_range(0, MIB);
	for (uint64_t at = 2 * MIB; at <= 1000 * MIB; at += MIB)
		write_range(at, PAGE);
	ck_assert_uint_eq(inode.attr.pages, 256 + 999);
	ck_assert(!extent_wants_trim(&inode));
	/* From there on it grows as others do. */
	write_range(inode.attr.size, PAGE);
	ck_assert_uint_gt(inode.attr.pages, 256 + 1000);
	/* One of several writes may be early. */
	inode.gate.shared = 2;
	write_range(inode.attr.size + 1000 * MIB, PAGE);
	ck_assert_uint_gt(whole(inode.attr.size, PAGE).length, 0);
	ck_assert_int_eq(whole(inode.attr.size, PAGE).kind, EXTENT_UNWRITTEN);
	inode.gate.shared = 1;
}
END_TEST

START_TEST(file_that_was_not_trimmed_is_known_after_a_crash)
{
	small_volume_attach(&small, 1, 1 << 16);
	for (uint64_t at = 0; at < 32 * MIB; at += MIB)
		write_range(at, MIB);
	write_range(32 * MIB, PAGE);
	flush();
	reload();
	ck_assert(extent_wants_trim(&inode));
	ck_assert_int_eq(extent_trim(volume, &inode), 0);
	ck_assert_uint_eq(inode.attr.pages, 32 * MIB / PAGE + 1);
	ck_assert(!extent_wants_trim(&inode));
}
END_TEST

START_TEST(trim_keeps_what_fallocate_reserved)
{
	small_volume_attach(&small, 1, 10000);
	write_range(0, PAGE);
	ck_assert_int_eq(extent_allocate(volume, &inode, 0, 100 * PAGE + 1, EXTENT_EXACT), 0);
	ck_assert_uint_eq(inode.attr.pages, 101);
	ck_assert(!extent_wants_trim(&inode));
	ck_assert_int_eq(extent_trim(volume, &inode), 0);
	ck_assert_uint_eq(inode.attr.pages, 101);
	flush();
	reload();
	ck_assert_int_eq(extent_trim(volume, &inode), 0);
	ck_assert_uint_eq(inode.attr.pages, 101);
	/* Truncation gives it back, and takes the reservation away. */
	ck_assert_int_eq(truncate_to(10 * PAGE), 0);
	ck_assert_uint_eq(inode.attr.pages, 10);
	ck_assert_uint_eq(inode.attr.reserved_end, 10 * PAGE);
	ck_assert_uint_eq(small_volume_stored(&small, 42).reserved_end, 10 * PAGE);
}
END_TEST

START_TEST(exact_allocation_fills_the_holes_only)
{
	small_volume_attach(&small, 1, 10000);
	write_range(10 * PAGE, 10 * PAGE);
	write_range(40 * PAGE, 10 * PAGE);
	inode.attr.size = 1000 * PAGE;
	ck_assert_int_eq(extent_allocate(volume, &inode, 5 * PAGE, 50 * PAGE, EXTENT_EXACT), 0);
	ck_assert_uint_eq(inode.attr.pages, 50);
	ck_assert_int_eq(whole(0, 5 * PAGE).kind, EXTENT_HOLE);
	ck_assert_int_eq(whole(10 * PAGE, 10 * PAGE).kind, EXTENT_WRITTEN);
}
END_TEST

START_TEST(exact_allocation_that_does_not_fit_changes_nothing)
{
	small_volume_attach(&small, 1, 2 * RECORD_GROUP_PAGES);
	write_range(0, 10 * PAGE);
	ck_assert_int_eq(extent_allocate(volume, &inode, 0, 257 * MIB, EXTENT_EXACT), -ENOSPC);
	ck_assert_int_eq(extent_allocate(volume, &inode, 0, VOLUME_SIZE_MAX, EXTENT_EXACT),
			 -ENOSPC);
	ck_assert_uint_eq(inode.attr.pages, 10);
	ck_assert_uint_eq(inode.attr.reserved_end, 0);
	/* What it has already is not counted twice. */
	ck_assert_int_eq(extent_allocate(volume, &inode, 0, 256 * MIB, EXTENT_EXACT), 0);
	ck_assert_uint_eq(free_bytes(), 0);
}
END_TEST

START_TEST(huge_allocation_goes_in_steps)
{
	small_volume_attach(&small, 1, 2 << 20);
	ck_assert_int_eq(extent_allocate(volume, &inode, 0, 4096 * MIB, EXTENT_EXACT), 0);
	ck_assert_uint_eq(inode.attr.pages, 1 << 20);
	flush();
	reload();
	ck_assert_uint_eq(inode.attr.pages, 1 << 20);
	ck_assert_int_eq(truncate_to(0), 0);
	ck_assert_uint_eq(inode.attr.pages, 0);
	ck_assert_uint_eq(free_bytes(), (uint64_t)(2 << 20) * PAGE);
}
END_TEST

START_TEST(full_pool_takes_back_what_was_taken_ahead)
{
	uint64_t written = 0;
	int error;

	small_volume_attach(&small, 1, 1000);
	while ((error = allocate(written, 10 * PAGE)) == 0) {
		extent_mark_written(volume, &inode, written, 10 * PAGE);
		written += 10 * PAGE;
		inode.attr.size = written;
	}
	ck_assert_int_eq(error, -ENOSPC);
	ck_assert_uint_eq(written, 1000 * PAGE);
	ck_assert_int_eq(allocate(written, 1), -ENOSPC);
	ck_assert_int_eq(truncate_to(0), 0);
	ck_assert_uint_eq(free_bytes(), 1000 * PAGE);
}
END_TEST

START_TEST(what_was_taken_ahead_fills_a_hole_elsewhere_when_space_is_short)
{
	struct inode other;

	small_volume_attach(&small, 1, 4000);
	write_range(1000 * PAGE, 300 * PAGE);
	write_range(1300 * PAGE, PAGE); /* takes some ahead */
	ck_assert_uint_gt(inode.attr.pages, 310);
	small_volume_create(&small, &other, 43);
	ck_assert_int_eq(extent_allocate(volume, &other, 0, free_bytes(), EXTENT_EXACT), 0);
	ck_assert_uint_eq(free_bytes(), 0);
	/* Somebody may be writing to pages beyond the end just now: they stay. */
	inode.gate.shared = 2;
	ck_assert_int_eq(allocate(0, 5 * PAGE), -ENOSPC);
	inode.gate.shared = 1;
	/* The range has pages that were taken ahead: all of it is there afterwards. */
	ck_assert_int_eq(allocate(1305 * PAGE, 300 * PAGE), -ENOSPC);
	ck_assert_uint_gt(free_bytes(), 0);
	ck_assert_int_eq(allocate(0, free_bytes()), 0);
	ck_assert_uint_eq(free_bytes(), 0);
	extent_map_destroy(other.map);
}
END_TEST

START_TEST(scattered_writes_make_few_extents)
{
	struct record_chunk_view view;
	struct store_slice value;
	struct record_key key;
	struct store_txn *txn;
	unsigned seed = 1;

	small_volume_attach(&small, 1, 20000);
	inode.attr.size = CHUNK;
	for (unsigned i = 0; i < 10000; i++) {
		uint64_t page = (uint64_t)rand_r(&seed) % RECORD_CHUNK_PAGES;

		ck_assert_int_eq(allocate(page * PAGE, PAGE), 0);
		extent_mark_written(volume, &inode, page * PAGE, PAGE);
		if (i == 40)
			ck_assert_uint_le(inode.attr.pages, 41); /* few are exact */
	}
	flush();
	ck_assert_int_eq(store_begin(volume->store, STORE_READ, &txn), 0);
	ck_assert_int_eq(store_get(txn, record_key_pair(&key, RECORD_CHUNK, 42, 0), &value), 0);
	ck_assert_int_eq(record_decode_chunk(value, &view), 0);
	ck_assert_uint_le(view.extent_count, 1600);
	store_abort(txn);
}
END_TEST

START_TEST(stripes_go_round_the_regions)
{
	struct extent_piece piece;

	for (uint32_t id = 1; id <= 4; id++)
		small_volume_attach(&small, id, 1 << 16);
	ck_assert_int_eq(extent_allocate(volume, &inode, 0, 16 * MIB, EXTENT_EXACT), 0);
	for (uint64_t stripe = 0; stripe < 16; stripe++) {
		piece = whole(stripe * STRIPE, STRIPE);
		ck_assert_uint_eq(piece.region, 1 + (stripe + inode.ino) % 4);
	}
	/* A file written in pages of its own size, too. */
	ck_assert_int_eq(truncate_to(0), 0);
	for (uint64_t at = 0; at < 8 * MIB; at += 128 << 10)
		write_range(at, 128 << 10);
	for (uint64_t stripe = 0; stripe < 8; stripe++)
		ck_assert_uint_eq(whole(stripe * STRIPE, STRIPE).region,
				  1 + (stripe + inode.ino) % 4);
}
END_TEST

START_TEST(stripes_leave_out_full_and_missing_regions)
{
	struct extent_piece pieces[64];
	unsigned count;

	small_volume_attach(&small, 1, 1 << 16);
	small_volume_attach(&small, 2, 300);
	small_volume_attach(&small, 3, 1 << 16);
	small_volume_detach(&small, 3);
	ck_assert_int_eq(extent_allocate(volume, &inode, 0, 16 * MIB, EXTENT_EXACT), 0);
	count = lookup(0, 16 * MIB, pieces, 64);
	for (unsigned i = 0; i < count; i++) {
		ck_assert_int_eq(pieces[i].kind, EXTENT_UNWRITTEN);
		ck_assert_uint_ne(pieces[i].region, 3);
	}
}
END_TEST

START_TEST(unmap_gives_back_whole_pages_only)
{
	struct inode_attr attr;

	small_volume_attach(&small, 1, 1000);
	write_range(0, 20 * PAGE);
	attr = inode.attr;
	attr.mtime_ns = 77;
	ck_assert_int_eq(extent_unmap(volume, &inode, 5 * PAGE + 1, 4 * PAGE, &attr), 0);
	ck_assert_int_eq(whole(0, 6 * PAGE).kind, EXTENT_WRITTEN);
	ck_assert_int_eq(whole(6 * PAGE, 3 * PAGE).kind, EXTENT_HOLE);
	ck_assert_int_eq(whole(9 * PAGE, 11 * PAGE).kind, EXTENT_WRITTEN);
	ck_assert_uint_eq(inode.attr.pages, 17);
	ck_assert_int_eq(inode.attr.mtime_ns, 77);
	ck_assert_int_eq(small_volume_stored(&small, 42).mtime_ns, 77);
	/* Nothing whole in it: the attributes are to be stored all the same. */
	inode.dirty = 0;
	attr.mtime_ns = 78;
	attr.pages = 1;
	ck_assert_int_eq(extent_unmap(volume, &inode, PAGE + 1, PAGE, &attr), 0);
	ck_assert_int_eq(inode.attr.mtime_ns, 78);
	ck_assert_uint_eq(inode.attr.pages, 17);
	ck_assert_uint_ne(inode.dirty & INODE_DIRTY_ATTR, 0);
	/* A page that comes again is not written again. */
	ck_assert_int_eq(allocate(6 * PAGE, PAGE), 0);
	ck_assert_int_eq(whole(6 * PAGE, PAGE).kind, EXTENT_UNWRITTEN);
}
END_TEST

START_TEST(unmap_that_fails_half_way_leaves_memory_and_store_agreeing)
{
	uint64_t pages, chunks = 40;

	small_volume_attach(&small, 1, 100000);
	for (uint64_t i = 0; i < chunks; i++)
		write_range(i * CHUNK + 5 * PAGE, 20 * PAGE);
	flush();
	pages = inode.attr.pages;
	faulty_store_fail_put(volume->store, 30, -EIO);
	ck_assert_int_eq(truncate_to(0), -EIO);
	ck_assert(faulty_store_disarm(volume->store));
	ck_assert_uint_lt(inode.attr.pages, pages);
	ck_assert_uint_gt(inode.attr.pages, 0);
	ck_assert_uint_eq(inode.attr.size, (chunks - 1) * CHUNK + 25 * PAGE);
	ck_assert_uint_eq(free_bytes(), (100000 - inode.attr.pages) * PAGE);
	pages = inode.attr.pages;
	reload();
	ck_assert_uint_eq(inode.attr.pages, pages);
	ck_assert_int_eq(truncate_to(0), 0);
	ck_assert_uint_eq(inode.attr.pages, 0);
	ck_assert_uint_eq(inode.attr.size, 0);
	ck_assert_uint_eq(free_bytes(), 100000 * PAGE);
}
END_TEST

START_TEST(failed_or_conflicting_allocation_leaves_no_trace)
{
	small_volume_attach(&small, 1, 1000);
	write_range(0, 3 * PAGE);
	for (unsigned nth = 1; nth <= 3; nth++) {
		faulty_store_fail_put(volume->store, nth, -EIO);
		ck_assert_int_eq(allocate(10 * PAGE, 5 * PAGE), -EIO);
		ck_assert(faulty_store_disarm(volume->store));
		ck_assert_uint_eq(inode.attr.pages, 3);
		ck_assert_int_eq(whole(10 * PAGE, 5 * PAGE).kind, EXTENT_HOLE);
		ck_assert_uint_eq(free_bytes(), 997 * PAGE);
	}
	faulty_store_fail_commits(volume->store, 3, -EAGAIN);
	ck_assert_int_eq(allocate(10 * PAGE, 5 * PAGE), 0);
	ck_assert(faulty_store_disarm(volume->store));
	ck_assert_uint_eq(inode.attr.pages, 8);
	ck_assert_uint_eq(free_bytes(), 992 * PAGE);
}
END_TEST

START_TEST(removed_inode_gets_nothing)
{
	small_volume_attach(&small, 1, 1000);
	inode.removed = true;
	ck_assert_int_eq(allocate(0, PAGE), -ESTALE);
	ck_assert_uint_eq(free_bytes(), 1000 * PAGE);
}
END_TEST

START_TEST(seeking_finds_written_pages_and_the_rest)
{
	uint64_t found;

	small_volume_attach(&small, 1, 10000);
	write_range(3 * CHUNK - PAGE, 2 * PAGE);
	write_range(10 * CHUNK + 7 * PAGE, 100);
	ck_assert_int_eq(allocate(5 * CHUNK, 10 * PAGE), 0); /* unwritten is no data */
	inode.attr.size = 11 * CHUNK;
	ck_assert_int_eq(extent_seek_data(volume, &inode, 0, &found), 0);
	ck_assert_uint_eq(found, 3 * CHUNK - PAGE);
	ck_assert_int_eq(extent_seek_data(volume, &inode, 3 * CHUNK - 5, &found), 0);
	ck_assert_uint_eq(found, 3 * CHUNK - 5);
	ck_assert_int_eq(extent_seek_data(volume, &inode, 3 * CHUNK + PAGE, &found), 0);
	ck_assert_uint_eq(found, 10 * CHUNK + 7 * PAGE);
	ck_assert_int_eq(extent_seek_data(volume, &inode, 10 * CHUNK + 8 * PAGE, &found), -ENXIO);
	ck_assert_int_eq(extent_seek_data(volume, &inode, 11 * CHUNK, &found), -ENXIO);
	ck_assert_int_eq(extent_seek_hole(volume, &inode, 0, &found), 0);
	ck_assert_uint_eq(found, 0);
	ck_assert_int_eq(extent_seek_hole(volume, &inode, 3 * CHUNK - 5, &found), 0);
	ck_assert_uint_eq(found, 3 * CHUNK + PAGE);
	ck_assert_int_eq(extent_seek_hole(volume, &inode, 11 * CHUNK, &found), -ENXIO);
	/* The end of the file is a hole. */
	inode.attr.size = 10 * CHUNK + 7 * PAGE + 100;
	ck_assert_int_eq(extent_seek_hole(volume, &inode, 10 * CHUNK + 7 * PAGE, &found), 0);
	ck_assert_uint_eq(found, inode.attr.size);
}
END_TEST

START_TEST(seeking_a_huge_sparse_file_looks_at_what_is_there)
{
	uint64_t found;

	small_volume_attach(&small, 1, 10000);
	write_range(VOLUME_SIZE_MAX - PAGE, PAGE);
	ck_assert_int_eq(extent_seek_data(volume, &inode, 0, &found), 0);
	ck_assert_uint_eq(found, VOLUME_SIZE_MAX - PAGE);
	ck_assert_int_eq(truncate_to(PAGE), 0);
	ck_assert_uint_eq(inode.attr.pages, 0);
}
END_TEST

static int reclaim_in(struct store_txn *txn, void *user)
{
	int *more = user;

	*more = extent_reclaim(volume, inode.ino, txn);
	return *more < 0 ? *more : 0;
}

START_TEST(reclaiming_gives_everything_back_in_steps)
{
	unsigned steps = 0;
	int more = 1;

	small_volume_attach(&small, 1, 100000);
	for (uint64_t i = 0; i < 50; i++)
		write_range(i * CHUNK + i * PAGE, 100 * PAGE);
	flush();
	/* A step that fails is a step that was not. */
	faulty_store_fail_put(volume->store, 3, -EIO);
	ck_assert_int_eq(store_shrink(volume->store, reclaim_in, &more), -EIO);
	ck_assert(faulty_store_disarm(volume->store));
	ck_assert_uint_eq(free_bytes(), (100000 - inode.attr.pages) * PAGE);
	/* After a remount, before any server is there. */
	small_volume_reopen(&small);
	for (more = 1; more > 0; steps++)
		ck_assert_int_eq(store_shrink(volume->store, reclaim_in, &more), 0);
	ck_assert_uint_ge(steps, 4);
	small_volume_attach(&small, 1, 100000);
	ck_assert_uint_eq(free_bytes(), 100000 * PAGE);
}
END_TEST

START_TEST(files_on_lost_memory_can_be_truncated)
{
	small_volume_attach(&small, 1, 1000);
	small_volume_attach(&small, 2, 1000);
	ck_assert_int_eq(extent_allocate(volume, &inode, 0, 4 * MIB, EXTENT_EXACT), 0);
	small_volume_lose(&small, 1);
	ck_assert_int_eq(truncate_to(MIB), 0);
	ck_assert_uint_eq(inode.attr.pages, MIB / PAGE);
	ck_assert_int_eq(truncate_to(0), 0);
	ck_assert_uint_eq(free_bytes(), 1000 * PAGE);
}
END_TEST

static int damage_chunk(struct store_txn *txn, void *user)
{
	struct record_key key;

	(void)user;
	return store_put(txn, record_key_pair(&key, RECORD_CHUNK, 42, 0),
			 (struct store_slice){"C\1\0\0????", 8});
}

START_TEST(damaged_chunk_is_an_error_and_not_a_crash)
{
	struct extent_piece piece;
	uint64_t found;

	small_volume_attach(&small, 1, 1000);
	ck_assert_int_eq(store_update(volume->store, damage_chunk, NULL), 0);
	inode.attr.size = PAGE;
	ck_assert_int_eq(extent_lookup(volume, &inode, 0, PAGE, &piece, 1), -EIO);
	ck_assert_int_eq(allocate(0, PAGE), -EIO);
	ck_assert_int_eq(truncate_to(0), -EIO);
	ck_assert_int_eq(extent_seek_data(volume, &inode, 0, &found), -EIO);
	ck_assert_int_eq(extent_seek_hole(volume, &inode, 0, &found), -EIO);
	/* The rest of the file is as good as before. */
	ck_assert_int_eq(allocate(CHUNK, PAGE), 0);
}
END_TEST

START_TEST(forgetting_drops_what_can_be_loaded_again)
{
	small_volume_attach(&small, 1, 1000);
	write_range(0, 3 * PAGE);
	extent_forget(&inode);
	ck_assert_ptr_nonnull(inode.map); /* dirty */
	flush();
	inode.gate.shared = 1;
	extent_forget(&inode);
	ck_assert_ptr_nonnull(inode.map); /* in use */
	inode.gate.shared = 0;
	extent_forget(&inode);
	ck_assert_ptr_null(inode.map);
	ck_assert_int_eq(whole(0, 3 * PAGE).kind, EXTENT_WRITTEN);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("extent");
	TCase *tc = tcase_create("extent");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, new_file_is_a_hole);
	tcase_add_test(tc, small_file_takes_the_pages_it_needs);
	tcase_add_test(tc, allocated_pages_are_unwritten_until_they_are_marked);
	tcase_add_test(tc, lookup_fills_no_more_than_there_is_room);
	tcase_add_test(tc, range_without_holes_costs_no_transaction);
	tcase_add_test(tc, written_state_reaches_the_store_with_flush);
	tcase_add_test(tc, growing_file_is_given_more_and_trimmed_later);
	tcase_add_test(tc, file_that_grows_in_leaps_takes_the_pages_it_needs);
	tcase_add_test(tc, file_that_was_not_trimmed_is_known_after_a_crash);
	tcase_add_test(tc, trim_keeps_what_fallocate_reserved);
	tcase_add_test(tc, exact_allocation_fills_the_holes_only);
	tcase_add_test(tc, exact_allocation_that_does_not_fit_changes_nothing);
	tcase_add_test(tc, huge_allocation_goes_in_steps);
	tcase_add_test(tc, full_pool_takes_back_what_was_taken_ahead);
	tcase_add_test(tc, what_was_taken_ahead_fills_a_hole_elsewhere_when_space_is_short);
	tcase_add_test(tc, scattered_writes_make_few_extents);
	tcase_add_test(tc, stripes_go_round_the_regions);
	tcase_add_test(tc, stripes_leave_out_full_and_missing_regions);
	tcase_add_test(tc, unmap_gives_back_whole_pages_only);
	tcase_add_test(tc, unmap_that_fails_half_way_leaves_memory_and_store_agreeing);
	tcase_add_test(tc, failed_or_conflicting_allocation_leaves_no_trace);
	tcase_add_test(tc, removed_inode_gets_nothing);
	tcase_add_test(tc, seeking_finds_written_pages_and_the_rest);
	tcase_add_test(tc, seeking_a_huge_sparse_file_looks_at_what_is_there);
	tcase_add_test(tc, reclaiming_gives_everything_back_in_steps);
	tcase_add_test(tc, files_on_lost_memory_can_be_truncated);
	tcase_add_test(tc, damaged_chunk_is_an_error_and_not_a_crash);
	tcase_add_test(tc, forgetting_drops_what_can_be_loaded_again);
	suite_add_tcase(suite, tc);
	return run_suite(suite);
}
