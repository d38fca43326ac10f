/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of check share: check.c (inodes), check_names.c, check_sessions.c,
 * check_space.c, check_losses.c, check_counts.c and check_repair.c. */
#pragma once

#include "fs/check.h"
#include "fs/inode.h"
#include "fs/record.h"

struct check_inode {
	uint64_t ino;
	/* Stored. */
	uint32_t mode, nlink, xattr_count;
	uint64_t size, pages, parent;
	/* Found. */
	uint64_t pages_found;
	uint64_t name_parent; /* where its last name is */
	uint32_t names, children, xattrs_found;
	uint32_t target_bytes; /* of its L record; 0: it has none */
	bool orphan;	       /* has an O record */
	bool placed;	       /* its name is wanted; see check_losses.c */
	uint32_t visit;	       /* turn of the walk to the root; see check_names.c */
};

struct check_region {
	uint32_t id;
	uint64_t pages;
	uint64_t *used; /* a bit a page, from the extents */
	uint64_t twice; /* pages that two extents have */
};

struct check_loss {
	uint64_t ino, bytes;
};

enum check_fix_kind {
	/* Deletions come first: the rest is judged again after them. */
	FIX_DELETE_KEY,
	FIX_DELETE_INODE, /* all of its records */
	FIX_LAST_DELETION = FIX_DELETE_INODE,
	FIX_INODE,   /* link count, pages, xattr count and parent as found */
	FIX_ADOPT,   /* a name in the root directory */
	FIX_TYPE,    /* in a directory entry (key): inode and type */
	FIX_BITMAP,  /* of a group, as the extents say */
	FIX_NUMBERS, /* N, beyond the highest inode */
};

struct check_fix {
	enum check_fix_kind kind;
	uint64_t number, second; /* inode and session or type; region and group; N's value */
	struct record_key key;
	size_t key_size;
};

struct check {
	const struct check_options *options;
	struct check_result *result;
	struct store_txn *txn;
	struct record_volume_fields volume;
	bool alone; /* we hold the store: every session is dead, and ends now */

	struct check_inode *inodes; /* by number */
	size_t inode_count, inode_room;
	struct check_region *regions;
	size_t region_count, region_room;
	struct check_loss *losses; /* by inode number */
	size_t loss_count, loss_room;
	struct check_place *places;
	size_t place_count, place_room;
	uint64_t *sessions;
	size_t session_count, session_room;
	struct check_fix *fixes;
	size_t fix_count, fix_room;
	int error; /* -ENOMEM within a finding */
};

/* Grows an array to hold one more. */
int check_grow(void **array, size_t *room, size_t count, size_t size) RMEM_MUST_CHECK;

void check_report(struct check *check, enum check_severity severity, bool repairable,
		  const char *format, ...) RMEM_PRINTF(4, 5);
/* One that is made elsewhere. */
void check_report_finding(struct check *check, const struct check_finding *finding);
/* Forms for people: a key's letter, number and the rest; a name with '?' for what isn't plain
 * ASCII, long ones cut. */
#define CHECK_NAME_TEXT 72
#define CHECK_KEY_TEXT	128
const char *check_key_text(struct store_slice key, char text[CHECK_KEY_TEXT]);
const char *check_name_text(struct store_slice name, char text[CHECK_NAME_TEXT]);

/* NULL: no such inode. */
struct check_inode *check_inode_find(struct check *check, uint64_t ino);
struct check_region *check_region_find(struct check *check, uint32_t id);

void check_fix_add(struct check *check, enum check_fix_kind kind, uint64_t number, uint64_t second);
void check_fix_key(struct check *check, enum check_fix_kind kind, struct store_slice key,
		   uint64_t number, uint64_t second);

/* Visits every record of a kind. */
int check_scan(struct check *check, enum record_kind kind, store_visit *visit) RMEM_MUST_CHECK;

/* D, L, X: reads them all. */
int check_names(struct check *check) RMEM_MUST_CHECK;
/* M, O, and inodes without a name. */
int check_sessions(struct check *check) RMEM_MUST_CHECK;
void check_note_sessions(struct check *check);
/* S, C, A. */
int check_space(struct check *check) RMEM_MUST_CHECK;
/* An extent of an inode's C record is in memory that is gone. */
int check_loss_add(struct check *check, uint64_t ino, uint64_t chunk,
		   const struct record_chunk_view *view,
		   const struct record_extent *extent) RMEM_MUST_CHECK;
/* Names the files of which check_loss_add() was told; after check_names(). */
int check_losses(struct check *check) RMEM_MUST_CHECK;
void check_losses_finish(struct check *check);
/* What was found about each inode against what it says of itself, and directories as a tree. */
int check_counts(struct check *check) RMEM_MUST_CHECK;

/* One round of all checks; check->fixes says what could be done. */
int check_round(struct check *check) RMEM_MUST_CHECK;
void check_finish(struct check *check);
