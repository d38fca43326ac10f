/* SPDX-License-Identifier: Apache-2.0 */
/* Mount sessions: who has the volume mounted, and what is left of those who had. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "fs/inode.h"
#include "fs/volume_parts.h"

/* --- Beginning and ending --------------------------------------------------------------------- */

static int put_volume(struct store_txn *txn, const struct record_volume_fields *fields)
{
	struct record_key key;
	struct record_volume value;

	return store_put(txn, record_key_kind(&key, RECORD_VOLUME),
			 record_encode_volume(&value, fields));
}

static int put_root(struct store_txn *txn)
{
	int64_t now = inode_now_ns();
	struct inode_attr attr = {
		.mode = S_IFDIR | 0755,
		.uid = getuid(),
		.gid = getgid(),
		.nlink = 2,
		.generation = 1,
		.atime_ns = now,
		.mtime_ns = now,
		.ctime_ns = now,
		.btime_ns = now,
		.parent = INODE_ROOT,
		.version = 1,
	};
	struct record_key key;
	struct record_inode value;

	return store_put(txn, record_key_number(&key, RECORD_INODE, INODE_ROOT),
			 record_encode_inode(&value, &attr));
}

static int found_key(void *user, struct store_slice key, struct store_slice value)
{
	(void)user;
	(void)key;
	(void)value;
	return 1;
}

/* A store without a volume: it has to be empty. -EPROTO: it isn't. */
static int format(struct store_txn *txn, struct record_volume_fields *fields)
{
	struct record_number numbers;
	struct record_key key;
	int result =
		store_scan(txn, (struct store_slice){0}, (struct store_slice){0}, found_key, NULL);

	if (result != 0)
		return result < 0 ? result : -EPROTO;
	*fields = (struct record_volume_fields){
		.created_ns = inode_now_ns(),
		.region_next = 1,
		.server_next = 1,
		.mount_next = 1,
	};
	if (getrandom(fields->uuid, sizeof(fields->uuid), 0) != (ssize_t)sizeof(fields->uuid))
		return -EIO;
	fields->uuid[6] = (uint8_t)((fields->uuid[6] & 0x0f) | 0x40); /* a random one */
	fields->uuid[8] = (uint8_t)((fields->uuid[8] & 0x3f) | 0x80);
	result = store_put(txn, record_key_kind(&key, RECORD_NUMBERS),
			   record_encode_number(&numbers, RECORD_NUMBERS, INODE_ROOT + 1));
	return result != 0 ? result : put_root(txn);
}

struct begin {
	struct record_mount_fields mount;
	struct record_volume_fields volume;
	uint64_t mount_id;
	bool is_full; /* the store: only a volume that is there may be used */
};

static int put_session(struct store_txn *txn, void *user)
{
	struct begin *begin = user;
	struct record_key key;
	struct record_mount value;
	struct store_slice stored;
	int error = store_get(txn, record_key_kind(&key, RECORD_VOLUME), &stored);

	if (error == -ENOENT)
		error = begin->is_full ? -ENOSPC : format(txn, &begin->volume);
	else if (error == 0)
		error = record_decode_volume(stored, &begin->volume);
	if (error != 0)
		return error;
	begin->mount_id = begin->volume.mount_next++;
	error = put_volume(txn, &begin->volume);
	if (error != 0)
		return error;
	return store_put(txn, record_key_number(&key, RECORD_MOUNT, begin->mount_id),
			 record_encode_mount(&value, &begin->mount));
}

/* 32 hexadecimal digits with dashes between; zeros when the kernel does not tell. */
static void read_boot_id(uint8_t id[16])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	unsigned digits = 0;
	int c;

	memset(id, 0, 16);
	if (file == NULL)
		return;
	while (digits < 32 && (c = fgetc(file)) != EOF && c != '\n') {
		unsigned digit;

		if (c >= '0' && c <= '9')
			digit = (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			digit = (unsigned)(c - 'a') + 10;
		else
			continue;
		id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | digit);
		digits++;
	}
	fclose(file);
}

int volume_session_begin(struct volume *volume, const struct volume_options *options,
			 struct rmem_error *error)
{
	struct begin begin = {
		.mount = {.pid = (uint64_t)getpid(), .started_ns = inode_now_ns()},
	};
	const char *url = options->store.url;
	int status;

	read_boot_id(begin.mount.boot_id);
	gethostname(begin.mount.host, sizeof(begin.mount.host) - 1);
	snprintf(begin.mount.mountpoint, sizeof(begin.mount.mountpoint), "%s",
		 options->mountpoint != NULL ? options->mountpoint : "");
	status = store_update(volume->store, put_session, &begin);
	if (status == -ENOSPC) {
		/* Where else could files be removed? */
		begin.is_full = true;
		status = store_shrink(volume->store, put_session, &begin);
	}
	if (status == -EPROTO)
		return rmem_fail(error, EPROTO,
				 "store %s holds something else than a volume of format %u: use "
				 "the version of rmemfs that made it, or another folder",
				 url, RECORD_FORMAT);
	if (status == -ENOSPC)
		return rmem_fail(error, ENOSPC,
				 "store %s has no room for a volume: its disk needs at least 9 MiB "
				 "that are free",
				 url);
	if (status != 0)
		return rmem_fail(error, -status, "store %s: cannot begin a mount session: %s", url,
				 strerror(-status));
	memcpy(volume->uuid, begin.volume.uuid, sizeof(volume->uuid));
	volume->mount_id = begin.mount_id;
	return 0;
}

static int delete_session(struct store_txn *txn, void *user)
{
	struct record_key key;
	int error = store_delete(txn, record_key_number(&key, RECORD_MOUNT, *(uint64_t *)user));

	return error == -ENOENT ? 0 : error;
}

int volume_session_end(struct volume *volume)
{
	return store_shrink(volume->store, delete_session, &volume->mount_id);
}

/* --- What dead sessions left ------------------------------------------------------------------ */

#define FOUND_MAX 64u

struct found {
	enum record_kind kind;
	uint64_t skip_mount; /* our own */
	unsigned count;
	uint64_t mount[FOUND_MAX], ino[FOUND_MAX];
};

static int collect(void *user, struct store_slice key, struct store_slice value)
{
	struct found *found = user;
	uint64_t mount, ino = 0;
	int error;

	(void)value;
	if (found->kind == RECORD_ORPHAN)
		error = record_parse_pair(key, RECORD_ORPHAN, &mount, &ino);
	else
		error = record_parse_number(key, RECORD_MOUNT, &mount);
	if (error != 0)
		return error;
	if (mount == found->skip_mount)
		return 0;
	if (found->count == FOUND_MAX)
		return 1;
	found->mount[found->count] = mount;
	found->ino[found->count++] = ino;
	return 0;
}

/* The next records of `kind` behind those that `found` holds now (initially none). */
static int find_next(struct volume *volume, struct found *found)
{
	struct record_key prefix, last;
	struct store_slice after = {0};
	struct store_txn *txn;
	int error = store_begin(volume->store, STORE_READ, &txn);

	if (error != 0)
		return error;
	if (found->count > 0 && found->kind == RECORD_ORPHAN)
		after = record_key_pair(&last, RECORD_ORPHAN, found->mount[found->count - 1],
					found->ino[found->count - 1]);
	else if (found->count > 0)
		after = record_key_number(&last, RECORD_MOUNT, found->mount[found->count - 1]);
	found->count = 0;
	error = store_scan(txn, record_key_kind(&prefix, found->kind), after, collect, found);
	store_abort(txn);
	return error < 0 ? error : 0;
}

struct orphan {
	uint64_t mount, ino;
};

static int delete_orphan(struct store_txn *txn, void *user)
{
	const struct orphan *orphan = user;
	struct record_key key;

	return store_delete(txn, record_key_pair(&key, RECORD_ORPHAN, orphan->mount, orphan->ino));
}

static void recover_orphan(struct volume *volume, uint64_t mount, uint64_t ino)
{
	struct orphan orphan = {.mount = mount, .ino = ino};
	struct inode *inode;
	int result = inode_get(volume, ino, &inode);

	if (result == 0) {
		rmem_log_error(RMEM_LOG_FS,
			       "inode %llu counts as deleted but has a name: it stays; "
			       "check the volume",
			       (unsigned long long)ino);
		inode_unref(volume, inode, 1);
		result = store_shrink(volume->store, delete_orphan, &orphan);
	} else if (result == -ENOENT) {
		do {
			result = inode_reclaim(volume, mount, ino);
		} while (result > 0);
	}
	if (result < 0)
		rmem_log_error(RMEM_LOG_FS,
			       "cannot free the deleted file with inode %llu, which an earlier "
			       "mount had open: %s",
			       (unsigned long long)ino, strerror(-result));
}

void volume_session_recover(struct volume *volume)
{
	struct found found = {.kind = RECORD_ORPHAN, .skip_mount = volume->mount_id};
	int error;

	do {
		error = find_next(volume, &found);
		for (unsigned i = 0; i < found.count && error == 0; i++)
			recover_orphan(volume, found.mount[i], found.ino[i]);
	} while (found.count > 0 && error == 0);

	found = (struct found){.kind = RECORD_MOUNT, .skip_mount = volume->mount_id};
	do {
		if (error == 0)
			error = find_next(volume, &found);
		for (unsigned i = 0; i < found.count && error == 0; i++)
			error = store_shrink(volume->store, delete_session, &found.mount[i]);
	} while (found.count > 0 && error == 0);
	if (error != 0)
		rmem_log_error(RMEM_LOG_FS, "cannot clean up after earlier mounts: %s",
			       strerror(-error));
}
