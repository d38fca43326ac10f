/* SPDX-License-Identifier: Apache-2.0 */
/* Random walks through everything that can happen to lanes at once: chains cut short, requests that
 * fail, refused posts, completions that come late and lane by lane, servers that die and return.
 * Whatever happens, each batch ends exactly once, with nothing of it outstanding; no byte is moved
 * twice; and a batch that ended well moved every byte once, to the right place.
 *
 * The world is cut into cells of 512 bytes: cell n is one place in local memory and one in the
 * regions of whichever server its segment names. A batch has its cells for itself. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/dispatch_rig.h"
#include "tests/support/runner.h"

#define CELL_BYTES   512
#define REGION_CELLS (DRIG_REGION_BYTES / CELL_BYTES)
#define CELLS	     (2 * REGION_CELLS)
#define LIVE_MAX     24
#define SEGMENTS_MAX 60

static struct drig rig;
static unsigned seed;
static unsigned moved[CELLS]; /* how often */
static bool is_taken[CELLS];
static uint32_t next_cell;
static bool is_up[DRIG_SERVERS_MAX];
static uint32_t lives[DRIG_SERVERS_MAX]; /* of the server; its content is lost with each */
static unsigned trouble;		 /* one request or post in so many fails; 0: none */

struct walker {
	struct drig_batch *batch;
	uint32_t lives[DRIG_SERVERS_MAX]; /* at submission */
};

static struct walker live[LIVE_MAX];

static unsigned below(unsigned limit)
{
	return (unsigned)rand_r(&seed) % limit;
}

/* --- Hooks ------------------------------------------------------------------------------------ */

static uint32_t accept(void *user, unsigned lane, uint32_t count, int *rc)
{
	(void)user;
	(void)lane;
	if (trouble == 0 || below(4) != 0)
		return count;
	if (below(trouble) == 0)
		*rc = -EINVAL;
	return below(count + 1);
}

static enum rmem_wc_status execute(void *user, unsigned lane, const struct rmem_wr *wr)
{
	uint64_t cell = (wr->remote_address >> 40) * REGION_CELLS +
			(wr->remote_address & 0xffffffffff) / CELL_BYTES;

	(void)user;
	(void)lane;
	if (trouble != 0 && below(trouble) == 0)
		return RMEM_WC_FLUSHED + below(RMEM_WC_OTHER);
	for (unsigned i = 0; i < wr->sge_count; i++) {
		for (uint32_t n = 0; n < wr->sge[i].length / CELL_BYTES; n++)
			moved[cell++]++;
	}
	return RMEM_WC_OK;
}

/* --- Batches ---------------------------------------------------------------------------------- */

static uint8_t *remote_at(unsigned server, uint32_t cell)
{
	return fake_server_bytes(rig.urls[server], (uint32_t)(cell / REGION_CELLS)) +
	       cell % REGION_CELLS * CELL_BYTES;
}

/* A stretch of cells that no live batch has; CELLS when there is none where we look. */
static uint32_t take_cells(uint32_t count)
{
	uint32_t first = next_cell;

	if (first % REGION_CELLS + count > REGION_CELLS) /* in one region */
		first = (uint32_t)((first / REGION_CELLS + 1) * REGION_CELLS % CELLS);
	next_cell = (first + count + (below(3) == 0)) % CELLS;
	if (memchr(&is_taken[first], true, count))
		return CELLS;
	memset(&is_taken[first], true, count);
	memset(&moved[first], 0, count * sizeof(moved[0]));
	return first;
}

static void paint(uint8_t *bytes, uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count * CELL_BYTES; i++)
		bytes[i] = (uint8_t)(first + i / CELL_BYTES * 31 + i * 7);
}

static void make_segment(struct rmem_segment *segment, enum rmem_op op)
{
	uint32_t count = below(8) ? 1 + below(4) : 1 + below(300);
	uint32_t first = take_cells(count);
	unsigned server = below(rig.servers);

	if (first == CELLS)
		return; /* stays empty */
	*segment = (struct rmem_segment){
		.local = rig.local + (size_t)first * CELL_BYTES,
		.server = (uint16_t)server,
		.region = (uint32_t)(first / REGION_CELLS),
		.remote = first % REGION_CELLS * CELL_BYTES,
		.length = (uint64_t)count * CELL_BYTES,
	};
	memset(segment->local, 0, segment->length);
	if (op == RMEM_WRITE)
		paint(segment->local, first, count);
	else if (is_up[server])
		paint(remote_at(server, first), first, count);
}

static void submit(struct walker *walker)
{
	enum rmem_op op = below(2) ? RMEM_WRITE : RMEM_READ;
	unsigned count = below(SEGMENTS_MAX);

	walker->batch = drig_batch(op, count);
	for (unsigned i = 0; i < count; i++)
		make_segment(&walker->batch->segments[i], op);
	memcpy(walker->lives, lives, sizeof(lives));
	drig_submit(&rig, walker->batch);
	ck_assert_uint_eq(walker->batch->ended, 0);
}

/* The bytes of a batch that ended well, as long as the server kept them. */
static bool is_right(const struct walker *walker, const struct rmem_segment *segment)
{
	uint32_t first = (uint32_t)(segment->remote / CELL_BYTES + segment->region * REGION_CELLS);
	static uint8_t expected[300 * CELL_BYTES];

	if (walker->lives[segment->server] != lives[segment->server])
		return true;
	paint(expected, first, (uint32_t)(segment->length / CELL_BYTES));
	return memcmp(expected, segment->local, segment->length) == 0 &&
	       memcmp(expected, remote_at(segment->server, first), segment->length) == 0;
}

static void check_end(struct walker *walker)
{
	struct drig_batch *batch = walker->batch;
	bool is_good = batch->ended == 1 && !batch->was_outstanding;

	for (uint32_t i = 0; i < batch->batch.segment_count && is_good; i++) {
		const struct rmem_segment *segment = &batch->segments[i];
		uint64_t first = segment->remote / CELL_BYTES + segment->region * REGION_CELLS;

		if (segment->length == 0)
			continue;
		memset(&is_taken[first], false, segment->length / CELL_BYTES);
		for (uint64_t n = 0; n < segment->length / CELL_BYTES; n++)
			is_good = is_good && moved[first + n] <= 1 &&
				  (batch->status != 0 || moved[first + n] == 1);
		is_good = is_good && (batch->status != 0 || is_right(walker, segment));
	}
	is_good = is_good &&
		  (batch->status == 0 || batch->status == -EIO || batch->status == -ENOTCONN);
	if (!is_good)
		ck_abort_msg("batch ended %u times with %d, %soutstanding, or bytes are wrong",
			     batch->ended, batch->status, batch->was_outstanding ? "" : "not ");
	free(batch);
	walker->batch = NULL;
}

static void collect_batches(void)
{
	for (unsigned i = 0; i < LIVE_MAX; i++) {
		if (live[i].batch && live[i].batch->ended)
			check_end(&live[i]);
	}
}

/* --- Servers ---------------------------------------------------------------------------------- */

static void kill_server(unsigned server)
{
	if (!is_up[server])
		return;
	fake_server_stop(rig.urls[server]);
	is_up[server] = false;
	lives[server]++;
}

/* What the control thread does, a step at a time. */
static void tend_server(unsigned server)
{
	struct rmem_endpoint *endpoint;

	if (!rig.connections[server]) {
		if (!is_up[server]) {
			fake_server_start(rig.urls[server], 2, DRIG_REGION_BYTES);
			lives[server]++;
			is_up[server] = true;
		}
		if (fake_lane_count() + 8 < FAKE_LANES_MAX)
			drig_connect(&rig, server);
		return;
	}
	endpoint = drig_endpoint(&rig, server);
	if (!is_up[server] || atomic_load(&endpoint->failure) != 0)
		rmem_dispatch_detach(&rig.dispatch, endpoint);
	drig_collect(&rig, server);
}

/* --- The walk --------------------------------------------------------------------------------- */

static void start(void)
{
	static const unsigned depths[] = {1, 2, 4, 8, 32, 128};
	static const unsigned chains[] = {1, 2, 5, 32};
	const struct fake_hooks hooks = {.accept = accept, .execute = execute};
	struct drig_shape shape = {
		.servers = 1 + below(4),
		.lanes = 1 + below(4),
		.depth = depths[below(6)],
		.post_batch = chains[below(4)],
		.chunk_bytes = (size_t)4096 << below(5),
	};

	drig_start(&rig, &shape);
	fake_set_hooks(&hooks);
	next_cell = 0;
	memset(is_taken, 0, sizeof(is_taken));
	for (unsigned i = 0; i < rig.servers; i++)
		is_up[i] = true;
}

static void step(void)
{
	struct walker *walker = &live[below(LIVE_MAX)];

	switch (below(12)) {
	case 0:
	case 1:
		if (!walker->batch)
			submit(walker);
		break;
	case 2:
	case 3:
	case 4:
		drig_turn(&rig);
		break;
	case 5:
		rmem_dispatch_flush(&rig.dispatch);
		break;
	case 6:
		tend_server(below(rig.servers));
		break;
	case 7:
		if (trouble && below(trouble * 2) == 0)
			kill_server(below(rig.servers));
		break;
	default:
		if (fake_lane_count() > 0) /* mostly the newest, which are alive */
			fake_run(fake_lane_count() - 1 - below(fake_lane_count()) % 24,
				 1 + below(20));
		break;
	}
	collect_batches();
}

static bool is_idle(void)
{
	for (unsigned i = 0; i < LIVE_MAX; i++) {
		if (live[i].batch)
			return false;
	}
	return true;
}

static void settle(void)
{
	trouble = 0;
	for (int i = 0; i < 10000 && !is_idle(); i++) {
		for (unsigned lane = 0; lane < fake_lane_count(); lane++)
			fake_run(lane, UINT32_MAX);
		drig_turn(&rig);
		collect_batches();
	}
	ck_assert(is_idle());
}

START_TEST(every_batch_ends_once_whatever_happens)
{
	seed = 4000 + (unsigned)_i;
	for (int walk = 0; walk < 25; walk++) {
		memset(live, 0, sizeof(live));
		trouble = walk % 5 == 0 ? 0 : 20u << below(6);
		start();
		for (int i = 0; i < 3000; i++)
			step();
		settle();
		drig_finish(&rig);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("dispatch_random");
	TCase *tcase = tcase_create("walks");

	tcase_set_timeout(tcase, 100);
	tcase_add_loop_test(tcase, every_batch_ends_once_whatever_happens, 0, 6);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
