/* SPDX-License-Identifier: Apache-2.0 */
/* One suite for every back end of the store: what store.h promises. */
#include "fs/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/folder.h"
#include "tests/support/runner.h"

static const struct backend {
	const char *scheme;
	bool sync_commits;
} backends[] = {
	{"lmdb", false},
	{"lmdb", true},
};

#define BACKENDS ((int)(sizeof(backends) / sizeof(backends[0])))

static char base[200]; /* folder of this program */
static pid_t owner;    /* whose stores these are: a test's process, also in its children */

static void make_base(void)
{
	folder_make(base, sizeof(base));
}

static void note_owner(void)
{
	owner = getpid();
}

static void remove_base(void)
{
	folder_remove(base);
}

static void remove_stores(void)
{
	char path[256];

	for (int i = 0; i < BACKENDS; i++) {
		snprintf(path, sizeof(path), "%s/%d-%ld", base, i, (long)owner);
		folder_remove(path);
	}
}

static char *url_of(int backend)
{
	static char url[256];

	snprintf(url, sizeof(url), "%s:%s/%d-%ld", backends[backend].scheme, base, backend,
		 (long)owner);
	return url;
}

static struct store_options options_of(int backend)
{
	return (struct store_options){
		.url = url_of(backend),
		.sync_commits = backends[backend].sync_commits,
		.map_bytes = 64 << 20,
		.holder = "the test",
	};
}

static struct store *open_as(const struct store_options *options)
{
	struct rmem_error error = {0};
	struct store *store;

	ck_assert_msg(store_open(options, &store, &error) == 0, "%s", error.text);
	return store;
}

static struct store *open_new(int backend)
{
	struct store_options options = options_of(backend);

	return open_as(&options);
}

static struct store_slice text(const char *string)
{
	return (struct store_slice){string, strlen(string)};
}

static struct store_txn *begin(struct store *store, enum store_mode mode)
{
	struct store_txn *txn;

	ck_assert_int_eq(store_begin(store, mode, &txn), 0);
	return txn;
}

static void put(struct store *store, const char *key, const char *value)
{
	struct store_txn *txn = begin(store, STORE_WRITE);

	ck_assert_int_eq(store_put(txn, text(key), text(value)), 0);
	ck_assert_int_eq(store_commit(txn), 0);
}

static void assert_value(struct store_txn *txn, const char *key, const char *expected)
{
	struct store_slice value;
	int result = store_get(txn, text(key), &value);

	if (expected == NULL) {
		ck_assert_int_eq(result, -ENOENT);
		return;
	}
	ck_assert_int_eq(result, 0);
	ck_assert_uint_eq(value.size, strlen(expected));
	ck_assert_mem_eq(value.data, expected, value.size);
}

static void assert_stored(struct store *store, const char *key, const char *expected)
{
	struct store_txn *txn = begin(store, STORE_READ);

	assert_value(txn, key, expected);
	store_abort(txn);
}

START_TEST(transaction_sees_its_own_writes_and_others_only_after_commit)
{
	struct store *store = open_new(_i);
	struct store_txn *txn;

	put(store, "b", "old");
	txn = begin(store, STORE_WRITE);
	ck_assert_int_eq(store_put(txn, text("a"), text("1")), 0);
	ck_assert_int_eq(store_put(txn, text("b"), text("new")), 0);
	assert_value(txn, "a", "1");
	assert_value(txn, "b", "new");
	assert_stored(store, "a", NULL);
	assert_stored(store, "b", "old");
	ck_assert_int_eq(store_delete(txn, text("b")), 0);
	assert_value(txn, "b", NULL);
	ck_assert_int_eq(store_commit(txn), 0);
	assert_stored(store, "a", "1");
	assert_stored(store, "b", NULL);
	store_close(store);
}
END_TEST

START_TEST(aborted_transaction_leaves_nothing)
{
	struct store *store = open_new(_i);
	struct store_txn *txn;

	put(store, "kept", "value");
	txn = begin(store, STORE_WRITE);
	ck_assert_int_eq(store_put(txn, text("new"), text("1")), 0);
	ck_assert_int_eq(store_put(txn, text("kept"), text("2")), 0);
	ck_assert_int_eq(store_delete(txn, text("kept")), 0);
	store_abort(txn);
	store_abort(NULL);
	assert_stored(store, "new", NULL);
	assert_stored(store, "kept", "value");
	store_close(store);
}
END_TEST

START_TEST(deleting_what_is_not_there_says_so_and_spoils_nothing)
{
	struct store *store = open_new(_i);
	struct store_txn *txn = begin(store, STORE_WRITE);

	ck_assert_int_eq(store_delete(txn, text("nothing")), -ENOENT);
	ck_assert_int_eq(store_put(txn, text("a"), text("1")), 0);
	ck_assert_int_eq(store_commit(txn), 0);
	assert_stored(store, "a", "1");
	store_close(store);
}
END_TEST

START_TEST(keys_that_are_empty_or_too_long_are_refused)
{
	char bytes[STORE_KEY_MAX + 1];
	struct store *store = open_new(_i);
	struct store_txn *txn = begin(store, STORE_WRITE);
	struct store_slice longest = {bytes, STORE_KEY_MAX}, longer = {bytes, STORE_KEY_MAX + 1};
	struct store_slice value;

	memset(bytes, 'k', sizeof(bytes));
	ck_assert_int_eq(store_put(txn, text(""), text("1")), -EINVAL);
	ck_assert_int_eq(store_put(txn, longer, text("1")), -EINVAL);
	ck_assert_int_eq(store_get(txn, longer, &value), -ENOENT);
	ck_assert_int_eq(store_put(txn, longest, text("1")), 0);
	ck_assert_int_eq(store_get(txn, longest, &value), 0);
	ck_assert_int_eq(store_commit(txn), 0);
	store_close(store);
}
END_TEST

/* Collects the keys of a scan as "key key ...". */
struct seen {
	char text[256];
	unsigned count, stop_after;
};

static int see(void *user, struct store_slice key, struct store_slice value)
{
	struct seen *seen = user;
	size_t used = strlen(seen->text);

	ck_assert_uint_eq(value.size, 1);
	snprintf(seen->text + used, sizeof(seen->text) - used, "%.*s ", (int)key.size,
		 (const char *)key.data);
	return ++seen->count == seen->stop_after ? 7 : 0;
}

static void assert_scan(struct store *store, const char *prefix, const char *after,
			const char *expected)
{
	struct store_txn *txn = begin(store, STORE_READ);
	struct seen seen = {0};

	ck_assert_int_eq(store_scan(txn, text(prefix), text(after), see, &seen), 0);
	ck_assert_str_eq(seen.text, expected);
	store_abort(txn);
}

START_TEST(scan_visits_keys_with_a_prefix_after_a_key_in_order)
{
	static const char *const keys[] = {"b2", "a", "b", "b1", "b10", "c", "bb"};
	struct store *store = open_new(_i);
	struct seen seen = {.stop_after = 2};
	struct store_txn *txn;

	assert_scan(store, "", "", "");
	for (unsigned i = 0; i < RMEM_COUNT_OF(keys); i++)
		put(store, keys[i], "1");
	assert_scan(store, "", "", "a b b1 b10 b2 bb c ");
	assert_scan(store, "b", "", "b b1 b10 b2 bb ");
	assert_scan(store, "b", "b", "b1 b10 b2 bb ");
	assert_scan(store, "b", "b11", "b2 bb ");
	assert_scan(store, "b", "a", "b b1 b10 b2 bb ");
	assert_scan(store, "b", "bb", "");
	assert_scan(store, "b", "c", "");
	assert_scan(store, "b1", "b1", "b10 ");
	assert_scan(store, "", "bb", "c ");
	assert_scan(store, "d", "", "");
	txn = begin(store, STORE_READ);
	ck_assert_int_eq(store_scan(txn, text("b"), text(""), see, &seen), 7);
	ck_assert_str_eq(seen.text, "b b1 ");
	store_abort(txn);
	store_close(store);
}
END_TEST

static int count(void *user, struct store_slice key, struct store_slice value)
{
	(void)key;
	(void)value;
	++*(unsigned *)user;
	return 0;
}

START_TEST(scan_sees_what_its_own_transaction_changed)
{
	struct store *store = open_new(_i);
	struct store_txn *txn;
	unsigned seen = 0;

	put(store, "x1", "1");
	txn = begin(store, STORE_WRITE);
	ck_assert_int_eq(store_put(txn, text("x2"), text("1")), 0);
	ck_assert_int_eq(store_put(txn, text("x3"), text("1")), 0);
	ck_assert_int_eq(store_delete(txn, text("x1")), 0);
	ck_assert_int_eq(store_scan(txn, text("x"), text(""), count, &seen), 0);
	ck_assert_uint_eq(seen, 2);
	store_abort(txn);
	store_close(store);
}
END_TEST

START_TEST(keys_and_values_are_any_bytes)
{
	static const char keys[][3] = {
		{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {'\xff', 0, '\n'}, {'\xff', '\xff', '\xff'}};
	struct store *store = open_new(_i);
	struct store_txn *txn = begin(store, STORE_WRITE);
	struct store_slice value;
	unsigned seen = 0;

	for (unsigned i = 0; i < RMEM_COUNT_OF(keys); i++)
		ck_assert_int_eq(store_put(txn, (struct store_slice){keys[i], 3},
					   (struct store_slice){keys[i], i % 4}),
				 0);
	ck_assert_int_eq(store_commit(txn), 0);
	txn = begin(store, STORE_READ);
	for (unsigned i = 0; i < RMEM_COUNT_OF(keys); i++) {
		ck_assert_int_eq(store_get(txn, (struct store_slice){keys[i], 3}, &value), 0);
		ck_assert_uint_eq(value.size, i % 4);
		ck_assert(memcmp(value.data, keys[i], value.size) == 0);
	}
	ck_assert_int_eq(store_scan(txn, (struct store_slice){"\0", 1}, text(""), count, &seen), 0);
	ck_assert_uint_eq(seen, 3);
	ck_assert_int_eq(
		store_scan(txn, (struct store_slice){"\xff\xff", 2}, text(""), count, &seen), 0);
	ck_assert_uint_eq(seen, 4);
	store_abort(txn);
	store_close(store);
}
END_TEST

#define BIG (400u << 10)

START_TEST(big_values_come_back_and_can_be_replaced)
{
	struct store *store = open_new(_i);
	char *big = malloc(BIG);
	struct store_slice value;
	struct store_txn *txn;

	for (int round = 0; round < 20; round++) {
		size_t size = BIG - (size_t)round * 10007;

		memset(big, 'a' + round, size);
		txn = begin(store, STORE_WRITE);
		ck_assert_int_eq(store_put(txn, text("big"), (struct store_slice){big, size}), 0);
		ck_assert_int_eq(store_commit(txn), 0);
		txn = begin(store, STORE_READ);
		ck_assert_int_eq(store_get(txn, text("big"), &value), 0);
		ck_assert_uint_eq(value.size, size);
		ck_assert(memcmp(value.data, big, size) == 0);
		store_abort(txn);
	}
	free(big);
	store_close(store);
}
END_TEST

START_TEST(reader_keeps_its_snapshot_while_others_commit)
{
	struct store *store = open_new(_i);
	struct store_txn *reader, *later;
	char value[16];

	put(store, "k", "0");
	reader = begin(store, STORE_READ);
	for (int i = 1; i <= 50; i++) {
		snprintf(value, sizeof(value), "%d", i);
		put(store, "k", value);
		assert_value(reader, "k", "0");
	}
	later = begin(store, STORE_READ);
	put(store, "k", "last");
	assert_value(later, "k", "50");
	assert_value(reader, "k", "0");
	store_abort(reader);
	ck_assert_int_eq(store_commit(later), 0);
	assert_stored(store, "k", "last");
	store_close(store);
}
END_TEST

/* Adds one to a number in the store. */
static int add_one(struct store_txn *txn, void *user)
{
	struct store_slice value;
	unsigned number = 0;
	int error = store_get(txn, text("number"), &value);

	(void)user;
	if (error == 0)
		memcpy(&number, value.data, sizeof(number));
	else if (error != -ENOENT)
		return error;
	number++;
	return store_put(txn, text("number"), (struct store_slice){&number, sizeof(number)});
}

#define THREADS 4
#define ROUNDS	200u

static void *add_many(void *arg)
{
	struct store *store = arg;

	for (unsigned i = 0; i < ROUNDS; i++)
		ck_assert_int_eq(store_update(store, add_one, NULL), 0);
	return NULL;
}

static void *read_many(void *arg)
{
	struct store *store = arg;
	unsigned number, last = 0;
	struct store_slice value;

	while (last < THREADS * ROUNDS) {
		struct store_txn *txn = begin(store, STORE_READ);

		if (store_get(txn, text("number"), &value) == 0) {
			memcpy(&number, value.data, sizeof(number));
			ck_assert_uint_ge(number, last);
			last = number;
		}
		store_abort(txn);
	}
	return NULL;
}

START_TEST(writers_of_several_threads_lose_no_update)
{
	struct store *store = open_new(_i);
	pthread_t writers[THREADS], reader;

	ck_assert_int_eq(pthread_create(&reader, NULL, read_many, store), 0);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&writers[i], NULL, add_many, store), 0);
	for (int i = 0; i < THREADS; i++) {
		ck_assert_int_eq(store_sync(store), 0);
		pthread_join(writers[i], NULL);
	}
	pthread_join(reader, NULL);
	store_close(store);
}
END_TEST

static int fail_after_put(struct store_txn *txn, void *user)
{
	int error = store_put(txn, text("doomed"), text("1"));

	return error != 0 ? error : *(int *)user;
}

START_TEST(failed_change_of_an_update_is_undone_and_reported)
{
	struct store *store = open_new(_i);
	int error = -EXDEV;

	ck_assert_int_eq(store_update(store, fail_after_put, &error), -EXDEV);
	assert_stored(store, "doomed", NULL);
	error = 1; /* not an error code, not success either */
	ck_assert_int_eq(store_shrink(store, fail_after_put, &error), 1);
	assert_stored(store, "doomed", NULL);
	store_close(store);
}
END_TEST

struct filling {
	unsigned next;
	size_t size;
};

static int put_ten(struct store_txn *txn, void *user)
{
	static const char value[8192];
	struct filling *filling = user;
	char key[16];

	for (unsigned i = 0; i < 10; i++) {
		int error;

		snprintf(key, sizeof(key), "key%06u", filling->next + i);
		error = store_put(txn, text(key), (struct store_slice){value, filling->size});
		if (error != 0)
			return error;
	}
	return 0;
}

/* A hook that notes how its transaction ended, and in which order. */
struct note {
	struct store_hook hook;
	const char *name;
	char *log; /* "NAME+" committed, "NAME-" not */
};

static void note_end(struct store_hook *hook, bool committed)
{
	struct note *note = RMEM_CONTAINER_OF(hook, struct note, hook);

	strcat(note->log, note->name);
	strcat(note->log, committed ? "+" : "-");
}

START_TEST(hooks_are_told_how_their_transaction_ended)
{
	struct store *store = open_new(_i);
	char log[32] = "";
	struct note first = {.hook.ended = note_end, .name = "a", .log = log};
	struct note second = {.hook.ended = note_end, .name = "b", .log = log};
	struct store_txn *txn = begin(store, STORE_WRITE);

	store_at_end(txn, &first.hook);
	ck_assert(store_has_hook(txn, &first.hook));
	ck_assert(!store_has_hook(txn, &second.hook));
	store_at_end(txn, &second.hook);
	ck_assert_int_eq(store_put(txn, text("k"), text("v")), 0);
	ck_assert_str_eq(log, "");
	ck_assert_int_eq(store_commit(txn), 0);
	ck_assert_str_eq(log, "a+b+");
	txn = begin(store, STORE_WRITE);
	ck_assert(!store_has_hook(txn, &first.hook));
	store_at_end(txn, &second.hook);
	store_abort(txn);
	ck_assert_str_eq(log, "a+b+b-");
	store_close(store);
}
END_TEST

/* Puts values until the store is full, and returns how many fit. */
static unsigned fill(struct store *store, size_t size)
{
	struct filling filling = {.size = size};
	int error = 0;

	for (; filling.next < 40000; filling.next += 10) {
		error = store_update(store, put_ten, &filling);
		if (error != 0)
			break;
	}
	ck_assert_int_eq(error, -ENOSPC);
	return filling.next;
}

static int delete_ten(struct store_txn *txn, void *user)
{
	unsigned *next = user;
	char key[16];
	int error;

	for (unsigned i = 0; i < 10 && *next > 0; i++) {
		snprintf(key, sizeof(key), "key%06u", --*next);
		error = store_delete(txn, text(key));
		if (error != 0)
			return error;
	}
	return 0;
}

START_TEST(full_store_refuses_writes_reads_on_and_recovers_by_deleting)
{
	static const size_t sizes[] = {100, 1500, 8000};
	struct store_options options = options_of(_i);
	unsigned first, filled, left;
	struct store *store;

	options.map_bytes = 2 << 20;
	store = open_as(&options);
	for (unsigned s = 0; s < RMEM_COUNT_OF(sizes); s++) {
		first = 0;
		for (int round = 0; round < 3; round++) {
			filled = fill(store, sizes[s]);
			if (round == 0)
				first = filled;
			/* About 2 MiB, and about the same in each round. */
			ck_assert_uint_gt(filled * sizes[s], 400000);
			ck_assert_uint_ge(filled, first / 2);
			assert_stored(store, "key999999", NULL);
			for (left = filled; left > 0;)
				ck_assert_int_eq(store_shrink(store, delete_ten, &left), 0);
		}
	}
	put(store, "after", "1");
	assert_stored(store, "after", "1");
	store_close(store);
}
END_TEST

START_TEST(what_was_committed_is_there_after_reopening)
{
	struct store *store = open_new(_i);

	put(store, "a", "1");
	ck_assert_int_eq(store_sync(store), 0);
	store_close(store);
	store = open_new(_i);
	assert_stored(store, "a", "1");
	put(store, "b", "2");
	store_close(store);
	store = open_new(_i);
	assert_stored(store, "a", "1");
	assert_stored(store, "b", "2");
	ck_assert(!store_crashed(store));
	store_close(store);
}
END_TEST

START_TEST(second_holder_is_refused_and_told_who_the_first_is)
{
	struct store_options options = options_of(_i);
	struct rmem_error error = {0};
	struct store *store, *second;
	char holder[256], pid[32];

	options.holder = "mount /mnt/first";
	store = open_as(&options);
	snprintf(pid, sizeof(pid), "process %ld", (long)getpid());
	ck_assert_int_eq(store_open(&options, &second, &error), -EBUSY);
	ck_assert_ptr_nonnull(strstr(error.text, "mount /mnt/first"));
	ck_assert_ptr_nonnull(strstr(error.text, pid));
	store_holder(store, holder, sizeof(holder));
	ck_assert_ptr_nonnull(strstr(holder, "mount /mnt/first"));
	put(store, "still", "usable");
	store_close(store);
	store = open_as(&options);
	store_close(store);
}
END_TEST

/* In a child: looks at a store that the parent holds. */
static void look(int backend)
{
	struct store_options options = options_of(backend);
	struct store_txn *txn;
	struct store *store;
	char holder[256];

	options.read_only = true;
	store = open_as(&options);
	store_holder(store, holder, sizeof(holder));
	ck_assert_ptr_nonnull(strstr(holder, "the test"));
	assert_stored(store, "a", "1");
	ck_assert_int_eq(store_begin(store, STORE_WRITE, &txn), -EROFS);
	ck_assert_int_eq(store_sync(store), 0);
	store_close(store);
}

START_TEST(reader_opens_beside_the_holder_and_can_not_write)
{
	int status, ready[2];
	struct store *store;
	pid_t pid;

	/* The child is forked before the store is opened, and let go after. */
	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		char byte;

		close(ready[1]);
		if (read(ready[0], &byte, 1) == 1)
			look(_i);
		_exit(0);
	}
	store = open_new(_i);
	put(store, "a", "1");
	ck_assert_int_eq(write(ready[1], "x", 1), 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	put(store, "a", "2");
	store_close(store);
}
END_TEST

START_TEST(nobody_holds_a_closed_store)
{
	struct store_options options = options_of(_i);
	struct store *store = open_as(&options);
	char holder[256];

	store_close(store);
	options.read_only = true;
	store = open_as(&options);
	store_holder(store, holder, sizeof(holder));
	ck_assert_str_eq(holder, "");
	store_close(store);
}
END_TEST

/* In a child: commits numbers for ever, and tells each after its commit. */
static void commit_for_ever(int backend, int pipe)
{
	struct store_options options = options_of(backend);
	struct store *store;

	store = open_as(&options);
	for (unsigned i = 0;; i++) {
		char key[16], value[2000] = {0};
		struct store_txn *txn = begin(store, STORE_WRITE);

		snprintf(key, sizeof(key), "n%u", i);
		ck_assert_int_eq(store_put(txn, text(key), (struct store_slice){value, i % 2000}),
				 0);
		if (i >= 100) {
			snprintf(key, sizeof(key), "n%u", i - 100);
			ck_assert_int_eq(store_delete(txn, text(key)), 0);
		}
		ck_assert_int_eq(store_commit(txn), 0);
		if (write(pipe, &i, sizeof(i)) != sizeof(i))
			_exit(1);
	}
}

/* Kills a child that commits, and returns the last number that it told. */
static unsigned kill_writer(int backend, unsigned after)
{
	int numbers[2], status;
	unsigned last = 0, next;
	pid_t pid;

	ck_assert_int_eq(pipe(numbers), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		commit_for_ever(backend, numbers[1]);
		_exit(1);
	}
	close(numbers[1]);
	while (last < after && read(numbers[0], &last, sizeof(last)) == sizeof(last))
		continue;
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
	while (read(numbers[0], &next, sizeof(next)) == sizeof(next))
		last = next;
	close(numbers[0]);
	return last;
}

START_TEST(kill_of_the_writer_loses_nothing_that_was_committed)
{
	for (unsigned round = 0; round < 5; round++) {
		unsigned last = kill_writer(_i, 150 + round * 41), seen = 0;
		struct store *store = open_new(_i);
		struct store_txn *txn = begin(store, STORE_READ);

		for (unsigned i = 0; i <= last; i++) {
			struct store_slice value;
			char key[16];
			int result;

			snprintf(key, sizeof(key), "n%u", i);
			result = store_get(txn, text(key), &value);
			/* The one after the last it told may have been committed, which deletes. */
			if (i + 100 > last + 1)
				ck_assert_int_eq(result, 0);
			else if (i + 100 <= last)
				ck_assert_int_eq(result, -ENOENT);
			if (result == 0)
				ck_assert_uint_eq(value.size, i % 2000);
		}
		ck_assert_int_eq(store_scan(txn, text("n"), text(""), count, &seen), 0);
		ck_assert_uint_eq(seen, 100);
		store_abort(txn);
		ck_assert(!store_crashed(store));
		store_close(store);
		folder_remove(strchr(url_of(_i), ':') + 1);
	}
}
END_TEST

START_TEST(missing_store_is_not_made_by_who_only_reads)
{
	struct store_options options = options_of(_i);
	struct rmem_error error = {0};
	struct store *store;

	options.read_only = true;
	ck_assert_int_eq(store_open(&options, &store, &error), -ENOENT);
	ck_assert_ptr_nonnull(strstr(error.text, base));
	ck_assert_int_ne(access(strchr(url_of(_i), ':') + 1, F_OK), 0);
}
END_TEST

/* --- Opening, without a back end in particular --------------------------------------------------
 */

START_TEST(wrong_urls_are_explained)
{
	static const char *const urls[] = {"", "lmdb", "/var/lib/x", "lmdbx:/x", "ftp:/x", "lmdb:"};
	struct rmem_error error = {0};
	struct store *store;

	for (unsigned i = 0; i < RMEM_COUNT_OF(urls); i++) {
		struct store_options options = {.url = urls[i]};

		error.text[0] = '\0';
		ck_assert_int_eq(store_open(&options, &store, &error), -EINVAL);
		ck_assert_str_ne(error.text, "");
	}
	store_close(NULL);
}
END_TEST

START_TEST(folder_that_can_not_be_made_is_reported)
{
	struct store_options options = {.url = "lmdb:/proc/no/such/folder"};
	struct rmem_error error = {0};
	struct store *store;

	ck_assert_int_eq(store_open(&options, &store, &error), -ENOENT);
	ck_assert_ptr_nonnull(strstr(error.text, "/proc/no/such/folder"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("store");
	TCase *tc = tcase_create("conformance"), *opening = tcase_create("opening");

	tcase_add_unchecked_fixture(tc, make_base, remove_base);
	tcase_add_checked_fixture(tc, note_owner, remove_stores);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, transaction_sees_its_own_writes_and_others_only_after_commit, 0,
			    BACKENDS);
	tcase_add_loop_test(tc, aborted_transaction_leaves_nothing, 0, BACKENDS);
	tcase_add_loop_test(tc, deleting_what_is_not_there_says_so_and_spoils_nothing, 0, BACKENDS);
	tcase_add_loop_test(tc, keys_that_are_empty_or_too_long_are_refused, 0, BACKENDS);
	tcase_add_loop_test(tc, scan_visits_keys_with_a_prefix_after_a_key_in_order, 0, BACKENDS);
	tcase_add_loop_test(tc, scan_sees_what_its_own_transaction_changed, 0, BACKENDS);
	tcase_add_loop_test(tc, keys_and_values_are_any_bytes, 0, BACKENDS);
	tcase_add_loop_test(tc, big_values_come_back_and_can_be_replaced, 0, BACKENDS);
	tcase_add_loop_test(tc, reader_keeps_its_snapshot_while_others_commit, 0, BACKENDS);
	tcase_add_loop_test(tc, writers_of_several_threads_lose_no_update, 0, BACKENDS);
	tcase_add_loop_test(tc, failed_change_of_an_update_is_undone_and_reported, 0, BACKENDS);
	tcase_add_loop_test(tc, hooks_are_told_how_their_transaction_ended, 0, BACKENDS);
	tcase_add_loop_test(tc, full_store_refuses_writes_reads_on_and_recovers_by_deleting, 0,
			    BACKENDS);
	tcase_add_loop_test(tc, what_was_committed_is_there_after_reopening, 0, BACKENDS);
	tcase_add_loop_test(tc, second_holder_is_refused_and_told_who_the_first_is, 0, BACKENDS);
	tcase_add_loop_test(tc, reader_opens_beside_the_holder_and_can_not_write, 0, BACKENDS);
	tcase_add_loop_test(tc, nobody_holds_a_closed_store, 0, BACKENDS);
	tcase_add_loop_test(tc, kill_of_the_writer_loses_nothing_that_was_committed, 0, BACKENDS);
	tcase_add_loop_test(tc, missing_store_is_not_made_by_who_only_reads, 0, BACKENDS);
	tcase_add_test(opening, wrong_urls_are_explained);
	tcase_add_test(opening, folder_that_can_not_be_made_is_reported);
	suite_add_tcase(suite, tc);
	suite_add_tcase(suite, opening);
	return run_suite(suite);
}
