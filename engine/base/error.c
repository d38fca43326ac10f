/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int rmem_fail(struct rmem_error *error, int code, const char *format, ...)
{
	va_list args;

	if (error == NULL)
		return -code;
	error->code = -code;
	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return -code;
}

int rmem_fail_prefix(struct rmem_error *error, int code, const char *format, ...)
{
	char old[sizeof(error->text)];
	va_list args;
	size_t used;

	if (error == NULL)
		return code;
	memcpy(old, error->text, sizeof(old));
	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	used = strlen(error->text);
	snprintf(error->text + used, sizeof(error->text) - used, ": %s", old);
	error->code = code;
	return code;
}
