/* SPDX-License-Identifier: Apache-2.0 */
/* What was fsynced must be there after a crash: the writer and the judge.
 *
 *	durable write FOLDER LOG SEED    changes files in FOLDER until an error stops it
 *	durable verify FOLDER LOG        compares FOLDER with what LOG promises
 *
 * The writer puts a line into LOG (which is not on the filesystem under test) before each operation
 * and another when the operation is durable: when fsync() or close() returned, or for names when
 *the fsync() of the folder did. The judge replays the finished operations in memory and compares
 *every byte. The last operation may have begun and not finished: there, and only there, the old
 *state and the new one are both right, and within a write each byte on its own.
 *
 * The writer ends with status 0 when the filesystem went away and 1 on any other error; the judge
 * says what is wrong and ends with 1. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLOTS	  24	  /* files */
#define SLOT_MAX  524288u /* bytes */
#define NAME_SIZE 32

/* w: write `length` at `offset`, creating the file; t: truncate to `length`;
 * r: replace the whole file by `length` bytes, with rename; u: unlink */
struct operation {
	char kind;
	unsigned slot, offset, length, seed;
};

struct file {
	bool exists;
	unsigned size;
	unsigned char data[SLOT_MAX];
};

static struct file files[SLOTS], changed;
static unsigned char buffer[SLOT_MAX + 1];

static unsigned next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (unsigned)(*state >> 32);
}

static void fill(unsigned char *data, unsigned length, unsigned seed)
{
	uint64_t state = 0x9E3779B97F4A7C15u + seed;

	for (unsigned i = 0; i < length; i++)
		data[i] = (unsigned char)next_random(&state);
}

static void slot_name(char name[NAME_SIZE], unsigned slot)
{
	snprintf(name, NAME_SIZE, "file%02u", slot);
}

/* --- the model */

static void apply(struct file *file, const struct operation *op)
{
	if (op->kind == 'u') {
		file->exists = false;
		file->size = 0;
	} else if (op->kind == 't') {
		if (op->length > file->size)
			memset(file->data + file->size, 0, op->length - file->size);
		file->size = op->length;
	} else if (op->kind == 'r') {
		file->exists = true;
		file->size = op->length;
		fill(file->data, op->length, op->seed);
	} else {
		file->exists = true;
		if (op->offset > file->size)
			memset(file->data + file->size, 0, op->offset - file->size);
		fill(file->data + op->offset, op->length, op->seed);
		if (op->offset + op->length > file->size)
			file->size = op->offset + op->length;
	}
}

static struct operation choose(uint64_t *state)
{
	struct operation op = {.slot = next_random(state) % SLOTS, .seed = next_random(state)};
	unsigned dice = next_random(state) % 100;

	if (dice < 70) {
		op.kind = 'w';
		op.length = 1 + next_random(state) % (dice < 50 ? 16384 : SLOT_MAX / 2);
		op.offset = next_random(state) % (SLOT_MAX - op.length);
		if (dice % 2 == 0)
			op.offset &= ~4095u;
	} else if (dice < 80) {
		op.kind = 'r';
		op.length = next_random(state) % SLOT_MAX;
	} else if (dice < 90) {
		op.kind = 't';
		op.length = next_random(state) % SLOT_MAX;
	} else {
		op.kind = 'u';
	}
	if (!files[op.slot].exists && (op.kind == 't' || op.kind == 'u'))
		op.kind = 'r';
	return op;
}

/* --- the writer */

static void __attribute__((noreturn)) stopped(const char *what)
{
	bool went_away = errno == ENOTCONN || errno == ECONNABORTED || errno == EIO;

	fprintf(stderr, "durable: %s: %s\n", what, strerror(errno));
	exit(went_away ? 0 : 1);
}

static void put(int folder, const char *name, const struct operation *op, int flags)
{
	int fd = openat(folder, name, flags | O_WRONLY | O_CREAT, 0644);

	if (fd < 0)
		stopped("open");
	fill(buffer, op->length, op->seed);
	for (unsigned done = 0; done < op->length;) {
		ssize_t took = pwrite(fd, buffer + done, op->length - done, op->offset + done);

		if (took <= 0)
			stopped("write");
		done += (unsigned)took;
	}
	/* close() alone promises the same as fsync(): every third time it has to do. */
	if (op->seed % 3 != 0 && fsync(fd) != 0)
		stopped("fsync");
	if (close(fd) != 0)
		stopped("close");
}

static void carry_out(int folder, const struct operation *op)
{
	char name[NAME_SIZE];
	int fd;

	slot_name(name, op->slot);
	if (op->kind == 'w') {
		put(folder, name, op, 0);
	} else if (op->kind == 'r') {
		put(folder, "replacement", op, O_TRUNC);
		if (renameat(folder, "replacement", folder, name) != 0)
			stopped("rename");
	} else if (op->kind == 'u') {
		if (unlinkat(folder, name, 0) != 0)
			stopped("unlink");
	} else {
		fd = openat(folder, name, O_WRONLY);
		if (fd < 0 || ftruncate(fd, op->length) != 0 || fsync(fd) != 0 || close(fd) != 0)
			stopped("truncate");
	}
	if (fsync(folder) != 0)
		stopped("fsync of the folder");
}

static void __attribute__((noreturn))
write_until_stopped(const char *folder_path, const char *log_path, const char *seed)
{
	int folder = open(folder_path, O_RDONLY | O_DIRECTORY);
	FILE *log = fopen(log_path, "a");
	uint64_t state = strtoull(seed, NULL, 10) * 2654435761u + 88172645463325252u;

	if (folder < 0 || log == NULL)
		stopped("open");
	for (unsigned count = 0;; count++) {
		struct operation op = choose(&state);

		fprintf(log, "%c %u %u %u %u\n", op.kind, op.slot, op.offset, op.length, op.seed);
		fflush(log);
		carry_out(folder, &op);
		files[op.slot].exists = op.kind != 'u';
		fputs("done\n", log);
		fflush(log);
	}
}

/* --- the judge */

/* Reads what is there; false when it cannot be. */
static bool take(int folder, const char *name, struct stat *st, bool *exists)
{
	int fd = openat(folder, name, O_RDONLY);
	ssize_t size;

	*exists = fd >= 0;
	if (fd < 0)
		return errno == ENOENT;
	size = read(fd, buffer, sizeof(buffer));
	if (fstat(fd, st) != 0 || size < 0 || size != st->st_size) {
		fprintf(stderr, "durable: %s: read gives %zd of %lld bytes: %s\n", name, size,
			(long long)st->st_size, strerror(errno));
		close(fd);
		return false;
	}
	close(fd);
	return true;
}

static bool is_like(const struct file *file, bool exists, off_t size)
{
	if (!file->exists || !exists)
		return file->exists == exists;
	return file->size == size && memcmp(file->data, buffer, file->size) == 0;
}

/* A write that was under way: any size between, and in its range each byte old or new. */
static bool is_between(const struct file *old, const struct file *new, off_t size)
{
	if (size < old->size || size > new->size)
		return false;
	for (unsigned i = 0; i < size; i++) {
		unsigned char before = i < old->size ? old->data[i] : 0;

		if (buffer[i] != before && buffer[i] != new->data[i])
			return false;
	}
	return true;
}

static void explain(const struct file *file, const char *name, bool exists, off_t size)
{
	fprintf(stderr, "durable: %s: ", name);
	if (!exists || !file->exists) {
		fprintf(stderr, "%s\n", exists ? "should be gone" : "is missing");
	} else if (size != file->size) {
		fprintf(stderr, "has %lld bytes instead of %u\n", (long long)size, file->size);
	} else {
		unsigned i = 0;

		while (i < file->size && file->data[i] == buffer[i])
			i++;
		fprintf(stderr, "of %u bytes: byte %u is %#x instead of %#x\n", file->size, i,
			buffer[i], file->data[i]);
	}
}

static bool judge(int folder, unsigned slot, const struct operation *begun)
{
	struct stat st = {0};
	char name[NAME_SIZE];
	bool exists, right;

	slot_name(name, slot);
	if (!take(folder, name, &st, &exists))
		return false;
	right = is_like(&files[slot], exists, st.st_size);
	if (!right && begun != NULL && begun->slot == slot) {
		changed = files[slot];
		apply(&changed, begun);
		right = is_like(&changed, exists, st.st_size) ||
			(exists && begun->kind == 'w' &&
			 is_between(&files[slot], &changed, st.st_size));
	}
	if (!right)
		explain(&files[slot], name, exists, st.st_size);
	return right;
}

static int verify(const char *folder_path, const char *log_path)
{
	int folder = open(folder_path, O_RDONLY | O_DIRECTORY), wrong = 0;
	FILE *log = fopen(log_path, "r");
	struct operation op = {0};
	bool begun = false;
	unsigned count = 0;
	char line[128];

	if (folder < 0 || log == NULL) {
		perror("durable: open");
		return 1;
	}
	while (fgets(line, sizeof(line), log) != NULL) {
		if (strcmp(line, "done\n") == 0) {
			apply(&files[op.slot], &op);
			begun = false;
			count++;
		} else {
			begun = sscanf(line, "%c %u %u %u %u", &op.kind, &op.slot, &op.offset,
				       &op.length, &op.seed) == 5;
		}
	}
	fclose(log);
	for (unsigned slot = 0; slot < SLOTS; slot++)
		wrong += !judge(folder, slot, begun ? &op : NULL);
	printf("%u operations done, %d files wrong\n", count, wrong);
	close(folder);
	return wrong == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "write") == 0)
		write_until_stopped(argv[2], argv[3], argv[4]);
	if (argc == 4 && strcmp(argv[1], "verify") == 0)
		return verify(argv[2], argv[3]);
	fputs("usage: durable write FOLDER LOG SEED | durable verify FOLDER LOG\n", stderr);
	return 2;
}
