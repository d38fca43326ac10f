/* SPDX-License-Identifier: Apache-2.0 */
/* Directory entries, targets of links and extended attributes. */
#include <dirent.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/check_parts.h"

/* A record of something that an inode has: no inode, no use. */
static void report_stray(struct check *check, struct store_slice key, const char *what,
			 uint64_t ino)
{
	check_report(check, CHECK_LEAK, true,
		     "%s belongs to inode %" PRIu64 ", which has no use for it", what, ino);
	check_fix_key(check, FIX_DELETE_KEY, key, 0, 0);
}

static void report_unreadable(struct check *check, struct store_slice key)
{
	char text[CHECK_KEY_TEXT];

	check_report(check, CHECK_SERIOUS, false, "record %s cannot be read",
		     check_key_text(key, text));
}

/* The two ends of an entry exist: counts it on both. */
static void count_entry(struct check *check, struct store_slice key, struct check_inode *parent,
			struct check_inode *child, uint32_t type)
{
	struct store_slice name;
	char text[CHECK_NAME_TEXT];
	uint64_t number;

	check->result->names++;
	child->names++;
	child->name_parent = parent->ino;
	parent->children += S_ISDIR(child->mode);
	if (type == IFTODT(child->mode) ||
	    record_parse_name(key, RECORD_DIRENT, &number, &name) != 0)
		return;
	check_report(check, CHECK_WRONG, true,
		     "name \"%s\" in directory inode %" PRIu64 " says type %" PRIu32
		     ", but inode %" PRIu64 " has type %u",
		     check_name_text(name, text), parent->ino, type, child->ino,
		     IFTODT(child->mode));
	check_fix_key(check, FIX_TYPE, key, child->ino, IFTODT(child->mode));
}

static int visit_entry(void *user, struct store_slice key, struct store_slice value)
{
	struct check *check = user;
	struct check_inode *parent, *child;
	struct store_slice name;
	char text[CHECK_NAME_TEXT];
	uint64_t directory, ino;
	uint32_t type;

	if (record_parse_name(key, RECORD_DIRENT, &directory, &name) != 0 ||
	    record_decode_dirent(value, &ino, &type) != 0) {
		report_unreadable(check, key);
		return 0;
	}
	parent = check_inode_find(check, directory);
	child = check_inode_find(check, ino);
	if (parent != NULL && S_ISDIR(parent->mode) && child != NULL) {
		count_entry(check, key, parent, child, type);
		return check->error;
	}
	if (child == NULL)
		check_report(check, CHECK_SERIOUS, true,
			     "name \"%s\" in directory inode %" PRIu64 " stands for inode %" PRIu64
			     ", which does not exist",
			     check_name_text(name, text), directory, ino);
	else
		check_report(check, CHECK_WRONG, true,
			     "name \"%s\" of inode %" PRIu64 " is in inode %" PRIu64
			     ", which is not a directory",
			     check_name_text(name, text), ino, directory);
	check_fix_key(check, FIX_DELETE_KEY, key, 0, 0);
	return check->error;
}

static int visit_symlink(void *user, struct store_slice key, struct store_slice value)
{
	struct check *check = user;
	struct check_inode *inode;
	char target[RECORD_SYMLINK_MAX + 1];
	uint64_t ino;

	if (record_parse_number(key, RECORD_SYMLINK, &ino) != 0 ||
	    record_decode_symlink(value, target) != 0) {
		report_unreadable(check, key);
		return 0;
	}
	inode = check_inode_find(check, ino);
	if (inode != NULL && S_ISLNK(inode->mode))
		inode->target_bytes = (uint32_t)value.size;
	else
		report_stray(check, key, "a link's target", ino);
	return check->error;
}

static int visit_xattr(void *user, struct store_slice key, struct store_slice value)
{
	struct check *check = user;
	struct check_inode *inode;
	struct store_slice name;
	uint64_t ino;

	if (record_parse_name(key, RECORD_XATTR, &ino, &name) != 0 ||
	    value.size > RECORD_XATTR_MAX) {
		report_unreadable(check, key);
		return 0;
	}
	inode = check_inode_find(check, ino);
	if (inode != NULL)
		inode->xattrs_found++;
	else
		report_stray(check, key, "an extended attribute", ino);
	return check->error;
}

int check_names(struct check *check)
{
	int error = check_scan(check, RECORD_DIRENT, visit_entry);

	if (error == 0)
		error = check_scan(check, RECORD_SYMLINK, visit_symlink);
	if (error == 0)
		error = check_scan(check, RECORD_XATTR, visit_xattr);
	return error;
}
