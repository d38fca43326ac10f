/* SPDX-License-Identifier: Apache-2.0 */
/* The mount's control socket: what goes on inside, readable from outside the mount, by a thread of
 * its own that needs neither the reactors nor the store. Whoever connects and says nothing, for a
 * moment or for good, gets one JSON document and the end of the stream. A line "set KEY=VALUE"
 * changes a setting while the mount runs, see control_set.h, and gets "ok" or why not. All of it is
 * for the owner of the mount and root (mode 0600). */
#pragma once

#include <stddef.h>

#include "engine/rmem.h"
#include "fs/data.h"
#include "fs/volume.h"

struct control;

#define CONTROL_LINE_BYTES 256 /* of a request, at most */

struct control_options {
	const char *path; /* of the socket; "auto": control_default_path() */
	const char *store_url;
	const char *mountpoint;
	struct rmem_engine *engine;
	struct volume *volume;
	const struct data_shared *data; /* NULL: nothing is said of writing back */
};

/* "FOLDER/control.sock" for "lmdb:FOLDER". -ENAMETOOLONG when no socket fits there. */
int control_default_path(const char *store_url, char *path, size_t size) RMEM_MUST_CHECK;

/* Replaces a socket that nobody listens on. Errors: -EADDRINUSE, -ENAMETOOLONG, ... */
int control_start(const struct control_options *options, struct control **control,
		  struct rmem_error *error) RMEM_MUST_CHECK;
void control_stop(struct control *control); /* removes the socket; NULL is fine */
