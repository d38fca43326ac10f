/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int ready_fd = -1;

/* The child keeps stderr until it is ready, so its messages need no forwarding; all that comes
 * through the pipe is one byte, or its end. */
static _Noreturn void wait_for_child(int fd, pid_t child)
{
	char byte;
	ssize_t length;
	int status;

	do
		length = read(fd, &byte, 1);
	while (length < 0 && errno == EINTR);
	if (length == 1)
		_exit(0);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	_exit(WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : 1);
}

int daemon_start(struct rmem_error *error)
{
	pid_t parent = getpid(), child;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return rmem_fail(error, errno, "pipe: %s", strerror(errno));
	child = fork();
	if (child < 0) {
		int code = errno;

		close(fds[0]);
		close(fds[1]);
		return rmem_fail(error, code, "fork: %s", strerror(code));
	}
	if (child > 0) {
		close(fds[1]);
		wait_for_child(fds[0], child);
	}
	close(fds[0]);
	ready_fd = fds[1];
	setsid();
	/* Whoever ends the command before it has returned wants no mount that comes later. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	return 0;
}

void daemon_ready(void)
{
	int null;

	if (ready_fd < 0)
		return;
	if (chdir("/") != 0)
		return; /* cannot fail; if it does, the parent reports that we are not ready */
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		if (null > STDERR_FILENO)
			close(null);
	}
	prctl(PR_SET_PDEATHSIG, 0);
	while (write(ready_fd, "", 1) < 0 && errno == EINTR)
		;
	close(ready_fd);
	ready_fd = -1;
}
