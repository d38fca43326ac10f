/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/groups.h"

#include <stdint.h>

/* Reads up to what follows `word` at the start of a line; false when no line starts so. */
static bool find_line(FILE *file, const char *word)
{
	const char *wanted = word; /* NULL: this line is another one */
	int c;

	while (*word != '\0' && (c = getc(file)) != EOF) {
		if (c == '\n')
			wanted = word;
		else if (wanted != NULL)
			wanted = c == *wanted ? wanted + 1 : NULL;
		if (wanted != NULL && *wanted == '\0')
			return true;
	}
	return false;
}

/* Numbers up to the end of the line, with anything else between them. */
bool groups_in_status_have(FILE *status, gid_t gid)
{
	uint64_t number = 0;
	bool in_number = false;
	int c;

	if (!find_line(status, "Groups:"))
		return false;
	do {
		c = getc(status);
		if (c >= '0' && c <= '9') {
			if (number <= UINT32_MAX) /* more digits only make it more wrong */
				number = number * 10 + (uint64_t)(c - '0');
			in_number = true;
			continue;
		}
		if (in_number && number == gid)
			return true;
		number = 0;
		in_number = false;
	} while (c != '\n' && c != EOF);
	return false;
}

bool groups_of_process_have(pid_t pid, gid_t gid)
{
	char path[64];
	FILE *status;
	bool found;

	snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
	status = fopen(path, "re");
	if (status == NULL)
		return false;
	found = groups_in_status_have(status, gid);
	fclose(status);
	return found;
}
