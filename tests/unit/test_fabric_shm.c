/* SPDX-License-Identifier: Apache-2.0 */
/* What is the shm provider's alone: connecting to whatever may be behind a path. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/deadline.h"
#include "engine/wire.h"
#include "tests/support/fabric_rig.h"
#include "tests/support/runner.h"

static struct rmem_error error;
static struct rmem_port *port;
static struct rmem_conn *conn;
static char url[100];
static const char *path; /* in it */

static void set_up(void)
{
	snprintf(url, sizeof(url), "shm:%s/%ld.sock", rig_folder(), (long)getpid());
	path = url + 4;
	ck_assert_int_eq(rmem_fabric_shm.port_open(url, &port, &error), 0);
}

static void tear_down(void)
{
	rmem_fabric_shm.port_close(port);
}

static void expect_refusal_within(unsigned timeout_ms, int code, const char *words)
{
	ck_assert_int_eq(rmem_fabric_shm.connect(port, url, timeout_ms, &conn, &error), code);
	ck_assert_int_eq(error.code, code);
	ck_assert_msg(strstr(error.text, words) != NULL, "%s", error.text);
}

static void expect_refusal(int code, const char *words)
{
	expect_refusal_within(RIG_TIMEOUT_MS, code, words);
}

static int bound_socket(int type)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, path, strlen(path));
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static int listening_socket(void)
{
	int fd = bound_socket(SOCK_STREAM);

	ck_assert_int_eq(listen(fd, 4), 0);
	return fd;
}

/* What a server that is none answers with. */
struct answer {
	const void *bytes;
	size_t length;
	int fds[20];
	unsigned fd_count;
	int stays; /* open, after its answer */
};

static void send_answer(int fd, const struct answer *answer)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(20 * sizeof(int))];
	} control = {0};
	struct iovec vector = {.iov_base = (void *)(uintptr_t)answer->bytes,
			       .iov_len = answer->length};
	struct msghdr header = {.msg_iov = &vector, .msg_iovlen = 1};

	if (answer->fd_count > 0) {
		struct cmsghdr *rights;

		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(answer->fd_count * sizeof(int));
		rights = CMSG_FIRSTHDR(&header);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(answer->fd_count * sizeof(int));
		memcpy(CMSG_DATA(rights), answer->fds, answer->fd_count * sizeof(int));
	}
	(void)!sendmsg(fd, &header, MSG_NOSIGNAL);
}

/* Answers one client, in a process of its own. */
static pid_t answer_with(const struct answer *answer)
{
	int listening = listening_socket(), fd;
	char hello[RMEM_WIRE_MAX_BYTES];
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fd = accept(listening, NULL, NULL);
		(void)!recv(fd, hello, sizeof(hello), 0);
		if (answer->length > 0)
			send_answer(fd, answer);
		if (answer->stays)
			pause();
		_exit(0);
	}
	close(listening);
	return pid;
}

static void end_answer(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(path);
}

static void expect_answer_refused(const struct answer *answer, int code, const char *words)
{
	pid_t pid = answer_with(answer);

	expect_refusal(code, words);
	end_answer(pid);
}

START_TEST(no_socket_asks_whether_a_server_runs)
{
	expect_refusal(-ENOENT, "is rmemd running");
}
END_TEST

START_TEST(a_socket_nobody_listens_at_is_told_apart)
{
	close(bound_socket(SOCK_STREAM));
	expect_refusal(-ECONNREFUSED, "start it again");
}
END_TEST

START_TEST(a_socket_of_another_kind_is_told_apart)
{
	close(bound_socket(SOCK_DGRAM));
	unlink(path);
	int fd = bound_socket(SOCK_DGRAM);

	expect_refusal(-EPROTO, "some other program");
	close(fd);
}
END_TEST

START_TEST(a_socket_without_permission_names_the_setting)
{
	int fd = listening_socket();
	int status;
	pid_t pid;

	chmod(path, 0600);
	chmod(rig_folder(), 0755);
	pid = fork();
	if (pid == 0) {
		if (geteuid() == 0 && seteuid(65534) != 0)
			_exit(77);
		if (geteuid() != 65534)
			chmod(path, 0);
		_exit(rmem_fabric_shm.connect(port, url, 1000, &conn, &error) == -EACCES &&
				      strstr(error.text, "socket_mode") != NULL
			      ? 0
			      : 1);
	}
	waitpid(pid, &status, 0);
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	close(fd);
}
END_TEST

START_TEST(a_url_that_can_not_be_is_refused)
{
	static const char *const bad[] = {"shm:relative", "shm:", "shm", "verbs://host", ""};
	char longer[200] = "shm:/";

	memset(longer + 5, 'x', 150);
	ck_assert_int_eq(rmem_fabric_shm.connect(port, longer, 1000, &conn, &error), -ENAMETOOLONG);
	for (unsigned i = 0; i < RMEM_COUNT_OF(bad); i++) {
		ck_assert_int_eq(rmem_fabric_shm.connect(port, bad[i], 1000, &conn, &error),
				 -EINVAL);
		ck_assert_int_eq(rmem_fabric_shm.port_open(bad[i], &port, &error), -EINVAL);
	}
}
END_TEST

START_TEST(a_server_that_never_answers_is_given_up_in_time)
{
	uint64_t started_ns = rmem_now_ns();
	pid_t pid = answer_with(&(struct answer){.stays = 1});

	expect_refusal_within(100, -ETIMEDOUT, "no answer in time");
	ck_assert_uint_lt(rmem_now_ns() - started_ns, (uint64_t)5 * RMEM_NS_PER_S);
	end_answer(pid);
}
END_TEST

START_TEST(a_server_that_never_accepts_is_given_up_in_time)
{
	uint64_t started_ns = rmem_now_ns();
	int fd = bound_socket(SOCK_STREAM);
	struct rmem_conn *waiting;

	/* Room for one; it waits for an answer, the next for being accepted. */
	ck_assert_int_eq(listen(fd, 0), 0);
	ck_assert_int_eq(rmem_fabric_shm.connect(port, url, 100, &waiting, &error), -ETIMEDOUT);
	expect_refusal_within(100, -ETIMEDOUT, "");
	ck_assert_uint_lt(rmem_now_ns() - started_ns, (uint64_t)5 * RMEM_NS_PER_S);
	close(fd);
}
END_TEST

START_TEST(a_program_that_is_no_server_is_told_apart)
{
	static const char http[] = "HTTP/1.1 400 Bad Request\r\n\r\n";

	expect_answer_refused(&(struct answer){http, sizeof(http), .stays = 1}, -EPROTO,
			      "no rmemd");
	expect_answer_refused(&(struct answer){http, 1, .stays = 0}, -ECONNRESET, "ended before");
	expect_answer_refused(&(struct answer){.stays = 0}, -ECONNRESET, "ended before");
}
END_TEST

START_TEST(a_server_of_another_version_is_told_apart)
{
	uint8_t message[RMEM_WIRE_MAX_BYTES];
	size_t length = rmem_wire_put_status_request(message);

	message[4] = 7;
	expect_answer_refused(&(struct answer){message, length, .stays = 1}, -EPROTO,
			      "another version");
	length = rmem_wire_put_error(message, RMEM_WIRE_CODE_VERSION, "it speaks version 7");
	message[4] = 7;
	expect_answer_refused(&(struct answer){message, length, .stays = 1}, -EPROTO,
			      "it speaks version 7");
}
END_TEST

static unsigned own_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count;
}

/* A welcome with one region of 2 MiB in the first of the descriptors. */
static struct rmem_welcome good_welcome(void)
{
	return (struct rmem_welcome){
		.incarnation = 1,
		.region_count = 1,
		.regions[0] = {.remote = {.address = 1 << 30, .length = 2 << 20, .key = 64},
			       .page_bytes = 4096},
	};
}

static void expect_welcome(const struct rmem_welcome *welcome, int fd, unsigned fd_count, int code)
{
	uint8_t message[RMEM_WIRE_MAX_BYTES];
	struct answer answer = {.bytes = message, .fd_count = fd_count, .stays = 1};
	unsigned before;
	pid_t pid;
	int rc;

	for (unsigned i = 0; i < fd_count; i++)
		answer.fds[i] = fd;
	answer.length = rmem_wire_put_welcome(message, welcome);
	before = own_descriptors();
	pid = answer_with(&answer);
	rc = rmem_fabric_shm.connect(port, url, RIG_TIMEOUT_MS, &conn, &error);
	ck_assert_msg(rc == code, "%d: %s", rc, error.text);
	if (rc == 0)
		rmem_fabric_shm.disconnect(conn);
	ck_assert_uint_eq(own_descriptors(), before);
	end_answer(pid);
}

START_TEST(a_welcome_that_promises_too_much_is_refused)
{
	int fd = memfd_create("test", MFD_ALLOW_SEALING), ends[2];
	struct rmem_welcome welcome = good_welcome();

	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(ftruncate(fd, 2 << 20), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	expect_welcome(&welcome, fd, 1, 0);
	/* More descriptors than were asked for, and far more: none stays open. */
	expect_welcome(&welcome, fd, 3, 0);
	expect_welcome(&welcome, fd, 20, 0);
	expect_welcome(&welcome, fd, 0, -EPROTO);
	expect_welcome(&welcome, ends[0], 1, -EPROTO);
	welcome.regions[0].remote.length += 4096; /* behind the end of the file */
	expect_welcome(&welcome, fd, 1, -EPROTO);
	welcome = good_welcome();
	welcome.regions[0].fd_offset = 4096;
	expect_welcome(&welcome, fd, 1, -EPROTO);
	welcome = good_welcome();
	welcome.regions[0].fd_index = 1;
	expect_welcome(&welcome, fd, 1, -EPROTO);
	welcome.regions[0].fd_index = RMEM_WIRE_NO_FD;
	expect_welcome(&welcome, fd, 1, -EPROTO);
	welcome = good_welcome();
	welcome.regions[0].remote.key = 65; /* of another region */
	expect_welcome(&welcome, fd, 1, -EPROTO);
	welcome.regions[0].remote.key = 0;
	expect_welcome(&welcome, fd, 1, -EPROTO);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}
END_TEST

START_TEST(memory_can_be_registered_until_there_is_no_room)
{
	static struct rmem_mr *mrs[2000];
	unsigned count = 0;
	int rc;

	while ((rc = rmem_fabric_shm.mr_register(port, mrs, 4096, &mrs[count], &error)) == 0)
		ck_assert_uint_lt(++count, RMEM_COUNT_OF(mrs));
	ck_assert_int_eq(rc, -ENOSPC);
	rmem_fabric_shm.mr_unregister(mrs[count / 2]);
	ck_assert_int_eq(rmem_fabric_shm.mr_register(port, mrs, 4096, &mrs[count / 2], &error), 0);
	while (count > 0)
		rmem_fabric_shm.mr_unregister(mrs[--count]);
	ck_assert_int_eq(rmem_fabric_shm.mr_register(port, NULL, 4096, &mrs[0], &error), -EINVAL);
	ck_assert_int_eq(rmem_fabric_shm.mr_register(port, mrs, 0, &mrs[0], &error), -EINVAL);
}
END_TEST

static const struct rig_place somewhere = {1, 4096, 0, 64};

START_TEST(a_pool_file_that_is_cut_costs_the_connection_and_nothing_else)
{
	struct rmem_completion completions[4];
	struct rmem_wr wrs[4];
	struct rig rig;
	char pool[100];

	snprintf(pool, sizeof(pool), "%s/pool-%ld", rig_folder(), (long)getpid());
	rig_open(&rig,
		 &(struct rig_shape){.lanes = 2, .depth = 8, .cq_depth = 16, .backing = pool});
	for (unsigned i = 0; i < 4; i++)
		wrs[i] = rig_wr(&rig, i % 2 == 0 ? RMEM_WR_WRITE : RMEM_WR_READ, i, &somewhere);
	rig_do(&rig, 0, &wrs[0], RMEM_WC_OK);
	ck_assert_int_eq(truncate(pool, 4096), 0);
	rig_chain(wrs, 4);
	rig_post(&rig, 0, wrs);
	ck_assert_uint_eq(rig_reap(&rig, completions, 4), 4);
	ck_assert_int_eq(completions[0].status, RMEM_WC_PEER_LOST);
	for (unsigned i = 1; i < 4; i++)
		ck_assert_int_eq(completions[i].status, RMEM_WC_FLUSHED);
	ck_assert(rig_readable(rig.fabric->conn_fd(rig.conn), RIG_TIMEOUT_MS));
	ck_assert_int_eq(rig.fabric->conn_alive(rig.conn), -EIO);
	rig_do(&rig, 0, &wrs[3], RMEM_WC_FLUSHED);
	rig_do(&rig, 1, &wrs[3], RMEM_WC_FLUSHED);
	rig_close(&rig);
}
END_TEST

START_TEST(a_bus_error_elsewhere_is_not_swallowed)
{
	struct rig rig;
	char pool[100];
	int status, fd;
	pid_t pid;

	snprintf(pool, sizeof(pool), "%s/pool-%ld", rig_folder(), (long)getpid());
	rig_open(&rig,
		 &(struct rig_shape){.lanes = 1, .depth = 8, .cq_depth = 16, .backing = pool});
	pid = fork();
	if (pid == 0) {
		volatile char *map;

		fd = memfd_create("test", 0);
		(void)!ftruncate(fd, 4096);
		map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
		(void)!ftruncate(fd, 0);
		close(STDERR_FILENO); /* a sanitizer would tell of it */
		_exit(map[0]);
	}
	waitpid(pid, &status, 0);
	ck_assert(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
	rig_close(&rig);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fabric_shm");
	TCase *connecting = tcase_create("connecting"), *cut = tcase_create("cut");

	tcase_add_unchecked_fixture(connecting, rig_folder_make, rig_folder_remove);
	tcase_add_checked_fixture(connecting, set_up, tear_down);
	tcase_set_timeout(connecting, 60);
	tcase_add_test(connecting, no_socket_asks_whether_a_server_runs);
	tcase_add_test(connecting, a_socket_nobody_listens_at_is_told_apart);
	tcase_add_test(connecting, a_socket_of_another_kind_is_told_apart);
	tcase_add_test(connecting, a_socket_without_permission_names_the_setting);
	tcase_add_test(connecting, a_url_that_can_not_be_is_refused);
	tcase_add_test(connecting, a_server_that_never_answers_is_given_up_in_time);
	tcase_add_test(connecting, a_server_that_never_accepts_is_given_up_in_time);
	tcase_add_test(connecting, a_program_that_is_no_server_is_told_apart);
	tcase_add_test(connecting, a_server_of_another_version_is_told_apart);
	tcase_add_test(connecting, a_welcome_that_promises_too_much_is_refused);
	tcase_add_test(connecting, memory_can_be_registered_until_there_is_no_room);
	tcase_add_unchecked_fixture(cut, rig_folder_make, rig_folder_remove);
	tcase_set_timeout(cut, 60);
	tcase_add_test(cut, a_pool_file_that_is_cut_costs_the_connection_and_nothing_else);
	tcase_add_test(cut, a_bus_error_elsewhere_is_not_swallowed);
	suite_add_tcase(suite, connecting);
	suite_add_tcase(suite, cut);
	return run_suite(suite);
}
