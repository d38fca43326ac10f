/* SPDX-License-Identifier: Apache-2.0 */
/* Repairing goes in rounds: a whole check, then what it proposed. As long as something is to be
 * deleted, only that is done, because counts and bitmaps follow from what is left. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/check_parts.h"

#define ROUNDS_MAX   8u
#define KEYS_AT_ONCE 64u

/* --- Deleting --------------------------------------------------------------------------------- */

struct keys {
	struct record_key keys[KEYS_AT_ONCE];
	size_t sizes[KEYS_AT_ONCE];
	unsigned count;
};

static int collect_key(void *user, struct store_slice key, struct store_slice value)
{
	struct keys *keys = user;

	(void)value;
	if (keys->count == KEYS_AT_ONCE)
		return 1;
	if (key.size > sizeof(keys->keys[0].bytes))
		return -EIO;
	memcpy(keys->keys[keys->count].bytes, key.data, key.size);
	keys->sizes[keys->count++] = key.size;
	return 0;
}

struct prefix {
	enum record_kind kind;
	uint64_t number;
	bool more;
};

static int delete_some(struct store_txn *txn, void *user)
{
	struct prefix *prefix = user;
	struct keys found = {.count = 0};
	struct record_key key;
	int result = store_scan(txn, record_key_number(&key, prefix->kind, prefix->number),
				(struct store_slice){0}, collect_key, &found);

	prefix->more = result > 0;
	for (unsigned i = 0; i < found.count && result >= 0; i++)
		result = store_delete(txn, (struct store_slice){.data = found.keys[i].bytes,
								.size = found.sizes[i]});
	return result < 0 ? result : 0;
}

static int delete_all(struct store *store, enum record_kind kind, uint64_t number)
{
	struct prefix prefix = {.kind = kind, .number = number, .more = true};
	int error = 0;

	while (prefix.more && error == 0)
		error = store_shrink(store, delete_some, &prefix);
	return error;
}

/* The inode's own record goes last, so that the rest is found again if this is interrupted. */
static int delete_inode(struct store *store, uint64_t ino)
{
	static const enum record_kind kinds[] = {RECORD_CHUNK, RECORD_XATTR, RECORD_SYMLINK,
						 RECORD_INODE};
	int error = 0;

	for (unsigned i = 0; i < RMEM_COUNT_OF(kinds) && error == 0; i++)
		error = delete_all(store, kinds[i], ino);
	return error;
}

/* --- One fix in one transaction --------------------------------------------------------------- */

struct fixing {
	struct check *check;
	const struct check_fix *fix;
};

static int put_inode(struct store_txn *txn, struct check *check, uint64_t ino)
{
	const struct check_inode *found = check_inode_find(check, ino);
	struct inode_attr attr;
	struct record_key buffer;
	struct record_inode value;
	struct store_slice key = record_key_number(&buffer, RECORD_INODE, ino), stored;
	int error = store_get(txn, key, &stored);

	if (error == 0)
		error = record_decode_inode(stored, &attr);
	if (error != 0)
		return error;
	attr.pages = found->pages_found;
	attr.xattr_count = found->xattrs_found;
	if (attr.nlink > 0 && S_ISDIR(attr.mode)) {
		attr.nlink = 2 + found->children;
		attr.parent = ino == INODE_ROOT ? INODE_ROOT : found->name_parent;
	} else if (attr.nlink > 0) {
		attr.nlink = found->names;
	}
	if (S_ISLNK(attr.mode) && found->target_bytes > 0)
		attr.size = found->target_bytes;
	attr.version++;
	return store_put(txn, key, record_encode_inode(&value, &attr));
}

static int put_type(struct store_txn *txn, const struct check_fix *fix)
{
	struct store_slice key = {.data = fix->key.bytes, .size = fix->key_size};
	struct record_dirent value;

	return store_put(txn, key,
			 record_encode_dirent(&value, fix->number, (uint32_t)fix->second));
}

static int adopt(struct store_txn *txn, struct check *check, uint64_t ino)
{
	const struct check_inode *found = check_inode_find(check, ino);
	char name[64];
	struct record_key buffer;
	struct record_dirent value;
	struct store_slice key, stored;
	unsigned tail = 0;
	int error;

	do {
		int length =
			snprintf(name, sizeof(name),
				 tail == 0 ? "lost-%" PRIu64 : "lost-%" PRIu64 "-%u", ino, tail);

		key = record_key_name(&buffer, RECORD_DIRENT, INODE_ROOT, name, (size_t)length);
		error = store_get(txn, key, &stored);
		tail++;
	} while (error == 0);
	if (error != -ENOENT)
		return error;
	return store_put(txn, key, record_encode_dirent(&value, ino, IFTODT(found->mode)));
}

static int put_bitmap(struct store_txn *txn, struct check *check, uint32_t id, uint64_t group)
{
	const struct check_region *region = check_region_find(check, id);
	const uint64_t *words = region->used + group * RECORD_GROUP_WORDS;
	struct record_key buffer;
	struct record_bitmap value;
	struct store_slice key = record_key_pair(&buffer, RECORD_BITMAP, id, group);
	uint64_t any = 0;
	int error;

	for (unsigned i = 0; i < RECORD_GROUP_WORDS; i++)
		any |= words[i];
	if (any != 0)
		return store_put(txn, key, record_encode_bitmap(&value, words));
	error = store_delete(txn, key);
	return error == -ENOENT ? 0 : error;
}

static int put_numbers(struct store_txn *txn, uint64_t next)
{
	struct record_key key;
	struct record_number value;

	return store_put(txn, record_key_kind(&key, RECORD_NUMBERS),
			 record_encode_number(&value, RECORD_NUMBERS, next));
}

static int apply_in(struct store_txn *txn, void *user)
{
	struct fixing *fixing = user;
	const struct check_fix *fix = fixing->fix;
	int error;

	switch (fix->kind) {
	case FIX_DELETE_KEY:
		error = store_delete(
			txn, (struct store_slice){.data = fix->key.bytes, .size = fix->key_size});
		return error == -ENOENT ? 0 : error;
	case FIX_INODE:
		return put_inode(txn, fixing->check, fix->number);
	case FIX_TYPE:
		return put_type(txn, fix);
	case FIX_ADOPT:
		return adopt(txn, fixing->check, fix->number);
	case FIX_BITMAP:
		return put_bitmap(txn, fixing->check, (uint32_t)fix->number, fix->second);
	case FIX_NUMBERS:
		return put_numbers(txn, fix->number);
	case FIX_DELETE_INODE:
		break; /* takes several */
	}
	return -EINVAL;
}

/* --- Rounds ----------------------------------------------------------------------------------- */

static int apply(struct check *check, const struct check_fix *fix)
{
	struct fixing fixing = {.check = check, .fix = fix};

	if (fix->kind == FIX_DELETE_INODE)
		return delete_inode(check->options->store, fix->number);
	return store_shrink(check->options->store, apply_in, &fixing);
}

static int apply_round(struct check *check)
{
	bool deletes = false;
	int error = 0;

	for (size_t i = 0; i < check->fix_count; i++)
		deletes = deletes || check->fixes[i].kind <= FIX_LAST_DELETION;
	for (size_t i = 0; i < check->fix_count && error == 0; i++) {
		if (!deletes || check->fixes[i].kind <= FIX_LAST_DELETION)
			error = apply(check, &check->fixes[i]);
	}
	return error;
}

static uint64_t count_findings(const struct check_result *result)
{
	return result->findings[CHECK_LEAK] + result->findings[CHECK_WRONG] +
	       result->findings[CHECK_SERIOUS];
}

int check_repair(const struct check_options *options, struct check_result *result)
{
	struct check_options quiet = {.store = options->store};
	uint64_t found = 0;
	bool again = true;
	int error = 0;

	for (unsigned round = 0; again && error == 0 && round < ROUNDS_MAX; round++) {
		struct check check = {
			.options = round == 0 ? options : &quiet,
			.result = result,
			.alone = true,
		};

		*result = (struct check_result){0};
		error = check_round(&check);
		if (round == 0)
			found = count_findings(result);
		again = check.fix_count > 0;
		if (error == 0 && again)
			error = apply_round(&check);
		check_finish(&check);
	}
	if (error == 0 && found > count_findings(result))
		result->repaired = found - count_findings(result);
	return error != 0 ? error : store_sync(options->store);
}
