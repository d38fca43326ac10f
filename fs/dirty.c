/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/dirty.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/checked.h"
#include "fs/volume.h"

#define PAGE	VOLUME_PAGE_BYTES
#define CROWDED 1 /* pages a bucket that make the index grow */
#define GROWTH	4 /* by so much */

uint32_t dirty_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint32_t)((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
}

struct dirty_file *dirty_file_create(void)
{
	struct dirty_file *file = calloc(1, sizeof(*file));

	if (file != NULL) {
		file->buckets = file->own;
		file->bucket_count = DIRTY_BUCKETS;
	}
	return file;
}

void dirty_file_destroy(struct dirty_file *file)
{
	if (file == NULL)
		return;
	if (file->buckets != file->own)
		free(file->buckets);
	free(file);
}

/* --- The index -------------------------------------------------------------------------------- */

static struct dirty_page **bucket_of(const struct dirty_file *file, uint64_t number)
{
	return &file->buckets[number & (file->bucket_count - 1)];
}

struct dirty_page *dirty_find(const struct dirty_file *file, uint64_t number)
{
	struct dirty_page *page;

	if (file == NULL || file->page_count == 0)
		return NULL;
	page = *bucket_of(file, number);
	while (page != NULL && page->number != number)
		page = page->chain;
	return page;
}

/* Without memory it stays as it is, and only gets slower. */
static void index_grow(struct dirty_file *file)
{
	uint32_t count = file->bucket_count;
	struct dirty_page **old = file->buckets;
	struct dirty_page **buckets = calloc((size_t)count * GROWTH, sizeof(struct dirty_page *));

	if (buckets == NULL)
		return;
	file->buckets = buckets;
	file->bucket_count = count * GROWTH;
	for (uint32_t i = 0; i < count; i++) {
		while (old[i] != NULL) {
			struct dirty_page *page = old[i];
			struct dirty_page **bucket = bucket_of(file, page->number);

			old[i] = page->chain;
			page->chain = *bucket;
			*bucket = page;
		}
	}
	if (old != file->own)
		free(old);
}

static void index_add(struct dirty_file *file, struct dirty_page *page)
{
	struct dirty_page **bucket;

	if (++file->page_count > file->bucket_count * CROWDED)
		index_grow(file);
	bucket = bucket_of(file, page->number);
	page->chain = *bucket;
	*bucket = page;
}

static void index_remove(struct dirty_file *file, struct dirty_page *page)
{
	struct dirty_page **at = bucket_of(file, page->number);

	while (*at != page)
		at = &(*at)->chain;
	*at = page->chain;
	file->page_count--;
}

/* --- The lists -------------------------------------------------------------------------------- */

static void age_append(struct dirty_file *file, struct dirty_page *page)
{
	page->sequence = ++file->sequence;
	page->since_ms = dirty_now_ms();
	page->newer = NULL;
	page->older = file->newest;
	if (file->newest != NULL)
		file->newest->newer = page;
	else
		file->oldest = page;
	file->newest = page;
}

static void age_remove(struct dirty_file *file, struct dirty_page *page)
{
	if (page->older != NULL)
		page->older->newer = page->newer;
	else
		file->oldest = page->newer;
	if (page->newer != NULL)
		page->newer->older = page->older;
	else
		file->newest = page->older;
}

void dirty_note_growth(struct dirty_file *file, struct dirty_page *page, uint64_t size_before)
{
	if (page->grows)
		return; /* since a smaller size */
	page->grows = true;
	page->size_before = size_before;
	page->after = NULL;
	page->before = file->growth_last;
	if (file->growth_last != NULL)
		file->growth_last->after = page;
	else
		file->growth_first = page;
	file->growth_last = page;
}

static void growth_remove(struct dirty_file *file, struct dirty_page *page)
{
	if (page->before != NULL)
		page->before->after = page->after;
	else
		file->growth_first = page->after;
	if (page->after != NULL)
		page->after->before = page->before;
	else
		file->growth_last = page->before;
	page->grows = false;
}

/* Sizes in the list ascend: they were noted as the file grew, and truncations cap all of them. */
uint64_t dirty_size_limit(const struct dirty_file *file)
{
	return file == NULL || file->growth_first == NULL ? UINT64_MAX
							  : file->growth_first->size_before;
}

/* --- Pages ------------------------------------------------------------------------------------ */

void dirty_add(struct dirty_file *file, struct dirty_page *page, uint64_t number)
{
	page->number = number;
	page->from = page->to = 0;
	page->state = DIRTY_IDLE;
	page->grows = page->fresh = page->failed = false;
	age_append(file, page);
	index_add(file, page);
}

void dirty_renew(struct dirty_file *file, struct dirty_page *old, struct dirty_page *page)
{
	assert(old->state == DIRTY_WRITING);
	index_remove(file, old);
	old->state = DIRTY_STALE;
	dirty_add(file, page, old->number);
	page->from = old->from;
	page->to = old->to;
	memcpy(page->bytes + page->from, old->bytes + page->from, (size_t)(page->to - page->from));
}

void dirty_remove(struct dirty_file *file, struct dirty_page *page)
{
	if (page->state != DIRTY_STALE)
		index_remove(file, page);
	if (page->grows)
		growth_remove(file, page);
	age_remove(file, page);
}

void dirty_retry(struct dirty_page *page)
{
	assert(page->state == DIRTY_WRITING);
	page->state = DIRTY_IDLE;
}

void dirty_keep(struct dirty_file *file, struct dirty_page *page)
{
	assert(page->state == DIRTY_WRITING);
	page->state = DIRTY_IDLE;
	age_remove(file, page);
	age_append(file, page);
}

/* Takes the place of `old` in the order of age. */
static void age_inherit(struct dirty_file *file, struct dirty_page *page, struct dirty_page *old)
{
	age_remove(file, page);
	page->sequence = old->sequence;
	page->since_ms = old->since_ms;
	page->older = old;
	page->newer = old->newer;
	if (old->newer != NULL)
		old->newer->older = page;
	else
		file->newest = page;
	old->newer = page;
}

/* And in the list of growth. */
static void growth_inherit(struct dirty_file *file, struct dirty_page *page, struct dirty_page *old)
{
	if (page->grows)
		growth_remove(file, page);
	page->grows = true;
	page->size_before = old->size_before;
	page->before = old;
	page->after = old->after;
	if (old->after != NULL)
		old->after->before = page;
	else
		file->growth_last = page;
	old->after = page;
}

void dirty_merge(struct dirty_file *file, struct dirty_page *stale)
{
	struct dirty_page *page = dirty_find(file, stale->number);

	assert(stale->state == DIRTY_STALE);
	if (page != NULL) {
		age_inherit(file, page, stale);
		if (stale->grows)
			growth_inherit(file, page, stale);
	}
	dirty_remove(file, stale);
}

/* --- Ranges ----------------------------------------------------------------------------------- */

/* The part of the page's dirty bytes that lies in [from, to) of the file. */
static bool clip(const struct dirty_page *page, uint64_t from, uint64_t to,
		 struct dirty_range *range)
{
	uint64_t base = page->number * PAGE;
	uint64_t begin = rmem_max_u64(base + page->from, from);
	uint64_t end = rmem_min_u64(base + page->to, to);

	if (begin >= end)
		return false;
	*range = (struct dirty_range){
		.offset = begin,
		.length = end - begin,
		.bytes = page->bytes + (begin - base),
	};
	return true;
}

bool dirty_next(const struct dirty_file *file, uint64_t from, uint64_t to,
		struct dirty_range *range)
{
	if (file == NULL || file->page_count == 0 || from >= to)
		return false;
	for (uint64_t number = from / PAGE; number <= (to - 1) / PAGE; number++) {
		const struct dirty_page *page = dirty_find(file, number);

		if (page != NULL && clip(page, from, to, range))
			return true;
	}
	return false;
}

void dirty_overwrite(struct dirty_file *file, uint64_t from, uint64_t to, const uint8_t *bytes)
{
	struct dirty_range range;
	uint64_t at = from;

	while (dirty_next(file, at, to, &range)) {
		if (bytes != NULL)
			memcpy(range.bytes, bytes + (range.offset - from), range.length);
		else
			memset(range.bytes, 0, range.length);
		at = range.offset + range.length;
	}
}

/* Drops all pages from `from` up to `to`. */
static struct dirty_page *drop(struct dirty_file *file, uint64_t from, uint64_t to)
{
	struct dirty_page *page = file->oldest, *dropped = NULL;

	while (page != NULL) {
		struct dirty_page *newer = page->newer;

		if (page->number >= from && page->number < to) {
			assert(page->state == DIRTY_IDLE);
			dirty_remove(file, page);
			page->next = dropped;
			dropped = page;
		}
		page = newer;
	}
	return dropped;
}

struct dirty_page *dirty_punch(struct dirty_file *file, uint64_t from, uint64_t to)
{
	uint64_t first, last;

	if (!dirty_any(file) || from >= to)
		return NULL;
	first = rmem_round_up(from, PAGE);
	last = rmem_round_down(to, PAGE);
	dirty_overwrite(file, from, rmem_min_u64(first, to), NULL);
	dirty_overwrite(file, rmem_max_u64(last, from), to, NULL);
	return first < last ? drop(file, first / PAGE, last / PAGE) : NULL;
}

struct dirty_page *dirty_truncate(struct dirty_file *file, uint64_t size)
{
	uint64_t first;

	if (!dirty_any(file))
		return NULL;
	first = rmem_round_up(size, PAGE);
	dirty_overwrite(file, size, first, NULL);
	for (struct dirty_page *page = file->growth_first; page != NULL; page = page->after)
		page->size_before = rmem_min_u64(page->size_before, size);
	return drop(file, first / PAGE, UINT64_MAX);
}

uint64_t dirty_first_from(const struct dirty_file *file, uint64_t number)
{
	uint64_t found = UINT64_MAX;

	if (file == NULL)
		return found;
	for (const struct dirty_page *page = file->oldest; page != NULL; page = page->newer)
		if (page->number >= number && page->number < found)
			found = page->number;
	return found;
}

/* --- Errors ----------------------------------------------------------------------------------- */

void dirty_error_note(struct dirty_file *file, int error)
{
	file->error = error;
	file->error_count++;
	file->error_told = false;
}

uint32_t dirty_error_mark(const struct dirty_file *file)
{
	if (file == NULL)
		return 0;
	return file->error_told ? file->error_count : file->error_count - (file->error_count > 0);
}

int dirty_error_take(struct dirty_file *file, uint32_t *seen)
{
	if (file == NULL || file->error_count == *seen)
		return 0;
	*seen = file->error_count;
	file->error_told = true;
	return file->error;
}
