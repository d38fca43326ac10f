/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fabric_rig.h"

#include <check.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "engine/stream.h"

static char folder[64];

static void shm_url(char *url, size_t size, const char *in, unsigned serial)
{
	snprintf(url, size, "shm:%s/%u.sock", in, serial);
}

struct rig_provider rig_providers[] = {
	{"shm", &rmem_fabric_shm, shm_url},
};
const int rig_provider_count = (int)RMEM_COUNT_OF(rig_providers);

static void verbs_url(char *url, size_t size, const char *in, unsigned serial)
{
	(void)in;
	snprintf(url, size, "verbs://%s:%u", getenv("RMEM_TEST_VERBS"), 20000 + serial % 20000);
}

static void __attribute__((constructor)) choose_provider(void)
{
	if (getenv("RMEM_TEST_DEBUG") != NULL)
		rmem_log_set_level(RMEM_LOG_FABRIC, RMEM_LOG_DEBUG);
	if (getenv("RMEM_TEST_VERBS") == NULL)
		return;
	rig_providers[0] = (struct rig_provider){"verbs", rmem_fabric_find("verbs://x"), verbs_url};
	if (rig_providers[0].fabric == NULL) {
		fputs("RMEM_TEST_VERBS is set, and this build has no verbs fabric\n", stderr);
		_exit(1);
	}
}

void rig_folder_make(void)
{
	strcpy(folder, "/tmp/rmem-test-XXXXXX");
	if (mkdtemp(folder) == NULL)
		abort();
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk)
{
	(void)info;
	(void)type;
	(void)walk;
	return remove(path);
}

void rig_folder_remove(void)
{
	nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

const char *rig_folder(void)
{
	return folder;
}

static struct rmem_server *served; /* in the server's process */

static void end_server(int signal_number)
{
	(void)signal_number;
	rmem_server_stop(served);
}

void rig_server_options(struct rmem_server_options *options)
{
	rmem_server_options_init(options);
	options->pool.size_bytes = RIG_REGIONS * RIG_REGION_BYTES;
	options->region_max_bytes = RIG_REGION_BYTES;
	options->allow_unauthenticated = true;
}

static void serve(const struct rmem_server_options *options, const char *url, int ready_fd)
{
	struct sigaction action = {.sa_handler = end_server};
	struct rmem_error error;

	if (rmem_server_create(options, &served, &error) != 0 ||
	    rmem_server_listen(served, url, &error) != 0 ||
	    rmem_server_start(served, &error) != 0) {
		fprintf(stderr, "%s\n", error.text);
		_exit(1);
	}
	sigaction(SIGTERM, &action, NULL);
	if (write(ready_fd, "", 1) != 1 || rmem_server_run(served, &error) != 0)
		_exit(1);
	rmem_server_destroy(served);
	_exit(0);
}

/* Forks; the parent waits until the child is ready and has its process. */
static pid_t fork_server(int *ready_fd)
{
	int ready[2];
	pid_t pid;
	char byte;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ready[0]);
		*ready_fd = ready[1];
		return 0;
	}
	close(ready[1]);
	ck_assert_msg(read(ready[0], &byte, 1) == 1, "the server did not start");
	close(ready[0]);
	return pid;
}

pid_t rig_server_start_with(const struct rmem_server_options *options, const char *url,
			    unsigned descriptor_limit)
{
	struct rlimit limit = {.rlim_cur = descriptor_limit, .rlim_max = descriptor_limit};
	int ready_fd;
	pid_t pid = fork_server(&ready_fd);

	if (pid > 0)
		return pid;
	if (getenv("RMEM_TEST_DEBUG") == NULL)
		rmem_log_set_level(RMEM_LOG_SERVER, RMEM_LOG_ERROR);
	if (descriptor_limit != 0 && setrlimit(RLIMIT_NOFILE, &limit) != 0)
		_exit(1);
	serve(options, url, ready_fd);
	return -1;
}

pid_t rig_server_start(const char *url)
{
	char number[16];
	int ready_fd;
	pid_t pid = fork_server(&ready_fd);

	if (pid > 0)
		return pid;
	snprintf(number, sizeof(number), "%d", ready_fd);
	setenv("RIG_SERVER_READY", number, 1);
	setenv("RIG_SERVER_URL", url, 1);
	execl("/proc/self/exe", "rig-server", (char *)NULL);
	_exit(1);
}

/* The other end of rig_server_start(). */
static void __attribute__((constructor)) become_server(void)
{
	const char *url = getenv("RIG_SERVER_URL");
	struct rmem_server_options options;

	if (url == NULL)
		return;
	if (getenv("RMEM_TEST_DEBUG") == NULL)
		rmem_log_set_level(RMEM_LOG_SERVER, RMEM_LOG_ERROR);
	rig_server_options(&options);
	serve(&options, url, atoi(getenv("RIG_SERVER_READY")));
}

void rig_server_end(pid_t server, int signal_number)
{
	int status;

	kill(server, signal_number);
	ck_assert_int_eq(waitpid(server, &status, 0), server);
	if (signal_number == SIGTERM)
		ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
			      "the server ended with status %x", status);
}

void rig_connect(struct rig *rig)
{
	struct rmem_error error;
	int rc = rig->fabric->connect(rig->port, rig->url, RIG_TIMEOUT_MS, &rig->conn, &error);

	ck_assert_msg(rc == 0, "%s", error.text);
	rig->fabric->conn_info(rig->conn, &rig->info);
}

static void open_memory(struct rig *rig)
{
	struct rmem_error error;

	rig->memory = mmap(NULL, RIG_MEMORY_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(rig->memory, MAP_FAILED);
	ck_assert_int_eq(rig->fabric->mr_register(rig->port, rig->memory, RIG_MEMORY_BYTES,
						  &rig->mr, &error),
			 0);
}

uint32_t rig_notices;

void rig_open(struct rig *rig, const struct rig_shape *shape)
{
	const struct rmem_lane_options lane = {
		.depth = shape->depth, .inline_bytes = 64, .notices = rig_notices};
	struct rmem_server_options options;
	static unsigned serial;
	struct rmem_error error;

	/* As a program would, so that large writes take the way they take there. */
	ck_assert_int_eq(rmem_stream_select(RMEM_STREAM_AUTO, &error), 0);
	memset(rig, 0, sizeof(*rig));
	rig->provider = &rig_providers[shape->provider];
	rig->fabric = rig->provider->fabric;
	/* A test process of its own has the same serials: the process tells them apart. */
	rig->provider->make_url(rig->url, sizeof(rig->url), folder,
				(unsigned)getpid() * 100 + serial++);
	rig_server_options(&options);
	if (shape->backing != NULL)
		options.pool.backing = shape->backing;
	rig->server = rig_server_start_with(&options, rig->url, 0);
	ck_assert_int_eq(rig->fabric->port_open(rig->url, &rig->port, &error), 0);
	open_memory(rig);
	ck_assert_int_eq(rig->fabric->cq_create(rig->port, shape->cq_depth, &rig->cq, &error), 0);
	rig_connect(rig);
	for (unsigned i = 0; i < shape->lanes; i++) {
		int rc = rig->fabric->lane_open(rig->conn, rig->cq, &lane, &rig->lanes[i], &error);

		ck_assert_msg(rc == 0, "%s", error.text);
		rig->lane_count++;
	}
}

void rig_close(struct rig *rig)
{
	struct rmem_completion completion;

	for (unsigned i = 0; i < rig->lane_count; i++) {
		struct rmem_wr last = {.id = INT64_MAX, .flags = RMEM_WR_SIGNALED};

		rig->fabric->lane_abort(rig->lanes[i]);
		rig_post(rig, i, &last);
		do {
			ck_assert_uint_eq(rig_reap(rig, &completion, 1), 1);
		} while (completion.id != INT64_MAX);
	}
	for (unsigned i = 0; i < rig->lane_count; i++)
		rig->fabric->lane_close(rig->lanes[i]);
	rig->fabric->disconnect(rig->conn);
	rig->fabric->cq_destroy(rig->cq);
	rig->fabric->mr_unregister(rig->mr);
	rig->fabric->port_close(rig->port);
	munmap(rig->memory, RIG_MEMORY_BYTES);
	if (rig->server > 0)
		rig_server_end(rig->server, SIGTERM);
}

struct rmem_wr rig_wr(const struct rig *rig, enum rmem_wr_op op, uint64_t id,
		      const struct rig_place *place)
{
	const struct rmem_remote *remote = &rig->info.regions[place->region];

	return (struct rmem_wr){
		.id = id,
		.remote_address = remote->address + place->offset,
		.remote_key = remote->key,
		.op = (uint8_t)op,
		.flags = RMEM_WR_SIGNALED,
		.sge_count = 1,
		.sge[0] = {.address = rig->memory + place->local,
			   .length = place->length,
			   .key = rig->fabric->mr_key(rig->mr)},
	};
}

void rig_chain(struct rmem_wr *wrs, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		wrs[i].next = i + 1 < count ? &wrs[i + 1] : NULL;
}

void rig_post(struct rig *rig, unsigned lane, struct rmem_wr *chain)
{
	struct rmem_wr *bad = NULL;

	ck_assert_int_eq(rig->fabric->lane_post(rig->lanes[lane], chain, &bad), 0);
	ck_assert_ptr_null(bad);
}

unsigned rig_reap(struct rig *rig, struct rmem_completion *completions, unsigned wanted)
{
	uint64_t deadline_ns = rmem_deadline_in_ms(RIG_TIMEOUT_MS);
	unsigned came = 0;

	while (came < wanted && rmem_now_ns() < deadline_ns) {
		int count = rig->fabric->cq_poll(rig->cq, completions + came, wanted - came);

		ck_assert_int_ge(count, 0);
		came += (unsigned)count;
		if (count == 0)
			rig->fabric->conn_alive(rig->conn);
	}
	return came;
}

void rig_expect_silence(struct rig *rig)
{
	uint64_t deadline_ns = rmem_deadline_in_ms(20);
	struct rmem_completion completion;

	while (rmem_now_ns() < deadline_ns)
		ck_assert_int_eq(rig->fabric->cq_poll(rig->cq, &completion, 1), 0);
}

void rig_do(struct rig *rig, unsigned lane, struct rmem_wr *wr, enum rmem_wc_status status)
{
	struct rmem_completion completion;

	rig_post(rig, lane, wr);
	ck_assert_uint_eq(rig_reap(rig, &completion, 1), 1);
	ck_assert_uint_eq(completion.id, wr->id);
	ck_assert_int_eq(completion.status, status);
}

void rig_fill(uint8_t *bytes, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)(seed * 31ul + i * 7 + i / 251);
}

int rig_readable(int fd, int timeout_ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	return poll(&poll_fd, 1, timeout_ms) > 0;
}
