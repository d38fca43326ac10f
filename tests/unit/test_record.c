/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/record.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/inode.h"
#include "tests/support/runner.h"

static int compare(struct store_slice a, struct store_slice b)
{
	int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);

	if (order != 0)
		return order;
	return a.size < b.size ? -1 : a.size > b.size;
}

START_TEST(keys_sort_by_number_not_by_its_bytes_in_memory)
{
	static const uint64_t numbers[] = {0,	    1,		255,	    256,       257,
					   1 << 20, UINT32_MAX, 1ull << 40, UINT64_MAX};
	struct record_key a, b;

	for (unsigned i = 1; i < RMEM_COUNT_OF(numbers); i++) {
		ck_assert_int_lt(compare(record_key_number(&a, RECORD_INODE, numbers[i - 1]),
					 record_key_number(&b, RECORD_INODE, numbers[i])),
				 0);
		ck_assert_int_lt(compare(record_key_pair(&a, RECORD_CHUNK, 7, numbers[i - 1]),
					 record_key_pair(&b, RECORD_CHUNK, 7, numbers[i])),
				 0);
	}
}
END_TEST

START_TEST(keys_come_apart_as_they_were_made)
{
	struct record_key key;
	struct store_slice name;
	uint64_t number, second;

	ck_assert_int_eq(record_parse_number(record_key_number(&key, RECORD_INODE, 1ull << 60),
					     RECORD_INODE, &number),
			 0);
	ck_assert_uint_eq(number, 1ull << 60);
	ck_assert_int_eq(record_parse_pair(record_key_pair(&key, RECORD_ORPHAN, 3, 0x0102030405),
					   RECORD_ORPHAN, &number, &second),
			 0);
	ck_assert_uint_eq(number, 3);
	ck_assert_uint_eq(second, 0x0102030405);
	ck_assert_int_eq(record_parse_name(record_key_name(&key, RECORD_DIRENT, 9, "\xff\x01z", 3),
					   RECORD_DIRENT, &number, &name),
			 0);
	ck_assert_uint_eq(number, 9);
	ck_assert_uint_eq(name.size, 3);
	ck_assert_mem_eq(name.data, "\xff\x01z", 3);
}
END_TEST

START_TEST(longest_name_fits_a_key)
{
	char name[VOLUME_NAME_MAX];
	struct record_key key;
	struct store_slice slice, parsed;
	uint64_t number;

	memset(name, 'n', sizeof(name));
	slice = record_key_name(&key, RECORD_XATTR, 1, name, sizeof(name));
	ck_assert_uint_eq(slice.size, RECORD_KEY_MAX);
	ck_assert_int_eq(record_parse_name(slice, RECORD_XATTR, &number, &parsed), 0);
	ck_assert_uint_eq(parsed.size, sizeof(name));
}
END_TEST

START_TEST(foreign_keys_are_refused)
{
	static const char *const names[] = {"a/b", "/", "a\0b"};
	struct record_key key;
	struct store_slice slice, name;
	uint64_t number, second;

	slice = record_key_number(&key, RECORD_INODE, 1);
	ck_assert_int_eq(record_parse_number(slice, RECORD_SERVER, &number), -EIO);
	ck_assert_int_eq(record_parse_pair(slice, RECORD_INODE, &number, &second), -EIO);
	slice.size--;
	ck_assert_int_eq(record_parse_number(slice, RECORD_INODE, &number), -EIO);
	slice.size = 0;
	ck_assert_int_eq(record_parse_number(slice, RECORD_INODE, &number), -EIO);
	slice = record_key_name(&key, RECORD_DIRENT, 1, "", 0);
	ck_assert_int_eq(record_parse_name(slice, RECORD_DIRENT, &number, &name), -EIO);
	for (unsigned i = 0; i < RMEM_COUNT_OF(names); i++) {
		slice = record_key_name(&key, RECORD_DIRENT, 1, names[i],
					i == 2	 ? 3
					: i == 0 ? 3
						 : 1);
		ck_assert_int_eq(record_parse_name(slice, RECORD_DIRENT, &number, &name), -EIO);
	}
}
END_TEST

static const struct inode_attr sample_attr = {
	.mode = S_IFREG | 04755,
	.uid = 1,
	.gid = 2,
	.nlink = 3,
	.rdev = 4,
	.generation = 5,
	.size = VOLUME_SIZE_MAX,
	.pages = 7,
	.reserved_end = 8,
	.atime_ns = -9,
	.mtime_ns = 10,
	.ctime_ns = 11,
	.btime_ns = INT64_MIN,
	.parent = 12,
	.version = 13,
	.xattr_count = 14,
};

START_TEST(inode_comes_back_as_it_was)
{
	struct record_inode value;
	struct inode_attr attr;

	ck_assert_int_eq(record_decode_inode(record_encode_inode(&value, &sample_attr), &attr), 0);
	ck_assert_uint_eq(attr.mode, sample_attr.mode);
	ck_assert_uint_eq(attr.uid, 1);
	ck_assert_uint_eq(attr.gid, 2);
	ck_assert_uint_eq(attr.nlink, 3);
	ck_assert_uint_eq(attr.rdev, 4);
	ck_assert_uint_eq(attr.generation, 5);
	ck_assert_uint_eq(attr.size, VOLUME_SIZE_MAX);
	ck_assert_uint_eq(attr.pages, 7);
	ck_assert_uint_eq(attr.reserved_end, 8);
	ck_assert_int_eq(attr.atime_ns, -9);
	ck_assert_int_eq(attr.mtime_ns, 10);
	ck_assert_int_eq(attr.ctime_ns, 11);
	ck_assert_int_eq(attr.btime_ns, INT64_MIN);
	ck_assert_uint_eq(attr.parent, 12);
	ck_assert_uint_eq(attr.version, 13);
	ck_assert_uint_eq(attr.xattr_count, 14);
}
END_TEST

START_TEST(inode_with_impossible_fields_is_refused)
{
	struct inode_attr attr = sample_attr;
	struct record_inode value;

	attr.mode = 0644; /* no type */
	ck_assert_int_eq(record_decode_inode(record_encode_inode(&value, &attr), &attr), -EIO);
	attr = sample_attr;
	attr.size = VOLUME_SIZE_MAX + 1;
	ck_assert_int_eq(record_decode_inode(record_encode_inode(&value, &attr), &attr), -EIO);
	attr = sample_attr;
	attr.pages = UINT64_MAX;
	ck_assert_int_eq(record_decode_inode(record_encode_inode(&value, &attr), &attr), -EIO);
}
END_TEST

START_TEST(numbers_lie_little_endian_in_values)
{
	struct record_dirent value;
	static const uint8_t expected[16] = {'D', 1, 0, 0, 8, 0, 0, 0, 0x15, 0xcd, 0x5b, 7};
	struct store_slice slice = record_encode_dirent(&value, 123456789, DT_REG);

	ck_assert_uint_eq(slice.size, sizeof(expected));
	ck_assert_mem_eq(slice.data, expected, sizeof(expected));
}
END_TEST

START_TEST(small_records_come_back_and_are_checked)
{
	struct record_dirent dirent;
	struct record_number number;
	char target[RECORD_SYMLINK_MAX + 1], long_target[RECORD_SYMLINK_MAX + 1];
	struct store_slice slice;
	uint64_t ino;
	uint32_t type;

	ck_assert_int_eq(
		record_decode_dirent(record_encode_dirent(&dirent, 42, DT_LNK), &ino, &type), 0);
	ck_assert_uint_eq(ino, 42);
	ck_assert_uint_eq(type, DT_LNK);
	slice = record_encode_dirent(&dirent, 0, DT_LNK);
	ck_assert_int_eq(record_decode_dirent(slice, &ino, &type), -EIO);
	slice = record_encode_dirent(&dirent, 1, 3);
	ck_assert_int_eq(record_decode_dirent(slice, &ino, &type), -EIO);
	slice = record_encode_number(&number, RECORD_NUMBERS, UINT64_MAX);
	ck_assert_int_eq(record_decode_number(slice, RECORD_NUMBERS, &ino), 0);
	ck_assert_uint_eq(ino, UINT64_MAX);
	ck_assert_int_eq(record_decode_number(slice, RECORD_ORPHAN, &ino), -EIO);
	ck_assert_int_eq(record_decode_symlink((struct store_slice){"../x", 4}, target), 0);
	ck_assert_str_eq(target, "../x");
	ck_assert_int_eq(record_decode_symlink((struct store_slice){"", 0}, target), -EIO);
	ck_assert_int_eq(record_decode_symlink((struct store_slice){"a\0b", 3}, target), -EIO);
	memset(long_target, 't', sizeof(long_target));
	slice = (struct store_slice){long_target, sizeof(long_target)};
	ck_assert_int_eq(record_decode_symlink(slice, target), -EIO);
}
END_TEST

START_TEST(volume_of_another_format_is_told_from_a_broken_one)
{
	struct record_volume_fields fields = {.uuid = {1, 2, 3},
					      .created_ns = 4,
					      .region_next = 5,
					      .server_next = 6,
					      .mount_next = 7};
	struct record_volume_fields out;
	struct record_volume value;
	struct store_slice slice = record_encode_volume(&value, &fields);

	ck_assert_int_eq(record_decode_volume(slice, &out), 0);
	ck_assert_mem_eq(out.uuid, fields.uuid, 16);
	ck_assert_int_eq(out.created_ns, 4);
	ck_assert_uint_eq(out.region_next, 5);
	ck_assert_uint_eq(out.server_next, 6);
	ck_assert_uint_eq(out.mount_next, 7);
	value.format = htole32(RECORD_FORMAT + 1);
	ck_assert_int_eq(record_decode_volume(slice, &out), -EPROTO);
	slice.size -= 50;
	ck_assert_int_eq(record_decode_volume(slice, &out), -EPROTO);
	slice = record_encode_volume(&value, &fields);
	value.page_bytes = htole32(65536);
	ck_assert_int_eq(record_decode_volume(slice, &out), -EPROTO);
	value.page_bytes = htole32(4096);
	slice.size--;
	ck_assert_int_eq(record_decode_volume(slice, &out), -EIO);
}
END_TEST

START_TEST(server_comes_back_with_as_many_regions_as_it_has)
{
	static const uint32_t counts[] = {0, 1, RMEM_REGIONS_MAX};
	struct record_server_fields fields, out;
	struct record_server value;

	for (unsigned i = 0; i < RMEM_COUNT_OF(counts); i++) {
		fields = (struct record_server_fields){
			.url = "shm:/run/x", .incarnation = 77, .region_count = counts[i]};
		for (uint32_t r = 0; r < counts[i]; r++) {
			fields.regions[r].id = 100 + r;
			fields.regions[r].length = (1ull << 30) + r;
		}
		ck_assert_int_eq(record_decode_server(record_encode_server(&value, &fields), &out),
				 0);
		ck_assert_str_eq(out.url, "shm:/run/x");
		ck_assert_uint_eq(out.incarnation, 77);
		ck_assert_uint_eq(out.region_count, counts[i]);
		for (uint32_t r = 0; r < counts[i]; r++) {
			ck_assert_uint_eq(out.regions[r].id, 100 + r);
			ck_assert_uint_eq(out.regions[r].length, (1ull << 30) + r);
		}
	}
}
END_TEST

START_TEST(server_with_a_wrong_count_or_an_endless_url_is_refused)
{
	struct record_server_fields fields = {.url = "shm:/x", .region_count = 2}, out;
	struct record_server value;
	struct store_slice slice = record_encode_server(&value, &fields);

	value.region_count = htole32(3);
	ck_assert_int_eq(record_decode_server(slice, &out), -EIO);
	value.region_count = htole32(UINT32_MAX);
	ck_assert_int_eq(record_decode_server(slice, &out), -EIO);
	value.region_count = htole32(2);
	memset(value.url, 'u', sizeof(value.url));
	ck_assert_int_eq(record_decode_server(slice, &out), -EIO);
}
END_TEST

START_TEST(mount_session_comes_back)
{
	struct record_mount_fields fields = {.pid = 4711, .started_ns = 5, .boot_id = {9}}, out;
	struct record_mount value;

	strcpy(fields.host, "host");
	memset(fields.mountpoint, 'm', sizeof(fields.mountpoint) - 1);
	ck_assert_int_eq(record_decode_mount(record_encode_mount(&value, &fields), &out), 0);
	ck_assert_uint_eq(out.pid, 4711);
	ck_assert_int_eq(out.started_ns, 5);
	ck_assert_mem_eq(out.boot_id, fields.boot_id, 16);
	ck_assert_str_eq(out.host, "host");
	ck_assert_str_eq(out.mountpoint, fields.mountpoint);
}
END_TEST

START_TEST(bitmap_is_stored_as_far_as_its_last_bit)
{
	static struct record_bitmap value;
	uint64_t words[RECORD_GROUP_WORDS] = {0}, out[RECORD_GROUP_WORDS];
	struct store_slice slice = record_encode_bitmap(&value, words);

	ck_assert_uint_eq(slice.size, 8);
	words[2] = 1ull << 63;
	slice = record_encode_bitmap(&value, words);
	ck_assert_uint_eq(slice.size, 8 + 3 * 8);
	memset(out, 0xff, sizeof(out));
	ck_assert_int_eq(record_decode_bitmap(slice, out), 0);
	ck_assert_mem_eq(out, words, sizeof(words));
	memset(words, 0xff, sizeof(words));
	slice = record_encode_bitmap(&value, words);
	ck_assert_uint_eq(slice.size, sizeof(value));
	ck_assert_int_eq(record_decode_bitmap(slice, out), 0);
	ck_assert_mem_eq(out, words, sizeof(words));
	slice.size -= 8;
	ck_assert_int_eq(record_decode_bitmap(slice, out), -EIO);
}
END_TEST

/* Extents of a chunk that touches its first and last page. */
static const struct record_extent sample_extents[] = {
	{0, 1, 5, 1ull << 40},
	{1, 63, 6, 0},
	{1000, 200, 5, 77},
	{RECORD_CHUNK_PAGES - 1, 1, UINT32_MAX, RECORD_REGION_PAGES_MAX - 1},
};

static struct store_slice sample_chunk(void *buffer, const uint64_t *written)
{
	return record_encode_chunk(buffer, sample_extents, RMEM_COUNT_OF(sample_extents), written);
}

START_TEST(chunk_comes_back_with_its_extents_and_written_pages)
{
	uint64_t written[RECORD_CHUNK_WORDS] = {0};
	void *buffer = malloc(record_chunk_bytes(RMEM_COUNT_OF(sample_extents)));
	struct record_chunk_view view;
	struct record_extent extent;

	written[0] = 3;
	written[1000 / 64] = 1ull << 1000 % 64;
	ck_assert_int_eq(record_decode_chunk(sample_chunk(buffer, written), &view), 0);
	ck_assert_uint_eq(view.extent_count, RMEM_COUNT_OF(sample_extents));
	ck_assert_uint_eq(view.pages, 265);
	ck_assert(!view.all_written);
	for (uint32_t i = 0; i < view.extent_count; i++) {
		record_chunk_extent_at(&view, i, &extent);
		ck_assert_uint_eq(extent.page, sample_extents[i].page);
		ck_assert_uint_eq(extent.pages, sample_extents[i].pages);
		ck_assert_uint_eq(extent.region, sample_extents[i].region);
		ck_assert_uint_eq(extent.region_page, sample_extents[i].region_page);
	}
	for (uint32_t i = 0; i < RECORD_CHUNK_WORDS; i++)
		ck_assert_uint_eq(record_chunk_written_word(&view, i), written[i]);
	ck_assert_int_eq(record_decode_chunk(sample_chunk(buffer, NULL), &view), 0);
	ck_assert(view.all_written);
	free(buffer);
}
END_TEST

START_TEST(chunk_with_unsound_extents_is_refused)
{
	static const struct record_extent unsound[][2] = {
		{{5, 2, 1, 0}, {6, 1, 1, 9}},		       /* overlap */
		{{6, 1, 1, 0}, {5, 1, 1, 9}},		       /* order */
		{{5, 0, 1, 0}, {6, 1, 1, 9}},		       /* empty */
		{{5, 1, 1, 0}, {RECORD_CHUNK_PAGES, 1, 1, 9}}, /* outside */
		{{5, 1, 1, 0}, {16000, 385, 1, 9}},	       /* past the end */
	};
	struct record_chunk_view view;
	void *buffer = malloc(record_chunk_bytes(2));

	for (unsigned i = 0; i < RMEM_COUNT_OF(unsound); i++)
		ck_assert_int_eq(record_decode_chunk(
					 record_encode_chunk(buffer, unsound[i], 2, NULL), &view),
				 -EIO);
	free(buffer);
}
END_TEST

START_TEST(chunk_with_a_written_page_outside_its_extents_is_refused)
{
	uint64_t written[RECORD_CHUNK_WORDS] = {0};
	void *buffer = malloc(record_chunk_bytes(RMEM_COUNT_OF(sample_extents)));
	struct record_chunk_view view;

	written[1] = 1; /* page 64 */
	ck_assert_int_eq(record_decode_chunk(sample_chunk(buffer, written), &view), -EIO);
	written[1] = 0;
	written[RECORD_CHUNK_WORDS - 1] = 3ull << 62;
	ck_assert_int_eq(record_decode_chunk(sample_chunk(buffer, written), &view), -EIO);
	written[RECORD_CHUNK_WORDS - 1] = 1ull << 63;
	ck_assert_int_eq(record_decode_chunk(sample_chunk(buffer, written), &view), 0);
	free(buffer);
}
END_TEST

/* Decodes what was damaged in every way we know; none may crash (under ASan: read outside). */
static void decode_all(struct store_slice value)
{
	static uint64_t words[RECORD_GROUP_WORDS];
	static char target[RECORD_SYMLINK_MAX + 1];
	static struct record_server_fields server;
	static struct record_mount_fields mount;
	struct record_volume_fields volume;
	struct record_chunk_view view;
	struct record_extent extent;
	struct inode_attr attr;
	uint64_t number;
	uint32_t type;

	(void)!record_decode_bitmap(value, words);
	(void)!record_decode_symlink(value, target);
	(void)!record_decode_server(value, &server);
	(void)!record_decode_mount(value, &mount);
	(void)!record_decode_volume(value, &volume);
	(void)!record_decode_inode(value, &attr);
	(void)!record_decode_dirent(value, &number, &type);
	(void)!record_decode_number(value, RECORD_NUMBERS, &number);
	if (record_decode_chunk(value, &view) != 0)
		return;
	for (uint32_t i = 0; i < view.extent_count; i++) {
		record_chunk_extent_at(&view, i, &extent);
		ck_assert_uint_le(extent.page + extent.pages, RECORD_CHUNK_PAGES);
	}
}

/* Cuts and flips copies of `value`, each in memory of just its size. */
static void damage(struct store_slice value, unsigned *seed)
{
	for (unsigned round = 0; round < 2000; round++) {
		size_t size = round % 2 ? value.size : (size_t)rand_r(seed) % (value.size + 1);
		uint8_t *copy = malloc(size + (size == 0));

		memcpy(copy, value.data, size);
		for (unsigned flips = (unsigned)rand_r(seed) % 4; size > 0 && flips > 0; flips--)
			copy[(size_t)rand_r(seed) % size] ^= (uint8_t)(1 << rand_r(seed) % 8);
		decode_all((struct store_slice){copy, size});
		free(copy);
	}
}

START_TEST(damaged_values_never_crash_a_decoder)
{
	static struct record_bitmap bitmap;
	struct record_server_fields server = {.url = "shm:/x", .region_count = 3};
	struct record_mount_fields mount = {.pid = 1};
	uint64_t words[RECORD_GROUP_WORDS] = {[9] = 5}, written[RECORD_CHUNK_WORDS] = {1};
	void *buffer = malloc(record_chunk_bytes(RMEM_COUNT_OF(sample_extents)));
	struct record_server server_value;
	struct record_mount mount_value;
	struct record_inode inode_value;
	struct record_dirent dirent_value;
	unsigned seed = 1;

	damage(record_encode_bitmap(&bitmap, words), &seed);
	damage(record_encode_server(&server_value, &server), &seed);
	damage(record_encode_mount(&mount_value, &mount), &seed);
	damage(record_encode_inode(&inode_value, &sample_attr), &seed);
	damage(record_encode_dirent(&dirent_value, 1, DT_DIR), &seed);
	damage(sample_chunk(buffer, NULL), &seed);
	damage(sample_chunk(buffer, written), &seed);
	free(buffer);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("record");
	TCase *tc = tcase_create("record");

	tcase_add_test(tc, keys_sort_by_number_not_by_its_bytes_in_memory);
	tcase_add_test(tc, keys_come_apart_as_they_were_made);
	tcase_add_test(tc, longest_name_fits_a_key);
	tcase_add_test(tc, foreign_keys_are_refused);
	tcase_add_test(tc, inode_comes_back_as_it_was);
	tcase_add_test(tc, inode_with_impossible_fields_is_refused);
	tcase_add_test(tc, numbers_lie_little_endian_in_values);
	tcase_add_test(tc, small_records_come_back_and_are_checked);
	tcase_add_test(tc, volume_of_another_format_is_told_from_a_broken_one);
	tcase_add_test(tc, server_comes_back_with_as_many_regions_as_it_has);
	tcase_add_test(tc, server_with_a_wrong_count_or_an_endless_url_is_refused);
	tcase_add_test(tc, mount_session_comes_back);
	tcase_add_test(tc, bitmap_is_stored_as_far_as_its_last_bit);
	tcase_add_test(tc, chunk_comes_back_with_its_extents_and_written_pages);
	tcase_add_test(tc, chunk_with_unsound_extents_is_refused);
	tcase_add_test(tc, chunk_with_a_written_page_outside_its_extents_is_refused);
	tcase_add_test(tc, damaged_values_never_crash_a_decoder);
	suite_add_tcase(suite, tc);
	return run_suite(suite);
}
