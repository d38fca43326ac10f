/* SPDX-License-Identifier: Apache-2.0 */
#include "config/errors.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>

void conf_errors_init(struct conf_errors *errors)
{
	errors->count = 0;
	errors->kept = 0;
}

void conf_errors_finish(struct conf_errors *errors)
{
	for (size_t i = 0; i < errors->kept; i++)
		free(errors->list[i].text);
	conf_errors_init(errors);
}

/* What files and options contain must not upset the terminal that it is shown on. */
static void mask_control(char *text)
{
	for (; *text != '\0'; text++) {
		if (iscntrl((unsigned char)*text))
			*text = '?';
	}
}

void conf_errors_add(struct conf_errors *errors, size_t order, const char *format, ...)
{
	va_list args;
	char *text;
	int length;

	errors->count++;
	if (errors->kept == CONF_ERRORS_MAX)
		return;
	va_start(args, format);
	length = vasprintf(&text, format, args);
	va_end(args);
	if (length < 0)
		return;
	mask_control(text);
	errors->list[errors->kept++] = (struct conf_complaint){.order = order, .text = text};
}

/* An insertion sort: stable, and the list is short and nearly in order. */
void conf_errors_sort(struct conf_errors *errors, size_t first)
{
	for (size_t i = first + 1; i < errors->kept; i++) {
		struct conf_complaint moving = errors->list[i];
		size_t at = i;

		while (at > first && errors->list[at - 1].order > moving.order) {
			errors->list[at] = errors->list[at - 1];
			at--;
		}
		errors->list[at] = moving;
	}
}

void conf_errors_print(const struct conf_errors *errors, const char *prefix, FILE *stream)
{
	for (size_t i = 0; i < errors->kept; i++)
		fprintf(stream, "%s: %s\n", prefix, errors->list[i].text);
	if (errors->count > errors->kept)
		fprintf(stream, "%s: and %zu more\n", prefix, errors->count - errors->kept);
}
