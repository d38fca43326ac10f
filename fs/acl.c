/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/acl.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define VERSION	     2u
#define ID_NONE	     UINT32_MAX
#define HEADER_BYTES (size_t)4
#define ENTRY_BYTES  (size_t)8

/* The attribute's form is the kernel's (linux/posix_acl_xattr.h): little-endian. */
struct stored_entry {
	uint16_t tag;
	uint16_t perm;
	uint32_t id;
} __attribute__((packed));

_Static_assert(sizeof(struct stored_entry) == ENTRY_BYTES, "layout");

/* Entries come in the order of their tags, the owner, the owning group and others exactly once, the
 * mask at most once and whenever somebody is named. */
static int check(const struct acl *acl)
{
	unsigned seen[ACL_OTHER + 1] = {0};
	uint16_t last = 0;

	for (unsigned i = 0; i < acl->count; i++) {
		const struct acl_entry *entry = &acl->entries[i];

		if (entry->tag < last || entry->tag > ACL_OTHER || entry->perm > 7 ||
		    (entry->tag & (entry->tag - 1)) != 0 || entry->tag == 0)
			return -EINVAL;
		if ((entry->tag == ACL_USER || entry->tag == ACL_GROUP) && entry->id == ID_NONE)
			return -EINVAL;
		last = entry->tag;
		seen[entry->tag]++;
	}
	if (acl->count == 0)
		return 0;
	if (seen[ACL_USER_OBJ] != 1 || seen[ACL_GROUP_OBJ] != 1 || seen[ACL_OTHER] != 1 ||
	    seen[ACL_MASK] > 1)
		return -EINVAL;
	if (seen[ACL_USER] + seen[ACL_GROUP] > 0 && seen[ACL_MASK] == 0)
		return -EINVAL;
	return 0;
}

int acl_decode(struct store_slice value, struct acl *acl)
{
	const uint8_t *bytes = value.data;
	uint32_t version;

	acl->count = 0;
	if (value.size < HEADER_BYTES || (value.size - HEADER_BYTES) % ENTRY_BYTES != 0)
		return -EINVAL;
	memcpy(&version, bytes, sizeof(version));
	if (le32toh(version) != VERSION)
		return -EINVAL;
	if ((value.size - HEADER_BYTES) / ENTRY_BYTES > ACL_ENTRIES_MAX)
		return -E2BIG;
	acl->count = (unsigned)((value.size - HEADER_BYTES) / ENTRY_BYTES);
	for (unsigned i = 0; i < acl->count; i++) {
		struct stored_entry stored;

		memcpy(&stored, bytes + HEADER_BYTES + i * ENTRY_BYTES, sizeof(stored));
		acl->entries[i] = (struct acl_entry){
			.tag = le16toh(stored.tag),
			.perm = le16toh(stored.perm),
			.id = le32toh(stored.id),
		};
	}
	return check(acl);
}

struct store_slice acl_encode(const struct acl *acl, uint8_t bytes[ACL_BYTES_MAX])
{
	uint32_t version = htole32(VERSION);

	memcpy(bytes, &version, sizeof(version));
	for (unsigned i = 0; i < acl->count; i++) {
		const struct acl_entry *entry = &acl->entries[i];
		bool named = entry->tag == ACL_USER || entry->tag == ACL_GROUP;
		struct stored_entry stored = {
			.tag = htole16(entry->tag),
			.perm = htole16(entry->perm),
			.id = htole32(named ? entry->id : ID_NONE),
		};

		memcpy(bytes + HEADER_BYTES + i * ENTRY_BYTES, &stored, sizeof(stored));
	}
	return (struct store_slice){
		.data = bytes,
		.size = HEADER_BYTES + acl->count * ENTRY_BYTES,
	};
}

/* Where the entry with this tag is; `count` when there is none. */
static unsigned find(const struct acl *acl, enum acl_tag tag)
{
	unsigned i = 0;

	while (i < acl->count && acl->entries[i].tag != tag)
		i++;
	return i;
}

/* The mode's group bits are the mask where there is one. */
static unsigned find_group_class(const struct acl *acl)
{
	unsigned mask = find(acl, ACL_MASK);

	return mask < acl->count ? mask : find(acl, ACL_GROUP_OBJ);
}

bool acl_is_extended(const struct acl *acl)
{
	return acl->count > 3;
}

mode_t acl_to_mode(const struct acl *acl, mode_t mode)
{
	mode_t owner = acl->entries[find(acl, ACL_USER_OBJ)].perm;
	mode_t group = acl->entries[find_group_class(acl)].perm;
	mode_t other = acl->entries[find(acl, ACL_OTHER)].perm;

	return (mode & ~(mode_t)0777) | owner << 6 | group << 3 | other;
}

void acl_chmod(struct acl *acl, mode_t mode)
{
	acl->entries[find(acl, ACL_USER_OBJ)].perm = (mode >> 6) & 7;
	acl->entries[find_group_class(acl)].perm = (mode >> 3) & 7;
	acl->entries[find(acl, ACL_OTHER)].perm = mode & 7;
}

void acl_inherit(struct acl *acl, mode_t *mode)
{
	acl_chmod(acl, *mode & acl_to_mode(acl, *mode));
	*mode = acl_to_mode(acl, *mode);
}
