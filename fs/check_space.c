/* SPDX-License-Identifier: Apache-2.0 */
/* Servers, extents and bitmaps. The extents say which pages are in use; the bitmaps have to say the
 * same. Pages of records that are to be deleted count as used until they are. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/checked.h"
#include "fs/check_parts.h"

#define REGION_PAGES_MAX (1ull << 34) /* 64 TiB: the largest pool that can be configured */

static uint64_t groups_of(uint64_t pages)
{
	return (pages + RECORD_GROUP_PAGES - 1) / RECORD_GROUP_PAGES;
}

static void report_unreadable(struct check *check, struct store_slice key)
{
	char text[CHECK_KEY_TEXT];

	check_report(check, CHECK_SERIOUS, false, "record %s cannot be read",
		     check_key_text(key, text));
}

/* --- Servers ---------------------------------------------------------------------------------- */

struct check_region *check_region_find(struct check *check, uint32_t id)
{
	for (size_t low = 0, high = check->region_count; low < high;) {
		size_t middle = low + (high - low) / 2;

		if (check->regions[middle].id == id)
			return &check->regions[middle];
		if (check->regions[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static int add_region(struct check *check, const char *url, uint32_t id, uint64_t pages)
{
	void *regions = check->regions;
	struct check_region *region;
	int error = check_grow(&regions, &check->region_room, check->region_count,
			       sizeof(*check->regions));

	check->regions = regions;
	if (error != 0)
		return error;
	if (id == 0 || id >= check->volume.region_next)
		check_report(check, CHECK_SERIOUS, false,
			     "server %s has region %" PRIu32 ", a number that was not given yet",
			     url, id);
	if (pages > REGION_PAGES_MAX) {
		check_report(check, CHECK_SERIOUS, false,
			     "server %s has region %" PRIu32 " of %" PRIu64
			     " pages: nothing is as large",
			     url, id, pages);
		return 0;
	}
	region = &check->regions[check->region_count];
	*region = (struct check_region){.id = id, .pages = pages};
	region->used = calloc(groups_of(pages), RECORD_GROUP_WORDS * sizeof(uint64_t));
	if (region->used == NULL)
		return -ENOMEM;
	check->region_count++;
	check->result->regions++;
	check->result->pages_total += pages;
	return 0;
}

static int visit_server(void *user, struct store_slice key, struct store_slice value)
{
	struct check *check = user;
	struct record_server_fields server;
	uint64_t number;
	int error = 0;

	if (record_parse_number(key, RECORD_SERVER, &number) != 0 ||
	    record_decode_server(value, &server) != 0) {
		report_unreadable(check, key);
		return 0;
	}
	if (number >= check->volume.server_next)
		check_report(check, CHECK_WRONG, false,
			     "server %s has number %" PRIu64 ", which was not given yet",
			     server.url, number);
	check->result->servers++;
	for (uint32_t i = 0; i < server.region_count && error == 0; i++)
		error = add_region(check, server.url, server.regions[i].id,
				   server.regions[i].length / VOLUME_PAGE_BYTES);
	return error;
}

static int compare_regions(const void *a, const void *b)
{
	const struct check_region *left = a, *right = b;

	return (left->id > right->id) - (left->id < right->id);
}

static int check_servers(struct check *check)
{
	int error = check_scan(check, RECORD_SERVER, visit_server);

	if (error != 0 || check->region_count == 0)
		return error;
	qsort(check->regions, check->region_count, sizeof(*check->regions), compare_regions);
	for (size_t i = 1; i < check->region_count; i++) {
		if (check->regions[i].id == check->regions[i - 1].id)
			check_report(check, CHECK_SERIOUS, false,
				     "region %" PRIu32 " belongs to more than one server",
				     check->regions[i].id);
	}
	return 0;
}

/* --- Extents ---------------------------------------------------------------------------------- */

/* Returns how many pages were used already. */
static uint64_t use_pages(struct check_region *region, uint64_t first, uint64_t count)
{
	uint64_t twice = 0;

	for (uint64_t page = first; page < first + count; page++) {
		uint64_t bit = 1ull << (page % 64);

		twice += (region->used[page / 64] & bit) != 0;
		region->used[page / 64] |= bit;
	}
	return twice;
}

/* In a region that some server has. */
static void check_extent(struct check *check, uint64_t ino, struct check_region *region,
			 const struct record_extent *extent)
{
	uint64_t twice;

	if (!rmem_range_ok(extent->region_page, extent->pages, region->pages)) {
		check_report(check, CHECK_SERIOUS, false,
			     "inode %" PRIu64 " has pages beyond the end of region %" PRIu32, ino,
			     extent->region);
		return;
	}
	twice = use_pages(region, extent->region_page, extent->pages);
	region->twice += twice;
	check->result->pages_used += extent->pages - twice;
	if (twice > 0)
		check_report(check, CHECK_SERIOUS, false,
			     "inode %" PRIu64 " has %" PRIu64 " pages at page %" PRIu64
			     " of region %" PRIu32 " that belong to another file too",
			     ino, twice, extent->region_page, extent->region);
}

static int visit_chunk(void *user, struct store_slice key, struct store_slice value)
{
	struct check *check = user;
	struct record_chunk_view view;
	struct check_region *region;
	struct check_inode *inode;
	uint64_t ino, chunk;

	if (record_parse_pair(key, RECORD_CHUNK, &ino, &chunk) != 0 ||
	    record_decode_chunk(value, &view) != 0) {
		report_unreadable(check, key);
		return 0;
	}
	for (uint32_t i = 0; i < view.extent_count; i++) {
		struct record_extent extent;

		record_chunk_extent_at(&view, i, &extent);
		region = check_region_find(check, extent.region);
		if (extent.region == 0 || extent.region >= check->volume.region_next)
			check_report(check, CHECK_SERIOUS, false,
				     "inode %" PRIu64 " has pages in region %" PRIu32
				     ", which never existed",
				     ino, extent.region);
		else if (region != NULL)
			check_extent(check, ino, region, &extent);
		else if (check_loss_add(check, ino, chunk, &view, &extent) != 0)
			return -ENOMEM;
	}
	inode = check_inode_find(check, ino);
	if (inode != NULL && S_ISREG(inode->mode)) {
		inode->pages_found += view.pages;
		if (chunk > (VOLUME_SIZE_MAX - 1) / VOLUME_CHUNK_BYTES)
			check_report(check, CHECK_SERIOUS, false,
				     "inode %" PRIu64 " has extents beyond the largest offset",
				     ino);
		return 0;
	}
	check_report(check, CHECK_LEAK, true,
		     "%" PRIu32 " pages belong to inode %" PRIu64 ", which has no use for them",
		     view.pages, ino);
	check_fix_key(check, FIX_DELETE_KEY, key, 0, 0);
	return check->error;
}

/* --- Bitmaps ---------------------------------------------------------------------------------- */

struct difference {
	uint64_t leaked, missing; /* pages */
};

static int compare_group(struct check *check, struct check_region *region, uint64_t group,
			 struct difference *difference)
{
	const uint64_t *used = region->used + group * RECORD_GROUP_WORDS;
	uint64_t words[RECORD_GROUP_WORDS] = {0};
	struct difference before = *difference;
	struct record_key buffer;
	struct store_slice key = record_key_pair(&buffer, RECORD_BITMAP, region->id, group), value;
	int error = store_get(check->txn, key, &value);

	if (error != 0 && error != -ENOENT)
		return error;
	if (error == 0 && record_decode_bitmap(value, words) != 0) {
		char text[CHECK_KEY_TEXT];

		memset(words, 0, sizeof(words));
		check_report(check, CHECK_SERIOUS, region->twice == 0, "record %s cannot be read",
			     check_key_text(key, text));
		if (region->twice == 0)
			check_fix_add(check, FIX_BITMAP, region->id, group);
		return 0;
	}
	for (unsigned i = 0; i < RECORD_GROUP_WORDS; i++) {
		difference->leaked += (unsigned)__builtin_popcountll(words[i] & ~used[i]);
		difference->missing += (unsigned)__builtin_popcountll(used[i] & ~words[i]);
	}
	if (difference->leaked != before.leaked || difference->missing != before.missing)
		check_fix_add(check, FIX_BITMAP, region->id, group);
	return 0;
}

static int check_bitmaps(struct check *check, struct check_region *region)
{
	struct difference difference = {0};
	uint64_t groups = groups_of(region->pages);
	int error = 0;

	for (uint64_t group = 0; group < groups && error == 0; group++)
		error = compare_group(check, region, group, &difference);
	if (difference.leaked > 0)
		check_report(check, CHECK_LEAK, true,
			     "%" PRIu64 " pages of region %" PRIu32
			     " are taken but belong to no file",
			     difference.leaked, region->id);
	if (difference.missing > 0)
		check_report(check, CHECK_SERIOUS, true,
			     "%" PRIu64 " pages of region %" PRIu32
			     " belong to files but count as free: they could be given away",
			     difference.missing, region->id);
	return error;
}

/* Bitmaps of what no server has. */
static int visit_bitmap(void *user, struct store_slice key, struct store_slice value)
{
	struct check *check = user;
	struct check_region *region;
	uint64_t id, group;
	char text[CHECK_KEY_TEXT];

	(void)value;
	if (record_parse_pair(key, RECORD_BITMAP, &id, &group) != 0 || id > UINT32_MAX) {
		region = NULL;
		id = 0;
	} else {
		region = check_region_find(check, (uint32_t)id);
	}
	if (region != NULL && group < groups_of(region->pages))
		return 0;
	if (region == NULL && id != 0 && id < check->volume.region_next)
		check_report(check, CHECK_NOTE, true,
			     "the list of pages in use of memory that a server has lost is still "
			     "there (record %s); the next mount removes it, and nothing is to do",
			     check_key_text(key, text));
	else
		check_report(check, CHECK_LEAK, true, "record %s is a bitmap of no server's memory",
			     check_key_text(key, text));
	check_fix_key(check, FIX_DELETE_KEY, key, 0, 0);
	return check->error;
}

int check_space(struct check *check)
{
	int error = check_servers(check);

	if (error == 0)
		error = check_scan(check, RECORD_CHUNK, visit_chunk);
	if (error == 0)
		error = check_scan(check, RECORD_BITMAP, visit_bitmap);
	for (size_t i = 0; i < check->region_count && error == 0; i++)
		error = check_bitmaps(check, &check->regions[i]);
	return error;
}
