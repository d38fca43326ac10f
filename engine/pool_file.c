/* SPDX-License-Identifier: Apache-2.0 */
/* Pools in files: hugetlbfs, tmpfs, DAX, or a disk.
 *
 * The file begins with a header, whose state says what became of the content: MAKING (nothing there
 * yet), OPEN (a server has it), CLEAN (written back and closed). A server that finds CLEAN, or OPEN
 * from the same boot of the machine, has the content that was left, because the page cache outlives
 * a process; OPEN from an earlier boot means that some of it never reached the disk, and the
 * content gets a new incarnation. The header is on disk as OPEN before the first client can write.
 *
 * The header is kept twice and written alternately, so that a server that dies while it writes one
 * leaves the other. A lock on the file keeps a second server out; clients map it through another
 * open of it, because a lock belongs to the open file, and would last as long as their mappings.
 *
 * What is not a pool, or not the right one, is refused and left as it was. */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "engine/base/log.h"
#include "engine/base/memory_info.h"
#include "engine/pool.h"
#include "engine/wire.h"

#define MIB		 ((uint64_t)1 << 20)
#define HEADER_BYTES_MIN (2 * MIB)	       /* the data is aligned to a huge page */
#define POOL_MAGIC	 0x4c4f4f504d454d52ull /* "RMEMPOOL" */
#define POOL_VERSION	 1
#define SLOT_BYTES	 ((size_t)2048) /* both in the first page */

enum pool_state {
	POOL_MAKING = 1,
	POOL_OPEN = 2,
	POOL_CLEAN = 3,
};

/* Little-endian. */
struct pool_header {
	uint64_t magic;
	uint32_t version;
	uint32_t state;
	uint64_t sequence; /* the sound one of the two with the greater one counts */
	uint64_t header_bytes;
	uint64_t data_bytes;
	uint64_t incarnation;
	uint8_t boot_id[16];
	uint32_t pid; /* of the server that has or had it */
	uint32_t reserved0;
	uint8_t owner[RMEM_OWNER_BYTES];
	uint8_t reserved[32];
	uint64_t checksum; /* of all before it */
};
static_assert(sizeof(struct pool_header) == 128, "stored layout");
static_assert(offsetof(struct pool_header, version) == 8, "stored layout");
static_assert(offsetof(struct pool_header, state) == 12, "stored layout");
static_assert(offsetof(struct pool_header, sequence) == 16, "stored layout");
static_assert(offsetof(struct pool_header, header_bytes) == 24, "stored layout");
static_assert(offsetof(struct pool_header, data_bytes) == 32, "stored layout");
static_assert(offsetof(struct pool_header, incarnation) == 40, "stored layout");
static_assert(offsetof(struct pool_header, boot_id) == 48, "stored layout");
static_assert(offsetof(struct pool_header, pid) == 64, "stored layout");
static_assert(offsetof(struct pool_header, owner) == 72, "stored layout");
static_assert(offsetof(struct pool_header, checksum) == 120, "stored layout");

/* FNV-1a: against torn writes, not against people. */
static uint64_t checksum(const struct pool_header *header)
{
	uint8_t bytes[sizeof(*header)];
	uint64_t sum = 0xcbf29ce484222325ull;

	memcpy(bytes, header, sizeof(bytes));
	for (size_t i = 0; i < offsetof(struct pool_header, checksum); i++)
		sum = (sum ^ bytes[i]) * 0x100000001b3ull;
	return sum;
}

/* Zero when the kernel doesn't say; then no boot is like another. */
static void read_boot_id(uint8_t id[16])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	unsigned digits = 0;
	int c;

	memset(id, 0, 16);
	if (file == NULL)
		return;
	while (digits < 32 && (c = fgetc(file)) != EOF) {
		unsigned value;

		if (c >= '0' && c <= '9')
			value = (unsigned)c - '0';
		else if (c >= 'a' && c <= 'f')
			value = (unsigned)c - 'a' + 10;
		else
			continue;
		id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | value);
		digits++;
	}
	fclose(file);
}

/* The header that counts, in the machine's byte order; false when there is none. */
static bool header_find(const uint8_t *page, struct pool_header *header)
{
	bool found = false;

	for (unsigned slot = 0; slot < 2; slot++) {
		struct pool_header read = {.magic = 0};

		memcpy(&read, page + slot * SLOT_BYTES, sizeof(read));
		if (le64toh(read.magic) != POOL_MAGIC || le64toh(read.checksum) != checksum(&read))
			continue;
		if (found && le64toh(read.sequence) < header->sequence)
			continue;
		*header = read;
		header->version = le32toh(read.version);
		header->state = le32toh(read.state);
		header->sequence = le64toh(read.sequence);
		header->header_bytes = le64toh(read.header_bytes);
		header->data_bytes = le64toh(read.data_bytes);
		header->incarnation = le64toh(read.incarnation);
		header->pid = le32toh(read.pid);
		found = true;
	}
	return found;
}

static void header_write(const struct rmem_pool *pool, enum pool_state state)
{
	struct pool_header old = {.sequence = 0};
	struct pool_header header = {
		.magic = htole64(POOL_MAGIC),
		.version = htole32(POOL_VERSION),
		.state = htole32((uint32_t)state),
		.header_bytes = htole64(pool->data_offset),
		.data_bytes = htole64(pool->data_bytes),
		.incarnation = htole64(pool->incarnation),
		.pid = htole32((uint32_t)getpid()),
	};
	uint64_t sequence;

	(void)header_find(pool->map, &old);
	sequence = old.sequence + 1;
	header.sequence = htole64(sequence);
	memcpy(header.owner, pool->owner, sizeof(header.owner));
	read_boot_id(header.boot_id);
	header.checksum = htole64(checksum(&header));
	memcpy(pool->map + sequence % 2 * SLOT_BYTES, &header, sizeof(header));
}

static int not_a_pool(const char *path, const char *why, struct rmem_error *error)
{
	return rmem_fail(error, EEXIST,
			 "%s: %s; it is left as it was: remove it, or choose another file", path,
			 why);
}

static int open_error(const char *path, int code, struct rmem_error *error)
{
	if (code == EISDIR)
		return rmem_fail(error, code,
				 "%s: a folder: the pool needs the path of a file in it", path);
	return rmem_fail(error, code, "%s: can't open the pool file: %s", path, strerror(code));
}

static int in_use(int fd, const char *path, struct rmem_error *error)
{
	uint8_t page[RMEM_PAGE_BYTES];
	struct pool_header header;

	if (pread(fd, page, sizeof(page), 0) == sizeof(page) && header_find(page, &header))
		return rmem_fail(error, EBUSY,
				 "%s: another server (process %" PRIu32 ") has this pool", path,
				 header.pid);
	return rmem_fail(error, EBUSY, "%s: another process has locked this file", path);
}

/* Opens the file, makes it when there is none, and locks it. */
static int open_locked(const char *path, struct rmem_pool *pool, bool *is_made,
		       struct rmem_error *error)
{
	struct stat found;

	*is_made = false;
	pool->lock_fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (pool->lock_fd < 0 && errno == ENOENT) {
		pool->lock_fd = open(path, O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, 0600);
		*is_made = true;
	}
	if (pool->lock_fd < 0 || fstat(pool->lock_fd, &found) != 0)
		return open_error(path, errno, error);
	if (!S_ISREG(found.st_mode))
		return rmem_fail(
			error, EINVAL,
			"%s: not a regular file; a pool can be one on tmpfs, hugetlbfs, a DAX "
			"file system or a disk",
			path);
	if (flock(pool->lock_fd, LOCK_EX | LOCK_NB) != 0)
		return in_use(pool->lock_fd, path, error);
	/* What clients get: the same file, opened once more. */
	pool->fd = open(path, O_RDWR | O_CLOEXEC);
	if (pool->fd < 0)
		return open_error(path, errno, error);
	return 0;
}

/* That nobody put another file in the place of the locked one in between. */
static int check_same(const struct rmem_pool *pool, struct rmem_error *error)
{
	struct stat locked, opened;

	if (fstat(pool->lock_fd, &locked) == 0 && fstat(pool->fd, &opened) == 0 &&
	    locked.st_dev == opened.st_dev && locked.st_ino == opened.st_ino)
		return 0;
	return rmem_fail(error, EBUSY, "%s: was replaced while it was opened", pool->backing);
}

static int map_file(struct rmem_pool *pool, struct rmem_error *error)
{
	void *map;

	pool->map_bytes = rmem_round_up(pool->data_offset + pool->data_bytes, pool->page_bytes);
	map = mmap(NULL, pool->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pool->lock_fd, 0);
	if (map == MAP_FAILED)
		return rmem_fail(error, errno, "%s: can't map the pool of %" PRIu64 " MiB: %s%s",
				 pool->backing, pool->map_bytes / MIB, strerror(errno),
				 errno == ENOMEM && (pool->flags & RMEM_STATUS_HUGE_PAGES)
					 ? ": there are too few free huge pages (vm.nr_hugepages)"
					 : "");
	pool->map = map;
	return 0;
}

static int sync_header(const struct rmem_pool *pool, struct rmem_error *error)
{
	if (msync(pool->map, pool->page_bytes, MS_SYNC) != 0 || fsync(pool->lock_fd) != 0)
		return rmem_fail(error, errno, "%s: can't write the pool's header: %s",
				 pool->backing, strerror(errno));
	return 0;
}

/* Space for [0, bytes), with what that needs said about the file. */
static int reserve(const struct rmem_pool *pool, uint64_t bytes, int cancel_fd,
		   struct rmem_error *error)
{
	int rc = rmem_pool_reserve(pool->lock_fd, bytes, cancel_fd, error);

	if (rc == -EOPNOTSUPP)
		return rmem_fail(error, EOPNOTSUPP,
				 "%s: this file system can't reserve space; use tmpfs, hugetlbfs, "
				 "ext4 or XFS",
				 pool->backing);
	return rc == 0 ? 0 : rmem_fail_prefix(error, rc, "%s", pool->backing);
}

/* Of a DAX mount statx() tells for each file whether it is mapped so. */
static bool is_dax(int fd)
{
	struct statx found;

	return statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &found) == 0 &&
	       (found.stx_attributes & STATX_ATTR_DAX) != 0;
}

/* It works, and what it is for does not: clients read and write the page cache of a disk. */
static void warn_of_disk(const struct rmem_pool *pool, const struct statfs *system)
{
	if (system->f_type == TMPFS_MAGIC || system->f_type == HUGETLBFS_MAGIC ||
	    is_dax(pool->lock_fd))
		return;
	rmem_log_warn(
		RMEM_LOG_SERVER,
		"%s: is on no tmpfs, hugetlbfs or DAX device: the kernel writes the pool back "
		"to a disk, which slows everything down; a file in /dev/shm is in memory",
		pool->backing);
}

static int find_page_size(struct rmem_pool *pool, bool *is_memory, struct rmem_error *error)
{
	struct statfs system;

	if (fstatfs(pool->lock_fd, &system) != 0)
		return rmem_fail(error, errno, "%s: %s", pool->backing, strerror(errno));
	pool->page_bytes = RMEM_PAGE_BYTES;
	*is_memory = system.f_type == TMPFS_MAGIC;
	warn_of_disk(pool, &system);
	if (system.f_type == HUGETLBFS_MAGIC) {
		pool->page_bytes = (uint32_t)system.f_bsize;
		pool->flags |= RMEM_STATUS_HUGE_PAGES;
	}
	return 0;
}

/* Lays out an empty file. */
static int make(const struct rmem_pool_options *options, struct rmem_pool *pool, bool is_memory,
		struct rmem_error *error)
{
	int rc;

	pool->data_offset = rmem_max_u64(HEADER_BYTES_MIN, pool->page_bytes);
	pool->data_bytes = options->size_bytes;
	rc = is_memory ? rmem_memory_check("a pool", options->size_bytes, error) : 0;
	if (rc == 0)
		rc = rmem_pool_new_incarnation(&pool->incarnation, error);
	if (rc != 0)
		return rc;
	if (ftruncate(pool->lock_fd, (off_t)rmem_round_up(pool->data_offset + pool->data_bytes,
							  pool->page_bytes)) != 0)
		return rmem_fail(error, errno,
				 "%s: can't size the pool file to %" PRIu64 " MiB: %s",
				 pool->backing, options->size_bytes / MIB, strerror(errno));
	/* The header's own memory first: writing to it must not fail either. */
	rc = reserve(pool, pool->data_offset, options->cancel_fd, error);
	if (rc == 0)
		rc = map_file(pool, error);
	if (rc != 0)
		return rc;
	header_write(pool, POOL_MAKING);
	return reserve(pool, pool->map_bytes, options->cancel_fd, error);
}

static void warn_of_loss(const struct rmem_pool *pool)
{
	rmem_log_warn(RMEM_LOG_SERVER,
		      "%s: the machine went down while a server had this pool: its content counts "
		      "as lost and it gets a new incarnation",
		      pool->backing);
}

/* Takes over what an earlier server left. */
static int take_over(const struct rmem_pool_options *options, const struct pool_header *header,
		     uint64_t file_bytes, struct rmem_pool *pool, struct rmem_error *error)
{
	static const uint8_t unknown[16];
	uint8_t boot_id[16];
	int rc;

	if (header->version != POOL_VERSION)
		return not_a_pool(pool->backing, "a pool file of another version", error);
	if (header->data_bytes < options->size_bytes && !options->any_size)
		return rmem_fail(
			error, EEXIST,
			"%s: the pool in this file has %" PRIu64 " MiB, less than the %" PRIu64
			" MiB asked for; it is left as it was: ask for its size, or remove it",
			pool->backing, header->data_bytes / MIB, options->size_bytes / MIB);
	if (header->header_bytes < RMEM_PAGE_BYTES ||
	    header->header_bytes % pool->page_bytes != 0 ||
	    header->data_bytes % RMEM_PAGE_BYTES != 0 || header->incarnation == 0 ||
	    !rmem_range_ok(header->header_bytes, header->data_bytes, file_bytes))
		return not_a_pool(pool->backing, "a pool file that has been cut or damaged", error);
	if (header->data_bytes != options->size_bytes)
		rmem_log_info(RMEM_LOG_SERVER,
			      "%s: the pool in this file has %" PRIu64 " MiB: that is its size",
			      pool->backing, header->data_bytes / MIB);
	pool->data_offset = header->header_bytes;
	pool->data_bytes = header->data_bytes;
	pool->incarnation = header->incarnation;
	memcpy(pool->owner, header->owner, sizeof(pool->owner));
	read_boot_id(boot_id);
	if (header->state == POOL_OPEN &&
	    (memcmp(boot_id, header->boot_id, 16) != 0 || memcmp(boot_id, unknown, 16) == 0)) {
		rc = rmem_pool_new_incarnation(&pool->incarnation, error);
		if (rc != 0)
			return rc;
		memset(pool->owner, 0, sizeof(pool->owner));
		warn_of_loss(pool);
	}
	/* Holes that somebody punched would be memory that may not be there when it is needed. */
	rc = map_file(pool, error);
	if (rc != 0)
		return rc;
	return reserve(pool, pool->map_bytes, options->cancel_fd, error);
}

/* Empty, left half made, or with content: sets `*header` in the last case. */
static int look(struct rmem_pool *pool, uint64_t file_bytes, bool *is_empty,
		struct pool_header *header, struct rmem_error *error)
{
	uint8_t page[RMEM_PAGE_BYTES];

	*is_empty = file_bytes == 0;
	if (*is_empty)
		return 0;
	if (pread(pool->lock_fd, page, sizeof(page), 0) != sizeof(page) ||
	    !header_find(page, header))
		return not_a_pool(pool->backing, "exists and is no pool file", error);
	if (header->version != POOL_VERSION || header->state != POOL_MAKING)
		return 0;
	rmem_log_info(RMEM_LOG_SERVER, "%s: was left half made; making it anew", pool->backing);
	if (ftruncate(pool->lock_fd, 0) != 0)
		return rmem_fail(error, errno, "%s: %s", pool->backing, strerror(errno));
	*is_empty = true;
	return 0;
}

static int open_content(const struct rmem_pool_options *options, struct rmem_pool *pool,
			bool *is_fresh, struct rmem_error *error)
{
	struct pool_header header = {.magic = 0};
	struct stat found;
	bool is_memory = false;
	int rc;

	rc = check_same(pool, error);
	if (rc == 0)
		rc = find_page_size(pool, &is_memory, error);
	if (rc != 0)
		return rc;
	if (fstat(pool->lock_fd, &found) != 0)
		return open_error(pool->backing, errno, error);
	rc = look(pool, (uint64_t)found.st_size, is_fresh, &header, error);
	if (rc != 0)
		return rc;
	if (*is_fresh)
		return make(options, pool, is_memory, error);
	return take_over(options, &header, (uint64_t)found.st_size, pool, error);
}

int rmem_pool_file_open(const struct rmem_pool_options *options, struct rmem_pool *pool,
			struct rmem_error *error)
{
	bool is_made, is_fresh = false;
	int rc;

	pool->flags = RMEM_STATUS_PERSISTENT;
	rc = open_locked(pool->backing, pool, &is_made, error);
	if (rc != 0)
		return rc;
	rc = open_content(options, pool, &is_fresh, error);
	if (rc == 0 && options->populate == RMEM_POPULATE_TOUCH)
		rc = rmem_pool_touch(pool, is_fresh ? RMEM_POOL_FRESH : RMEM_POOL_SURVIVED,
				     options->cancel_fd, error);
	if (rc == 0) {
		header_write(pool, POOL_OPEN);
		rc = sync_header(pool, error);
	}
	pool->is_open = rc == 0;
	/* Nothing is left of a pool that could not be made. */
	if (rc != 0 && is_made && check_same(pool, NULL) == 0)
		unlink(pool->backing);
	else if (rc != 0 && is_fresh)
		(void)!ftruncate(pool->lock_fd, 0);
	return rc;
}

int rmem_pool_file_update(struct rmem_pool *pool, struct rmem_error *error)
{
	header_write(pool, POOL_OPEN);
	return sync_header(pool, error);
}

void rmem_pool_file_close(struct rmem_pool *pool)
{
	struct rmem_error error;
	struct stat found;

	if (!pool->is_open)
		return;
	if (fstat(pool->lock_fd, &found) != 0 || (uint64_t)found.st_size < pool->map_bytes) {
		rmem_log_error(RMEM_LOG_SERVER, "%s: has been cut while it was in use",
			       pool->backing);
		return; /* touching what is gone would be a signal */
	}
	/* All of the content, and only then the word that it is there. */
	if (fsync(pool->lock_fd) != 0) {
		rmem_log_error(RMEM_LOG_SERVER, "%s: writing the pool back failed: %s",
			       pool->backing, strerror(errno));
		return;
	}
	header_write(pool, POOL_CLEAN);
	if (sync_header(pool, &error) != 0)
		rmem_log_error(RMEM_LOG_SERVER, "%s", error.text);
}
