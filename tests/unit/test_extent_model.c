/* SPDX-License-Identifier: Apache-2.0 */
/* Extents and the allocator against plain arrays of pages.
 *
 * A few files grow, shrink, get holes and are removed at random on a few small regions, with
 * servers that come and go, a store that fails now and then, full pools and restarts. What has to
 * be true after each step: a page is written if and only if it should be; no page belongs to two
 * files; and what memory says, what the chunk records say and what the bitmaps say is the same. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/alloc.h"
#include "fs/bitmap.h"
#include "fs/extent.h"
#include "fs/record.h"
#include "tests/support/faulty_store.h"
#include "tests/support/runner.h"
#include "tests/support/small_volume.h"

#define PAGE	   ((uint64_t)VOLUME_PAGE_BYTES)
#define FILES	   3u
#define FILE_PAGES 36000u /* two chunks and a bit */
#define MAP_PAGES  49152u /* what may be taken ahead of that */
#define REGIONS	   4u
#define POOL_PAGES 34000u /* of a region, at most: a group and a bit */

enum state {
	ANY,	 /* reads as zeros: a hole, or pages that were taken ahead */
	TAKEN,	 /* has a page, unwritten */
	WRITTEN, /* has a page */
};

struct file {
	struct inode inode;
	uint8_t now[MAP_PAGES];	   /* enum state */
	uint8_t stored[MAP_PAGES]; /* as of the last flush */
	uint64_t stored_size;
};

static struct small_volume small;
static struct volume *volume = &small.volume;
static struct file *files;
static uint64_t region_pages[REGIONS + 1];
static unsigned seed;

static unsigned below(unsigned limit)
{
	return (unsigned)rand_r(&seed) % limit;
}

static uint64_t free_pages(void)
{
	struct alloc_usage usage;

	alloc_usage(volume->allocator, &usage);
	return usage.available;
}

/* --- Looking at all there is --------------------------------------------------------------------
 */

/* Who has which page of the pool: file and page in it, 0 nobody. */
static uint32_t owners[REGIONS + 1][POOL_PAGES];

static void own(const struct extent_piece *piece, unsigned file)
{
	uint64_t first = piece->region_offset / PAGE, page = piece->offset / PAGE;

	ck_assert_uint_ge(piece->region, 1);
	ck_assert_uint_le(piece->region, REGIONS);
	ck_assert_uint_le(first + piece->length / PAGE, region_pages[piece->region]);
	for (uint64_t i = 0; i < piece->length / PAGE; i++) {
		uint32_t *owner = &owners[piece->region][first + i];

		if (*owner != 0)
			ck_abort_msg("page %llu of region %u belongs to two files",
				     (unsigned long long)(first + i), piece->region);
		*owner = (uint32_t)(file * MAP_PAGES + page + i + 1);
	}
}

static void check_piece(const struct file *file, const struct extent_piece *piece)
{
	for (uint64_t page = piece->offset / PAGE; page < (piece->offset + piece->length) / PAGE;
	     page++) {
		enum state state = file->now[page];

		if ((piece->kind == EXTENT_WRITTEN) != (state == WRITTEN) ||
		    (piece->kind == EXTENT_HOLE && state != ANY))
			ck_abort_msg("page %llu of file %llu is of kind %d, and should be %d",
				     (unsigned long long)page, (unsigned long long)file->inode.ino,
				     piece->kind, state);
	}
}

static void check_file(unsigned index)
{
	struct file *file = &files[index];
	uint64_t at = 0, pages = 0;

	while (at < MAP_PAGES * PAGE) {
		struct extent_piece pieces[32];
		int count =
			extent_lookup(volume, &file->inode, at, MAP_PAGES * PAGE - at, pieces, 32);

		ck_assert_int_ge(count, 1);
		for (int i = 0; i < count; i++) {
			ck_assert_uint_eq(pieces[i].offset, at);
			at += pieces[i].length;
			check_piece(file, &pieces[i]);
			if (pieces[i].kind == EXTENT_HOLE)
				continue;
			own(&pieces[i], index);
			pages += pieces[i].length / PAGE;
		}
	}
	ck_assert_uint_eq(file->inode.attr.pages, pages);
	ck_assert_uint_eq(small_volume_stored(&small, file->inode.ino).pages, pages);
}

/* Each stored extent is owned as memory says; takes the owners away. */
static int check_record(void *user, struct store_slice key, struct store_slice value)
{
	struct record_chunk_view view;
	struct record_extent extent;
	uint64_t ino, chunk;

	(void)user;
	ck_assert_int_eq(record_parse_pair(key, RECORD_CHUNK, &ino, &chunk), 0);
	ck_assert_int_eq(record_decode_chunk(value, &view), 0);
	ck_assert_uint_lt(ino - 1, FILES);
	for (uint32_t i = 0; i < view.extent_count; i++) {
		record_chunk_extent_at(&view, i, &extent);
		for (uint32_t page = 0; page < extent.pages; page++) {
			uint32_t *owner = &owners[extent.region][extent.region_page + page];
			uint64_t file_page = chunk * RECORD_CHUNK_PAGES + extent.page + page;

			if (*owner != (ino - 1) * MAP_PAGES + file_page + 1)
				ck_abort_msg("stored page %llu of file %llu is not in memory",
					     (unsigned long long)file_page,
					     (unsigned long long)ino);
			*owner = 0;
		}
	}
	return 0;
}

static void check_records(void)
{
	struct record_key key;
	struct store_txn *txn;

	ck_assert_int_eq(store_begin(volume->store, STORE_READ, &txn), 0);
	ck_assert_int_eq(store_scan(txn, record_key_kind(&key, RECORD_CHUNK),
				    (struct store_slice){0}, check_record, NULL),
			 0);
	store_abort(txn);
	for (uint32_t id = 1; id <= REGIONS; id++)
		for (uint32_t page = 0; page < POOL_PAGES; page++)
			if (owners[id][page] != 0)
				ck_abort_msg("page %u of region %u is not in the store", page, id);
}

/* The bitmaps, and the count of free pages. */
static void check_pool(void)
{
	uint64_t expected = 0;

	for (uint32_t id = 1; id <= REGIONS; id++) {
		const struct volume_region *region = &small.regions[id];
		uint64_t *words, used = 0;

		if (region->id == 0 || region->lost)
			continue;
		words = small_volume_bitmap(&small, id);
		for (uint32_t page = 0; page < region_pages[id]; page++) {
			bool owned = owners[id][page] != 0;

			used += owned;
			if (bitmap_test(words, page) != owned)
				ck_abort_msg("page %u of region %u: owned %d, bitmap %d", page, id,
					     owned, !owned);
		}
		free(words);
		if (region->attached)
			expected += region_pages[id] - used;
	}
	ck_assert_uint_eq(free_pages(), expected);
}

static void check_all(void)
{
	memset(owners, 0, sizeof(owners));
	for (unsigned i = 0; i < FILES; i++)
		check_file(i);
	check_pool();
	check_records();
}

static void assert_hole(struct file *file, uint64_t from, uint64_t to)
{
	while (from < to) {
		struct extent_piece piece;

		ck_assert_int_ge(extent_lookup(volume, &file->inode, from * PAGE,
					       (to - from) * PAGE, &piece, 1),
				 1);
		ck_assert_int_eq(piece.kind, EXTENT_HOLE);
		from += piece.length / PAGE;
	}
}

/* Pages behind these are not to stay. */
static uint64_t kept_pages(const struct file *file)
{
	const struct inode_attr *attr = &file->inode.attr;
	uint64_t end = attr->size > attr->reserved_end ? attr->size : attr->reserved_end;

	return (end + PAGE - 1) / PAGE;
}

/* --- Steps --------------------------------------------------------------------------------------
 */

static bool is_excused; /* a fault was struck in this step */
static int excuse;

static void arm(void)
{
	static const int errors[] = {-EIO, -ENOSPC, -EAGAIN};

	excuse = errors[below(3)];
	if (excuse == -EAGAIN || below(2))
		faulty_store_fail_commits(volume->store, 1 + below(2), excuse);
	else
		faulty_store_fail_put(volume->store, 1 + below(8), excuse);
}

static void judge(int result)
{
	is_excused = faulty_store_disarm(volume->store);
	if (result == 0 || result == -ENOSPC || result == -ENOTCONN)
		return;
	ck_assert_msg(is_excused && result == excuse, "result %d", result);
}

static uint64_t count_any(const struct file *file, uint64_t from, uint64_t to)
{
	uint64_t count = 0;

	for (uint64_t page = from; page < to; page++)
		count += file->now[page] == ANY;
	return count;
}

static void raise_state(struct file *file, uint64_t from, uint64_t to, enum state state)
{
	for (uint64_t page = from; page < to; page++)
		if (file->now[page] < state)
			file->now[page] = (uint8_t)state;
}

static void pick_range(const struct file *file, uint64_t *from, uint64_t *to)
{
	uint64_t end = (file->inode.attr.size + PAGE - 1) / PAGE;

	*from = below(3) && end < FILE_PAGES ? end : below(FILE_PAGES);
	*to = *from + 1 + below(below(8) ? 64 : 2000);
	if (*to > FILE_PAGES)
		*to = FILE_PAGES;
}

static void step_allocate(struct file *file, enum extent_reserve reserve)
{
	uint64_t from, to, size;
	int result;

	pick_range(file, &from, &to);
	size = to * PAGE - below(VOLUME_PAGE_BYTES);
	result = extent_allocate(volume, &file->inode, from * PAGE, size - from * PAGE, reserve);
	judge(result);
	if (result == -ENOSPC && !is_excused)
		ck_assert_uint_gt(count_any(file, from, to), free_pages());
	if (result != 0)
		return;
	raise_state(file, from, to, TAKEN);
	if (reserve == EXTENT_GROW || below(2)) {
		if (size > file->inode.attr.size)
			file->inode.attr.size = size;
	}
	if (reserve == EXTENT_GROW) {
		extent_mark_written(volume, &file->inode, from * PAGE, size - from * PAGE);
		raise_state(file, from, to, WRITTEN);
	}
}

static void step_zero(struct file *file)
{
	uint64_t from, to;

	pick_range(file, &from, &to);
	extent_mark_unwritten(volume, &file->inode, from * PAGE, (to - from) * PAGE);
	for (uint64_t page = from; page < to; page++)
		if (file->now[page] == WRITTEN)
			file->now[page] = TAKEN;
}

static void step_punch(struct file *file)
{
	struct inode_attr attr = file->inode.attr;
	uint64_t from, to;
	int result;

	pick_range(file, &from, &to);
	attr.mtime_ns++;
	result = extent_unmap(volume, &file->inode, from * PAGE, (to - from) * PAGE, &attr);
	judge(result);
	if (result != 0)
		return;
	memset(file->now + from, ANY, to - from);
	memset(file->stored + from, ANY, to - from);
	assert_hole(file, from, to);
	ck_assert_int_eq(file->inode.attr.mtime_ns, attr.mtime_ns);
}

static void step_truncate(struct file *file)
{
	struct inode_attr attr = file->inode.attr;
	uint64_t from;
	int result;

	attr.size = below(3) ? below(FILE_PAGES) * PAGE + below(4096) : below(100000);
	from = (attr.size + PAGE - 1) / PAGE;
	if (attr.size >= file->inode.attr.size) {
		file->inode.attr.size = attr.size;
		return;
	}
	result = extent_unmap(volume, &file->inode, from * PAGE, UINT64_MAX, &attr);
	judge(result);
	if (result != 0)
		return;
	memset(file->now + from, ANY, MAP_PAGES - from);
	memset(file->stored + from, ANY, MAP_PAGES - from);
	assert_hole(file, from, MAP_PAGES);
	ck_assert_uint_eq(small_volume_stored(&small, file->inode.ino).size, attr.size);
	file->stored_size = attr.size;
}

static void step_trim(struct file *file)
{
	uint64_t kept = kept_pages(file);
	bool wanted = extent_wants_trim(&file->inode);
	int result = extent_trim(volume, &file->inode);

	judge(result);
	if (result != 0 || !wanted)
		return;
	memset(file->now + kept, ANY, MAP_PAGES - kept);
	memset(file->stored + kept, ANY, MAP_PAGES - kept);
	assert_hole(file, kept, MAP_PAGES);
	ck_assert(!extent_wants_trim(&file->inode));
}

static int flush_in(struct store_txn *txn, void *user)
{
	struct file *file = user;
	int error = inode_put_record(txn, &file->inode, &file->inode.attr);

	return error != 0 ? error : extent_flush(volume, &file->inode, txn);
}

static int flush(struct file *file)
{
	int result = store_update(volume->store, flush_in, file);

	if (result == 0) {
		extent_flushed(&file->inode);
		memcpy(file->stored, file->now, sizeof(file->now));
		file->stored_size = file->inode.attr.size;
	}
	return result;
}

static void drop(struct file *file)
{
	extent_map_destroy(file->inode.map);
	file->inode.map = NULL;
	file->inode.attr = small_volume_stored(&small, file->inode.ino);
}

/* After a kill a page is as it was at the last flush, or as it was last. */
static void learn(struct file *file)
{
	uint64_t kept = kept_pages(file);

	for (uint64_t at = 0; at < MAP_PAGES * PAGE;) {
		struct extent_piece piece;

		ck_assert_int_ge(
			extent_lookup(volume, &file->inode, at, MAP_PAGES * PAGE - at, &piece, 1),
			1);
		for (uint64_t page = at / PAGE; page < (at + piece.length) / PAGE; page++) {
			bool is_written = piece.kind == EXTENT_WRITTEN;

			if (is_written != (file->now[page] == WRITTEN) &&
			    is_written != (file->stored[page] == WRITTEN))
				ck_abort_msg("page %llu is %d", (unsigned long long)page,
					     is_written);
			ck_assert(!is_written || page < kept);
			file->now[page] = is_written ? WRITTEN : ANY;
			if (piece.kind == EXTENT_UNWRITTEN && page < kept)
				file->now[page] = TAKEN;
		}
		at += piece.length;
	}
	memcpy(file->stored, file->now, sizeof(file->now));
}

static void step_kill(struct file *file)
{
	drop(file);
	learn(file);
}

static int reclaim_in(struct store_txn *txn, void *user)
{
	struct file *file = user;

	return extent_reclaim(volume, file->inode.ino, txn);
}

static void step_remove(struct file *file)
{
	uint64_t ino = file->inode.ino;
	int result;

	extent_map_destroy(file->inode.map);
	file->inode.map = NULL;
	do {
		result = store_shrink(volume->store, reclaim_in, file);
		judge(result);
	} while (result != 0);
	small_volume_create(&small, &file->inode, ino);
	memset(file->now, ANY, sizeof(file->now));
	memset(file->stored, ANY, sizeof(file->stored));
}

static void attach(uint32_t id)
{
	if (!small.regions[id].lost)
		small_volume_attach(&small, id, region_pages[id]);
}

static void step_servers(void)
{
	uint32_t id = 1 + below(REGIONS);

	if (small.regions[id].attached)
		small_volume_detach(&small, id);
	else
		attach(id);
	if (below(20) == 0)
		small_volume_lose(&small, 1 + below(REGIONS));
}

static void step_restart(void)
{
	for (unsigned i = 0; i < FILES; i++) {
		ck_assert_int_eq(flush(&files[i]), 0);
		drop(&files[i]);
	}
	small_volume_reopen(&small);
	if (below(2))
		step_remove(&files[below(FILES)]); /* before any server is there */
	for (uint32_t id = 1; id <= REGIONS; id++)
		attach(id);
}

static void step(void)
{
	struct file *file = &files[below(FILES)];
	unsigned kind = below(100);

	if (below(4) == 0 && kind < 84)
		arm();
	if (kind < 38)
		step_allocate(file, EXTENT_GROW);
	else if (kind < 48)
		step_allocate(file, EXTENT_EXACT);
	else if (kind < 62)
		step_punch(file);
	else if (kind < 70)
		step_truncate(file);
	else if (kind < 76)
		step_trim(file);
	else if (kind < 84)
		judge(flush(file));
	else if (kind < 90)
		step_zero(file);
	else if (kind < 93)
		step_kill(file);
	else if (kind < 96)
		step_servers();
	else if (kind < 98)
		step_remove(file);
	else if (below(3) == 0)
		step_restart();
	faulty_store_disarm(volume->store);
}

static void setup(void)
{
	files = calloc(FILES, sizeof(*files));
	small_volume_init(&small, 1 << 20);
	for (unsigned i = 0; i < FILES; i++)
		small_volume_create(&small, &files[i].inode, i + 1);
}

static void teardown(void)
{
	for (unsigned i = 0; i < FILES; i++)
		extent_map_destroy(files[i].inode.map);
	small_volume_finish(&small);
	free(files);
}

START_TEST(random_changes_agree_with_plain_arrays)
{
	seed = 77 * (unsigned)_i + 1;
	for (uint32_t id = 1; id <= REGIONS; id++) {
		region_pages[id] = 500 + below(_i % 2 ? 3000 : POOL_PAGES - 500);
		attach(id);
	}
	for (unsigned i = 0; i < 400; i++) {
		step();
		if (i % 10 == 9)
			check_all();
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("extent model");
	TCase *tc = tcase_create("model");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 100);
	tcase_add_loop_test(tc, random_changes_agree_with_plain_arrays, 0, 8);
	suite_add_tcase(suite, tc);
	return run_suite(suite);
}
