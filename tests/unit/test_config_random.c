/* SPDX-License-Identifier: Apache-2.0 */
/* Files of random content: whatever is in them, the loader comes back, with an error that has a
 * text or with values that are in their ranges. The seed is fixed; RMEM_TEST_SEED and
 * RMEM_TEST_ROUNDS look further. */
#include <errno.h>
#include <stdint.h>

#include "config/config.h"
#include "tests/support/config_file.h"
#include "tests/support/runner.h"

#define BYTES_MAX 4096

/* Pieces that reach deeper than bytes do. */
static const char *const pieces[] = {
	"servers",
	"engine",
	"store",
	"fs",
	"chunk",
	"depth",
	"cache",
	"url",
	"listen",
	"server",
	":",
	"=",
	"{",
	"}",
	"};",
	"[",
	"]",
	"(",
	")",
	",",
	";",
	"\n",
	" ",
	"\"",
	"\"64KiB\"",
	"\"shm:/a\"",
	"64KiB",
	"5",
	"-1",
	"1e9",
	"1.5",
	"0x7f",
	"99999999999999999999",
	"true",
	"busy",
	"#",
	"//",
	"/*",
	"*/",
	"\\",
	"\\x01",
	"@include \"rnd.cfg\"\n",
	"@include \"/\"\n",
	"@include",
	"engine.chunk",
	"\t",
	"4294967296L",
	"\"lmdb:/s\"",
	"*left-out-0",
	"\r\n",
	"\xff",
	"+",
	".",
	"LL",
};

static const char sample[] = "servers = [ \"shm:/a\", \"shm:/b\" ];\n"
			     "store: { url = \"lmdb:/s\"; map_size = 8589934592; };\n"
			     "engine: {\n\tchunk = \"128KiB\"; # a comment\n\tdepth = 512;\n};\n"
			     "fs: { allow_other = true; wait = \"5s\"; /* another */ cache = "
			     "\"none\"; };\n"
			     "server: { listen = ( \"shm:/x\" ); socket_mode = \"0660\"; };\n";

static size_t random_below(size_t bound)
{
	return (size_t)random() % bound;
}

static size_t random_bytes(char *text)
{
	size_t length = random_below(256);

	for (size_t i = 0; i < length; i++)
		text[i] = (char)random();
	return length;
}

/* Copies a piece without its NUL and returns its length. */
static size_t put_piece(char *text, const char *piece)
{
	size_t length = 0;

	for (; piece[length] != '\0'; length++)
		text[length] = piece[length];
	return length;
}

static size_t random_pieces(char *text)
{
	size_t count = random_below(120), length = 0;

	while (count-- > 0)
		length += put_piece(text + length, pieces[random_below(RMEM_COUNT_OF(pieces))]);
	return length;
}

/* The sample with a few bytes or pieces changed, put in, or taken out. */
static size_t random_changes(char *text)
{
	size_t length = sizeof(sample) - 1;

	memcpy(text, sample, length);
	for (size_t changes = 1 + random_below(6); changes > 0; changes--) {
		const char *piece = pieces[random_below(RMEM_COUNT_OF(pieces))];
		size_t at = random_below(length), size = strlen(piece);

		switch (random_below(4)) {
		case 0:
			text[at] = (char)random();
			break;
		case 1:
			length = at + 1;
			break;
		case 2:
			memmove(text + at, text + at + 1, length - at - 1);
			length = length > 1 ? length - 1 : length;
			break;
		default:
			memmove(text + at + size, text + at, length - at);
			length += put_piece(text + at, piece);
			break;
		}
	}
	return length;
}

static void check_values(const struct conf *conf)
{
	size_t count;

	ck_assert_uint_ge(conf_count(conf, "engine.depth"), 2);
	ck_assert_uint_le(conf_count(conf, "engine.depth"), 32768);
	ck_assert_uint_eq(conf_size_bytes(conf, "engine.chunk") % 4096, 0);
	ck_assert_uint_ge(conf_size_bytes(conf, "engine.chunk"), 4096);
	ck_assert_uint_le(conf_enum(conf, "fs.cache"), CONF_CACHE_ALWAYS);
	ck_assert_uint_le(conf_mode(conf, "server.socket_mode"), 0777);
	ck_assert_ptr_nonnull(conf_text(conf, "store.url"));
	conf_list(conf, "servers", &count);
	ck_assert_uint_le(count, 256);
}

static void check_load(const char *path)
{
	struct conf *conf = conf_create(CONF_RMEMFS);
	struct conf_errors errors;
	int rc;

	ck_assert_ptr_nonnull(conf);
	conf_errors_init(&errors);
	rc = conf_load(conf, path, &errors);
	ck_assert_msg((rc == 0) == (errors.count == 0), "%d with %zu errors", rc, errors.count);
	ck_assert(rc == 0 || rc == -EINVAL);
	for (size_t i = 0; i < errors.kept; i++)
		ck_assert_ptr_eq(strstr(errors.list[i].text, "/tmp/"), errors.list[i].text);
	check_values(conf);
	conf_errors_finish(&errors);
	conf_destroy(conf);
}

static unsigned long setting(const char *name, unsigned long usual)
{
	const char *text = getenv(name);

	return text != NULL ? strtoul(text, NULL, 10) : usual;
}

static void check_rounds(size_t (*make)(char *text))
{
	unsigned long seed = setting("RMEM_TEST_SEED", 1);
	unsigned long rounds = setting("RMEM_TEST_ROUNDS", 1000);
	struct config_folder folder;
	char text[BYTES_MAX];

	config_folder_init(&folder);
	for (unsigned long i = 0; i < rounds; i++) {
		srandom((unsigned)(seed + i));
		check_load(config_file_bytes(&folder, "rnd.cfg", text, make(text)));
	}
	config_folder_finish(&folder);
}

START_TEST(random_bytes_never_crash_the_loader)
{
	check_rounds(random_bytes);
}
END_TEST

START_TEST(random_pieces_never_crash_the_loader)
{
	check_rounds(random_pieces);
}
END_TEST

START_TEST(random_changes_to_a_good_file_never_crash_the_loader)
{
	check_rounds(random_changes);
}
END_TEST

START_TEST(random_assignments_never_crash_set)
{
	struct conf *conf = conf_create(CONF_RMEMFS);
	char text[BYTES_MAX];

	srandom(1);
	for (unsigned i = 0; i < 20000; i++) {
		const struct conf_key *key = &conf_schema[random_below(conf_schema_count)];
		int prefix = i % 2 == 0 ? snprintf(text, sizeof(text), "%s=", key->name) : 0;
		size_t length = (size_t)prefix + random_bytes(text + prefix);
		struct conf_errors errors;

		text[length] = '\0';
		conf_errors_init(&errors);
		int rc = conf_set(conf, text, &errors);
		ck_assert((rc == 0) == (errors.count == 0));
		conf_errors_finish(&errors);
	}
	check_values(conf);
	conf_destroy(conf);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config_random");
	TCase *tcase = tcase_create("random");

	tcase_set_timeout(tcase, 100);
	tcase_add_test(tcase, random_bytes_never_crash_the_loader);
	tcase_add_test(tcase, random_pieces_never_crash_the_loader);
	tcase_add_test(tcase, random_changes_to_a_good_file_never_crash_the_loader);
	tcase_add_test(tcase, random_assignments_never_crash_set);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
