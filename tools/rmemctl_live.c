/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "fs/control.h"
#include "tools/rmemctl.h"

/* A thread of its own answers there: one that does not within this is in trouble. */
#define ANSWER_TIMEOUT_S 2
#define DOCUMENT_MAX	 (4u << 20) /* bytes */

static int find_socket(const struct conf *conf, struct sockaddr_un *address)
{
	const char *path = conf_text(conf, "fs.control");

	address->sun_family = AF_UNIX;
	if (strcmp(path, "auto") == 0)
		return control_default_path(conf_text(conf, "store.url"), address->sun_path,
					    sizeof(address->sun_path));
	if (strlen(path) >= sizeof(address->sun_path))
		return -ENAMETOOLONG;
	memcpy(address->sun_path, path, strlen(path) + 1);
	return 0;
}

static int read_document(int fd, char **document)
{
	char *text = NULL;
	size_t size = 0, room = 0;

	for (;;) {
		ssize_t length;

		if (room - size < 4096) {
			char *moved = realloc(text, room + 65536);

			if (moved == NULL || room > DOCUMENT_MAX) {
				free(moved != NULL ? moved : text);
				return moved == NULL ? -ENOMEM : -EPROTO;
			}
			text = moved;
			room += 65536;
		}
		length = read(fd, text + size, room - size - 1);
		if (length < 0 && errno == EINTR)
			continue;
		if (length < 0) {
			free(text);
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		}
		if (length == 0)
			break;
		size += (size_t)length;
	}
	text[size] = '\0';
	*document = text;
	return 0;
}

/* Says the request and that there is no more to come. */
static int say(int fd, const char *request)
{
	if (request != NULL &&
	    send(fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request))
		return -errno;
	return shutdown(fd, SHUT_WR) == 0 ? 0 : -errno;
}

static int ask(const struct sockaddr_un *address, const char *request, char **document)
{
	struct timeval timeout = {.tv_sec = ANSWER_TIMEOUT_S};
	int status, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) != 0 ||
	    connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0)
		status = errno == EAGAIN ? -ETIMEDOUT : -errno;
	else
		status = say(fd, request);
	if (status == 0)
		status = read_document(fd, document);
	close(fd);
	return status;
}

int ask_mount(const struct conf *conf, const char *request, char **document,
	      struct rmem_error *error)
{
	struct sockaddr_un address = {0};
	int status = find_socket(conf, &address);

	if (status == 0)
		status = ask(&address, request, document);
	if (status == 0)
		return 0;
	if (status == -ETIMEDOUT)
		return rmem_fail(error, ETIMEDOUT, "does not answer on its control socket %s",
				 address.sun_path);
	return rmem_fail(error, -status, "has no control socket at %s: %s", address.sun_path,
			 strerror(-status));
}

/* The document is ours, and no text in it has such quotes. */
bool mount_number(const char *document, const char *key, uint64_t *value)
{
	char pattern[64];
	const char *at;

	snprintf(pattern, sizeof(pattern), "\"%s\": ", key);
	at = strstr(document, pattern);
	if (at == NULL)
		return false;
	*value = strtoull(at + strlen(pattern), NULL, 10);
	return true;
}
