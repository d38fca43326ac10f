/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_stream_work.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/timer.h"
#include "tools/bench_numbers.h"

#define MIB	       ((size_t)1 << 20)
#define AREA_MIN_BYTES (256 * MIB)
#define AREA_MAX_BYTES (512 * MIB)
#define CACHES	       4 /* the area is so many times the last cache */
#define SAMPLES_MAX    4096
#define SAMPLES_MIN    3
#define SIZES	       4 /* and has room for so many of the largest piece */

static size_t power_of_two(size_t least)
{
	size_t found = 64;

	while (found < least)
		found *= 2;
	return found;
}

static size_t last_cache_bytes(void)
{
	long bytes = -1;

#ifdef _SC_LEVEL3_CACHE_SIZE
	bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
	return bytes > 0 ? (size_t)bytes : 32 * MIB;
}

static unsigned char *map(size_t bytes)
{
	unsigned char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, bytes, MADV_HUGEPAGE);
	memset(memory, 1, bytes);
	return memory;
}

int bench_stream_area_init(struct bench_stream_area *area, size_t size_max, size_t threshold_bytes,
			   struct rmem_error *error)
{
	const struct rmem_arena_options options = {
		.slot_bytes = RMEM_PAGE_BYTES,
		.slot_count = 1,
		.huge_pages = RMEM_HUGE_OFF,
		.stream_threshold_bytes = threshold_bytes,
	};
	size_t bytes = power_of_two(CACHES * last_cache_bytes());

	if (bytes < AREA_MIN_BYTES)
		bytes = AREA_MIN_BYTES;
	if (bytes > AREA_MAX_BYTES)
		bytes = AREA_MAX_BYTES;
	if (bytes < SIZES * power_of_two(size_max))
		bytes = SIZES * power_of_two(size_max);
	*area = (struct bench_stream_area){.bytes = bytes, .size_max = size_max};
	area->memory = map(bytes);
	area->source = map(2 * size_max);
	if (area->memory == NULL || area->source == NULL) {
		bench_stream_area_finish(area);
		return rmem_fail(error, ENOMEM, "no %zu MiB of memory to write to: lower --size",
				 (bytes + 2 * size_max) / MIB);
	}
	return rmem_arena_init(&area->arena, &options, error);
}

void bench_stream_area_finish(struct bench_stream_area *area)
{
	if (area->memory != NULL)
		munmap(area->memory, area->bytes);
	if (area->source != NULL)
		munmap(area->source, 2 * area->size_max);
	rmem_arena_finish(&area->arena);
	area->memory = area->source = NULL;
}

/* Where pieces go: one place when warm (a batch of them), else all places of the area in an order
 * in which no two that follow each other are neighbours. */
struct places {
	unsigned char *memory;
	size_t stride, count, step, next;
};

static struct places places_of(const struct bench_stream_area *area, size_t size, bool is_cold)
{
	struct places places = {.memory = area->memory, .stride = power_of_two(size), .step = 1};

	places.count = area->bytes / places.stride;
	if (is_cold) {
		/* Odd, so it meets all of a power of two; by the golden section. */
		places.step = (places.count / 8 * 5) | 1;
		return places;
	}
	places.count = BENCH_STREAM_BATCH_BYTES / places.stride;
	if (places.count == 0)
		places.count = 1;
	return places;
}

static inline unsigned char *next_place(struct places *places)
{
	unsigned char *at = places->memory + places->next * places->stride;

	places->next = (places->next + places->step) & (places->count - 1);
	return at;
}

static unsigned batch_of(const struct places *places)
{
	size_t pieces = BENCH_STREAM_BATCH_BYTES / places->stride;

	return pieces > 0 ? (unsigned)pieces : 1;
}

/* --- Writing, and reading back ---------------------------------------------------------------- */

/* Four sums, so that the loads don't wait for each other. */
static uint64_t read_piece(const unsigned char *at, size_t size)
{
	uint64_t sums[4] = {0}, words[4];

	for (; size >= sizeof(words); size -= sizeof(words), at += sizeof(words)) {
		memcpy(words, at, sizeof(words));
		for (unsigned i = 0; i < 4; i++)
			sums[i] ^= words[i];
	}
	for (; size > 0; size--)
		sums[0] ^= *at++;
	return sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
}

static void write_batch(const struct bench_stream_area *area, const struct bench_stream_load *load,
			struct places *places, unsigned pieces)
{
	for (unsigned i = 0; i < pieces; i++) {
		unsigned char *to = next_place(places);

		if (load->op == BENCH_STREAM_FILL)
			rmem_stream_fill(to, (unsigned char)i, load->size);
		else
			rmem_stream_copy(to, area->source, load->size);
	}
}

/* The median of the batches: one during which the thread lost the processor says nothing. */
struct samples {
	unsigned count;
	uint64_t ns[SAMPLES_MAX];
};

static double rate_of(struct samples *samples, double bytes)
{
	bench_sort(samples->ns, samples->count);
	return bytes / (double)(bench_percentile(samples->ns, samples->count, 0.5) + 1);
}

static bool is_done(const struct samples *samples, uint64_t start_ns, uint64_t limit_ns)
{
	return samples->count == SAMPLES_MAX ||
	       (samples->count >= SAMPLES_MIN && rmem_now_ns() - start_ns > limit_ns);
}

/* Batches until the time is up, read back unless `read` is NULL. */
static void run_batches(const struct bench_stream_area *area, const struct bench_stream_load *load,
			struct samples *wrote, struct samples *read)
{
	struct places places = places_of(area, load->size, load->is_cold);
	unsigned pieces = batch_of(&places);
	uint64_t start = rmem_now_ns();
	volatile uint64_t sink;

	places.next = (start / 64) & (places.count - 1); /* not where it began before */
	sink = read_piece(area->source, load->size);
	while (!is_done(wrote, start, load->limit_ns)) {
		struct places again = places;
		uint64_t before = rmem_now_ns(), between, sum = 0;

		write_batch(area, load, &places, pieces);
		between = rmem_now_ns();
		wrote->ns[wrote->count++] = between - before;
		if (read == NULL)
			continue;
		for (unsigned i = 0; i < pieces; i++)
			sum ^= read_piece(next_place(&again), load->size);
		sink = sum;
		read->ns[read->count++] = rmem_now_ns() - between;
	}
	(void)sink;
}

/* What is warm was just read: so each batch is written and read. What is cold is written for itself
 * first: while something else is read, the caches write back what ordinary stores left in them, and
 * nobody would count that. Measured, pages: memcpy() 9.2 GB/s with reads in between, 8.1 without.
 */
void bench_stream_measure(const struct bench_stream_area *area,
			  const struct bench_stream_load *load, struct bench_stream_result *result)
{
	const struct places places = places_of(area, load->size, load->is_cold);
	double bytes = (double)batch_of(&places) * (double)load->size;
	struct samples wrote = {0}, again = {0}, read = {0};
	int rc = rmem_stream_select(load->isa, NULL);

	assert(rc == 0);
	(void)rc;
	if (load->is_cold)
		run_batches(area, load, &wrote, NULL);
	run_batches(area, load, load->is_cold ? &again : &wrote, &read);
	result->write_gb_per_s = rate_of(&wrote, bytes);
	result->read_gb_per_s = rate_of(&read, bytes);
}

/* --- Mixed ------------------------------------------------------------------------------------ */

static void write_and_read(const struct bench_stream_area *area, enum bench_stream_mix mix,
			   unsigned char *to, const unsigned char *from, size_t size)
{
	unsigned char *back = area->source + area->size_max;

	switch (mix) {
	case BENCH_MIX_PLAIN:
		memcpy(to, area->source, size);
		memcpy(back, from, size);
		break;
	case BENCH_MIX_STREAMED:
		rmem_stream_copy(to, area->source, size);
		memcpy(back, from, size);
		break;
	default:
		rmem_staging_copy_out(&area->arena, to, area->source, size);
		rmem_staging_copy_in(back, from, size);
		break;
	}
}

double bench_stream_mixed(const struct bench_stream_area *area, enum bench_stream_mix mix,
			  size_t size, size_t behind, uint64_t limit_ns)
{
	struct places places = places_of(area, size, true), reads;
	unsigned pieces = batch_of(&places);
	uint64_t start = rmem_now_ns();
	struct samples took = {0};

	/* Not where the last one began, or the third of them finds what the first two left behind.
	 */
	places.next = (start / 64) & (places.count - 1);
	reads = places;
	reads.next = (places.next - behind / size * places.step) & (places.count - 1);
	while (!is_done(&took, start, limit_ns)) {
		uint64_t before = rmem_now_ns();

		for (unsigned i = 0; i < pieces; i++)
			write_and_read(area, mix, next_place(&places), next_place(&reads), size);
		took.ns[took.count++] = rmem_now_ns() - before;
	}
	return rate_of(&took, (double)pieces * (double)size);
}
