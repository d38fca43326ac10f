/* SPDX-License-Identifier: Apache-2.0 */
/* The FUSE session: mounting, what is agreed with the kernel beyond the library's knowledge, and
 * unmounting without losing what the kernel has not written back yet. */
#pragma once

#include <stddef.h>

#include "engine/base/error.h"
#include "fs/mount.h"

struct session_options {
	const char *mountpoint;	    /* absolute */
	const char *source;	    /* what `mount` shows in the first column */
	const char *const *options; /* -o strings of the caller */
	size_t option_count;
	bool allow_other;
	bool default_permissions;
};

/* Takes the options: mount->session is set, and nothing is mounted. Errors: -EINVAL (an option that
 * nobody knows), -ENOMEM. */
int session_create(struct mount *mount, const struct session_options *options,
		   struct rmem_error *error) RMEM_MUST_CHECK;
/* Mounts. The kernel's first request still has to be served. Errors: -EPERM, -ENODEV (no FUSE), ...
 */
int session_mount(struct mount *mount, const struct session_options *options,
		  struct rmem_error *error) RMEM_MUST_CHECK;
void session_destroy(struct mount *mount); /* unmounts if need be; NULL session is fine */

/* Once the kernel has accepted the mount and requests are served: lets it read further ahead of
 * sequential readers than the 128 KiB it starts with. Needs root; otherwise nothing happens. */
void session_set_readahead(const char *mountpoint);

/* Unmounts while the reactors still serve, so that the kernel can write back what it holds. A mount
 * that is in use is synced and detached: its users get ENOTCONN from then on. Bounded: after half a
 * minute, or once `signal_fd` is readable (another signal), it is detached as it is. What somebody
 * else has mounted there since ours was detached is left alone. */
void session_unmount(struct mount *mount, const char *mountpoint, int signal_fd);
