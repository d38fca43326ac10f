/* SPDX-License-Identifier: Apache-2.0 */
/* Stresses memory, or a mount: memtouch [OPTION]...
 *
 * The main thread never touches the memory, so it hears signals and keeps its intervals however
 * long an access takes: it sleeps in poll() on a signalfd and on the crew's eventfd, until the next
 * line of statistics is due. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "engine/base/deadline.h"
#include "engine/stream.h"
#include "tools/memtouch_crew.h"
#include "tools/memtouch_report.h"

enum { EXIT_USAGE = 2, EXIT_SIGNAL = 128 };

#define PROGRESS_MS 200u
#define JOIN_MS	    10000u

enum phase { WARMING, RUNNING, ENDED };

struct run {
	struct touch_options options;
	struct touch_area area;
	struct touch_crew *crew;
	FILE *log; /* NULL: nowhere */
	int signal_fd;
	int signal; /* that ended it; 0: none did */
	enum phase phase;
	bool show_progress;
	uint64_t start_ns; /* of the phase */
	uint64_t end_ns;   /* when the run is to end; UINT64_MAX: not by time */
	uint64_t tick_ns;  /* when the next interval is to end */
	uint64_t last_ns;  /* when the last one ended, and the totals then */
	struct touch_totals last;
	struct touch_result result;
};

/* --- Statistics */

static int write_log(struct run *run, uint64_t reads, uint64_t writes, struct rmem_error *error)
{
	struct timespec now;
	char line[160];

	if (run->log == NULL)
		return 0;
	clock_gettime(CLOCK_REALTIME, &now);
	touch_log_line(&now, reads, writes, line, sizeof(line));
	if (fputs(line, run->log) < 0 || fflush(run->log) != 0)
		return rmem_fail(error, errno, "can't write to %s: %s",
				 run->options.stat_file ? run->options.stat_file
							: "standard output",
				 strerror(errno));
	return 0;
}

static int end_interval(struct run *run, uint64_t now_ns, struct rmem_error *error)
{
	uint64_t ival_ns = run->options.stat_ival_ms * RMEM_NS_PER_MS;
	uint64_t took_ns = now_ns - run->last_ns;
	struct touch_totals totals;
	uint64_t reads, writes;

	touch_crew_totals(run->crew, &totals);
	reads = touch_rate(totals.read_pages - run->last.read_pages, took_ns);
	writes = touch_rate(totals.write_pages - run->last.write_pages, took_ns);
	touch_rates_add(&run->result.reads, reads);
	touch_rates_add(&run->result.writes, writes);
	run->last = totals;
	run->last_ns = now_ns;
	/* One that comes late takes the missed ones' place: its rate is over all of its time. */
	run->tick_ns += ((now_ns - run->tick_ns) / ival_ns + 1) * ival_ns;
	return write_log(run, reads, writes, error);
}

static void show_progress(struct run *run)
{
	struct touch_totals totals;
	char line[120];

	if (!run->show_progress)
		return;
	touch_crew_totals(run->crew, &totals);
	touch_progress_line(totals.warm_pages, run->area.bytes / RMEM_PAGE_BYTES,
			    rmem_now_ns() - run->start_ns, line, sizeof(line));
	fprintf(stderr, "\r%s\033[K", line);
}

static void end_progress(const struct run *run)
{
	if (run->show_progress && run->phase == WARMING)
		fputs("\r\033[K", stderr);
}

/* --- Phases */

static void end_warm_up(struct run *run)
{
	struct touch_totals totals;
	uint64_t now_ns = rmem_now_ns();

	if (run->phase != WARMING)
		return;
	end_progress(run);
	touch_crew_totals(run->crew, &totals);
	run->result.warm_pages = totals.warm_pages;
	run->result.warm_ns = now_ns - run->start_ns;
}

static void begin_run(struct run *run)
{
	uint64_t duration_ns = run->options.duration_ms * RMEM_NS_PER_MS;

	end_warm_up(run);
	run->phase = RUNNING;
	run->start_ns = rmem_now_ns();
	run->last_ns = run->start_ns;
	run->tick_ns = run->start_ns + run->options.stat_ival_ms * RMEM_NS_PER_MS;
	run->end_ns = duration_ns > 0 ? run->start_ns + duration_ns : UINT64_MAX;
	touch_crew_go(run->crew);
}

static void end(struct run *run, const char *why)
{
	struct touch_totals totals;

	end_warm_up(run);
	if (run->phase == RUNNING) {
		touch_crew_totals(run->crew, &totals);
		run->result.run_ns = rmem_now_ns() - run->start_ns;
		run->result.read_pages = totals.read_pages;
		run->result.write_pages = totals.write_pages;
	}
	run->result.ended_by = why;
	run->phase = ENDED;
	touch_crew_stop(run->crew);
}

static void take_signal(struct run *run)
{
	struct signalfd_siginfo info;

	if (read(run->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	run->signal = (int)info.ssi_signo;
	end(run, info.ssi_signo == SIGINT   ? "SIGINT"
		 : info.ssi_signo == SIGHUP ? "SIGHUP"
					    : "SIGTERM");
}

static void take_news(struct run *run)
{
	struct touch_crew_state state;

	touch_crew_look(run->crew, &state);
	if (state.ended > 0)
		end(run, "error");
	else if (run->phase == WARMING && state.warm == run->options.threads)
		run->options.once ? end(run, "once") : begin_run(run);
}

static int timeout_ms(const struct run *run)
{
	if (run->phase == RUNNING)
		return rmem_deadline_left_ms(rmem_min_u64(run->tick_ns, run->end_ns));
	return run->show_progress ? (int)PROGRESS_MS : -1;
}

static int loop(struct run *run, struct rmem_error *error)
{
	struct pollfd fds[] = {{.fd = run->signal_fd, .events = POLLIN},
			       {.fd = touch_crew_fd(run->crew), .events = POLLIN}};
	int rc = 0;

	while (run->phase != ENDED && rc == 0) {
		uint64_t now_ns;

		if (poll(fds, RMEM_COUNT_OF(fds), timeout_ms(run)) < 0 && errno != EINTR)
			rc = rmem_fail(error, errno, "can't wait: %s", strerror(errno));
		now_ns = rmem_now_ns();
		if (run->phase == WARMING)
			show_progress(run);
		if (run->phase == RUNNING && now_ns >= run->tick_ns)
			rc = end_interval(run, now_ns, error);
		if (fds[0].revents != 0)
			take_signal(run);
		else if (fds[1].revents != 0)
			take_news(run);
		else if (run->phase == RUNNING && now_ns >= run->end_ns)
			end(run, "duration");
	}
	if (rc != 0)
		end(run, "error");
	return rc;
}

/* --- Set-up and end */

/* Threads inherit the mask: all signals of these kinds come to the descriptor. */
static int block_signals(int *fd, sigset_t *signals, struct rmem_error *error)
{
	sigemptyset(signals);
	sigaddset(signals, SIGINT);
	sigaddset(signals, SIGTERM);
	sigaddset(signals, SIGHUP);
	sigprocmask(SIG_BLOCK, signals, NULL);
	signal(SIGPIPE, SIG_IGN); /* who reads the lines may go: that is an error to report */
	*fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (*fd < 0)
		return rmem_fail(error, errno, "no signalfd: %s", strerror(errno));
	return 0;
}

/* --no_avx512 takes the next best. */
static int choose_stores(const struct touch_options *options, const char **name,
			 struct rmem_error *error)
{
	*name = "ordinary";
	if (!options->nt_stores)
		return 0;
	for (int i = RMEM_STREAM_ISAS - 1; i > RMEM_STREAM_OFF; i--) {
		enum rmem_stream_isa isa = (enum rmem_stream_isa)i;

		*name = rmem_stream_isa_name(isa);
		if (options->no_avx512 && strcmp(*name, "avx512") == 0)
			continue;
		if (rmem_stream_isa_available(isa))
			return rmem_stream_select(isa, error);
	}
	return rmem_fail(error, ENOTSUP,
			 "--nt_stores: this CPU has no streaming stores that memtouch knows");
}

static int open_log(struct run *run, struct rmem_error *error)
{
	const char *path = run->options.stat_file;

	if (path == NULL) {
		run->log = run->options.json ? NULL : stdout;
		return 0;
	}
	run->log = fopen(path, "we");
	if (run->log == NULL)
		return rmem_fail(error, errno, "--stat_file: can't write to %s: %s", path,
				 strerror(errno));
	return 0;
}

static void close_log(struct run *run)
{
	if (run->log != NULL && run->log != stdout)
		fclose(run->log);
}

/* Ends the threads, and says what went wrong in them. */
static int gather(struct run *run, struct rmem_error *error)
{
	int rc = touch_crew_join(run->crew, JOIN_MS);

	if (rc != 0)
		return rmem_fail(
			error, ETIMEDOUT,
			"a thread hangs in an access to %s: its server is gone, or very slow",
			run->area.path ? run->area.path : "memory");
	rc = touch_crew_error(run->crew, error);
	touch_crew_destroy(run->crew);
	run->crew = NULL;
	if (rc == 0)
		rc = touch_area_sync(&run->area, error);
	return rc;
}

static int summarize(struct run *run, int rc, struct rmem_error *error)
{
	if (rc != 0) {
		run->result.ended_by = "error";
		run->result.error = error->text;
	}
	run->options.json ? touch_result_json(&run->result, stdout)
			  : touch_result_print(&run->result, stdout);
	if (fflush(stdout) != 0 && rc == 0)
		rc = rmem_fail(error, errno, "can't write the summary: %s", strerror(errno));
	return rc;
}

static int touch(struct run *run, struct rmem_error *error)
{
	struct rmem_error later = {0};
	sigset_t signals;
	int rc, gathered;

	rc = block_signals(&run->signal_fd, &signals, error);
	if (rc != 0)
		return rc;
	run->start_ns = rmem_now_ns();
	rc = touch_crew_create(&run->options, &run->area, &run->crew, error);
	if (rc != 0)
		return rc;
	rc = loop(run, error);
	/* A second signal ends the process at once. */
	sigprocmask(SIG_UNBLOCK, &signals, NULL);
	gathered = gather(run, &later);
	if (rc == 0 && gathered != 0) {
		rc = gathered;
		*error = later;
	}
	return summarize(run, rc, error);
}

static int run_all(struct run *run, struct rmem_error *error)
{
	int rc = choose_stores(&run->options, &run->result.stores, error);

	if (rc == 0)
		rc = open_log(run, error);
	if (rc != 0)
		return rc;
	rc = touch_area_create(&run->options, &run->area, error);
	if (rc == 0) {
		rc = touch(run, error);
		/* A thread that hangs in the memory may still come back. */
		if (run->crew == NULL)
			touch_area_destroy(&run->area);
	}
	close_log(run);
	return rc;
}

int main(int argc, char **argv)
{
	static struct run run = {.signal_fd = -1}; /* large: holds the rates */
	struct rmem_error error = {0};
	enum touch_action action;
	int rc;

	rc = touch_options_parse(argc, argv, &run.options, &action, &error);
	if (rc != 0) {
		fprintf(stderr, "memtouch: %s\n", error.text);
		return EXIT_USAGE;
	}
	if (action == TOUCH_HELP)
		touch_options_help(stdout);
	else if (action == TOUCH_VERSION)
		puts("memtouch " RMEM_VERSION);
	if (action != TOUCH_RUN)
		return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
	if (run.options.no_avx512 && !run.options.nt_stores)
		fputs("memtouch: --no_avx512 changes nothing without --nt_stores: ordinary stores "
		      "are taken\n",
		      stderr);
	run.result.options = &run.options;
	run.show_progress = isatty(STDERR_FILENO) != 0;
	rc = run_all(&run, &error);
	if (rc != 0) {
		fprintf(stderr, "memtouch: %s\n", error.text);
		/* With a thread that hangs nothing can be waited for any more. */
		if (run.crew != NULL)
			_exit(EXIT_FAILURE);
		return EXIT_FAILURE;
	}
	/* Without an end of its own a signal is the regular one. */
	if (run.signal != 0 && (run.result.run_ns == 0 || run.options.duration_ms != 0))
		return EXIT_SIGNAL + run.signal;
	return EXIT_SUCCESS;
}
