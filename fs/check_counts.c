/* SPDX-License-Identifier: Apache-2.0 */
/* What was found about each inode against what its record says, and directories as one tree. */
#include <inttypes.h>
#include <sys/stat.h>

#include "fs/check_parts.h"

static void report_count(struct check *check, const struct check_inode *inode, const char *what,
			 uint64_t says, uint64_t found)
{
	check_report(check, CHECK_WRONG, true,
		     "inode %" PRIu64 " says it has %" PRIu64 " %s, but %" PRIu64 " were found",
		     inode->ino, says, what, found);
}

/* Names and links. False: there is nothing to be compared with. */
static bool check_existence(struct check *check, const struct check_inode *inode)
{
	if (inode->nlink == 0) {
		if (inode->names > 0)
			check_report(check, CHECK_SERIOUS, false,
				     "inode %" PRIu64 " counts as deleted but has %" PRIu32
				     " names",
				     inode->ino, inode->names);
		return false;
	}
	if (inode->ino != INODE_ROOT && inode->names == 0) {
		check_report(check, CHECK_SERIOUS, true,
			     "inode %" PRIu64 " has no name, but %" PRIu32 " links", inode->ino,
			     inode->nlink);
		check_fix_add(check, FIX_ADOPT, inode->ino, 0);
		return false;
	}
	if (S_ISDIR(inode->mode) && inode->names > (inode->ino == INODE_ROOT ? 0 : 1)) {
		check_report(check, CHECK_SERIOUS, false,
			     "directory inode %" PRIu64 " has more names than it may", inode->ino);
		return false;
	}
	return true;
}

static bool links_are_right(struct check *check, const struct check_inode *inode)
{
	uint32_t links = S_ISDIR(inode->mode) ? 2 + inode->children : inode->names;

	if (inode->nlink == links)
		return true;
	report_count(check, inode, "links", inode->nlink, links);
	return false;
}

static bool parent_is_right(struct check *check, const struct check_inode *inode)
{
	uint64_t parent = inode->ino == INODE_ROOT ? INODE_ROOT : inode->name_parent;

	if (!S_ISDIR(inode->mode) || inode->parent == parent)
		return true;
	check_report(check, CHECK_WRONG, true,
		     "directory inode %" PRIu64 " says its parent is inode %" PRIu64
		     ", but its name is in inode %" PRIu64,
		     inode->ino, inode->parent, parent);
	return false;
}

static bool target_is_right(struct check *check, const struct check_inode *inode)
{
	if (!S_ISLNK(inode->mode) || inode->size == inode->target_bytes)
		return true;
	if (inode->target_bytes == 0) {
		check_report(check, CHECK_SERIOUS, false,
			     "symbolic link inode %" PRIu64 " has no target", inode->ino);
		return true;
	}
	report_count(check, inode, "bytes", inode->size, inode->target_bytes);
	return false;
}

static void check_one(struct check *check, const struct check_inode *inode)
{
	bool right = true;

	check->result->directories += S_ISDIR(inode->mode) != 0;
	if (inode->pages != inode->pages_found) {
		report_count(check, inode, "pages", inode->pages, inode->pages_found);
		right = false;
	}
	if (inode->xattr_count != inode->xattrs_found) {
		report_count(check, inode, "extended attributes", inode->xattr_count,
			     inode->xattrs_found);
		right = false;
	}
	if (check_existence(check, inode)) {
		right = links_are_right(check, inode) && right;
		right = parent_is_right(check, inode) && right;
		right = target_is_right(check, inode) && right;
	}
	if (!right)
		check_fix_add(check, FIX_INODE, inode->ino, 0);
}

/* --- The tree --------------------------------------------------------------------------------- */

enum {
	VISIT_NEVER = 0,
	VISIT_DONE = 1, /* leads to the root, or was reported */
	VISIT_FIRST = 2,
};

static struct check_inode *parent_of(struct check *check, const struct check_inode *inode)
{
	if (inode->ino == INODE_ROOT || inode->name_parent == 0)
		return NULL; /* one without a name has been reported */
	return check_inode_find(check, inode->name_parent);
}

/* Follows names upwards: each walk stamps its way, and ends where an earlier one has been. One that
 * meets its own stamp has gone in a circle. */
static void walk_up(struct check *check, struct check_inode *from, uint32_t turn)
{
	struct check_inode *at = from;

	while (at != NULL && at->visit == VISIT_NEVER) {
		at->visit = turn;
		at = parent_of(check, at);
	}
	if (at != NULL && at->visit == turn)
		check_report(check, CHECK_SERIOUS, false,
			     "directory inode %" PRIu64
			     " is below itself, out of reach of the root",
			     at->ino);
	for (at = from; at != NULL && at->visit == turn; at = parent_of(check, at))
		at->visit = VISIT_DONE;
}

int check_counts(struct check *check)
{
	for (size_t i = 0; i < check->inode_count && check->error == 0; i++)
		check_one(check, &check->inodes[i]);
	for (size_t i = 0; i < check->inode_count; i++) {
		if (S_ISDIR(check->inodes[i].mode))
			walk_up(check, &check->inodes[i], (uint32_t)i + VISIT_FIRST);
	}
	return check->error;
}
