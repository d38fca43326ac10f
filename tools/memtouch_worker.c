/* SPDX-License-Identifier: Apache-2.0 */
/* Pages are touched in runs: neighbours that are to be written (or read) are written in one call,
 * because a streaming store needs a fence at its end, and a fence a page costs about as much as the
 * page. Whether a touch reads or writes is drawn for each page; so with a ratio of 100 a run is a
 * batch, with 50 it is two pages in the mean, and with --random one. */
#include "tools/memtouch_worker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/checked.h"
#include "engine/stream.h"
#include "tools/memtouch_pattern.h"

#define FLUSH_PAGES_MAX 1024u
#define BATCH_BYTES	((size_t)TOUCH_BATCH_PAGES * RMEM_PAGE_BYTES)
#define PAGE_WORDS	(RMEM_PAGE_BYTES / sizeof(uint64_t))

/* The streaming stores' block is 256 bytes: a page has no tail. */
_Static_assert(RMEM_PAGE_BYTES % 256 == 0, "a page is whole blocks");
_Static_assert(TOUCH_MIB % BATCH_BYTES == 0, "a part is whole batches");

static unsigned char *page_at(const struct touch_worker *worker, uint64_t page)
{
	return worker->memory + page * RMEM_PAGE_BYTES;
}

/* xorshift64* (Vigna, An experimental exploration of Marsaglia's xorshift generators). The upper
 * half: the better one. */
static uint32_t draw(struct touch_worker *worker)
{
	uint64_t x = worker->random;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	worker->random = x;
	return (uint32_t)((x * UINT64_C(0x2545f4914f6cdd1d)) >> 32);
}

static bool draw_writes(struct touch_worker *worker)
{
	if (worker->options->ratio == 0 || worker->options->ratio == 100)
		return worker->options->ratio == 100;
	return ((uint64_t)draw(worker) * 100) >> 32 < worker->options->ratio;
}

int touch_worker_init(struct touch_worker *worker, const struct touch_options *options,
		      const struct touch_area *area, uint32_t index, struct rmem_error *error)
{
	uint64_t bytes = options->thread_mib * TOUCH_MIB;

	worker->options = options;
	worker->area = area;
	worker->index = index;
	worker->memory = area->memory + index * bytes;
	worker->pages = bytes / RMEM_PAGE_BYTES;
	worker->salt = touch_pattern_salt(options->seed);
	/* Never 0, where the generator would stay. */
	worker->random = touch_pattern_salt(options->seed ^ ((uint64_t)index << 32)) | 1;
	worker->next_writes = draw_writes(worker);
	worker->slice_pages = FLUSH_PAGES_MAX;
	while (worker->pages % worker->slice_pages != 0)
		worker->slice_pages /= 2;
	if (options->verify) {
		worker->passes = calloc(worker->pages, sizeof(*worker->passes));
		if (worker->passes == NULL)
			goto no_memory;
	}
	if (options->verify && options->nt_stores) {
		worker->scratch = aligned_alloc(RMEM_PAGE_BYTES, BATCH_BYTES);
		if (worker->scratch == NULL)
			goto no_memory;
	}
	return 0;

no_memory:
	touch_worker_finish(worker);
	return rmem_fail(error, ENOMEM, "no memory for what --verify has to remember");
}

void touch_worker_finish(struct touch_worker *worker)
{
	free(worker->passes);
	free(worker->scratch);
	worker->passes = NULL;
	worker->scratch = NULL;
}

static void write_patterns(struct touch_worker *worker, uint64_t first, uint32_t count)
{
	unsigned char *to = worker->scratch != NULL ? worker->scratch : page_at(worker, first);

	for (uint32_t i = 0; i < count; i++) {
		struct touch_mark mark = {.thread = worker->index, .page = (uint32_t)(first + i)};

		mark.pass = touch_pass_next(worker->passes[first + i]);
		worker->passes[first + i] = mark.pass;
		touch_pattern_fill(to + (size_t)i * RMEM_PAGE_BYTES, worker->salt, mark);
	}
	if (worker->scratch != NULL)
		rmem_stream_copy(page_at(worker, first), to, (size_t)count * RMEM_PAGE_BYTES);
}

/* At most TOUCH_BATCH_PAGES. */
static void write_run(struct touch_worker *worker, uint64_t first, uint32_t count)
{
	/* Never the byte that fresh pages have: they would stay what they are. */
	worker->fill = (unsigned char)(worker->fill + 1) | 0x80;
	if (worker->options->verify)
		write_patterns(worker, first, count);
	else if (worker->options->nt_stores)
		rmem_stream_fill(page_at(worker, first), worker->fill,
				 (size_t)count * RMEM_PAGE_BYTES);
	else
		memset(page_at(worker, first), worker->fill, (size_t)count * RMEM_PAGE_BYTES);
}

static int mismatch(struct touch_worker *worker, uint64_t page, struct touch_mark mark)
{
	const uint64_t *words = (const void *)page_at(worker, page);
	bool ends_in_zeros = words[PAGE_WORDS - 1] == 0;
	char what[256];

	touch_pattern_explain(words, worker->salt, mark, what, sizeof(what));
	if (ends_in_zeros && touch_area_explain_zeros(worker->area, words, &worker->error) != 0)
		return worker->error.code;
	if (worker->area->path == NULL)
		return rmem_fail(&worker->error, EILSEQ, "mismatch: %s", what);
	return rmem_fail(&worker->error, EILSEQ, "mismatch in %s at byte %" PRIu64 ": %s",
			 worker->area->path,
			 (uint64_t)(page_at(worker, page) - worker->area->memory), what);
}

static int check_run(struct touch_worker *worker, uint64_t first, uint32_t count)
{
	for (uint64_t page = first; page < first + count; page++) {
		struct touch_mark mark = {.thread = worker->index,
					  .page = (uint32_t)page,
					  .pass = worker->passes[page]};

		if (!touch_pattern_ok(page_at(worker, page), worker->salt, mark))
			return mismatch(worker, page, mark);
	}
	return 0;
}

/* A bound that is known lets the compiler use the vectors that every CPU has. */
static uint64_t sum_page(const void *page)
{
	const uint64_t *words = page;
	uint64_t sum = 0;

	for (size_t i = 0; i < PAGE_WORDS; i++)
		sum += words[i];
	return sum;
}

static int read_run(struct touch_worker *worker, uint64_t first, uint32_t count)
{
	if (worker->options->verify)
		return check_run(worker, first, count);
	for (uint32_t i = 0; i < count; i++)
		worker->sum += sum_page(page_at(worker, first + i));
	/* As if somebody looked at it. */
	__asm__ volatile("" : : "r"(&worker->sum) : "memory");
	return 0;
}

/* Of a mapped file. Behind the pages that were touched goes a flush, a slice at a time: sequential
 * passes so find nothing in memory, random ones little, what a signal leaves to be written is
 * bounded, and so is how long it goes unnoticed. */
static int flush_when_due(struct touch_worker *worker)
{
	uint64_t offset = (uint64_t)(page_at(worker, worker->next_flush) - worker->area->memory);

	if (worker->area->fd < 0 || worker->since_flush < worker->slice_pages)
		return 0;
	worker->since_flush -= worker->slice_pages;
	worker->next_flush += worker->slice_pages;
	if (worker->next_flush == worker->pages)
		worker->next_flush = 0;
	return touch_area_flush(worker->area, offset, worker->slice_pages * RMEM_PAGE_BYTES,
				&worker->error);
}

int touch_worker_warm(struct touch_worker *worker)
{
	uint64_t start = 0;
	int rc = 0;

	for (; start < worker->pages && rc == 0; start += TOUCH_BATCH_PAGES) {
		if (touch_worker_stopped(worker))
			return -ECANCELED;
		write_run(worker, start, TOUCH_BATCH_PAGES);
		atomic_store_explicit(&worker->warm_pages, start + TOUCH_BATCH_PAGES,
				      memory_order_relaxed);
		worker->since_flush += TOUCH_BATCH_PAGES;
		rc = flush_when_due(worker);
	}
	return rc;
}

/* Which pages come next, `left` at most, and what is done to them. */
static uint32_t plan_run(struct touch_worker *worker, uint64_t left, uint64_t *first, bool *writes)
{
	uint32_t count = 0;

	*writes = worker->next_writes;
	if (worker->options->random) {
		*first = ((uint64_t)draw(worker) * worker->pages) >> 32;
		worker->next_writes = draw_writes(worker);
		return 1;
	}
	*first = worker->next;
	left = rmem_min_u64(left, worker->pages - worker->next);
	left = rmem_min_u64(left, TOUCH_BATCH_PAGES);
	do {
		count++;
		worker->next_writes = draw_writes(worker);
	} while (count < left && worker->next_writes == *writes);
	worker->next += count;
	if (worker->next == worker->pages)
		worker->next = 0;
	return count;
}

static void add_relaxed(_Atomic(uint64_t) *counter, uint64_t number)
{
	/* One writer: no need for a locked addition. */
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + number,
			      memory_order_relaxed);
}

static void count_touches(struct touch_worker *worker)
{
	add_relaxed(&worker->read_pages, worker->reads);
	add_relaxed(&worker->write_pages, worker->writes);
	worker->reads = 0;
	worker->writes = 0;
}

int touch_worker_step(struct touch_worker *worker)
{
	uint64_t left = worker->options->page_log_ival;
	int rc = 0;

	while (left > 0 && rc == 0 && !touch_worker_stopped(worker)) {
		uint64_t first;
		bool writes;
		uint32_t count = plan_run(worker, left, &first, &writes);

		if (writes) {
			write_run(worker, first, count);
			worker->writes += count;
		} else {
			rc = read_run(worker, first, count);
			worker->reads += count;
		}
		left -= count;
		worker->since_flush += count;
		if (rc == 0)
			rc = flush_when_due(worker);
	}
	count_touches(worker);
	return rc;
}
