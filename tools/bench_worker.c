/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/checked.h"
#include "tools/bench_clock.h"

/* Between looks at the stop flag while nothing ends. */
#define RUN_MS 100

/* Batches that wait for each other when the rate is limited. */
#define BURST 8

_Atomic(bool) bench_stop;

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * RMEM_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t bench_thread_cpu_ns(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t bench_process_cpu_ns(void)
{
	return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

/* --- Keeping batches under way ---------------------------------------------------------------- */

static inline void begin(struct bench_transfer *transfer, uint64_t now_ns)
{
	struct bench_worker *worker = transfer->worker;

	transfer->start_ns = now_ns;
	worker->started++;
	worker->in_flight++;
	rmem_submit(worker->reactor, &transfer->batch);
}

static RMEM_COLD void note_failure(struct bench_worker *worker, const struct rmem_batch *batch,
				   int status)
{
	struct rmem_server_info info;
	const char *url = "a server";

	if (worker->rc != 0)
		return;
	if (rmem_server_info(worker->rig->engine, batch->failed_server, &info) == 0)
		url = info.url;
	worker->rc = rmem_fail(&worker->error, -status, "%s: a batch of %s failed: %s%s", url,
			       batch->op == RMEM_READ ? "reads" : "writes", strerror(-status),
			       status == -ENOTCONN ? " (the server is gone)" : "");
}

static inline bool may_begin(const struct bench_worker *worker, uint64_t now_ns)
{
	return worker->started < worker->goal && now_ns < worker->deadline_ns &&
	       !bench_is_stopped() && worker->rc == 0;
}

static void ended(struct rmem_batch *batch, int status)
{
	struct bench_transfer *transfer = batch->user;
	struct bench_worker *worker = transfer->worker;
	uint64_t now_ns = bench_now_ns();

	worker->in_flight--;
	if (RMEM_UNLIKELY(status != 0)) {
		note_failure(worker, batch, status);
		return;
	}
	transfer->has_run = true;
	worker->latencies_ns[worker->ended] = now_ns - transfer->start_ns;
	worker->ends_ns[worker->ended++] = now_ns;
	if (RMEM_UNLIKELY(!may_begin(worker, now_ns)))
		return;
	if (RMEM_LIKELY(worker->interval_ns == 0)) {
		begin(transfer->next, now_ns);
	} else {
		transfer->next->after = worker->waiting;
		worker->waiting = transfer->next;
	}
}

/* Begins what is due of the transfers that wait. Returns when to look again; 0 when nothing waits.
 * Looks are a millisecond apart, or longer: what is due by then goes in one burst, of some batches
 * at least, so that sleeping and waking does not cost more than what is measured. */
static uint64_t begin_due(struct bench_worker *worker)
{
	uint64_t now_ns = bench_now_ns();

	if (!may_begin(worker, now_ns))
		worker->waiting = NULL;
	while (worker->waiting != NULL && worker->due_ns <= now_ns) {
		struct bench_transfer *transfer = worker->waiting;

		worker->waiting = transfer->after;
		worker->due_ns += worker->interval_ns;
		begin(transfer, now_ns);
	}
	if (worker->waiting == NULL)
		return 0;
	return rmem_max_u64(worker->due_ns + (BURST - 1) * worker->interval_ns,
			    now_ns + RMEM_NS_PER_MS);
}

/* By how long it is until then: the kernel's clock is another, and strays from ours with time. */
static void sleep_until(uint64_t when_ns)
{
	uint64_t now_ns = bench_now_ns();
	uint64_t left_ns = when_ns > now_ns ? when_ns - now_ns : 0;
	struct timespec left = {
		.tv_sec = (time_t)(left_ns / RMEM_NS_PER_S),
		.tv_nsec = (long)(left_ns % RMEM_NS_PER_S),
	};

	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &left, NULL);
}

/* Returns what time it is. */
static uint64_t start_clock(struct bench_worker *worker, uint64_t count, uint64_t limit_ns)
{
	uint64_t now_ns = bench_now_ns();

	worker->goal = count;
	worker->started = 0;
	worker->ended = 0;
	worker->start_ns = now_ns;
	worker->interval_ns = worker->load->rate != 0 ? (uint64_t)worker->load->batch *
								RMEM_NS_PER_S / worker->load->rate
						      : 0;
	worker->due_ns = now_ns + worker->load->in_flight * worker->interval_ns;
	worker->waiting = NULL;
	worker->deadline_ns = limit_ns != 0 ? now_ns + limit_ns : UINT64_MAX;
	return now_ns;
}

static void stop_clock(struct bench_worker *worker)
{
	worker->end_ns = worker->ended > 0 ? worker->ends_ns[worker->ended - 1] : worker->start_ns;
}

/* The transfer that flight `i` begins with: reactors and flights begin with different servers. */
static struct bench_transfer *first_of(const struct bench_worker *worker, uint32_t i)
{
	return &worker->transfers[i * worker->chains + (i + worker->index) % worker->chains];
}

__attribute__((noinline)) void bench_worker_drive(struct bench_worker *worker, uint64_t count,
						  uint64_t limit_ns)
{
	uint64_t now_ns = start_clock(worker, count, limit_ns);

	for (uint32_t i = 0; i < worker->load->in_flight && worker->started < count; i++)
		begin(first_of(worker, i), now_ns);
	while (worker->in_flight > 0 || worker->waiting != NULL) {
		uint64_t look_ns = worker->interval_ns != 0 ? begin_due(worker) : 0;

		if (worker->in_flight > 0)
			rmem_reactor_run(worker->reactor, RUN_MS);
		else if (look_ns != 0)
			sleep_until(look_ns);
	}
	stop_clock(worker);
}

/* --- Only copying ----------------------------------------------------------------------------- */

/* Slots lie alike in `local` and `twin`. */
static void copy_batch(const struct rmem_batch *batch, unsigned char *local, unsigned char *twin)
{
	const struct rmem_segment *segment = batch->segments;
	const struct rmem_segment *end = segment + batch->segment_count;

	if (batch->op == RMEM_WRITE) {
		for (; segment < end; segment++)
			memcpy(twin + ((unsigned char *)segment->local - local), segment->local,
			       segment->length);
	} else {
		for (; segment < end; segment++)
			memcpy(segment->local, twin + ((unsigned char *)segment->local - local),
			       segment->length);
	}
}

/* The same messages, but that a server's memory is a twin of it here. Batches that would be under
 * way together follow each other. */
__attribute__((noinline)) void bench_worker_copy(struct bench_worker *worker, uint64_t count,
						 uint64_t limit_ns)
{
	uint64_t now_ns = start_clock(worker, count, limit_ns);
	unsigned char *local = worker->rig->local[worker->index];
	unsigned char *twin = worker->rig->twin[worker->index];
	uint32_t flight = 0;

	while (worker->ended < count && now_ns < worker->deadline_ns && !bench_is_stopped()) {
		uint64_t start_ns = now_ns;

		copy_batch(&worker->transfers[flight * worker->chains].batch, local, twin);
		flight = flight + 1 < worker->load->in_flight ? flight + 1 : 0;
		now_ns = bench_now_ns();
		worker->latencies_ns[worker->ended] = now_ns - start_ns;
		worker->ends_ns[worker->ended++] = now_ns;
	}
	stop_clock(worker);
}

static void run_load(struct bench_worker *worker, uint64_t count)
{
	if (worker->load->bare)
		bench_worker_copy(worker, count, worker->load->limit_ns);
	else
		bench_worker_drive(worker, count, worker->load->limit_ns);
}

static void measure(struct bench_worker *worker)
{
	const struct rmem_stats *stats = rmem_reactor_stats(worker->reactor);
	struct rmem_stats_snapshot before;
	uint64_t cpu_ns, ticks;

	rmem_stats_read(stats, &before);
	worker->from_ns = bench_now_ns();
	ticks = bench_ticks();
	cpu_ns = bench_thread_cpu_ns();
	run_load(worker, worker->load->iterations);
	worker->cpu_ns = bench_thread_cpu_ns() - cpu_ns;
	worker->ticks = bench_ticks() - ticks;
	worker->until_ns = bench_now_ns();
	rmem_stats_read(stats, &worker->counted);
	rmem_stats_difference(&worker->counted, &before, &worker->counted);
}

/* --- Verifying -------------------------------------------------------------------------------- */

struct passing {
	struct bench_worker *worker;
	bool is_over;
};

static void passed(struct rmem_batch *batch, int status)
{
	struct passing *passing = batch->user;

	passing->is_over = true;
	if (status != 0)
		note_failure(passing->worker, batch, status);
}

/* Moves the segments of one transfer, in the direction `op`. */
static void pass(struct bench_worker *worker, const struct bench_transfer *transfer,
		 enum rmem_op op)
{
	struct passing passing = {.worker = worker};
	struct rmem_batch batch = {
		.op = op,
		.segment_count = transfer->batch.segment_count,
		.segments = transfer->batch.segments,
		.done = passed,
		.user = &passing,
	};

	rmem_submit(worker->reactor, &batch);
	while (!passing.is_over)
		rmem_reactor_run(worker->reactor, RUN_MS);
}

/* The seed of what this reactor writes. */
static uint64_t own_seed(const struct bench_worker *worker)
{
	return worker->load->seed * RMEM_REACTORS_MAX + worker->index;
}

static unsigned char *slot_address(const struct bench_worker *worker, uint64_t slot)
{
	return worker->rig->local[worker->index] + slot * worker->load->size_bytes;
}

static void fill_local(const struct bench_worker *worker)
{
	for (uint64_t i = 0; i < worker->layout.slots; i++)
		bench_pattern_fill(slot_address(worker, i), worker->load->size_bytes,
				   own_seed(worker), i);
}

static void wipe_local(const struct bench_worker *worker)
{
	memset(worker->rig->local[worker->index], 0,
	       worker->layout.slots * worker->load->size_bytes);
}

static size_t transfer_count(const struct bench_worker *worker)
{
	return (size_t)worker->load->in_flight * worker->chains;
}

static void prepare_content(struct bench_worker *worker)
{
	fill_local(worker);
	if (worker->load->op == RMEM_WRITE)
		return;
	for (size_t i = 0; i < transfer_count(worker) && worker->rc == 0 && !bench_is_stopped();
	     i++)
		pass(worker, &worker->transfers[i], RMEM_WRITE);
	wipe_local(worker);
}

static void compare(struct bench_worker *worker, const struct rmem_segment *segment)
{
	uint64_t slot =
		(uint64_t)((unsigned char *)segment->local - worker->rig->local[worker->index]) /
		worker->load->size_bytes;
	uint64_t place =
		bench_pattern_check(segment->local, segment->length, own_seed(worker), slot);
	struct rmem_server_info info;
	const char *url = "a server";

	if (place == segment->length)
		return;
	if (rmem_server_info(worker->rig->engine, segment->server, &info) == 0)
		url = info.url;
	worker->rc = rmem_fail(&worker->error, EBADMSG,
			       "%s: wrong content: byte %llu of the message of %llu bytes at "
			       "offset %llu of region %u is 0x%02x and should be 0x%02x",
			       url, (unsigned long long)place, (unsigned long long)segment->length,
			       (unsigned long long)segment->remote, segment->region,
			       ((unsigned char *)segment->local)[place],
			       bench_pattern_byte(place, own_seed(worker), slot));
}

static void verify(struct bench_worker *worker)
{
	for (size_t i = 0; i < transfer_count(worker) && worker->rc == 0 && !bench_is_stopped();
	     i++) {
		const struct bench_transfer *transfer = &worker->transfers[i];

		if (!transfer->has_run)
			continue;
		if (worker->load->op == RMEM_WRITE) {
			wipe_local(worker);
			pass(worker, transfer, RMEM_READ);
		}
		for (uint32_t k = 0; k < transfer->batch.segment_count && worker->rc == 0; k++)
			compare(worker, &transfer->batch.segments[k]);
	}
}

/* --- A measurement ---------------------------------------------------------------------------- */

void bench_gate_open(struct bench_gate *gate, unsigned count, enum bench_gate_state state)
{
	pthread_mutex_lock(&gate->lock);
	while (gate->waiting < count)
		pthread_cond_wait(&gate->changed, &gate->lock);
	gate->state = state;
	pthread_cond_broadcast(&gate->changed);
	pthread_mutex_unlock(&gate->lock);
}

static enum bench_gate_state wait_at(struct bench_gate *gate)
{
	enum bench_gate_state state;

	pthread_mutex_lock(&gate->lock);
	gate->waiting++;
	pthread_cond_broadcast(&gate->changed);
	while (gate->state == BENCH_GATE_SHUT)
		pthread_cond_wait(&gate->changed, &gate->lock);
	state = gate->state;
	pthread_mutex_unlock(&gate->lock);
	return state;
}

void bench_worker_run(struct bench_worker *worker, struct bench_gate *gate)
{
	if (worker->load->verify)
		prepare_content(worker);
	if (worker->rc == 0)
		run_load(worker, worker->load->warmup);
	if (wait_at(gate) == BENCH_GATE_GO_HOME)
		return;
	if (worker->rc == 0)
		measure(worker);
	if (worker->load->verify && worker->rc == 0)
		verify(worker);
}

static void make_segment(const struct bench_worker *worker, struct rmem_segment *segment,
			 uint64_t message, unsigned server)
{
	const struct bench_part *part = bench_rig_part(worker->rig, server, worker->index);
	uint64_t slot = bench_layout_slot(&worker->layout, message);

	*segment = (struct rmem_segment){
		.local = slot_address(worker, slot),
		.remote = part->offset + slot * worker->load->size_bytes,
		.length = worker->load->size_bytes,
		.region = part->region,
		.server = (uint16_t)server,
	};
}

static void make_transfers(struct bench_worker *worker)
{
	const struct bench_load *load = worker->load;

	for (uint32_t flight = 0; flight < load->in_flight; flight++) {
		struct bench_transfer *first = &worker->transfers[flight * worker->chains];

		for (unsigned chain = 0; chain < worker->chains; chain++) {
			size_t index = (size_t)flight * worker->chains + chain;
			struct rmem_segment *segments = &worker->segments[index * load->batch];
			struct bench_transfer *transfer = &worker->transfers[index];

			for (uint32_t i = 0; i < load->batch; i++)
				make_segment(worker, &segments[i],
					     (uint64_t)flight * load->batch + i,
					     load->spread == BENCH_BY_BATCH
						     ? chain
						     : i % worker->rig->server_count);
			transfer->batch = (struct rmem_batch){
				.op = load->op,
				.segment_count = load->batch,
				.segments = segments,
				.done = ended,
				.user = transfer,
			};
			transfer->worker = worker;
			transfer->next = &first[(chain + 1) % worker->chains];
		}
	}
}

int bench_worker_init(struct bench_worker *worker, const struct bench_rig *rig,
		      const struct bench_load *load, unsigned index, struct rmem_error *error)
{
	unsigned chains = load->spread == BENCH_BY_BATCH ? rig->server_count : 1;
	size_t transfers = (size_t)load->in_flight * chains;

	*worker = (struct bench_worker){
		.rig = rig,
		.load = load,
		.reactor = rmem_engine_reactor(rig->engine, index),
		.index = index,
		.chains = chains,
	};
	if (transfers > BENCH_SEGMENTS_MAX / load->batch)
		return rmem_fail(error, EINVAL,
				 "%zu batches of %u messages are too many to prepare: lower "
				 "--batch, --in-flight or the number of servers",
				 transfers, load->batch);
	bench_layout_init(&worker->layout, load->layout, (uint64_t)load->in_flight * load->batch,
			  rig->share_bytes / load->size_bytes);
	worker->segments = calloc(transfers * load->batch, sizeof(*worker->segments));
	worker->transfers = calloc(transfers, sizeof(*worker->transfers));
	if (worker->segments == NULL || worker->transfers == NULL) {
		bench_worker_finish(worker);
		return rmem_fail(error, ENOMEM, "no memory for %zu batches of %u messages",
				 transfers, load->batch);
	}
	make_transfers(worker);
	return 0;
}

void bench_worker_finish(struct bench_worker *worker)
{
	free(worker->segments);
	free(worker->transfers);
	worker->segments = NULL;
	worker->transfers = NULL;
}
