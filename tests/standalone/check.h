/* SPDX-License-Identifier: Apache-2.0 */
/* As much of Check as a test needs that runs where Check isn't: built for another architecture, or
 * statically for a machine without libraries. The same source compiles with either header.
 *
 * Each case runs in a process of its own, with a limit on its time. The output is TAP. */
#pragma once

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define CK_ROWS_MAX 64
#define CK_SILENT   0

struct ck_row {
	const char *name;
	void (*run)(int _i);
	int start, end, wanted_signal;
};

typedef struct {
	const char *name;
	unsigned timeout_s, row_count;
	struct ck_row rows[CK_ROWS_MAX];
} TCase;

typedef struct {
	const char *name;
	unsigned tcase_count;
	TCase *tcases[CK_ROWS_MAX];
} Suite;

typedef struct {
	Suite *suite;
	int run, failed;
} SRunner;

/* --- In a case -------------------------------------------------------------------------------- */

#define START_TEST(name) static void name(int _i __attribute__((unused)))
#define END_TEST

__attribute__((format(printf, 3, 4), noreturn)) static inline void
ck_fail(const char *file, int line, const char *format, ...)
{
	va_list arguments;

	printf("# %s:%d: ", file, line);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
	_exit(1);
}

#define ck_abort_msg(...) ck_fail(__FILE__, __LINE__, __VA_ARGS__)
#define ck_assert(what)                                                                            \
	do {                                                                                       \
		if (!(what))                                                                       \
			ck_abort_msg("not so: %s", #what);                                         \
	} while (0)
#define ck_assert_ptr_nonnull(pointer) ck_assert((pointer) != NULL)
#define ck_assert_int(left, how, right)                                                            \
	do {                                                                                       \
		long long left_ = (left), right_ = (right);                                        \
		if (!(left_ how right_))                                                           \
			ck_abort_msg("not so: %s %s %s (%lld and %lld)", #left, #how, #right,      \
				     left_, right_);                                               \
	} while (0)
#define ck_assert_int_eq(left, right) ck_assert_int(left, ==, right)
#define ck_assert_int_ne(left, right) ck_assert_int(left, !=, right)

/* --- Suites ----------------------------------------------------------------------------------- */

static inline void *ck_allocate(size_t bytes)
{
	void *memory = calloc(1, bytes);

	if (memory == NULL)
		abort();
	return memory;
}

static inline Suite *suite_create(const char *name)
{
	Suite *suite = ck_allocate(sizeof(*suite));

	suite->name = name;
	return suite;
}

static inline TCase *tcase_create(const char *name)
{
	TCase *tcase = ck_allocate(sizeof(*tcase));

	tcase->name = name;
	tcase->timeout_s = 60;
	return tcase;
}

/* Like Check, takes $CK_TIMEOUT_MULTIPLIER for slow machines. */
static inline void tcase_set_timeout(TCase *tcase, unsigned seconds)
{
	const char *multiplier = getenv("CK_TIMEOUT_MULTIPLIER");

	tcase->timeout_s = seconds * (multiplier != NULL ? (unsigned)atoi(multiplier) : 1u);
}

static inline void suite_add_tcase(Suite *suite, TCase *tcase)
{
	if (suite->tcase_count == CK_ROWS_MAX)
		abort();
	suite->tcases[suite->tcase_count++] = tcase;
}

static inline void ck_add(TCase *tcase, const struct ck_row *row)
{
	if (tcase->row_count == CK_ROWS_MAX)
		abort();
	tcase->rows[tcase->row_count++] = *row;
}

#define tcase_add_loop_test(tcase, name, from, to)                                                 \
	ck_add(tcase, &(struct ck_row){#name, name, from, to, 0})
#define tcase_add_test(tcase, name) tcase_add_loop_test(tcase, name, 0, 1)
#define tcase_add_loop_test_raise_signal(tcase, name, signal, from, to)                            \
	ck_add(tcase, &(struct ck_row){#name, name, from, to, signal})
#define tcase_add_test_raise_signal(tcase, name, signal)                                           \
	tcase_add_loop_test_raise_signal(tcase, name, signal, 0, 1)

/* --- Running them ----------------------------------------------------------------------------- */

static inline SRunner *srunner_create(Suite *suite)
{
	SRunner *runner = ck_allocate(sizeof(*runner));

	runner->suite = suite;
	return runner;
}

static inline void srunner_set_tap(SRunner *runner, const char *path)
{
	(void)runner, (void)path; /* always, and to standard output */
}

static inline bool ck_run_one(const TCase *tcase, const struct ck_row *row, int i)
{
	int status = -1;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		alarm(tcase->timeout_s);
		row->run(i);
		fflush(NULL);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return false;
	if (row->wanted_signal != 0)
		return WIFSIGNALED(status) && WTERMSIG(status) == row->wanted_signal;
	if (WIFSIGNALED(status))
		printf("# ended by signal %d\n", WTERMSIG(status));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static inline void srunner_run_all(SRunner *runner, int mode)
{
	(void)mode;
	for (unsigned t = 0; t < runner->suite->tcase_count; t++) {
		const TCase *tcase = runner->suite->tcases[t];

		for (unsigned r = 0; r < tcase->row_count; r++) {
			const struct ck_row *row = &tcase->rows[r];

			for (int i = row->start; i < row->end; i++) {
				bool is_ok = ck_run_one(tcase, row, i);

				runner->failed += !is_ok;
				printf("%s %d - %s:%s:%d\n", is_ok ? "ok" : "not ok", ++runner->run,
				       tcase->name, row->name, i);
			}
		}
	}
	printf("1..%d\n", runner->run);
	fflush(stdout);
}

static inline int srunner_ntests_failed(SRunner *runner)
{
	return runner->failed;
}

static inline void srunner_free(SRunner *runner)
{
	for (unsigned t = 0; t < runner->suite->tcase_count; t++)
		free(runner->suite->tcases[t]);
	free(runner->suite);
	free(runner);
}
