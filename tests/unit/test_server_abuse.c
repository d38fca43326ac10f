/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that mean no good, or are something else: each gets an error and the end, and no other
 * client notices. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "engine/wire.h"
#include "tests/support/fabric_rig.h"
#include "tests/support/runner.h"

#define FUZZ_MS 2000

static struct rmem_error error;
static char url[100];
static struct rmem_server_options options;
static pid_t server;

static void set_up(void)
{
	rmem_log_set_level(RMEM_LOG_SERVER, RMEM_LOG_ERROR);
	snprintf(url, sizeof(url), "shm:%s/%ld.sock", rig_folder(), (long)getpid());
	rig_server_options(&options);
}

static void start(void)
{
	server = rig_server_start_with(&options, url, 0);
}

static int open_socket(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, url + 4, strlen(url + 4));
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* A connected socket that has sent these bytes. */
static int send_bytes(const void *bytes, size_t length)
{
	int fd = open_socket();

	ck_assert_int_eq(send(fd, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
	return fd;
}

/* Expects an ERROR with that code and the end. */
static void expect_error(int fd, enum rmem_wire_code code)
{
	struct rmem_wire_refusal refusal;
	uint8_t answer[RMEM_WIRE_MAX_BYTES];
	size_t used = 0;

	for (;;) {
		struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
		ssize_t got;

		ck_assert_int_eq(poll(&poll_fd, 1, RIG_TIMEOUT_MS), 1);
		got = recv(fd, answer + used, sizeof(answer) - used, 0);
		if (got <= 0)
			break; /* reset, when it was sent more than it read */
		used += (size_t)got;
	}
	ck_assert_int_eq(rmem_wire_get_error(answer, used, &refusal), 0);
	ck_assert_uint_eq(refusal.code, code);
	close(fd);
}

static unsigned server_descriptors(void)
{
	char folder[64];
	struct dirent *entry;
	unsigned count = 0;
	DIR *dir;

	snprintf(folder, sizeof(folder), "/proc/%ld/fd", (long)server);
	dir = opendir(folder);
	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir)) != NULL)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

/* Until the server has let go of what it held for clients that are gone. */
static void expect_descriptors(unsigned count)
{
	uint64_t deadline_ns = rmem_deadline_in_ms(RIG_TIMEOUT_MS);

	while (server_descriptors() != count)
		ck_assert_msg(rmem_now_ns() < deadline_ns, "%u descriptors, not %u",
			      server_descriptors(), count);
}

/* A client like any other: it gets its memory, writes and reads. */
static void expect_good_client(void)
{
	struct rmem_fabric const *fabric = &rmem_fabric_shm;
	struct rig rig = {.fabric = fabric};
	uint8_t memory[512];
	struct rmem_completion completion;
	struct rmem_wr wr, *bad;

	memcpy(rig.url, url, sizeof(rig.url));
	rig.memory = memory;
	ck_assert_int_eq(fabric->port_open(url, &rig.port, &error), 0);
	ck_assert_int_eq(fabric->mr_register(rig.port, memory, sizeof(memory), &rig.mr, &error), 0);
	ck_assert_int_eq(fabric->cq_create(rig.port, 8, &rig.cq, &error), 0);
	rig_connect(&rig);
	ck_assert_int_eq(fabric->lane_open(rig.conn, rig.cq,
					   &(struct rmem_lane_options){.depth = 8}, &rig.lanes[0],
					   &error),
			 0);
	rig_fill(memory, 256, 1);
	for (size_t op = RMEM_WR_READ; op <= RMEM_WR_WRITE; op++) {
		wr = rig_wr(&rig, op == 0 ? RMEM_WR_WRITE : RMEM_WR_READ, op,
			    &(struct rig_place){1, 100, op * 256, 256});
		ck_assert_int_eq(fabric->lane_post(rig.lanes[0], &wr, &bad), 0);
		ck_assert_uint_eq(rig_reap(&rig, &completion, 1), 1);
		ck_assert_int_eq(completion.status, RMEM_WC_OK);
	}
	ck_assert_mem_eq(memory, memory + 256, 256);
	fabric->lane_close(rig.lanes[0]);
	fabric->disconnect(rig.conn);
	fabric->cq_destroy(rig.cq);
	fabric->mr_unregister(rig.mr);
	fabric->port_close(rig.port);
}

static size_t make_hello(uint8_t *message)
{
	return rmem_wire_put_hello(message, &(struct rmem_hello){.name = "abuser"});
}

START_TEST(foreign_messages_get_an_error_and_the_end)
{
	static const char *const foreign[] = {
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"x",
		"\0\0\0\0\0\0\0\0\0\0\0\0",
		"RMEm",
		"*1\r\n$4\r\nPING\r\n",
	};
	uint8_t noise[8192];

	start();
	for (unsigned i = 0; i < RMEM_COUNT_OF(foreign); i++)
		expect_error(send_bytes(foreign[i], strlen(foreign[i]) + 1),
			     RMEM_WIRE_CODE_PROTOCOL);
	memset(noise, 0xa5, sizeof(noise));
	expect_error(send_bytes(noise, sizeof(noise)), RMEM_WIRE_CODE_PROTOCOL);
	expect_good_client();
	rig_server_end(server, SIGTERM);
}
END_TEST

START_TEST(messages_out_of_place_get_an_error_and_the_end)
{
	uint8_t message[RMEM_WIRE_MAX_BYTES];
	size_t length;

	start();
	length = rmem_wire_put_error(message, RMEM_WIRE_CODE_BUSY, "no, you are");
	expect_error(send_bytes(message, length), RMEM_WIRE_CODE_PROTOCOL);
	length = rmem_wire_put_status(message, &(struct rmem_status){.pid = 1});
	expect_error(send_bytes(message, length), RMEM_WIRE_CODE_PROTOCOL);
	length = make_hello(message);
	message[6] = 99; /* no such type */
	expect_error(send_bytes(message, length), RMEM_WIRE_CODE_PROTOCOL);
	length = make_hello(message);
	message[4] = 9;
	expect_error(send_bytes(message, length), RMEM_WIRE_CODE_VERSION);
	length = make_hello(message);
	message[150] = 1; /* reserved */
	expect_error(send_bytes(message, length), RMEM_WIRE_CODE_PROTOCOL);
	length = make_hello(message);
	message[8] = 191; /* one less than it has */
	expect_error(send_bytes(message, length), RMEM_WIRE_CODE_PROTOCOL);
	message[8] = 16; /* a header alone */
	expect_error(send_bytes(message, 16), RMEM_WIRE_CODE_PROTOCOL);
	length = make_hello(message);
	message[9] = 15; /* more than a request may have */
	expect_error(send_bytes(message, length), RMEM_WIRE_CODE_PROTOCOL);
	expect_good_client();
	rig_server_end(server, SIGTERM);
}
END_TEST

START_TEST(a_message_may_come_in_pieces_and_two_at_once)
{
	uint8_t message[RMEM_WIRE_MAX_BYTES], answer[RMEM_WIRE_MAX_BYTES];
	size_t length = make_hello(message), asked, welcome, got = 0;
	int fd;

	start();
	asked = rmem_wire_put_status_request(message + length);
	fd = open_socket();
	for (size_t i = 0; i + 1 < length; i++)
		ck_assert_int_eq(send(fd, message + i, 1, 0), 1);
	ck_assert_int_eq(send(fd, message + length - 1, 1 + asked, 0), (ssize_t)(1 + asked));
	welcome = sizeof(struct rmem_wire_welcome) + RIG_REGIONS * sizeof(struct rmem_wire_region);
	while (got < welcome + sizeof(struct rmem_wire_status)) {
		ssize_t more = recv(fd, answer + got, sizeof(answer) - got, 0);

		ck_assert_int_gt(more, 0);
		got += (size_t)more;
	}
	ck_assert_int_eq(
		rmem_wire_get_status(answer + welcome, got - welcome, &(struct rmem_status){0}), 0);
	close(fd);
	rig_server_end(server, SIGTERM);
}
END_TEST

START_TEST(a_second_greeting_is_refused)
{
	uint8_t message[2 * RMEM_WIRE_MAX_BYTES], answer[RMEM_WIRE_MAX_BYTES];
	size_t length = make_hello(message);
	size_t welcome =
		sizeof(struct rmem_wire_welcome) + RIG_REGIONS * sizeof(struct rmem_wire_region);
	int fd;

	start();
	fd = send_bytes(message, length);
	ck_assert_int_eq(recv(fd, answer, welcome, MSG_WAITALL), (ssize_t)welcome);
	ck_assert_int_eq(send(fd, message, length, 0), (ssize_t)length);
	expect_error(fd, RMEM_WIRE_CODE_PROTOCOL);
	rig_server_end(server, SIGTERM);
}
END_TEST

START_TEST(a_client_that_says_nothing_or_not_enough_is_ended)
{
	uint8_t message[RMEM_WIRE_MAX_BYTES];
	size_t length = make_hello(message);
	uint64_t started_ns;
	unsigned before;
	int silent, slow;

	options.handshake_ms = 200;
	start();
	before = server_descriptors();
	started_ns = rmem_now_ns();
	silent = open_socket();
	slow = send_bytes(message, length / 2);
	expect_good_client();
	expect_error(silent, RMEM_WIRE_CODE_TIMEOUT);
	expect_error(slow, RMEM_WIRE_CODE_TIMEOUT);
	ck_assert_uint_ge(rmem_now_ns() - started_ns, (uint64_t)190 * RMEM_NS_PER_MS);
	expect_descriptors(before);
	rig_server_end(server, SIGTERM);
}
END_TEST

START_TEST(dribbling_does_not_buy_more_time)
{
	uint8_t message[RMEM_WIRE_MAX_BYTES];
	size_t length = make_hello(message), sent = 0;
	uint64_t started_ns;
	int fd;

	options.handshake_ms = 300;
	start();
	fd = open_socket();
	started_ns = rmem_now_ns();
	while (sent < length && send(fd, message + sent, 1, MSG_NOSIGNAL) == 1) {
		struct timespec pause = {.tv_nsec = 10000000};

		sent++;
		nanosleep(&pause, NULL);
	}
	ck_assert_uint_lt(sent, length);
	ck_assert_uint_lt(rmem_now_ns() - started_ns, (uint64_t)RIG_TIMEOUT_MS * RMEM_NS_PER_MS);
	close(fd);
	expect_good_client();
	rig_server_end(server, SIGTERM);
}
END_TEST

START_TEST(a_client_that_does_not_read_is_ended)
{
	uint8_t message[RMEM_WIRE_MAX_BYTES];
	size_t length = rmem_wire_put_status_request(message);
	unsigned before;
	int fd;

	start();
	before = server_descriptors();
	fd = open_socket();
	/* Blocks when both buffers are full, and fails when the server has had enough. */
	while (send(fd, message, length, MSG_NOSIGNAL) > 0)
		;
	expect_descriptors(before);
	close(fd);
	expect_good_client();
	rig_server_end(server, SIGTERM);
}
END_TEST

START_TEST(a_flood_of_connections_ends_where_descriptors_do_and_then_all_is_well)
{
	int fds[200];
	unsigned before;

	options.handshake_ms = 500;
	server = rig_server_start_with(&options, url, 64);
	before = server_descriptors();
	for (unsigned i = 0; i < RMEM_COUNT_OF(fds); i++)
		fds[i] = open_socket();
	/* Those it had no room for were told so and did not stay in its queue. */
	for (unsigned i = 0; i < RMEM_COUNT_OF(fds); i++)
		ck_assert(rig_readable(fds[i], RIG_TIMEOUT_MS));
	for (unsigned i = 0; i < RMEM_COUNT_OF(fds); i++)
		close(fds[i]);
	expect_descriptors(before);
	expect_good_client();
	rig_server_end(server, SIGTERM);
}
END_TEST

/* Sends a message with descriptors that nobody asked for. */
static int send_with_descriptors(const void *bytes, size_t length)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(8 * sizeof(int))];
	} control = {0};
	struct iovec vector = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
	struct msghdr header = {.msg_iov = &vector,
				.msg_iovlen = 1,
				.msg_control = control.bytes,
				.msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
	int fd = open_socket();

	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(8 * sizeof(int));
	for (unsigned i = 0; i < 8; i++)
		memcpy(CMSG_DATA(rights) + i * sizeof(int), &(int){STDERR_FILENO}, sizeof(int));
	ck_assert_int_gt(sendmsg(fd, &header, MSG_NOSIGNAL), 0);
	return fd;
}

START_TEST(descriptors_that_a_client_sends_are_dropped)
{
	uint8_t message[RMEM_WIRE_MAX_BYTES];
	size_t length = make_hello(message);
	unsigned before;
	int fds[10];

	start();
	before = server_descriptors();
	for (unsigned i = 0; i < 10; i++)
		fds[i] = send_with_descriptors(message, length);
	expect_good_client();
	expect_descriptors(before + 10);
	for (unsigned i = 0; i < 10; i++)
		close(fds[i]);
	expect_descriptors(before);
	rig_server_end(server, SIGTERM);
}
END_TEST

/* A message that was a good one: with bits flipped, bytes replaced, cut, or lengthened. */
static size_t damage(uint8_t *message)
{
	size_t length =
		random() % 2 == 0 ? make_hello(message) : rmem_wire_put_status_request(message);
	unsigned wounds = (unsigned)random() % 4;

	for (unsigned i = 0; i < wounds; i++) {
		size_t at = (size_t)random() % (random() % 2 == 0 ? 16 : length);

		if (random() % 2 == 0)
			message[at] ^= (uint8_t)(1u << random() % 8);
		else
			message[at] = (uint8_t)random();
	}
	switch (random() % 4) {
	case 0:
		return (size_t)random() % length;
	case 1:
		for (size_t i = length; i < length + 600; i++)
			message[i] = (uint8_t)random();
		return length + (size_t)random() % 600;
	default:
		return length;
	}
}

static size_t make_noise(uint8_t *message)
{
	size_t length = 1 + (size_t)random() % 2048;

	for (size_t i = 0; i < length; i++)
		message[i] = (uint8_t)random();
	return length;
}

START_TEST(random_messages_never_disturb_a_good_client)
{
	enum { AT_ONCE = 16 };
	uint64_t deadline_ns = rmem_deadline_in_ms(FUZZ_MS);
	uint8_t message[RMEM_WIRE_MAX_BYTES];
	int fds[AT_ONCE];
	unsigned before, sent = 0;

	srandom((unsigned)rmem_now_ns());
	start();
	before = server_descriptors();
	/* The memory is the good client's, so that no garbled greeting can claim it. */
	rmem_owner_set((const uint8_t[RMEM_OWNER_BYTES]){1});
	expect_good_client();
	for (unsigned i = 0; i < AT_ONCE; i++)
		fds[i] = open_socket();
	while (rmem_now_ns() < deadline_ns) {
		unsigned which = (unsigned)random() % AT_ONCE;
		size_t length = random() % 8 == 0 ? make_noise(message) : damage(message);

		/* On a conversation that may be dead already, then on a new one. */
		(void)!send(fds[which], message, length, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (random() % 3 == 0) {
			close(fds[which]);
			fds[which] = open_socket();
		}
		if (++sent % 256 == 0)
			expect_good_client();
	}
	for (unsigned i = 0; i < AT_ONCE; i++)
		close(fds[i]);
	expect_good_client();
	expect_descriptors(before);
	rig_server_end(server, SIGTERM);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("server_abuse");
	TCase *messages = tcase_create("messages"), *resources = tcase_create("resources");

	tcase_add_unchecked_fixture(messages, rig_folder_make, rig_folder_remove);
	tcase_add_unchecked_fixture(resources, rig_folder_make, rig_folder_remove);
	tcase_add_checked_fixture(messages, set_up, NULL);
	tcase_add_checked_fixture(resources, set_up, NULL);
	tcase_set_timeout(messages, 60);
	tcase_set_timeout(resources, 60);
	tcase_add_test(messages, foreign_messages_get_an_error_and_the_end);
	tcase_add_test(messages, messages_out_of_place_get_an_error_and_the_end);
	tcase_add_test(messages, a_message_may_come_in_pieces_and_two_at_once);
	tcase_add_test(messages, a_second_greeting_is_refused);
	tcase_add_test(messages, random_messages_never_disturb_a_good_client);
	tcase_add_test(resources, a_client_that_says_nothing_or_not_enough_is_ended);
	tcase_add_test(resources, dribbling_does_not_buy_more_time);
	tcase_add_test(resources, a_client_that_does_not_read_is_ended);
	tcase_add_test(resources,
		       a_flood_of_connections_ends_where_descriptors_do_and_then_all_is_well);
	tcase_add_test(resources, descriptors_that_a_client_sends_are_dropped);
	suite_add_tcase(suite, messages);
	suite_add_tcase(suite, resources);
	return run_suite(suite);
}
