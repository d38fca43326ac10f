/* SPDX-License-Identifier: Apache-2.0 */
/* The corners of names that the model test's dice do not reach. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "fs/acl.h"
#include "fs/namespace_check.h"
#include "fs/record.h"
#include "tests/support/runner.h"
#include "tests/support/store_check.h"
#include "tests/support/volume_fixture.h"

static struct volume_fixture fixture;
static struct volume *volume;
static struct inode *root;

static void setup(void)
{
	volume_fixture_init(&fixture);
	volume = fixture.volume;
	root = volume_fixture_inode(&fixture, INODE_ROOT);
}

static void teardown(void)
{
	inode_unref(volume, root, 1);
	volume_fixture_close(&fixture);
	store_check_clean(fixture.url);
	volume_fixture_finish(&fixture);
}

static struct inode *create(struct inode *parent, const char *name, mode_t mode)
{
	return volume_fixture_create(&fixture, parent, name, mode);
}

static void make(struct inode *parent, const char *name, mode_t mode)
{
	inode_unref(volume, create(parent, name, mode), 1);
}

static int lookup(struct inode *parent, const char *name, uint64_t *ino)
{
	struct inode *inode;
	int error = namespace_lookup(volume, parent, name, &inode);

	if (error != 0)
		return error;
	*ino = inode->ino;
	inode_unref(volume, inode, 1);
	return 0;
}

static int try_create(struct inode *parent, const char *name, mode_t mode, const char *target)
{
	struct namespace_create arguments = {.mode = mode, .target = target};
	struct inode *inode;
	int error = namespace_create(volume, parent, name, &arguments, &inode);

	if (error == 0)
		inode_unref(volume, inode, 1);
	return error;
}

static int rename_to(struct inode *from, const char *old_name, struct inode *to,
		     const char *new_name, unsigned flags)
{
	struct namespace_rename arguments = {
		.old_parent = from,
		.new_parent = to,
		.old_name = old_name,
		.new_name = new_name,
		.flags = flags,
	};

	return namespace_rename(volume, &arguments);
}

/* --- Names ------------------------------------------------------------------------------------ */

START_TEST(a_name_has_up_to_255_bytes_of_any_kind)
{
	char name[257];
	uint64_t ino;

	memset(name, 'n', 255);
	name[255] = '\0';
	make(root, name, S_IFREG);
	ck_assert_int_eq(lookup(root, name, &ino), 0);
	name[255] = 'n';
	name[256] = '\0';
	ck_assert_int_eq(try_create(root, name, S_IFREG, NULL), -ENAMETOOLONG);
	ck_assert_int_eq(lookup(root, name, &ino), -ENAMETOOLONG);
	ck_assert_int_eq(namespace_unlink(volume, root, name), -ENAMETOOLONG);
	ck_assert_int_eq(rename_to(root, name, root, "x", 0), -ENAMETOOLONG);
	for (int byte = 1; byte < 256; byte++) {
		name[0] = (char)byte;
		name[1] = '\0';
		if (byte == '/' || byte == '.')
			continue;
		make(root, name, S_IFREG);
		ck_assert_int_eq(lookup(root, name, &ino), 0);
	}
	ck_assert_int_eq(try_create(root, "", S_IFREG, NULL), -ENOENT);
}
END_TEST

START_TEST(dots_are_the_directory_and_its_parent)
{
	struct inode *a = create(root, "a", S_IFDIR), *b = create(a, "b", S_IFDIR);
	uint64_t ino;

	ck_assert_int_eq(lookup(b, ".", &ino), 0);
	ck_assert_uint_eq(ino, b->ino);
	ck_assert_int_eq(lookup(b, "..", &ino), 0);
	ck_assert_uint_eq(ino, a->ino);
	ck_assert_int_eq(lookup(root, "..", &ino), 0);
	ck_assert_uint_eq(ino, INODE_ROOT);
	ck_assert_int_eq(try_create(a, "..", S_IFDIR, NULL), -EEXIST);
	ck_assert_int_eq(namespace_rmdir(volume, a, "."), -EINVAL);
	ck_assert_int_eq(namespace_rmdir(volume, a, ".."), -ENOTEMPTY);
	ck_assert_int_eq(namespace_unlink(volume, a, "."), -EISDIR);
	ck_assert_int_eq(rename_to(a, ".", root, "x", 0), -EBUSY);
	ck_assert_int_eq(rename_to(a, "b", root, "..", 0), -EBUSY);
	inode_unref(volume, a, 1);
	inode_unref(volume, b, 1);
}
END_TEST

START_TEST(only_directories_have_names_in_them)
{
	struct inode *file = create(root, "file", S_IFREG);
	struct namespace_dir *dir;
	uint64_t ino;

	ck_assert_int_eq(lookup(file, "x", &ino), -ENOTDIR);
	ck_assert_int_eq(try_create(file, "x", S_IFREG, NULL), -ENOTDIR);
	ck_assert_int_eq(namespace_link(volume, file, file, "x"), -ENOTDIR);
	ck_assert_int_eq(namespace_unlink(volume, file, "x"), -ENOTDIR);
	ck_assert_int_eq(namespace_rmdir(volume, file, "x"), -ENOTDIR);
	ck_assert_int_eq(rename_to(file, "x", root, "x", 0), -ENOTDIR);
	ck_assert_int_eq(rename_to(root, "file", file, "x", 0), -ENOTDIR);
	ck_assert_int_eq(namespace_opendir(volume, file, &dir), -ENOTDIR);
	inode_unref(volume, file, 1);
}
END_TEST

START_TEST(links_have_a_limit)
{
	struct inode *file = create(root, "file", S_IFREG);
	struct inode *a = create(root, "a", S_IFDIR), *b = create(root, "b", S_IFDIR);

	file->attr.nlink = NAMESPACE_LINKS_MAX;
	ck_assert_int_eq(namespace_link(volume, file, root, "more"), -EMLINK);
	file->attr.nlink = 1;
	make(b, "sub", S_IFDIR);
	a->attr.nlink = NAMESPACE_LINKS_MAX;
	ck_assert_int_eq(try_create(a, "sub", S_IFDIR, NULL), -EMLINK);
	ck_assert_int_eq(rename_to(b, "sub", a, "sub", 0), -EMLINK);
	a->attr.nlink = 2;
	inode_unref(volume, file, 1);
	inode_unref(volume, a, 1);
	inode_unref(volume, b, 1);
}
END_TEST

START_TEST(what_a_directory_gives_to_its_children)
{
	struct namespace_create as_user = {
		.mode = S_IFDIR | 0755,
		.caller = {.uid = 10, .gid = 20},
	};
	struct inode_attr attr = {.mode = S_IFDIR | 02770, .gid = 77};
	struct inode *group = create(root, "group", S_IFDIR | 0755), *child;

	ck_assert_int_eq(namespace_setattr(volume, group, &attr, NAMESPACE_MODE | NAMESPACE_GID),
			 0);
	ck_assert_int_eq(namespace_create(volume, group, "dir", &as_user, &child), 0);
	ck_assert_uint_eq(child->attr.uid, 10);
	ck_assert_uint_eq(child->attr.gid, 77);
	ck_assert_uint_eq(child->attr.mode, S_IFDIR | 02755);
	inode_unref(volume, child, 1);
	as_user.mode = S_IFREG | 0644;
	ck_assert_int_eq(namespace_create(volume, group, "file", &as_user, &child), 0);
	ck_assert_uint_eq(child->attr.gid, 77);
	ck_assert_uint_eq(child->attr.mode, S_IFREG | 0644);
	inode_unref(volume, child, 1);
	inode_unref(volume, group, 1);
}
END_TEST

START_TEST(targets_have_up_to_4095_bytes)
{
	static char target[4097], found[4096];
	struct inode *link, *file = create(root, "file", S_IFREG);

	memset(target, 't', 4096);
	ck_assert_int_eq(try_create(root, "long", S_IFLNK, target), -ENAMETOOLONG);
	ck_assert_int_eq(try_create(root, "none", S_IFLNK, ""), -ENOENT);
	target[4095] = '\0';
	ck_assert_int_eq(try_create(root, "link", S_IFLNK, target), 0);
	ck_assert_int_eq(namespace_lookup(volume, root, "link", &link), 0);
	ck_assert_int_eq(namespace_readlink(volume, link, found), 0);
	ck_assert_str_eq(found, target);
	ck_assert_uint_eq(link->attr.size, 4095);
	ck_assert_int_eq(namespace_readlink(volume, file, found), -EINVAL);
	inode_unref(volume, link, 1);
	inode_unref(volume, file, 1);
}
END_TEST

START_TEST(a_removed_directory_takes_no_more_names)
{
	struct inode *a = create(root, "a", S_IFDIR);
	uint64_t ino;

	make(root, "file", S_IFREG);
	ck_assert_int_eq(namespace_rmdir(volume, root, "a"), 0);
	ck_assert_uint_eq(a->attr.nlink, 0);
	ck_assert_int_eq(try_create(a, "x", S_IFREG, NULL), -ESTALE);
	ck_assert_int_eq(rename_to(root, "file", a, "x", 0), -ESTALE);
	ck_assert_int_eq(lookup(a, "x", &ino), -ENOENT);
	inode_unref(volume, a, 1);
}
END_TEST

/* --- Renaming --------------------------------------------------------------------------------- */

START_TEST(a_directory_does_not_go_below_itself)
{
	struct inode *a = create(root, "a", S_IFDIR), *b = create(a, "b", S_IFDIR);
	struct inode *c = create(b, "c", S_IFDIR);

	ck_assert_int_eq(rename_to(root, "a", a, "x", 0), -EINVAL);
	ck_assert_int_eq(rename_to(root, "a", c, "x", 0), -EINVAL);
	ck_assert_int_eq(rename_to(root, "a", b, "c", RENAME_EXCHANGE), -EINVAL);
	ck_assert_int_eq(rename_to(b, "c", root, "a", RENAME_EXCHANGE), -EINVAL);
	ck_assert_int_eq(rename_to(a, "b", root, "a", 0), -ENOTEMPTY);
	ck_assert_int_eq(rename_to(b, "c", root, "a", 0), -ENOTEMPTY);
	inode_unref(volume, a, 1);
	inode_unref(volume, b, 1);
	inode_unref(volume, c, 1);
}
END_TEST

START_TEST(two_names_of_one_file_stay_when_renamed_onto_each_other)
{
	struct inode *file = create(root, "one", S_IFREG);
	uint64_t ino;

	ck_assert_int_eq(namespace_link(volume, file, root, "two"), 0);
	ck_assert_int_eq(rename_to(root, "one", root, "two", 0), 0);
	ck_assert_int_eq(rename_to(root, "one", root, "one", 0), 0);
	ck_assert_int_eq(lookup(root, "one", &ino), 0);
	ck_assert_int_eq(lookup(root, "two", &ino), 0);
	ck_assert_uint_eq(file->attr.nlink, 2);
	inode_unref(volume, file, 1);
}
END_TEST

START_TEST(an_open_file_that_is_replaced_lives_on)
{
	struct inode *old = create(root, "old", S_IFREG), *new = create(root, "new", S_IFREG);
	uint64_t ino = old->ino, found;

	old->opens = 1;
	ck_assert_int_eq(rename_to(root, "new", root, "old", 0), 0);
	ck_assert(old->orphan);
	ck_assert_uint_eq(old->attr.nlink, 0);
	ck_assert_int_eq(lookup(root, "old", &found), 0);
	ck_assert_uint_eq(found, new->ino);
	old->opens = 0;
	inode_unref(volume, old, 1);
	inode_unref(volume, new, 1);
	ck_assert_int_eq(inode_get(volume, ino, &old), -ENOENT);
}
END_TEST

START_TEST(exchanged_directories_have_each_others_parents)
{
	struct inode *a = create(root, "a", S_IFDIR), *b = create(root, "b", S_IFDIR);
	struct inode *sub = create(a, "sub", S_IFDIR), *file = create(b, "file", S_IFREG);
	uint64_t ino;

	ck_assert_int_eq(rename_to(a, "sub", b, "file", RENAME_EXCHANGE), 0);
	ck_assert_uint_eq(a->attr.nlink, 2);
	ck_assert_uint_eq(b->attr.nlink, 3);
	ck_assert_uint_eq(sub->attr.parent, b->ino);
	ck_assert_uint_eq(file->attr.parent, 0);
	ck_assert_int_eq(lookup(b, "file", &ino), 0);
	ck_assert_uint_eq(ino, sub->ino);
	ck_assert_int_eq(lookup(a, "sub", &ino), 0);
	ck_assert_uint_eq(ino, file->ino);
	inode_unref(volume, a, 1);
	inode_unref(volume, b, 1);
	inode_unref(volume, sub, 1);
	inode_unref(volume, file, 1);
}
END_TEST

/* --- Attributes ------------------------------------------------------------------------------- */

START_TEST(a_new_owner_clears_privileges)
{
	struct inode_attr attr = {.mode = 06755, .uid = 5, .gid = 6};
	struct inode *file = create(root, "file", S_IFREG);

	ck_assert_int_eq(namespace_setattr(volume, file, &attr, NAMESPACE_MODE), 0);
	ck_assert_uint_eq(file->attr.mode, S_IFREG | 06755);
	ck_assert_int_eq(namespace_setattr(volume, file, &attr, NAMESPACE_UID), 0);
	ck_assert_uint_eq(file->attr.mode, S_IFREG | 0755);
	attr.mode = 02644; /* no execution by the group: a lock, not a privilege */
	ck_assert_int_eq(namespace_setattr(volume, file, &attr, NAMESPACE_MODE), 0);
	ck_assert_int_eq(namespace_setattr(volume, file, &attr, NAMESPACE_GID), 0);
	ck_assert_uint_eq(file->attr.mode, S_IFREG | 02644);
	inode_unref(volume, file, 1);
}
END_TEST

START_TEST(times_before_1970_and_after_2200_are_kept)
{
	struct inode_attr attr = {.atime_ns = -1, .mtime_ns = 7258118400123456789};
	struct inode *file = create(root, "file", S_IFREG);
	uint64_t ino = file->ino;

	ck_assert_int_eq(namespace_setattr(volume, file, &attr, NAMESPACE_ATIME | NAMESPACE_MTIME),
			 0);
	ck_assert_int_eq(inode_flush(volume, file), 0);
	inode_unref(volume, file, 1);
	file = volume_fixture_inode(&fixture, ino);
	ck_assert_int_eq(file->attr.atime_ns, -1);
	ck_assert_int_eq(file->attr.mtime_ns, 7258118400123456789);
	inode_unref(volume, file, 1);
}
END_TEST

/* --- Directories ------------------------------------------------------------------------------ */

START_TEST(an_offset_means_the_same_name_while_names_come_and_go)
{
	struct namespace_dir *dir;
	struct namespace_entry entry;
	char name[16], third[16];
	uint64_t offset;
	unsigned count = 0;

	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		make(root, name, S_IFREG);
	}
	ck_assert_int_eq(namespace_opendir(volume, root, &dir), 0);
	ck_assert_int_eq(namespace_readdir(dir, 0, &entry), 1);
	offset = entry.next;
	ck_assert_int_eq(namespace_readdir(dir, offset, &entry), 1);
	offset = entry.next;
	ck_assert_int_eq(namespace_readdir(dir, offset, &entry), 1);
	strcpy(third, entry.name);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		ck_assert_int_eq(namespace_unlink(volume, root, name), 0);
	}
	make(root, "a-new-one", S_IFREG);
	ck_assert_int_eq(namespace_readdir(dir, offset, &entry), 1);
	ck_assert_str_eq(entry.name, third);
	for (; namespace_readdir(dir, offset, &entry) == 1; offset = entry.next)
		count++;
	ck_assert_uint_eq(count, 100);
	/* A rewind looks again. */
	for (offset = 0, count = 0; namespace_readdir(dir, offset, &entry) == 1;
	     offset = entry.next)
		count++;
	ck_assert_uint_eq(count, 3);
	ck_assert_int_eq(namespace_readdir(dir, 12345, &entry), 0);
	namespace_closedir(dir);
}
END_TEST

/* --- Extended attributes ---------------------------------------------------------------------- */

static int set(const char *name, const void *value, size_t size, int flags)
{
	struct namespace_xattr xattr = {
		.name = name,
		.value = value,
		.size = size,
		.flags = flags,
	};

	return namespace_setxattr(volume, root, &xattr);
}

START_TEST(attributes_say_how_much_room_they_need)
{
	char value[8], names[32];

	ck_assert_int_eq(set("user.a", "12345", 5, 0), 0);
	ck_assert_int_eq(set("user.bb", "", 0, 0), 0);
	ck_assert_int_eq(namespace_getxattr(volume, root, "user.a", NULL, 0), 5);
	ck_assert_int_eq(namespace_getxattr(volume, root, "user.a", value, 4), -ERANGE);
	ck_assert_int_eq(namespace_getxattr(volume, root, "user.a", value, 5), 5);
	ck_assert_int_eq(memcmp(value, "12345", 5), 0);
	ck_assert_int_eq(namespace_getxattr(volume, root, "user.bb", value, 8), 0);
	ck_assert_int_eq(namespace_listxattr(volume, root, NULL, 0), 15);
	ck_assert_int_eq(namespace_listxattr(volume, root, names, 14), -ERANGE);
	ck_assert_int_eq(namespace_listxattr(volume, root, names, sizeof(names)), 15);
	ck_assert_int_eq(memcmp(names, "user.a\0user.bb", 15), 0);
}
END_TEST

START_TEST(attributes_have_limits)
{
	static char large[(64 << 10) + 1], found[64 << 10];
	char name[300] = "user.";

	ck_assert_int_eq(set("user.large", large, sizeof(large), 0), -E2BIG);
	memset(large, 'v', sizeof(large));
	ck_assert_int_eq(set("user.large", large, 64 << 10, 0), 0);
	ck_assert_int_eq(namespace_getxattr(volume, root, "user.large", found, sizeof(found)),
			 64 << 10);
	ck_assert_int_eq(memcmp(large, found, sizeof(found)), 0);
	memset(name + 5, 'n', 251);
	ck_assert_int_eq(set(name, "x", 1, 0), -ERANGE);
	name[255] = '\0';
	ck_assert_int_eq(set(name, "x", 1, 0), 0);
	ck_assert_int_eq(set("user.", "x", 1, 0), -EINVAL);
	ck_assert_int_eq(set("foreign.a", "x", 1, 0), -EOPNOTSUPP);
	ck_assert_int_eq(set("user.a", "x", 1, 4), -EINVAL);
}
END_TEST

START_TEST(an_attribute_is_created_or_replaced_as_asked)
{
	char value[8];

	ck_assert_int_eq(set("user.a", "1", 1, XATTR_REPLACE), -ENODATA);
	ck_assert_int_eq(set("user.a", "1", 1, XATTR_CREATE), 0);
	ck_assert_int_eq(set("user.a", "2", 1, XATTR_CREATE), -EEXIST);
	ck_assert_int_eq(set("user.a", "22", 2, XATTR_REPLACE), 0);
	ck_assert_int_eq(namespace_getxattr(volume, root, "user.a", value, 8), 2);
	ck_assert_uint_eq(root->attr.xattr_count, 1);
	ck_assert_int_eq(namespace_removexattr(volume, root, "user.b"), -ENODATA);
	ck_assert_int_eq(namespace_removexattr(volume, root, "user.a"), 0);
	ck_assert_int_eq(namespace_removexattr(volume, root, "user.a"), -ENODATA);
	ck_assert_int_eq(namespace_getxattr(volume, root, "user.a", value, 8), -ENODATA);
	ck_assert_uint_eq(root->attr.xattr_count, 0);
}
END_TEST

/* --- Access lists ----------------------------------------------------------------------------- */

static const struct acl for_user = {
	.count = 5,
	.entries = {{ACL_USER_OBJ, 7, 0},
		    {ACL_USER, 5, 1000},
		    {ACL_GROUP_OBJ, 5, 0},
		    {ACL_MASK, 5, 0},
		    {ACL_OTHER, 0, 0}},
};
static const struct acl plain = {
	.count = 3,
	.entries = {{ACL_USER_OBJ, 6, 0}, {ACL_GROUP_OBJ, 4, 0}, {ACL_OTHER, 0, 0}},
};

static int set_acl(struct inode *inode, const char *name, const struct acl *acl)
{
	uint8_t bytes[ACL_BYTES_MAX];
	struct store_slice value = acl_encode(acl, bytes);
	struct namespace_xattr xattr = {.name = name, .value = value.data, .size = value.size};

	return namespace_setxattr(volume, inode, &xattr);
}

static int get_acl(struct inode *inode, const char *name, struct acl *acl)
{
	uint8_t bytes[ACL_BYTES_MAX];
	ssize_t size = namespace_getxattr(volume, inode, name, bytes, sizeof(bytes));

	if (size < 0)
		return (int)size;
	return acl_decode((struct store_slice){.data = bytes, .size = (size_t)size}, acl);
}

START_TEST(an_access_list_and_the_mode_follow_each_other)
{
	struct inode *file = create(root, "file", S_IFREG | 02644);
	struct inode_attr attr = {.mode = 0620};
	struct acl found;

	ck_assert_int_eq(set_acl(file, ACL_ACCESS_NAME, &for_user), 0);
	ck_assert_uint_eq(file->attr.mode, S_IFREG | 02750);
	ck_assert_int_eq(namespace_setattr(volume, file, &attr, NAMESPACE_MODE), 0);
	ck_assert_int_eq(get_acl(file, ACL_ACCESS_NAME, &found), 0);
	ck_assert_uint_eq(found.count, 5);
	ck_assert_uint_eq(found.entries[0].perm, 6);
	ck_assert_uint_eq(found.entries[3].perm, 2);
	ck_assert_uint_eq(file->attr.xattr_count, 1);
	/* What a mode can say is not kept as a list. */
	ck_assert_int_eq(set_acl(file, ACL_ACCESS_NAME, &plain), 0);
	ck_assert_int_eq(get_acl(file, ACL_ACCESS_NAME, &found), -ENODATA);
	ck_assert_uint_eq(file->attr.xattr_count, 0);
	ck_assert_uint_eq(file->attr.mode, S_IFREG | 0640);
	ck_assert_int_eq(namespace_removexattr(volume, file, ACL_ACCESS_NAME), 0);
	inode_unref(volume, file, 1);
}
END_TEST

START_TEST(a_default_list_is_inherited_instead_of_the_umask)
{
	struct namespace_create arguments = {.mode = S_IFDIR | 0777, .umask = 077};
	struct inode *dir, *file;
	struct acl found;

	ck_assert_int_eq(namespace_create(volume, root, "before", &arguments, &dir), 0);
	ck_assert_uint_eq(dir->attr.mode, S_IFDIR | 0700);
	inode_unref(volume, dir, 1);
	ck_assert_int_eq(set_acl(root, ACL_DEFAULT_NAME, &for_user), 0);
	ck_assert_int_eq(namespace_create(volume, root, "dir", &arguments, &dir), 0);
	ck_assert_uint_eq(dir->attr.mode, S_IFDIR | 0750);
	ck_assert_uint_eq(dir->attr.xattr_count, 2);
	ck_assert_int_eq(get_acl(dir, ACL_DEFAULT_NAME, &found), 0);
	ck_assert_uint_eq(found.count, 5);
	arguments.mode = S_IFREG | 0660;
	ck_assert_int_eq(namespace_create(volume, dir, "file", &arguments, &file), 0);
	ck_assert_uint_eq(file->attr.mode, S_IFREG | 0640);
	ck_assert_uint_eq(file->attr.xattr_count, 1);
	ck_assert_int_eq(get_acl(file, ACL_ACCESS_NAME, &found), 0);
	ck_assert_uint_eq(found.entries[0].perm, 6);
	ck_assert_uint_eq(found.entries[1].perm, 5);
	ck_assert_uint_eq(found.entries[3].perm, 4);
	ck_assert_int_eq(get_acl(file, ACL_DEFAULT_NAME, &found), -ENODATA);
	inode_unref(volume, file, 1);
	/* One that a mode can express is passed on, but needs no access list. */
	ck_assert_int_eq(set_acl(dir, ACL_DEFAULT_NAME, &plain), 0);
	ck_assert_int_eq(namespace_create(volume, dir, "plain", &arguments, &file), 0);
	ck_assert_uint_eq(file->attr.xattr_count, 0);
	ck_assert_uint_eq(file->attr.mode, S_IFREG | 0640);
	inode_unref(volume, file, 1);
	make(dir, "link", S_IFLNK | 0777);
	inode_unref(volume, dir, 1);
}
END_TEST

START_TEST(access_lists_are_where_they_belong)
{
	struct inode *file = create(root, "file", S_IFREG | 0644);
	struct inode *link = create(root, "link", S_IFLNK | 0777);
	struct namespace_xattr junk = {.name = ACL_ACCESS_NAME, .value = "junk", .size = 4};

	ck_assert_int_eq(set_acl(file, ACL_DEFAULT_NAME, &for_user), -EACCES);
	ck_assert_int_eq(set_acl(link, ACL_ACCESS_NAME, &for_user), -EOPNOTSUPP);
	ck_assert_int_eq(namespace_setxattr(volume, file, &junk), -EINVAL);
	ck_assert_int_eq(set(ACL_ACCESS_NAME "2", "x", 1, 0), -EOPNOTSUPP);
	ck_assert_uint_eq(file->attr.xattr_count, 0);
	inode_unref(volume, file, 1);
	inode_unref(volume, link, 1);
}
END_TEST

/* --- Conflicts -------------------------------------------------------------------------------- */

START_TEST(an_operation_is_done_again_after_conflicts)
{
	uint64_t ino;

	store_fault_arm(-EAGAIN, 5);
	make(root, "file", S_IFREG);
	ck_assert_uint_eq(store_fault_disarm(), 0);
	ck_assert_int_eq(lookup(root, "file", &ino), 0);
	store_fault_arm(-EAGAIN, 5);
	ck_assert_int_eq(rename_to(root, "file", root, "moved", 0), 0);
	ck_assert_uint_eq(store_fault_disarm(), 0);
	ck_assert_int_eq(lookup(root, "file", &ino), -ENOENT);
	ck_assert_int_eq(lookup(root, "moved", &ino), 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("namespace");
	TCase *cases = tcase_create("namespace");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_set_timeout(cases, 60);
	tcase_add_test(cases, a_name_has_up_to_255_bytes_of_any_kind);
	tcase_add_test(cases, dots_are_the_directory_and_its_parent);
	tcase_add_test(cases, only_directories_have_names_in_them);
	tcase_add_test(cases, links_have_a_limit);
	tcase_add_test(cases, what_a_directory_gives_to_its_children);
	tcase_add_test(cases, targets_have_up_to_4095_bytes);
	tcase_add_test(cases, a_removed_directory_takes_no_more_names);
	tcase_add_test(cases, a_directory_does_not_go_below_itself);
	tcase_add_test(cases, two_names_of_one_file_stay_when_renamed_onto_each_other);
	tcase_add_test(cases, an_open_file_that_is_replaced_lives_on);
	tcase_add_test(cases, exchanged_directories_have_each_others_parents);
	tcase_add_test(cases, a_new_owner_clears_privileges);
	tcase_add_test(cases, times_before_1970_and_after_2200_are_kept);
	tcase_add_test(cases, an_offset_means_the_same_name_while_names_come_and_go);
	tcase_add_test(cases, attributes_say_how_much_room_they_need);
	tcase_add_test(cases, attributes_have_limits);
	tcase_add_test(cases, an_attribute_is_created_or_replaced_as_asked);
	tcase_add_test(cases, an_access_list_and_the_mode_follow_each_other);
	tcase_add_test(cases, a_default_list_is_inherited_instead_of_the_umask);
	tcase_add_test(cases, access_lists_are_where_they_belong);
	tcase_add_test(cases, an_operation_is_done_again_after_conflicts);
	suite_add_tcase(s, cases);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
