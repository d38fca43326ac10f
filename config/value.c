/* SPDX-License-Identifier: Apache-2.0 */
#include "config/value.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hint.h"

/* As long as a path may be on Linux, with its NUL. */
#define TEXT_MAX_BYTES 4096
/* How much of a wrong value a message shows. */
#define SHOWN_MAX 80

struct unit {
	const char *name;
	uint64_t factor;
};

/* Smallest first; of several names for one factor the first is the one that is written. */
static const struct unit size_units[] = {
	{"B", 1},
	{"KiB", UINT64_C(1) << 10},
	{"K", UINT64_C(1) << 10},
	{"MiB", UINT64_C(1) << 20},
	{"M", UINT64_C(1) << 20},
	{"GiB", UINT64_C(1) << 30},
	{"G", UINT64_C(1) << 30},
	{"TiB", UINT64_C(1) << 40},
	{"T", UINT64_C(1) << 40},
};
static const struct unit duration_units[] = {
	{"us", 1}, {"ms", 1000}, {"s", 1000000}, {"min", 60000000U}, {"h", 3600000000U},
};

static size_t units_of(const struct conf_key *key, const struct unit **units)
{
	if (key->type == CONF_SIZE) {
		*units = size_units;
		return RMEM_COUNT_OF(size_units);
	}
	*units = duration_units;
	return RMEM_COUNT_OF(duration_units);
}

void conf_number_text(const struct conf_key *key, uint64_t number, char *text, size_t size)
{
	const struct unit *units, *best;
	size_t count;

	switch (key->type) {
	case CONF_BOOL:
		snprintf(text, size, "%s", number != 0 ? "true" : "false");
		return;
	case CONF_MODE:
		snprintf(text, size, "0%03" PRIo64, number);
		return;
	case CONF_ENUM:
		snprintf(text, size, "%s", key->words[number]);
		return;
	case CONF_SIZE:
	case CONF_DURATION:
		break;
	default:
		snprintf(text, size, "%" PRIu64, number);
		return;
	}
	if (number == 0) {
		snprintf(text, size, "0");
		return;
	}
	count = units_of(key, &units);
	best = &units[0];
	for (size_t i = 1; i < count; i++) {
		if (number % units[i].factor == 0 && units[i].factor > best->factor)
			best = &units[i];
	}
	snprintf(text, size, "%" PRIu64 "%s", number / best->factor, best->name);
}

/* "a, b or c" */
static void words_text(const char *const *words, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; words != NULL && words[i] != NULL && used < size; i++) {
		const char *join = i == 0 ? "" : words[i + 1] == NULL ? " or " : ", ";

		used += (size_t)snprintf(text + used, size - used, "%s%s", join, words[i]);
	}
}

static void range_text(const struct conf_key *key, const char *noun, char *text, size_t size)
{
	char least[32], most[32], step[32];
	int used;

	conf_number_text(key, key->min, least, sizeof(least));
	conf_number_text(key, key->max, most, sizeof(most));
	used = snprintf(text, size, "%s from %s to %s", noun, least, most);
	if (key->multiple > 1 && used > 0 && (size_t)used < size) {
		conf_number_text(key, key->multiple, step, sizeof(step));
		snprintf(text + used, size - (size_t)used, ", a multiple of %s", step);
	}
}

void conf_allowed_text(const struct conf_key *key, char *text, size_t size)
{
	char words[160];

	words_text(key->words, words, sizeof(words));
	switch (key->type) {
	case CONF_BOOL:
		snprintf(text, size, "true or false");
		break;
	case CONF_COUNT:
		range_text(key, "a whole number", text, size);
		break;
	case CONF_SIZE:
		range_text(key, "a size", text, size);
		break;
	case CONF_DURATION:
		range_text(key, "a duration", text, size);
		break;
	case CONF_MODE:
		range_text(key, "octal access rights", text, size);
		break;
	case CONF_ENUM:
		snprintf(text, size, "%s", words);
		break;
	case CONF_PATH:
		snprintf(text, size, "an absolute path or %s", words);
		break;
	case CONF_URL:
		snprintf(text, size, "%s", words);
		break;
	case CONF_URL_LIST:
		snprintf(text, size, "a list of %s, up to %" PRIu64, words, key->max);
		break;
	}
}

void conf_value_finish(struct conf_value *value)
{
	free(value->text);
	for (size_t i = 0; i < value->count; i++)
		free(value->items[i]);
	free(value->items);
	*value = (struct conf_value){0};
}

/* Says what was found, and what is allowed instead. */
static int refuse(const struct conf_key *key, const char *found, const char *why,
		  struct rmem_error *error)
{
	char allowed[256];

	conf_allowed_text(key, allowed, sizeof(allowed));
	return rmem_fail(error, EINVAL, "found \"%.*s%s\"%s%s; allowed: %s", SHOWN_MAX, found,
			 strlen(found) > SHOWN_MAX ? "..." : "", why[0] != '\0' ? ", " : "", why,
			 allowed);
}

static int set_number(const struct conf_key *key, uint64_t number, const char *found,
		      struct conf_value *value, struct rmem_error *error)
{
	if (number < key->min || number > key->max)
		return refuse(key, found, "which is out of range", error);
	if (key->multiple > 1 && number % key->multiple != 0)
		return refuse(key, found, "which is not a multiple", error);
	conf_value_finish(value);
	value->number = number;
	return 0;
}

/* Digits of `base` at the start of `text`; the rest is where they end. False when there are none
 * or too many. */
static bool parse_digits(const char *text, int base, uint64_t *number, const char **rest)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	*number = strtoull(text, &end, base);
	*rest = end;
	return errno == 0;
}

static const char *unit_hint(const struct conf_key *key, const char *unit)
{
	if (key->type == CONF_DURATION)
		return unit[0] == '\0' ? "which needs a unit: us, ms, s, min or h"
				       : "which is not a whole number with us, ms, s, min or h";
	if (strlen(unit) == 2 && strchr("kKMGT", unit[0]) != NULL && toupper(unit[1]) == 'B')
		return "which may mean 1000 or 1024: write KiB, MiB, GiB or TiB";
	return "which is not a whole number with B, KiB, MiB, GiB or TiB";
}

static int parse_with_unit(const struct conf_key *key, const char *text, struct conf_value *value,
			   struct rmem_error *error)
{
	const struct unit *units;
	size_t count = units_of(key, &units);
	const char *unit = "?";
	uint64_t number;

	if (!parse_digits(text, 10, &number, &unit))
		return refuse(key, text,
			      isdigit((unsigned char)text[0]) ? "which is out of range"
							      : unit_hint(key, unit),
			      error);
	if (unit[0] == '\0' && (key->type == CONF_SIZE || number == 0))
		return set_number(key, number, text, value, error);
	while (*unit == ' ')
		unit++;
	for (size_t i = 0; i < count; i++) {
		if (strcmp(unit, units[i].name) != 0)
			continue;
		if (number > UINT64_MAX / units[i].factor)
			return refuse(key, text, "which is out of range", error);
		return set_number(key, number * units[i].factor, text, value, error);
	}
	return refuse(key, text, unit_hint(key, unit), error);
}

static int parse_plain(const struct conf_key *key, const char *text, struct conf_value *value,
		       struct rmem_error *error)
{
	int base = key->type == CONF_MODE ? 8 : 10;
	const char *rest = "?";
	uint64_t number;

	if (!parse_digits(text, base, &number, &rest) || *rest != '\0')
		return refuse(key, text, "", error);
	return set_number(key, number, text, value, error);
}

static int parse_word(const struct conf_key *key, const char *text, struct conf_value *value,
		      struct rmem_error *error)
{
	for (size_t i = 0; key->words[i] != NULL; i++) {
		if (strcmp(key->words[i], text) != 0)
			continue;
		conf_value_finish(value);
		value->number = i;
		return 0;
	}
	return refuse(key, text, "", error);
}

static int parse_bool(const struct conf_key *key, const char *text, struct conf_value *value,
		      struct rmem_error *error)
{
	static const char *const names[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};

	for (unsigned i = 0; i < RMEM_COUNT_OF(names); i++) {
		if (strcmp(text, names[i]) != 0)
			continue;
		conf_value_finish(value);
		value->number = i % 2;
		return 0;
	}
	return refuse(key, text, "", error);
}

/* Whether `text` has the form, for example "shm:/PATH" or "verbs://HOST:PORT": what stands before
 * its first capital letter, and something after that. */
static bool has_form(const char *text, const char *form)
{
	size_t literal = strcspn(form, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

	return strncmp(text, form, literal) == 0 && text[literal] != '\0';
}

#define SOCKET_PATH_MAX 107u /* sun_path without its end */

/* What is wrong with an address that has the right form; "": nothing. */
static const char *url_trouble(const char *text)
{
	const char *host = text + strlen("verbs://"), *port;
	char *end;
	long number;

	if (strncmp(text, "shm:", 4) == 0)
		return strlen(text + 4) > SOCKET_PATH_MAX
			       ? "whose path is longer than the 107 bytes of a socket's"
			       : "";
	if (strncmp(text, "verbs:", 6) != 0)
		return "";
	port = host + strcspn(host, *host == '[' ? "]" : ":"); /* [::1] has colons of its own */
	port += *port == ']';
	if (*port == '\0')
		return ""; /* verbs.port */
	if (*port++ != ':')
		return "where a port or nothing should follow the host's address";
	number = strtol(port, &end, 10);
	if (!isdigit((unsigned char)*port) || *end != '\0' || number < 1 || number > 65535)
		return "whose port is no number from 1 to 65535";
	return "";
}

static int check_text(const struct conf_key *key, const char *text, struct rmem_error *error)
{
	const char *why;

	if (strlen(text) >= TEXT_MAX_BYTES)
		return refuse(key, text, "which is too long", error);
	for (const char *c = text; *c != '\0'; c++) {
		if (iscntrl((unsigned char)*c))
			return refuse(key, text, "which has control characters in it", error);
	}
	if (key->type == CONF_PATH && text[0] == '/')
		return 0;
	for (size_t i = 0; key->words[i] != NULL; i++) {
		if (key->type == CONF_PATH ? strcmp(text, key->words[i]) == 0
					   : has_form(text, key->words[i])) {
			why = key->type == CONF_PATH ? "" : url_trouble(text);
			return why[0] == '\0' ? 0 : refuse(key, text, why, error);
		}
	}
	return refuse(key, text, "", error);
}

static int parse_text(const struct conf_key *key, const char *text, struct conf_value *value,
		      struct rmem_error *error)
{
	int rc = check_text(key, text, error);
	char *copy;

	if (rc != 0)
		return rc;
	copy = strdup(text);
	if (copy == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	conf_value_finish(value);
	value->text = copy;
	return 0;
}

int conf_value_parse(const struct conf_key *key, const char *text, struct conf_value *value,
		     struct rmem_error *error)
{
	switch (key->type) {
	case CONF_BOOL:
		return parse_bool(key, text, value, error);
	case CONF_COUNT:
	case CONF_MODE:
		return parse_plain(key, text, value, error);
	case CONF_SIZE:
	case CONF_DURATION:
		return parse_with_unit(key, text, value, error);
	case CONF_ENUM:
		return parse_word(key, text, value, error);
	case CONF_PATH:
	case CONF_URL:
		return parse_text(key, text, value, error);
	case CONF_URL_LIST:
		break;
	}
	return refuse(key, text, "which is not a list", error);
}

int conf_value_from_number(const struct conf_key *key, int64_t number, struct conf_value *value,
			   struct rmem_error *error)
{
	char found[24];

	snprintf(found, sizeof(found), "%" PRId64, number);
	switch (key->type) {
	case CONF_COUNT:
	case CONF_SIZE:
		if (number < 0)
			return refuse(key, found, "which is out of range", error);
		return set_number(key, (uint64_t)number, found, value, error);
	case CONF_DURATION:
		if (number != 0)
			return refuse(key, found, unit_hint(key, ""), error);
		return set_number(key, 0, found, value, error);
	case CONF_MODE:
		return refuse(key, found, "which has to be a string, such as \"0600\"", error);
	default:
		return refuse(key, found, "a number", error);
	}
}

int conf_value_add(const struct conf_key *key, const char *text, struct conf_value *value,
		   struct rmem_error *error)
{
	int rc = check_text(key, text, error);
	char **items, *copy;

	if (rc != 0)
		return rc;
	for (size_t i = 0; i < value->count; i++) {
		if (strcmp(value->items[i], text) == 0)
			return refuse(key, text, "which is in the list already", error);
	}
	if (value->count >= key->max)
		return refuse(key, text, "which is one too many", error);
	items = realloc(value->items, (value->count + 1) * sizeof(*items));
	if (items != NULL)
		value->items = items;
	copy = strdup(text);
	if (items == NULL || copy == NULL) {
		free(copy);
		return rmem_fail(error, ENOMEM, "out of memory");
	}
	items[value->count++] = copy;
	return 0;
}
