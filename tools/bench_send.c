/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_send.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench_clock.h"
#include "tools/bench_echo.h"
#include "tools/bench_numbers.h"

#define HELLO_URL_MAX 40    /* the rest of a hello takes 23 at most */
#define ANSWER_MS     10000 /* an echo that is silent for so long is none */

struct bench_send {
	struct bench_end end;
	const char *here; /* URLs of this end, and of the other */
	const char *there;
	uint64_t *latencies_ns;
	/* Where the servers are this process's. */
	struct bench_echo *echo;
	pthread_t thread;
	char own_urls[2][256];
};

/* --- The echo's thread ------------------------------------------------------------------------ */

static void *run_echo(void *argument)
{
	bench_echo_run(argument);
	return NULL;
}

static int start_echo(struct bench_send *send, const struct bench_ground *ground, uint64_t bytes,
		      struct rmem_error *error)
{
	struct bench_echo *echo = calloc(1, sizeof(*echo));
	int rc;

	if (echo == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	rc = bench_echo_init(echo, send->there, bytes, &ground->engine, error);
	if (rc == 0) {
		echo->client = send->here;
		rc = pthread_create(&send->thread, NULL, run_echo, echo);
		if (rc != 0)
			rc = rmem_fail(error, rc, "no thread for an echo: %s", strerror(rc));
	}
	if (rc == 0) {
		send->echo = echo;
		return 0;
	}
	bench_echo_finish(echo);
	free(echo);
	return rc;
}

static void stop_echo(struct bench_send *send)
{
	if (send->echo == NULL)
		return;
	atomic_store_explicit(&send->echo->is_over, true, memory_order_relaxed);
	pthread_join(send->thread, NULL);
	bench_echo_finish(send->echo);
	free(send->echo);
}

/* --- Life ------------------------------------------------------------------------------------- */

/* Beside the ground's own servers, or as the command line says. */
static int choose_urls(struct bench_send *send, const struct bench_ground *ground,
		       struct rmem_error *error)
{
	send->here = ground->line->settings.answer;
	send->there = ground->urls[0];
	if (ground->own != NULL) {
		snprintf(send->own_urls[0], sizeof(send->own_urls[0]), "%s.here", ground->urls[0]);
		snprintf(send->own_urls[1], sizeof(send->own_urls[1]), "%s.there", ground->urls[0]);
		send->here = send->own_urls[0];
		send->there = send->own_urls[1];
		return 0;
	}
	if (send->here == NULL)
		return rmem_fail(error, EINVAL,
				 "--op send needs --answer URL: where the rmem-bench echo at %s "
				 "reaches this process",
				 send->there);
	if (strlen(send->here) > HELLO_URL_MAX)
		return rmem_fail(error, ENAMETOOLONG, "%s: too long to tell the echo: at most %d",
				 send->here, HELLO_URL_MAX);
	return 0;
}

static int fill(struct bench_send *send, const struct bench_ground *ground,
		struct rmem_error *error)
{
	uint64_t bytes = ground->line->settings.size_max;
	int rc = choose_urls(send, ground, error);

	if (rc == 0 && ground->own != NULL)
		rc = start_echo(send, ground, bytes, error);
	if (rc == 0)
		rc = bench_end_init(&send->end, send->here, bytes, error);
	if (rc == 0)
		rc = bench_end_connect(&send->end, &ground->engine, send->there, error);
	if (rc == 0 && send->end.room < bytes)
		rc = rmem_fail(error, ENOSPC,
			       "%s: too little memory for these messages: see "
			       "--memory of rmem-bench echo",
			       send->there);
	return rc;
}

int bench_send_create(const struct bench_ground *ground, uint64_t samples, struct bench_send **send,
		      struct rmem_error *error)
{
	struct bench_send *made = calloc(1, sizeof(*made));
	int rc;

	*send = NULL;
	if (made != NULL)
		made->latencies_ns = calloc(samples, sizeof(*made->latencies_ns));
	if (made == NULL || made->latencies_ns == NULL) {
		free(made);
		return rmem_fail(error, ENOMEM, "out of memory");
	}
	rc = fill(made, ground, error);
	if (rc != 0) {
		bench_send_destroy(made);
		return rc;
	}
	*send = made;
	return 0;
}

void bench_send_destroy(struct bench_send *send)
{
	if (send == NULL)
		return;
	bench_end_disconnect(&send->end);
	stop_echo(send);
	bench_end_finish(&send->end);
	free(send->latencies_ns);
	free(send);
}

/* --- Measuring -------------------------------------------------------------------------------- */

static int there_and_back(struct bench_send *send, enum rmem_poll_mode mode, uint64_t bytes,
			  const char *text)
{
	int rc = bench_end_send(&send->end, bytes, text);

	return rc == 0 ? bench_end_wait(&send->end, mode, ANSWER_MS) : rc;
}

/* Returns how many it did, or -errno. */
static int64_t drive(struct bench_send *send, const struct bench_load *load,
		     enum rmem_poll_mode mode, uint64_t count)
{
	uint64_t start_ns = bench_now_ns(), last_ns = start_ns, done = 0;

	while (done < count && (load->limit_ns == 0 || last_ns - start_ns < load->limit_ns)) {
		int rc = there_and_back(send, mode, load->size_bytes, NULL);
		uint64_t now_ns = bench_now_ns();

		if (rc != 0)
			return rc;
		send->latencies_ns[done++] = now_ns - last_ns;
		last_ns = now_ns;
	}
	return (int64_t)done;
}

static void make_result(struct bench_send *send, uint64_t count, struct bench_result *result)
{
	double *values = result->values;
	double mean_ns = bench_mean(send->latencies_ns, count);

	bench_sort(send->latencies_ns, count);
	values[BENCH_ITERATIONS] = (double)count;
	values[BENCH_OPS] = mean_ns > 0 ? RMEM_NS_PER_S / mean_ns : 0;
	values[BENCH_LATENCY] = mean_ns / RMEM_NS_PER_US;
	values[BENCH_LATENCY_P50] =
		(double)bench_percentile(send->latencies_ns, count, 0.50) / RMEM_NS_PER_US;
	values[BENCH_LATENCY_P99] =
		(double)bench_percentile(send->latencies_ns, count, 0.99) / RMEM_NS_PER_US;
}

static int complain(const struct bench_send *send, int rc, struct rmem_error *error)
{
	if (rc == -ECANCELED)
		return rmem_fail(error, ECANCELED, "stopped");
	if (rc == -ETIMEDOUT)
		return rmem_fail(error, ETIMEDOUT,
				 "%s: no echo came back within %u ms: is an "
				 "rmem-bench echo there, and does it reach %s?",
				 send->there, ANSWER_MS, send->here);
	return rmem_fail(error, -rc, "%s: no echo: %s%s", send->there, strerror(-rc),
			 rc == -EOPNOTSUPP ? " (that is no rmem-bench echo)" : "");
}

int bench_send_measure(struct bench_send *send, const struct bench_load *load,
		       enum rmem_poll_mode mode, struct bench_result *result,
		       struct rmem_error *error)
{
	char hello[2 * RMEM_NOTICE_BYTES_MAX];
	uint64_t cpu_ns, from_ns;
	int64_t rc;

	*result = (struct bench_result){0};
	snprintf(hello, sizeof(hello), BENCH_ECHO_HELLO, (unsigned)mode,
		 (unsigned long long)load->size_bytes, send->echo == NULL ? send->here : "-");
	rc = there_and_back(send, mode, 0, hello);
	if (rc == 0)
		rc = drive(send, load, mode, load->warmup);
	from_ns = bench_now_ns();
	cpu_ns = bench_thread_cpu_ns();
	if (rc >= 0)
		rc = drive(send, load, mode, load->iterations);
	if (rc < 0)
		return complain(send, (int)rc, error);
	cpu_ns = bench_thread_cpu_ns() - cpu_ns;
	result->values[BENCH_CPU_PERCENT] =
		(double)cpu_ns * 100 / (double)(bench_now_ns() - from_ns);
	result->values[BENCH_CPU_NS] = rc > 0 ? (double)cpu_ns / (double)rc : 0;
	make_result(send, (uint64_t)rc, result);
	return 0;
}
