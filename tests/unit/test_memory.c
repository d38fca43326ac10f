/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "engine/memory.h"
#include "tests/support/runner.h"

START_TEST(memory_is_found_by_any_address_within)
{
	struct rmem_memory_map *map = calloc(1, sizeof(*map) + 50 * sizeof(map->ranges[0]));

	for (unsigned i = 0; i < 50; i++) /* backwards, with gaps */
		map->ranges[map->count++] = (struct rmem_memory_range){
			.start = 0x100000 - i * 0x2000, .length = 0x1000, .keys = {i}};
	ck_assert(rmem_memory_sort(map));
	for (unsigned i = 0; i < 50; i++) {
		uintptr_t start = 0x100000 - i * 0x2000;
		const struct rmem_memory_range *found = rmem_memory_find(map, start, 0x1000);

		ck_assert_ptr_nonnull(found);
		ck_assert_uint_eq(found->keys[0], i);
		ck_assert_ptr_eq(rmem_memory_find(map, start + 0xfff, 1), found);
		ck_assert_ptr_null(rmem_memory_find(map, start + 0xfff, 2));
		ck_assert_ptr_null(rmem_memory_find(map, start - 1, 1));
		ck_assert_ptr_null(rmem_memory_find(map, start - 1, UINT64_MAX));
	}
	map->ranges[10].length = 0x2001;
	ck_assert(!rmem_memory_sort(map));
	free(map);
}
END_TEST

START_TEST(a_view_answers_from_the_map_it_was_given_last)
{
	struct rmem_memory_map *maps[2];
	struct rmem_memory_view view = {.port = 2};

	for (uint32_t i = 0; i < 2; i++) {
		maps[i] = calloc(1, sizeof(*maps[i]) + sizeof(maps[i]->ranges[0]));
		maps[i]->count = 1;
		maps[i]->ranges[0] = (struct rmem_memory_range){
			.start = 0x10000, .length = 0x1000, .keys = {0, 0, 40 + i}};
		rmem_memory_view_set(&view, maps[i]);
		ck_assert(!rmem_memory_key(&view, (void *)0x20000, 1));
		ck_assert(rmem_memory_key(&view, (void *)0x10010, 0x10));
		ck_assert_uint_eq(view.key, 40 + i);
		ck_assert(!rmem_memory_key(&view, (void *)0x10010, 0x1000));
		ck_assert(rmem_memory_key(&view, (void *)0x10fff, 1));
	}
	free(maps[0]);
	free(maps[1]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("memory");
	TCase *tcase = tcase_create("lookup");

	tcase_add_test(tcase, memory_is_found_by_any_address_within);
	tcase_add_test(tcase, a_view_answers_from_the_map_it_was_given_last);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
