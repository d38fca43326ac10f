/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_echo.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "tools/bench.h"
#include "tools/bench_ground.h"
#include "tools/bench_worker.h"

#define WAIT_MS	   100
#define PAUSE_US   1000 /* between looks for a client */
#define MEMORY_MIN ((uint64_t)4 << 20)

int bench_echo_init(struct bench_echo *echo, const char *url, uint64_t bytes,
		    const struct rmem_engine_options *options, struct rmem_error *error)
{
	*echo = (struct bench_echo){.options = *options};
	return bench_end_init(&echo->end, url, bytes, error);
}

void bench_echo_finish(struct bench_echo *echo)
{
	bench_end_finish(&echo->end);
}

/* Does what the client says, which may be anything. Its server is connected to once. */
static int take_hello(struct bench_echo *echo, struct rmem_error *error)
{
	char text[RMEM_NOTICE_BYTES_MAX + 1] = {0}, url[RMEM_NOTICE_BYTES_MAX + 1];
	const struct rmem_notice *word = &echo->end.word;
	unsigned long long bytes;
	unsigned mode;

	memcpy(text, word->bytes, word->length);
	echo->end.has_word = false;
	if (sscanf(text, "%u %llu %64s", &mode, &bytes, url) != 3 || mode > RMEM_POLL_EVENT ||
	    bytes > echo->end.local_bytes)
		return rmem_fail(error, EPROTO, "a client asks for something else than an echo");
	echo->mode = (enum rmem_poll_mode)mode;
	echo->bytes = bytes;
	if (echo->end.engine != NULL)
		return 0;
	return bench_end_connect(&echo->end, &echo->options,
				 echo->client != NULL ? echo->client : url, error);
}

static void answer(struct bench_echo *echo)
{
	struct rmem_error error = {0};
	int rc = 0;

	if (echo->end.has_word) {
		rc = take_hello(echo, &error);
		if (rc == 0)
			rc = bench_end_send(&echo->end, 0, NULL);
	} else if (echo->end.engine != NULL) {
		rc = bench_end_send(&echo->end, echo->bytes, NULL);
	}
	if (rc != 0)
		rmem_log_warn(RMEM_LOG_TOOL, "a client can't be answered: %s",
			      error.code != 0 ? error.text : strerror(-rc));
}

void bench_echo_run(struct bench_echo *echo)
{
	while (!bench_is_stopped() && !atomic_load_explicit(&echo->is_over, memory_order_relaxed)) {
		int rc = -ENOTCONN;

		if (echo->end.peer != NULL)
			rc = bench_end_wait(&echo->end, echo->mode, WAIT_MS);
		if (rc == 0) {
			answer(echo);
			continue;
		}
		if (rc == -ETIMEDOUT)
			continue;
		if (echo->end.peer == NULL) {
			bench_end_disconnect(&echo->end);
			echo->mode = RMEM_POLL_EVENT;
		}
		rmem_server_poll(echo->end.server);
		usleep(PAUSE_US);
	}
}

int bench_echo(const struct bench_line *line, struct rmem_error *error)
{
	static struct bench_echo echo;
	struct rmem_engine_options options;
	uint64_t bytes = line->settings.memory_bytes;
	int rc = bench_line_engine(line, &options, error);

	if (rc == 0)
		rc = bench_echo_init(&echo, line->settings.listen, bytes != 0 ? bytes : MEMORY_MIN,
				     &options, error);
	if (rc != 0)
		return rc;
	printf("echoes at %s\n", line->settings.listen);
	fflush(stdout);
	bench_echo_run(&echo);
	bench_echo_finish(&echo);
	return 0;
}
