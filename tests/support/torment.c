/* SPDX-License-Identifier: Apache-2.0 */
/* Random operations on one file, each compared with what a file is: an array of bytes and a size.
 *
 *	torment FILE SEED OPERATIONS
 *
 * Writes and reads go through the page cache, around it (O_DIRECT) and through a shared mapping,
 *and all have to agree; between them the file is truncated, punched, zeroed, reserved, copied
 *within itself, synced and reopened. Each read is compared with the model, and at the end the whole
 *file. FILE may exist: then the model begins with what it holds.
 *
 * Exit status: 0, or 1 with the first difference and the operations before it on stderr. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX   (3u << 20) /* bytes */
#define LENGTH_MAX 400000u
#define HISTORY	   30
#define PAGE	   4096u

static unsigned char model[FILE_MAX];
static size_t size;
static unsigned char *buffer; /* page-aligned, FILE_MAX bytes */
static const char *path;
static int fd = -1, direct_fd = -1;
static uint64_t state;
static char history[HISTORY][96];
static unsigned long count;

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...)
{
	int saved = errno;
	struct stat st = {0};
	va_list args;

	fstat(fd, &st);
	fprintf(stderr, "torment: %s (%lld bytes by fstat): ", path, (long long)st.st_size);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, " (errno: %s)\nthe operations before:\n", strerror(saved));
	for (unsigned long i = count > HISTORY ? count - HISTORY : 0; i < count; i++)
		fprintf(stderr, "  %lu %s\n", i, history[i % HISTORY]);
	exit(1);
}

static void __attribute__((format(printf, 1, 2))) note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(history[count++ % HISTORY], sizeof(history[0]), format, args);
	va_end(args);
}

static unsigned pick(size_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return below == 0 ? 0 : (unsigned)((state >> 20) % below);
}

/* Short and long ones, aligned and not. */
static void pick_range(size_t limit, size_t *offset, size_t *length)
{
	*offset = pick(limit);
	*length = 1 + pick(pick(3) == 0 ? LENGTH_MAX : 9000);
	if (pick(2) == 0) {
		*offset &= ~(size_t)(PAGE - 1);
		*length = (*length + PAGE - 1) & ~(size_t)(PAGE - 1);
	}
	if (*length > limit - *offset)
		*length = limit - *offset;
}

static void compare(const unsigned char *found, size_t offset, size_t length, const char *how)
{
	for (size_t i = 0; i < length; i++)
		if (found[i] != model[offset + i])
			die("%s of %zu at %zu: byte %zu is %#x instead of %#x, size %zu", how,
			    length, offset, offset + i, found[i], model[offset + i], size);
}

static void grow(size_t end)
{
	if (end <= size)
		return;
	memset(model + size, 0, end - size);
	size = end;
}

static void fresh_bytes(unsigned char *data, size_t length)
{
	unsigned char first = (unsigned char)(pick(255) + 1);

	for (size_t i = 0; i < length; i++)
		data[i] = (unsigned char)(first + i % 251);
}

static void reopen(void)
{
	if ((fd >= 0 && close(fd) != 0) || (direct_fd >= 0 && close(direct_fd) != 0))
		die("close");
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	direct_fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0 || direct_fd < 0)
		die("open");
}

/* --- the operations */

static void do_write(void)
{
	bool direct = pick(3) == 0;
	size_t offset, length, end;

	pick_range(FILE_MAX, &offset, &length);
	end = offset + length;
	note("%s write %zu at %zu", direct ? "direct" : "buffered", length, offset);
	grow(end);
	fresh_bytes(model + offset, length);
	memcpy(buffer, model + offset, length);
	if (pwrite(direct ? direct_fd : fd, buffer, length, (off_t)offset) != (ssize_t)length)
		die("pwrite");
}

static void do_sync(void)
{
	note("fsync");
	if (fsync(fd) != 0)
		die("fsync");
}

static void do_read(void)
{
	bool direct = pick(3) == 0;
	size_t offset, length, wanted;
	ssize_t got;

	pick_range(FILE_MAX, &offset, &length);
	note("%s read %zu at %zu", direct ? "direct" : "buffered", length, offset);
	wanted = offset >= size ? 0 : length < size - offset ? length : size - offset;
	memset(buffer, 0xA5, length);
	got = pread(direct ? direct_fd : fd, buffer, length, (off_t)offset);
	if (got != (ssize_t)wanted)
		die("pread of %zu at %zu gives %zd of %zu, size %zu", length, offset, got, wanted,
		    size);
	compare(buffer, offset, wanted, direct ? "direct read" : "buffered read");
}

static void do_map(void)
{
	size_t offset, length;
	unsigned char *map;
	bool writes = pick(2) == 0;

	if (size == 0)
		return;
	pick_range(size, &offset, &length);
	note("map, %s %zu at %zu", writes ? "write" : "read", length, offset);
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		die("mmap");
	compare(map + offset, offset, length, "mapped read");
	if (writes) {
		fresh_bytes(model + offset, length);
		memcpy(map + offset, model + offset, length);
		if (pick(4) == 0 && msync(map, size, MS_SYNC) != 0)
			die("msync");
	}
	if (munmap(map, size) != 0)
		die("munmap");
}

static void do_truncate(void)
{
	size_t new_size = pick(FILE_MAX);

	if (pick(4) == 0)
		new_size &= ~(size_t)(PAGE - 1);
	note("truncate from %zu to %zu", size, new_size);
	if (ftruncate(fd, (off_t)new_size) != 0)
		die("ftruncate");
	grow(new_size);
	size = new_size;
}

static void do_fallocate(void)
{
	static const int modes[] = {
		0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_ZERO_RANGE, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE};
	int mode = modes[pick(sizeof(modes) / sizeof(modes[0]))];
	size_t offset, length, end;

	pick_range(FILE_MAX, &offset, &length);
	note("fallocate mode %d, %zu at %zu", mode, length, offset);
	if (fallocate(fd, mode, (off_t)offset, (off_t)length) != 0)
		die("fallocate");
	if (!(mode & FALLOC_FL_KEEP_SIZE))
		grow(offset + length);
	if (!(mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) || offset >= size)
		return;
	end = offset + length < size ? offset + length : size;
	memset(model + offset, 0, end - offset);
}

/* Within the file, from and to ranges that do not overlap. */
static void do_copy(void)
{
	size_t from, to = pick(FILE_MAX), length;
	loff_t in, out;

	if (size == 0)
		return;
	pick_range(size, &from, &length);
	if (length > FILE_MAX - to)
		length = FILE_MAX - to;
	if (from < to + length && to < from + length)
		return;
	note("copy %zu from %zu to %zu", length, from, to);
	in = (loff_t)from;
	out = (loff_t)to;
	for (size_t done = 0; done < length;) {
		ssize_t some = copy_file_range(fd, &in, fd, &out, length - done, 0);

		if (some <= 0)
			die("copy_file_range gives %zd", some);
		done += (size_t)some;
	}
	grow(to + length);
	memcpy(model + to, model + from, length);
}

/* What is a hole reads as zeros, and holes and data take turns. */
static void do_seek(void)
{
	size_t offset = pick(size);
	off_t hole, data;

	if (size == 0)
		return;
	note("seek from %zu", offset);
	data = lseek(fd, (off_t)offset, SEEK_DATA);
	if (data < 0 && errno != ENXIO)
		die("SEEK_DATA");
	if (data >= 0 && (data < (off_t)offset || data >= (off_t)size))
		die("SEEK_DATA gives %lld, size %zu", (long long)data, size);
	for (size_t i = offset; i < (data < 0 ? size : (size_t)data); i++)
		if (model[i] != 0)
			die("SEEK_DATA from %zu passes over byte %zu", offset, i);
	hole = lseek(fd, (off_t)offset, SEEK_HOLE);
	if (hole < (off_t)offset || hole > (off_t)size)
		die("SEEK_HOLE gives %lld, size %zu", (long long)hole, size);
}

static void check_all(void)
{
	struct stat st;
	ssize_t got;

	if (fstat(fd, &st) != 0 || st.st_size != (off_t)size)
		die("the size is %lld instead of %zu", (long long)st.st_size, size);
	got = pread(fd, buffer, FILE_MAX, 0);
	if (got != (ssize_t)size)
		die("reading all gives %zd of %zu", got, size);
	compare(buffer, 0, size, "read of all");
}

static void step(void)
{
	unsigned dice = pick(100);

	if (dice < 34)
		do_write();
	else if (dice < 60)
		do_read();
	else if (dice < 70)
		do_map();
	else if (dice < 77)
		do_truncate();
	else if (dice < 87)
		do_fallocate();
	else if (dice < 91)
		do_copy();
	else if (dice < 95)
		do_seek();
	else if (dice < 97)
		check_all();
	else if (dice < 98)
		reopen();
	else
		do_sync();
}

int main(int argc, char **argv)
{
	struct stat st;

	if (argc != 4) {
		fputs("usage: torment FILE SEED OPERATIONS\n", stderr);
		return 2;
	}
	path = argv[1];
	state = strtoull(argv[2], NULL, 10) * 2654435761u + 88172645463325252u;
	buffer = aligned_alloc(PAGE, FILE_MAX);
	reopen();
	if (buffer == NULL || fstat(fd, &st) != 0 || st.st_size > (off_t)FILE_MAX)
		die("start");
	size = (size_t)st.st_size;
	if (pread(fd, model, size, 0) != (ssize_t)size)
		die("the first read");
	for (long left = atol(argv[3]); left > 0; left--)
		step();
	reopen();
	check_all();
	return 0;
}
