/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of directories in the store. */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "fs/change.h"
#include "fs/record.h"

static struct store_slice key_of(struct record_key *key, uint64_t directory, const char *name)
{
	return record_key_name(key, RECORD_DIRENT, directory, name, strlen(name));
}

int entry_get(struct store_txn *txn, uint64_t directory, const char *name, struct entry *entry)
{
	struct record_key key;
	struct store_slice value;
	int error = store_get(txn, key_of(&key, directory, name), &value);

	return error != 0 ? error : record_decode_dirent(value, &entry->ino, &entry->type);
}

int entry_lookup(struct store *store, uint64_t directory, const char *name, struct entry *entry)
{
	struct store_txn *txn;
	int error = store_begin(store, STORE_READ, &txn);

	if (error != 0)
		return error;
	error = entry_get(txn, directory, name, entry);
	store_abort(txn);
	return error;
}

static int put(struct store_txn *txn, uint64_t directory, const char *name,
	       const struct entry *entry)
{
	struct record_key key;
	struct record_dirent value;

	return store_put(txn, key_of(&key, directory, name),
			 record_encode_dirent(&value, entry->ino, entry->type));
}

int entry_add(struct store_txn *txn, uint64_t directory, const char *name,
	      const struct entry *entry)
{
	struct entry old;
	int error = entry_get(txn, directory, name, &old);

	if (error == 0)
		return -EEXIST;
	return error != -ENOENT ? error : put(txn, directory, name, entry);
}

/* Another mount may have changed the name since it was looked up. */
static int check_stands(struct store_txn *txn, uint64_t directory, const char *name,
			const struct entry *old)
{
	struct entry now;
	int error = entry_get(txn, directory, name, &now);

	if (error == -ENOENT || (error == 0 && now.ino != old->ino))
		return -EAGAIN;
	return error;
}

int entry_replace(struct store_txn *txn, uint64_t directory, const char *name,
		  const struct entry *old, const struct entry *entry)
{
	int error = check_stands(txn, directory, name, old);

	return error != 0 ? error : put(txn, directory, name, entry);
}

int entry_remove(struct store_txn *txn, uint64_t directory, const char *name,
		 const struct entry *old)
{
	struct record_key key;
	int error = check_stands(txn, directory, name, old);

	return error != 0 ? error : store_delete(txn, key_of(&key, directory, name));
}

static int not_empty(void *user, struct store_slice key, struct store_slice value)
{
	(void)user;
	(void)key;
	(void)value;
	return -ENOTEMPTY;
}

int entry_none(struct store_txn *txn, uint64_t directory)
{
	struct record_key key;

	return store_scan(txn, record_key_number(&key, RECORD_DIRENT, directory),
			  (struct store_slice){0}, not_empty, NULL);
}
