/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/session.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fuse.h>
#include <mntent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "fs/ops.h"

/* Two of our largest requests: one is under way while the other is copied out. */
#define READAHEAD_KIB 2048u

#define WRITE_BACK_MS 30000u /* for the kernel to write back when we are told to end */
#define WAIT_STEP_MS  10u

#ifndef FUSE_DIRECT_IO_ALLOW_MMAP
#define FUSE_DIRECT_IO_ALLOW_MMAP (1ULL << 36)
#endif

/* --- What is agreed with the kernel ----------------------------------------------------------- */

/* libfuse before 3.17 cannot ask for these two, so its answer to INIT is completed on the way out:
 * - FUSE_HANDLE_KILLPRIV_V2: without it the kernel asks for security.capability at every single
 *   write() (it marks inodes that have none only with it);
 * - FUSE_DIRECT_IO_ALLOW_MMAP: shared mappings of descriptors that bypass the page cache. */
static void complete_init(struct mount *mount, struct fuse_init_out *out)
{
	const struct channel_request *request = channel_current();
	const struct fuse_in_header *header = request->message;
	const struct fuse_init_in *in = (const void *)(header + 1);
	uint64_t offered = in->flags;

	if (header->opcode != FUSE_INIT)
		return;
	if (header->len >= sizeof(*header) + sizeof(*in) && (in->flags & FUSE_INIT_EXT))
		offered |= (uint64_t)in->flags2 << 32;
	mount->killpriv_v2 = (offered & FUSE_HANDLE_KILLPRIV_V2) != 0;
	if (mount->killpriv_v2)
		out->flags |= FUSE_HANDLE_KILLPRIV_V2;
	if (offered & FUSE_DIRECT_IO_ALLOW_MMAP) {
		out->flags |= FUSE_INIT_EXT;
		out->flags2 |= (uint32_t)(FUSE_DIRECT_IO_ALLOW_MMAP >> 32);
	}
}

static ssize_t send_reply(int fd, struct iovec *iov, int count, void *userdata)
{
	struct mount *mount = userdata;

	if (RMEM_UNLIKELY(!mount->agreed) && count == 2 &&
	    iov[1].iov_len >= sizeof(struct fuse_init_out) && channel_current() != NULL) {
		complete_init(mount, iov[1].iov_base);
		mount->agreed = true;
	}
	return syscall(SYS_writev, fd, iov, count); /* as in channel.c: no cancellation point */
}

static ssize_t receive(int fd, void *buf, size_t size, void *userdata)
{
	(void)userdata;
	return read(fd, buf, size);
}

/* --- Mounting --------------------------------------------------------------------------------- */

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

static int unmount(const char *mountpoint, bool detach)
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

int session_check_mountpoint(const char *mountpoint, char *absolute, struct rmem_error *error)
{
	struct statfs fs;
	struct stat st;
	int result = resolve(mountpoint, absolute);

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
		result = unmount(absolute, true);
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

/* Options of fstab and mount(8) that mean nothing to the kernel or to FUSE. */
static bool is_for_others(const char *option, size_t length)
{
	static const char *const names[] = {"auto",  "noauto", "_netdev", "nofail", "user",
					    "users", "nouser", "owner",	  "group",  "defaults",
		"relatime", "norelatime", "strictatime", "nostrictatime", "diratime", "nodiratime",
		"lazytime", "nolazytime"};

	if (strncmp(option, "x-", 2) == 0 || strncmp(option, "comment=", 8) == 0)
		return true;
	for (size_t i = 0; i < RMEM_COUNT_OF(names); i++)
		if (strlen(names[i]) == length && strncmp(option, names[i], length) == 0)
			return true;
	return false;
}

static int add_options(struct fuse_args *args, const char *options)
{
	while (*options != '\0') {
		size_t length = strcspn(options, ",");
		char option[1024];

		if (length >= sizeof(option))
			return -EINVAL;
		if (length > 0 && !is_for_others(options, length)) {
			snprintf(option, sizeof(option), "-o%.*s", (int)length, options);
			if (fuse_opt_add_arg(args, option) != 0)
				return -ENOMEM;
		}
		options += length + (options[length] == ',');
	}
	return 0;
}

static int build_arguments(const struct session_options *options, struct fuse_args *args)
{
	char name[PATH_MAX + 32];
	int result;

	/* A comma in the source would end the option. */
	snprintf(name, sizeof(name), "-ofsname=%s",
		 strchr(options->source, ',') == NULL ? options->source : "rmemfs");
	result = fuse_opt_add_arg(args, "rmemfs") != 0 || fuse_opt_add_arg(args, name) != 0 ||
				 fuse_opt_add_arg(args, "-osubtype=rmemfs") != 0
			 ? -ENOMEM
			 : 0;
	if (result == 0 && options->default_permissions)
		result = add_options(args, "default_permissions");
	if (result == 0 && options->allow_other)
		result = add_options(args, "allow_other");
	for (size_t i = 0; result == 0 && i < options->option_count; i++)
		result = add_options(args, options->options[i]);
	return result;
}

static int explain_mount_failure(const struct session_options *options, struct rmem_error *error)
{
	if (access("/dev/fuse", F_OK) != 0)
		return rmem_fail(error, ENODEV,
				 "cannot mount: there is no /dev/fuse; load the "
				 "kernel's fuse module (modprobe fuse)");
	if (geteuid() != 0 && options->allow_other)
		return rmem_fail(error, EPERM,
				 "cannot mount on %s: allow_other needs root, or user_allow_other "
				 "in /etc/fuse.conf; or set fs.allow_other=false",
				 options->mountpoint);
	return rmem_fail(error, EPERM,
			 "cannot mount on %s: see the message above; may this user mount there, "
			 "and is fusermount3 installed?",
			 options->mountpoint);
}

int session_create(struct mount *mount, const struct session_options *options,
		   struct rmem_error *error)
{
	static const struct fuse_custom_io io = {.writev = send_reply, .read = receive};
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	int fd, result = build_arguments(options, &args);

	if (result == 0) {
		mount->session = fuse_session_new(&args, &ops_table, sizeof(ops_table), mount);
		if (mount->session == NULL)
			result = -EINVAL;
	}
	fuse_opt_free_args(&args);
	if (result != 0)
		return rmem_fail(error, -result,
				 "a mount option was not understood; see mount.fuse3(8)");
	if (fuse_session_mount(mount->session, options->mountpoint) != 0) {
		fuse_session_destroy(mount->session);
		mount->session = NULL;
		return explain_mount_failure(options, error);
	}
	fd = fuse_session_fd(mount->session);
	result = fuse_session_custom_io(mount->session, &io, fd);
	if (result == 0 && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
		result = -errno;
	if (result != 0) {
		session_destroy(mount);
		return rmem_fail(error, -result, "preparing the FUSE device: %s",
				 strerror(-result));
	}
	return 0;
}

void session_destroy(struct mount *mount)
{
	if (mount->session == NULL)
		return;
	fuse_session_unmount(mount->session);
	fuse_session_destroy(mount->session);
	mount->session = NULL;
}

void session_set_readahead(const char *mountpoint)
{
	char path[128];
	struct stat st;
	FILE *file;

	if (stat(mountpoint, &st) != 0)
		return;
	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", major(st.st_dev),
		 minor(st.st_dev));
	file = fopen(path, "we");
	if (file == NULL) {
		rmem_log_debug(RMEM_LOG_FS, "%s: %s: readahead stays as it is", path,
			       strerror(errno));
		return;
	}
	fprintf(file, "%u\n", READAHEAD_KIB);
	fclose(file);
}

/* In a child: unmounting and syncing wait for the kernel to write back, for which the reactors are
 * needed. A process that waits so in the kernel cannot be killed, and the daemon must be. The child
 * gives up the FUSE device, so that the connection ends with the daemon whatever it waits for. */
static pid_t start_child(int (*work)(const char *mountpoint), const char *mountpoint)
{
	pid_t pid = fork();

	if (pid == 0) {
		close_range(STDERR_FILENO + 1, ~0U, 0);
		_exit(work(mountpoint));
	}
	return pid;
}

/* Its exit status; -1 when it did not end in time, or a second signal came. */
static int wait_child(pid_t pid, unsigned limit_ms, int signal_fd)
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

static int unmount_work(const char *mountpoint)
{
	return -unmount(mountpoint, false);
}

static int sync_work(const char *mountpoint)
{
	int fd = open(mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 && syncfs(fd) == 0 ? 0 : 1;
}

void session_unmount(struct mount *mount, const char *mountpoint, int signal_fd)
{
	int result;

	if (fuse_session_exited(mount->session))
		return;
	result = wait_child(start_child(unmount_work, mountpoint), WRITE_BACK_MS, signal_fd);
	if (result == 0 || result == EINVAL || result == ENOENT) /* or somebody was quicker */
		return;
	rmem_log_warn(RMEM_LOG_FS, "%s is in use: written back and detached", mountpoint);
	if (result == EBUSY &&
	    wait_child(start_child(sync_work, mountpoint), WRITE_BACK_MS, signal_fd) != 0)
		rmem_log_error(RMEM_LOG_FS, "not everything could be written back");
	result = unmount(mountpoint, true);
	if (result != 0)
		rmem_log_error(RMEM_LOG_FS, "cannot unmount %s: %s", mountpoint, strerror(-result));
	fuse_session_exit(mount->session);
}
