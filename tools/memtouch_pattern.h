/* SPDX-License-Identifier: Apache-2.0 */
/* What --verify writes: every word of a page names the thread, the page and the pass that wrote it,
 * and where in the page it belongs. So a word that is old, from elsewhere or damaged is told apart
 * from the right one, wherever a page is torn. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/hint.h"

#define TOUCH_PASS_MAX ((UINT32_C(1) << 24) - 1)

struct touch_mark {
	uint32_t thread; /* < 2^10 */
	uint32_t page;	 /* of the thread's part, < 2^30 */
	uint32_t pass;	 /* how often it was written, from 1; wraps to 1 behind TOUCH_PASS_MAX */
};

/* What makes the patterns of two runs differ. */
uint64_t touch_pattern_salt(uint64_t seed);

static inline uint32_t touch_pass_next(uint32_t pass)
{
	return pass < TOUCH_PASS_MAX ? pass + 1 : 1;
}

/* `page` has RMEM_PAGE_BYTES and is aligned to a word. */
void touch_pattern_fill(void *page, uint64_t salt, struct touch_mark mark);
bool touch_pattern_ok(const void *page, uint64_t salt, struct touch_mark mark);

/* What is wrong with a page: how many words, which is the first, and whose it is if it is
 * anybody's. For one that is right "no word is wrong". */
void touch_pattern_explain(const void *page, uint64_t salt, struct touch_mark mark, char *text,
			   size_t text_bytes);
