/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX access control lists: the form they have as extended attributes, and what they do to modes.
 *
 * The kernel checks access with them and hands every change to us as an attribute. What it leaves
 * to the filesystem is here: an access list and the permission bits of the mode describe each
 * other, and a directory's default list decides what its new children get (and takes the umask's
 * place).
 *
 * The rules are those of POSIX 1003.1e draft 17, as acl(5) tells them. Pure functions, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/error.h"
#include "fs/store.h"

#define ACL_ACCESS_NAME	 "system.posix_acl_access"
#define ACL_DEFAULT_NAME "system.posix_acl_default"
#define ACL_ENTRIES_MAX	 256u
#define ACL_BYTES_MAX	 (4 + 8 * ACL_ENTRIES_MAX)

struct acl_entry {
	uint16_t tag;  /* enum acl_tag */
	uint16_t perm; /* rwx, 0..7 */
	uint32_t id;   /* of ACL_USER and ACL_GROUP */
};

enum acl_tag {
	ACL_USER_OBJ = 1,
	ACL_USER = 2,
	ACL_GROUP_OBJ = 4,
	ACL_GROUP = 8,
	ACL_MASK = 16,
	ACL_OTHER = 32,
};

struct acl {
	unsigned count;
	struct acl_entry entries[ACL_ENTRIES_MAX];
};

/* -EINVAL: not a list, or none that makes sense; -E2BIG: more than ACL_ENTRIES_MAX. An attribute
 * without entries is an empty list. */
int acl_decode(struct store_slice value, struct acl *acl) RMEM_MUST_CHECK;
struct store_slice acl_encode(const struct acl *acl, uint8_t bytes[ACL_BYTES_MAX]);

/* The following want a list that acl_decode() found good, and that isn't empty. */

/* Whether the list says more than a mode can. */
bool acl_is_extended(const struct acl *acl);

/* `mode` with the permission bits that the list means. */
mode_t acl_to_mode(const struct acl *acl, mode_t mode);

/* Makes the list say what chmod() asks for. */
void acl_chmod(struct acl *acl, mode_t mode);

/* A new child in a directory with this default list: `acl` becomes its access list, and the mode
 * that it was created with is limited to it. */
void acl_inherit(struct acl *acl, mode_t *mode);
