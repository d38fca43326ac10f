/* SPDX-License-Identifier: Apache-2.0 */
/* The scanner: copies a file's text token by token, without comments, and puts right what would
 * make libconfig stop or read something else than what stands there. */
#include "config/scan.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/checked.h"

/* How much of a wrong token a message shows. */
#define SHOWN 40

/* The byte `ahead` of the current one; NUL past the end (the text itself has none). */
static char peek(const struct conf_scan *scan, size_t ahead)
{
	if (ahead < scan->length - scan->at)
		return scan->in[scan->at + ahead];
	return '\0';
}

static void copy(struct conf_scan *scan, size_t count)
{
	while (count-- > 0)
		conf_scan_put(scan, scan->in[scan->at++]);
}

static void put_text(struct conf_scan *scan, const char *text)
{
	while (*text != '\0')
		conf_scan_put(scan, *text++);
}

static bool starts_name(char c)
{
	return isalpha((unsigned char)c) || c == '*';
}

static bool continues_name(char c)
{
	return isalnum((unsigned char)c) || c == '*' || c == '_' || c == '-';
}

/* In the place of a value that is wrong already: the loader knows it by this. */
static void put_wrong(struct conf_scan *scan)
{
	put_text(scan, "\"" CONF_WRONG_VALUE "\"");
}

/* Starts a complaint with the key, when there is one. */
static const char *key_prefix(const struct conf_scan *scan, char *text, size_t size)
{
	if (scan->reader->key_length == 0)
		return "";
	snprintf(text, size, "%.*s: ", (int)scan->reader->key_length, scan->reader->key);
	return text;
}

static void skip_line_comment(struct conf_scan *scan)
{
	while (scan->at < scan->length && scan->in[scan->at] != '\n')
		scan->at++;
}

static void skip_block_comment(struct conf_scan *scan)
{
	size_t start_at = scan->at;

	for (scan->at += 2; scan->at < scan->length; scan->at++) {
		if (peek(scan, 0) == '*' && peek(scan, 1) == '/') {
			scan->at += 2;
			conf_scan_put(scan, ' ');
			return;
		}
	}
	conf_scan_complain(scan, "the comment that starts here, \"%.*s\", never ends",
			   (int)rmem_min_u64(strcspn(scan->in + start_at, "\n"), SHOWN),
			   scan->in + start_at);
	scan->reader->source->cut = true;
}

/* Newlines within the comment are kept, so that the lines after it keep their numbers. */
static void pass_block_comment(struct conf_scan *scan)
{
	size_t start = scan->at;

	skip_block_comment(scan);
	for (size_t i = start; i < scan->at; i++) {
		if (scan->in[i] == '\n')
			conf_scan_put(scan, '\n');
	}
}

/* A string that goes on over the end of the line is always a forgotten quote here. */
static void scan_string(struct conf_scan *scan)
{
	char prefix[160];

	copy(scan, 1);
	while (peek(scan, 0) != '\0' && peek(scan, 0) != '\n') {
		char c = peek(scan, 0);

		if (c == '\\' && peek(scan, 1) != '\n' && peek(scan, 1) != '\0')
			copy(scan, 1);
		else if (c == '\\')
			break;
		copy(scan, 1);
		if (c == '"')
			return;
	}
	conf_scan_complain(scan, "%sthe string has no closing quote on its line",
			   key_prefix(scan, prefix, sizeof(prefix)));
	skip_line_comment(scan);
	put_text(scan, CONF_WRONG_VALUE "\"");
	scan->reader->source->unsure = true;
}

static size_t digits_length(const struct conf_scan *scan, size_t from, bool hex)
{
	size_t n = from;

	while (hex ? isxdigit((unsigned char)peek(scan, n)) : isdigit((unsigned char)peek(scan, n)))
		n++;
	return n - from;
}

/* 64KiB and the like without quotes. */
static void scan_unquoted(struct conf_scan *scan, size_t length)
{
	char prefix[160];

	while (continues_name(peek(scan, length)) || peek(scan, length) == '%')
		length++;
	conf_scan_complain(scan, "%sfound %.*s, a value with a unit is written in quotes",
			   key_prefix(scan, prefix, sizeof(prefix)),
			   (int)rmem_min_u64(length, SHOWN), scan->in + scan->at);
	scan->at += length;
	put_wrong(scan);
}

/* Integers of 32 bits wrap around in libconfig unless they end in L, and those of 64 stop at the
 * largest one. */
static void scan_integer(struct conf_scan *scan, size_t length, bool hex)
{
	char digits[40], prefix[160];
	unsigned long long magnitude;

	snprintf(digits, sizeof(digits), "%.*s", (int)rmem_min_u64(length, sizeof(digits) - 1),
		 scan->in + scan->at);
	errno = 0;
	magnitude =
		strtoull(digits + (isdigit((unsigned char)digits[0]) ? 0 : 1), NULL, hex ? 16 : 10);
	if (length >= sizeof(digits) || errno != 0 || magnitude > INT64_MAX) {
		conf_scan_complain(scan, "%sfound %s%s, a number that is too large",
				   key_prefix(scan, prefix, sizeof(prefix)), digits,
				   length >= sizeof(digits) ? "..." : "");
		scan->at += length;
		while (peek(scan, 0) == 'L')
			scan->at++;
		put_wrong(scan);
		return;
	}
	copy(scan, length);
	if (magnitude > INT32_MAX && peek(scan, 0) != 'L')
		conf_scan_put(scan, 'L');
	while (peek(scan, 0) == 'L')
		copy(scan, 1);
}

static void scan_number(struct conf_scan *scan)
{
	size_t sign = isdigit((unsigned char)peek(scan, 0)) ? 0 : 1;
	bool hex = peek(scan, sign) == '0' && (peek(scan, sign + 1) | 0x20) == 'x';
	size_t length = sign + (hex ? 2 : 0);
	size_t after;
	char c;

	length += digits_length(scan, length, hex);
	c = peek(scan, length);
	if (!hex &&
	    (c == '.' || ((c | 0x20) == 'e' && !isalpha((unsigned char)peek(scan, length + 1)) &&
			  peek(scan, length + 1) != '\0'))) {
		while (strchr("0123456789.eE+-", peek(scan, length)) != NULL &&
		       peek(scan, length) != '\0')
			length++;
		copy(scan, length);
		return;
	}
	after = length;
	while (after < length + 2 && peek(scan, after) == 'L')
		after++;
	if (starts_name(peek(scan, after)) || peek(scan, after) == '_')
		scan_unquoted(scan, after);
	else
		scan_integer(scan, length, hex);
}

/* A name for a setting that is wrong already. Within it, if it is a group, nothing is new. */
static void put_left_out(struct conf_scan *scan)
{
	struct conf_reader *reader = scan->reader;
	char name[32];

	snprintf(name, sizeof(name), CONF_LEFT_OUT "%u", reader->left_out++);
	conf_reader_name(reader, name, strlen(name));
	put_text(scan, name);
	reader->source->dropped = true;
}

/* The name in front of = or :. One that was there before in its group gets another name, which
 * lets libconfig go on. */
static void scan_key(struct conf_scan *scan, size_t length)
{
	struct conf_reader *reader = scan->reader;
	const struct conf_source *source = reader->source;
	const struct conf_seen *before;
	bool elsewhere;

	conf_reader_name(reader, scan->in + scan->at, length);
	before = conf_reader_seen(reader);
	if (before == NULL) {
		copy(scan, length);
		return;
	}
	elsewhere = source->lines[before->line - 1].file != scan->file;
	conf_scan_complain(scan, "%s: set a second time, first on line %u%s%s", before->key,
			   conf_source_line(source, before->line), elsewhere ? " of " : "",
			   elsewhere ? conf_source_file(source, before->line) : "");
	scan->at += length;
	put_left_out(scan);
}

/* engine.chunk = ... is how keys are written everywhere but in these files. */
static void scan_dotted_key(struct conf_scan *scan, size_t length)
{
	conf_reader_name(scan->reader, scan->in + scan->at, length);
	conf_scan_complain(scan,
			   "found %.*s; a setting in a group is written GROUP: { NAME = VALUE; };",
			   (int)rmem_min_u64(length, SHOWN), scan->in + scan->at);
	scan->at += length;
	put_left_out(scan);
}

static bool is_bool(const char *word, size_t length)
{
	return (length == 4 && strncasecmp(word, "true", 4) == 0) ||
	       (length == 5 && strncasecmp(word, "false", 5) == 0);
}

/* A word after = that is no true or false was meant as a string. */
static void scan_word(struct conf_scan *scan, size_t length)
{
	char last = scan->reader->last, prefix[160];

	if (is_bool(scan->in + scan->at, length) || (last != '=' && last != ':')) {
		copy(scan, length);
		return;
	}
	conf_scan_complain(scan, "%sfound %.*s, a word is written in quotes",
			   key_prefix(scan, prefix, sizeof(prefix)),
			   (int)rmem_min_u64(length, SHOWN), scan->in + scan->at);
	scan->at += length;
	put_wrong(scan);
}

static void scan_name(struct conf_scan *scan)
{
	size_t length = 0, next;
	bool dotted = false;
	char c;

	while (continues_name(peek(scan, length)) ||
	       (peek(scan, length) == '.' && starts_name(peek(scan, length + 1)))) {
		dotted = dotted || peek(scan, length) == '.';
		length++;
	}
	next = length;
	while (peek(scan, next) == ' ' || peek(scan, next) == '\t')
		next++;
	c = peek(scan, next);
	if (c != '=' && c != ':')
		scan_word(scan, length);
	else if (dotted)
		scan_dotted_key(scan, length);
	else
		scan_key(scan, length);
}

/* @include "FILE", alone on its line. */
static void scan_include(struct conf_scan *scan)
{
	size_t length = strcspn(scan->in + scan->at, "\n");
	const char *line = scan->in + scan->at;
	char name[1024], rest[2] = "";
	int end = 0; /* behind the closing quote, when there is one */
	char *directive = strndup(line, length);

	if (directive == NULL) {
		scan->reader->failure = -ENOMEM;
		return;
	}
	scan->at += length;
	if (sscanf(directive, "@include \"%1023[^\"]\"%n %1s", name, &end, rest) >= 1 && end > 0 &&
	    strchr("#/", rest[0]) != NULL)
		conf_scan_include(scan, name);
	else
		conf_scan_complain(scan, "found %.*s; write @include \"FILE\" on a line of its own",
				   SHOWN, directive);
	free(directive);
}

static void scan_sign(struct conf_scan *scan)
{
	struct conf_reader *reader = scan->reader;
	char c = peek(scan, 0);

	if (c == '{')
		conf_reader_enter(reader);
	else if (c == '}')
		conf_reader_leave(reader);
	else if (c == '(')
		reader->list_depth++;
	else if (c == ')' && reader->list_depth > 0)
		reader->list_depth--;
	copy(scan, 1);
}

static bool starts_number(const struct conf_scan *scan)
{
	char c = peek(scan, 0);

	return isdigit((unsigned char)c) ||
	       ((c == '-' || c == '+') && isdigit((unsigned char)peek(scan, 1)));
}

static void scan_token(struct conf_scan *scan)
{
	char c = peek(scan, 0), next = peek(scan, 1);

	if (c == '#' || (c == '/' && next == '/')) {
		skip_line_comment(scan);
		return;
	}
	if (c == '/' && next == '*') {
		pass_block_comment(scan);
		return;
	}
	if (isspace((unsigned char)c)) {
		copy(scan, 1);
		return;
	}
	if (c == '"')
		scan_string(scan);
	else if (starts_number(scan))
		scan_number(scan);
	else if (starts_name(c))
		scan_name(scan);
	else if (c == '@')
		scan_include(scan);
	else
		scan_sign(scan);
	scan->reader->last = c;
}

void conf_scan_run(struct conf_scan *scan)
{
	const char *zero = memchr(scan->in, '\0', scan->length);

	if (zero != NULL)
		scan->length = (size_t)(zero - scan->in);
	while (scan->at < scan->length && scan->reader->failure == 0 && !scan->reader->source->cut)
		scan_token(scan);
	if (zero != NULL && scan->reader->failure == 0 && !scan->reader->source->cut) {
		conf_scan_complain(scan, "the file is not text: a NUL byte is in it");
		scan->reader->source->cut = true;
	}
}
