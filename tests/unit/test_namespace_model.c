/* SPDX-License-Identifier: Apache-2.0 */
/* Random operations on names against a simple model in memory: the same answers, the same tree, the
 * same times, over failed commits, reopening and death. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/extent.h"
#include "tests/support/runner.h"
#include "tests/support/store_check.h"
#include "tests/support/volume_fixture.h"

/* --- The model -------------------------------------------------------------------------------- */

#define NODES	600
#define ENTRIES 1500
#define NAMES	20
#define XATTRS	4
#define HELD	12

struct node {
	bool used; /* has a name, or is held */
	uint64_t ino;
	struct inode_attr attr; /* what has to be there; size counts for links only */
	unsigned touched;
	char target[32];
	unsigned xattr_bytes[XATTRS]; /* 0: not there */
	struct inode *held;	      /* open */
};

struct link {
	int directory, name, node; /* node -1: free */
};

static struct node nodes[NODES];
static struct link links[ENTRIES];
static char names[NAMES][256];
static struct volume_fixture fixture;
static uint64_t random_state;

enum { TOUCH_CTIME = 1, TOUCH_MTIME = 2 };

static unsigned below(unsigned limit)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(random_state >> 33) % limit;
}

static void make_names(void)
{
	for (int i = 0; i < NAMES; i++)
		snprintf(names[i], sizeof(names[i]), "n%d", i);
	memset(names[1], 'x', 255);
	memset(names[2], 'x', 254);
	strcpy(names[3], "\xff\xfe\n\t \\\x01");
	strcpy(names[4], "...");
	strcpy(names[5], "n");
}

static struct link *find_link(int directory, int name)
{
	for (int i = 0; i < ENTRIES; i++) {
		if (links[i].node >= 0 && links[i].directory == directory && links[i].name == name)
			return &links[i];
	}
	return NULL;
}

static void add_link(int directory, int name, int node)
{
	for (int i = 0; i < ENTRIES; i++) {
		if (links[i].node < 0) {
			links[i] = (struct link){directory, name, node};
			return;
		}
	}
	ck_abort_msg("the model is full");
}

static bool is_empty(int directory)
{
	for (int i = 0; i < ENTRIES; i++) {
		if (links[i].node >= 0 && links[i].directory == directory)
			return false;
	}
	return true;
}

static bool is_dir(int node)
{
	return S_ISDIR(nodes[node].attr.mode);
}

/* Room for one more node and entry? */
static bool is_full(void)
{
	int used = 0, linked = 0;

	for (int i = 0; i < NODES; i++)
		used += nodes[i].used;
	for (int i = 0; i < ENTRIES; i++)
		linked += links[i].node >= 0;
	return used >= NODES - 1 || linked >= ENTRIES - 2;
}

static int new_node(void)
{
	for (int i = 1; i < NODES; i++) {
		if (!nodes[i].used) {
			memset(&nodes[i], 0, sizeof(nodes[i]));
			nodes[i].used = true;
			return i;
		}
	}
	return -1;
}

static int node_of_ino(uint64_t ino)
{
	for (int i = 0; i < NODES; i++) {
		if (nodes[i].used && nodes[i].ino == ino)
			return i;
	}
	return -1;
}

static bool is_below(int directory, int ancestor)
{
	while (directory != 0 && directory != ancestor)
		directory = node_of_ino(nodes[directory].attr.parent);
	return directory == ancestor;
}

/* A used node for which `wanted` holds, or -1. */
static int pick(bool (*wanted)(int node))
{
	int start = (int)below(NODES);

	for (int i = 0; i < NODES; i++) {
		int node = (start + i) % NODES;

		if (nodes[node].used && wanted(node))
			return node;
	}
	return -1;
}

static bool any_node(int node)
{
	return node >= 0;
}

static int pick_dir(void)
{
	return below(4) == 0 ? 0 : pick(is_dir);
}

static void drop_name(int node)
{
	struct inode_attr *attr = &nodes[node].attr;

	attr->nlink = is_dir(node) ? 0 : attr->nlink - 1;
	nodes[node].touched |= TOUCH_CTIME;
	if (attr->nlink == 0 && nodes[node].held == NULL)
		nodes[node].used = false;
}

static void touch_names(int directory)
{
	nodes[directory].touched |= TOUCH_CTIME | TOUCH_MTIME;
}

/* --- Running one operation -------------------------------------------------------------------- */

static int64_t began_ns;
static int fault;

static struct inode *inode_of(int node)
{
	if (nodes[node].held != NULL) {
		inode_ref(fixture.volume, nodes[node].held);
		return nodes[node].held;
	}
	return volume_fixture_inode(&fixture, nodes[node].ino);
}

static void put_inode(struct inode *inode)
{
	inode_unref(fixture.volume, inode, 1);
}

static void before(void)
{
	fault = 0;
	if (below(12) == 0)
		fault = below(3) == 0 ? -EAGAIN : below(2) == 0 ? -EIO : -ENOSPC;
	began_ns = inode_now_ns();
	if (fault != 0)
		store_fault_arm(fault, 1);
}

/* Whether the operation happened: it has to return what the model says, or the fault. */
static bool happened(int expected, int result)
{
	bool faulted = fault != 0 && store_fault_disarm() == 0 && fault != -EAGAIN;

	ck_assert_int_eq(result, faulted ? fault : expected);
	return result == 0;
}

static void learn_times(void)
{
	for (int i = 0; i < NODES; i++) {
		struct inode *inode;

		if (!nodes[i].touched || !nodes[i].used)
			continue;
		inode = inode_of(i);
		if (nodes[i].touched & TOUCH_CTIME) {
			ck_assert_int_ge(inode->attr.ctime_ns, began_ns);
			nodes[i].attr.ctime_ns = inode->attr.ctime_ns;
		}
		if (nodes[i].touched & TOUCH_MTIME) {
			ck_assert_int_ge(inode->attr.mtime_ns, began_ns);
			nodes[i].attr.mtime_ns = inode->attr.mtime_ns;
		}
		nodes[i].touched = 0;
		put_inode(inode);
	}
}

static void do_create(void)
{
	static const mode_t types[] = {S_IFREG, S_IFREG, S_IFDIR, S_IFDIR,
				       S_IFLNK, S_IFIFO, S_IFCHR};
	int directory = pick_dir(), name = (int)below(NAMES), node;
	struct namespace_create create = {
		.mode = types[below(RMEM_COUNT_OF(types))] | (below(2) ? 0755 : 02640),
		.rdev = 0x1234,
		.target = names[below(NAMES)] + 0,
		.caller = {.uid = below(100), .gid = below(100)},
	};
	struct node *parent = &nodes[directory];
	char target[32];
	struct inode *dir, *inode;
	int expected = 0;

	if (is_full())
		return;
	snprintf(target, sizeof(target), "target/%u", below(1000000));
	create.target = target;
	if (parent->attr.nlink == 0)
		expected = -ESTALE;
	else if (find_link(directory, name) != NULL)
		expected = -EEXIST;
	dir = inode_of(directory);
	before();
	if (happened(expected,
		     namespace_create(fixture.volume, dir, names[name], &create, &inode))) {
		node = new_node();
		nodes[node].ino = inode->ino;
		nodes[node].attr = inode->attr;
		ck_assert_uint_eq(inode->attr.uid, create.caller.uid);
		if (parent->attr.mode & S_ISGID) {
			ck_assert_uint_eq(inode->attr.gid, parent->attr.gid);
			if (S_ISDIR(create.mode))
				create.mode |= S_ISGID;
		} else {
			ck_assert_uint_eq(inode->attr.gid, create.caller.gid);
		}
		ck_assert_uint_eq(inode->attr.mode, create.mode);
		ck_assert_uint_eq(inode->attr.nlink, S_ISDIR(create.mode) ? 2 : 1);
		ck_assert_int_ge(inode->attr.btime_ns, began_ns);
		strcpy(nodes[node].target, target);
		parent->attr.nlink += S_ISDIR(create.mode) ? 1 : 0;
		touch_names(directory);
		add_link(directory, name, node);
		put_inode(inode);
	}
	put_inode(dir);
}

static void do_link(void)
{
	int directory = pick_dir(), name = (int)below(NAMES), node = pick(any_node);
	struct inode *dir = inode_of(directory), *inode = inode_of(node);
	int expected = 0;

	if (nodes[directory].attr.nlink == 0)
		expected = -ESTALE;
	else if (is_dir(node))
		expected = -EPERM;
	else if (nodes[node].attr.nlink == 0)
		expected = -ENOENT;
	else if (find_link(directory, name) != NULL)
		expected = -EEXIST;
	if (expected == 0 && is_full())
		goto out;
	before();
	if (happened(expected, namespace_link(fixture.volume, inode, dir, names[name]))) {
		nodes[node].attr.nlink++;
		nodes[node].touched |= TOUCH_CTIME;
		touch_names(directory);
		add_link(directory, name, node);
	}
out:
	put_inode(inode);
	put_inode(dir);
}

static void do_unlink(void)
{
	int directory = pick_dir(), name = (int)below(NAMES);
	struct link *link = find_link(directory, name);
	struct inode *dir = inode_of(directory);
	int expected = link == NULL ? -ENOENT : is_dir(link->node) ? -EISDIR : 0;

	before();
	if (happened(expected, namespace_unlink(fixture.volume, dir, names[name]))) {
		drop_name(link->node);
		touch_names(directory);
		link->node = -1;
	}
	put_inode(dir);
}

static void do_rmdir(void)
{
	int directory = pick_dir(), name = (int)below(NAMES);
	struct link *link = find_link(directory, name);
	struct inode *dir = inode_of(directory);
	int expected = link == NULL	       ? -ENOENT
		       : !is_dir(link->node)   ? -ENOTDIR
		       : !is_empty(link->node) ? -ENOTEMPTY
					       : 0;

	before();
	if (happened(expected, namespace_rmdir(fixture.volume, dir, names[name]))) {
		drop_name(link->node);
		nodes[directory].attr.nlink--;
		touch_names(directory);
		link->node = -1;
	}
	put_inode(dir);
}

static int expect_rename(int from, int to, const struct link *old, const struct link *new,
			 unsigned flags)
{
	bool exchange = flags == RENAME_EXCHANGE;

	if (flags == (RENAME_EXCHANGE | RENAME_NOREPLACE))
		return -EINVAL;
	if (nodes[to].attr.nlink == 0)
		return -ESTALE;
	if (old == NULL)
		return -ENOENT;
	if (new != NULL && flags == RENAME_NOREPLACE)
		return -EEXIST;
	if (new == NULL && exchange)
		return -ENOENT;
	if (new != NULL && old->node == new->node)
		return 0;
	if (new != NULL && !exchange && is_dir(old->node) != is_dir(new->node))
		return is_dir(old->node) ? -ENOTDIR : -EISDIR;
	if (is_dir(old->node) && is_below(to, old->node))
		return -EINVAL;
	if (exchange && is_dir(new->node) && is_below(from, new->node))
		return -EINVAL;
	if (new != NULL && !exchange && is_dir(new->node) && !is_empty(new->node))
		return -ENOTEMPTY;
	return 0;
}

static void move_node(int node, int from, int to)
{
	nodes[node].touched |= TOUCH_CTIME;
	if (!is_dir(node))
		return;
	nodes[node].attr.parent = nodes[to].ino;
	nodes[from].attr.nlink--;
	nodes[to].attr.nlink++;
}

static void apply_rename(int from, int to, struct link *old, struct link *new, int new_name,
			 unsigned flags)
{
	int moved = old->node;

	if (new != NULL &&new->node == moved)
		return;
	touch_names(from);
	touch_names(to);
	move_node(moved, from, to);
	if (flags == RENAME_EXCHANGE) {
		move_node(new->node, to, from);
		old->node = new->node;
		new->node = moved;
		return;
	}
	old->node = -1;
	if (new == NULL) {
		add_link(to, new_name, moved);
		return;
	}
	if (is_dir(new->node))
		nodes[to].attr.nlink--;
	drop_name(new->node);
	new->node = moved;
}

static void do_rename(void)
{
	static const unsigned flags_of[] = {0,
					    0,
					    0,
					    RENAME_NOREPLACE,
					    RENAME_EXCHANGE,
					    RENAME_EXCHANGE,
					    RENAME_EXCHANGE | RENAME_NOREPLACE};
	int from = pick_dir(), to = below(3) == 0 ? from : pick_dir();
	int old_name = (int)below(NAMES), new_name = (int)below(NAMES);
	struct link *old = find_link(from, old_name), *new = find_link(to, new_name);
	struct namespace_rename rename = {
		.old_parent = inode_of(from),
		.new_parent = inode_of(to),
		.old_name = names[old_name],
		.new_name = names[new_name],
		.flags = flags_of[below(RMEM_COUNT_OF(flags_of))],
	};
	int expected = expect_rename(from, to, old, new, rename.flags);

	before();
	if (happened(expected, namespace_rename(fixture.volume, &rename)))
		apply_rename(from, to, old, new, new_name, rename.flags);
	put_inode(rename.old_parent);
	put_inode(rename.new_parent);
}

static void do_setattr(void)
{
	int node = pick(any_node);
	struct inode_attr *model = &nodes[node].attr;
	struct inode_attr attr = {
		.mode = below(010000),
		.uid = below(1000),
		.gid = below(1000),
		.atime_ns = below(1000000),
		.mtime_ns = below(1000000),
	};
	unsigned mask = below(32);
	struct inode *inode = inode_of(node);

	before();
	if (happened(0, namespace_setattr(fixture.volume, inode, &attr, mask))) {
		nodes[node].touched |= TOUCH_CTIME;
		if ((mask & (NAMESPACE_UID | NAMESPACE_GID)) && !is_dir(node))
			model->mode &= ~(model->mode & S_IXGRP ? 06000u : 04000u);
		if (mask & NAMESPACE_MODE)
			model->mode = (model->mode & S_IFMT) | attr.mode;
		if (mask & NAMESPACE_UID)
			model->uid = attr.uid;
		if (mask & NAMESPACE_GID)
			model->gid = attr.gid;
		if (mask & NAMESPACE_ATIME)
			model->atime_ns = attr.atime_ns;
		if (mask & NAMESPACE_MTIME)
			model->mtime_ns = attr.mtime_ns;
	}
	put_inode(inode);
}

static void xattr_name(char name[32], int index)
{
	snprintf(name, 32, "user.attribute%d", index);
}

static void fill_value(uint8_t *value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		value[i] = (uint8_t)(bytes * 31 + i);
}

static void do_setxattr(void)
{
	static uint8_t value[65536];
	static const int flags_of[] = {0, 0, XATTR_CREATE, XATTR_REPLACE};
	int node = pick(any_node), index = (int)below(XATTRS), expected = 0;
	unsigned *bytes = &nodes[node].xattr_bytes[index];
	unsigned wanted = 1 + below(below(8) == 0 ? 65536 : 200);
	struct inode *inode = inode_of(node);
	char name[32];
	struct namespace_xattr xattr = {
		.name = name,
		.value = value,
		.size = wanted,
		.flags = flags_of[below(4)],
	};

	xattr_name(name, index);
	fill_value(value, wanted);
	if (xattr.flags == XATTR_CREATE && *bytes != 0)
		expected = -EEXIST;
	else if (xattr.flags == XATTR_REPLACE && *bytes == 0)
		expected = -ENODATA;
	if (inode->removed)
		goto out; /* its records are gone */
	before();
	if (happened(expected, namespace_setxattr(fixture.volume, inode, &xattr))) {
		nodes[node].attr.xattr_count += *bytes == 0;
		*bytes = wanted;
		nodes[node].touched |= TOUCH_CTIME;
	}
out:
	put_inode(inode);
}

static void do_removexattr(void)
{
	int node = pick(any_node), index = (int)below(XATTRS);
	unsigned *bytes = &nodes[node].xattr_bytes[index];
	struct inode *inode = inode_of(node);
	char name[32];

	xattr_name(name, index);
	if (inode->removed)
		goto out;
	before();
	if (happened(*bytes == 0 ? -ENODATA : 0,
		     namespace_removexattr(fixture.volume, inode, name))) {
		nodes[node].attr.xattr_count--;
		*bytes = 0;
		nodes[node].touched |= TOUCH_CTIME;
	}
out:
	put_inode(inode);
}

/* Opens a file or directory for a while. */
static void do_hold(void)
{
	int node = pick(any_node), held = 0;
	struct inode *inode;

	for (int i = 0; i < NODES; i++)
		held += nodes[i].used && nodes[i].held != NULL;
	if (held >= HELD || nodes[node].held != NULL)
		return;
	inode = inode_of(node);
	pthread_mutex_lock(&inode->lock);
	inode->opens++;
	pthread_mutex_unlock(&inode->lock);
	nodes[node].held = inode;
}

static void let_go(int node)
{
	struct inode *inode = nodes[node].held;

	pthread_mutex_lock(&inode->lock);
	inode->opens--;
	pthread_mutex_unlock(&inode->lock);
	nodes[node].held = NULL;
	if (nodes[node].attr.nlink == 0)
		nodes[node].used = false;
	put_inode(inode);
}

static bool is_held(int node)
{
	return node != 0 && nodes[node].held != NULL;
}

static void do_let_go(void)
{
	int node = pick(is_held);

	if (node >= 0)
		let_go(node);
}

static bool is_file(int node)
{
	return S_ISREG(nodes[node].attr.mode);
}

/* Takes space for a file, as a write does. */
static void do_write(void)
{
	int node = pick(is_file);
	struct inode *inode;
	uint64_t offset = (uint64_t)below(64) << below(22), length = 1 + below(100000);

	if (node < 0)
		return;
	inode = inode_of(node);
	if (inode->removed)
		goto out;
	before();
	if (fault == -ENOSPC) { /* would be tried again with less */
		fault = -EIO;
		store_fault_arm(fault, 1);
	}
	pthread_mutex_lock(&inode->lock);
	if (happened(0, extent_allocate(fixture.volume, inode, offset, length, EXTENT_GROW))) {
		extent_mark_written(fixture.volume, inode, offset, length);
		inode_mark_dirty(fixture.volume, inode, INODE_DIRTY_ATTR | INODE_DIRTY_MAP);
	}
	pthread_mutex_unlock(&inode->lock);
out:
	put_inode(inode);
}

static void do_flush(void)
{
	int node = pick(any_node);
	struct inode *inode = inode_of(node);
	bool dirty = inode->dirty != 0;

	before();
	if (fault == -ENOSPC)
		store_fault_arm(fault, 2); /* a full store's reserve is tried then */
	if (!happened(0, inode_flush(fixture.volume, inode)))
		ck_assert(dirty && inode->dirty != 0);
	else
		ck_assert_uint_eq(inode->dirty, 0);
	put_inode(inode);
}

static void do_one(void)
{
	static const struct {
		void (*run)(void);
		unsigned weight;
	} kinds[] = {
		{do_create, 30}, {do_link, 8},	  {do_unlink, 14},  {do_rmdir, 10},
		{do_rename, 24}, {do_setattr, 8}, {do_setxattr, 8}, {do_removexattr, 3},
		{do_hold, 4},	 {do_let_go, 3},  {do_write, 12},   {do_flush, 4},
	};
	unsigned total = 0, chosen, i;

	for (i = 0; i < RMEM_COUNT_OF(kinds); i++)
		total += kinds[i].weight;
	chosen = below(total);
	for (i = 0; chosen >= kinds[i].weight; i++)
		chosen -= kinds[i].weight;
	kinds[i].run();
	learn_times();
}

/* --- Comparing -------------------------------------------------------------------------------- */

static void compare_xattrs(int node, struct inode *inode)
{
	static uint8_t value[65536], wanted[65536];
	char names_found[512], name[32];
	ssize_t listed =
		namespace_listxattr(fixture.volume, inode, names_found, sizeof(names_found));
	ssize_t total = 0;

	for (int i = 0; i < XATTRS; i++) {
		unsigned bytes = nodes[node].xattr_bytes[i];
		ssize_t got;

		xattr_name(name, i);
		got = namespace_getxattr(fixture.volume, inode, name, value, sizeof(value));
		ck_assert_int_eq(got, bytes == 0 ? -ENODATA : (ssize_t)bytes);
		if (bytes == 0)
			continue;
		fill_value(wanted, bytes);
		ck_assert_int_eq(memcmp(value, wanted, bytes), 0);
		total += (ssize_t)strlen(name) + 1;
	}
	ck_assert_int_eq(listed, total);
}

static void compare_node(int node)
{
	const struct inode_attr *wanted = &nodes[node].attr;
	struct inode *inode = inode_of(node);
	const struct inode_attr *attr = &inode->attr;
	char target[4096];

	ck_assert_uint_eq(attr->mode, wanted->mode);
	ck_assert_uint_eq(attr->nlink, wanted->nlink);
	ck_assert_uint_eq(attr->uid, wanted->uid);
	ck_assert_uint_eq(attr->gid, wanted->gid);
	ck_assert_uint_eq(attr->rdev, wanted->rdev);
	ck_assert_uint_eq(attr->xattr_count, wanted->xattr_count);
	ck_assert_uint_eq(attr->parent, wanted->parent);
	ck_assert_int_eq(attr->atime_ns, wanted->atime_ns);
	ck_assert_int_eq(attr->mtime_ns, wanted->mtime_ns);
	ck_assert_int_eq(attr->ctime_ns, wanted->ctime_ns);
	ck_assert_int_eq(attr->btime_ns, wanted->btime_ns);
	if (nodes[node].held != NULL && attr->nlink == 0)
		ck_assert(inode->orphan && !inode->removed);
	if (!inode->removed)
		compare_xattrs(node, inode);
	if (S_ISLNK(attr->mode) && !inode->removed) {
		ck_assert_int_eq(namespace_readlink(fixture.volume, inode, target), 0);
		ck_assert_str_eq(target, nodes[node].target);
		ck_assert_uint_eq(attr->size, strlen(target));
	}
	put_inode(inode);
}

static int name_index(const char *name)
{
	for (int i = 0; i < NAMES; i++) {
		if (strcmp(names[i], name) == 0)
			return i;
	}
	return -1;
}

static void compare_directory(int directory)
{
	struct inode *inode = inode_of(directory);
	struct namespace_dir *dir;
	struct namespace_entry entry;
	uint64_t offset = 0;
	int found = 0, wanted = 0;

	for (int i = 0; i < ENTRIES; i++)
		wanted += links[i].node >= 0 && links[i].directory == directory;
	ck_assert_int_eq(namespace_opendir(fixture.volume, inode, &dir), 0);
	for (int result; (result = namespace_readdir(dir, offset, &entry)) != 0;
	     offset = entry.next) {
		struct link *link;
		struct inode *child;

		ck_assert_int_eq(result, 1);
		if (offset < 2) {
			ck_assert_str_eq(entry.name, offset == 0 ? "." : "..");
			ck_assert_uint_eq(entry.ino,
					  offset == 0 ? inode->ino : nodes[directory].attr.parent);
			continue;
		}
		link = find_link(directory, name_index(entry.name));
		ck_assert_ptr_nonnull(link);
		ck_assert_uint_eq(entry.ino, nodes[link->node].ino);
		ck_assert_uint_eq(entry.type, IFTODT(nodes[link->node].attr.mode));
		ck_assert_int_eq(namespace_lookup(fixture.volume, inode, entry.name, &child), 0);
		ck_assert_uint_eq(child->ino, entry.ino);
		put_inode(child);
		found++;
	}
	namespace_closedir(dir);
	ck_assert_int_eq(found, wanted);
	put_inode(inode);
}

static void compare(void)
{
	uint64_t inodes = 0;
	struct volume_usage usage;

	for (int i = 0; i < NODES; i++) {
		if (!nodes[i].used)
			continue;
		compare_node(i);
		if (is_dir(i))
			compare_directory(i);
		inodes += nodes[i].held == NULL || !nodes[i].held->removed;
	}
	/* The worker may still be busy with large ones. */
	for (int i = 0; i < 5000; i++) {
		volume_usage(fixture.volume, &usage);
		if (usage.inodes == inodes)
			break;
		usleep(1000);
	}
	ck_assert_uint_eq(usage.inodes, inodes);
}

static void let_all_go(void)
{
	for (int i = 0; i < NODES; i++) {
		if (nodes[i].used && nodes[i].held != NULL)
			let_go(i);
	}
}

/* --- The tests -------------------------------------------------------------------------------- */

#define POOL_BYTES (256ull << 20)

static void setup(void)
{
	struct inode *root;

	make_names();
	memset(nodes, 0, sizeof(nodes));
	for (int i = 0; i < ENTRIES; i++)
		links[i].node = -1;
	volume_fixture_init(&fixture);
	volume_fixture_attach(&fixture, 0, "shm:/a", 1, POOL_BYTES);
	root = volume_fixture_inode(&fixture, INODE_ROOT);
	nodes[0] = (struct node){.used = true, .ino = INODE_ROOT, .attr = root->attr};
	put_inode(root);
}

static void teardown(void)
{
	volume_fixture_finish(&fixture);
}

static void reopen(void)
{
	let_all_go();
	volume_fixture_close(&fixture);
	store_check_clean(fixture.url);
	volume_fixture_open(&fixture);
	volume_fixture_attach(&fixture, 0, "shm:/a", 1, POOL_BYTES);
}

START_TEST(random_operations_do_what_the_model_says)
{
	setup();
	random_state = (uint64_t)_i + 1;
	for (int turn = 0; turn < 4; turn++) {
		for (int i = 0; i < 1500; i++) {
			do_one();
			if (i % 250 == 249)
				compare();
		}
		reopen();
		compare();
	}
	teardown();
}
END_TEST

START_TEST(all_space_comes_back_when_everything_is_deleted)
{
	struct volume_usage usage;

	setup();
	random_state = 77;
	for (int i = 0; i < 3000; i++)
		do_one();
	let_all_go();
	for (int turn = 0; turn < 1000 && !is_empty(0); turn++) {
		for (int i = 0; i < ENTRIES; i++) {
			struct inode *dir;
			int node = links[i].node, directory = links[i].directory;
			const char *name = names[links[i].name];

			if (node < 0 || (is_dir(node) && !is_empty(node)))
				continue;
			dir = inode_of(directory);
			if (is_dir(node))
				ck_assert_int_eq(namespace_rmdir(fixture.volume, dir, name), 0);
			else
				ck_assert_int_eq(namespace_unlink(fixture.volume, dir, name), 0);
			drop_name(node);
			links[i].node = -1;
			put_inode(dir);
		}
	}
	reopen();
	volume_usage(fixture.volume, &usage);
	ck_assert_uint_eq(usage.inodes, 1);
	ck_assert_uint_eq(usage.pages_free, usage.pages_total);
	ck_assert_uint_eq(usage.pages_total, POOL_BYTES / VOLUME_PAGE_BYTES);
	teardown();
}
END_TEST

/* What a killed mount leaves is sound, and the next mount has nothing of its deleted open files. */
START_TEST(a_volume_survives_the_death_of_its_mount)
{
	setup();
	for (int turn = 0; turn < 4; turn++) {
		struct volume_usage usage;
		int status;
		pid_t pid;

		volume_fixture_close(&fixture);
		pid = fork();
		ck_assert_int_ge(pid, 0);
		if (pid == 0) {
			random_state = (uint64_t)turn + 1000;
			volume_fixture_open(&fixture);
			volume_fixture_attach(&fixture, 0, "shm:/a", 1, POOL_BYTES);
			/* The tree of an earlier turn stays: this one gets a root of its own. */
			memset(names[0], 'a' + turn, 20);
			nodes[0].attr = volume_fixture_inode(&fixture, INODE_ROOT)->attr;
			struct inode *top = volume_fixture_create(
				&fixture, volume_fixture_inode(&fixture, INODE_ROOT), names[0],
				S_IFDIR | 0755);
			nodes[0] = (struct node){
				.used = true, .ino = top->ino, .attr = top->attr, .held = top};
			for (int i = 0; i < 1200; i++)
				do_one();
			_exit(0);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
		volume_fixture_open(&fixture);
		volume_fixture_attach(&fixture, 0, "shm:/a", 1, POOL_BYTES);
		volume_usage(fixture.volume, &usage);
		ck_assert_uint_ge(usage.inodes, 2);
		volume_fixture_close(&fixture);
		store_check_clean(fixture.url);
		volume_fixture_open(&fixture);
	}
	teardown();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("namespace_model");
	TCase *model = tcase_create("model");

	tcase_set_timeout(model, 120);
	tcase_add_loop_test(model, random_operations_do_what_the_model_says, 0, 6);
	tcase_add_test(model, all_space_comes_back_when_everything_is_deleted);
	tcase_add_test(model, a_volume_survives_the_death_of_its_mount);
	suite_add_tcase(s, model);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
