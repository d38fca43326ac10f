/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: what a key file may be, what a proof is worth, and which clients and servers come together.
 * Over the provider that RMEM_TEST_VERBS chooses. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/auth.h"
#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "engine/control.h"
#include "tests/support/fabric_rig.h"
#include "tests/support/runner.h"

#define KEY_ONE "0123456789abcdef"
#define KEY_TWO "0123456789abcdeg"

static struct rmem_error error;

/* --- Key files ---------------------------------------------------------------------------------
 */

static const char *key_file(const char *content, size_t length, mode_t mode)
{
	static char path[100];
	int fd;

	snprintf(path, sizeof(path), "%s/key", rig_folder());
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, content, length), (ssize_t)length);
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

/* That nobody writes to. */
static const char *fifo(void)
{
	static char path[100];

	snprintf(path, sizeof(path), "%s/fifo", rig_folder());
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	return path;
}

/* NULL: none. */
static void use_key(const char *key)
{
	const char *path = key == NULL ? NULL : key_file(key, strlen(key), 0600);
	int rc = rmem_auth_set_key_file(path, &error);

	ck_assert_msg(rc == 0, "%s", error.text);
	ck_assert(rmem_auth_is_on() == (key != NULL));
}

START_TEST(a_key_file_that_is_no_good_is_refused_and_leaves_no_key)
{
	static const char many[RMEM_AUTH_KEY_MAX + 1] = {1};

	use_key(KEY_ONE);
	ck_assert_int_eq(rmem_auth_set_key_file("/nonexistent/key", &error), -ENOENT);
	ck_assert(!rmem_auth_is_on());
	ck_assert_int_eq(rmem_auth_set_key_file(rig_folder(), &error), -EINVAL);
	ck_assert_int_eq(rmem_auth_set_key_file(fifo(), &error), -EINVAL);
	ck_assert_int_eq(rmem_auth_set_key_file(key_file(KEY_ONE, 15, 0600), &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.text, "/dev/urandom"));
	ck_assert_int_eq(rmem_auth_set_key_file(key_file("0123456789abcde\n\n", 17, 0600), &error),
			 -EINVAL);
	ck_assert_int_eq(rmem_auth_set_key_file(key_file("", 0, 0600), &error), -EINVAL);
	ck_assert_int_eq(rmem_auth_set_key_file(key_file(many, sizeof(many), 0600), &error),
			 -EINVAL);
	ck_assert_int_eq(rmem_auth_set_key_file(key_file(KEY_ONE, 16, 0640), &error), -EPERM);
	ck_assert_ptr_nonnull(strstr(error.text, "chmod 600"));
	ck_assert_int_eq(rmem_auth_set_key_file(key_file(KEY_ONE, 16, 0604), &error), -EPERM);
	ck_assert(!rmem_auth_is_on());
	ck_assert_int_eq(rmem_auth_set_key_file(key_file(many, sizeof(many) - 1, 0600), &error), 0);
}
END_TEST

/* --- Proofs ------------------------------------------------------------------------------------
 */

static struct rmem_auth_nonces some_nonces(void)
{
	struct rmem_auth_nonces nonces;

	rmem_auth_nonce(nonces.client);
	rmem_auth_nonce(nonces.server);
	return nonces;
}

START_TEST(a_proof_holds_for_its_side_its_numbers_and_its_key)
{
	uint8_t proof[RMEM_AUTH_PROOF_BYTES], again[RMEM_AUTH_PROOF_BYTES];
	struct rmem_auth_nonces nonces, other;

	use_key(KEY_ONE);
	nonces = some_nonces();
	rmem_auth_prove(RMEM_AUTH_CLIENT, &nonces, proof);
	ck_assert(rmem_auth_is_right(RMEM_AUTH_CLIENT, &nonces, proof));
	ck_assert(!rmem_auth_is_right(RMEM_AUTH_SERVER, &nonces, proof));
	for (unsigned bit = 0; bit < 8 * sizeof(proof); bit++) {
		proof[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert(!rmem_auth_is_right(RMEM_AUTH_CLIENT, &nonces, proof));
		proof[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	other = nonces;
	other.client[31] ^= 1;
	ck_assert(!rmem_auth_is_right(RMEM_AUTH_CLIENT, &other, proof));
	other = nonces;
	other.server[0] ^= 128;
	ck_assert(!rmem_auth_is_right(RMEM_AUTH_CLIENT, &other, proof));
	/* The two numbers are not the same thing. */
	memcpy(other.client, nonces.server, sizeof(other.client));
	memcpy(other.server, nonces.client, sizeof(other.server));
	ck_assert(!rmem_auth_is_right(RMEM_AUTH_CLIENT, &other, proof));
	use_key(KEY_TWO);
	ck_assert(!rmem_auth_is_right(RMEM_AUTH_CLIENT, &nonces, proof));
	use_key(KEY_ONE "\n"); /* the end of the line is no part of it */
	rmem_auth_prove(RMEM_AUTH_CLIENT, &nonces, again);
	ck_assert_mem_eq(proof, again, sizeof(proof));
}
END_TEST

START_TEST(numbers_do_not_come_twice)
{
	struct rmem_auth_nonces one, two;

	use_key(KEY_ONE);
	one = some_nonces();
	two = some_nonces();
	ck_assert_mem_ne(one.client, two.client, sizeof(one.client));
	ck_assert_mem_ne(one.client, one.server, sizeof(one.client));
	use_key(NULL);
}
END_TEST

/* --- Clients and servers -----------------------------------------------------------------------
 */

static const struct meeting {
	const char *server, *client; /* their keys */
	int rc;
	const char *says;
} meetings[] = {
	{NULL, NULL, 0, NULL},
	{KEY_ONE, KEY_ONE, 0, NULL},
	{KEY_ONE, NULL, -EACCES, "set auth.key_file"},
	{NULL, KEY_ONE, -EACCES, "asks for no key"},
	{KEY_ONE, KEY_TWO, -EACCES, "has another key"},
};

static pid_t start_server(const char *key, char *url, size_t size)
{
	static unsigned serial;
	struct rmem_server_options options;

	use_key(key);
	rig_server_options(&options);
	rig_providers[0].make_url(url, size, rig_folder(), (unsigned)getpid() * 100 + serial++);
	return rig_server_start_with(&options, url, 0);
}

static int meet(const char *url, const char *key)
{
	const struct rmem_fabric *fabric = rig_providers[0].fabric;
	struct rmem_conn *conn = NULL;
	struct rmem_port *port;
	int rc;

	use_key(key);
	ck_assert_int_eq(fabric->port_open(url, &port, &error), 0);
	rc = fabric->connect(port, url, RIG_TIMEOUT_MS, &conn, &error);
	if (rc == 0)
		fabric->disconnect(conn);
	fabric->port_close(port);
	return rc;
}

START_TEST(who_has_the_same_key_or_none_comes_together)
{
	const struct meeting *meeting = &meetings[_i];
	char url[100];
	pid_t server = start_server(meeting->server, url, sizeof(url));
	int rc = meet(url, meeting->client);

	ck_assert_msg(rc == meeting->rc, "%d (%s)", rc, rc != 0 ? error.text : "");
	if (rc != 0)
		ck_assert_msg(strstr(error.text, meeting->says) != NULL, "%s", error.text);
	/* The server is none the worse for it. */
	use_key(meeting->server);
	ck_assert_int_eq(meet(url, meeting->server), 0);
	rig_server_end(server, SIGTERM);
}
END_TEST

START_TEST(who_may_use_the_memory_is_told_of_it_and_nobody_else)
{
	const struct meeting *meeting = &meetings[_i];
	struct rmem_status status = {0};
	char url[100];
	pid_t server = start_server(meeting->server, url, sizeof(url));
	int rc;

	use_key(meeting->client);
	rc = rmem_server_query_status(url, RIG_TIMEOUT_MS, &status, &error);
	ck_assert_msg(rc == meeting->rc, "%d (%s)", rc, rc != 0 ? error.text : "");
	if (rc != 0)
		ck_assert_msg(strstr(error.text, meeting->says) != NULL, "%s", error.text);
	ck_assert_uint_eq(status.pid, rc == 0 ? (uint32_t)server : 0);
	/* Who has asked is no client of the memory, and owns none of it. */
	use_key(meeting->server);
	ck_assert_int_eq(rmem_server_query_status(url, RIG_TIMEOUT_MS, &status, &error), 0);
	ck_assert_uint_eq(status.client_count, 0);
	rig_server_end(server, SIGTERM);
}
END_TEST

/* --- Clients that cheat: over a socket ---------------------------------------------------------
 */

static int sock;
static char shm_url[100];

static pid_t start_shm(void)
{
	struct rmem_server_options options;
	pid_t server;

	use_key(KEY_ONE);
	rig_server_options(&options);
	snprintf(shm_url, sizeof(shm_url), "shm:%s/cheat.sock", rig_folder());
	server = rig_server_start_with(&options, shm_url, 0);
	return server;
}

static void dial(void)
{
	ck_assert_int_eq(rmem_control_connect(shm_url + 4, rmem_deadline_in_ms(RIG_TIMEOUT_MS),
					      &sock, &error),
			 0);
}

static int ask(const void *bytes, size_t length, enum rmem_wire_type wanted,
	       struct rmem_control_message *answer)
{
	int rc = rmem_control_ask(sock, "there", bytes, length, wanted,
				  rmem_deadline_in_ms(RIG_TIMEOUT_MS), answer, &error);

	if (rc == 0)
		rmem_control_close_fds(answer);
	return rc;
}

/* Says hello, and has the numbers of both. */
static void say_hello_with(uint64_t features, struct rmem_auth_nonces *nonces)
{
	struct rmem_hello hello = {.features = RMEM_WIRE_FEATURE_KEY | features, .name = "cheat"};
	struct rmem_control_message answer;
	uint8_t message[RMEM_WIRE_MAX_BYTES];
	struct rmem_challenge challenge;

	rmem_auth_nonce(hello.nonce);
	memcpy(nonces->client, hello.nonce, sizeof(hello.nonce));
	ck_assert_int_eq(
		ask(message, rmem_wire_put_hello(message, &hello), RMEM_WIRE_CHALLENGE, &answer),
		0);
	ck_assert_int_eq(rmem_wire_get_challenge(answer.bytes, answer.length, &challenge), 0);
	memcpy(nonces->server, challenge.nonce, sizeof(challenge.nonce));
	ck_assert(rmem_auth_is_right(RMEM_AUTH_SERVER, nonces, challenge.proof));
}

static void say_hello(struct rmem_auth_nonces *nonces)
{
	say_hello_with(0, nonces);
}

/* What comes of a proof: the answer is the server's. */
static int prove_for(const uint8_t proof[RMEM_AUTH_PROOF_BYTES], enum rmem_wire_type wanted)
{
	struct rmem_control_message answer;
	uint8_t message[RMEM_WIRE_MAX_BYTES];

	return ask(message, rmem_wire_put_proof(message, proof), wanted, &answer);
}

static int prove(const uint8_t proof[RMEM_AUTH_PROOF_BYTES])
{
	return prove_for(proof, RMEM_WIRE_WELCOME);
}

static int ask_for_status(void)
{
	struct rmem_control_message answer;
	uint8_t message[RMEM_WIRE_MAX_BYTES];

	return ask(message, rmem_wire_put_status_request(message), RMEM_WIRE_STATUS, &answer);
}

START_TEST(nothing_but_a_proof_of_this_conversation_opens)
{
	uint8_t proof[RMEM_AUTH_PROOF_BYTES], old[RMEM_AUTH_PROOF_BYTES];
	pid_t server = start_shm();
	struct rmem_auth_nonces nonces;

	/* The right one does, which shows that the rest is refused for its reason. */
	dial();
	say_hello(&nonces);
	rmem_auth_prove(RMEM_AUTH_CLIENT, &nonces, old);
	ck_assert_int_eq(prove(old), 0);
	close(sock);
	/* That of another conversation. */
	dial();
	say_hello(&nonces);
	ck_assert_int_eq(prove(old), -EACCES);
	close(sock);
	/* The server's own, sent back. */
	dial();
	say_hello(&nonces);
	rmem_auth_prove(RMEM_AUTH_SERVER, &nonces, proof);
	ck_assert_int_eq(prove(proof), -EACCES);
	close(sock);
	/* To one who only asks it tells no more, and one who may ask has not been let in. */
	dial();
	say_hello_with(RMEM_WIRE_FEATURE_ASK, &nonces);
	ck_assert_int_eq(prove_for(old, RMEM_WIRE_STATUS), -EACCES);
	close(sock);
	dial();
	say_hello_with(RMEM_WIRE_FEATURE_ASK, &nonces);
	rmem_auth_prove(RMEM_AUTH_CLIENT, &nonces, proof);
	ck_assert_int_eq(prove_for(proof, RMEM_WIRE_STATUS), 0);
	ck_assert_int_eq(ask_for_status(), -EACCES);
	close(sock);
	/* The plain question, alone and after a greeting. */
	dial();
	ck_assert_int_eq(ask_for_status(), -EACCES);
	close(sock);
	dial();
	say_hello(&nonces);
	ck_assert_int_eq(ask_for_status(), -EACCES);
	close(sock);
	/* Without a greeting. */
	dial();
	ck_assert_int_eq(prove(old), -EPROTO);
	close(sock);
	rig_server_end(server, SIGTERM);
}
END_TEST

START_TEST(a_second_greeting_does_not_change_the_numbers)
{
	uint8_t message[RMEM_WIRE_MAX_BYTES];
	pid_t server = start_shm();
	struct rmem_control_message answer;
	struct rmem_auth_nonces nonces;
	struct rmem_hello hello = {.features = RMEM_WIRE_FEATURE_KEY, .name = "cheat"};

	dial();
	say_hello(&nonces);
	ck_assert_int_eq(
		ask(message, rmem_wire_put_hello(message, &hello), RMEM_WIRE_CHALLENGE, &answer),
		-EPROTO);
	close(sock);
	/* Numbers without the feature, and the other way round. */
	dial();
	hello.features = 0;
	hello.nonce[3] = 1;
	ck_assert_int_eq(
		ask(message, rmem_wire_put_hello(message, &hello), RMEM_WIRE_CHALLENGE, &answer),
		-EPROTO);
	close(sock);
	rig_server_end(server, SIGTERM);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth");
	TCase *keys = tcase_create("keys");
	TCase *meets = tcase_create("meetings");

	rmem_log_set_level(RMEM_LOG_SERVER, RMEM_LOG_ERROR);
	tcase_add_unchecked_fixture(keys, rig_folder_make, rig_folder_remove);
	tcase_add_test(keys, a_key_file_that_is_no_good_is_refused_and_leaves_no_key);
	tcase_add_test(keys, a_proof_holds_for_its_side_its_numbers_and_its_key);
	tcase_add_test(keys, numbers_do_not_come_twice);
	suite_add_tcase(suite, keys);
	tcase_add_unchecked_fixture(meets, rig_folder_make, rig_folder_remove);
	tcase_add_loop_test(meets, who_has_the_same_key_or_none_comes_together, 0,
			    (int)RMEM_COUNT_OF(meetings));
	tcase_add_loop_test(meets, who_may_use_the_memory_is_told_of_it_and_nobody_else, 0,
			    (int)RMEM_COUNT_OF(meetings));
	tcase_add_test(meets, nothing_but_a_proof_of_this_conversation_opens);
	tcase_add_test(meets, a_second_greeting_does_not_change_the_numbers);
	suite_add_tcase(suite, meets);
	return run_suite(suite);
}
