/* SPDX-License-Identifier: Apache-2.0 */
/* From a name to an address, and from an address to the device that leads there. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/fabric_verbs.h"

/* --- Addresses ---------------------------------------------------------------------------------
 */

int verbs_resolve(const struct rmem_verbs_address *address, struct sockaddr_storage *found,
		  struct rmem_error *error)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct addrinfo *list;
	int code = getaddrinfo(address->host, address->port, &hints, &list);

	if (code != 0)
		return rmem_fail(error, EHOSTUNREACH, "%s: no such host: %s", address->host,
				 code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
	memset(found, 0, sizeof(*found));
	memcpy(found, list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
	return 0;
}

void verbs_address_text(const struct sockaddr *address, char *text, size_t size)
{
	socklen_t length = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
							  : sizeof(struct sockaddr_in);

	if (getnameinfo(address, length, text, (socklen_t)size, NULL, 0, NI_NUMERICHOST) != 0)
		snprintf(text, size, "an unknown address");
}

static socklen_t address_bytes(const struct sockaddr *address)
{
	return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
}

/* Which local address the route to the peer starts from: what a datagram socket would send from. */
static int source_by_route(const struct sockaddr *peer, const char *where,
			   struct sockaddr_storage *source, struct rmem_error *error)
{
	int fd = socket(peer->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t length = sizeof(*source);
	int code = 0;

	memset(source, 0, sizeof(*source));
	if (fd < 0)
		return rmem_fail(error, errno, "%s: no socket: %s", where, strerror(errno));
	if (connect(fd, peer, address_bytes(peer)) != 0 ||
	    getsockname(fd, (struct sockaddr *)source, &length) != 0)
		code = errno;
	close(fd);
	if (code != 0)
		return rmem_fail(error, code, "%s: no route leads there: %s", where,
				 strerror(code));
	/* The port is the socket's own. */
	if (source->ss_family == AF_INET6)
		((struct sockaddr_in6 *)source)->sin6_port = 0;
	else
		((struct sockaddr_in *)source)->sin_port = 0;
	return 0;
}

static bool leads_to_device(struct rdma_event_channel *channel, struct sockaddr *address,
			    const char *name)
{
	struct rdma_cm_id *id;
	bool is_it;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0)
		return false;
	is_it = rdma_bind_addr(id, address) == 0 && id->verbs != NULL &&
		strcmp(id->verbs->device->name, name) == 0;
	rdma_destroy_id(id);
	return is_it;
}

/* An address of the peer's family that the device called `name` has. */
static int source_by_device(const char *name, const struct sockaddr *peer, const char *where,
			    struct sockaddr_storage *source, struct rmem_error *error)
{
	struct rdma_event_channel *channel;
	struct ifaddrs *list;
	bool is_found = false;
	int rc;

	rc = verbs_channel_open(&channel, error);
	if (rc != 0)
		return rc;
	if (getifaddrs(&list) != 0) {
		rdma_destroy_event_channel(channel);
		return rmem_fail(error, ENOMEM, "out of memory");
	}
	for (const struct ifaddrs *at = list; at != NULL && !is_found; at = at->ifa_next) {
		if (at->ifa_addr == NULL || at->ifa_addr->sa_family != peer->sa_family ||
		    (at->ifa_flags & IFF_LOOPBACK) != 0)
			continue;
		is_found = leads_to_device(channel, at->ifa_addr, name);
		if (is_found)
			memcpy(source, at->ifa_addr, address_bytes(at->ifa_addr));
	}
	freeifaddrs(list);
	rdma_destroy_event_channel(channel);
	if (is_found)
		return 0;
	return rmem_fail(error, ENODEV,
			 "%s: verbs.source is %s, which is neither a local address nor an RDMA "
			 "device with an address of this kind ('rdma link' shows the devices)",
			 where, name);
}

int verbs_source(const struct sockaddr *peer, const char *where, struct sockaddr_storage *source,
		 struct rmem_error *error)
{
	const char *wanted = rmem_verbs_options()->source;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)source;
	struct sockaddr_in *four = (struct sockaddr_in *)source;

	memset(source, 0, sizeof(*source));
	if (wanted == NULL)
		return source_by_route(peer, where, source, error);
	source->ss_family = peer->sa_family;
	if (peer->sa_family == AF_INET && inet_pton(AF_INET, wanted, &four->sin_addr) == 1)
		return 0;
	if (peer->sa_family == AF_INET6 && inet_pton(AF_INET6, wanted, &six->sin6_addr) == 1)
		return 0;
	return source_by_device(wanted, peer, where, source, error);
}

/* --- Errors ------------------------------------------------------------------------------------
 */

#define CONNECTION_MANAGER "/dev/infiniband/rdma_cm"

static bool is_closed(const char *path)
{
	return access(path, R_OK | W_OK) != 0 && (errno == EACCES || errno == EPERM);
}

int verbs_closed_device(const char *where, struct rmem_error *error)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int rc = 0;

	for (unsigned i = 0; rc == 0 && list != NULL && list[i] != NULL; i++) {
		char path[128];

		snprintf(path, sizeof(path), "/dev/infiniband/%s", list[i]->dev_name);
		if (is_closed(path))
			rc = rmem_fail(error, EACCES,
				       "%s: %s: Permission denied: this user may not use the RDMA "
				       "device %s: give it the right to read and write that file",
				       where, path, list[i]->name);
	}
	if (list != NULL)
		ibv_free_device_list(list);
	return rc;
}

int verbs_no_device(const char *where, int code, struct rmem_error *error)
{
	const char *source = rmem_verbs_options()->source;
	int rc = verbs_closed_device(where, error);

	if (rc != 0)
		return rc;
	if (source != NULL && (code == ENODEV || code == EADDRNOTAVAIL))
		return rmem_fail(error, ENODEV,
				 "%s: verbs.source is %s, an address that no RDMA device here has "
				 "('rdma link' shows the devices, 'ip address' their addresses)",
				 where, source);
	if (code == ENODEV || code == EADDRNOTAVAIL)
		return rmem_fail(error, ENODEV,
				 "%s: no RDMA device has the local address that leads there "
				 "('rdma link' shows the devices); " HOW_TO_MAKE_A_DEVICE,
				 where);
	return rmem_fail(error, code, "%s: no RDMA device leads there: %s", where, strerror(code));
}

int verbs_channel_open(struct rdma_event_channel **channel, struct rmem_error *error)
{
	struct rdma_event_channel *made = rdma_create_event_channel();
	int code = errno;

	if (made == NULL) {
		/* The library may say no more than that it found no device to use. */
		if (code == EACCES || code == EPERM || is_closed(CONNECTION_MANAGER))
			return rmem_fail(error, EACCES,
					 CONNECTION_MANAGER
					 ": Permission denied: this user may not use "
					 "RDMA: give it the right to read and write that file");
		if (verbs_closed_device("RDMA", error) != 0)
			return -EACCES;
		if (code == ENODEV || code == ENOENT || code == ENOSYS)
			return rmem_fail(error, ENODEV,
					 "no RDMA device here (or rdma_ucm is not "
					 "loaded); " HOW_TO_MAKE_A_DEVICE);
		return rmem_fail(error, code, "the RDMA connection manager: %s", strerror(code));
	}
	if (fcntl(made->fd, F_SETFL, fcntl(made->fd, F_GETFL) | O_NONBLOCK) != 0 ||
	    fcntl(made->fd, F_SETFD, FD_CLOEXEC) != 0) {
		code = errno;
		rdma_destroy_event_channel(made);
		return rmem_fail(error, code, "the RDMA connection manager: %s", strerror(code));
	}
	*channel = made;
	return 0;
}
