/* SPDX-License-Identifier: Apache-2.0 */
/* The dirty pages of a file against a model that is an array, and the pool that they come from. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/checked.h"
#include "fs/dirty.h"
#include "fs/volume.h"
#include "tests/support/runner.h"

#define PAGE  VOLUME_PAGE_BYTES
#define PAGES 64u /* of the file */
#define SPARE 160u

/* --- Bookkeeping against a model -------------------------------------------------------------- */

struct model {
	struct dirty_file *file;
	struct dirty_page pages[SPARE];
	struct dirty_page *free;
	uint8_t *memory;
	uint64_t size;
	/* Of each page of the file; to 0: clean. */
	struct {
		uint8_t bytes[PAGE];
		uint32_t from, to;
	} is[PAGES];
};

static struct model *model_create(void)
{
	struct model *model = calloc(1, sizeof(*model));

	model->file = dirty_file_create();
	model->memory = malloc((size_t)SPARE * PAGE);
	for (unsigned i = 0; i < SPARE; i++) {
		model->pages[i].bytes = model->memory + (size_t)i * PAGE;
		model->pages[i].next = model->free;
		model->free = &model->pages[i];
	}
	return model;
}

static void model_destroy(struct model *model)
{
	dirty_file_destroy(model->file);
	free(model->memory);
	free(model);
}

static void give_back(struct model *model, struct dirty_page *list)
{
	while (list != NULL) {
		struct dirty_page *next = list->next;

		list->next = model->free;
		model->free = list;
		list = next;
	}
}

/* Makes [from, to) of a page dirty, as a write that is staged does. */
static void make_dirty(struct model *model, unsigned number, uint32_t from, uint32_t to)
{
	struct dirty_page *page = dirty_find(model->file, number), *fresh = model->free;

	if (page != NULL && (from > page->to || to < page->from))
		return; /* would leave a gap */
	if (page == NULL || page->state == DIRTY_WRITING) {
		if (fresh == NULL)
			return;
		model->free = fresh->next;
		if (page == NULL)
			dirty_add(model->file, fresh, number);
		else
			dirty_renew(model->file, page, fresh);
		page = fresh;
	}
	if (page->to == 0) {
		page->from = (uint16_t)from;
		page->to = (uint16_t)to;
	}
	page->from = (uint16_t)rmem_min_u64(page->from, from);
	page->to = (uint16_t)rmem_max_u64(page->to, to);
	for (uint32_t i = from; i < to; i++)
		page->bytes[i] = model->is[number].bytes[i] = (uint8_t)rand();
	if (model->is[number].to == 0)
		model->is[number].from = PAGE;
	model->is[number].from = (uint32_t)rmem_min_u64(model->is[number].from, from);
	model->is[number].to = (uint32_t)rmem_max_u64(model->is[number].to, to);
	if (number * (uint64_t)PAGE + to > model->size) {
		dirty_note_growth(model->file, page, model->size);
		model->size = number * (uint64_t)PAGE + to;
	}
}

static void send_oldest(struct model *model)
{
	unsigned count = 1 + (unsigned)rand() % 8;

	for (struct dirty_page *page = model->file->oldest; page != NULL && count > 0;
	     page = page->newer, count--)
		if (page->state == DIRTY_IDLE)
			page->state = DIRTY_WRITING;
}

/* What was sent has arrived, or has not. */
static void settle(struct model *model, bool arrived)
{
	struct dirty_page *page = model->file->oldest, *done = NULL;

	while (page != NULL) {
		struct dirty_page *newer = page->newer;

		if (page->state == DIRTY_WRITING && !arrived) {
			dirty_retry(page);
		} else if (page->state != DIRTY_IDLE) {
			if (page->state == DIRTY_WRITING)
				model->is[page->number].to = 0;
			if (page->state == DIRTY_STALE && !arrived)
				dirty_merge(model->file, page);
			else
				dirty_remove(model->file, page);
			page->next = done;
			done = page;
		}
		page = newer;
	}
	give_back(model, done);
}

static void model_zero(struct model *model, uint64_t from, uint64_t to)
{
	for (unsigned i = 0; i < PAGES; i++) {
		uint64_t base = i * (uint64_t)PAGE;
		uint64_t begin = rmem_max_u64(base + model->is[i].from, from);
		uint64_t end = rmem_min_u64(base + model->is[i].to, to);

		if (begin < end)
			memset(model->is[i].bytes + (begin - base), 0, end - begin);
		if (from <= base && to >= base + PAGE)
			model->is[i].to = 0;
	}
}

static void check_lists(const struct model *model)
{
	const struct dirty_file *file = model->file;
	uint64_t sequence = 0, limit = UINT64_MAX, before = 0;
	unsigned count = 0, grows = 0, listed = 0;

	for (const struct dirty_page *page = file->oldest; page != NULL; page = page->newer) {
		ck_assert_uint_gt(page->sequence, sequence);
		sequence = page->sequence;
		count += page->state != DIRTY_STALE;
		grows += page->grows;
		if (page->grows)
			limit = rmem_min_u64(limit, page->size_before);
	}
	for (const struct dirty_page *page = file->growth_first; page != NULL; page = page->after) {
		ck_assert_uint_ge(page->size_before, before);
		before = page->size_before;
		listed++;
	}
	ck_assert_uint_eq(count, file->page_count);
	ck_assert_uint_eq(grows, listed);
	ck_assert_uint_eq(dirty_size_limit(file), limit);
}

static void check_bytes(const struct model *model)
{
	struct dirty_range range;
	uint64_t first = UINT64_MAX;

	for (unsigned i = 0; i < PAGES; i++) {
		uint64_t base = i * (uint64_t)PAGE;

		ck_assert_int_eq(dirty_next(model->file, base, base + PAGE, &range),
				 model->is[i].to > 0);
		if (model->is[i].to == 0)
			continue;
		first = rmem_min_u64(first, i);
		ck_assert_uint_eq(range.offset, base + model->is[i].from);
		ck_assert_uint_eq(range.length, model->is[i].to - model->is[i].from);
		ck_assert_mem_eq(range.bytes, model->is[i].bytes + model->is[i].from, range.length);
	}
	ck_assert_uint_eq(dirty_first_from(model->file, 0), first);
}

static void some_step(struct model *model)
{
	uint64_t from = (uint64_t)rand() % (PAGES * PAGE), length = (uint64_t)rand() % (8 * PAGE);
	uint32_t in_page = (uint32_t)rand() % PAGE;

	switch (rand() % 12) {
	case 0:
		settle(model, true);
		from = rmem_min_u64(from, model->size);
		give_back(model, dirty_truncate(model->file, from));
		model_zero(model, from, UINT64_MAX);
		model->size = from;
		break;
	case 1:
		settle(model, true);
		give_back(model, dirty_punch(model->file, from, from + length));
		model_zero(model, from, from + length);
		break;
	case 2:
		settle(model, true);
		send_oldest(model);
		break;
	case 3:
		settle(model, rand() % 2);
		break;
	case 4:
		send_oldest(model);
		break;
	default:
		make_dirty(model, (unsigned)(from / PAGE), rand() % 2 ? 0 : in_page,
			   rand() % 2 ? PAGE : in_page + 1);
		break;
	}
}

START_TEST(random_operations_match_a_model)
{
	struct model *model = model_create();

	srand(3 + (unsigned)_i);
	for (unsigned step = 0; step < 6000; step++) {
		some_step(model);
		check_lists(model);
		if (step % 16 == 0)
			check_bytes(model);
	}
	settle(model, true);
	give_back(model, dirty_truncate(model->file, 0));
	ck_assert(!dirty_any(model->file));
	model_destroy(model);
}
END_TEST

/* --- Errors ----------------------------------------------------------------------------------- */

START_TEST(an_error_is_told_once_to_each_who_has_the_file_open)
{
	struct dirty_file *file = dirty_file_create();
	uint32_t one = dirty_error_mark(NULL), other = dirty_error_mark(file), later;

	ck_assert_int_eq(dirty_error_take(NULL, &one), 0);
	ck_assert_int_eq(dirty_error_take(file, &one), 0);
	dirty_error_note(file, -EIO);
	later = dirty_error_mark(file); /* nobody was told yet, so whoever opens now is */
	ck_assert_int_eq(dirty_error_take(file, &later), -EIO);
	ck_assert_int_eq(dirty_error_take(file, &later), 0);
	later = dirty_error_mark(file);
	ck_assert_int_eq(dirty_error_take(file, &later), 0);
	ck_assert_int_eq(dirty_error_take(file, &one), -EIO);
	ck_assert_int_eq(dirty_error_take(file, &one), 0);
	dirty_error_note(file, -EIO);
	dirty_error_note(file, -EIO);
	ck_assert_int_eq(dirty_error_take(file, &one), -EIO);
	ck_assert_int_eq(dirty_error_take(file, &one), 0);
	ck_assert_int_eq(dirty_error_take(file, &other), -EIO);
	ck_assert_int_eq(dirty_error_take(file, &other), 0);
	dirty_file_destroy(file);
}
END_TEST

/* --- The pool --------------------------------------------------------------------------------- */

static unsigned grants;

static void count_grant(struct dirty_wait *wait)
{
	ck_assert_ptr_nonnull(wait->got);
	grants++;
}

START_TEST(the_pool_serves_in_order_and_forgets_who_leaves)
{
	struct dirty_wait first = {.count = 3, .granted = count_grant}, waits[3];
	struct rmem_arena_options arena = {.slot_count = 4};
	struct rmem_engine_options options;
	struct rmem_error error = {0};
	struct rmem_engine *engine;
	struct dirty_pool *pool;

	rmem_engine_options_init(&options);
	options.reactor_count = 1;
	ck_assert_int_eq(rmem_engine_create(&options, &engine, &error), 0);
	ck_assert_int_eq(dirty_pool_create(engine, &arena, &pool, &error), 0);
	ck_assert(dirty_pool_take(pool, &first));
	ck_assert_uint_eq(dirty_pool_used(pool), 3);
	for (unsigned i = 0; i < 3; i++) {
		waits[i] = (struct dirty_wait){.count = i == 0 ? 4 : 1, .granted = count_grant};
		ck_assert(!dirty_pool_take(pool, &waits[i])); /* also those that would fit */
	}
	ck_assert(dirty_pool_is_short(pool));
	grants = 0;
	ck_assert(dirty_pool_cancel(pool, &waits[2]));
	ck_assert_uint_eq(grants, 0);
	ck_assert(dirty_pool_cancel(pool, &waits[0])); /* the next one fits */
	ck_assert_uint_eq(grants, 1);
	ck_assert(!dirty_pool_cancel(pool, &waits[1]));
	ck_assert(!dirty_pool_is_short(pool));
	ck_assert(!dirty_pool_take(pool, &waits[0]));
	dirty_pool_put(pool, first.got);
	ck_assert_uint_eq(grants, 1);
	dirty_pool_put(pool, waits[1].got);
	ck_assert_uint_eq(grants, 2);
	ck_assert_uint_eq(dirty_pool_used(pool), 4);
	dirty_pool_put(pool, waits[0].got);
	ck_assert_uint_eq(dirty_pool_used(pool), 0);
	dirty_pool_destroy(pool);
	rmem_engine_destroy(engine);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("dirty");
	TCase *tcase = tcase_create("dirty");

	tcase_add_loop_test(tcase, random_operations_match_a_model, 0, 4);
	tcase_add_test(tcase, an_error_is_told_once_to_each_who_has_the_file_open);
	tcase_add_test(tcase, the_pool_serves_in_order_and_forgets_who_leaves);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
