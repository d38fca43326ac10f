/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/session.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "fs/mountpoint.h"
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

/* Options of fstab and mount(8) that mean nothing to the kernel or to FUSE. */
static bool is_for_others(const char *option, size_t length)
{
	static const char *const names[] = {
		"auto",	       "noauto",	"_netdev",  "nofail",	  "user",     "users",
		"nouser",      "owner",		"group",    "defaults",	  "relatime", "norelatime",
		"strictatime", "nostrictatime", "diratime", "nodiratime", "lazytime", "nolazytime"};

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
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	int result = build_arguments(options, &args);

	if (result == 0) {
		mount->session = fuse_session_new(&args, &ops_table, sizeof(ops_table), mount);
		if (mount->session == NULL)
			result = -EINVAL;
	}
	fuse_opt_free_args(&args);
	if (result != 0)
		return rmem_fail(error, -result,
				 "a mount option was not understood; see mount.fuse3(8)");
	return 0;
}

int session_mount(struct mount *mount, const struct session_options *options,
		  struct rmem_error *error)
{
	static const struct fuse_custom_io io = {.writev = send_reply, .read = receive};
	int fd, result;

	if (fuse_session_mount(mount->session, options->mountpoint) != 0)
		return explain_mount_failure(options, error);
	mount->mountpoint = options->mountpoint;
	mount->device = mountpoint_device(options->mountpoint);
	fd = fuse_session_fd(mount->session);
	result = fuse_session_custom_io(mount->session, &io, fd);
	if (result == 0 && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
		result = -errno;
	if (result != 0)
		return rmem_fail(error, -result, "preparing the FUSE device: %s",
				 strerror(-result));
	return 0;
}

/* Somebody may have detached ours, and mounted another where it was. */
static bool is_there(const struct mount *mount)
{
	return mountpoint_device(mount->mountpoint) == mount->device;
}

/* libfuse unmounts whatever is on the mountpoint, unless the connection has ended. For one that was
 * detached and is still in use only closing the device ends it; a pipe that nobody reads looks the
 * same to poll(). */
static void end_connection(struct mount *mount)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return;
	close(fds[0]);
	dup3(fds[1], fuse_session_fd(mount->session), O_CLOEXEC);
	close(fds[1]);
}

void session_destroy(struct mount *mount)
{
	if (mount->session == NULL)
		return;
	if (mount->mountpoint != NULL) { /* it was mounted */
		if (!is_there(mount))
			end_connection(mount);
		fuse_session_unmount(mount->session);
	}
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

static int unmount_work(const char *mountpoint)
{
	return -mountpoint_unmount(mountpoint, false);
}

static int sync_work(const char *mountpoint)
{
	int fd = open(mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 && syncfs(fd) == 0 ? 0 : 1;
}

/* Somebody has unmounted us: the kernel may still be writing back, or open files keep us. */
static void finish_detached(struct mount *mount, const char *mountpoint, int signal_fd)
{
	struct pollfd fd = {.fd = signal_fd, .events = POLLIN};

	for (unsigned waited_ms = 0; waited_ms < WRITE_BACK_MS; waited_ms += WAIT_STEP_MS) {
		if (fuse_session_exited(mount->session))
			return;
		if (poll(&fd, 1, WAIT_STEP_MS) > 0)
			break;
	}
	rmem_log_warn(RMEM_LOG_FS,
		      "what was on %s is in use: its users may lose what they did not sync",
		      mountpoint);
	fuse_session_exit(mount->session);
}

void session_unmount(struct mount *mount, const char *mountpoint, int signal_fd)
{
	int result;

	if (fuse_session_exited(mount->session))
		return;
	if (!is_there(mount)) {
		finish_detached(mount, mountpoint, signal_fd);
		return;
	}
	result = mountpoint_wait(mountpoint_start(unmount_work, mountpoint), WRITE_BACK_MS,
				 signal_fd);
	if (result == 0 || result == EINVAL || result == ENOENT) /* or somebody was quicker */
		return;
	rmem_log_warn(RMEM_LOG_FS, "%s is in use: written back and detached", mountpoint);
	if (result == EBUSY &&
	    mountpoint_wait(mountpoint_start(sync_work, mountpoint), WRITE_BACK_MS, signal_fd) != 0)
		rmem_log_error(RMEM_LOG_FS, "not everything could be written back");
	result = mountpoint_unmount(mountpoint, true);
	if (result != 0)
		rmem_log_error(RMEM_LOG_FS, "cannot unmount %s: %s", mountpoint, strerror(-result));
	fuse_session_exit(mount->session);
}
