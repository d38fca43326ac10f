/* SPDX-License-Identifier: Apache-2.0 */
/* Writes config/README.md: conf-reference FILE. */
#include <stdio.h>
#include <stdlib.h>

#include "config/help.h"

int main(int argc, char **argv)
{
	FILE *stream;

	if (argc != 2) {
		fprintf(stderr, "usage: conf-reference FILE\n");
		return EXIT_FAILURE;
	}
	stream = fopen(argv[1], "we");
	if (stream == NULL) {
		perror(argv[1]);
		return EXIT_FAILURE;
	}
	conf_reference_print(stream);
	if (fclose(stream) != 0) {
		perror(argv[1]);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
