/* SPDX-License-Identifier: Apache-2.0 */
/* What memtouch touches: anonymous memory, or a shared mapping of a file. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tools/memtouch_options.h"

struct touch_area {
	unsigned char *memory;
	uint64_t bytes;
	int fd;		  /* -1: anonymous */
	const char *path; /* the file's; NULL: anonymous */
	bool created;	  /* the file was not there before */
};

/* Maps touch_options_bytes(). A file is made when it isn't there, grown when it is too small, given
 * all its blocks so that a full file system is no surprise later, and left behind.
 * Errors: -ENOMEM (more than there is), -ENOSPC, -EINVAL (not a regular file), those of open(2),
 * fallocate(2) and mmap(2). */
int touch_area_create(const struct touch_options *options, struct touch_area *area,
		      struct rmem_error *error) RMEM_MUST_CHECK;
void touch_area_destroy(struct touch_area *area);

/* Writes a part of the file back and drops it from memory, so that touching it again asks the file
 * system. Nothing for anonymous memory. Any thread. Errors: those of msync(2). */
int touch_area_flush(const struct touch_area *area, uint64_t offset, uint64_t bytes,
		     struct rmem_error *error) RMEM_MUST_CHECK;

/* At the end: waits until all of the file is with the file system. Errors: those of fsync(2). */
int touch_area_sync(const struct touch_area *area, struct rmem_error *error) RMEM_MUST_CHECK;

/* `page`, which somebody wrote, was read and ended in zeros. Some file systems cut a file before
 * the kernel knows its new size, and pages that are read in between hold zeros from there on: waits
 * a moment for that. Returns -EFAULT when the file was truncated, else 0. */
int touch_area_explain_zeros(const struct touch_area *area, const void *page,
			     struct rmem_error *error) RMEM_MUST_CHECK;

/* Says why an access at `address` ended in SIGBUS. Returns -EFAULT. */
int touch_area_explain_fault(const struct touch_area *area, const void *address,
			     struct rmem_error *error);
