/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON, indented, to a stream. The writer sets commas and line breaks; what is opened has to
 * be closed in turn. A name is given for each value inside an object, and NULL inside an array.
 * Errors are the stream's: look at ferror() at the end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct bench_json {
	FILE *out;
	unsigned depth;
	bool has_values; /* so the next one needs a comma */
};

void bench_json_init(struct bench_json *json, FILE *out);

void bench_json_open_object(struct bench_json *json, const char *name);
void bench_json_close_object(struct bench_json *json);
void bench_json_open_array(struct bench_json *json, const char *name);
void bench_json_close_array(struct bench_json *json);

/* NULL becomes null. Bytes are passed on as they are, but for those JSON wants escaped. */
void bench_json_text(struct bench_json *json, const char *name, const char *text);
void bench_json_count(struct bench_json *json, const char *name, uint64_t number);
/* Six significant digits or more; what is no number becomes null. */
void bench_json_number(struct bench_json *json, const char *name, double number);
void bench_json_bool(struct bench_json *json, const char *name, bool value);
