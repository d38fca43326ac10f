/* SPDX-License-Identifier: Apache-2.0 */
#include "config/help.h"

#include <stdbool.h>
#include <string.h>

#include "config/value.h"

#define COLUMNS 80
#define INDENT	"    "

/* Breaks at spaces, each line indented. */
static void print_wrapped(const char *text, FILE *stream)
{
	size_t column = 0;

	while (*text != '\0') {
		size_t word = strcspn(text, " ");

		if (column > 0 && column + 1 + word > COLUMNS) {
			fputc('\n', stream);
			column = 0;
		}
		fputs(column == 0 ? INDENT : " ", stream);
		fprintf(stream, "%.*s", (int)word, text);
		column += word + (column == 0 ? strlen(INDENT) : 1);
		text += word;
		text += strspn(text, " ");
	}
	fputc('\n', stream);
}

/* A default as a file would have it. */
static void initial_text(const struct conf_key *key, char *text, size_t size)
{
	switch (key->type) {
	case CONF_BOOL:
	case CONF_COUNT:
		snprintf(text, size, "%s", key->initial);
		break;
	case CONF_URL_LIST:
		snprintf(text, size, key->initial[0] != '\0' ? "[\"%s\"]" : "[%s]", key->initial);
		break;
	default:
		snprintf(text, size, "\"%s\"", key->initial);
		break;
	}
}

static bool needs_value(const struct conf_key *key, unsigned programs)
{
	return (key->required & programs) != 0 && key->initial[0] == '\0';
}

void conf_help_print(enum conf_program program, FILE *stream)
{
	fprintf(stream,
		"Settings of %s, with their defaults. In a file, a dot stands for a\n"
		"group: engine.spin is engine: { spin = \"50us\"; };\n",
		conf_program_name(program));
	for (size_t i = 0; i < conf_schema_count; i++) {
		const struct conf_key *key = &conf_schema[i];
		char initial[160], allowed[256];

		if ((key->programs & program) == 0)
			continue;
		initial_text(key, initial, sizeof(initial));
		conf_allowed_text(key, allowed, sizeof(allowed));
		fprintf(stream, "\n%s = %s%s\n" INDENT "%s\n", key->name, initial,
			needs_value(key, program) ? "    (has to be set)" : "", allowed);
		print_wrapped(key->help, stream);
	}
}

static const char introduction[] =
	"<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
	"<!-- Made from config/schema.c by `ninja -C build config-reference`. Edit that. -->\n"
	"# Settings\n"
	"\n"
	"A configuration file is in the format of [libconfig]"
	"(https://hyperrealm.github.io/libconfig/libconfig_manual.html):\n"
	"\n"
	"```\n"
	"servers = [ \"shm:/run/rmemd.sock\" ];\n"
	"store: { url = \"lmdb:/var/lib/rmemfs/scratch\"; };\n"
	"engine: {\n"
	"    chunk = \"128KiB\";        # a size\n"
	"    spin = \"20us\";           # a duration\n"
	"    depth = 512;             # a number\n"
	"};\n"
	"fs: { allow_other = true; };\n"
	"@include \"site.cfg\"          # relative to this file\n"
	"```\n"
	"\n"
	"- **Keys.** In tables, messages and on the command line a dot stands for a group:\n"
	"  `engine.chunk` is `chunk` in the group `engine`. A group stands in a file once. Every "
	"key\n"
	"  has a default; those that have to be set are marked.\n"
	"- **Sizes** are whole numbers with `B`, `KiB`, `MiB`, `GiB` or `TiB` in quotes, or `K`, "
	"`M`,\n"
	"  `G`, `T` for the same, or plain bytes. `KB`, `MB` and so on are refused: they may mean "
	"1000\n"
	"  or 1024.\n"
	"- **Durations** are whole numbers with `us`, `ms`, `s`, `min` or `h` in quotes. Only `0` "
	"goes\n"
	"  without a unit.\n"
	"- **Lists** are strings in brackets; a list of one may be the string alone.\n"
	"- **The command line counts more.** `--set engine.chunk=256KiB` on rmemfs, rmemd, rmemctl "
	"and\n"
	"  rmem-bench (there behind the command: `rmem-bench bw --set ...`); a list is replaced, "
	"its "
	"items\n"
	"  stand between commas, and a second `--set` of it adds to the first.\n"
	"- **Checking.** `--check-config` reads everything, reports everything that is wrong with "
	"file,\n"
	"  line and key, and exits; `--help-config` explains the settings of one program. Both go "
	"where\n"
	"  `--set` goes.\n"
	"- **One file may serve several programs:** each takes the settings that it uses, and "
	"checks\n"
	"  all.\n"
	"\n"
	"Samples: [rmemfs.cfg](rmemfs.cfg), [rmemd.cfg](rmemd.cfg), "
	"[quickstart.cfg](quickstart.cfg).\n";

static void print_default(const struct conf_key *key, FILE *stream)
{
	char text[160];

	if (!needs_value(key, key->programs)) {
		initial_text(key, text, sizeof(text));
		fprintf(stream, "`%s`", text);
		return;
	}
	fputs("has to be set", stream);
	if (key->required == key->programs)
		return;
	conf_programs_text(key->required, text, sizeof(text));
	fprintf(stream, " for %s", text);
}

static bool same_group(const char *a, const char *b)
{
	const char *a_dot = strchr(a, '.'), *b_dot = strchr(b, '.');

	if (a_dot == NULL || b_dot == NULL)
		return a_dot == b_dot;
	return a_dot - a == b_dot - b && strncmp(a, b, (size_t)(a_dot - a)) == 0;
}

static void print_group_head(const char *name, FILE *stream)
{
	const char *dot = strchr(name, '.');

	if (dot != NULL)
		fprintf(stream, "\n## %.*s\n", (int)(dot - name), name);
	else
		fprintf(stream, "\n## Outside of groups\n");
	fprintf(stream, "\n| key | allowed | default | used by | meaning |\n"
			"|---|---|---|---|---|\n");
}

void conf_reference_print(FILE *stream)
{
	fputs(introduction, stream);
	for (size_t i = 0; i < conf_schema_count; i++) {
		const struct conf_key *key = &conf_schema[i];
		char allowed[256], programs[80];

		if (i == 0 || !same_group(key->name, conf_schema[i - 1].name))
			print_group_head(key->name, stream);
		conf_allowed_text(key, allowed, sizeof(allowed));
		conf_programs_text(key->programs, programs, sizeof(programs));
		fprintf(stream, "| `%s` | %s | ", key->name, allowed);
		print_default(key, stream);
		fprintf(stream, " | %s | %s |\n", programs, key->help);
	}
}
