/* SPDX-License-Identifier: Apache-2.0 */
/* What there is of the verbs fabric without a device: settings, addresses, private data, and what
 * it says when there is none. test_fabric_conformance.c has the rest, where there is one. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "engine/fabric.h"
#include "engine/server.h"
#include "engine/verbs.h"
#include "engine/wire.h"
#include "tests/support/runner.h"

/* --- URLs --------------------------------------------------------------------------------------
 */

static const struct {
	const char *url, *host, *port;
} good_urls[] = {
	{"verbs://10.0.0.1", "10.0.0.1", "7471"},
	{"verbs://10.0.0.1:1", "10.0.0.1", "1"},
	{"verbs://node-7.example:65535", "node-7.example", "65535"},
	{"verbs://[fe80::1%eth0]:7000", "fe80::1%eth0", "7000"},
	{"verbs://[::]", "::", "7471"},
};

START_TEST(an_address_is_taken_apart)
{
	struct rmem_verbs_address address;

	ck_assert_int_eq(rmem_verbs_parse(good_urls[_i].url, &address, NULL), 0);
	ck_assert_str_eq(address.host, good_urls[_i].host);
	ck_assert_str_eq(address.port, good_urls[_i].port);
}
END_TEST

static const char *const bad_urls[] = {
	"",
	"verbs:",
	"verbs:10.0.0.1",
	"verbs://",
	"verbs://:7471",
	"verbs://[]:7471",
	"verbs://[::1",
	"verbs://[::1]7471",
	"verbs://fe80::1",
	"verbs://10.0.0.1:",
	"verbs://10.0.0.1:0",
	"verbs://10.0.0.1:65536",
	"verbs://10.0.0.1:100000000000000000001",
	"verbs://10.0.0.1:+80",
	"verbs://10.0.0.1:80/pool",
	"verbs://10.0.0.1/pool",
	"verbs://user@host",
	"verbs://a b",
	"shm:/run/rmemd.sock",
	"VERBS://10.0.0.1",
};

START_TEST(what_is_no_address_is_refused_with_an_example)
{
	struct rmem_verbs_address address;
	struct rmem_error error;

	ck_assert_int_eq(rmem_verbs_parse(bad_urls[_i], &address, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.text, "verbs://10.0.0.1:7471"));
}
END_TEST

START_TEST(a_host_that_is_too_long_is_refused)
{
	char url[RMEM_VERBS_HOST_BYTES + 20] = "verbs://";
	struct rmem_verbs_address address;

	memset(url + 8, 'h', RMEM_VERBS_HOST_BYTES);
	ck_assert_int_eq(rmem_verbs_parse(url, &address, NULL), -EINVAL);
	url[8 + RMEM_VERBS_HOST_BYTES - 1] = '\0';
	ck_assert_int_eq(rmem_verbs_parse(url, &address, NULL), 0);
	ck_assert_uint_eq(strlen(address.host), RMEM_VERBS_HOST_BYTES - 1);
}
END_TEST

/* --- Settings ----------------------------------------------------------------------------------
 */

START_TEST(the_default_settings_are_good_and_a_port_of_ones_own_is_used)
{
	struct rmem_verbs_options options;
	struct rmem_verbs_address address;

	rmem_verbs_options_init(&options);
	ck_assert_uint_eq(options.port, RMEM_VERBS_PORT);
	options.port = 4791;
	ck_assert_int_eq(rmem_verbs_configure(&options, NULL), 0);
	ck_assert_uint_eq(rmem_verbs_options()->port, 4791);
	ck_assert_int_eq(rmem_verbs_parse("verbs://h", &address, NULL), 0);
	ck_assert_str_eq(address.port, "4791");
}
END_TEST

static void expect_refusal(const struct rmem_verbs_options *options, const char *name)
{
	struct rmem_error error;

	ck_assert_int_eq(rmem_verbs_configure(options, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.text, name));
}

START_TEST(settings_out_of_range_are_refused_by_name_and_change_nothing)
{
	struct rmem_verbs_options good, bad;

	rmem_verbs_options_init(&good);
	bad = good;
	bad.port = 65536;
	expect_refusal(&bad, "port");
	bad = good;
	bad.mtu_bytes = 1500;
	expect_refusal(&bad, "mtu_bytes");
	bad.mtu_bytes = 8192;
	expect_refusal(&bad, "mtu_bytes");
	bad = good;
	bad.retry_count = 8;
	expect_refusal(&bad, "retry_count");
	bad = good;
	bad.rnr_retry_count = 7; /* for ever */
	expect_refusal(&bad, "rnr_retry_count");
	bad = good;
	bad.traffic_class = 256;
	expect_refusal(&bad, "traffic_class");
	ck_assert_mem_eq(rmem_verbs_options(), &good, sizeof(good));
}
END_TEST

START_TEST(the_ack_timeout_is_the_longest_that_keeps_to_the_time)
{
	for (unsigned tries = 1; tries <= 8; tries++) {
		for (uint64_t total_us = 100; total_us < 100000000; total_us = total_us * 3 / 2) {
			uint8_t code = rmem_verbs_timeout_code(total_us, tries);
			uint64_t each_ns = UINT64_C(4096) << code;

			ck_assert_uint_ge(code, 1); /* 0 is for ever */
			ck_assert(code == 1 || each_ns * tries <= total_us * 1000);
			ck_assert_uint_gt(each_ns * 2 * tries, total_us * 1000 - tries * 1000);
		}
	}
	ck_assert_uint_eq(rmem_verbs_timeout_code(UINT64_MAX / 1000, 1), 31);
}
END_TEST

START_TEST(the_rnr_timer_is_never_shorter_than_asked_and_never_the_longest_by_accident)
{
	ck_assert_uint_eq(rmem_verbs_rnr_code(0), 1);
	ck_assert_uint_eq(rmem_verbs_rnr_code(10), 1);
	ck_assert_uint_eq(rmem_verbs_rnr_code(11), 2);
	ck_assert_uint_eq(rmem_verbs_rnr_code(640), 12);
	ck_assert_uint_eq(rmem_verbs_rnr_code(641), 13);
	ck_assert_uint_eq(rmem_verbs_rnr_code(491520), 31);
	ck_assert_uint_eq(rmem_verbs_rnr_code(491521), 0);
}
END_TEST

/* --- Private data ------------------------------------------------------------------------------
 */

static uint8_t bytes[RMEM_WIRE_DENIAL_MAX_BYTES];
static const struct rmem_join sample = {
	.kind = RMEM_WIRE_JOIN_LANE,
	.token = 0x0123456789abcdef,
	.mtu_bytes = 2048,
};

START_TEST(a_join_comes_back_as_it_was_also_with_padding_behind)
{
	struct rmem_join join;
	size_t length = rmem_wire_put_join(bytes, &sample);

	ck_assert_uint_le(length, RMEM_WIRE_JOIN_MAX_BYTES);
	for (size_t padded = length; padded <= RMEM_WIRE_JOIN_MAX_BYTES; padded++) {
		ck_assert_int_eq(rmem_wire_get_join(bytes, padded, &join), 0);
		ck_assert_int_eq(join.kind, RMEM_WIRE_JOIN_LANE);
		ck_assert_uint_eq(join.token, sample.token);
		ck_assert_uint_eq(join.mtu_bytes, 2048);
	}
	for (size_t cut = 0; cut < length; cut++)
		ck_assert_int_eq(rmem_wire_get_join(bytes, cut, &join), -EPROTO);
}
END_TEST

START_TEST(every_field_of_a_join_is_checked)
{
	struct rmem_join join;

	for (size_t i = 0; i < sizeof(struct rmem_wire_join); i++) {
		size_t length = rmem_wire_put_join(bytes, &sample);
		bool is_token = i >= offsetof(struct rmem_wire_join, token) &&
				i < offsetof(struct rmem_wire_join, mtu_bytes);
		bool is_version = i == 4 || i == 5;

		bytes[i] ^= 0x41;
		ck_assert_int_eq(rmem_wire_get_join(bytes, length, &join),
				 is_token     ? 0
				 : is_version ? -EPROTONOSUPPORT
					      : -EPROTO);
	}
}
END_TEST

START_TEST(a_path_mtu_is_none_or_one_of_the_five)
{
	struct rmem_join join = sample, back;

	for (join.mtu_bytes = 0; join.mtu_bytes <= 9000; join.mtu_bytes++) {
		size_t length = rmem_wire_put_join(bytes, &join);
		bool good = join.mtu_bytes == 0 || join.mtu_bytes == 256 || join.mtu_bytes == 512 ||
			    join.mtu_bytes == 1024 || join.mtu_bytes == 2048 ||
			    join.mtu_bytes == 4096;

		ck_assert_int_eq(rmem_wire_get_join(bytes, length, &back), good ? 0 : -EPROTO);
	}
}
END_TEST

START_TEST(a_denial_of_any_version_can_be_read)
{
	struct rmem_wire_denial *wire = (struct rmem_wire_denial *)(void *)bytes;
	struct rmem_wire_refusal refusal;
	size_t length = rmem_wire_put_denial(bytes, RMEM_WIRE_CODE_BUSY, "no room");

	ck_assert_uint_le(length, RMEM_WIRE_DENIAL_MAX_BYTES);
	wire->version = htole16(RMEM_WIRE_VERSION + 3);
	ck_assert_int_eq(rmem_wire_get_denial(bytes, RMEM_WIRE_DENIAL_MAX_BYTES, &refusal), 0);
	ck_assert_uint_eq(refusal.code, RMEM_WIRE_CODE_BUSY);
	ck_assert_str_eq(refusal.text, "no room");
	ck_assert_int_eq(rmem_wire_get_denial(bytes, length - 1, &refusal), -EPROTO);
	memset(wire->text, 'x', sizeof(wire->text)); /* does not end */
	ck_assert_int_eq(rmem_wire_get_denial(bytes, length, &refusal), -EPROTO);
	rmem_wire_put_denial(bytes, RMEM_WIRE_CODE_BUSY, "");
	wire->magic = 0;
	ck_assert_int_eq(rmem_wire_get_denial(bytes, length, &refusal), -EPROTO);
}
END_TEST

START_TEST(a_text_too_long_for_a_denial_is_cut)
{
	struct rmem_wire_refusal refusal;
	char text[300];

	memset(text, 't', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	ck_assert_int_eq(
		rmem_wire_get_denial(bytes, rmem_wire_put_denial(bytes, RMEM_WIRE_CODE_BUSY, text),
				     &refusal),
		0);
	ck_assert_uint_eq(strlen(refusal.text), RMEM_WIRE_DENIAL_TEXT_BYTES - 1);
}
END_TEST

/* --- Who may come ------------------------------------------------------------------------------
 */

static const char *const open_urls[] = {"verbs://0.0.0.0", "verbs://[::]:7471",
					"verbs://10.11.12.13:7471"};

START_TEST(a_server_open_to_a_network_must_be_told_so)
{
	struct rmem_server_options options;
	struct rmem_server *server;
	struct rmem_error error;

	rmem_server_options_init(&options);
	ck_assert(!options.allow_unauthenticated);
	ck_assert_int_eq(rmem_server_create(&options, &server, NULL), 0);
	if (rmem_fabric_find(open_urls[_i]) == NULL) {
		/* A build without RDMA says that, and how to get it. */
		ck_assert_int_eq(rmem_server_listen(server, open_urls[_i], &error), -EINVAL);
		ck_assert_ptr_nonnull(strstr(error.text, "-Dverbs=enabled"));
	} else {
		ck_assert_int_eq(rmem_server_listen(server, open_urls[_i], &error), -EPERM);
		ck_assert_ptr_nonnull(strstr(error.text, "--allow-unauthenticated"));
	}
	rmem_server_destroy(server);
}
END_TEST

/* What there is no device for: an address that nobody has (documentation's, RFC 5737). */
static const char nowhere[] = "verbs://192.0.2.1:7471";

START_TEST(without_a_device_the_message_tells_how_to_make_one)
{
	const struct rmem_fabric *fabric = rmem_fabric_find(nowhere);
	struct rmem_verbs_options options;
	struct rmem_port *port;
	struct rmem_error error;
	int rc;

	if (fabric == NULL) {
		ck_assert_int_eq(rmem_fabric_unknown(nowhere, &error), -EINVAL);
		ck_assert_ptr_nonnull(strstr(error.text, "-Dverbs=enabled"));
		return;
	}
	rmem_verbs_options_init(&options);
	options.source = "192.0.2.2"; /* no host of ours has this */
	ck_assert_int_eq(rmem_verbs_configure(&options, NULL), 0);
	rc = fabric->port_open(nowhere, &port, &error);
	ck_assert_msg(rc == -ENODEV, "%d: %s", rc, error.text);
	ck_assert_ptr_nonnull(strstr(error.text, "rdma link add rxe0 type rxe netdev eth0"));
}
END_TEST

START_TEST(a_url_that_is_none_is_an_error_of_its_own)
{
	const struct rmem_fabric *fabric = rmem_fabric_find("verbs://h");
	struct rmem_port *port;

	if (fabric != NULL)
		ck_assert_int_eq(fabric->port_open("verbs://h:port", &port, NULL), -EINVAL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs");
	TCase *settings = tcase_create("settings"), *private = tcase_create("private_data"),
	      *absent = tcase_create("absent");

	tcase_add_loop_test(settings, an_address_is_taken_apart, 0, RMEM_COUNT_OF(good_urls));
	tcase_add_loop_test(settings, what_is_no_address_is_refused_with_an_example, 0,
			    RMEM_COUNT_OF(bad_urls));
	tcase_add_test(settings, a_host_that_is_too_long_is_refused);
	tcase_add_test(settings, the_default_settings_are_good_and_a_port_of_ones_own_is_used);
	tcase_add_test(settings, settings_out_of_range_are_refused_by_name_and_change_nothing);
	tcase_add_test(settings, the_ack_timeout_is_the_longest_that_keeps_to_the_time);
	tcase_add_test(settings,
		       the_rnr_timer_is_never_shorter_than_asked_and_never_the_longest_by_accident);
	tcase_add_test(private, a_join_comes_back_as_it_was_also_with_padding_behind);
	tcase_add_test(private, every_field_of_a_join_is_checked);
	tcase_add_test(private, a_path_mtu_is_none_or_one_of_the_five);
	tcase_add_test(private, a_denial_of_any_version_can_be_read);
	tcase_add_test(private, a_text_too_long_for_a_denial_is_cut);
	tcase_add_loop_test(absent, a_server_open_to_a_network_must_be_told_so, 0,
			    RMEM_COUNT_OF(open_urls));
	tcase_add_test(absent, without_a_device_the_message_tells_how_to_make_one);
	tcase_add_test(absent, a_url_that_is_none_is_an_error_of_its_own);
	suite_add_tcase(suite, settings);
	suite_add_tcase(suite, private);
	suite_add_tcase(suite, absent);
	return run_suite(suite);
}
