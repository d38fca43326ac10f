/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger against a model that is a plain list of work requests, by random walks and, for small
 * capacities, by every sequence of operations up to a length. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/ledger.h"
#include "tests/support/runner.h"

#define CAPACITY_MAX 64

/* Check's own assertions tell the parent process each time: too slow for millions. */
#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			ck_abort_msg("%s", #condition);                                            \
	} while (0)

/* Each live work request, oldest first. */
struct model {
	uintptr_t owners[CAPACITY_MAX];
	unsigned count;
	unsigned posted; /* the first so many */
	unsigned capacity;
	uintptr_t next_owner;
};

struct rig {
	struct rmem_ledger ledger;
	struct rmem_ledger_record records[CAPACITY_MAX];
	struct model model;
};

static void rig_start(struct rig *rig, unsigned capacity, uint32_t sequence)
{
	memset(rig, 0, sizeof(*rig));
	rig->ledger.records = rig->records;
	rig->ledger.mask = capacity - 1;
	rig->ledger.credits = capacity;
	rig->ledger.head = sequence;
	rig->ledger.posted = sequence;
	rig->ledger.tail = sequence;
	rig->model.capacity = capacity;
	rig->model.next_owner = 1;
}

static void rig_copy(struct rig *to, const struct rig *from)
{
	*to = *from;
	to->ledger.records = to->records;
}

/* The records, written out request by request, are the model's list. */
static void check(const struct rig *rig)
{
	const struct rmem_ledger *ledger = &rig->ledger;
	const struct model *model = &rig->model;
	unsigned at = 0;

	REQUIRE(ledger->tail - ledger->head <= model->capacity);
	for (uint32_t sequence = ledger->head; sequence != ledger->tail; sequence++) {
		const struct rmem_ledger_record *record = rmem_ledger_at(ledger, sequence);

		if (sequence == ledger->posted)
			REQUIRE(at == model->posted);
		REQUIRE(record->count >= 1);
		for (uint32_t i = 0; i < record->count; i++) {
			REQUIRE(at < model->count);
			REQUIRE((uintptr_t)record->owner == model->owners[at]);
			at++;
		}
	}
	if (ledger->posted == ledger->tail)
		REQUIRE(at == model->posted);
	REQUIRE(at == model->count);
	REQUIRE(ledger->credits == model->capacity - model->count);
	REQUIRE(rmem_ledger_room(ledger) == model->capacity - model->count);
}

static void do_add(struct rig *rig, uint32_t count)
{
	struct model *model = &rig->model;

	for (uint32_t i = 0; i < count; i++)
		model->owners[model->count++] = model->next_owner;
	rmem_ledger_add(&rig->ledger, (void *)model->next_owner, count);
	model->next_owner++;
}

static void do_post(struct rig *rig, uint32_t accepted)
{
	rig->model.posted += accepted;
	rmem_ledger_post(&rig->ledger, accepted);
}

/* Retires up to the posted record that is `nth` from the head. */
static void do_retire(struct rig *rig, uint32_t nth)
{
	struct rmem_ledger *ledger = &rig->ledger;
	struct model *model = &rig->model;
	struct rmem_ledger_record record;
	uint32_t sequence = ledger->head + nth;
	uint32_t retired = 0;

	while (rmem_ledger_retire(ledger, sequence, &record)) {
		REQUIRE(record.count <= model->posted);
		for (uint32_t i = 0; i < record.count; i++)
			REQUIRE((uintptr_t)record.owner == model->owners[i]);
		model->count -= record.count;
		model->posted -= record.count;
		memmove(model->owners, &model->owners[record.count],
			model->count * sizeof(model->owners[0]));
		retired++;
	}
	REQUIRE(retired == nth + 1);
	REQUIRE(!rmem_ledger_is_posted(ledger, sequence));
}

static void do_cancel(struct rig *rig)
{
	struct rmem_ledger_record record;
	struct model *model = &rig->model;

	REQUIRE(rmem_ledger_cancel(&rig->ledger, &record));
	for (uint32_t i = 0; i < record.count; i++)
		REQUIRE((uintptr_t)record.owner == model->owners[--model->count]);
	REQUIRE(model->count >= model->posted);
}

static uint32_t posted_records(const struct rig *rig)
{
	return rig->ledger.posted - rig->ledger.head;
}

/* --- Every sequence of operations ------------------------------------------------------------- */

static unsigned long states;

static void explore(const struct rig *rig, unsigned steps)
{
	const struct model *model = &rig->model;
	struct rig next;

	check(rig);
	states++;
	if (steps == 0)
		return;
	for (uint32_t n = 1; n <= model->capacity - model->count; n++) {
		rig_copy(&next, rig);
		do_add(&next, n);
		explore(&next, steps - 1);
	}
	for (uint32_t n = 1; n <= model->count - model->posted; n++) {
		rig_copy(&next, rig);
		do_post(&next, n);
		explore(&next, steps - 1);
	}
	for (uint32_t n = 0; n < posted_records(rig); n++) {
		rig_copy(&next, rig);
		do_retire(&next, n);
		explore(&next, steps - 1);
	}
	if (model->count > model->posted) {
		rig_copy(&next, rig);
		do_cancel(&next);
		explore(&next, steps - 1);
	}
}

START_TEST(every_short_sequence_of_operations_matches_the_model)
{
	static const unsigned steps[] = {14, 12, 9};
	struct rig rig;

	states = 0;
	rig_start(&rig, 1u << _i, UINT32_MAX - 1); /* wraps on the way */
	explore(&rig, steps[_i]);
	ck_assert_uint_gt(states, _i == 0 ? 100 : 10000);
}
END_TEST

/* --- Random walks ----------------------------------------------------------------------------- */

static void step(struct rig *rig, unsigned *seed)
{
	const struct model *model = &rig->model;
	uint32_t room = model->capacity - model->count;
	uint32_t open = model->count - model->posted;
	uint32_t records = posted_records(rig);
	unsigned dice = (unsigned)rand_r(seed);

	switch (dice % 8) {
	case 0:
	case 1:
	case 2:
		if (room)
			do_add(rig, 1 + (dice >> 8) % room);
		break;
	case 3:
	case 4:
		if (open)
			do_post(rig, open);
		break;
	case 5:
		if (open)
			do_post(rig, 1 + (dice >> 8) % open);
		break;
	case 6:
		if (records)
			do_retire(rig, (dice >> 8) % records);
		break;
	default:
		if (open && dice & 256)
			do_cancel(rig);
		break;
	}
}

START_TEST(long_random_walks_match_the_model)
{
	unsigned seed = 20 + (unsigned)_i;
	struct rig rig;

	rig_start(&rig, 1u << _i, UINT32_MAX - 5000);
	for (int i = 0; i < 200000; i++) {
		step(&rig, &seed);
		check(&rig);
	}
}
END_TEST

/* --- Single properties ------------------------------------------------------------------------ */

START_TEST(capacity_is_reached_exactly)
{
	struct rmem_ledger ledger;

	ck_assert_int_eq(rmem_ledger_init(&ledger, 8), 0);
	for (uint32_t i = 0; i < 8; i++) {
		ck_assert_uint_eq(rmem_ledger_room(&ledger), 8 - i);
		rmem_ledger_add(&ledger, &ledger, 1);
	}
	ck_assert_uint_eq(rmem_ledger_room(&ledger), 0);
	rmem_ledger_finish(&ledger);
}
END_TEST

START_TEST(sequences_that_are_not_posted_retire_nothing)
{
	struct rmem_ledger_record record;
	struct rmem_ledger ledger;

	ck_assert_int_eq(rmem_ledger_init(&ledger, 4), 0);
	rmem_ledger_add(&ledger, &ledger, 2);
	ck_assert(!rmem_ledger_retire(&ledger, 0, &record)); /* still open */
	rmem_ledger_post(&ledger, 2);
	ck_assert(!rmem_ledger_retire(&ledger, 1, &record));
	ck_assert(!rmem_ledger_retire(&ledger, UINT32_MAX, &record));
	ck_assert(rmem_ledger_retire(&ledger, 0, &record));
	ck_assert(!rmem_ledger_retire(&ledger, 0, &record)); /* a second time */
	ck_assert(!rmem_ledger_cancel(&ledger, &record));
	rmem_ledger_finish(&ledger);
}
END_TEST

START_TEST(an_orphan_retires_with_the_next_completion)
{
	struct rmem_ledger_record record;
	struct rmem_ledger ledger;
	int a, b;

	ck_assert_int_eq(rmem_ledger_init(&ledger, 8), 0);
	rmem_ledger_add(&ledger, &a, 3);
	rmem_ledger_add(&ledger, &b, 2);
	rmem_ledger_post(&ledger, 2); /* two of a's; the tail with the signal stayed behind */
	ck_assert_uint_eq(rmem_ledger_at(&ledger, 0)->count, 2);
	ck_assert_uint_eq(rmem_ledger_at(&ledger, 1)->count, 1);
	ck_assert_ptr_eq(rmem_ledger_at(&ledger, 1)->owner, &a);
	rmem_ledger_post(&ledger, 3);
	ck_assert(rmem_ledger_retire(&ledger, 2, &record));
	ck_assert_ptr_eq(record.owner, &a);
	ck_assert_uint_eq(record.count, 2);
	ck_assert(rmem_ledger_retire(&ledger, 2, &record));
	ck_assert_ptr_eq(record.owner, &a);
	ck_assert_uint_eq(record.count, 1);
	ck_assert(rmem_ledger_retire(&ledger, 2, &record));
	ck_assert_ptr_eq(record.owner, &b);
	ck_assert(!rmem_ledger_retire(&ledger, 2, &record));
	rmem_ledger_finish(&ledger);
}
END_TEST

START_TEST(capacities_that_are_no_power_of_two_are_refused)
{
	struct rmem_ledger ledger;

	ck_assert_int_eq(rmem_ledger_init(&ledger, 0), -EINVAL);
	ck_assert_int_eq(rmem_ledger_init(&ledger, 3), -EINVAL);
	ck_assert_int_eq(rmem_ledger_init(&ledger, RMEM_LEDGER_CAPACITY_MAX * 2), -EINVAL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ledger");
	TCase *tcase = tcase_create("ledger");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, every_short_sequence_of_operations_matches_the_model, 0, 3);
	tcase_add_loop_test(tcase, long_random_walks_match_the_model, 0, 7);
	tcase_add_test(tcase, capacity_is_reached_exactly);
	tcase_add_test(tcase, sequences_that_are_not_posted_retire_nothing);
	tcase_add_test(tcase, an_orphan_retires_with_the_next_completion);
	tcase_add_test(tcase, capacities_that_are_no_power_of_two_are_refused);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
