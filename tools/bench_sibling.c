/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_sibling.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench_report.h"

#define OUTPUT_MAX (256u << 10)

extern char **environ;

/* --- Finding one ------------------------------------------------------------------------------ */

int bench_sibling_find(const char *name, char path[BENCH_SIBLING_PATH], struct rmem_error *error)
{
	char self[BENCH_SIBLING_PATH / 2];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length < 0)
		return rmem_fail(error, errno, "/proc/self/exe: %s", strerror(errno));
	self[length] = '\0';
	if (name == NULL) {
		snprintf(path, BENCH_SIBLING_PATH, "%s", self);
		return 0;
	}
	*strrchr(self, '/') = '\0';
	snprintf(path, BENCH_SIBLING_PATH, "%s/ablation/rmem-bench-%s", self, name);
	if (access(path, X_OK) == 0)
		return 0;
	return rmem_fail(error, ENOENT,
			 "%s: %s; ablate compares with programs that are built, but not "
			 "installed: run the rmem-bench of a build folder",
			 path, strerror(errno));
}

/* --- Running one ------------------------------------------------------------------------------ */

/* Starts a program whose output comes through *out. */
static int start(char *const *argv, pid_t *pid, FILE **out, struct rmem_error *error)
{
	posix_spawn_file_actions_t actions;
	int ends[2];
	int rc;

	if (pipe(ends) != 0)
		return rmem_fail(error, errno, "no pipe: %s", strerror(errno));
	rc = posix_spawn_file_actions_init(&actions);
	if (rc == 0) {
		posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
		posix_spawn_file_actions_addclose(&actions, ends[0]);
		posix_spawn_file_actions_addclose(&actions, ends[1]);
		rc = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	close(ends[1]);
	*out = rc == 0 ? fdopen(ends[0], "r") : NULL;
	if (*out != NULL)
		return 0;
	close(ends[0]);
	return rmem_fail(error, rc != 0 ? rc : ENOMEM, "%s: can't be run: %s", argv[0],
			 strerror(rc != 0 ? rc : ENOMEM));
}

/* Waits for its end, and says what is wrong if it failed. It has said so itself, on stderr. */
static int finish(char *const *argv, pid_t pid, struct rmem_error *error)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (bench_is_stopped())
		return rmem_fail(error, ECANCELED, "stopped");
	if (status == 0)
		return 0;
	return rmem_fail(error, EIO, "%s: failed (%s %d)", argv[0],
			 WIFSIGNALED(status) ? "signal" : "status",
			 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* Runs it to its end. `output` has room for OUTPUT_MAX. */
static int run(char *const *argv, char *output, struct rmem_error *error)
{
	size_t length;
	FILE *out;
	pid_t pid;
	int rc = start(argv, &pid, &out, error);

	if (rc != 0)
		return rc;
	length = fread(output, 1, OUTPUT_MAX - 1, out);
	output[length] = '\0';
	fclose(out);
	return finish(argv, pid, error);
}

/* Strings that are not written to, in the form that spawn wants. */
static void add(char **argv, unsigned *count, const char *text)
{
	memcpy(&argv[(*count)++], &text, sizeof(text));
}

static void add_all(char **argv, unsigned *count, const char *const *texts)
{
	while (*texts != NULL)
		add(argv, count, *texts++);
	argv[*count] = NULL;
}

int bench_sibling_run(const char *path, const char *const *arguments,
		      struct bench_sibling_result results[BENCH_SIZES_MAX],
		      struct rmem_error *error)
{
	char *argv[BENCH_SIBLING_ARGUMENTS + 8];
	char *output = malloc(OUTPUT_MAX);
	unsigned count = 0;
	int rc;

	if (output == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	add(argv, &count, path);
	add(argv, &count, "bw");
	add(argv, &count, "--json");
	add_all(argv, &count, arguments);
	rc = run(argv, output, error);
	if (rc == 0)
		rc = (int)bench_sibling_parse(output, results);
	free(output);
	return rc != 0 ? rc : rmem_fail(error, EIO, "%s: no result", path);
}

/* --- Reading what it wrote -------------------------------------------------------------------- */

static double number_after(const char *text, const char *name)
{
	const char *at = text != NULL ? strstr(text, name) : NULL;

	return at != NULL ? strtod(at + strlen(name), NULL) : 0;
}

unsigned bench_sibling_parse(const char *json, struct bench_sibling_result results[BENCH_SIZES_MAX])
{
	static const char bytes[] = "\"bytes\": ";
	const char *at = strstr(json, "\"results\": ");
	unsigned count = 0;

	while (at != NULL && count < BENCH_SIZES_MAX && (at = strstr(at, bytes)) != NULL) {
		struct bench_sibling_result *result = &results[count++];

		at += strlen(bytes);
		result->bytes = strtoull(at, NULL, 10);
		for (unsigned i = 0; i < BENCH_METRICS; i++) {
			char name[64];

			snprintf(name, sizeof(name), "\"%s\": {",
				 bench_metric_name((enum bench_metric)i));
			result->result.values[i] = number_after(strstr(at, name), "\"median\": ");
		}
	}
	return count;
}

/* --- Counting instructions -------------------------------------------------------------------- */

static int read_total(const char *path, double *total, struct rmem_error *error)
{
	FILE *in = fopen(path, "re");
	char line[256];

	*total = 0;
	if (in == NULL)
		return rmem_fail(error, errno, "%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), in) != NULL) {
		if (strncmp(line, "summary: ", 9) == 0 || strncmp(line, "totals: ", 8) == 0)
			*total = strtod(strchr(line, ' '), NULL);
	}
	fclose(in);
	return *total > 0 ? 0 : rmem_fail(error, EIO, "%s: callgrind counted nothing", path);
}

int bench_sibling_count(const char *path, const char *const *arguments, double operations,
			double *instructions, struct rmem_error *error)
{
	char file[] = "/tmp/rmem-bench.callgrind.XXXXXX";
	char option[sizeof(file) + 32];
	char *argv[BENCH_SIBLING_ARGUMENTS + 8];
	char *output = malloc(OUTPUT_MAX);
	unsigned count = 0;
	double total;
	int fd = mkstemp(file);
	int rc = 0;

	if (output == NULL || fd < 0)
		rc = rmem_fail(error, fd < 0 ? errno : ENOMEM, "no file for callgrind");
	snprintf(option, sizeof(option), "--callgrind-out-file=%s", file);
	add(argv, &count, "valgrind");
	add(argv, &count, "--quiet");
	add(argv, &count, "--tool=callgrind");
	add(argv, &count, "--toggle-collect=bench_worker_drive");
	add(argv, &count, option);
	add(argv, &count, path);
	add(argv, &count, "bw");
	add_all(argv, &count, arguments);
	if (rc == 0)
		rc = run(argv, output, error);
	if (rc == 0)
		rc = read_total(file, &total, error);
	if (rc == 0)
		*instructions = total / operations;
	if (fd >= 0) {
		close(fd);
		unlink(file);
	}
	free(output);
	return rc;
}
