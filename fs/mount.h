/* SPDX-License-Identifier: Apache-2.0 */
/* What the FUSE side of a mount shares: made by main.c, used by channel.c and ops*.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/rmem.h"
#include "fs/data.h"
#include "fs/volume.h"

struct fuse_session;

enum mount_cache {
	MOUNT_CACHE_NONE,   /* the kernel caches no data */
	MOUNT_CACHE_AUTO,   /* close-to-open */
	MOUNT_CACHE_ALWAYS, /* nobody else changes the volume: everything cached, for good */
};

struct mount {
	struct volume *volume;
	struct data_shared *data;
	enum mount_cache cache;
	bool writeback_wanted;	  /* let the kernel write back later, with MOUNT_CACHE_ALWAYS */
	bool default_permissions; /* the kernel checks access */
	struct fuse_session *session;
	const char *mountpoint; /* absolute */
	dev_t device;		/* what the table of mounts calls ours */
	/* Called once, on a reactor thread, when the kernel has accepted the mount. */
	void (*ready)(struct mount *mount);
	void *user;
	/* Agreed with the kernel at INIT. */
	bool agreed;
	bool writeback;	   /* the kernel keeps size and mtime of files and writes back later */
	bool access_lists; /* it checks access lists too, and leaves the umask to us */
	bool killpriv_v2;  /* it tells with each write whether privileges are to be dropped */
};
