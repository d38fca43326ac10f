/* SPDX-License-Identifier: Apache-2.0 */
/* The server's life: its sockets, its clients, its status. test_server_abuse.c has clients that
 * mean no good. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "engine/control.h"
#include "tests/support/fabric_rig.h"
#include "tests/support/runner.h"

static struct rmem_error error;
static char url[100];
static const char *path; /* in it */
static struct rmem_server_options options;

static void set_up(void)
{
	rmem_log_set_level(RMEM_LOG_SERVER, RMEM_LOG_ERROR);
	snprintf(url, sizeof(url), "shm:%s/%ld.sock", rig_folder(), (long)getpid());
	path = url + 4;
	rig_server_options(&options);
}

static pid_t start(void)
{
	return rig_server_start_with(&options, url, 0);
}

static struct rmem_status ask_status(void)
{
	struct rmem_status status;
	int rc = rmem_server_query_status(url, RIG_TIMEOUT_MS, &status, &error);

	ck_assert_msg(rc == 0, "%s", error.text);
	return status;
}

/* Until the server has noticed who came and went. */
static void expect_clients(unsigned count)
{
	uint64_t deadline_ns = rmem_deadline_in_ms(RIG_TIMEOUT_MS);

	while (ask_status().client_count != count)
		ck_assert_msg(rmem_now_ns() < deadline_ns, "%u clients", ask_status().client_count);
}

static struct rmem_conn *connect_client(void)
{
	struct rmem_port *port;
	struct rmem_conn *conn;
	int rc;

	ck_assert_int_eq(rmem_fabric_shm.port_open(url, &port, &error), 0);
	rc = rmem_fabric_shm.connect(port, url, RIG_TIMEOUT_MS, &conn, &error);
	ck_assert_msg(rc == 0, "%s", error.text);
	rmem_fabric_shm.port_close(port);
	return conn;
}

/* Claims `path` for a server of this process, which is never started. */
static int claim(struct rmem_server **server)
{
	int rc;

	ck_assert_int_eq(rmem_server_create(&options, server, &error), 0);
	rc = rmem_server_listen(*server, url, &error);
	if (rc != 0)
		rmem_server_destroy(*server);
	return rc;
}

START_TEST(status_tells_what_is_exported)
{
	pid_t server = start();
	struct rmem_status status = ask_status();

	ck_assert_uint_eq(status.pool_bytes, RIG_REGIONS * RIG_REGION_BYTES);
	ck_assert_uint_eq(status.region_count, RIG_REGIONS);
	ck_assert_uint_eq(status.pid, (unsigned)server);
	ck_assert_uint_eq(status.client_count, 0);
	ck_assert_uint_ne(status.incarnation, 0);
	ck_assert_uint_ge(status.page_bytes, 4096);
	ck_assert_uint_lt(status.uptime_ms, 60000);
	ck_assert_str_eq(status.backing, "anonymous");
	rig_server_end(server, SIGTERM);
}
END_TEST

START_TEST(clients_are_counted_while_they_are_there)
{
	struct rmem_conn *conns[20];
	pid_t server = start();

	for (unsigned i = 0; i < 20; i++)
		conns[i] = connect_client();
	expect_clients(20);
	for (unsigned i = 0; i < 20; i++)
		rmem_fabric_shm.disconnect(conns[i]);
	expect_clients(0);
	rig_server_end(server, SIGTERM);
}
END_TEST

START_TEST(clients_that_crash_disturb_nobody)
{
	pid_t server = start();
	struct rmem_conn *conn = connect_client();

	for (unsigned i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			connect_client();
			kill(getpid(), SIGKILL);
		}
		waitpid(pid, NULL, 0);
	}
	expect_clients(1);
	ck_assert_int_eq(rmem_fabric_shm.conn_alive(conn), 0);
	rmem_fabric_shm.disconnect(conn);
	rig_server_end(server, SIGTERM);
}
END_TEST

START_TEST(more_clients_than_allowed_are_turned_away_until_one_leaves)
{
	struct rmem_conn *conns[3], *extra;
	struct rmem_port *port;
	pid_t server;

	options.clients_max = 3;
	server = start();
	for (unsigned i = 0; i < 3; i++)
		conns[i] = connect_client();
	ck_assert_int_eq(rmem_fabric_shm.port_open(url, &port, &error), 0);
	ck_assert_int_eq(rmem_fabric_shm.connect(port, url, RIG_TIMEOUT_MS, &extra, &error),
			 -EBUSY);
	ck_assert_msg(strstr(error.text, "as many clients") != NULL, "%s", error.text);
	rmem_fabric_shm.disconnect(conns[0]);
	while (rmem_fabric_shm.connect(port, url, RIG_TIMEOUT_MS, &conns[0], &error) != 0)
		ck_assert_int_eq(error.code, -EBUSY);
	for (unsigned i = 0; i < 3; i++)
		rmem_fabric_shm.disconnect(conns[i]);
	rmem_fabric_shm.port_close(port);
	rig_server_end(server, SIGTERM);
}
END_TEST

START_TEST(a_server_that_stops_removes_its_socket_and_tells_its_clients)
{
	pid_t server = start();
	struct rmem_conn *conn = connect_client();
	char lock[120];

	snprintf(lock, sizeof(lock), "%s.lock", path);
	ck_assert_int_eq(access(path, F_OK), 0);
	rig_server_end(server, SIGTERM);
	ck_assert_int_eq(access(path, F_OK), -1);
	ck_assert_int_eq(access(lock, F_OK), -1);
	ck_assert_int_eq(rmem_fabric_shm.conn_alive(conn), -ESHUTDOWN);
	rmem_fabric_shm.disconnect(conn);
}
END_TEST

START_TEST(a_server_stopped_before_it_runs_does_not_run)
{
	struct rmem_server *server;

	ck_assert_int_eq(claim(&server), 0);
	ck_assert_int_eq(rmem_server_start(server, &error), 0);
	rmem_server_stop(server);
	ck_assert_int_eq(rmem_server_run(server, &error), 0);
	rmem_server_destroy(server);
}
END_TEST

START_TEST(the_socket_of_a_dead_server_is_replaced)
{
	pid_t server = start();

	rig_server_end(server, SIGKILL);
	ck_assert_int_eq(access(path, F_OK), 0);
	server = start();
	ck_assert_uint_eq(ask_status().pid, (unsigned)server);
	rig_server_end(server, SIGTERM);
}
END_TEST

START_TEST(a_live_server_is_not_replaced_and_named)
{
	pid_t server = start();
	struct rmem_server *second;
	char words[32];

	ck_assert_int_eq(claim(&second), -EADDRINUSE);
	snprintf(words, sizeof(words), "process %ld", (long)server);
	ck_assert_msg(strstr(error.text, words) != NULL, "%s", error.text);
	ck_assert_uint_eq(ask_status().pid, (unsigned)server);
	rig_server_end(server, SIGTERM);
}
END_TEST

START_TEST(a_live_socket_of_another_program_is_not_replaced)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct rmem_server *server;
	char words[32];
	int fd;

	memcpy(address.sun_path, path, strlen(path));
	for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
		fd = socket(AF_UNIX, type, 0);
		ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
		if (type == SOCK_STREAM)
			ck_assert_int_eq(listen(fd, 1), 0);
		ck_assert_int_eq(claim(&server), -EADDRINUSE);
		if (type == SOCK_STREAM) {
			snprintf(words, sizeof(words), "process %ld", (long)getpid());
			ck_assert_msg(strstr(error.text, words) != NULL, "%s", error.text);
		}
		close(fd);
		unlink(path);
	}
}
END_TEST

START_TEST(a_path_that_can_not_be_a_socket_is_refused)
{
	static const struct {
		const char *url;
		int code;
		const char *words;
	} bad[] = {
		{"shm:/no/such/folder/a.sock", -ENOENT, "folder"},
		{"shm:relative", -EINVAL, "absolute"},
		{"shm:", -EINVAL, "absolute"},
		{"tcp://host:1", -EINVAL, "shm:/path"},
		{"shm:/tmp", -EEXIST, "no socket"},
		{"shm:/proc/self/a.sock", -ENOENT, "folder"},
		{"shm:/a-name-that-is-longer-than-the-hundred-and-seven-bytes/that-the-address-of-"
		 "a-unix-socket-has-room-for/rmemd.sock",
		 -ENAMETOOLONG, "107"},
	};
	struct rmem_server *server;
	int fd;

	for (unsigned i = 0; i < RMEM_COUNT_OF(bad); i++) {
		ck_assert_int_eq(rmem_server_create(&options, &server, &error), 0);
		ck_assert_int_eq(rmem_server_listen(server, bad[i].url, &error), bad[i].code);
		ck_assert_msg(strstr(error.text, bad[i].words) != NULL, "%s", error.text);
		rmem_server_destroy(server);
	}
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	close(fd);
	ck_assert_int_eq(claim(&server), -EEXIST);
	ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

START_TEST(the_socket_has_the_rights_that_were_asked_for)
{
	static const unsigned modes[] = {0600, 0660, 0666};

	for (unsigned i = 0; i < RMEM_COUNT_OF(modes); i++) {
		struct stat found;
		pid_t server;

		umask(077);
		options.socket_mode = modes[i];
		server = start();
		ck_assert_int_eq(stat(path, &found), 0);
		ck_assert_uint_eq(found.st_mode & 0777, modes[i]);
		rig_server_end(server, SIGTERM);
	}
}
END_TEST

START_TEST(a_socket_that_took_its_place_is_not_removed)
{
	pid_t server = start();
	struct stat found;

	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	rig_server_end(server, SIGTERM);
	ck_assert_int_eq(stat(path, &found), 0);
	ck_assert(S_ISDIR(found.st_mode));
	rmdir(path);
}
END_TEST

/* A server that tries once to start: exits with 0 when it served until it was told to stop, and
 * with 1 when it was refused. */
static pid_t race(const int gate[2])
{
	pid_t pid = fork();
	struct rmem_server *server;
	char byte;

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(gate[1]);
	(void)!read(gate[0], &byte, 1); /* ends for all at once, when nobody has the other end */
	if (claim(&server) != 0)
		_exit(error.code == -EADDRINUSE ? 1 : 2);
	if (rmem_server_start(server, &error) != 0)
		_exit(3);
	signal(SIGTERM, SIG_DFL);
	_exit(rmem_server_run(server, &error) == 0 ? 0 : 4);
}

START_TEST(of_servers_that_start_at_once_one_wins)
{
	enum { RACERS = 8, ROUNDS = 15 };

	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned refused = 0;
		pid_t pids[RACERS];
		int gate[2], status;

		ck_assert_int_eq(pipe(gate), 0);
		for (unsigned i = 0; i < RACERS; i++)
			pids[i] = race(gate);
		close(gate[0]);
		close(gate[1]);
		while (refused < RACERS - 1) {
			pid_t pid = wait(&status);

			ck_assert_int_gt(pid, 0);
			ck_assert(WIFEXITED(status));
			ck_assert_int_eq(WEXITSTATUS(status), 1);
			for (unsigned i = 0; i < RACERS; i++) {
				if (pids[i] == pid)
					pids[i] = 0;
			}
			refused++;
		}
		for (unsigned i = 0; i < RACERS; i++) {
			if (pids[i] == 0)
				continue;
			while (rmem_server_query_status(url, 1000, &(struct rmem_status){0},
							&error) != 0)
				;
			ck_assert_uint_eq(ask_status().pid, (unsigned)pids[i]);
			/* Leaves a stale socket for the next round. */
			rig_server_end(pids[i], SIGKILL);
		}
	}
}
END_TEST

START_TEST(a_server_that_does_not_answer_is_given_up_in_time)
{
	struct rmem_status status;
	pid_t server = start();
	uint64_t started_ns;

	kill(server, SIGSTOP);
	started_ns = rmem_now_ns();
	ck_assert_int_eq(rmem_server_query_status(url, 100, &status, &error), -ETIMEDOUT);
	ck_assert_uint_lt(rmem_now_ns() - started_ns, (uint64_t)5 * RMEM_NS_PER_S);
	kill(server, SIGCONT);
	ask_status();
	rig_server_end(server, SIGTERM);
}
END_TEST

START_TEST(a_pool_in_a_file_is_served_with_its_incarnation_again)
{
	char pool[100];
	struct rmem_status first, second;
	pid_t server;

	snprintf(pool, sizeof(pool), "%s/pool-%ld", rig_folder(), (long)getpid());
	options.pool.backing = pool;
	server = start();
	first = ask_status();
	ck_assert_str_eq(first.backing, pool);
	ck_assert(first.flags & RMEM_STATUS_PERSISTENT);
	rig_server_end(server, SIGKILL);
	server = start();
	second = ask_status();
	ck_assert_uint_eq(first.incarnation, second.incarnation);
	rig_server_end(server, SIGTERM);
}
END_TEST

/* What connecting as `owner` (a digit; 0: nobody) says. */
static int connect_as(uint8_t owner)
{
	const uint8_t name[RMEM_OWNER_BYTES] = {owner};
	struct rmem_port *port;
	struct rmem_conn *conn;
	int rc;

	rmem_owner_set(name);
	ck_assert_int_eq(rmem_fabric_shm.port_open(url, &port, &error), 0);
	rc = rmem_fabric_shm.connect(port, url, RIG_TIMEOUT_MS, &conn, &error);
	if (rc == 0)
		rmem_fabric_shm.disconnect(conn);
	rmem_fabric_shm.port_close(port);
	return rc;
}

START_TEST(memory_with_content_is_for_its_owner_alone)
{
	pid_t server = start();

	ck_assert_int_eq(connect_as(0), 0);
	ck_assert_int_eq(connect_as(1), 0);
	ck_assert_int_eq(connect_as(2), -EEXIST);
	ck_assert_ptr_nonnull(strstr(error.text, "another volume (01"));
	ck_assert_int_eq(connect_as(0), -EEXIST);
	ck_assert_int_eq(connect_as(1), 0);
	rig_server_end(server, SIGTERM);
	server = start(); /* with new memory */
	ck_assert_int_eq(connect_as(2), 0);
	rig_server_end(server, SIGTERM);
}
END_TEST

START_TEST(a_pool_file_remembers_its_owner)
{
	char pool[100];
	pid_t server;

	snprintf(pool, sizeof(pool), "%s/owned-%ld", rig_folder(), (long)getpid());
	options.pool.backing = pool;
	for (unsigned i = 0; i < 2; i++) {
		server = start();
		ck_assert_int_eq(connect_as(7), 0);
		rig_server_end(server, i == 0 ? SIGKILL : SIGTERM);
		server = start();
		ck_assert_int_eq(connect_as(8), -EEXIST);
		rig_server_end(server, SIGTERM);
	}
}
END_TEST

START_TEST(too_many_regions_are_refused)
{
	struct rmem_server *server;

	options.region_max_bytes = 4096;
	ck_assert_int_eq(claim(&server), 0);
	ck_assert_int_eq(rmem_server_start(server, &error), -EINVAL);
	rmem_server_destroy(server);
	ck_assert_int_eq(access(path, F_OK), -1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("server");
	TCase *clients = tcase_create("clients"), *sockets = tcase_create("sockets");

	tcase_add_unchecked_fixture(clients, rig_folder_make, rig_folder_remove);
	tcase_add_unchecked_fixture(sockets, rig_folder_make, rig_folder_remove);
	tcase_add_checked_fixture(clients, set_up, NULL);
	tcase_add_checked_fixture(sockets, set_up, NULL);
	tcase_set_timeout(clients, 60);
	tcase_set_timeout(sockets, 60);
	tcase_add_test(clients, status_tells_what_is_exported);
	tcase_add_test(clients, clients_are_counted_while_they_are_there);
	tcase_add_test(clients, clients_that_crash_disturb_nobody);
	tcase_add_test(clients, more_clients_than_allowed_are_turned_away_until_one_leaves);
	tcase_add_test(clients, a_server_that_stops_removes_its_socket_and_tells_its_clients);
	tcase_add_test(clients, a_server_stopped_before_it_runs_does_not_run);
	tcase_add_test(clients, a_server_that_does_not_answer_is_given_up_in_time);
	tcase_add_test(clients, a_pool_in_a_file_is_served_with_its_incarnation_again);
	tcase_add_test(clients, memory_with_content_is_for_its_owner_alone);
	tcase_add_test(clients, a_pool_file_remembers_its_owner);
	tcase_add_test(clients, too_many_regions_are_refused);
	tcase_add_test(sockets, the_socket_of_a_dead_server_is_replaced);
	tcase_add_test(sockets, a_live_server_is_not_replaced_and_named);
	tcase_add_test(sockets, a_live_socket_of_another_program_is_not_replaced);
	tcase_add_test(sockets, a_path_that_can_not_be_a_socket_is_refused);
	tcase_add_test(sockets, the_socket_has_the_rights_that_were_asked_for);
	tcase_add_test(sockets, a_socket_that_took_its_place_is_not_removed);
	tcase_add_test(sockets, of_servers_that_start_at_once_one_wins);
	suite_add_tcase(suite, clients);
	suite_add_tcase(suite, sockets);
	return run_suite(suite);
}
