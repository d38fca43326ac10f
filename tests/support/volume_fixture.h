/* SPDX-License-Identifier: Apache-2.0 */
/* A volume in a folder of its own, and store commits that fail on demand. Link with
 * volume_fixture_dep. One at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fs/inode.h"
#include "fs/namespace.h"
#include "fs/volume.h"

struct volume_fixture {
	char folder[64];
	char url[80];
	struct volume *volume; /* NULL while closed */
	unsigned sync_interval_ms;
};

/* Failures abort the test. init makes the folder and opens the volume; finish closes it when it is
 * open and removes the folder. */
void volume_fixture_init(struct volume_fixture *fixture);
void volume_fixture_finish(struct volume_fixture *fixture);
void volume_fixture_open(struct volume_fixture *fixture);
void volume_fixture_close(struct volume_fixture *fixture);
struct volume_options volume_fixture_options(const struct volume_fixture *fixture);

/* Attaches a server with one region. */
void volume_fixture_attach(struct volume_fixture *fixture, unsigned server, const char *url,
			   uint64_t incarnation, uint64_t bytes);

struct inode *volume_fixture_inode(struct volume_fixture *fixture, uint64_t ino);
struct inode *volume_fixture_create(struct volume_fixture *fixture, struct inode *parent,
				    const char *name, mode_t mode);

/* The next `count` calls of store_update() of this thread whose change succeeded are undone and
 * return `error`; -EAGAIN is taken by store_update() itself, as a conflict. */
void store_fault_arm(int error, unsigned count);
/* How many of them did not happen; none will any more. */
unsigned store_fault_disarm(void);

/* From now on all updates, or all syncs, of every thread fail with `error`; 0: none any more. */
void store_fault_updates(int error);
void store_fault_syncs(int error);

/* Reads one record; NULL buffer: only whether it is there. Its size, or -errno. */
ssize_t volume_fixture_read(struct volume_fixture *fixture, struct store_slice key, void *buffer,
			    size_t room);
