/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "engine/base/deadline.h"
#include "engine/control.h"
#include "engine/fabric_shm.h"
#include "engine/fabric_shm_guard.h"

#define MAP_AHEAD_MS	     200
#define MAP_AHEAD_STEP_BYTES ((size_t)16 << 20)

/* --- The port: this process --------------------------------------------------------------------
 */

static struct rmem_port the_port = {.lock = PTHREAD_MUTEX_INITIALIZER};

int shm_port_open(const char *url, struct rmem_port **port, struct rmem_error *error)
{
	const char *path;
	int rc = rmem_control_path(url, &path, error);

	if (rc != 0)
		return rc;
	pthread_mutex_lock(&the_port.lock);
	if (the_port.users++ == 0)
		rmem_stream_policy_init(&the_port.stream_policy);
	pthread_mutex_unlock(&the_port.lock);
	*port = &the_port;
	return 0;
}

void shm_port_close(struct rmem_port *port)
{
	if (port == NULL)
		return;
	pthread_mutex_lock(&port->lock);
	assert(port->users > 0);
	port->users--;
	pthread_mutex_unlock(&port->lock);
}

void shm_port_limits(const struct rmem_port *port, struct rmem_port_limits *limits)
{
	(void)port;
	*limits = (struct rmem_port_limits){
		.depth_max = SHM_DEPTH_MAX,
		.sge_max = RMEM_SGE_MAX,
		.inline_max_bytes = SHM_INLINE_MAX_BYTES,
		.cq_depth_max = SHM_CQ_DEPTH_MAX,
		.message_max_bytes = SHM_MESSAGE_MAX_BYTES,
	};
}

static struct shm_mr_entry *take_entry(struct rmem_port *port)
{
	for (unsigned i = 0; i < SHM_MR_MAX; i++) {
		if (port->mrs[i].length == 0)
			return &port->mrs[i];
	}
	return NULL;
}

int shm_mr_register(struct rmem_port *port, void *address, size_t length, struct rmem_mr **mr,
		    struct rmem_error *error)
{
	struct rmem_mr *made;
	struct shm_mr_entry *entry;

	if (address == NULL || length == 0 || length > UINTPTR_MAX - (uintptr_t)address)
		return rmem_fail(error, EINVAL, "no memory to register");
	made = malloc(sizeof(*made));
	if (made == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	pthread_mutex_lock(&port->lock);
	entry = take_entry(port);
	if (entry == NULL) {
		pthread_mutex_unlock(&port->lock);
		free(made);
		return rmem_fail(error, ENOSPC, "more than %d stretches of memory registered",
				 SHM_MR_MAX);
	}
	entry->base = (uintptr_t)address;
	entry->length = length;
	/* The generation starts at 1 and skips 0, so that no key is 0. */
	entry->generation = entry->generation % (UINT32_MAX / SHM_MR_MAX) + 1;
	made->entry = entry;
	made->key = entry->generation * SHM_MR_MAX | (uint32_t)(entry - port->mrs);
	atomic_store_explicit(&entry->key, made->key, memory_order_release);
	pthread_mutex_unlock(&port->lock);
	*mr = made;
	return 0;
}

void shm_mr_unregister(struct rmem_mr *mr)
{
	if (mr == NULL)
		return;
	pthread_mutex_lock(&the_port.lock);
	atomic_store_explicit(&mr->entry->key, 0, memory_order_release);
	mr->entry->length = 0;
	pthread_mutex_unlock(&the_port.lock);
	free(mr);
}

uint32_t shm_mr_key(const struct rmem_mr *mr)
{
	return mr->key;
}

/* --- Connections -------------------------------------------------------------------------------
 */

static int check_file(const char *path, int fd, const struct rmem_welcome_region *region,
		      uint64_t map_bytes, struct rmem_error *error)
{
	struct stat found;

	if (fstat(fd, &found) != 0)
		return rmem_fail(error, errno, "%s: the server's pool: %s", path, strerror(errno));
	if (!S_ISREG(found.st_mode))
		return rmem_fail(error, EPROTO, "%s: the server's pool is no file", path);
	if (!rmem_range_ok(region->fd_offset, map_bytes, (uint64_t)found.st_size))
		return rmem_fail(error, EPROTO,
				 "%s: the server's pool has %" PRIu64
				 " bytes, and its region %u would end behind that",
				 path, (uint64_t)found.st_size, region->remote.id);
	return 0;
}

static bool is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

static int map_region(struct rmem_conn *conn, const struct rmem_control_message *message,
		      const struct rmem_welcome_region *region, struct rmem_error *error)
{
	uint32_t id = region->remote.id;
	uint64_t bytes = rmem_round_up(region->remote.length, region->page_bytes);
	void *map;
	int fd, rc;

	if (region->fd_index >= message->fd_count ||
	    (region->remote.key & (RMEM_REGIONS_MAX - 1)) != id || region->remote.key == 0)
		return rmem_fail(error, EPROTO, "%s: the server offers no memory", conn->path);
	fd = message->fds[region->fd_index];
	rc = check_file(conn->path, fd, region, bytes, error);
	if (rc != 0)
		return rc;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)region->fd_offset);
	if (map == MAP_FAILED)
		return rmem_fail(error, errno, "%s: can't map region %u of %" PRIu64 " bytes: %s",
				 conn->path, id, bytes, strerror(errno));
	conn->mappings[id] = (struct shm_mapping){map, bytes};
	/* A core file needs nobody's pool in it. */
	madvise(map, bytes, MADV_DONTDUMP);
	if (!is_sealed(fd)) {
		rc = shm_guard_add(map, bytes, &conn->is_cut, conn->fd, error);
		if (rc != 0)
			return rc;
	}
	conn->remotes[id] = region->remote;
	conn->regions[id] = (struct shm_region){
		.address = region->remote.address,
		.length = region->remote.length,
		.map = map,
		.key = region->remote.key,
	};
	return 0;
}

static int take_welcome(struct rmem_conn *conn, const struct rmem_control_message *message,
			struct rmem_error *error)
{
	struct rmem_welcome welcome;

	if (rmem_wire_get_welcome(message->bytes, message->length, &welcome) != 0)
		return rmem_fail(error, EPROTO, "%s: the server's answer is garbled", conn->path);
	conn->incarnation = welcome.incarnation;
	conn->region_count = welcome.region_count;
	conn->has_notices = (welcome.features & RMEM_WIRE_FEATURE_NOTICES) != 0;
	for (uint32_t i = 0; i < welcome.region_count; i++) {
		int rc = map_region(conn, message, &welcome.regions[i], error);

		if (rc != 0)
			return rc;
	}
	return 0;
}

/* Fills the page tables, at 40 ms a GiB, sparing each first touch of a page its 1 us. What takes
 * longer than the budget is left to be touched; an old kernel (before 5.14) leaves all of it. */
static void map_ahead(const struct rmem_conn *conn, uint64_t deadline_ns)
{
	uint64_t budget_ns = rmem_deadline_in_ms(MAP_AHEAD_MS);

	if (budget_ns < deadline_ns)
		deadline_ns = budget_ns;
	for (unsigned i = 0; i < conn->region_count; i++) {
		const struct shm_mapping *mapping = &conn->mappings[i];

		for (size_t at = 0; at < mapping->bytes; at += MAP_AHEAD_STEP_BYTES) {
			size_t step = rmem_min_u64(mapping->bytes - at, MAP_AHEAD_STEP_BYTES);

			if (rmem_now_ns() >= deadline_ns ||
			    madvise((uint8_t *)mapping->map + at, step, MADV_POPULATE_READ) != 0)
				return;
		}
	}
}

struct asking {
	const struct rmem_conn *conn;
	uint64_t deadline_ns;
};

static int ask(void *user, const struct rmem_control_request *request,
	       struct rmem_control_message *answer, struct rmem_error *error)
{
	const struct asking *asking = user;

	return rmem_control_ask_with(asking->conn->fd, asking->conn->path, request,
				     asking->deadline_ns, answer, error);
}

static int handshake(struct rmem_conn *conn, uint64_t deadline_ns, struct rmem_error *error)
{
	struct asking asking = {conn, deadline_ns};
	const struct rmem_control_way way = {ask, &asking, conn->path};
	struct rmem_control_message welcome;
	int rc;

	rc = rmem_control_connect(conn->path, deadline_ns, &conn->fd, error);
	if (rc != 0)
		return rc;
	rc = rmem_control_greet(&way, &welcome, error);
	if (rc != 0)
		return rc;
	rc = take_welcome(conn, &welcome, error);
	/* The mappings keep the files. */
	rmem_control_close_fds(&welcome);
	if (rc == 0)
		map_ahead(conn, deadline_ns);
	return rc;
}

int shm_connect(struct rmem_port *port, const char *url, unsigned timeout_ms,
		struct rmem_conn **conn, struct rmem_error *error)
{
	uint64_t deadline_ns = rmem_deadline_in_ms(timeout_ms);
	struct rmem_conn *made;
	const char *path;
	int rc;

	rc = rmem_control_path(url, &path, error);
	if (rc != 0)
		return rc;
	made = calloc(1, sizeof(*made));
	if (made == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	made->fd = -1;
	made->timeout_ms = timeout_ms;
	made->mrs = port->mrs;
	made->stream_policy = &port->stream_policy;
	pthread_mutex_init(&made->lock, NULL);
	LIST_INIT(&made->lanes);
	made->path = strdup(path);
	if (made->path == NULL)
		rc = rmem_fail(error, ENOMEM, "out of memory");
	else
		rc = handshake(made, deadline_ns, error);
	if (rc != 0) {
		shm_disconnect(made);
		return rc;
	}
	*conn = made;
	return 0;
}

void shm_conn_info(const struct rmem_conn *conn, struct rmem_conn_info *info)
{
	info->incarnation = conn->incarnation;
	info->region_count = conn->region_count;
	info->regions = conn->remotes;
}

int shm_conn_fd(const struct rmem_conn *conn)
{
	return conn->fd;
}

/* A server says nothing to a client that it has greeted, but goodbye. */
static int look(struct rmem_conn *conn)
{
	uint8_t bytes[RMEM_WIRE_MAX_BYTES];
	ssize_t got = recv(conn->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	enum rmem_wire_type type;
	size_t length;

	if (atomic_load(&conn->is_cut))
		return -EIO;
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (got == 0)
		return -ECONNRESET;
	if (rmem_wire_peek(bytes, (size_t)got, &type, &length) == 0 && type == RMEM_WIRE_ERROR)
		return -ESHUTDOWN;
	return -EPROTO;
}

int shm_conn_alive(struct rmem_conn *conn)
{
	struct rmem_lane_link *lane;
	int lost;

	pthread_mutex_lock(&conn->lock);
	if (conn->lost == 0) {
		conn->lost = look(conn);
		if (conn->lost != 0) {
			LIST_FOREACH(lane, &conn->lanes, link)
			shm_lane_abort(lane);
		}
	}
	lost = conn->lost;
	pthread_mutex_unlock(&conn->lock);
	return lost;
}

void shm_disconnect(struct rmem_conn *conn)
{
	if (conn == NULL)
		return;
	assert(LIST_EMPTY(&conn->lanes));
	for (unsigned i = 0; i < RMEM_REGIONS_MAX; i++) {
		if (conn->mappings[i].map == NULL)
			continue;
		shm_guard_remove(conn->mappings[i].map);
		munmap(conn->mappings[i].map, conn->mappings[i].bytes);
	}
	if (conn->fd >= 0)
		close(conn->fd);
	pthread_mutex_destroy(&conn->lock);
	free(conn->path);
	free(conn);
}
