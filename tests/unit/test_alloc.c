/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "fs/bitmap.h"
#include "fs/record.h"
#include "tests/support/faulty_store.h"
#include "tests/support/runner.h"
#include "tests/support/small_volume.h"

#define GROUP RECORD_GROUP_PAGES

static struct small_volume small;

static void setup(void)
{
	small_volume_init(&small, 1 << 20);
}

static void teardown(void)
{
	small_volume_finish(&small);
}

static struct store_txn *begin(void)
{
	struct store_txn *txn;

	ck_assert_int_eq(store_begin(small.volume.store, STORE_WRITE, &txn), 0);
	alloc_begin(small.volume.allocator, txn);
	return txn;
}

static int commit(struct store_txn *txn)
{
	int error = alloc_store(small.volume.allocator, txn);

	if (error != 0) {
		store_abort(txn);
		return error;
	}
	return store_commit(txn);
}

static int take(uint32_t region, uint64_t page, uint32_t pages, struct alloc_run *run)
{
	struct alloc_run hint = {.region = region, .page = page, .pages = pages};

	return alloc_take(small.volume.allocator, &hint, run);
}

static struct alloc_run taken(uint32_t region, uint64_t page, uint32_t pages)
{
	struct alloc_run run;

	ck_assert_int_eq(take(region, page, pages, &run), 0);
	ck_assert_uint_ge(run.pages, 1);
	ck_assert_uint_le(run.pages, pages);
	return run;
}

static int give(uint32_t region, uint64_t page, uint32_t pages)
{
	struct alloc_run run = {.region = region, .page = page, .pages = pages};

	return alloc_give(small.volume.allocator, &run);
}

static uint64_t free_pages(void)
{
	struct alloc_usage usage;

	alloc_usage(small.volume.allocator, &usage);
	return usage.available;
}

static uint64_t stored_pages(uint32_t region)
{
	uint64_t pages = small.regions[region].length / VOLUME_PAGE_BYTES;
	uint64_t *words = small_volume_bitmap(&small, region);
	uint64_t count = bitmap_count(words, 0, (uint32_t)pages);

	free(words);
	return count;
}

START_TEST(nothing_can_be_taken_without_a_region)
{
	struct store_txn *txn = begin();
	struct alloc_run run;

	ck_assert_int_eq(take(1, ALLOC_ANYWHERE, 1, &run), -ENOSPC);
	ck_assert_uint_eq(alloc_region_at(small.volume.allocator, 3), 0);
	store_abort(txn);
}
END_TEST

START_TEST(commit_stores_what_was_taken)
{
	struct alloc_run run;
	struct store_txn *txn;

	small_volume_attach(&small, 1, 1000);
	txn = begin();
	run = taken(1, ALLOC_ANYWHERE, 10);
	ck_assert_uint_eq(run.pages, 10);
	ck_assert_int_eq(commit(txn), 0);
	ck_assert_uint_eq(free_pages(), 990);
	ck_assert_uint_eq(stored_pages(1), 10);
	for (uint32_t i = 0; i < 10; i++)
		ck_assert(small_volume_is_taken(&small, 1, run.page + i));
}
END_TEST

START_TEST(abort_undoes_takes_and_gives)
{
	struct alloc_run kept, run;
	struct store_txn *txn;

	small_volume_attach(&small, 1, 1000);
	txn = begin();
	kept = taken(1, ALLOC_ANYWHERE, 10);
	ck_assert_int_eq(commit(txn), 0);
	txn = begin();
	run = taken(1, ALLOC_ANYWHERE, 100);
	ck_assert_int_eq(give(1, kept.page, 5), 0);
	ck_assert_int_eq(alloc_store(small.volume.allocator, txn), 0);
	store_abort(txn);
	ck_assert_uint_eq(free_pages(), 990);
	ck_assert_uint_eq(stored_pages(1), 10);
	/* The pages can be had again, and what was not given is still ours to give. */
	txn = begin();
	ck_assert_uint_eq(taken(1, run.page, 100).pages, 100);
	ck_assert_int_eq(give(1, kept.page, 10), 0);
	ck_assert_int_eq(commit(txn), 0);
	ck_assert_uint_eq(free_pages(), 900);
}
END_TEST

START_TEST(failing_store_undoes_takes_and_gives)
{
	struct store_txn *txn;
	struct alloc_run run;

	small_volume_attach(&small, 1, 1000);
	txn = begin();
	run = taken(1, ALLOC_ANYWHERE, 10);
	ck_assert_int_eq(commit(txn), 0);
	for (int what = 0; what < 2; what++) {
		txn = begin();
		(void)taken(1, ALLOC_ANYWHERE, 7);
		ck_assert_int_eq(give(1, run.page, 10), 0);
		if (what == 0)
			faulty_store_fail_put(small.volume.store, 1, -ENOSPC);
		else
			faulty_store_fail_commits(small.volume.store, 1, -ENOSPC);
		ck_assert_int_eq(commit(txn), -ENOSPC);
		ck_assert(faulty_store_disarm(small.volume.store));
		ck_assert_uint_eq(free_pages(), 990);
		ck_assert_uint_eq(stored_pages(1), 10);
	}
}
END_TEST

START_TEST(given_pages_can_not_be_taken_before_the_commit)
{
	struct store_txn *txn;
	struct alloc_run run;

	small_volume_attach(&small, 1, 64);
	txn = begin();
	ck_assert_uint_eq(taken(1, ALLOC_ANYWHERE, 64).pages, 64);
	ck_assert_int_eq(commit(txn), 0);
	txn = begin();
	ck_assert_int_eq(give(1, 10, 20), 0);
	ck_assert_int_eq(take(1, ALLOC_ANYWHERE, 1, &run), -ENOSPC);
	ck_assert_int_eq(take(1, 10, 1, &run), -ENOSPC);
	ck_assert_int_eq(commit(txn), 0);
	txn = begin();
	ck_assert_uint_eq(taken(1, ALLOC_ANYWHERE, 64).pages, 20);
	store_abort(txn);
}
END_TEST

START_TEST(run_goes_on_where_it_is_wished)
{
	struct store_txn *txn;
	struct alloc_run run;

	small_volume_attach(&small, 1, 3 * GROUP);
	small_volume_attach(&small, 2, 3 * GROUP);
	txn = begin();
	run = taken(2, GROUP + 77, 10);
	ck_assert_uint_eq(run.region, 2);
	ck_assert_uint_eq(run.page, GROUP + 77);
	ck_assert_uint_eq(run.pages, 10);
	/* As far as it is free there. */
	run = taken(2, GROUP + 70, 10);
	ck_assert_uint_eq(run.page, GROUP + 70);
	ck_assert_uint_eq(run.pages, 7);
	/* Not at all free there: elsewhere in the region. */
	run = taken(2, GROUP + 80, 10);
	ck_assert_uint_eq(run.region, 2);
	ck_assert_uint_eq(run.pages, 10);
	/* Behind the end. */
	run = taken(2, 3 * GROUP, 10);
	ck_assert_uint_eq(run.pages, 10);
	/* A run ends with its group, and goes on in the next. */
	run = taken(1, GROUP - 4, 10);
	ck_assert_uint_eq(run.pages, 4);
	run = taken(1, GROUP, 6);
	ck_assert_uint_eq(run.page, GROUP);
	ck_assert_int_eq(commit(txn), 0);
}
END_TEST

START_TEST(full_region_falls_back_to_another)
{
	struct store_txn *txn;
	struct alloc_run run;

	small_volume_attach(&small, 1, 100);
	small_volume_attach(&small, 2, 50);
	txn = begin();
	ck_assert_uint_eq(taken(1, ALLOC_ANYWHERE, 100).pages, 100);
	run = taken(1, ALLOC_ANYWHERE, 50);
	ck_assert_uint_eq(run.region, 2);
	ck_assert_uint_eq(run.pages, 50);
	ck_assert_int_eq(take(1, ALLOC_ANYWHERE, 1, &run), -ENOSPC);
	ck_assert_int_eq(commit(txn), 0);
	ck_assert_uint_eq(free_pages(), 0);
}
END_TEST

START_TEST(nothing_is_taken_from_servers_that_are_away)
{
	struct store_txn *txn;
	struct alloc_run run;

	small_volume_attach(&small, 1, 100);
	small_volume_attach(&small, 2, 50);
	small_volume_detach(&small, 1);
	ck_assert_uint_eq(free_pages(), 50);
	txn = begin();
	ck_assert_uint_eq(alloc_region_at(small.volume.allocator, 0), 2);
	ck_assert_uint_eq(alloc_region_at(small.volume.allocator, 1), 2);
	ck_assert_uint_eq(taken(1, 5, 10).region, 2);
	small_volume_detach(&small, 2);
	ck_assert_int_eq(take(1, 5, 10, &run), -ENOTCONN);
	store_abort(txn);
}
END_TEST

START_TEST(what_was_not_taken_can_not_be_given)
{
	struct store_txn *txn;

	small_volume_attach(&small, 1, 100);
	txn = begin();
	ck_assert_uint_eq(taken(1, 10, 10).page, 10);
	ck_assert_int_eq(commit(txn), 0);
	txn = begin();
	ck_assert_int_eq(give(1, 9, 2), -EIO);
	ck_assert_int_eq(give(1, 19, 2), -EIO);
	ck_assert_int_eq(give(1, 99, 2), -EIO);
	ck_assert_int_eq(give(1, UINT64_MAX, 2), -EIO);
	ck_assert_int_eq(give(7, 1, 2), 0); /* a region that no one knows is lost */
	store_abort(txn);
	ck_assert_uint_eq(free_pages(), 90);
}
END_TEST

START_TEST(pages_of_a_server_that_is_not_there_yet_are_given_back)
{
	struct store_txn *txn;

	small_volume_attach(&small, 1, 2 * GROUP);
	txn = begin();
	ck_assert_uint_eq(taken(1, GROUP, 100).pages, 100);
	ck_assert_int_eq(commit(txn), 0);
	small_volume_reopen(&small);
	txn = begin();
	ck_assert_int_eq(give(1, GROUP + 10, 90), 0);
	ck_assert_int_eq(commit(txn), 0);
	ck_assert_uint_eq(stored_pages(1), 10);
	ck_assert_uint_eq(free_pages(), 0);
	small_volume_attach(&small, 1, 2 * GROUP);
	ck_assert_uint_eq(free_pages(), 2 * GROUP - 10);
}
END_TEST

START_TEST(giving_pages_of_lost_memory_changes_nothing)
{
	struct store_txn *txn;

	small_volume_attach(&small, 1, 100);
	small_volume_attach(&small, 2, 100);
	txn = begin();
	(void)taken(1, 0, 50);
	ck_assert_int_eq(commit(txn), 0);
	small_volume_lose(&small, 1);
	ck_assert_uint_eq(free_pages(), 100);
	txn = begin();
	ck_assert_int_eq(give(1, 0, 50), 0);
	ck_assert_uint_eq(taken(1, 0, 50).region, 2);
	ck_assert_int_eq(commit(txn), 0);
	ck_assert_uint_eq(free_pages(), 50);
}
END_TEST

START_TEST(region_of_another_size_is_refused)
{
	small_volume_attach(&small, 1, 100);
	small_volume_attach(&small, 1, 100);
	ck_assert_int_eq(alloc_add_region(small.volume.allocator, 1, 101), -EIO);
	ck_assert_int_eq(alloc_add_region(small.volume.allocator, 2, 0), -EIO);
	ck_assert_uint_eq(free_pages(), 100);
}
END_TEST

static int put_bad_bitmap(struct store_txn *txn, void *user)
{
	struct record_key key;

	return store_put(txn, record_key_pair(&key, RECORD_BITMAP, 1, *(uint64_t *)user),
			 (struct store_slice){"rubbish", 7});
}

START_TEST(damaged_bitmap_costs_its_group_and_no_more)
{
	uint64_t group = 1;
	struct store_txn *txn;
	struct alloc_run run;
	uint64_t count = 0;

	ck_assert_int_eq(store_update(small.volume.store, put_bad_bitmap, &group), 0);
	rmem_log_set_level(RMEM_LOG_FS, RMEM_LOG_ERROR);
	small_volume_attach(&small, 1, 3 * GROUP);
	ck_assert_uint_eq(free_pages(), 2 * GROUP);
	txn = begin();
	ck_assert_uint_ne(taken(1, GROUP + 5, 10).page / GROUP, 1);
	while (take(1, ALLOC_ANYWHERE, GROUP, &run) == 0) {
		ck_assert_uint_ne(run.page / GROUP, 1);
		count += run.pages;
	}
	ck_assert_uint_eq(count, 2 * GROUP - 10);
	ck_assert_int_eq(give(1, GROUP + 5, 10), 0);
	ck_assert_int_eq(commit(txn), 0);
}
END_TEST

START_TEST(steps_of_one_transaction_add_up)
{
	struct store_txn *txn;

	small_volume_attach(&small, 1, 1000);
	txn = begin();
	(void)taken(1, 0, 100);
	ck_assert_int_eq(alloc_store(small.volume.allocator, txn), 0);
	alloc_begin(small.volume.allocator, txn);
	(void)taken(1, 200, 100);
	ck_assert_int_eq(give(1, 0, 50), 0);
	ck_assert_int_eq(commit(txn), 0);
	ck_assert_uint_eq(stored_pages(1), 150);
	ck_assert_uint_eq(free_pages(), 850);
}
END_TEST

START_TEST(scattered_free_pages_are_all_found)
{
	struct store_txn *txn;
	struct alloc_run run;
	uint32_t count = 0;

	small_volume_attach(&small, 1, GROUP + 100);
	txn = begin();
	while (take(1, ALLOC_ANYWHERE, GROUP, &run) == 0)
		continue;
	ck_assert_int_eq(commit(txn), 0);
	txn = begin();
	for (uint32_t page = 0; page < GROUP + 100; page += 7)
		ck_assert_int_eq(give(1, page, 1 + page % 2), 0);
	ck_assert_int_eq(commit(txn), 0);
	txn = begin();
	while (take(1, ALLOC_ANYWHERE, 1000, &run) == 0)
		count += run.pages;
	ck_assert_int_eq(commit(txn), 0);
	ck_assert_uint_eq(free_pages(), 0);
	ck_assert_uint_eq(count, (GROUP + 99) / 7 + 1 + (GROUP + 99 - 7) / 14 + 1);
}
END_TEST

/* --- Against a plain array of owners ------------------------------------------------------------
 */

#define MODEL_PAGES (GROUP + 5000u)
#define MODEL_RUNS  4000u

struct model {
	uint8_t taken[2][MODEL_PAGES];
	struct alloc_run runs[MODEL_RUNS];
	uint32_t run_count;
	unsigned seed;
};

static unsigned below(struct model *model, unsigned limit)
{
	return (unsigned)rand_r(&model->seed) % limit;
}

static void set_model(struct model *model, const struct alloc_run *run, uint8_t value)
{
	for (uint32_t i = 0; i < run->pages; i++) {
		uint8_t *page = &model->taken[run->region - 1][run->page + i];

		if (*page == value)
			ck_abort_msg("page %llu is %u already", (unsigned long long)run->page + i,
				     value);
		*page = value;
	}
}

static void model_take(struct model *model)
{
	uint64_t at = below(model, 3) ? ALLOC_ANYWHERE : below(model, MODEL_PAGES);
	struct alloc_run *run = &model->runs[model->run_count];
	uint32_t pages = 1 + below(model, below(model, 10) ? 40 : 3000);

	if (model->run_count == MODEL_RUNS)
		return;
	if (take(1 + below(model, 2), at, pages, run) == 0) {
		set_model(model, run, 1);
		model->run_count++;
	}
}

/* Gives a part of what this or an earlier transaction holds. */
static void model_give(struct model *model, struct alloc_run *given, uint32_t *given_count,
		       uint32_t before)
{
	struct alloc_run *run;
	uint32_t index;

	if (before == 0)
		return;
	index = below(model, before);
	run = &model->runs[index];
	if (run->pages == 0)
		return;
	ck_assert_int_eq(alloc_give(small.volume.allocator, run), 0);
	given[(*given_count)++] = *run;
	run->pages = 0;
}

static void compare(struct model *model)
{
	uint64_t used = 0;

	for (uint32_t region = 1; region <= 2; region++) {
		uint64_t *words = small_volume_bitmap(&small, region);

		for (uint32_t page = 0; page < MODEL_PAGES; page++) {
			bool is_taken = model->taken[region - 1][page] != 0;

			if (bitmap_test(words, page) != is_taken)
				ck_abort_msg("page %u of region %u: should be %d", page, region,
					     is_taken);
			used += is_taken;
		}
		free(words);
	}
	ck_assert_uint_eq(free_pages(), 2 * MODEL_PAGES - used);
}

/* One transaction of a few takes and gives, which may fail. */
static void model_step(struct model *model)
{
	struct alloc_run given[16];
	uint32_t given_count = 0, before = model->run_count, fate = below(model, 6);
	struct store_txn *txn = begin();

	for (unsigned i = 0; i < 16; i++) {
		if (below(model, 2))
			model_take(model);
		else
			model_give(model, given, &given_count, before);
	}
	if (fate == 0)
		faulty_store_fail_commits(small.volume.store, 1, -EIO);
	if (fate == 1) {
		store_abort(txn);
	} else if (commit(txn) == 0) {
		for (uint32_t i = 0; i < given_count; i++)
			set_model(model, &given[i], 0);
		return;
	}
	/* Undone: what was taken is not, and what was given goes back to the list. */
	for (uint32_t i = before; i < model->run_count; i++)
		set_model(model, &model->runs[i], 0);
	model->run_count = before;
	for (uint32_t i = 0, j = 0; j < given_count; i++) {
		if (model->runs[i].pages == 0 && model->run_count < MODEL_RUNS)
			model->runs[i] = given[j++];
	}
}

START_TEST(random_changes_agree_with_a_plain_array)
{
	struct model *model = calloc(1, sizeof(*model));

	model->seed = 1000 + (unsigned)_i;
	small_volume_attach(&small, 1, MODEL_PAGES);
	small_volume_attach(&small, 2, MODEL_PAGES);
	for (unsigned step = 0; step < 600; step++) {
		model_step(model);
		if (step % 50 == 49)
			compare(model);
		if (step % 200 == 199) {
			small_volume_reopen(&small);
			small_volume_attach(&small, 1, MODEL_PAGES);
			small_volume_attach(&small, 2, MODEL_PAGES);
			compare(model);
		}
		/* Forget the empty ones. */
		for (uint32_t i = 0; i < model->run_count;) {
			if (model->runs[i].pages == 0)
				model->runs[i] = model->runs[--model->run_count];
			else
				i++;
		}
	}
	free(model);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("alloc");
	TCase *tc = tcase_create("alloc");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, nothing_can_be_taken_without_a_region);
	tcase_add_test(tc, commit_stores_what_was_taken);
	tcase_add_test(tc, abort_undoes_takes_and_gives);
	tcase_add_test(tc, failing_store_undoes_takes_and_gives);
	tcase_add_test(tc, given_pages_can_not_be_taken_before_the_commit);
	tcase_add_test(tc, run_goes_on_where_it_is_wished);
	tcase_add_test(tc, full_region_falls_back_to_another);
	tcase_add_test(tc, nothing_is_taken_from_servers_that_are_away);
	tcase_add_test(tc, what_was_not_taken_can_not_be_given);
	tcase_add_test(tc, pages_of_a_server_that_is_not_there_yet_are_given_back);
	tcase_add_test(tc, giving_pages_of_lost_memory_changes_nothing);
	tcase_add_test(tc, region_of_another_size_is_refused);
	tcase_add_test(tc, damaged_bitmap_costs_its_group_and_no_more);
	tcase_add_test(tc, steps_of_one_transaction_add_up);
	tcase_add_test(tc, scattered_free_pages_are_all_found);
	tcase_add_loop_test(tc, random_changes_agree_with_a_plain_array, 0, 4);
	suite_add_tcase(suite, tc);
	return run_suite(suite);
}
