/* SPDX-License-Identifier: Apache-2.0 */
/* The program rmemd, as a service manager starts and stops it; RMEMD in the environment names it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/fabric_rig.h"
#include "tests/support/runner.h"

static char listen_at[120], socket_path[100], notify_path[100], log_path[100];
static int notify_fd;

static void set_up(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(socket_path, sizeof(socket_path), "%s/%ld.sock", rig_folder(), (long)getpid());
	snprintf(listen_at, sizeof(listen_at), "shm:%s", socket_path);
	snprintf(notify_path, sizeof(notify_path), "%s/%ld.notify", rig_folder(), (long)getpid());
	snprintf(log_path, sizeof(log_path), "%s/%ld.log", rig_folder(), (long)getpid());
	memcpy(address.sun_path, notify_path, strlen(notify_path));
	notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(notify_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	setenv("NOTIFY_SOCKET", notify_path, 1);
}

/* Starts it with options up to a NULL; its log goes to a file. */
static pid_t start(const char *const *options)
{
	const char *arguments[16] = {getenv("RMEMD"), "--listen", listen_at};
	unsigned count = 3;
	pid_t pid;

	ck_assert_ptr_nonnull(arguments[0]);
	while (*options != NULL)
		arguments[count++] = *options++;
	pid = fork();
	if (pid == 0) {
		int log = open(log_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(log, STDERR_FILENO);
		execv(arguments[0], (char **)(uintptr_t)arguments);
		_exit(127);
	}
	return pid;
}

static void expect_notice(const char *wanted)
{
	struct pollfd poll_fd = {.fd = notify_fd, .events = POLLIN};
	char notice[64] = "";

	ck_assert_int_eq(poll(&poll_fd, 1, RIG_TIMEOUT_MS), 1);
	ck_assert_int_gt(recv(notify_fd, notice, sizeof(notice) - 1, 0), 0);
	ck_assert_str_eq(notice, wanted);
}

static void expect_exit(pid_t pid, int wanted)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == wanted, "status %x", status);
}

static void expect_logged(const char *words)
{
	char log[8192] = "";
	int fd = open(log_path, O_RDONLY);

	ck_assert_int_ge(read(fd, log, sizeof(log) - 1), 0);
	close(fd);
	ck_assert_msg(strstr(log, words) != NULL, "%s", log);
}

START_TEST(it_says_when_it_is_ready_and_when_it_stops)
{
	static const char *const options[] = {"--size", "4MiB", NULL};
	struct rmem_status status;
	struct rmem_error error;
	pid_t pid = start(options);

	expect_notice("READY=1");
	ck_assert_int_eq(rmem_server_query_status(listen_at, RIG_TIMEOUT_MS, &status, &error), 0);
	ck_assert_uint_eq(status.pid, (unsigned)pid);
	ck_assert_uint_eq(status.pool_bytes, 4 << 20);
	kill(pid, SIGTERM);
	expect_notice("STOPPING=1");
	expect_exit(pid, 0);
	ck_assert_int_eq(access(socket_path, F_OK), -1);
	expect_logged("exports 4 MiB");
	expect_logged(listen_at);
}
END_TEST

START_TEST(a_signal_while_the_pool_is_made_ends_it_well)
{
	/* Zeroing that much takes longer than a signal. */
	static const char *const options[] = {"--size", "2GiB", NULL};
	pid_t pid = start(options);

	while (access(socket_path, F_OK) != 0 && waitpid(pid, NULL, WNOHANG) == 0) {
		char lock[110];

		snprintf(lock, sizeof(lock), "%s.lock", socket_path);
		if (access(lock, F_OK) != 0)
			continue;
		kill(pid, SIGINT);
		expect_exit(pid, 0);
		break;
	}
	ck_assert_int_eq(access(socket_path, F_OK), -1);
}
END_TEST

/* The state in the newer of a pool file's two headers. */
static uint32_t pool_state(const char *pool)
{
	uint64_t sequences[2];
	uint32_t states[2];
	int fd = open(pool, O_RDONLY);

	for (off_t slot = 0; slot < 2; slot++) {
		ck_assert_int_eq(pread(fd, &states[slot], 4, slot * 2048 + 12), 4);
		ck_assert_int_eq(pread(fd, &sequences[slot], 8, slot * 2048 + 16), 8);
	}
	close(fd);
	return states[sequences[0] > sequences[1] ? 0 : 1];
}

START_TEST(a_pool_file_is_marked_open_and_clean_in_turn)
{
	char pool[100];
	const char *options[] = {"--size", "4MiB", "--backing", pool, NULL};

	snprintf(pool, sizeof(pool), "%s/%ld.pool", rig_folder(), (long)getpid());
	for (unsigned round = 0; round < 2; round++) {
		pid_t pid = start(options);

		expect_notice("READY=1");
		ck_assert_uint_eq(pool_state(pool), 2);
		kill(pid, SIGTERM);
		expect_notice("STOPPING=1");
		expect_exit(pid, 0);
		ck_assert_uint_eq(pool_state(pool), 3);
	}
}
END_TEST

START_TEST(what_is_wrong_is_said_and_the_status_tells)
{
	static const char *const options[] = {"--size", "4MiB", "--backing", "/dev/null", NULL};

	expect_exit(start(options), EXIT_FAILURE);
	expect_logged("not a regular file");
	ck_assert_int_eq(access(socket_path, F_OK), -1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rmemd");
	TCase *life = tcase_create("life");

	tcase_add_unchecked_fixture(life, rig_folder_make, rig_folder_remove);
	tcase_add_checked_fixture(life, set_up, NULL);
	tcase_set_timeout(life, 60);
	tcase_add_test(life, it_says_when_it_is_ready_and_when_it_stops);
	tcase_add_test(life, a_signal_while_the_pool_is_made_ends_it_well);
	tcase_add_test(life, a_pool_file_is_marked_open_and_clean_in_turn);
	tcase_add_test(life, what_is_wrong_is_said_and_the_status_tells);
	suite_add_tcase(suite, life);
	return run_suite(suite);
}
