/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_crew.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/checked.h"
#include "engine/base/timer.h"
#include "tools/bench_numbers.h"

/* The best stretch is looked for in this part of a measurement, and in no fewer batches than
 * these for each that is under way: batches end side by side, and what is counted at the ends of a
 * stretch began before it or is not over. */
#define PEAK_PARTS	 16
#define PEAK_BATCHES_MIN 4

struct bench_crew {
	const struct bench_rig *rig;
	uint64_t samples; /* room for, of each reactor */
	uint64_t *ends_ns, *latencies_ns;
	struct bench_worker workers[RMEM_REACTORS_MAX];
};

int bench_crew_create(const struct bench_rig *rig, uint64_t samples, struct bench_crew **crew,
		      struct rmem_error *error)
{
	struct bench_crew *made = calloc(1, sizeof(*made));
	size_t count = samples * rig->reactor_count;

	*crew = NULL;
	if (made != NULL) {
		made->ends_ns = malloc(count * sizeof(uint64_t));
		made->latencies_ns = malloc(count * sizeof(uint64_t));
	}
	if (made == NULL || made->ends_ns == NULL || made->latencies_ns == NULL) {
		bench_crew_destroy(made);
		return rmem_fail(error, ENOMEM, "no memory for %zu samples", count);
	}
	/* No page is to be touched for the first time while the clock runs. */
	memset(made->ends_ns, 0, count * sizeof(uint64_t));
	memset(made->latencies_ns, 0, count * sizeof(uint64_t));
	made->rig = rig;
	made->samples = samples;
	*crew = made;
	return 0;
}

void bench_crew_destroy(struct bench_crew *crew)
{
	if (crew == NULL)
		return;
	free(crew->ends_ns);
	free(crew->latencies_ns);
	free(crew);
}

/* --- Threads ---------------------------------------------------------------------------------- */

struct member {
	pthread_t thread;
	struct bench_worker *worker;
	struct bench_gate *gate;
};

static void *run_member(void *argument)
{
	struct member *member = argument;

	bench_worker_run(member->worker, member->gate);
	return NULL;
}

static int run_threads(struct bench_crew *crew, struct rmem_error *error)
{
	struct bench_gate gate = {
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.changed = PTHREAD_COND_INITIALIZER,
	};
	struct member members[RMEM_REACTORS_MAX];
	unsigned started = 0;
	int rc = 0;

	while (rc == 0 && started < crew->rig->reactor_count) {
		struct member *member = &members[started];

		member->worker = &crew->workers[started];
		member->gate = &gate;
		rc = pthread_create(&member->thread, NULL, run_member, member);
		if (rc == 0)
			started++;
	}
	bench_gate_open(&gate, started, rc == 0 ? BENCH_GATE_GO : BENCH_GATE_GO_HOME);
	for (unsigned i = 0; i < started; i++)
		pthread_join(members[i].thread, NULL);
	return rc != 0 ? rmem_fail(error, rc, "no thread for a reactor: %s", strerror(rc)) : 0;
}

/* --- From samples to figures ------------------------------------------------------------------ */

struct total {
	uint64_t start_ns, end_ns;
	uint64_t from_ns, until_ns, cpu_ns;
	double ticks;
	size_t batches;
	struct rmem_stats_snapshot counted;
};

/* Adds up the workers, and moves their samples together. */
static void add_up(struct bench_crew *crew, struct total *total)
{
	*total = (struct total){.start_ns = UINT64_MAX, .from_ns = UINT64_MAX};
	for (unsigned i = 0; i < crew->rig->reactor_count; i++) {
		const struct bench_worker *worker = &crew->workers[i];
		size_t bytes = worker->ended * sizeof(uint64_t);

		memmove(&crew->ends_ns[total->batches], worker->ends_ns, bytes);
		memmove(&crew->latencies_ns[total->batches], worker->latencies_ns, bytes);
		total->batches += worker->ended;
		total->cpu_ns += worker->cpu_ns;
		/* The counter runs on while the thread does not. */
		total->ticks += (double)worker->ticks * (double)worker->cpu_ns /
				(double)(worker->until_ns - worker->from_ns);
		total->start_ns = rmem_min_u64(total->start_ns, worker->start_ns);
		total->end_ns = rmem_max_u64(total->end_ns, worker->end_ns);
		total->from_ns = rmem_min_u64(total->from_ns, worker->from_ns);
		total->until_ns = rmem_max_u64(total->until_ns, worker->until_ns);
		rmem_stats_sum(&total->counted, &worker->counted);
	}
	bench_sort(crew->ends_ns, total->batches);
	bench_sort(crew->latencies_ns, total->batches);
}

static double microseconds(double ns)
{
	return ns / RMEM_NS_PER_US;
}

static void make_result(const struct bench_crew *crew, const struct bench_load *load,
			const struct total *total, struct bench_result *result)
{
	double ops = (double)total->batches * load->batch;
	double batch_bytes = (double)load->size_bytes * load->batch;
	double ns = (double)(total->end_ns - total->start_ns);
	double *values = result->values;
	size_t under_way = (size_t)load->in_flight * crew->rig->reactor_count;
	size_t window = rmem_max_u64(total->batches / PEAK_PARTS, PEAK_BATCHES_MIN * under_way);
	double peak = bench_peak_rate(total->start_ns, crew->ends_ns, total->batches, window);

	values[BENCH_ITERATIONS] = (double)total->batches;
	values[BENCH_BANDWIDTH] = ops * (double)load->size_bytes / ns; /* bytes a ns are GB a s */
	values[BENCH_BANDWIDTH_PEAK] = peak * batch_bytes / RMEM_NS_PER_S;
	values[BENCH_LATENCY] = microseconds(bench_mean(crew->latencies_ns, total->batches));
	values[BENCH_LATENCY_P50] =
		microseconds((double)bench_percentile(crew->latencies_ns, total->batches, 0.50));
	values[BENCH_LATENCY_P99] =
		microseconds((double)bench_percentile(crew->latencies_ns, total->batches, 0.99));
	values[BENCH_OPS] = ops / ns * RMEM_NS_PER_S;
	values[BENCH_CPU_PERCENT] =
		(double)total->cpu_ns / (double)(total->until_ns - total->from_ns) * 100;
	values[BENCH_CPU_NS] = (double)total->cpu_ns / ops;
	values[BENCH_DOORBELLS] = (double)total->counted.values[RMEM_STAT_CHAINS] / ops;
	values[BENCH_WRS] = (double)total->counted.values[RMEM_STAT_WRS] / ops;
	values[BENCH_MERGES] = (double)total->counted.values[RMEM_STAT_MERGES] / ops;
	values[BENCH_TICKS] = total->ticks / ops;
}

/* --- Measuring -------------------------------------------------------------------------------- */

static int init_workers(struct bench_crew *crew, const struct bench_load *load,
			struct rmem_error *error)
{
	for (unsigned i = 0; i < crew->rig->reactor_count; i++) {
		int rc = bench_worker_init(&crew->workers[i], crew->rig, load, i, error);

		if (rc != 0)
			return rc;
		crew->workers[i].ends_ns = &crew->ends_ns[i * crew->samples];
		crew->workers[i].latencies_ns = &crew->latencies_ns[i * crew->samples];
	}
	return 0;
}

/* The first failure of a worker; else whether all was measured that was to be. */
static int check_workers(const struct bench_crew *crew, struct rmem_error *error)
{
	for (unsigned i = 0; i < crew->rig->reactor_count; i++) {
		const struct bench_worker *worker = &crew->workers[i];

		if (worker->rc != 0) {
			if (error != NULL)
				*error = worker->error;
			return worker->rc;
		}
	}
	return bench_is_stopped() ? rmem_fail(error, ECANCELED, "stopped") : 0;
}

int bench_crew_measure(struct bench_crew *crew, const struct bench_load *load,
		       struct bench_result *result, struct rmem_error *error)
{
	struct total total;
	int rc;

	memset(crew->workers, 0, sizeof(crew->workers));
	rc = init_workers(crew, load, error);
	if (rc == 0)
		rc = run_threads(crew, error);
	if (rc == 0)
		rc = check_workers(crew, error);
	if (rc == 0) {
		add_up(crew, &total);
		make_result(crew, load, &total, result);
	}
	for (unsigned i = 0; i < crew->rig->reactor_count; i++)
		bench_worker_finish(&crew->workers[i]);
	return rc;
}

/* --- Idle ------------------------------------------------------------------------------------- */

struct idler {
	struct rmem_reactor *reactor;
	uint64_t idle_ns;
	struct bench_idle *idle;
};

static void *run_idler(void *argument)
{
	const struct idler *idler = argument;
	uint64_t start_ns, now_ns, thread_ns, process_ns;

	/* What is left over from before is not idleness. */
	while (rmem_reactor_poll(idler->reactor) > 0)
		;
	thread_ns = bench_thread_cpu_ns();
	process_ns = bench_process_cpu_ns();
	start_ns = now_ns = rmem_now_ns();
	while (now_ns - start_ns < idler->idle_ns && !bench_is_stopped()) {
		uint64_t left_ns = idler->idle_ns - (now_ns - start_ns);

		/* Short enough for the stop flag to be seen. */
		rmem_reactor_run(idler->reactor, left_ns > 250 * (uint64_t)RMEM_NS_PER_MS
							 ? 250
							 : (int)(left_ns / RMEM_NS_PER_MS) + 1);
		now_ns = rmem_now_ns();
	}
	idler->idle->seconds = (double)(now_ns - start_ns) / RMEM_NS_PER_S;
	idler->idle->reactor_seconds = (double)(bench_thread_cpu_ns() - thread_ns) / RMEM_NS_PER_S;
	idler->idle->process_seconds =
		(double)(bench_process_cpu_ns() - process_ns) / RMEM_NS_PER_S;
	return NULL;
}

int bench_crew_idle(struct bench_crew *crew, uint64_t idle_us, struct bench_idle *idle,
		    struct rmem_error *error)
{
	struct idler idler = {
		.reactor = rmem_engine_reactor(crew->rig->engine, 0),
		.idle_ns = idle_us * RMEM_NS_PER_US,
		.idle = idle,
	};
	pthread_t thread;
	int rc = pthread_create(&thread, NULL, run_idler, &idler);

	if (rc != 0)
		return rmem_fail(error, rc, "no thread for a reactor: %s", strerror(rc));
	pthread_join(thread, NULL);
	return bench_is_stopped() ? rmem_fail(error, ECANCELED, "stopped") : 0;
}
