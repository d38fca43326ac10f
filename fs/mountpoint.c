/* SPDX-License-Identifier: Apache-2.0 */
/* What is on the mountpoint: looking at it, and taking it away, without waiting for it for ever. */
#include "fs/mountpoint.h"

#include <errno.h>
#include <limits.h>
#include <mntent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/log.h"

#define WAIT_STEP_MS 10u
#define ANSWER_MS    5000u /* for what is on the mountpoint, which may hang */

pid_t mountpoint_start(int (*work)(const char *mountpoint), const char *mountpoint)
{
	pid_t pid = fork();

	if (pid == 0) {
		close_range(STDERR_FILENO + 1, ~0U, 0);
		_exit(work(mountpoint));
	}
	return pid;
}

int mountpoint_wait(pid_t pid, unsigned limit_ms, int signal_fd)
{
	struct pollfd fd = {.fd = signal_fd, .events = POLLIN};
	int status = 0;

	for (unsigned waited_ms = 0; pid > 0 && waited_ms < limit_ms; waited_ms += WAIT_STEP_MS) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
		if (poll(&fd, 1, WAIT_STEP_MS) > 0)
			break;
	}
	return -1;
}

static bool is_ours(const char *mountpoint)
{
	struct mntent entry, *found;
	char text[4 * PATH_MAX];
	bool ours = false; /* the last one in the list is the one on top */
	FILE *mounts = setmntent("/proc/self/mounts", "re");

	if (mounts == NULL)
		return false;
	while ((found = getmntent_r(mounts, &entry, text, sizeof(text))) != NULL)
		if (strcmp(found->mnt_dir, mountpoint) == 0)
			ours = strcmp(found->mnt_type, "fuse.rmemfs") == 0;
	endmntent(mounts);
	return ours;
}

/* Fields of the table have octal for blanks and the like. */
static bool is_field(const char *field, const char *text)
{
	while (*text != '\0') {
		unsigned code = (unsigned char)*field++;

		if (code == '\\' && sscanf(field, "%3o", &code) == 1)
			field += 3;
		if (code != (unsigned char)*text++)
			return false;
	}
	return *field == '\0';
}

dev_t mountpoint_device(const char *mountpoint)
{
	FILE *table = fopen("/proc/self/mountinfo", "re");
	unsigned major_number, minor_number;
	char field[4 * PATH_MAX + 1], *line = NULL;
	dev_t device = 0; /* the last one in the list is the one on top */
	size_t room = 0;

	_Static_assert(4 * PATH_MAX == 16384, "as below");
	if (table == NULL)
		return 0;
	while (getline(&line, &room, table) > 0) {
		if (sscanf(line, "%*d %*d %u:%u %*s %16384s", &major_number, &minor_number,
			   field) == 3 &&
		    is_field(field, mountpoint))
			device = makedev(major_number, minor_number);
	}
	free(line);
	fclose(table);
	return device;
}

static int run_fusermount(const char *flags, const char *mountpoint)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		execlp("fusermount3", "fusermount3", flags, "-q", "--", mountpoint, (char *)NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBUSY;
}

int mountpoint_unmount(const char *mountpoint, bool detach)
{
	if (geteuid() != 0)
		return run_fusermount(detach ? "-uz" : "-u", mountpoint);
	return umount2(mountpoint, UMOUNT_NOFOLLOW | (detach ? MNT_DETACH : 0)) == 0 ? 0 : -errno;
}

/* realpath() of something whose last component may be a dead mount, which cannot be looked at. */
static int resolve(const char *path, char *absolute)
{
	char parent[PATH_MAX], *slash;
	size_t length = strlen(path);

	if (realpath(path, absolute) != NULL)
		return 0;
	if (errno != ENOTCONN && errno != EIO)
		return -errno;
	while (length > 1 && path[length - 1] == '/')
		length--;
	if (length >= sizeof(parent))
		return -ENAMETOOLONG;
	memcpy(parent, path, length);
	parent[length] = '\0';
	slash = strrchr(parent, '/');
	if (slash == NULL) {
		if (realpath(".", absolute) == NULL)
			return -errno;
		slash = parent - 1;
	} else {
		*slash = '\0';
		if (realpath(slash == parent ? "/" : parent, absolute) == NULL)
			return -errno;
	}
	if (strlen(absolute) + strlen(slash + 1) + 2 > PATH_MAX)
		return -ENAMETOOLONG;
	if (strcmp(absolute, "/") != 0)
		strcat(absolute, "/");
	strcat(absolute, slash + 1);
	return 0;
}

static int look_at(const char *mountpoint)
{
	struct statfs fs;

	return statfs(mountpoint, &fs) == 0 ? 0 : 1;
}

/* False: what is mounted there hangs, and so would we, without end. */
static bool answers(const char *mountpoint)
{
	pid_t pid = mountpoint_start(look_at, mountpoint);

	if (pid < 0 || mountpoint_wait(pid, ANSWER_MS, -1) >= 0)
		return true;
	kill(pid, SIGKILL);
	return false;
}

int mountpoint_check(const char *mountpoint, char *absolute, struct rmem_error *error)
{
	struct statfs fs;
	struct stat st;
	int result;

	if (!answers(mountpoint))
		return rmem_fail(
			error, EBUSY,
			"mountpoint %s: what is mounted there does not answer; take it away "
			"with `umount -f` and `umount`, or end its daemon",
			mountpoint);
	result = resolve(mountpoint, absolute);
	if (result == -ENOENT)
		return rmem_fail(error, ENOENT, "mountpoint %s: no such directory; create it first",
				 mountpoint);
	if (result != 0)
		return rmem_fail(error, -result, "mountpoint %s: %s", mountpoint,
				 strerror(-result));
	/* Not stat(): the kernel may answer that from its cache for a mount that is dead. */
	if (statfs(absolute, &fs) != 0 && (errno == ENOTCONN || errno == ECONNABORTED)) {
		if (!is_ours(absolute))
			return rmem_fail(error, EBUSY,
					 "mountpoint %s: a dead mount of another filesystem is on "
					 "it; unmount that first",
					 absolute);
		rmem_log_warn(RMEM_LOG_FS, "%s: taking away the mount that a dead rmemfs left",
			      absolute);
		result = mountpoint_unmount(absolute, true);
		if (result != 0)
			return rmem_fail(error, -result,
					 "mountpoint %s: cannot unmount what a "
					 "dead rmemfs left: %s",
					 absolute, strerror(-result));
	}
	if (stat(absolute, &st) != 0)
		return rmem_fail(error, errno, "mountpoint %s: %s", absolute, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return rmem_fail(error, ENOTDIR, "mountpoint %s: not a directory", absolute);
	if (is_ours(absolute))
		return rmem_fail(error, EBUSY, "mountpoint %s: an rmemfs is mounted there already",
				 absolute);
	return 0;
}
