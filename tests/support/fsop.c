/* SPDX-License-Identifier: Apache-2.0 */
/* System calls for the integration tests that no ordinary shell tool makes.
 *
 *	fsop COMMAND ARGUMENT...
 *
 * Exit status: 0 done, 1 the call failed (stderr has its errno in words) or a check did not hold,
 * 2 wrong usage. Numbers are decimal bytes. */
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

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...)
{
	int saved = errno;
	va_list args;

	fputs("fsop: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	if (saved != 0)
		fprintf(stderr, ": %s", strerror(saved));
	fputc('\n', stderr);
	exit(1);
}

static long long number(const char *text)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno != 0 || *end != '\0' || end == text)
		die("'%s' is no number", text);
	return value;
}

static int open_or_die(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		die("open %s", path);
	return fd;
}

static void expect(bool holds, const char *what)
{
	if (!holds) {
		errno = 0;
		die("does not hold: %s", what);
	}
}

static void write_all(int fd, const void *data, size_t size, off_t offset)
{
	ssize_t done = pwrite(fd, data, size, offset);

	if (done < 0)
		die("pwrite of %zu at %lld", size, (long long)offset);
	expect((size_t)done == size, "pwrite takes all");
}

static void read_all(int fd, void *data, size_t size, off_t offset)
{
	ssize_t done = pread(fd, data, size, offset);

	if (done < 0)
		die("pread of %zu at %lld", size, (long long)offset);
	expect((size_t)done == size, "pread gives all");
}

/* rename FLAG OLD NEW */
static void do_rename(char **args)
{
	unsigned flags = 0;

	if (strcmp(args[0], "noreplace") == 0)
		flags = RENAME_NOREPLACE;
	else if (strcmp(args[0], "exchange") == 0)
		flags = RENAME_EXCHANGE;
	else
		die("noreplace or exchange, not %s", args[0]);
	if (renameat2(AT_FDCWD, args[1], AT_FDCWD, args[2], flags) != 0)
		die("renameat2 %s %s", args[1], args[2]);
}

/* seek data|hole FILE OFFSET: prints where, or "none" */
static void do_seek(char **args)
{
	int whence = strcmp(args[0], "data") == 0 ? SEEK_DATA : SEEK_HOLE;
	int fd = open_or_die(args[1], O_RDONLY);
	off_t found = lseek(fd, number(args[2]), whence);

	if (found < 0 && errno == ENXIO)
		puts("none");
	else if (found < 0)
		die("lseek %s", args[1]);
	else
		printf("%lld\n", (long long)found);
	close(fd);
}

/* copy FROM OFFSET TO OFFSET LENGTH: copy_file_range until all is copied or FROM ends; prints how
 * much it was */
static void do_copy(char **args)
{
	int from = open_or_die(args[0], O_RDONLY);
	int to = open_or_die(args[2], O_RDWR | O_CREAT);
	loff_t from_offset = number(args[1]), to_offset = number(args[3]);
	size_t left = (size_t)number(args[4]), total = 0;

	while (left > 0) {
		ssize_t done = copy_file_range(from, &from_offset, to, &to_offset, left, 0);

		if (done < 0)
			die("copy_file_range %s %s", args[0], args[2]);
		if (done == 0)
			break;
		total += (size_t)done;
		left -= (size_t)done;
	}
	printf("%zu\n", total);
	close(from);
	close(to);
}

/* append FILE LETTER COUNT LENGTH: COUNT records, each of LENGTH letters and a newline */
static void do_append(char **args)
{
	int fd = open_or_die(args[0], O_WRONLY | O_CREAT | O_APPEND);
	long long count = number(args[2]);
	size_t length = (size_t)number(args[3]);
	char *record = malloc(length + 1);

	if (record == NULL)
		die("malloc");
	memset(record, args[1][0], length);
	record[length] = '\n';
	for (long long i = 0; i < count; i++) {
		ssize_t done = write(fd, record, length + 1);

		if (done < 0)
			die("write %s", args[0]);
		expect((size_t)done == length + 1, "an append takes all");
	}
	free(record);
	if (close(fd) != 0)
		die("close %s", args[0]);
}

static char *map_or_die(int fd, size_t size, int flags)
{
	void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (map == MAP_FAILED)
		die("mmap");
	return map;
}

/* map-shared FILE SIZE: what a mapping writes, read() and another mapping see, and the other way */
static void do_map_shared(char **args)
{
	size_t size = (size_t)number(args[1]);
	int fd = open_or_die(args[0], O_RDWR | O_CREAT | O_TRUNC);
	char *one, *other, byte;

	if (ftruncate(fd, (off_t)size) != 0)
		die("ftruncate %s", args[0]);
	one = map_or_die(fd, size, MAP_SHARED);
	other = map_or_die(fd, size, MAP_SHARED);
	for (size_t i = 0; i < size; i++)
		one[i] = (char)('a' + i % 23);
	for (size_t i = 0; i < size; i += 997) {
		read_all(fd, &byte, 1, (off_t)i);
		expect(byte == (char)('a' + i % 23), "read() sees what was written to the mapping");
		expect(other[i] == byte, "mappings of one file agree");
	}
	write_all(fd, "WRITTEN", 7, (off_t)size / 2);
	expect(memcmp(one + size / 2, "WRITTEN", 7) == 0, "the mapping sees what write() wrote");
	memcpy(one + size / 2, "a mappe", 7);
	if (msync(one, size, MS_SYNC) != 0)
		die("msync");
	expect(munmap(one, size) == 0 && munmap(other, size) == 0, "munmap");
	if (close(fd) != 0)
		die("close %s", args[0]);
}

/* map-private FILE: what a private mapping writes, nobody else sees */
static void do_map_private(char **args)
{
	int fd = open_or_die(args[0], O_RDONLY);
	struct stat st;
	char *map, before, after;

	if (fstat(fd, &st) != 0)
		die("fstat %s", args[0]);
	read_all(fd, &before, 1, 0);
	map = map_or_die(fd, (size_t)st.st_size, MAP_PRIVATE);
	expect(map[0] == before, "the mapping shows the file");
	map[0] = (char)(before + 1);
	read_all(fd, &after, 1, 0);
	expect(after == before, "the file is as it was");
	expect(munmap(map, (size_t)st.st_size) == 0, "munmap");
	close(fd);
}

/* unlinked FILE: a file without a name works like any other */
static void do_unlinked(char **args)
{
	int fd = open_or_die(args[0], O_RDWR | O_CREAT | O_EXCL);
	char text[8];
	struct stat st;

	write_all(fd, "before..", 8, 0);
	if (unlink(args[0]) != 0)
		die("unlink %s", args[0]);
	expect(access(args[0], F_OK) != 0 && errno == ENOENT, "the name is gone");
	expect(fstat(fd, &st) == 0 && st.st_nlink == 0 && st.st_size == 8, "fstat of the file");
	read_all(fd, text, 8, 0);
	expect(memcmp(text, "before..", 8) == 0, "the bytes are there");
	write_all(fd, "later...", 8, 1 << 20);
	read_all(fd, text, 8, 1 << 20);
	expect(memcmp(text, "later...", 8) == 0, "it can be written");
	expect(ftruncate(fd, 4) == 0, "it can be truncated");
	expect(fchmod(fd, 0600) == 0, "its mode can be changed");
	expect(fsync(fd) == 0, "it can be synced");
	expect(fstat(fd, &st) == 0 && st.st_size == 4, "its size is right");
	if (close(fd) != 0)
		die("close %s", args[0]);
}

/* hold FILE SIZE: writes the file, removes its name, prints "held", and keeps it open until its
 * input ends */
static void do_hold(char **args)
{
	int fd = open_or_die(args[0], O_RDWR | O_CREAT | O_EXCL);
	static const char page[65536] = "held";
	char byte;

	for (long long at = 0; at < number(args[1]); at += (long long)sizeof(page))
		write_all(fd, page, sizeof(page), at);
	expect(fsync(fd) == 0, "it can be synced");
	if (unlink(args[0]) != 0)
		die("unlink %s", args[0]);
	puts("held");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		continue;
	close(fd);
}

static void expect_told_once(int fd, const char *who)
{
	expect(fsync(fd) != 0 && errno == EIO, who);
	expect(fsync(fd) == 0, "and not again");
}

/* lose FILE: writes, prints "dirty", and waits for its input to end. Meanwhile what was written
 * gets lost: every open file is told, once. */
static void do_lose(char **args)
{
	int fds[4], later;
	char byte;

	for (unsigned i = 0; i < 4; i++)
		fds[i] = open_or_die(args[0], (i == 2 ? O_RDONLY : O_RDWR) | O_CREAT);
	write_all(fds[0], "some bytes", 10, 0);
	write_all(fds[1], "more", 4, 1 << 20);
	puts("dirty");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		continue;
	expect_told_once(fds[0], "who wrote is told");
	expect_told_once(fds[1], "and another one");
	expect_told_once(fds[2], "and who cannot write");
	expect(close(fds[3]) != 0 && errno == EIO, "and close() tells as well");
	later = open_or_die(args[0], O_RDWR);
	expect(fsync(later) == 0, "who comes later is not told");
	expect(close(later) == 0, "nor at its end");
	for (unsigned i = 0; i < 3; i++)
		expect(close(fds[i]) == 0, "nobody is told again");
}

/* grow-and-read FILE: a direct read finds the hole before an end that only the page cache knows */
static void do_grow_and_read(char **args)
{
	int fd = open_or_die(args[0], O_RDWR | O_CREAT | O_TRUNC);
	int direct = open_or_die(args[0], O_RDONLY | O_DIRECT);
	char *buffer = aligned_alloc(4096, 65536);

	if (buffer == NULL)
		die("aligned_alloc");
	write_all(fd, "end", 3, 3 << 20);
	memset(buffer, 'x', 65536);
	read_all(direct, buffer, 65536, 1 << 20);
	for (size_t i = 0; i < 65536; i++)
		expect(buffer[i] == 0, "a hole is zeros");
	expect(pread(direct, buffer, 65536, 3 << 20) == 3, "the end is where it was put");
	expect(memcmp(buffer, "end", 3) == 0, "the last bytes are there");
	free(buffer);
	close(direct);
	close(fd);
}

/* write FILE OFFSET TEXT: one pwrite into a file that is there */
static void do_write(char **args)
{
	int fd = open_or_die(args[0], O_WRONLY);

	write_all(fd, args[2], strlen(args[2]), number(args[1]));
	if (close(fd) != 0)
		die("close %s", args[0]);
}

/* fill FOLDER COUNT: files 0, 1, 2..., each holding its own name */
static void do_fill(char **args)
{
	int folder = open_or_die(args[0], O_RDONLY | O_DIRECTORY), fd;
	char name[32];

	for (long long i = 0; i < number(args[1]); i++) {
		snprintf(name, sizeof(name), "%lld", i);
		fd = openat(folder, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		if (fd < 0)
			die("create %s", name);
		write_all(fd, name, strlen(name), 0);
		if (close(fd) != 0)
			die("close %s", name);
	}
	close(folder);
}

/* fsync FILE: of files and directories */
static void do_fsync(char **args)
{
	int fd = open_or_die(args[0], O_RDONLY);

	if (fsync(fd) != 0)
		die("fsync %s", args[0]);
	close(fd);
}

static const struct command {
	const char *name;
	int arg_count;
	void (*run)(char **args);
} commands[] = {
	{"rename", 3, do_rename},
	{"seek", 3, do_seek},
	{"copy", 5, do_copy},
	{"append", 4, do_append},
	{"map-shared", 2, do_map_shared},
	{"map-private", 1, do_map_private},
	{"unlinked", 1, do_unlinked},
	{"hold", 2, do_hold},
	{"lose", 1, do_lose},
	{"write", 3, do_write},
	{"fsync", 1, do_fsync},
	{"grow-and-read", 1, do_grow_and_read},
	{"fill", 2, do_fill},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (argc < 2 || strcmp(argv[1], commands[i].name) != 0)
			continue;
		if (argc - 2 != commands[i].arg_count)
			break;
		commands[i].run(argv + 2);
		return 0;
	}
	fputs("usage: fsop COMMAND ARGUMENT... (see the source)\n", stderr);
	return 2;
}
