/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/memtouch_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#define FIELD(name) offsetof(struct touch_options, name)

enum kind { FLAG, NUMBER, TIME, TEXT, ACTION };

struct option {
	const char *name;
	const char *argument; /* NULL: takes none */
	const char *help;
	enum kind kind;
	size_t offset;	   /* of a bool, uint64_t or const char *, as the kind has it */
	uint64_t min, max; /* of a TIME in milliseconds; of an ACTION min is the action */
};

/* In the order of the help. */
static const struct option options_known[] = {
	{"thread_mem", "MiB", "memory that each thread touches (64)", NUMBER, FIELD(thread_mib), 1,
	 TOUCH_THREAD_MIB_MAX},
	{"num_threads", "N", "threads (1)", NUMBER, FIELD(threads), 1, TOUCH_THREADS_MAX},
	{"rw_ratio", "PERCENT", "touches that write: 0 only reads, 100 only writes (50)", NUMBER,
	 FIELD(ratio), 0, 100},
	{"random", NULL, "pages in random order, not one after the other", FLAG, FIELD(random), 0,
	 0},
	{"file", "PATH", "touch a mapped file, overwriting it; each thread has a part", TEXT,
	 FIELD(file), 0, 0},
	{"verify", NULL, "write a pattern and check it on every read", FLAG, FIELD(verify), 0, 0},
	{"once", NULL, "stop after the warm-up, which writes every page once", FLAG, FIELD(once), 0,
	 0},
	{"duration", "TIME", "stop after TIME: 90, 90s, 500ms, 5m, 1h (until a signal)", TIME,
	 FIELD(duration_ms), 1, UINT64_C(1) << 40},
	{"seed", "N", "of the random choices and of the pattern (1)", NUMBER, FIELD(seed), 0,
	 UINT64_MAX},
	{"nt_stores", NULL, "write past the caches, with streaming stores", FLAG, FIELD(nt_stores),
	 0, 0},
	{"no_avx512", NULL, "but not with those of AVX-512", FLAG, FIELD(no_avx512), 0, 0},
	{"stat_file", "PATH", "write the rates there (standard output)", TEXT, FIELD(stat_file), 0,
	 0},
	{"stat_ival", "MS", "milliseconds from one line of them to the next (1000)", NUMBER,
	 FIELD(stat_ival_ms), 1, 86400000},
	{"page_log_ival", "PAGES", "pages a thread touches before it counts them (256)", NUMBER,
	 FIELD(page_log_ival), 1, UINT64_C(1) << 20},
	{"json", NULL, "the summary in JSON; rates then only go to --stat_file", FLAG, FIELD(json),
	 0, 0},
	{"help", NULL, "this text", ACTION, 0, TOUCH_HELP, 0},
	{"version", NULL, "the version", ACTION, 0, TOUCH_VERSION, 0},
};

void touch_options_help(FILE *out)
{
	fputs("usage: memtouch [OPTION]...\n"
	      "Reads and writes memory, or a mapped file, page by page, as fast as it goes.\n\n",
	      out);
	for (size_t i = 0; i < RMEM_COUNT_OF(options_known); i++) {
		const struct option *option = &options_known[i];
		char head[40];

		snprintf(head, sizeof(head), "--%s%s%s", option->name, option->argument ? " " : "",
			 option->argument ? option->argument : "");
		fprintf(out, "  %-24s %s\n", head, option->help);
	}
	fputs("\nDefaults are in brackets. Warm-up writes every page; then rates are counted "
	      "until\n"
	      "--duration has passed, or SIGINT or SIGTERM comes. A summary ends it.\n",
	      out);
}

static bool same_name(const char *name, const char *given, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (name[i] != given[i] && !(name[i] == '_' && given[i] == '-'))
			return false;
	}
	return name[length] == '\0';
}

static const struct option *find(const char *given, size_t length)
{
	for (size_t i = 0; i < RMEM_COUNT_OF(options_known); i++) {
		if (strlen(options_known[i].name) == length &&
		    same_name(options_known[i].name, given, length))
			return &options_known[i];
	}
	return NULL;
}

/* Decimal digits only. -EINVAL, or -ERANGE for what 64 bits don't hold. */
static int read_digits(const char *text, size_t length, uint64_t *number)
{
	uint64_t value = 0;

	if (length == 0)
		return -EINVAL;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EINVAL;
	}
	for (size_t i = 0; i < length; i++) {
		uint64_t digit = (uint64_t)(text[i] - '0');

		if (value > (UINT64_MAX - digit) / 10)
			return -ERANGE;
		value = value * 10 + digit;
	}
	*number = value;
	return 0;
}

static int set_number(const struct option *option, const char *value, uint64_t *field,
		      struct rmem_error *error)
{
	int rc = read_digits(value, strlen(value), field);

	if (rc == -EINVAL)
		return rmem_fail(error, EINVAL, "--%s: \"%s\" is not a number: give decimal digits",
				 option->name, value);
	if (rc == -ERANGE || *field < option->min || *field > option->max)
		return rmem_fail(error, EINVAL,
				 "--%s: %s is out of range: from %" PRIu64 " to %" PRIu64,
				 option->name, value, option->min, option->max);
	return 0;
}

static int set_time(const struct option *option, const char *value, uint64_t *field,
		    struct rmem_error *error)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
	size_t digits = strspn(value, "0123456789");
	uint64_t number = 0;

	for (size_t i = 0; i < RMEM_COUNT_OF(units); i++) {
		int rc;

		if (strcmp(value + digits, units[i].name) != 0)
			continue;
		rc = read_digits(value, digits, &number);
		if (rc == -EINVAL)
			break;
		if (rc != 0 || number == 0 || number > option->max / units[i].ms)
			return rmem_fail(error, EINVAL,
					 "--%s: %s is out of range: from 1ms to %" PRIu64 "s",
					 option->name, value, option->max / 1000);
		*field = number * units[i].ms;
		return 0;
	}
	return rmem_fail(error, EINVAL,
			 "--%s: \"%s\" is not a time: give a number, and ms, s, m or h if it isn't "
			 "seconds",
			 option->name, value);
}

static int set(const struct option *option, const char *value, struct touch_options *options,
	       struct rmem_error *error)
{
	char *field = (char *)options + option->offset;

	switch (option->kind) {
	case NUMBER:
		return set_number(option, value, (uint64_t *)(void *)field, error);
	case TIME:
		return set_time(option, value, (uint64_t *)(void *)field, error);
	case TEXT:
		if (value[0] == '\0')
			return rmem_fail(error, EINVAL, "--%s: an empty path", option->name);
		*(const char **)(void *)field = value;
		return 0;
	default:
		*(bool *)(void *)field = true;
		return 0;
	}
}

/* An option may say less than another asks for, but not the contrary. */
static int check_together(const struct touch_options *options, struct rmem_error *error)
{
	if (options->once && options->duration_ms != 0)
		return rmem_fail(error, EINVAL,
				 "--once stops after the warm-up, so --duration makes no sense");
	return 0;
}

static const struct option *find_option(const char *given)
{
	size_t length = strcspn(given, "=");

	if (strcmp(given, "-h") == 0)
		return find("help", 4);
	return strncmp(given, "--", 2) == 0 && length > 2 ? find(given + 2, length - 2) : NULL;
}

/* The value of the option in argv[*at], which may be the next argument, and is "" where there is
 * none to have. Returns NULL when it is missing or too much. */
static const char *find_value(const struct option *option, int argc, char **argv, int *at)
{
	const char *equals = strchr(argv[*at], '=');

	if (option->argument == NULL)
		return equals == NULL ? "" : NULL;
	if (equals != NULL)
		return equals + 1;
	if (*at + 1 >= argc)
		return NULL;
	return argv[++*at];
}

int touch_options_parse(int argc, char **argv, struct touch_options *options,
			enum touch_action *action, struct rmem_error *error)
{
	*action = TOUCH_RUN;
	*options = (struct touch_options){.thread_mib = 64,
					  .threads = 1,
					  .ratio = 50,
					  .stat_ival_ms = 1000,
					  .page_log_ival = 256,
					  .seed = 1};
	for (int i = 1; i < argc; i++) {
		const struct option *option = find_option(argv[i]);
		const char *value;
		int rc;

		if (option == NULL)
			return rmem_fail(error, EINVAL,
					 "\"%s\" is no option; memtouch --help tells them",
					 argv[i]);
		value = find_value(option, argc, argv, &i);
		if (value == NULL && option->argument == NULL)
			return rmem_fail(error, EINVAL, "--%s takes no value", option->name);
		if (value == NULL)
			return rmem_fail(error, EINVAL, "--%s wants a value: --%s %s", option->name,
					 option->name, option->argument);
		if (option->kind == ACTION) {
			*action = (enum touch_action)option->min;
			return 0;
		}
		rc = set(option, value, options, error);
		if (rc != 0)
			return rc;
	}
	return check_together(options, error);
}
