/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/store_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX 2048

static int lock_path(const char *folder, char path[PATH_MAX])
{
	int length = snprintf(path, PATH_MAX, "%s/rmemfs.lock", folder);

	return length > 0 && length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* The text of a small file, "" when it can't be had. */
static void read_text(int fd, char text[TEXT_MAX])
{
	ssize_t length = pread(fd, text, TEXT_MAX - 1, 0);

	text[length > 0 ? length : 0] = '\0';
}

static void boot_id(char id[64])
{
	char text[TEXT_MAX] = "";
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		read_text(fd, text);
		close(fd);
	}
	text[strcspn(text, "\n")] = '\0';
	snprintf(id, 64, "%.63s", text[0] != '\0' ? text : "unknown");
}

/* The value of a "name: value" line; "" when there is none. */
static void field(const char *text, const char *name, char *value, size_t size)
{
	size_t length = strlen(name);

	value[0] = '\0';
	for (const char *line = text; line != NULL && *line != '\0';) {
		const char *end = strchr(line, '\n');

		if (strncmp(line, name, length) == 0 && strncmp(line + length, ": ", 2) == 0) {
			line += length + 2;
			snprintf(value, size, "%.*s", (int)strcspn(line, "\n"), line);
			return;
		}
		line = end != NULL ? end + 1 : NULL;
	}
}

static void read_end(struct store_lock *lock, const char *text)
{
	char state[16], boot[64], now[64];

	field(text, "state", state, sizeof(state));
	field(text, "boot", boot, sizeof(boot));
	boot_id(now);
	lock->clean = strcmp(state, "clean") == 0 || text[0] == '\0';
	lock->crashed = !lock->clean && strcmp(boot, now) != 0;
}

static void describe(const char *text, char *description, size_t size)
{
	char holder[512], pid[32], host[256];

	field(text, "holder", holder, sizeof(holder));
	field(text, "pid", pid, sizeof(pid));
	field(text, "host", host, sizeof(host));
	if (pid[0] == '\0')
		snprintf(description, size, "a process that has just started");
	else
		snprintf(description, size, "%s (process %s on %s)", holder, pid, host);
}

/* Replaces the text in one write, and makes it durable. */
static int write_text(int fd, const char *state, const char *holder)
{
	char text[TEXT_MAX], host[256] = "unknown", boot[64];
	int length;

	(void)gethostname(host, sizeof(host) - 1);
	boot_id(boot);
	length = snprintf(text, sizeof(text),
			  "state: %s\nboot: %s\npid: %ld\nhost: %s\nholder: %.512s\n", state, boot,
			  (long)getpid(), host, holder);
	if (pwrite(fd, text, (size_t)length, 0) != length)
		return errno != 0 ? -errno : -EIO;
	if (ftruncate(fd, length) != 0 || fsync(fd) != 0)
		return -errno;
	return 0;
}

static int set_lock(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : -errno;
}

int store_lock_take(struct store_lock *lock, const char *folder, const char *holder,
		    struct rmem_error *error)
{
	char path[PATH_MAX], text[TEXT_MAX], other[1024];
	int result;

	*lock = (struct store_lock){.fd = -1};
	if (lock_path(folder, path) != 0)
		return rmem_fail(error, ENAMETOOLONG, "store %s: the path is too long", folder);
	lock->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock->fd < 0)
		return rmem_fail(error, errno, "store lock %s: %s", path, strerror(errno));
	result = set_lock(lock->fd);
	read_text(lock->fd, text);
	if (result == -EAGAIN || result == -EACCES) {
		describe(text, other, sizeof(other));
		result = rmem_fail(
			error, EBUSY,
			"store %s is in use by %s; unmount it there first, or use another "
			"store",
			folder, other);
		goto close_file;
	}
	if (result == 0) {
		read_end(lock, text);
		errno = 0;
		result = write_text(lock->fd, "open", holder != NULL ? holder : "somebody");
	}
	if (result == 0)
		return 0;
	rmem_fail(error, -result, "store lock %s: %s", path, strerror(-result));
close_file:
	close(lock->fd);
	lock->fd = -1;
	return result;
}

void store_lock_peek(struct store_lock *lock, const char *folder)
{
	char path[PATH_MAX], text[TEXT_MAX];
	int fd;

	*lock = (struct store_lock){.fd = -1};
	if (lock_path(folder, path) != 0)
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	read_text(fd, text);
	read_end(lock, text);
	close(fd);
}

void store_lock_release(struct store_lock *lock, bool clean)
{
	if (lock->fd < 0)
		return;
	/* When this fails the next open is told of a crash that was none, but only after a reboot.
	 */
	if (clean)
		(void)!write_text(lock->fd, "clean", "nobody");
	close(lock->fd);
	lock->fd = -1;
}

void store_lock_holder(const char *folder, char *text, size_t size)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char path[PATH_MAX], content[TEXT_MAX];
	int fd;

	text[0] = '\0';
	if (lock_path(folder, path) != 0)
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	if (fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK) {
		read_text(fd, content);
		describe(content, text, size);
	}
	close(fd);
}
