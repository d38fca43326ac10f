/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of this machine that break the rules of notices: in what they ask for, in how much they
 * send and grant, and in what they write to the memory that they share with the server. It ends
 * them, or takes no notice; other clients and the server itself go on. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "engine/control.h"
#include "engine/fabric_shm_notices.h"
#include "tests/support/fabric_rig.h"
#include "tests/support/runner.h"

#define NOTICES	    8
#define SCRIBBLE_MS 1000

static struct rmem_error error;
static struct rig rig;

static void open_rig(void)
{
	rig_open(&rig, &(struct rig_shape){.lanes = 0, .depth = 64, .cq_depth = 256});
}

static struct rmem_lane_link *open_lane(struct rmem_conn *conn)
{
	const struct rmem_lane_options options = {.depth = 64, .notices = NOTICES};
	struct rmem_lane_link *link;
	int rc = rig.fabric->lane_open(conn, rig.cq, &options, &link, &error);

	ck_assert_msg(rc == 0, "%s", error.text);
	ck_assert_uint_eq(rig.fabric->lane_notices(link), NOTICES);
	return link;
}

/* Polls once; returns how many notices the server has granted by what came. */
static uint32_t poll_grants(void)
{
	struct rmem_completion completions[16];
	int count = rig.fabric->cq_poll(rig.cq, completions, 16);
	uint32_t granted = 0;

	for (int i = 0; i < count; i++) {
		if (completions[i].status == RMEM_WC_GRANT)
			granted += completions[i].provider_status;
	}
	return granted;
}

/* Sends one notice on the lane, whether there is credit or not. */
static uint32_t send_notice(struct rmem_lane_link *link)
{
	struct rmem_wr wr = {.id = 1, .op = RMEM_WR_NOTICE, .flags = RMEM_WR_SIGNALED};
	struct rmem_wr *bad;

	ck_assert_int_eq(rig.fabric->lane_post(link, &wr, &bad), 0);
	return poll_grants();
}

/* Whether the connection ends in time. */
static bool ends(struct rmem_conn *conn, unsigned timeout_ms)
{
	uint64_t deadline_ns = rmem_deadline_in_ms(timeout_ms);

	while (rig.fabric->conn_alive(conn) == 0) {
		if (rmem_now_ns() > deadline_ns)
			return false;
		usleep(1000);
	}
	return true;
}

/* Another client comes, exchanges notices and leaves. */
static void expect_good_client(void)
{
	struct rmem_lane_link *link;
	struct rmem_conn *conn;
	uint32_t granted = 0;
	uint64_t deadline_ns = rmem_deadline_in_ms(RIG_TIMEOUT_MS);

	ck_assert_int_eq(rig.fabric->connect(rig.port, rig.url, RIG_TIMEOUT_MS, &conn, &error), 0);
	link = open_lane(conn);
	rig.fabric->notices_start(link, 77);
	for (unsigned i = 0; i < NOTICES; i++)
		granted += send_notice(link);
	while (granted < NOTICES && rmem_now_ns() < deadline_ns)
		granted += poll_grants();
	ck_assert_uint_eq(granted, NOTICES);
	rig.fabric->notices_stop(link);
	rig.fabric->lane_close(link);
	rig.fabric->disconnect(conn);
}

/* --- Asking ----------------------------------------------------------------------------------- */

static size_t hello(uint8_t *bytes)
{
	return rmem_wire_put_hello(bytes, &(struct rmem_hello){.name = "abuse", .host = "here"});
}

enum offer {
	NOTHING,
	A_FILE,
	A_PIPE,
	AN_UNSEALED_MEMFD,
	A_SMALL_MEMFD,
	OFFERS,
};

static int make_offer(enum offer offer)
{
	int fds[2], fd = -1;

	switch (offer) {
	case A_FILE:
		fd = open("/proc/self/exe", O_RDONLY);
		break;
	case A_PIPE:
		ck_assert_int_eq(pipe(fds), 0);
		close(fds[1]);
		fd = fds[0];
		break;
	case AN_UNSEALED_MEMFD:
	case A_SMALL_MEMFD:
		fd = memfd_create("x", MFD_ALLOW_SEALING);
		ck_assert_int_eq(ftruncate(fd, offer == A_SMALL_MEMFD ? 100 : SHM_BELL_BYTES), 0);
		if (offer == A_SMALL_MEMFD)
			ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
		break;
	default:
		break;
	}
	return fd;
}

START_TEST(a_request_with_nothing_good_along_ends_the_client)
{
	const struct rmem_wire_bells bells = {NOTICES, 3};
	struct rmem_control_message answer;
	uint8_t bytes[RMEM_WIRE_MAX_BYTES];
	uint64_t deadline_ns = rmem_deadline_in_ms(RIG_TIMEOUT_MS);
	struct rmem_control_request request = {
		.bytes = bytes, .fd = make_offer((enum offer)_i), .wanted = RMEM_WIRE_NOTICES};
	int socket;

	open_rig();
	ck_assert_int_eq(rmem_control_connect(rig.url + 4, deadline_ns, &socket, &error), 0);
	ck_assert_int_eq(rmem_control_ask(socket, rig.url, bytes, hello(bytes), RMEM_WIRE_WELCOME,
					  deadline_ns, &answer, &error),
			 0);
	rmem_control_close_fds(&answer);
	request.length = rmem_wire_put_notices(bytes, RMEM_WIRE_NOTICES_REQUEST, &bells);
	ck_assert_int_ne(
		rmem_control_ask_with(socket, rig.url, &request, deadline_ns, &answer, &error), 0);
	ck_assert_ptr_nonnull(strstr(error.text, "notices"));
	if (request.fd >= 0)
		close(request.fd);
	close(socket);
	expect_good_client();
	rig_close(&rig);
}
END_TEST

START_TEST(a_request_before_the_greeting_or_out_of_range_is_refused)
{
	static const struct rmem_wire_bells bad[] = {{3, 0}, {2048, 0}, {8, 64}};
	struct rmem_control_message answer;
	uint8_t bytes[RMEM_WIRE_MAX_BYTES];
	uint64_t deadline_ns = rmem_deadline_in_ms(RIG_TIMEOUT_MS);
	const struct rmem_wire_bells good = {NOTICES, 0};
	const struct rmem_wire_bells *bells = _i < 3 ? &bad[_i] : &good;
	int socket;

	open_rig();
	ck_assert_int_eq(rmem_control_connect(rig.url + 4, deadline_ns, &socket, &error), 0);
	if (_i < 3) {
		ck_assert_int_eq(rmem_control_ask(socket, rig.url, bytes, hello(bytes),
						  RMEM_WIRE_WELCOME, deadline_ns, &answer, &error),
				 0);
		rmem_control_close_fds(&answer);
	}
	ck_assert_int_eq(
		rmem_control_ask(socket, rig.url, bytes,
				 rmem_wire_put_notices(bytes, RMEM_WIRE_NOTICES_REQUEST, bells),
				 RMEM_WIRE_NOTICES, deadline_ns, &answer, &error),
		-EPROTO);
	close(socket);
	expect_good_client();
	rig_close(&rig);
}
END_TEST

/* --- Exchanging ------------------------------------------------------------------------------- */

START_TEST(a_client_that_grants_what_it_never_took_is_ended)
{
	struct rmem_lane_link *link;

	open_rig();
	link = open_lane(rig.conn);
	rig.fabric->notices_start(link, 5);
	rig.fabric->notices_grant(link, (uint32_t[]){1, NOTICES + 1, UINT32_MAX}[_i]);
	ck_assert(ends(rig.conn, RIG_TIMEOUT_MS));
	rig.fabric->notices_stop(link);
	rig.fabric->lane_close(link);
	expect_good_client();
	rig_close(&rig);
}
END_TEST

START_TEST(a_client_that_sends_without_credit_hurts_itself_only)
{
	struct rmem_lane_link *link;

	open_rig();
	link = open_lane(rig.conn);
	for (unsigned i = 0; i < 1000; i++)
		send_notice(link);
	expect_good_client();
	rig.fabric->lane_close(link);
	rig_close(&rig);
}
END_TEST

/* The stretches that are shared for notices, as the kernel names them. */
static unsigned find_shared(uint32_t *starts[], size_t words[], unsigned max)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[400];
	unsigned count = 0;

	ck_assert_ptr_nonnull(maps);
	while (count < max && fgets(line, sizeof(line), maps) != NULL) {
		unsigned long start, end;

		if (strstr(line, "rmem-notices") == NULL ||
		    sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		starts[count] = (uint32_t *)start;
		words[count++] = (end - start) / sizeof(uint32_t);
	}
	fclose(maps);
	return count;
}

START_TEST(whatever_a_client_scribbles_the_server_lives)
{
	uint64_t deadline_ns = rmem_deadline_in_ms(SCRIBBLE_MS);
	struct rmem_lane_link *link;
	uint32_t *starts[8];
	size_t words[8];
	unsigned count, seed = (unsigned)_i + 1;

	open_rig();
	link = open_lane(rig.conn);
	count = find_shared(starts, words, 8);
	ck_assert_uint_ge(count, 3); /* two bells and a ring */
	while (rmem_now_ns() < deadline_ns) {
		unsigned at = (unsigned)rand_r(&seed) % count;
		size_t word = (size_t)rand_r(&seed) % words[at];

		starts[at][word] = rand_r(&seed) % 2 ? (uint32_t)rand_r(&seed) % 300 + 1
						     : (uint32_t)rand_r(&seed) * 2654435761u;
		starts[at][(unsigned)rand_r(&seed) % 2] = ~0u; /* where the bells are rung */
		if (rand_r(&seed) % 64 == 0 && rig.fabric->conn_alive(rig.conn) == 0)
			send_notice(link);
	}
	ck_assert_int_eq(kill(rig.server, 0), 0);
	rig.fabric->lane_close(link);
	rig.fabric->disconnect(rig.conn);
	rig_connect(&rig); /* it still greets */
	rig_close(&rig);   /* and ends well */
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("notices_abuse");
	TCase *all = tcase_create("all");

	tcase_add_unchecked_fixture(all, rig_folder_make, rig_folder_remove);
	tcase_set_timeout(all, 60);
	tcase_add_loop_test(all, a_request_with_nothing_good_along_ends_the_client, 0, OFFERS);
	tcase_add_loop_test(all, a_request_before_the_greeting_or_out_of_range_is_refused, 0, 4);
	tcase_add_loop_test(all, a_client_that_grants_what_it_never_took_is_ended, 0, 3);
	tcase_add_test(all, a_client_that_sends_without_credit_hurts_itself_only);
	tcase_add_loop_test(all, whatever_a_client_scribbles_the_server_lives, 0, 2);
	suite_add_tcase(suite, all);
	return run_suite(suite);
}
