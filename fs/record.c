/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, and the values of fixed layout. Chunks and bitmaps are in record_chunk.c. */
#include "fs/record.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/inode.h"

#define VERSION 1u

/* --- Keys --------------------------------------------------------------------------------------
 */

static void put_number(uint8_t *bytes, uint64_t number)
{
	uint64_t big = htobe64(number);

	memcpy(bytes, &big, sizeof(big));
}

static uint64_t get_number(const uint8_t *bytes)
{
	uint64_t big;

	memcpy(&big, bytes, sizeof(big));
	return be64toh(big);
}

struct store_slice record_key_kind(struct record_key *key, enum record_kind kind)
{
	key->bytes[0] = (uint8_t)kind;
	return (struct store_slice){key->bytes, 1};
}

struct store_slice record_key_number(struct record_key *key, enum record_kind kind, uint64_t number)
{
	key->bytes[0] = (uint8_t)kind;
	put_number(key->bytes + 1, number);
	return (struct store_slice){key->bytes, 9};
}

struct store_slice record_key_pair(struct record_key *key, enum record_kind kind, uint64_t number,
				   uint64_t second)
{
	key->bytes[0] = (uint8_t)kind;
	put_number(key->bytes + 1, number);
	put_number(key->bytes + 9, second);
	return (struct store_slice){key->bytes, 17};
}

struct store_slice record_key_name(struct record_key *key, enum record_kind kind, uint64_t number,
				   const char *name, size_t length)
{
	if (length > VOLUME_NAME_MAX)
		length = VOLUME_NAME_MAX;
	key->bytes[0] = (uint8_t)kind;
	put_number(key->bytes + 1, number);
	memcpy(key->bytes + 9, name, length);
	return (struct store_slice){key->bytes, 9 + length};
}

int record_parse_number(struct store_slice key, enum record_kind kind, uint64_t *number)
{
	const uint8_t *bytes = key.data;

	if (key.size != 9 || bytes[0] != (uint8_t)kind)
		return -EIO;
	*number = get_number(bytes + 1);
	return 0;
}

int record_parse_pair(struct store_slice key, enum record_kind kind, uint64_t *number,
		      uint64_t *second)
{
	const uint8_t *bytes = key.data;

	if (key.size != 17 || bytes[0] != (uint8_t)kind)
		return -EIO;
	*number = get_number(bytes + 1);
	*second = get_number(bytes + 9);
	return 0;
}

int record_parse_name(struct store_slice key, enum record_kind kind, uint64_t *number,
		      struct store_slice *name)
{
	const uint8_t *bytes = key.data;

	if (key.size < 10 || key.size > RECORD_KEY_MAX || bytes[0] != (uint8_t)kind)
		return -EIO;
	*number = get_number(bytes + 1);
	*name = (struct store_slice){bytes + 9, key.size - 9};
	if (memchr(name->data, '\0', name->size) != NULL)
		return -EIO;
	if (kind == RECORD_DIRENT && memchr(name->data, '/', name->size) != NULL)
		return -EIO;
	return 0;
}

/* --- Values ------------------------------------------------------------------------------------
 */

static struct record_header header_of(enum record_kind kind)
{
	return (struct record_header){.kind = (uint8_t)kind, .version = VERSION};
}

/* A value of `size` bytes of this kind, copied to `record`. */
static int copy_value(struct store_slice value, enum record_kind kind, void *record, size_t size)
{
	struct record_header header;

	if (value.size != size)
		return -EIO;
	memcpy(record, value.data, size);
	memcpy(&header, value.data, sizeof(header));
	return header.kind == (uint8_t)kind && header.version == VERSION && header.detail == 0
		       ? 0
		       : -EIO;
}

struct store_slice record_encode_inode(struct record_inode *value, const struct inode_attr *attr)
{
	*value = (struct record_inode){
		.header = header_of(RECORD_INODE),
		.mode = htole32(attr->mode),
		.uid = htole32(attr->uid),
		.gid = htole32(attr->gid),
		.nlink = htole32(attr->nlink),
		.rdev = htole32(attr->rdev),
		.generation = htole32(attr->generation),
		.xattr_count = htole32(attr->xattr_count),
		.size = htole64(attr->size),
		.pages = htole64(attr->pages),
		.reserved_end = htole64(attr->reserved_end),
		.atime_ns = (int64_t)htole64((uint64_t)attr->atime_ns),
		.mtime_ns = (int64_t)htole64((uint64_t)attr->mtime_ns),
		.ctime_ns = (int64_t)htole64((uint64_t)attr->ctime_ns),
		.btime_ns = (int64_t)htole64((uint64_t)attr->btime_ns),
		.parent = htole64(attr->parent),
		.version = htole64(attr->version),
	};
	return (struct store_slice){value, sizeof(*value)};
}

int record_decode_inode(struct store_slice value, struct inode_attr *attr)
{
	struct record_inode record;

	if (copy_value(value, RECORD_INODE, &record, sizeof(record)) != 0)
		return -EIO;
	*attr = (struct inode_attr){
		.mode = le32toh(record.mode),
		.uid = le32toh(record.uid),
		.gid = le32toh(record.gid),
		.nlink = le32toh(record.nlink),
		.rdev = le32toh(record.rdev),
		.generation = le32toh(record.generation),
		.xattr_count = le32toh(record.xattr_count),
		.size = le64toh(record.size),
		.pages = le64toh(record.pages),
		.reserved_end = le64toh(record.reserved_end),
		.atime_ns = (int64_t)le64toh((uint64_t)record.atime_ns),
		.mtime_ns = (int64_t)le64toh((uint64_t)record.mtime_ns),
		.ctime_ns = (int64_t)le64toh((uint64_t)record.ctime_ns),
		.btime_ns = (int64_t)le64toh((uint64_t)record.btime_ns),
		.parent = le64toh(record.parent),
		.version = le64toh(record.version),
	};
	switch (attr->mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFLNK:
	case S_IFCHR:
	case S_IFBLK:
	case S_IFIFO:
	case S_IFSOCK:
		break;
	default:
		return -EIO;
	}
	if (attr->size > VOLUME_SIZE_MAX || attr->reserved_end > VOLUME_SIZE_MAX ||
	    attr->pages > VOLUME_SIZE_MAX / VOLUME_PAGE_BYTES)
		return -EIO;
	return 0;
}

struct store_slice record_encode_dirent(struct record_dirent *value, uint64_t ino, uint32_t type)
{
	*value = (struct record_dirent){
		.header = header_of(RECORD_DIRENT),
		.type = htole32(type),
		.ino = htole64(ino),
	};
	return (struct store_slice){value, sizeof(*value)};
}

int record_decode_dirent(struct store_slice value, uint64_t *ino, uint32_t *type)
{
	struct record_dirent record;

	if (copy_value(value, RECORD_DIRENT, &record, sizeof(record)) != 0)
		return -EIO;
	*ino = le64toh(record.ino);
	*type = le32toh(record.type);
	switch (*type) {
	case DT_REG:
	case DT_DIR:
	case DT_LNK:
	case DT_CHR:
	case DT_BLK:
	case DT_FIFO:
	case DT_SOCK:
		return *ino != 0 ? 0 : -EIO;
	default:
		return -EIO;
	}
}

int record_decode_symlink(struct store_slice value, char *target)
{
	if (value.size == 0 || value.size > RECORD_SYMLINK_MAX ||
	    memchr(value.data, '\0', value.size) != NULL)
		return -EIO;
	memcpy(target, value.data, value.size);
	target[value.size] = '\0';
	return 0;
}

struct store_slice record_encode_number(struct record_number *value, enum record_kind kind,
					uint64_t number)
{
	*value = (struct record_number){
		.header = header_of(kind),
		.number = htole64(number),
	};
	return (struct store_slice){value, sizeof(*value)};
}

int record_decode_number(struct store_slice value, enum record_kind kind, uint64_t *number)
{
	struct record_number record;

	if (copy_value(value, kind, &record, sizeof(record)) != 0)
		return -EIO;
	*number = le64toh(record.number);
	return 0;
}

struct store_slice record_encode_volume(struct record_volume *value,
					const struct record_volume_fields *fields)
{
	*value = (struct record_volume){
		.header = header_of(RECORD_VOLUME),
		.format = htole32(RECORD_FORMAT),
		.page_bytes = htole32(VOLUME_PAGE_BYTES),
		.group_pages = htole32(RECORD_GROUP_PAGES),
		.chunk_bytes = htole64(VOLUME_CHUNK_BYTES),
		.created_ns = (int64_t)htole64((uint64_t)fields->created_ns),
		.region_next = htole64(fields->region_next),
		.server_next = htole64(fields->server_next),
		.mount_next = htole64(fields->mount_next),
	};
	memcpy(value->uuid, fields->uuid, sizeof(value->uuid));
	return (struct store_slice){value, sizeof(*value)};
}

int record_decode_volume(struct store_slice value, struct record_volume_fields *fields)
{
	struct record_volume record;
	struct record_header header;

	/* Another format may have another size; its header and `format` stay where they are. */
	if (value.size < offsetof(struct record_volume, uuid))
		return -EIO;
	memcpy(&record, value.data, offsetof(struct record_volume, uuid));
	header = record.header;
	if (header.kind != RECORD_VOLUME)
		return -EIO;
	if (header.version != VERSION || le32toh(record.format) != RECORD_FORMAT)
		return -EPROTO;
	if (copy_value(value, RECORD_VOLUME, &record, sizeof(record)) != 0)
		return -EIO;
	if (le32toh(record.page_bytes) != VOLUME_PAGE_BYTES ||
	    le32toh(record.group_pages) != RECORD_GROUP_PAGES ||
	    le64toh(record.chunk_bytes) != VOLUME_CHUNK_BYTES)
		return -EPROTO;
	*fields = (struct record_volume_fields){
		.created_ns = (int64_t)le64toh((uint64_t)record.created_ns),
		.region_next = le64toh(record.region_next),
		.server_next = le64toh(record.server_next),
		.mount_next = le64toh(record.mount_next),
	};
	memcpy(fields->uuid, record.uuid, sizeof(fields->uuid));
	return 0;
}

struct store_slice record_encode_server(struct record_server *value,
					const struct record_server_fields *fields)
{
	uint32_t count =
		fields->region_count < RMEM_REGIONS_MAX ? fields->region_count : RMEM_REGIONS_MAX;

	*value = (struct record_server){
		.header = header_of(RECORD_SERVER),
		.region_count = htole32(count),
		.incarnation = htole64(fields->incarnation),
	};
	memcpy(value->url, fields->url, strnlen(fields->url, sizeof(value->url) - 1));
	for (uint32_t i = 0; i < count; i++) {
		value->regions[i].id = htole32(fields->regions[i].id);
		value->regions[i].length = htole64(fields->regions[i].length);
	}
	return (struct store_slice){value, offsetof(struct record_server, regions) +
						   count * sizeof(value->regions[0])};
}

int record_decode_server(struct store_slice value, struct record_server_fields *fields)
{
	const uint64_t length_max = RECORD_REGION_PAGES_MAX * VOLUME_PAGE_BYTES;
	struct record_server record;

	if (value.size < offsetof(struct record_server, regions) || value.size > sizeof(record) ||
	    copy_value(value, RECORD_SERVER, &record, value.size) != 0)
		return -EIO;
	*fields = (struct record_server_fields){
		.incarnation = le64toh(record.incarnation),
		.region_count = le32toh(record.region_count),
	};
	if (fields->region_count > RMEM_REGIONS_MAX ||
	    value.size != offsetof(struct record_server, regions) +
				  fields->region_count * sizeof(record.regions[0]))
		return -EIO;
	if (memchr(record.url, '\0', sizeof(record.url)) == NULL)
		return -EIO;
	memcpy(fields->url, record.url, sizeof(fields->url));
	for (uint32_t i = 0; i < fields->region_count; i++) {
		fields->regions[i].id = le32toh(record.regions[i].id);
		fields->regions[i].length = le64toh(record.regions[i].length);
		if (fields->regions[i].length > length_max)
			return -EIO;
	}
	return 0;
}

struct store_slice record_encode_mount(struct record_mount *value,
				       const struct record_mount_fields *fields)
{
	*value = (struct record_mount){
		.header = header_of(RECORD_MOUNT),
		.pid = htole64(fields->pid),
		.started_ns = (int64_t)htole64((uint64_t)fields->started_ns),
	};
	memcpy(value->boot_id, fields->boot_id, sizeof(value->boot_id));
	memcpy(value->host, fields->host, strnlen(fields->host, sizeof(value->host) - 1));
	memcpy(value->mountpoint, fields->mountpoint,
	       strnlen(fields->mountpoint, sizeof(value->mountpoint) - 1));
	return (struct store_slice){value, sizeof(*value)};
}

int record_decode_mount(struct store_slice value, struct record_mount_fields *fields)
{
	struct record_mount record;

	if (copy_value(value, RECORD_MOUNT, &record, sizeof(record)) != 0 ||
	    memchr(record.host, '\0', sizeof(record.host)) == NULL ||
	    memchr(record.mountpoint, '\0', sizeof(record.mountpoint)) == NULL)
		return -EIO;
	fields->pid = le64toh(record.pid);
	fields->started_ns = (int64_t)le64toh((uint64_t)record.started_ns);
	memcpy(fields->boot_id, record.boot_id, sizeof(fields->boot_id));
	memcpy(fields->host, record.host, sizeof(fields->host));
	memcpy(fields->mountpoint, record.mountpoint, sizeof(fields->mountpoint));
	return 0;
}
