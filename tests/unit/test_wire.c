/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/wire.h"
#include "tests/support/runner.h"

static uint8_t message[RMEM_WIRE_MAX_BYTES];
static struct rmem_welcome welcome;

static size_t make_welcome(uint32_t region_count)
{
	welcome = (struct rmem_welcome){
		.features = 0x0123456789abcdefu,
		.incarnation = 0xfedcba9876543210u,
		.pid = 4711,
		.region_count = region_count,
	};
	for (uint32_t i = 0; i < region_count; i++)
		welcome.regions[i] = (struct rmem_welcome_region){
			.remote = {.address = (i + 1ull) << 56,
				   .length = (i + 1ull) << 20,
				   .key = 0xabcdef00 + i,
				   .id = i},
			.fd_offset = i * 4096ull,
			.fd_index = i % 3 == 2 ? RMEM_WIRE_NO_FD : i,
			.page_bytes = 4096,
		};
	return rmem_wire_put_welcome(message, &welcome);
}

START_TEST(a_greeting_comes_through)
{
	struct rmem_hello hello = {.features = 3, .pid = 77, .name = "rmemfs", .host = "some.host"};
	struct rmem_hello found;
	size_t length = rmem_wire_put_hello(message, &hello), peeked;
	enum rmem_wire_type type;

	ck_assert_int_eq(rmem_wire_peek(message, length, &type, &peeked), 0);
	ck_assert_int_eq(type, RMEM_WIRE_HELLO);
	ck_assert_uint_eq(peeked, length);
	ck_assert_int_eq(rmem_wire_get_hello(message, length, &found), 0);
	ck_assert_uint_eq(found.features, 3);
	ck_assert_uint_eq(found.pid, 77);
	ck_assert_str_eq(found.name, "rmemfs");
	ck_assert_str_eq(found.host, "some.host");
}
END_TEST

START_TEST(a_full_region_table_comes_through)
{
	struct rmem_welcome found;
	size_t length = make_welcome(RMEM_REGIONS_MAX);

	ck_assert_int_eq(rmem_wire_get_welcome(message, length, &found), 0);
	ck_assert_uint_eq(found.features, welcome.features);
	ck_assert_uint_eq(found.incarnation, welcome.incarnation);
	ck_assert_uint_eq(found.pid, welcome.pid);
	ck_assert_uint_eq(found.region_count, RMEM_REGIONS_MAX);
	for (unsigned i = 0; i < RMEM_REGIONS_MAX; i++) {
		const struct rmem_welcome_region *a = &found.regions[i], *b = &welcome.regions[i];

		ck_assert_uint_eq(a->remote.address, b->remote.address);
		ck_assert_uint_eq(a->remote.length, b->remote.length);
		ck_assert_uint_eq(a->remote.key, b->remote.key);
		ck_assert_uint_eq(a->remote.id, b->remote.id);
		ck_assert_uint_eq(a->fd_offset, b->fd_offset);
		ck_assert_uint_eq(a->fd_index, b->fd_index);
		ck_assert_uint_eq(a->page_bytes, b->page_bytes);
	}
}
END_TEST

START_TEST(a_status_comes_through)
{
	struct rmem_status status = {
		.incarnation = 1ull << 63,
		.pool_bytes = 1ull << 45,
		.uptime_ms = 1ull << 40,
		.pid = 9,
		.page_bytes = 2 << 20,
		.region_count = 64,
		.client_count = 1000,
		.flags = RMEM_STATUS_HUGE_PAGES,
		.program = "rmemd 1",
		.backing = "anonymous",
		.owner = {1, 2, [15] = 16},
	};
	struct rmem_status found;
	size_t length = rmem_wire_put_status(message, &status);

	ck_assert_int_eq(rmem_wire_get_status(message, length, &found), 0);
	ck_assert_uint_eq(found.incarnation, status.incarnation);
	ck_assert_uint_eq(found.pool_bytes, status.pool_bytes);
	ck_assert_uint_eq(found.uptime_ms, status.uptime_ms);
	ck_assert_uint_eq(found.pid, 9);
	ck_assert_uint_eq(found.page_bytes, 2 << 20);
	ck_assert_uint_eq(found.region_count, 64);
	ck_assert_uint_eq(found.client_count, 1000);
	ck_assert_uint_eq(found.flags, RMEM_STATUS_HUGE_PAGES);
	ck_assert_str_eq(found.program, "rmemd 1");
	ck_assert_str_eq(found.backing, "anonymous");
	ck_assert_mem_eq(found.owner, status.owner, sizeof(found.owner));
	ck_assert_int_eq(
		rmem_wire_get_status_request(message, rmem_wire_put_status_request(message)), 0);
}
END_TEST

START_TEST(numbers_are_little_endian_at_their_places)
{
	static const uint8_t header[16] = {'R', 'M', 'E', 'M', 1, 0, 1, 0, 192, 0, 0, 0};
	struct rmem_hello hello = {.features = 0x0807060504030201u, .pid = 0x0d0c0b0a};

	ck_assert_uint_eq(rmem_wire_put_hello(message, &hello), 192);
	ck_assert_mem_eq(message, header, 16);
	for (unsigned i = 0; i < 8; i++)
		ck_assert_uint_eq(message[16 + i], i + 1);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_eq(message[24 + i], i + 0xa);
}
END_TEST

START_TEST(a_text_that_is_too_long_is_cut)
{
	struct rmem_wire_refusal refusal;
	char text[1000];
	size_t length;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	length = rmem_wire_put_error(message, RMEM_WIRE_CODE_BUSY, text);
	ck_assert_int_eq(rmem_wire_get_error(message, length, &refusal), 0);
	ck_assert_uint_eq(refusal.code, RMEM_WIRE_CODE_BUSY);
	ck_assert_uint_eq(strlen(refusal.text), RMEM_WIRE_TEXT_BYTES - 1);
}
END_TEST

START_TEST(a_text_comes_back_printable)
{
	struct rmem_hello hello = {.name = "a\033[2Jb\n", .host = "\xc3\xa4"}, found;
	size_t length = rmem_wire_put_hello(message, &hello);

	ck_assert_int_eq(rmem_wire_get_hello(message, length, &found), 0);
	ck_assert_str_eq(found.name, "a?[2Jb?");
	ck_assert_str_eq(found.host, "??");
}
END_TEST

START_TEST(a_text_without_an_end_is_refused)
{
	struct rmem_hello hello = {.name = "x"}, found;
	size_t length = rmem_wire_put_hello(message, &hello);

	memset(message + 32, 'x', RMEM_WIRE_NAME_BYTES);
	ck_assert_int_eq(rmem_wire_get_hello(message, length, &found), -EPROTO);
	memset(message + 33, 0, RMEM_WIRE_NAME_BYTES - 1);
	ck_assert_int_eq(rmem_wire_get_hello(message, length, &found), 0);
	message[40] = 'y'; /* behind the end */
	ck_assert_int_eq(rmem_wire_get_hello(message, length, &found), -EPROTO);
}
END_TEST

START_TEST(any_other_length_is_refused)
{
	struct rmem_hello hello = {.name = "x"};
	struct rmem_wire_refusal refusal;
	struct rmem_status status = {.pid = 1};
	size_t length;

	length = rmem_wire_put_hello(message, &hello);
	for (size_t i = 0; i < sizeof(message); i++)
		ck_assert_int_eq(rmem_wire_get_hello(message, i, &hello),
				 i == length ? 0 : -EPROTO);
	length = make_welcome(3);
	for (size_t i = 0; i < sizeof(message); i++)
		ck_assert_int_eq(rmem_wire_get_welcome(message, i, &welcome),
				 i == length ? 0 : -EPROTO);
	length = rmem_wire_put_status(message, &status);
	for (size_t i = 0; i < sizeof(message); i++)
		ck_assert_int_eq(rmem_wire_get_status(message, i, &status),
				 i == length ? 0 : -EPROTO);
	length = rmem_wire_put_status_request(message);
	for (size_t i = 0; i < sizeof(message); i++)
		ck_assert_int_eq(rmem_wire_get_status_request(message, i),
				 i == length ? 0 : -EPROTO);
	length = rmem_wire_put_error(message, RMEM_WIRE_CODE_BUSY, "x");
	for (size_t i = 0; i < length; i++)
		ck_assert_int_eq(rmem_wire_get_error(message, i, &refusal), -EPROTO);
}
END_TEST

/* Sets each byte of [from, to) in turn and expects a refusal. */
#define EXPECT_RESERVED(from, to, get)                                                             \
	for (size_t at = (from); at < (to); at++) {                                                \
		message[at] = 1;                                                                   \
		ck_assert_msg((get) == -EPROTO, "byte %zu", at);                                   \
		message[at] = 0;                                                                   \
		ck_assert_int_eq((get), 0);                                                        \
	}

START_TEST(what_is_reserved_has_to_be_zero)
{
	struct rmem_hello hello = {.name = "x"};
	struct rmem_status status = {.pid = 1};
	enum rmem_wire_type type;
	size_t length, peeked;

	length = rmem_wire_put_hello(message, &hello);
	EXPECT_RESERVED(12, 16, rmem_wire_peek(message, length, &type, &peeked));
	EXPECT_RESERVED(28, 32, rmem_wire_get_hello(message, length, &hello));
	EXPECT_RESERVED(144, 192, rmem_wire_get_hello(message, length, &hello));
	length = make_welcome(2);
	EXPECT_RESERVED(40, 64, rmem_wire_get_welcome(message, length, &welcome));
	EXPECT_RESERVED(64 + 40, 64 + 48, rmem_wire_get_welcome(message, length, &welcome));
	length = rmem_wire_put_status_request(message);
	EXPECT_RESERVED(16, 32, rmem_wire_get_status_request(message, length));
	length = rmem_wire_put_status(message, &status);
	EXPECT_RESERVED(60, 64, rmem_wire_get_status(message, length, &status));
	EXPECT_RESERVED(368, 416, rmem_wire_get_status(message, length, &status));
}
END_TEST

static void expect_bad_region(const struct rmem_welcome_region *region)
{
	struct rmem_welcome found;
	size_t length;

	make_welcome(2);
	welcome.regions[1] = *region;
	length = rmem_wire_put_welcome(message, &welcome);
	ck_assert_int_eq(rmem_wire_get_welcome(message, length, &found), -EPROTO);
}

START_TEST(a_region_that_can_not_be_is_refused)
{
	struct rmem_welcome_region good, bad;

	make_welcome(2);
	good = welcome.regions[1];
	bad = good, bad.remote.length = 0, expect_bad_region(&bad);
	bad = good, bad.remote.length = 4097, expect_bad_region(&bad);
	bad = good, bad.remote.length = UINT64_MAX & ~4095ull, expect_bad_region(&bad);
	bad = good, bad.remote.address = UINT64_MAX - 4096, expect_bad_region(&bad);
	bad = good, bad.remote.id = 0, expect_bad_region(&bad);
	bad = good, bad.fd_offset = INT64_MAX & ~4095ull, expect_bad_region(&bad);
	bad = good, bad.fd_offset = 100, expect_bad_region(&bad);
	bad = good, bad.page_bytes = 0, expect_bad_region(&bad);
	bad = good, bad.page_bytes = 512, expect_bad_region(&bad);
	bad = good, bad.page_bytes = 4096 + 8192, expect_bad_region(&bad);
}
END_TEST

START_TEST(a_welcome_without_regions_or_incarnation_is_refused)
{
	struct rmem_welcome found;
	size_t length = make_welcome(0);

	ck_assert_int_eq(rmem_wire_get_welcome(message, length, &found), -EPROTO);
	length = make_welcome(1);
	memset(message + 24, 0, 8);
	ck_assert_int_eq(rmem_wire_get_welcome(message, length, &found), -EPROTO);
	/* More of them than there may be, in a message of just that length. */
	make_welcome(RMEM_REGIONS_MAX);
	message[36] = RMEM_REGIONS_MAX + 1;
	length = sizeof(struct rmem_wire_welcome) +
		 (RMEM_REGIONS_MAX + 1) * sizeof(struct rmem_wire_region);
	ck_assert_int_eq(rmem_wire_get_welcome(message, length, &found), -EPROTO);
}
END_TEST

START_TEST(a_header_is_judged_as_soon_as_it_can_be)
{
	struct rmem_hello hello = {.name = "x"};
	enum rmem_wire_type type;
	size_t length;

	rmem_wire_put_hello(message, &hello);
	for (size_t used = 0; used < 16; used++)
		ck_assert_int_eq(rmem_wire_peek(message, used, &type, &length), -EAGAIN);
	for (size_t used = 1; used < 16; used++)
		ck_assert_int_eq(rmem_wire_peek("GET / HTTP/1.1\r\n", used, &type, &length),
				 -EPROTO);
	ck_assert_int_eq(rmem_wire_peek("RMEx", 3, &type, &length), -EAGAIN);
	ck_assert_int_eq(rmem_wire_peek("RMEx", 4, &type, &length), -EPROTO);
}
END_TEST

START_TEST(a_length_out_of_range_is_refused)
{
	static const uint32_t lengths[] = {0, 15, RMEM_WIRE_MAX_BYTES + 1, UINT32_MAX};
	struct rmem_hello hello = {.name = "x"};
	enum rmem_wire_type type;
	size_t length;

	rmem_wire_put_hello(message, &hello);
	for (unsigned i = 0; i < RMEM_COUNT_OF(lengths); i++) {
		memcpy(message + 8, &lengths[i], 4);
		ck_assert_int_eq(rmem_wire_peek(message, 16, &type, &length), -EPROTO);
	}
}
END_TEST

START_TEST(another_version_is_told_apart_and_its_errors_can_be_read)
{
	struct rmem_wire_refusal refusal;
	struct rmem_hello hello = {.name = "x"};
	enum rmem_wire_type type;
	size_t length, peeked;

	length = rmem_wire_put_hello(message, &hello);
	message[4] = 2;
	ck_assert_int_eq(rmem_wire_peek(message, length, &type, &peeked), -EPROTONOSUPPORT);
	length = rmem_wire_put_error(message, RMEM_WIRE_CODE_VERSION, "too old");
	message[4] = 2;
	message[8] = 0;
	message[9] = 2; /* a longer message: 512 */
	ck_assert_int_eq(rmem_wire_peek(message, length, &type, &peeked), 0);
	ck_assert_int_eq(type, RMEM_WIRE_ERROR);
	ck_assert_uint_eq(peeked, 512);
	ck_assert_int_eq(rmem_wire_get_error(message, 512, &refusal), 0);
	ck_assert_str_eq(refusal.text, "too old");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("wire");
	TCase *round_trip = tcase_create("round_trip"), *refused = tcase_create("refused");

	tcase_add_test(round_trip, a_greeting_comes_through);
	tcase_add_test(round_trip, a_full_region_table_comes_through);
	tcase_add_test(round_trip, a_status_comes_through);
	tcase_add_test(round_trip, numbers_are_little_endian_at_their_places);
	tcase_add_test(round_trip, a_text_that_is_too_long_is_cut);
	tcase_add_test(round_trip, a_text_comes_back_printable);
	tcase_add_test(refused, a_text_without_an_end_is_refused);
	tcase_add_test(refused, any_other_length_is_refused);
	tcase_add_test(refused, what_is_reserved_has_to_be_zero);
	tcase_add_test(refused, a_region_that_can_not_be_is_refused);
	tcase_add_test(refused, a_welcome_without_regions_or_incarnation_is_refused);
	tcase_add_test(refused, a_header_is_judged_as_soon_as_it_can_be);
	tcase_add_test(refused, a_length_out_of_range_is_refused);
	tcase_add_test(refused, another_version_is_told_apart_and_its_errors_can_be_read);
	suite_add_tcase(suite, round_trip);
	suite_add_tcase(suite, refused);
	return run_suite(suite);
}
