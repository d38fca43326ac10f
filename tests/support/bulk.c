/* SPDX-License-Identifier: Apache-2.0 */
/* One phase of a metadata benchmark, timed.
 *
 *	bulk create|stat|delete FOLDER COUNT
 *
 * create makes COUNT empty files, stat looks each up, delete removes them. Prints how many seconds
 * the phase took. Exit status 1 when a call fails. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int create_one(int folder, const char *name)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	return fd < 0 ? -1 : close(fd);
}

static int stat_one(int folder, const char *name)
{
	struct stat st;

	return fstatat(folder, name, &st, 0);
}

static int delete_one(int folder, const char *name)
{
	return unlinkat(folder, name, 0);
}

int main(int argc, char **argv)
{
	int (*step)(int folder, const char *name) = NULL;
	double start_s;
	char name[32];
	int folder;

	if (argc == 4 && strcmp(argv[1], "create") == 0)
		step = create_one;
	else if (argc == 4 && strcmp(argv[1], "stat") == 0)
		step = stat_one;
	else if (argc == 4 && strcmp(argv[1], "delete") == 0)
		step = delete_one;
	if (step == NULL) {
		fputs("usage: bulk create|stat|delete FOLDER COUNT\n", stderr);
		return 2;
	}
	folder = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	start_s = now_s();
	for (int i = 0; folder >= 0 && i < atoi(argv[3]); i++) {
		snprintf(name, sizeof(name), "file-%06d", i);
		if (step(folder, name) != 0) {
			fprintf(stderr, "bulk: %s: %s\n", name, strerror(errno));
			return 1;
		}
	}
	if (folder < 0) {
		fprintf(stderr, "bulk: %s: %s\n", argv[2], strerror(errno));
		return 1;
	}
	printf("%.6f\n", now_s() - start_s);
	return 0;
}
