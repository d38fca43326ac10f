/* SPDX-License-Identifier: Apache-2.0 */
/* What the store holds: keys, and values as they lie in it.
 *
 *	key             value
 *	V               volume: uuid, sizes, the next numbers of regions, servers and mounts
 *	N               the first inode number that was never reserved
 *	I ino           inode
 *	D parent name   directory entry: inode number and type
 *	L ino           target of a symbolic link, the bytes alone
 *	X ino name      extended attribute, the bytes alone
 *	C ino chunk     extents of 64 MiB of a file, and which of their pages were written
 *	A region group  which pages of 128 MiB of a region are taken
 *	S server        a memory server: url, incarnation, regions
 *	M mount         mount session
 *	O mount ino     inode without a name that a session keeps for its open files
 *
 * A key is its letter, then numbers as 8 bytes big-endian (so that order of bytes is order of
 * numbers), then the bytes of a name. Values are packed little-endian structs that begin with a
 * struct record_header (but L and X), with zeroed reserves. A value is checked when it is decoded:
 * whatever is in the store, a decoder answers 0 or -EIO, and what it returned lies within its
 *limits. A region that no S record lists any more is lost: its extents stay where they are and read
 *as -EIO.
 *
 * Functions here neither block nor allocate, and any thread may call them. Encoders fill the
 *caller's buffer and return a slice of it; decoders copy out, but for names and views, which point
 *into what they were given. */
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/rmem.h"
#include "fs/store.h"
#include "fs/volume.h"

struct inode_attr;

#define RECORD_FORMAT 1u /* of the whole store; in V */

enum record_kind {
	RECORD_BITMAP = 'A',
	RECORD_CHUNK = 'C',
	RECORD_DIRENT = 'D',
	RECORD_INODE = 'I',
	RECORD_SYMLINK = 'L',
	RECORD_MOUNT = 'M',
	RECORD_NUMBERS = 'N',
	RECORD_ORPHAN = 'O',
	RECORD_SERVER = 'S',
	RECORD_VOLUME = 'V',
	RECORD_XATTR = 'X',
};

/* Limits that decoders enforce. */
#define RECORD_SYMLINK_MAX	4095u	    /* bytes of a target */
#define RECORD_XATTR_MAX	(64u << 10) /* bytes of a value */
#define RECORD_INO_RESERVE	4096u	    /* inode numbers that a mount takes from N at a time */
#define RECORD_REPLICAS_MAX	3u
#define RECORD_CHUNK_PAGES	16384u /* of a file's chunk */
#define RECORD_CHUNK_WORDS	(RECORD_CHUNK_PAGES / 64)
#define RECORD_GROUP_PAGES	32768u /* of a bitmap */
#define RECORD_GROUP_WORDS	(RECORD_GROUP_PAGES / 64)
#define RECORD_REGION_PAGES_MAX (1ull << 48)

_Static_assert(RECORD_CHUNK_PAGES *(uint64_t)VOLUME_PAGE_BYTES == VOLUME_CHUNK_BYTES, "chunk");

/* --- Keys --------------------------------------------------------------------------------------
 */

#define RECORD_KEY_MAX (1 + 8 + VOLUME_NAME_MAX)

struct record_key {
	uint8_t bytes[RECORD_KEY_MAX];
};

_Static_assert(RECORD_KEY_MAX <= STORE_KEY_MAX, "the store takes every key");

/* V and N; as a prefix, all records of a kind. */
struct store_slice record_key_kind(struct record_key *key, enum record_kind kind);
/* I, L, S, M; as a prefix, what one inode has in D, X or C, or a session in O. */
struct store_slice record_key_number(struct record_key *key, enum record_kind kind,
				     uint64_t number);
/* C, A, O. */
struct store_slice record_key_pair(struct record_key *key, enum record_kind kind, uint64_t number,
				   uint64_t second);
/* D, X. `length` is cut to VOLUME_NAME_MAX: check names before. */
struct store_slice record_key_name(struct record_key *key, enum record_kind kind, uint64_t number,
				   const char *name, size_t length);

/* Take keys apart, for scans. `name` points into `key` and has no NUL. -EIO: of another kind or
 * malformed; a name of D is 1..255 bytes without '/' and NUL. */
int record_parse_number(struct store_slice key, enum record_kind kind,
			uint64_t *number) RMEM_MUST_CHECK;
int record_parse_pair(struct store_slice key, enum record_kind kind, uint64_t *number,
		      uint64_t *second) RMEM_MUST_CHECK;
int record_parse_name(struct store_slice key, enum record_kind kind, uint64_t *number,
		      struct store_slice *name) RMEM_MUST_CHECK;

/* --- Values ------------------------------------------------------------------------------------
 */

struct record_header {
	uint8_t kind;	 /* the letter of the key */
	uint8_t version; /* of this kind of value */
	uint16_t detail; /* of the kind, or zero */
} __attribute__((packed));

_Static_assert(sizeof(struct record_header) == 4, "layout");

/* Inode. */
struct record_inode {
	struct record_header header;
	uint32_t mode;
	uint32_t uid;
	uint32_t gid;
	uint32_t nlink;
	uint32_t rdev;
	uint32_t generation;
	uint32_t xattr_count;
	uint64_t size;
	uint64_t pages;
	uint64_t reserved_end;
	int64_t atime_ns;
	int64_t mtime_ns;
	int64_t ctime_ns;
	int64_t btime_ns;
	uint64_t parent;
	uint64_t version;
	uint32_t flags; /* none yet */
	uint8_t reserved[20];
} __attribute__((packed));

_Static_assert(sizeof(struct record_inode) == 128, "layout");
_Static_assert(offsetof(struct record_inode, mode) == 4, "layout");
_Static_assert(offsetof(struct record_inode, xattr_count) == 28, "layout");
_Static_assert(offsetof(struct record_inode, size) == 32, "layout");
_Static_assert(offsetof(struct record_inode, reserved_end) == 48, "layout");
_Static_assert(offsetof(struct record_inode, atime_ns) == 56, "layout");
_Static_assert(offsetof(struct record_inode, parent) == 88, "layout");
_Static_assert(offsetof(struct record_inode, flags) == 104, "layout");

struct store_slice record_encode_inode(struct record_inode *value, const struct inode_attr *attr);
int record_decode_inode(struct store_slice value, struct inode_attr *attr) RMEM_MUST_CHECK;

/* Directory entry. */
struct record_dirent {
	struct record_header header;
	uint32_t type; /* DT_... */
	uint64_t ino;
} __attribute__((packed));

_Static_assert(sizeof(struct record_dirent) == 16, "layout");
_Static_assert(offsetof(struct record_dirent, type) == 4, "layout");
_Static_assert(offsetof(struct record_dirent, ino) == 8, "layout");

struct store_slice record_encode_dirent(struct record_dirent *value, uint64_t ino, uint32_t type);
int record_decode_dirent(struct store_slice value, uint64_t *ino, uint32_t *type) RMEM_MUST_CHECK;

/* Symbolic link: `target` has room for RECORD_SYMLINK_MAX + 1 bytes and gets a NUL. */
int record_decode_symlink(struct store_slice value, char *target) RMEM_MUST_CHECK;

/* N and O: a number (0 for O) and nothing else. */
struct record_number {
	struct record_header header;
	uint32_t reserved;
	uint64_t number;
} __attribute__((packed));

_Static_assert(sizeof(struct record_number) == 16, "layout");
_Static_assert(offsetof(struct record_number, number) == 8, "layout");

struct store_slice record_encode_number(struct record_number *value, enum record_kind kind,
					uint64_t number);
int record_decode_number(struct store_slice value, enum record_kind kind,
			 uint64_t *number) RMEM_MUST_CHECK;

/* Volume. */
struct record_volume_fields {
	uint8_t uuid[16];
	int64_t created_ns;
	uint64_t region_next; /* numbers that were never used */
	uint64_t server_next;
	uint64_t mount_next;
};

struct record_volume {
	struct record_header header;
	uint32_t format;
	uint8_t uuid[16];
	uint32_t page_bytes;
	uint32_t group_pages;
	uint64_t chunk_bytes;
	int64_t created_ns;
	uint64_t region_next;
	uint64_t server_next;
	uint64_t mount_next;
	uint8_t reserved[56];
} __attribute__((packed));

_Static_assert(sizeof(struct record_volume) == 128, "layout");
_Static_assert(offsetof(struct record_volume, format) == 4, "layout");
_Static_assert(offsetof(struct record_volume, uuid) == 8, "layout");
_Static_assert(offsetof(struct record_volume, chunk_bytes) == 32, "layout");
_Static_assert(offsetof(struct record_volume, mount_next) == 64, "layout");

struct store_slice record_encode_volume(struct record_volume *value,
					const struct record_volume_fields *fields);
/* -EPROTO: a sound volume, but of a format or geometry that this program does not know. */
int record_decode_volume(struct store_slice value,
			 struct record_volume_fields *fields) RMEM_MUST_CHECK;

/* Server: what it exported when it was seen last. */
struct record_server_fields {
	char url[256]; /* NUL-terminated */
	uint64_t incarnation;
	uint32_t region_count;
	struct {
		uint32_t id;	     /* of the volume */
		uint64_t length;     /* bytes */
	} regions[RMEM_REGIONS_MAX]; /* by the server's own index */
};

struct record_server {
	struct record_header header;
	uint32_t region_count;
	uint64_t incarnation;
	char url[256];
	uint8_t reserved[32];
	struct record_server_region {
		uint32_t id;
		uint32_t reserved;
		uint64_t length;
	} __attribute__((packed)) regions[RMEM_REGIONS_MAX]; /* region_count of them are stored */
} __attribute__((packed));

_Static_assert(sizeof(struct record_server_region) == 16, "layout");
_Static_assert(offsetof(struct record_server, incarnation) == 8, "layout");
_Static_assert(offsetof(struct record_server, url) == 16, "layout");
_Static_assert(offsetof(struct record_server, regions) == 304, "layout");

struct store_slice record_encode_server(struct record_server *value,
					const struct record_server_fields *fields);
int record_decode_server(struct store_slice value,
			 struct record_server_fields *fields) RMEM_MUST_CHECK;

/* Mount session. */
struct record_mount_fields {
	uint64_t pid;
	int64_t started_ns;
	uint8_t boot_id[16];
	char host[256];	       /* NUL-terminated, as the mountpoint */
	char mountpoint[1024]; /* cut when longer: it is for people */
};

struct record_mount {
	struct record_header header;
	uint32_t reserved;
	uint64_t pid;
	int64_t started_ns;
	uint8_t boot_id[16];
	char host[256];
	char mountpoint[1024];
} __attribute__((packed));

_Static_assert(sizeof(struct record_mount) == 1320, "layout");
_Static_assert(offsetof(struct record_mount, pid) == 8, "layout");
_Static_assert(offsetof(struct record_mount, boot_id) == 24, "layout");
_Static_assert(offsetof(struct record_mount, mountpoint) == 296, "layout");

struct store_slice record_encode_mount(struct record_mount *value,
				       const struct record_mount_fields *fields);
int record_decode_mount(struct store_slice value,
			struct record_mount_fields *fields) RMEM_MUST_CHECK;

/* Bitmap of a group: bit i of word i / 64 says that page i is taken. Stored as far as the last
 * taken page (header.detail: number of words); no record at all means that the group is free. */
struct record_bitmap {
	struct record_header header;
	uint32_t reserved;
	uint64_t words[RECORD_GROUP_WORDS];
} __attribute__((packed));

_Static_assert(sizeof(struct record_bitmap) == 4104, "layout");
_Static_assert(offsetof(struct record_bitmap, words) == 8, "layout");

struct store_slice record_encode_bitmap(struct record_bitmap *value,
					const uint64_t words[RECORD_GROUP_WORDS]);
int record_decode_bitmap(struct store_slice value,
			 uint64_t words[RECORD_GROUP_WORDS]) RMEM_MUST_CHECK;

/* Chunk: a header, `extent_count` extents in order of pages, which neither overlap nor are empty,
 * and (unless all their pages are written) a bitmap of the written pages of the chunk, as far as
 * the last of them. There is no record for a chunk without extents. */
struct record_chunk_header {
	struct record_header
		header; /* detail: number of words of the bitmap, or RECORD_ALL_WRITTEN */
	uint16_t extent_count;
	uint8_t replicas; /* of each extent; 1 so far */
	uint8_t reserved;
} __attribute__((packed));

#define RECORD_ALL_WRITTEN 0xffffu

struct record_chunk_extent {
	uint16_t page; /* in the chunk */
	uint16_t pages;
	struct record_chunk_replica {
		uint32_t region;
		uint32_t page; /* in the region, bits 0-31 */
		uint16_t page_high;
		uint16_t flags; /* none yet */
	} __attribute__((packed)) replica;
} __attribute__((packed));

_Static_assert(sizeof(struct record_chunk_header) == 8, "layout");
_Static_assert(sizeof(struct record_chunk_replica) == 12, "layout");
_Static_assert(sizeof(struct record_chunk_extent) == 16, "layout");
_Static_assert(offsetof(struct record_chunk_extent, replica) == 4, "layout");

/* An extent in memory. */
struct record_extent {
	uint32_t page; /* in the chunk */
	uint32_t pages;
	uint32_t region;
	uint64_t region_page;
};

/* A chunk record that was found sound; points into the value it was made from. */
struct record_chunk_view {
	const struct record_chunk_extent *extents;
	uint32_t extent_count;
	uint32_t pages; /* of all extents together */
	bool all_written;
	uint32_t written_words;
	const uint8_t *written; /* written_words little-endian words, unaligned */
};

int record_decode_chunk(struct store_slice value, struct record_chunk_view *view) RMEM_MUST_CHECK;
void record_chunk_extent_at(const struct record_chunk_view *view, uint32_t index,
			    struct record_extent *extent);
uint64_t record_chunk_written_word(const struct record_chunk_view *view, uint32_t word);

/* The most bytes that a chunk of `extent_count` extents takes. */
static inline size_t record_chunk_bytes(uint32_t extent_count)
{
	return sizeof(struct record_chunk_header) +
	       extent_count * sizeof(struct record_chunk_extent) + RECORD_CHUNK_WORDS * 8;
}

/* `buffer` has record_chunk_bytes(). `written`: RECORD_CHUNK_WORDS words, NULL: all are written. */
struct store_slice record_encode_chunk(void *buffer, const struct record_extent *extents,
				       uint32_t extent_count, const uint64_t *written);
