/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads at once on one small tree, with the worker flushing all the time: nothing but the
 * answers that races allow, no deadlock, and a sound volume at the end. Worth most under TSan. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "fs/extent.h"
#include "tests/support/runner.h"
#include "tests/support/store_check.h"
#include "tests/support/volume_fixture.h"

#define THREADS	   4
#define OPERATIONS 4000
#define NAMES	   8

static struct volume_fixture fixture;

struct actor {
	pthread_t thread;
	uint64_t random;
	unsigned done, unexpected;
};

static unsigned below(struct actor *actor, unsigned limit)
{
	actor->random = actor->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(actor->random >> 33) % limit;
}

static void judge(struct actor *actor, int result)
{
	static const int expected[] = {0,	 -ENOENT,    -EEXIST, -ESTALE, -EISDIR,
				       -ENOTDIR, -ENOTEMPTY, -EINVAL, -EPERM,  -ENODATA};

	for (unsigned i = 0; i < RMEM_COUNT_OF(expected); i++) {
		if (result == expected[i]) {
			actor->done += result == 0;
			return;
		}
	}
	fprintf(stderr, "unexpected: %d\n", result);
	actor->unexpected++;
}

/* A random directory, at most three levels down, with a reference. */
static struct inode *walk(struct actor *actor)
{
	struct inode *at, *next;
	char name[16];

	if (inode_get(fixture.volume, INODE_ROOT, &at) != 0)
		abort();
	for (unsigned depth = below(actor, 4); depth > 0; depth--) {
		snprintf(name, sizeof(name), "n%u", below(actor, NAMES));
		if (namespace_lookup(fixture.volume, at, name, &next) != 0)
			break;
		pthread_mutex_lock(&next->lock);
		bool directory = S_ISDIR(next->attr.mode);
		pthread_mutex_unlock(&next->lock);
		inode_unref(fixture.volume, directory ? at : next, 1);
		if (!directory)
			break;
		at = next;
	}
	return at;
}

static void use_file(struct actor *actor, struct inode *inode)
{
	struct inode_attr attr = {.mode = 0600, .mtime_ns = 5};
	struct namespace_xattr xattr = {.name = "user.a", .value = "value", .size = 5};
	char value[16];

	pthread_mutex_lock(&inode->lock);
	bool usable = S_ISREG(inode->attr.mode) && !inode->removed;
	if (usable) {
		inode->opens++;
		judge(actor, extent_allocate(fixture.volume, inode, below(actor, 1 << 20), 5000,
					     EXTENT_GROW));
		inode->attr.mtime_ns = inode_now_ns();
		inode_mark_dirty(fixture.volume, inode, INODE_DIRTY_ATTR);
	}
	pthread_mutex_unlock(&inode->lock);
	judge(actor, namespace_setattr(fixture.volume, inode, &attr,
				       below(actor, 2) ? NAMESPACE_MODE : NAMESPACE_MTIME));
	judge(actor, namespace_setxattr(fixture.volume, inode, &xattr));
	if (namespace_getxattr(fixture.volume, inode, "user.a", value, sizeof(value)) >= 0)
		judge(actor, namespace_removexattr(fixture.volume, inode, "user.a"));
	judge(actor, inode_flush(fixture.volume, inode));
	if (!usable)
		return;
	pthread_mutex_lock(&inode->lock);
	inode->opens--;
	pthread_mutex_unlock(&inode->lock);
}

static void list(struct actor *actor, struct inode *directory)
{
	struct namespace_dir *dir;
	struct namespace_entry entry = {.next = 0};

	if (namespace_opendir(fixture.volume, directory, &dir) != 0)
		return;
	while (namespace_readdir(dir, entry.next, &entry) == 1) {
		struct inode *inode;

		if (inode_get(fixture.volume, entry.ino, &inode) == 0)
			inode_unref(fixture.volume, inode, 1);
	}
	namespace_closedir(dir);
	actor->done++;
}

static void create(struct actor *actor, struct inode *at, const char *name)
{
	struct namespace_create create = {.mode = (below(actor, 2) ? S_IFREG : S_IFDIR) | 0755};
	struct inode *inode;
	int result = namespace_create(fixture.volume, at, name, &create, &inode);

	judge(actor, result);
	if (result == 0)
		inode_unref(fixture.volume, inode, 1);
}

static void operate(struct actor *actor, struct inode *at, struct inode *other)
{
	static const unsigned flags[] = {0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE};
	struct volume *volume = fixture.volume;
	struct inode *inode;
	char name[16], name2[16];
	struct namespace_rename rename = {
		.old_parent = at,
		.new_parent = other,
		.old_name = name,
		.new_name = name2,
		.flags = flags[below(actor, 4)],
	};

	snprintf(name, sizeof(name), "n%u", below(actor, NAMES));
	snprintf(name2, sizeof(name2), "n%u", below(actor, NAMES));
	switch (below(actor, 8)) {
	case 0:
	case 1:
		create(actor, at, name);
		break;
	case 2:
		judge(actor, namespace_unlink(volume, at, name));
		break;
	case 3:
		judge(actor, namespace_rmdir(volume, at, name));
		break;
	case 4:
		judge(actor, namespace_rename(volume, &rename));
		break;
	case 5:
		list(actor, at);
		break;
	default:
		if (namespace_lookup(volume, at, name, &inode) != 0)
			break;
		if (below(actor, 2))
			judge(actor, namespace_link(volume, inode, other, name2));
		else
			use_file(actor, inode);
		inode_unref(volume, inode, 1);
	}
}

static void *act(void *user)
{
	struct actor *actor = user;

	for (int i = 0; i < OPERATIONS; i++) {
		struct inode *at = walk(actor), *other = walk(actor);

		operate(actor, at, other);
		inode_unref(fixture.volume, at, 1);
		inode_unref(fixture.volume, other, 1);
	}
	return NULL;
}

struct waiter {
	struct volume_sync sync;
	pthread_mutex_t lock;
	pthread_cond_t done;
	int status;
};

static void synced(struct volume_sync *sync, int status)
{
	struct waiter *waiter = RMEM_CONTAINER_OF(sync, struct waiter, sync);

	pthread_mutex_lock(&waiter->lock);
	waiter->status = status;
	pthread_cond_signal(&waiter->done);
	pthread_mutex_unlock(&waiter->lock);
}

static void sync_and_wait(void)
{
	struct waiter waiter = {.sync = {.done = synced}, .status = 1};

	pthread_mutex_init(&waiter.lock, NULL);
	pthread_cond_init(&waiter.done, NULL);
	volume_sync(fixture.volume, &waiter.sync);
	pthread_mutex_lock(&waiter.lock);
	while (waiter.status == 1)
		pthread_cond_wait(&waiter.done, &waiter.lock);
	pthread_mutex_unlock(&waiter.lock);
	ck_assert_int_eq(waiter.status, 0);
	pthread_cond_destroy(&waiter.done);
	pthread_mutex_destroy(&waiter.lock);
}

START_TEST(threads_that_race_leave_a_sound_volume)
{
	struct actor actors[THREADS] = {0};

	volume_fixture_init(&fixture);
	volume_fixture_close(&fixture);
	fixture.sync_interval_ms = 10;
	volume_fixture_open(&fixture);
	volume_fixture_attach(&fixture, 0, "shm:/a", 1, 512u << 20);
	for (unsigned i = 0; i < THREADS; i++) {
		actors[i].random = i + 1;
		ck_assert_int_eq(pthread_create(&actors[i].thread, NULL, act, &actors[i]), 0);
	}
	for (unsigned i = 0; i < 20; i++)
		sync_and_wait();
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(actors[i].thread, NULL);
		ck_assert_uint_eq(actors[i].unexpected, 0);
		ck_assert_uint_gt(actors[i].done, OPERATIONS / 10);
	}
	volume_fixture_close(&fixture);
	store_check_clean(fixture.url);
	volume_fixture_finish(&fixture);
}
END_TEST

/* A name that is replaced all the time. */
static _Atomic(bool) replacing;

static void *look_up(void *user)
{
	unsigned *missed = user;
	struct inode *root, *inode;

	if (inode_get(fixture.volume, INODE_ROOT, &root) != 0)
		abort();
	while (replacing) {
		if (namespace_lookup(fixture.volume, root, "name", &inode) == 0)
			inode_unref(fixture.volume, inode, 1);
		else
			++*missed;
	}
	inode_unref(fixture.volume, root, 1);
	return NULL;
}

START_TEST(a_name_that_is_replaced_is_always_there)
{
	struct namespace_rename rename = {.old_name = "new", .new_name = "name"};
	struct inode *root;
	unsigned missed[2] = {0};
	pthread_t threads[2];

	volume_fixture_init(&fixture);
	root = volume_fixture_inode(&fixture, INODE_ROOT);
	rename.old_parent = rename.new_parent = root;
	inode_unref(fixture.volume, volume_fixture_create(&fixture, root, "name", S_IFREG), 1);
	replacing = true;
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, look_up, &missed[i]), 0);
	for (unsigned i = 0; i < 5000; i++) {
		struct inode *new = volume_fixture_create(&fixture, root, "new", S_IFREG);

		inode_unref(fixture.volume, new, 1);
		ck_assert_int_eq(namespace_rename(fixture.volume, &rename), 0);
	}
	replacing = false;
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_uint_eq(missed[i], 0);
	}
	inode_unref(fixture.volume, root, 1);
	volume_fixture_close(&fixture);
	store_check_clean(fixture.url);
	volume_fixture_finish(&fixture);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("namespace_threads");
	TCase *threads = tcase_create("threads");

	tcase_set_timeout(threads, 100);
	tcase_add_test(threads, threads_that_race_leave_a_sound_volume);
	tcase_add_test(threads, a_name_that_is_replaced_is_always_there);
	suite_add_tcase(s, threads);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
