/* SPDX-License-Identifier: Apache-2.0 */
/* A listening Unix socket that belongs to one server at a time.
 *
 * A dead server leaves its socket file behind, and finding it dead and replacing it are two steps:
 * of two servers that start at once, the second could remove what the first has just bound. So the
 * file PATH.lock is locked first, for the server's life; the kernel unlocks it whatever way the
 * server ends. Who has the lock may judge and replace the socket. The lock file is removed at the
 * end while it is still locked; whoever opened it before that finds, once it has the lock, that its
 * file is no longer the one in the folder, and starts over. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/server_internal.h"

#define LOCK_TRIES 100
#define BACKLOG	   128

static void address_set(struct sockaddr_un *address, const char *path)
{
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	/* server_socket_claim() has checked the length. */
	memcpy(address->sun_path, path, strlen(path));
}

/* What is behind a socket file: 0 and the pid of the process that listens (0 when it doesn't say),
 * or -ECONNREFUSED (nobody), or another -errno. Never waits. */
static int probe(const char *path, pid_t *pid)
{
	struct sockaddr_un address;
	struct ucred peer;
	socklen_t size = sizeof(peer);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc = 0;

	*pid = 0;
	if (fd < 0)
		return -errno;
	address_set(&address, path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		rc = -errno;
	else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
		*pid = peer.pid;
	close(fd);
	/* A full backlog and a socket of another type are somebody's, too. */
	return rc == -EAGAIN || rc == -EPROTOTYPE ? 0 : rc;
}

static int in_use(const char *path, struct rmem_error *error)
{
	pid_t pid;

	if (probe(path, &pid) != 0)
		return rmem_fail(error, EADDRINUSE,
				 "%s: another rmemd is just starting or ending there", path);
	if (pid == 0)
		return rmem_fail(error, EADDRINUSE, "%s: another server listens there", path);
	return rmem_fail(error, EADDRINUSE,
			 "%s: another server (process %ld) listens there: stop it, or choose "
			 "another path",
			 path, (long)pid);
}

static int open_error(const char *path, int code, struct rmem_error *error)
{
	if (code == ENOENT)
		return rmem_fail(error, code, "%s: the folder for the socket does not exist", path);
	if (code == EACCES || code == EPERM || code == EROFS)
		return rmem_fail(error, code,
				 "%s: no permission to make a socket in that folder (%s)", path,
				 strerror(code));
	return rmem_fail(error, code, "%s: %s", path, strerror(code));
}

static int is_current(int fd, const char *path)
{
	struct stat opened, named;

	return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 &&
	       opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

static int take_lock(struct server_socket *listening, struct rmem_error *error)
{
	for (unsigned i = 0; i < LOCK_TRIES; i++) {
		int fd =
			open(listening->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd < 0)
			return open_error(listening->lock_path, errno, error);
		if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
			int code = errno;

			close(fd);
			if (code == EWOULDBLOCK)
				return in_use(listening->path, error);
			return open_error(listening->lock_path, code, error);
		}
		if (is_current(fd, listening->lock_path)) {
			listening->lock_fd = fd;
			return 0;
		}
		close(fd);
	}
	return in_use(listening->path, error);
}

/* With the lock: makes room at the path, if what is there is a dead server's. */
static int clear_path(const char *path, struct rmem_error *error)
{
	struct stat found;
	pid_t pid;
	int rc;

	if (lstat(path, &found) != 0)
		return errno == ENOENT ? 0 : open_error(path, errno, error);
	if (!S_ISSOCK(found.st_mode))
		return rmem_fail(error, EEXIST,
				 "%s: exists and is no socket: remove it, or choose another path",
				 path);
	rc = probe(path, &pid);
	if (rc == 0)
		return in_use(path, error);
	if (rc != -ECONNREFUSED)
		return open_error(path, -rc, error);
	rmem_log_info(RMEM_LOG_SERVER, "%s: replacing the socket of a server that is gone", path);
	if (unlink(path) != 0 && errno != ENOENT)
		return open_error(path, errno, error);
	return 0;
}

int server_socket_listen(struct server_socket *listening, unsigned mode, struct rmem_error *error)
{
	const char *path = listening->path;
	struct sockaddr_un address;
	struct stat made;

	listening->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listening->fd < 0)
		return rmem_fail(error, errno, "no socket: %s", strerror(errno));
	address_set(&address, path);
	/* Before bind() it sets the rights that the file is born with, less the umask; chmod()
	 * then gives what the umask took. Nobody gets in between. */
	if (fchmod(listening->fd, mode) != 0 ||
	    bind(listening->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		return open_error(path, errno, error);
	if (lstat(path, &made) != 0)
		return open_error(path, errno, error);
	listening->device = made.st_dev;
	listening->inode = made.st_ino;
	if (chmod(path, mode) != 0 || listen(listening->fd, BACKLOG) != 0)
		return open_error(path, errno, error);
	return 0;
}

int server_socket_claim(const char *path, struct server_socket *listening, struct rmem_error *error)
{
	int rc;

	*listening = (struct server_socket){.fd = -1, .lock_fd = -1};
	if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return rmem_fail(error, ENAMETOOLONG, "%s: too long for a socket's path", path);
	listening->path = strdup(path);
	if (listening->path == NULL || asprintf(&listening->lock_path, "%s.lock", path) < 0) {
		listening->lock_path = NULL;
		rc = rmem_fail(error, ENOMEM, "out of memory");
	} else {
		rc = take_lock(listening, error);
	}
	if (rc == 0)
		rc = clear_path(path, error);
	if (rc != 0)
		server_socket_close(listening);
	return rc;
}

void server_socket_close(struct server_socket *listening)
{
	struct stat named;

	if (listening->path != NULL && listening->inode != 0 &&
	    lstat(listening->path, &named) == 0 && named.st_dev == listening->device &&
	    named.st_ino == listening->inode)
		unlink(listening->path);
	if (listening->fd >= 0)
		close(listening->fd);
	if (listening->lock_path != NULL && listening->lock_fd >= 0) {
		unlink(listening->lock_path);
		close(listening->lock_fd);
	}
	free(listening->path);
	free(listening->lock_path);
	*listening = (struct server_socket){.fd = -1, .lock_fd = -1};
}
