/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_json.h"

#include <inttypes.h>
#include <math.h>

static void put_quoted(FILE *out, const char *text)
{
	putc('"', out);
	for (const char *c = text; *c != '\0'; c++) {
		if (*c == '"' || *c == '\\')
			fprintf(out, "\\%c", *c);
		else if ((unsigned char)*c < 0x20)
			fprintf(out, "\\u%04x", (unsigned)*c);
		else
			putc(*c, out);
	}
	putc('"', out);
}

static void break_line(struct bench_json *json)
{
	putc('\n', json->out);
	for (unsigned i = 0; i < json->depth; i++)
		fputs("  ", json->out);
}

/* What stands before a value. */
static void begin(struct bench_json *json, const char *name)
{
	if (json->has_values)
		putc(',', json->out);
	if (json->depth > 0)
		break_line(json);
	if (name != NULL) {
		put_quoted(json->out, name);
		fputs(": ", json->out);
	}
	json->has_values = true;
}

static void open(struct bench_json *json, const char *name, char bracket)
{
	begin(json, name);
	putc(bracket, json->out);
	json->depth++;
	json->has_values = false;
}

static void close(struct bench_json *json, char bracket)
{
	json->depth--;
	if (json->has_values)
		break_line(json);
	putc(bracket, json->out);
	json->has_values = true;
	if (json->depth == 0)
		putc('\n', json->out);
}

void bench_json_init(struct bench_json *json, FILE *out)
{
	*json = (struct bench_json){.out = out};
}

void bench_json_open_object(struct bench_json *json, const char *name)
{
	open(json, name, '{');
}

void bench_json_close_object(struct bench_json *json)
{
	close(json, '}');
}

void bench_json_open_array(struct bench_json *json, const char *name)
{
	open(json, name, '[');
}

void bench_json_close_array(struct bench_json *json)
{
	close(json, ']');
}

void bench_json_text(struct bench_json *json, const char *name, const char *text)
{
	begin(json, name);
	if (text != NULL)
		put_quoted(json->out, text);
	else
		fputs("null", json->out);
}

void bench_json_count(struct bench_json *json, const char *name, uint64_t number)
{
	begin(json, name);
	fprintf(json->out, "%" PRIu64, number);
}

void bench_json_number(struct bench_json *json, const char *name, double number)
{
	begin(json, name);
	if (isfinite(number))
		fprintf(json->out, "%.9g", number);
	else
		fputs("null", json->out);
}

void bench_json_bool(struct bench_json *json, const char *name, bool value)
{
	begin(json, name);
	fputs(value ? "true" : "false", json->out);
}
