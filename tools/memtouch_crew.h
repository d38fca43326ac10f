/* SPDX-License-Identifier: Apache-2.0 */
/* memtouch's threads. Each owns a part of the area, writes all of it (warm-up), waits for the
 * others, and then touches pages of it until it is told to stop. All functions are the main
 * thread's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tools/memtouch_area.h"
#include "tools/memtouch_options.h"

struct touch_crew;

/* Starts the warm-up. `options` and `area` must outlive the crew.
 * Errors: -ENOMEM, -EAGAIN (no more threads), -EMFILE. */
int touch_crew_create(const struct touch_options *options, const struct touch_area *area,
		      struct touch_crew **crew, struct rmem_error *error) RMEM_MUST_CHECK;

/* Readable when a thread became warm or ended, until touch_crew_look(). */
int touch_crew_fd(const struct touch_crew *crew);

struct touch_crew_state {
	unsigned warm;	/* threads that have written all of theirs */
	unsigned ended; /* threads that are at their end: by themselves only after a failure */
};
void touch_crew_look(struct touch_crew *crew, struct touch_crew_state *state);

/* Lets warm threads begin. */
void touch_crew_go(struct touch_crew *crew);

/* Tells all to stop, at once. */
void touch_crew_stop(struct touch_crew *crew);

/* Waits for their end, once. -ETIMEDOUT when one is still stuck in an access: they are left to
 * themselves then, and the crew can't be destroyed. */
int touch_crew_join(struct touch_crew *crew, unsigned timeout_ms) RMEM_MUST_CHECK;

/* After a join that succeeded: what went wrong in the first thread where something did. 0, or
 * -EILSEQ (a mismatch), -EFAULT (an access failed), or those of writing back. */
int touch_crew_error(struct touch_crew *crew, struct rmem_error *error) RMEM_MUST_CHECK;

struct touch_totals {
	uint64_t warm_pages, read_pages, write_pages;
};
void touch_crew_totals(const struct touch_crew *crew, struct touch_totals *totals);

/* After a join that succeeded. NULL is fine. */
void touch_crew_destroy(struct touch_crew *crew);
