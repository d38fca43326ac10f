/* SPDX-License-Identifier: Apache-2.0 */
/* The planner on random batches, against a slow reference that follows the rules one segment at a
 * time. */
#include <stdlib.h>
#include <string.h>

#include "engine/batch.h"
#include "tests/support/runner.h"

#define LOCAL	      ((char *)0x10000000)
#define LOCAL_BYTES   ((uint64_t)64 << 20)
#define SEGMENTS_MAX  200
#define REQUESTS_MAX  40000
#define REGION_BYTES  ((uint64_t)8 << 20)
#define REGION_KEY(n) (100 + (n))

static const struct rmem_remote regions[] = {
	{.address = (uint64_t)1 << 40, .length = REGION_BYTES, .key = REGION_KEY(0)},
	{.address = 4096, .length = REGION_BYTES, .key = REGION_KEY(1)},
};

/* Two pieces of memory that touch: contiguous, but with keys of their own. */
static struct rmem_memory_map *memory;

static struct rmem_plan_target target;
static struct rmem_batch batch;
static struct rmem_segment segments[SEGMENTS_MAX];
static struct rmem_wr wrs[REQUESTS_MAX];

static void make_memory(void)
{
	memory = calloc(1, sizeof(*memory) + 2 * sizeof(memory->ranges[0]));
	ck_assert_ptr_nonnull(memory);
	memory->count = 2;
	for (uint32_t i = 0; i < 2; i++)
		memory->ranges[i] = (struct rmem_memory_range){
			.start = (uintptr_t)LOCAL + i * LOCAL_BYTES / 2,
			.length = LOCAL_BYTES / 2,
			.keys = {1 + i, 11 + i},
		};
}

static void free_memory(void)
{
	free(memory);
}

static void setup(void)
{
	memset(&target, 0, sizeof(target));
	target.regions = regions;
	target.region_count = RMEM_COUNT_OF(regions);
	target.server = 3;
	target.limits = (struct rmem_plan_limits){
		.chunk_bytes = 64 << 10,
		.chunks_max = 64,
		.piece_max_bytes = 1 << 30,
		.sge_max = RMEM_SGE_MAX,
	};
	rmem_memory_view_set(&target.memory, memory);
	memset(&batch, 0, sizeof(batch));
	batch.op = RMEM_WRITE;
	batch.segments = segments;
	memset(segments, 0, sizeof(segments));
}

static void add(uint64_t local, uint64_t remote, uint64_t length)
{
	segments[batch.segment_count++] = (struct rmem_segment){
		.local = LOCAL + local, .remote = remote, .length = length, .server = 3};
}

struct expected {
	uint64_t remote_address;
	uint32_t remote_key;
	unsigned sge_count;
	struct rmem_sge sge[RMEM_SGE_MAX];
};

static struct expected expected[REQUESTS_MAX];

static uint32_t key_of(const char *local)
{
	return local < LOCAL + LOCAL_BYTES / 2 ? 1 : 2;
}

static uint64_t expected_bytes(const struct expected *at)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < at->sge_count; i++)
		bytes += at->sge[i].length;
	return bytes;
}

/* Whether the segment may join the request, which then has it. */
static bool join(struct expected *at, const struct rmem_segment *last,
		 const struct rmem_segment *segment)
{
	struct rmem_sge *sge = &at->sge[at->sge_count - 1];

	if (segment->region != last->region || segment->remote != last->remote + last->length ||
	    expected_bytes(at) + segment->length > target.limits.chunk_bytes)
		return false;
	if ((char *)sge->address + sge->length == segment->local &&
	    sge->key == key_of(segment->local)) {
		sge->length += (uint32_t)segment->length;
		return true;
	}
	if (at->sge_count == target.limits.sge_max)
		return false;
	at->sge[at->sge_count++] = (struct rmem_sge){segment->local, (uint32_t)segment->length,
						     key_of(segment->local)};
	return true;
}

static uint64_t expected_piece(uint64_t length)
{
	const struct rmem_plan_limits *limits = &target.limits;
	uint64_t piece = limits->chunk_bytes;

	while ((length + piece - 1) / piece > limits->chunks_max)
		piece += RMEM_PAGE_BYTES;
	return length <= limits->chunk_bytes	 ? length
	       : piece > limits->piece_max_bytes ? limits->piece_max_bytes
						 : piece;
}

static unsigned expect(void)
{
	const struct rmem_segment *last = NULL;
	unsigned count = 0;

	for (unsigned i = 0; i < batch.segment_count; i++) {
		const struct rmem_segment *segment = &segments[i];
		uint64_t piece = expected_piece(segment->length);

		if (segment->length == 0) {
			last = NULL;
			continue;
		}
		if (last && join(&expected[count - 1], last, segment)) {
			last = segment;
			continue;
		}
		for (uint64_t at = 0; at < segment->length; at += piece) {
			uint64_t left = segment->length - at;
			uint64_t length = left < piece ? left : piece;

			expected[count++] = (struct expected){
				.remote_address =
					regions[segment->region].address + segment->remote + at,
				.remote_key = REGION_KEY(segment->region),
				.sge_count = 1,
				.sge = {{(char *)segment->local + at, (uint32_t)length,
					 key_of(segment->local)}},
			};
		}
		last = segment;
	}
	return count;
}

static uint64_t below(unsigned *seed, uint64_t limit)
{
	uint64_t wide = (uint64_t)rand_r(seed) << 31 | (uint64_t)rand_r(seed);

	return wide % limit;
}

/* In every other batch, stretches of segments that differ in their places only. */
static void make_random(unsigned *seed)
{
	unsigned count = (unsigned)below(seed, SEGMENTS_MAX);
	bool alike = below(seed, 2) != 0;
	uint64_t length = 0;
	uint64_t local = 0;
	uint64_t remote = 0;
	uint64_t half = 0;
	uint32_t region = 0;

	setup();
	target.limits.chunk_bytes = (uint32_t)(4096 << below(seed, 14));
	target.limits.chunks_max = 1 + (uint32_t)below(seed, 20);
	target.limits.sge_max = 1 + (uint32_t)below(seed, RMEM_SGE_MAX);
	target.limits.piece_max_bytes = target.limits.chunk_bytes << below(seed, 6);
	target.limits.inline_bytes = below(seed, 2) ? (uint32_t)below(seed, 4096) : 0;
	batch.op = below(seed, 2) ? RMEM_READ : RMEM_WRITE;
	for (unsigned i = 0; i < count; i++) {
		if (!alike || i == 0 || below(seed, 10) == 0)
			length = below(seed, 8) ? below(seed, 6000) : below(seed, 600000);
		if (below(seed, alike ? 20 : 3) == 0)
			region = (uint32_t)below(seed, 2);
		if (below(seed, 3) == 0 || remote > REGION_BYTES - length)
			remote = below(seed, REGION_BYTES - length);
		if (below(seed, 3) == 0 || local > LOCAL_BYTES / 2 - length)
			local = below(seed, LOCAL_BYTES / 2 - length);
		if (!alike || below(seed, 10) == 0)
			half = below(seed, 2);
		add(local + half * LOCAL_BYTES / 2, remote, length);
		segments[i].region = region;
		local += length;
		remote += length;
	}
}

static uint64_t wr_bytes(const struct rmem_wr *wr)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < wr->sge_count; i++)
		bytes += wr->sge[i].length;
	return bytes;
}

/* Requests are added while both of the budget's limits are ahead, and not beyond. */
static void check_budget(const struct rmem_wr *first, const struct rmem_plan_budget *budget, int rc)
{
	uint64_t bytes = 0;

	ck_assert_uint_le(budget->wr_count, budget->wr_max);
	for (uint32_t i = 0; i < budget->wr_count; i++) {
		ck_assert_uint_lt(bytes, budget->bytes_max);
		ck_assert_uint_eq(first[i].id, budget->id);
		bytes += wr_bytes(&first[i]);
	}
	ck_assert_uint_eq(bytes, budget->bytes);
	if (rc == RMEM_PLAN_BUDGET)
		ck_assert(budget->wr_count == budget->wr_max || bytes >= budget->bytes_max);
}

/* Plans all of it in portions of random size. */
static unsigned plan_in_portions(unsigned *seed)
{
	struct rmem_plan_budget budget;
	unsigned count = 0;
	int rc;

	do {
		budget.wr_max = 1 + (uint32_t)below(seed, 20);
		budget.bytes_max = below(seed, 4) ? UINT64_MAX : 1 + below(seed, 100000);
		budget.id = count;
		ck_assert_uint_le(count + budget.wr_max, REQUESTS_MAX);
		rc = rmem_plan_fill(&target, &batch, &wrs[count], &budget);
		ck_assert_int_ge(rc, 0);
		ck_assert_int_ne(rc, RMEM_PLAN_SERVER);
		check_budget(&wrs[count], &budget, rc);
		count += budget.wr_count;
	} while (rc != RMEM_PLAN_END);
	return count;
}

static void compare(const struct rmem_wr *wr, const struct expected *with)
{
	ck_assert_uint_eq(wr->remote_address, with->remote_address);
	ck_assert_uint_eq(wr->remote_key, with->remote_key);
	ck_assert_uint_eq(wr->sge_count, with->sge_count);
	ck_assert_uint_eq(wr->op, batch.op == RMEM_READ ? RMEM_WR_READ : RMEM_WR_WRITE);
	ck_assert_uint_eq(wr->flags, batch.op == RMEM_WRITE && expected_bytes(with) <=
								       target.limits.inline_bytes
					     ? RMEM_WR_INLINE
					     : 0);
	for (unsigned n = 0; n < with->sge_count; n++) {
		ck_assert_ptr_eq(wr->sge[n].address, with->sge[n].address);
		ck_assert_uint_eq(wr->sge[n].length, with->sge[n].length);
		ck_assert_uint_eq(wr->sge[n].key, with->sge[n].key);
	}
}

START_TEST(random_batches_are_planned_as_the_reference_does_wherever_they_are_interrupted)
{
	unsigned seed = 1000 + (unsigned)_i;

	for (int round = 0; round < 300; round++) {
		make_random(&seed);
		unsigned count = expect();

		ck_assert_uint_eq(plan_in_portions(&seed), count);
		for (unsigned i = 0; i < count; i++)
			compare(&wrs[i], &expected[i]);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("batch_random");
	TCase *tcase = tcase_create("planner");

	tcase_set_timeout(tcase, 60);
	tcase_add_unchecked_fixture(tcase, make_memory, free_memory);
	tcase_add_loop_test(
		tcase,
		random_batches_are_planned_as_the_reference_does_wherever_they_are_interrupted, 0,
		4);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
