/* SPDX-License-Identifier: Apache-2.0 */
/* The directory that is mounted on, and what is there already or still. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "engine/base/error.h"

/* Fails unless `mountpoint` is a directory that can be mounted on. A mount of ours that is dead
 * (its daemon was killed) is taken away first. `absolute` has room for PATH_MAX bytes. Waits for at
 * most 5 s; forks, so to be called before there are threads. Errors: -ENOENT, -ENOTDIR, -EBUSY (a
 * live mount of ours is there already, or one that does not answer), ... */
int mountpoint_check(const char *mountpoint, char *absolute,
		     struct rmem_error *error) RMEM_MUST_CHECK;

/* Of what is mounted there, on top; 0: nothing is. From the table of mounts: looking at the mount
 * itself could wait for it. `mountpoint` is absolute. */
dev_t mountpoint_device(const char *mountpoint);

/* Unmounts what is on top. `detach`: also when it is in use. */
int mountpoint_unmount(const char *mountpoint, bool detach) RMEM_MUST_CHECK;

/* Does work(mountpoint) in a child, whose exit status its result is. Unmounting and syncing wait
 * for the kernel to write back, for which the reactors are needed. A process that waits so in the
 * kernel cannot be killed, and the daemon must be. The child gives up the FUSE device, so that the
 * connection ends with the daemon whatever it waits for. */
pid_t mountpoint_start(int (*work)(const char *mountpoint), const char *mountpoint);

/* The child's exit status; -1 when it did not end in time, or `signal_fd` became readable (a signal
 * came; -1: none counts). */
int mountpoint_wait(pid_t pid, unsigned limit_ms, int signal_fd);
