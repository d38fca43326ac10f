/* SPDX-License-Identifier: Apache-2.0 */
/* The checker: a good store has nothing to report; each invariant that is broken is told, by name;
 * and a repair makes it clean where there is one right answer. */
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/check.h"
#include "fs/extent.h"
#include "fs/record.h"
#include "tests/support/runner.h"
#include "tests/support/volume_fixture.h"

#define POOL_BYTES (256ull << 20)

static struct volume_fixture fixture;
/* The good store: /a/b/file (pages, an attribute), /a/linked and /linked2, /link -> target. */
static uint64_t ino_a, ino_b, ino_file, ino_linked, ino_link;
#define INO_NONE 4000u /* below N, never used */

static void put_inode(struct inode *inode)
{
	inode_unref(fixture.volume, inode, 1);
}

static void write_pages(struct inode *inode, uint64_t offset, uint64_t length)
{
	pthread_mutex_lock(&inode->lock);
	ck_assert_int_eq(extent_allocate(fixture.volume, inode, offset, length, EXTENT_EXACT), 0);
	extent_mark_written(fixture.volume, inode, offset, length);
	inode_mark_dirty(fixture.volume, inode, INODE_DIRTY_ATTR | INODE_DIRTY_MAP);
	pthread_mutex_unlock(&inode->lock);
}

static void make_store(void)
{
	struct namespace_xattr xattr = {.name = "user.x", .value = "value", .size = 5};
	struct inode *root, *a, *b, *file, *linked, *link;

	volume_fixture_init(&fixture);
	volume_fixture_attach(&fixture, 0, "shm:/pool", 7, POOL_BYTES);
	root = volume_fixture_inode(&fixture, INODE_ROOT);
	a = volume_fixture_create(&fixture, root, "a", S_IFDIR | 0755);
	b = volume_fixture_create(&fixture, a, "b", S_IFDIR | 0755);
	file = volume_fixture_create(&fixture, b, "file", S_IFREG | 0644);
	linked = volume_fixture_create(&fixture, a, "linked", S_IFREG | 0644);
	link = volume_fixture_create(&fixture, root, "link", S_IFLNK | 0777);
	ck_assert_int_eq(namespace_link(fixture.volume, linked, root, "linked2"), 0);
	ck_assert_int_eq(namespace_setxattr(fixture.volume, file, &xattr), 0);
	write_pages(file, 0, 10 * VOLUME_PAGE_BYTES);
	write_pages(file, 1ull << 30, 5 * VOLUME_PAGE_BYTES);
	ino_a = a->ino;
	ino_b = b->ino;
	ino_file = file->ino;
	ino_linked = linked->ino;
	ino_link = link->ino;
	put_inode(root);
	put_inode(a);
	put_inode(b);
	put_inode(file);
	put_inode(linked);
	put_inode(link);
	volume_fixture_close(&fixture);
}

static void drop_store(void)
{
	volume_fixture_finish(&fixture);
}

/* --- Breaking --------------------------------------------------------------------------------- */

static struct store *open_raw(bool writing)
{
	struct store_options options = {
		.url = fixture.url,
		.read_only = !writing,
		.map_bytes = 256u << 20,
		.holder = "test",
	};
	struct store *store;
	struct rmem_error error = {0};

	ck_assert_msg(store_open(&options, &store, &error) == 0, "%s", error.text);
	return store;
}

struct edit {
	struct store_slice key, value; /* value.data NULL: delete */
};

static int apply_edit(struct store_txn *txn, void *user)
{
	const struct edit *edit = user;

	return edit->value.data == NULL ? store_delete(txn, edit->key)
					: store_put(txn, edit->key, edit->value);
}

static void edit(struct store_slice key, struct store_slice value)
{
	struct edit both = {.key = key, .value = value};
	struct store *store = open_raw(true);

	ck_assert_int_eq(store_update(store, apply_edit, &both), 0);
	store_close(store);
}

static void erase(struct store_slice key)
{
	edit(key, (struct store_slice){0});
}

/* Copies a value out of the store; its size. */
static size_t fetch(struct store_slice key, void *buffer, size_t room)
{
	struct store *store = open_raw(false);
	struct store_txn *txn;
	struct store_slice value;
	size_t size;

	ck_assert_int_eq(store_begin(store, STORE_READ, &txn), 0);
	ck_assert_int_eq(store_get(txn, key, &value), 0);
	ck_assert_uint_le(value.size, room);
	memcpy(buffer, value.data, value.size);
	size = value.size;
	store_abort(txn);
	store_close(store);
	return size;
}

static struct store_slice bytes(const void *data, size_t size)
{
	return (struct store_slice){.data = data, .size = size};
}

static struct record_key key_buffer;

static struct store_slice inode_key(uint64_t ino)
{
	return record_key_number(&key_buffer, RECORD_INODE, ino);
}

static struct store_slice entry_key(uint64_t directory, const char *name)
{
	return record_key_name(&key_buffer, RECORD_DIRENT, directory, name, strlen(name));
}

static struct inode_attr get_attr(uint64_t ino)
{
	struct record_inode stored;
	struct inode_attr attr;
	size_t size = fetch(inode_key(ino), &stored, sizeof(stored));

	ck_assert_int_eq(record_decode_inode(bytes(&stored, size), &attr), 0);
	return attr;
}

static void put_attr(uint64_t ino, const struct inode_attr *attr)
{
	struct record_inode value;
	struct store_slice encoded = record_encode_inode(&value, attr);

	edit(inode_key(ino), encoded);
}

static void put_entry(uint64_t directory, const char *name, uint64_t ino, uint32_t type)
{
	struct record_dirent value;
	struct store_slice encoded = record_encode_dirent(&value, ino, type);

	edit(entry_key(directory, name), encoded);
}

static void put_orphan(uint64_t mount, uint64_t ino)
{
	struct record_number value;
	struct store_slice encoded = record_encode_number(&value, RECORD_ORPHAN, 0);

	edit(record_key_pair(&key_buffer, RECORD_ORPHAN, mount, ino), encoded);
}

static void put_session(uint64_t mount)
{
	struct record_mount_fields fields = {.pid = 1, .host = "h", .mountpoint = "/m"};
	struct record_mount value;
	struct store_slice encoded = record_encode_mount(&value, &fields);

	edit(record_key_number(&key_buffer, RECORD_MOUNT, mount), encoded);
}

static void put_chunk(uint64_t ino, uint64_t chunk, uint32_t region, uint64_t page, uint32_t pages)
{
	struct record_extent extent = {.pages = pages, .region = region, .region_page = page};
	uint8_t buffer[4096];
	struct store_slice encoded = record_encode_chunk(buffer, &extent, 1, NULL);

	edit(record_key_pair(&key_buffer, RECORD_CHUNK, ino, chunk), encoded);
}

static void change_bitmap(uint32_t region, unsigned word, uint64_t set, uint64_t clear)
{
	static struct record_bitmap stored, changed;
	uint64_t words[RECORD_GROUP_WORDS];
	size_t size = fetch(record_key_pair(&key_buffer, RECORD_BITMAP, region, 0), &stored,
			    sizeof(stored));

	ck_assert_int_eq(record_decode_bitmap(bytes(&stored, size), words), 0);
	words[word] = (words[word] | set) & ~clear;
	struct store_slice encoded = record_encode_bitmap(&changed, words);
	edit(record_key_pair(&key_buffer, RECORD_BITMAP, region, 0), encoded);
}

/* The first extent of the file. */
static struct record_extent first_extent(void)
{
	uint8_t buffer[4096];
	struct record_chunk_view view;
	struct record_extent extent;
	size_t size = fetch(record_key_pair(&key_buffer, RECORD_CHUNK, ino_file, 0), buffer,
			    sizeof(buffer));

	ck_assert_int_eq(record_decode_chunk(bytes(buffer, size), &view), 0);
	record_chunk_extent_at(&view, 0, &extent);
	return extent;
}

/* --- Looking ---------------------------------------------------------------------------------- */

#define FINDINGS_MAX 20

struct findings {
	unsigned count;
	char text[FINDINGS_MAX][600];
};

static void collect(void *user, const struct check_finding *finding)
{
	struct findings *findings = user;

	ck_assert_uint_lt(findings->count, FINDINGS_MAX);
	snprintf(findings->text[findings->count++], sizeof(findings->text[0]), "%s: %s%s",
		 check_severity_name(finding->severity), finding->text,
		 finding->repairable ? "" : " (not repairable)");
}

static struct findings findings;
static struct check_result result;

static int look(bool repair)
{
	struct check_options options = {.report = collect, .user = &findings};
	int error;

	findings.count = 0;
	options.store = open_raw(repair);
	error = repair ? check_repair(&options, &result) : check_run(&options, &result);
	store_close(options.store);
	return error;
}

static bool was_found(const char *text)
{
	for (unsigned i = 0; i < findings.count; i++) {
		if (strcmp(findings.text[i], text) == 0)
			return true;
	}
	return false;
}

/* Exactly these findings, each with its severity. NULL ends the list. */
static void expect(const char *first, ...)
{
	va_list more;
	unsigned count = 0;

	ck_assert_int_eq(look(false), 0);
	va_start(more, first);
	for (const char *text = first; text != NULL; text = va_arg(more, const char *)) {
		count++;
		if (was_found(text))
			continue;
		for (unsigned i = 0; i < findings.count; i++)
			fprintf(stderr, "found: %s\n", findings.text[i]);
		ck_abort_msg("not found: %s", text);
	}
	va_end(more);
	for (unsigned i = count; i < findings.count; i++)
		fprintf(stderr, "found: %s\n", findings.text[i]);
	ck_assert_uint_eq(findings.count, count);
}

static const char *text(const char *format, ...) RMEM_PRINTF(1, 2);
static const char *text(const char *format, ...)
{
	static char buffers[8][300];
	static unsigned next;
	char *buffer = buffers[next++ % 8];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(buffer, sizeof(buffers[0]), format, arguments);
	va_end(arguments);
	return buffer;
}

#define U(number) ((unsigned long long)(number))

static void expect_repaired(void)
{
	ck_assert_int_eq(look(true), 0);
	ck_assert(check_is_clean(&result));
	ck_assert_uint_gt(result.repaired, 0);
	expect(NULL);
	ck_assert(check_is_clean(&result));
}

static void expect_not_repaired(void)
{
	ck_assert_int_eq(look(true), 0);
	ck_assert(!check_is_clean(&result));
}

/* --- A good store ----------------------------------------------------------------------------- */

START_TEST(a_good_store_has_no_findings)
{
	expect(NULL);
	ck_assert(check_is_clean(&result));
	ck_assert_uint_eq(result.inodes, 6);
	ck_assert_uint_eq(result.directories, 3);
	ck_assert_uint_eq(result.names, 6);
	ck_assert_uint_eq(result.orphans, 0);
	ck_assert_uint_eq(result.sessions, 0);
	ck_assert_uint_eq(result.servers, 1);
	ck_assert_uint_eq(result.regions, 1);
	ck_assert_uint_eq(result.pages_total, POOL_BYTES / VOLUME_PAGE_BYTES);
	ck_assert_uint_eq(result.pages_used, 15);
	ck_assert_uint_eq(result.pages_lost, 0);
}
END_TEST

START_TEST(a_repair_leaves_a_good_store_alone)
{
	ck_assert_int_eq(look(true), 0);
	ck_assert_uint_eq(result.repaired, 0);
	ck_assert_uint_eq(findings.count, 0);
	ck_assert(check_is_clean(&result));
}
END_TEST

/* --- Counts ----------------------------------------------------------------------------------- */

START_TEST(a_files_link_count_is_compared_with_its_names)
{
	struct inode_attr attr = get_attr(ino_linked);

	attr.nlink = 5;
	put_attr(ino_linked, &attr);
	expect(text("wrong: inode %llu says it has 5 links, but 2 were found", U(ino_linked)),
	       NULL);
	expect_repaired();
	ck_assert_uint_eq(get_attr(ino_linked).nlink, 2);
}
END_TEST

START_TEST(a_directorys_link_count_is_compared_with_its_children)
{
	struct inode_attr attr = get_attr(ino_a);

	attr.nlink = 2;
	put_attr(ino_a, &attr);
	expect(text("wrong: inode %llu says it has 2 links, but 3 were found", U(ino_a)), NULL);
	expect_repaired();
	ck_assert_uint_eq(get_attr(ino_a).nlink, 3);
}
END_TEST

START_TEST(a_directorys_parent_is_where_its_name_is)
{
	struct inode_attr attr = get_attr(ino_b);

	attr.parent = INODE_ROOT;
	put_attr(ino_b, &attr);
	expect(text("wrong: directory inode %llu says its parent is inode 1, but its name is in "
		    "inode %llu",
		    U(ino_b), U(ino_a)),
	       NULL);
	expect_repaired();
	ck_assert_uint_eq(get_attr(ino_b).parent, ino_a);
}
END_TEST

START_TEST(the_number_of_pages_is_compared_with_the_extents)
{
	struct inode_attr attr = get_attr(ino_file);

	attr.pages = 16;
	put_attr(ino_file, &attr);
	expect(text("wrong: inode %llu says it has 16 pages, but 15 were found", U(ino_file)),
	       NULL);
	expect_repaired();
	ck_assert_uint_eq(get_attr(ino_file).pages, 15);
}
END_TEST

START_TEST(the_number_of_attributes_is_compared_with_the_records)
{
	struct inode_attr attr = get_attr(ino_file);

	attr.xattr_count = 0;
	put_attr(ino_file, &attr);
	expect(text("wrong: inode %llu says it has 0 extended attributes, but 1 were found",
		    U(ino_file)),
	       NULL);
	expect_repaired();
	ck_assert_uint_eq(get_attr(ino_file).xattr_count, 1);
}
END_TEST

START_TEST(a_links_size_is_its_targets_length)
{
	struct inode_attr attr = get_attr(ino_link);

	attr.size = 3;
	put_attr(ino_link, &attr);
	expect(text("wrong: inode %llu says it has 3 bytes, but 6 were found", U(ino_link)), NULL);
	expect_repaired();
	ck_assert_uint_eq(get_attr(ino_link).size, 6);
}
END_TEST

/* --- Names ------------------------------------------------------------------------------------ */

START_TEST(a_file_without_a_name_gets_one_in_the_root)
{
	struct inode *root, *inode;

	erase(entry_key(ino_b, "file"));
	expect(text("serious: inode %llu has no name, but 1 links", U(ino_file)), NULL);
	expect_repaired();
	volume_fixture_open(&fixture);
	root = volume_fixture_inode(&fixture, INODE_ROOT);
	ck_assert_int_eq(
		namespace_lookup(fixture.volume, root, text("lost-%llu", U(ino_file)), &inode), 0);
	ck_assert_uint_eq(inode->ino, ino_file);
	put_inode(inode);
	put_inode(root);
}
END_TEST

START_TEST(a_directory_without_a_name_gets_one_in_the_root)
{
	erase(entry_key(ino_a, "b"));
	expect(text("serious: inode %llu has no name, but 2 links", U(ino_b)),
	       text("wrong: inode %llu says it has 3 links, but 2 were found", U(ino_a)), NULL);
	expect_repaired();
	ck_assert_uint_eq(get_attr(ino_b).parent, INODE_ROOT);
	ck_assert_uint_eq(get_attr(INODE_ROOT).nlink, 4);
}
END_TEST

START_TEST(a_name_that_stands_for_nothing_is_removed)
{
	erase(inode_key(ino_linked));
	expect(text("serious: name \"linked\" in directory inode %llu stands for inode %llu, which "
		    "does not exist",
		    U(ino_a), U(ino_linked)),
	       text("serious: name \"linked2\" in directory inode 1 stands for inode %llu, which "
		    "does not exist",
		    U(ino_linked)),
	       NULL);
	expect_repaired();
}
END_TEST

START_TEST(what_belongs_to_a_missing_inode_is_removed)
{
	erase(entry_key(ino_b, "file"));
	erase(inode_key(ino_file));
	expect(text("leak: an extended attribute belongs to inode %llu, which has no use for it",
		    U(ino_file)),
	       text("leak: 10 pages belong to inode %llu, which has no use for them", U(ino_file)),
	       text("leak: 5 pages belong to inode %llu, which has no use for them", U(ino_file)),
	       NULL);
	expect_repaired();
	ck_assert_uint_eq(result.pages_used, 0);
}
END_TEST

START_TEST(a_name_in_a_file_is_removed)
{
	put_entry(ino_file, "x", ino_linked, DT_REG);
	expect(text("wrong: name \"x\" of inode %llu is in inode %llu, which is not a directory",
		    U(ino_linked), U(ino_file)),
	       NULL);
	expect_repaired();
}
END_TEST

START_TEST(the_type_with_a_name_is_that_of_the_inode)
{
	put_entry(ino_b, "file", ino_file, DT_DIR);
	expect(text("wrong: name \"file\" in directory inode %llu says type 4, but inode %llu has "
		    "type 8",
		    U(ino_b), U(ino_file)),
	       NULL);
	expect_repaired();
}
END_TEST

START_TEST(strange_names_are_printed_safely)
{
	put_entry(ino_b, "\x1b[2J\n\xff", INO_NONE, DT_REG);
	expect(text("serious: name \"?[2J??\" in directory inode %llu stands for inode %u, which "
		    "does not exist",
		    U(ino_b), INO_NONE),
	       NULL);
	expect_repaired();
}
END_TEST

START_TEST(an_entry_that_cannot_be_read_is_serious)
{
	edit(entry_key(ino_a, "linked"), bytes("junk", 4));
	expect(text("serious: record D %llu \"linked\" cannot be read (not repairable)", U(ino_a)),
	       text("wrong: inode %llu says it has 2 links, but 1 were found", U(ino_linked)),
	       NULL);
	expect_not_repaired();
}
END_TEST

START_TEST(a_directory_has_one_name)
{
	put_entry(INODE_ROOT, "again", ino_b, DT_DIR);
	expect(text("serious: directory inode %llu has more names than it may (not repairable)",
		    U(ino_b)),
	       "wrong: inode 1 says it has 3 links, but 4 were found", NULL);
	expect_not_repaired();
}
END_TEST

START_TEST(a_directory_below_itself_is_out_of_reach)
{
	struct inode_attr a = get_attr(ino_a), b = get_attr(ino_b), root = get_attr(INODE_ROOT);

	/* /a/b is taken away from the root, and a put into b. */
	erase(entry_key(INODE_ROOT, "a"));
	put_entry(ino_b, "a", ino_a, DT_DIR);
	a.parent = ino_b;
	b.nlink++;
	root.nlink--;
	put_attr(ino_a, &a);
	put_attr(ino_b, &b);
	put_attr(INODE_ROOT, &root);
	expect(text("serious: directory inode %llu is below itself, out of reach of the root "
		    "(not repairable)",
		    U(ino_a)),
	       NULL);
	expect_not_repaired();
}
END_TEST

START_TEST(a_link_without_a_target_is_serious)
{
	erase(record_key_number(&key_buffer, RECORD_SYMLINK, ino_link));
	expect(text("serious: symbolic link inode %llu has no target (not repairable)",
		    U(ino_link)),
	       NULL);
	expect_not_repaired();
}
END_TEST

START_TEST(a_target_of_a_file_is_removed)
{
	edit(record_key_number(&key_buffer, RECORD_SYMLINK, ino_file), bytes("t", 1));
	expect(text("leak: a link's target belongs to inode %llu, which has no use for it",
		    U(ino_file)),
	       NULL);
	expect_repaired();
}
END_TEST

/* --- Sessions --------------------------------------------------------------------------------- */

static void lose_name(uint64_t session)
{
	struct inode_attr attr = get_attr(ino_file);

	attr.nlink = 0;
	put_attr(ino_file, &attr);
	erase(entry_key(ino_b, "file"));
	if (session != 0)
		put_orphan(session, ino_file);
}

START_TEST(what_a_killed_mount_left_is_no_fault)
{
	put_session(1);
	lose_name(1);
	expect("note: 1 mount sessions ended without unmounting; 1 deleted files of theirs go with "
	       "the next mount",
	       NULL);
	ck_assert(check_is_clean(&result));
	ck_assert_uint_eq(result.orphans, 1);
}
END_TEST

START_TEST(a_repair_ends_dead_sessions)
{
	put_session(1);
	lose_name(1);
	ck_assert_int_eq(look(true), 0);
	ck_assert(check_is_clean(&result));
	expect(NULL);
	ck_assert_uint_eq(result.sessions, 0);
	ck_assert_uint_eq(result.orphans, 0);
	ck_assert_uint_eq(result.inodes, 5);
	ck_assert_uint_eq(result.pages_used, 0);
}
END_TEST

START_TEST(a_deleted_file_of_no_session_is_a_leak)
{
	lose_name(1);
	expect(text("leak: inode %llu is kept for session 1, which does not exist", U(ino_file)),
	       NULL);
	expect_repaired();
	ck_assert_uint_eq(result.inodes, 5);
	ck_assert_uint_eq(result.pages_used, 0);
}
END_TEST

START_TEST(a_deleted_file_that_nobody_keeps_is_a_leak)
{
	lose_name(0);
	expect(text("leak: inode %llu has no name, and no session keeps it", U(ino_file)), NULL);
	expect_repaired();
	ck_assert_uint_eq(result.inodes, 5);
}
END_TEST

START_TEST(a_file_with_a_name_is_not_kept_as_deleted)
{
	put_session(1);
	put_orphan(1, ino_file);
	put_orphan(1, INO_NONE);
	ck_assert_int_eq(look(false), 0);
	ck_assert(was_found(text("wrong: session 1 keeps inode %llu as deleted, which has a name",
				 U(ino_file))));
	ck_assert(was_found(text("wrong: session 1 keeps inode %u as deleted, which does not exist",
				 INO_NONE)));
	expect_repaired();
	ck_assert_uint_eq(result.inodes, 6);
}
END_TEST

START_TEST(a_deleted_file_with_a_name_is_left_to_a_person)
{
	struct inode_attr attr = get_attr(ino_file);

	attr.nlink = 0;
	put_attr(ino_file, &attr);
	expect(text("serious: inode %llu counts as deleted but has 1 names (not repairable)",
		    U(ino_file)),
	       NULL);
	expect_not_repaired();
	ck_assert_uint_eq(result.inodes, 6);
}
END_TEST

/* --- Space ------------------------------------------------------------------------------------ */

START_TEST(pages_that_are_taken_for_nobody_are_freed)
{
	change_bitmap(first_extent().region, 100, 0xff, 0);
	expect(text("leak: 8 pages of region %u are taken but belong to no file",
		    first_extent().region),
	       NULL);
	expect_repaired();
}
END_TEST

START_TEST(pages_of_a_file_that_count_as_free_are_taken_again)
{
	struct record_extent extent = first_extent();

	change_bitmap(extent.region, (unsigned)(extent.region_page / 64), 0,
		      1ull << (extent.region_page % 64));
	expect(text("serious: 1 pages of region %u belong to files but count as free: they could "
		    "be given away",
		    extent.region),
	       NULL);
	expect_repaired();
}
END_TEST

START_TEST(a_missing_bitmap_is_made_again)
{
	uint32_t region = first_extent().region;

	erase(record_key_pair(&key_buffer, RECORD_BITMAP, region, 0));
	expect(text("serious: 15 pages of region %u belong to files but count as free: they could "
		    "be given away",
		    region),
	       NULL);
	expect_repaired();
}
END_TEST

START_TEST(a_bitmap_that_cannot_be_read_is_made_again)
{
	uint32_t region = first_extent().region;

	edit(record_key_pair(&key_buffer, RECORD_BITMAP, region, 0), bytes("junk", 4));
	expect(text("serious: record A %u 0 cannot be read", region), NULL);
	expect_repaired();
}
END_TEST

START_TEST(bitmaps_of_no_memory_are_removed)
{
	static struct record_bitmap stored;
	uint32_t region = first_extent().region;
	size_t size = fetch(record_key_pair(&key_buffer, RECORD_BITMAP, region, 0), &stored,
			    sizeof(stored));

	edit(record_key_pair(&key_buffer, RECORD_BITMAP, 999, 0), bytes(&stored, size));
	edit(record_key_pair(&key_buffer, RECORD_BITMAP, region, 2), bytes(&stored, size));
	expect("leak: record A 999 0 is a bitmap of no server's memory",
	       text("leak: record A %u 2 is a bitmap of no server's memory", region), NULL);
	expect_repaired();
}
END_TEST

START_TEST(a_page_of_two_files_is_left_to_a_person)
{
	struct record_extent extent = first_extent();
	struct inode_attr attr = get_attr(ino_linked);

	put_chunk(ino_linked, 0, extent.region, extent.region_page, 3);
	attr.pages = 3;
	put_attr(ino_linked, &attr);
	expect(text("serious: inode %llu has 3 pages at page %llu of region %u that belong to "
		    "another file too (not repairable)",
		    U(ino_linked), U(extent.region_page), extent.region),
	       NULL);
	expect_not_repaired();
}
END_TEST

START_TEST(extents_stay_within_what_exists)
{
	struct record_extent extent = first_extent();
	struct inode_attr attr = get_attr(ino_linked);

	put_chunk(ino_linked, 0, extent.region, POOL_BYTES / VOLUME_PAGE_BYTES - 1, 2);
	put_chunk(ino_linked, 1, 77, 0, 1);
	attr.pages = 3;
	put_attr(ino_linked, &attr);
	expect(text("serious: inode %llu has pages beyond the end of region %u (not repairable)",
		    U(ino_linked), extent.region),
	       text("serious: inode %llu has pages in region 77, which never existed "
		    "(not repairable)",
		    U(ino_linked)),
	       NULL);
	expect_not_repaired();
}
END_TEST

START_TEST(extents_of_a_directory_are_removed)
{
	put_chunk(ino_a, 0, first_extent().region, 5000, 4);
	change_bitmap(first_extent().region, 5000 / 64, 0xfull << (5000 % 64), 0);
	expect(text("leak: 4 pages belong to inode %llu, which has no use for them", U(ino_a)),
	       NULL);
	expect_repaired();
}
END_TEST

START_TEST(an_extent_record_that_cannot_be_read_is_serious)
{
	uint32_t region = first_extent().region;

	edit(record_key_pair(&key_buffer, RECORD_CHUNK, ino_file, 0), bytes("junk", 4));
	expect(text("serious: record C %llu 0 cannot be read (not repairable)", U(ino_file)),
	       text("wrong: inode %llu says it has 15 pages, but 5 were found", U(ino_file)),
	       text("leak: 10 pages of region %u are taken but belong to no file", region), NULL);
}
END_TEST

START_TEST(what_a_server_lost_is_counted_and_no_fault)
{
	volume_fixture_open(&fixture);
	volume_fixture_attach(&fixture, 0, "shm:/pool", 8, POOL_BYTES);
	volume_fixture_close(&fixture);
	ck_assert_int_eq(look(false), 0);
	ck_assert(check_is_clean(&result));
	ck_assert(was_found("note: the list of pages in use of memory that a server has lost is "
			    "still there (record A 1 0); the next mount removes it, and nothing is "
			    "to do"));
	ck_assert_uint_eq(result.pages_lost, 15);
	ck_assert_uint_eq(result.pages_used, 0);
	ck_assert_uint_eq(result.pages_total, POOL_BYTES / VOLUME_PAGE_BYTES);
}
END_TEST

/* /a/b/file gets a size and, when wanted, another name; /a/b/plans has pages that were only
 * reserved. */
static void fill_files(uint64_t size)
{
	struct inode *file, *b, *plans;

	volume_fixture_open(&fixture);
	volume_fixture_attach(&fixture, 0, "shm:/pool", 7, POOL_BYTES);
	file = volume_fixture_inode(&fixture, ino_file);
	pthread_mutex_lock(&file->lock);
	file->attr.size = size;
	inode_mark_dirty(fixture.volume, file, INODE_DIRTY_ATTR);
	pthread_mutex_unlock(&file->lock);
	b = volume_fixture_inode(&fixture, ino_b);
	plans = volume_fixture_create(&fixture, b, "plans \x01 \xc3\xa4", S_IFREG | 0644);
	pthread_mutex_lock(&plans->lock);
	ck_assert_int_eq(
		extent_allocate(fixture.volume, plans, 0, 8 * VOLUME_PAGE_BYTES, EXTENT_EXACT), 0);
	extent_mark_written(fixture.volume, plans, 3 * VOLUME_PAGE_BYTES, VOLUME_PAGE_BYTES);
	plans->attr.size = 8 * VOLUME_PAGE_BYTES;
	inode_mark_dirty(fixture.volume, plans, INODE_DIRTY_ATTR | INODE_DIRTY_MAP);
	pthread_mutex_unlock(&plans->lock);
	put_inode(file);
	put_inode(b);
	put_inode(plans);
	volume_fixture_close(&fixture);
}

static void lose_pool(void)
{
	volume_fixture_open(&fixture);
	volume_fixture_attach(&fixture, 0, "shm:/pool", 8, POOL_BYTES);
	volume_fixture_close(&fixture);
}

START_TEST(files_that_lost_data_are_named_with_how_much)
{
	uint64_t size = (1ull << 30) + 4 * VOLUME_PAGE_BYTES + 100;

	fill_files(size);
	ck_assert_int_eq(look(false), 0);
	ck_assert_uint_eq(result.files_damaged, 0);
	lose_pool();
	ck_assert_int_eq(look(false), 0);
	ck_assert(check_is_clean(&result));
	/* 10 pages in front, and of the 5 at the end what the file has. */
	ck_assert(was_found(text("note: /a/b/file has lost %llu of its %llu bytes (not repairable)",
				 U(14 * VOLUME_PAGE_BYTES + 100), U(size))));
	/* Only what was written; and nothing that would move a terminal's cursor. */
	ck_assert(was_found("note: /a/b/plans ? \xc3\xa4 has lost 4096 of its 32768 bytes (not "
			    "repairable)"));
	ck_assert_uint_eq(result.files_damaged, 2);
	ck_assert_uint_eq(result.bytes_lost, 15 * VOLUME_PAGE_BYTES + 100);
	ck_assert_uint_eq(result.pages_lost, 23);
}
END_TEST

START_TEST(a_file_in_a_strange_place_that_lost_data_is_named_as_well_as_can_be)
{
	fill_files(4096);
	lose_pool();
	edit(record_key_name(&key_buffer, RECORD_DIRENT, ino_a, "b", 1), (struct store_slice){0});
	ck_assert_int_eq(look(false), 0);
	ck_assert(was_found("note: .../file has lost 4096 of its 4096 bytes (not repairable)"));
}
END_TEST

START_TEST(servers_do_not_share_regions)
{
	struct record_server_fields fields = {
		.url = "shm:/other",
		.incarnation = 9,
		.region_count = 2,
		.regions = {{.id = first_extent().region, .length = POOL_BYTES},
			    {.id = 50, .length = 1 << 20}},
	};
	static struct record_server value;
	struct store_slice encoded = record_encode_server(&value, &fields);

	edit(record_key_number(&key_buffer, RECORD_SERVER, 40), encoded);
	ck_assert_int_eq(look(false), 0);
	ck_assert(was_found(text("serious: region %u belongs to more than one server "
				 "(not repairable)",
				 fields.regions[0].id)));
	ck_assert(was_found("serious: server shm:/other has region 50, a number that was not given "
			    "yet (not repairable)"));
	ck_assert(was_found("wrong: server shm:/other has number 40, which was not given yet "
			    "(not repairable)"));
}
END_TEST

START_TEST(a_region_of_absurd_size_is_told)
{
	struct record_server_fields fields = {
		.url = "shm:/pool",
		.incarnation = 7,
		.region_count = 1,
		.regions = {{.id = first_extent().region, .length = 1ull << 58}},
	};
	static struct record_server value;
	struct store_slice encoded = record_encode_server(&value, &fields);

	edit(record_key_number(&key_buffer, RECORD_SERVER, 1), encoded);
	ck_assert_int_eq(look(false), 0);
	ck_assert(was_found(text("serious: server shm:/pool has region %u of %llu pages: nothing "
				 "is as large (not repairable)",
				 fields.regions[0].id, U(1ull << 46))));
}
END_TEST

/* --- The store as a whole --------------------------------------------------------------------- */

START_TEST(inode_numbers_that_exist_are_not_given_again)
{
	struct record_number value;
	struct store_slice encoded = record_encode_number(&value, RECORD_NUMBERS, 3);

	edit(record_key_kind(&key_buffer, RECORD_NUMBERS), encoded);
	expect(text("serious: the next inode number is 3, but inode %llu exists: new files could "
		    "take its place",
		    U(ino_link)),
	       NULL);
	expect_repaired();
}
END_TEST

START_TEST(an_inode_that_cannot_be_read_is_serious)
{
	edit(inode_key(INO_NONE), bytes("junk", 4));
	expect(text("serious: record I %u cannot be read (not repairable)", INO_NONE), NULL);
	expect_not_repaired();
}
END_TEST

START_TEST(records_of_an_unknown_kind_are_told)
{
	edit(bytes("Q\0\0\0\0\0\0\0\7", 9), bytes("x", 1));
	edit(bytes("V2", 2), bytes("x", 1));
	expect("wrong: record Q 7 is of an unknown kind (not repairable)",
	       "wrong: record V \"2\" is of an unknown kind (not repairable)", NULL);
}
END_TEST

START_TEST(a_store_without_a_root_cannot_be_checked)
{
	erase(inode_key(INODE_ROOT));
	ck_assert_int_eq(look(false), -EIO);
	ck_assert(was_found("serious: there is no root directory (not repairable)"));
	ck_assert_int_eq(look(true), -EIO);
}
END_TEST

START_TEST(a_store_without_a_volume_cannot_be_checked)
{
	erase(record_key_kind(&key_buffer, RECORD_VOLUME));
	ck_assert_int_eq(look(false), -ENOENT);
}
END_TEST

/* --- Dice ------------------------------------------------------------------------------------- */

#define KEYS_MAX 64

struct keys {
	unsigned count;
	size_t sizes[KEYS_MAX];
	uint8_t bytes[KEYS_MAX][STORE_KEY_MAX];
};

static int collect_key(void *user, struct store_slice key, struct store_slice value)
{
	struct keys *keys = user;

	(void)value;
	if (keys->count == KEYS_MAX)
		return 1;
	memcpy(keys->bytes[keys->count], key.data, key.size);
	keys->sizes[keys->count++] = key.size;
	return 0;
}

static void list_keys(struct keys *keys)
{
	struct store *store = open_raw(false);
	struct store_txn *txn;

	keys->count = 0;
	ck_assert_int_eq(store_begin(store, STORE_READ, &txn), 0);
	ck_assert_int_ge(store_scan(txn, (struct store_slice){0}, (struct store_slice){0},
				    collect_key, keys),
			 0);
	store_abort(txn);
	store_close(store);
}

/* Deletes, cuts or changes a record, or moves its value to another key. */
static void damage_one(void)
{
	static struct keys keys;
	static uint8_t value[8192];
	unsigned chosen, other;
	size_t size;

	list_keys(&keys);
	chosen = (unsigned)random() % keys.count;
	other = (unsigned)random() % keys.count;
	struct store_slice key = bytes(keys.bytes[chosen], keys.sizes[chosen]);
	size = fetch(key, value, sizeof(value));
	switch (random() % 5) {
	case 0:
		erase(key);
		break;
	case 1:
		edit(key, bytes(value, (size_t)random() % (size + 1)));
		break;
	case 2:
		edit(bytes(keys.bytes[other], keys.sizes[other]), bytes(value, size));
		break;
	default:
		for (unsigned i = 0; i < 4 && size > 0; i++)
			value[(size_t)random() % size] ^= (uint8_t)(1u << random() % 8);
		edit(key, bytes(value, size));
	}
}

static void collect_quietly(void *user, const struct check_finding *finding)
{
	(void)user;
	ck_assert_uint_lt(strlen(finding->text), 512);
}

static int run_quietly(bool repair)
{
	struct check_options options = {.report = collect_quietly};
	int error;

	options.store = open_raw(repair);
	error = repair ? check_repair(&options, &result) : check_run(&options, &result);
	store_close(options.store);
	return error;
}

START_TEST(no_damage_is_too_much)
{
	bool clean;
	int error;

	srandom((unsigned)_i);
	for (unsigned i = 0; i < 1 + (unsigned)_i % 6; i++)
		damage_one();
	error = run_quietly(false);
	clean = error == 0 && check_is_clean(&result);
	ck_assert(run_quietly(true) == error || error == 0);
	if (error != 0)
		return;
	if (clean)
		ck_assert_uint_eq(result.repaired, 0);
	/* What a repair leaves, another one leaves too. */
	ck_assert_int_eq(run_quietly(true), 0);
	ck_assert_uint_eq(result.repaired, 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("check");
	TCase *cases = tcase_create("check");

	tcase_add_checked_fixture(cases, make_store, drop_store);
	tcase_set_timeout(cases, 60);
	tcase_add_test(cases, a_good_store_has_no_findings);
	tcase_add_test(cases, a_repair_leaves_a_good_store_alone);
	tcase_add_test(cases, a_files_link_count_is_compared_with_its_names);
	tcase_add_test(cases, a_directorys_link_count_is_compared_with_its_children);
	tcase_add_test(cases, a_directorys_parent_is_where_its_name_is);
	tcase_add_test(cases, the_number_of_pages_is_compared_with_the_extents);
	tcase_add_test(cases, the_number_of_attributes_is_compared_with_the_records);
	tcase_add_test(cases, a_links_size_is_its_targets_length);
	tcase_add_test(cases, a_file_without_a_name_gets_one_in_the_root);
	tcase_add_test(cases, a_directory_without_a_name_gets_one_in_the_root);
	tcase_add_test(cases, a_name_that_stands_for_nothing_is_removed);
	tcase_add_test(cases, what_belongs_to_a_missing_inode_is_removed);
	tcase_add_test(cases, a_name_in_a_file_is_removed);
	tcase_add_test(cases, the_type_with_a_name_is_that_of_the_inode);
	tcase_add_test(cases, strange_names_are_printed_safely);
	tcase_add_test(cases, an_entry_that_cannot_be_read_is_serious);
	tcase_add_test(cases, a_directory_has_one_name);
	tcase_add_test(cases, a_directory_below_itself_is_out_of_reach);
	tcase_add_test(cases, a_link_without_a_target_is_serious);
	tcase_add_test(cases, a_target_of_a_file_is_removed);
	tcase_add_test(cases, what_a_killed_mount_left_is_no_fault);
	tcase_add_test(cases, a_repair_ends_dead_sessions);
	tcase_add_test(cases, a_deleted_file_of_no_session_is_a_leak);
	tcase_add_test(cases, a_deleted_file_that_nobody_keeps_is_a_leak);
	tcase_add_test(cases, a_file_with_a_name_is_not_kept_as_deleted);
	tcase_add_test(cases, a_deleted_file_with_a_name_is_left_to_a_person);
	tcase_add_test(cases, pages_that_are_taken_for_nobody_are_freed);
	tcase_add_test(cases, pages_of_a_file_that_count_as_free_are_taken_again);
	tcase_add_test(cases, a_missing_bitmap_is_made_again);
	tcase_add_test(cases, a_bitmap_that_cannot_be_read_is_made_again);
	tcase_add_test(cases, bitmaps_of_no_memory_are_removed);
	tcase_add_test(cases, a_page_of_two_files_is_left_to_a_person);
	tcase_add_test(cases, extents_stay_within_what_exists);
	tcase_add_test(cases, extents_of_a_directory_are_removed);
	tcase_add_test(cases, an_extent_record_that_cannot_be_read_is_serious);
	tcase_add_test(cases, what_a_server_lost_is_counted_and_no_fault);
	tcase_add_test(cases, files_that_lost_data_are_named_with_how_much);
	tcase_add_test(cases, a_file_in_a_strange_place_that_lost_data_is_named_as_well_as_can_be);
	tcase_add_test(cases, servers_do_not_share_regions);
	tcase_add_test(cases, a_region_of_absurd_size_is_told);
	tcase_add_test(cases, inode_numbers_that_exist_are_not_given_again);
	tcase_add_test(cases, an_inode_that_cannot_be_read_is_serious);
	tcase_add_test(cases, records_of_an_unknown_kind_are_told);
	tcase_add_test(cases, a_store_without_a_root_cannot_be_checked);
	tcase_add_test(cases, a_store_without_a_volume_cannot_be_checked);
	tcase_add_loop_test(cases, no_damage_is_too_much, 0, 60);
	suite_add_tcase(s, cases);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
