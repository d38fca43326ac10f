/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "tests/support/fake_internal.h"

struct fake_state fake = {.lock = PTHREAD_MUTEX_INITIALIZER};
static atomic_bool thread_must_stop;

/* --- Executing requests (under the lock) ------------------------------------------------------ */

static void signal_fd(int fd)
{
	const uint64_t one = 1;

	(void)!write(fd, &one, sizeof(one));
}

static void put(struct rmem_cq *cq, const struct cqe *cqe)
{
	if (cq->count == cq->depth) {
		fake.violations++;
		return;
	}
	cq->ring[(cq->head + cq->count++) % cq->depth] = *cqe;
	if (cq->is_armed) {
		cq->is_armed = false;
		signal_fd(cq->fd);
	}
}

static void complete(struct rmem_lane_link *link, uint64_t id, enum rmem_wc_status status)
{
	put(link->cq,
	    &(struct cqe){
		    .completion = {.id = id, .status = status, .provider_status = 40 + status},
		    .link = link,
		    .retires = link->silent + 1,
	    });
	link->silent = 0;
}

void fake_report(struct rmem_lane_link *link, const struct rmem_completion *completion)
{
	put(link->cq, &(struct cqe){.completion = *completion});
}

static bool is_registered(const struct rmem_port *port, const struct rmem_sge *sge)
{
	for (unsigned i = 0; i < FAKE_MRS_MAX; i++) {
		const struct rmem_mr *mr = fake.mrs[i];

		if (mr && mr->key == sge->key && mr->port == port)
			return rmem_range_ok((uintptr_t)sge->address - mr->start, sge->length,
					     mr->length);
	}
	return false;
}

static enum rmem_wc_status move(const struct rmem_lane_link *link, const struct rmem_wr *wr)
{
	const struct fake_server *server = link->conn->server;
	uint64_t region = wr->remote_address >> 40;
	uint64_t offset = wr->remote_address & (((uint64_t)1 << 40) - 1);

	if (region >= link->conn->region_count || link->conn->regions[region].key != wr->remote_key)
		return RMEM_WC_REMOTE_ACCESS;
	for (unsigned i = 0; i < wr->sge_count; i++) {
		const struct rmem_sge *sge = &wr->sge[i];
		uint8_t *remote = server->bytes[region] + offset;

		if (!is_registered(link->conn->port, sge))
			return RMEM_WC_LOCAL_ERROR;
		if (!rmem_range_ok(offset, sge->length, server->region_bytes))
			return RMEM_WC_REMOTE_ACCESS;
		if (wr->op != RMEM_WR_READ)
			memcpy(remote, sge->address, sge->length);
		else
			memcpy(sge->address, remote, sge->length);
		offset += sge->length;
	}
	return RMEM_WC_OK;
}

void fake_execute(struct rmem_lane_link *link)
{
	struct rmem_wr *wr = &link->waiting[link->head % link->depth];
	enum rmem_wc_status status = RMEM_WC_OK;

	link->head++;
	link->count--;
	if (link->is_in_error) {
		complete(link, wr->id, RMEM_WC_FLUSHED);
		return;
	}
	if (fake.hooks.execute)
		status = fake.hooks.execute(fake.hooks.user, link->number, wr);
	if (status == RMEM_WC_OK && wr->op != RMEM_WR_NOTICE)
		status = move(link, wr);
	if (status == RMEM_WC_OK && wr->op >= RMEM_WR_WRITE_NOTICE)
		link->mail.transfers[link->mail.arrived++ % FAKE_FAR_MAX] = wr->transfer;
	if (status != RMEM_WC_OK)
		link->is_in_error = true;
	if (status != RMEM_WC_OK || wr->flags & RMEM_WR_SIGNALED)
		complete(link, wr->id, status);
	else
		link->silent++;
}

uint32_t fake_run(unsigned lane, uint32_t count)
{
	struct rmem_lane_link *link;
	uint32_t done = 0;

	pthread_mutex_lock(&fake.lock);
	link = lane < fake.lane_count ? fake.lanes[lane] : NULL;
	while (link && done < count && link->count > 0) {
		fake_execute(link);
		done++;
	}
	pthread_mutex_unlock(&fake.lock);
	return done;
}

static void *run_forever(void *argument)
{
	unsigned seed = 1;

	(void)argument;
	while (!atomic_load(&thread_must_stop)) {
		unsigned count = fake_lane_count();

		if (count > 0)
			fake_run((unsigned)rand_r(&seed) % count, 1 + (unsigned)rand_r(&seed) % 40);
		if (rand_r(&seed) % 16 == 0)
			usleep(20);
	}
	return NULL;
}

/* --- Control for tests ------------------------------------------------------------------------ */

void fake_stop(void)
{
	if (!fake.has_thread)
		return;
	atomic_store(&thread_must_stop, true);
	pthread_join(fake.thread, NULL);
	atomic_store(&thread_must_stop, false);
	fake.has_thread = false;
}

void fake_reset(enum fake_mode mode)
{
	fake_stop();
	for (unsigned i = 0; i < fake.server_count; i++) {
		for (unsigned n = 0; n < FAKE_REGIONS_MAX; n++)
			free(fake.servers[i].bytes[n]);
	}
	fake = (struct fake_state){.lock = PTHREAD_MUTEX_INITIALIZER};
	fake.mode = mode;
	fake.depth_max = FAKE_DEPTH_MAX;
	fake.cq_depth_max = FAKE_CQ_DEPTH_MAX;
	if (mode == FAKE_THREAD)
		fake.has_thread = pthread_create(&fake.thread, NULL, run_forever, NULL) == 0;
}

void fake_set_hooks(const struct fake_hooks *hooks)
{
	pthread_mutex_lock(&fake.lock);
	fake.hooks = *hooks;
	pthread_mutex_unlock(&fake.lock);
}

void fake_set_depth_max(uint32_t depth_max)
{
	fake.depth_max = depth_max;
}

void fake_set_cq_depth_max(uint32_t depth_max)
{
	fake.cq_depth_max = depth_max;
}

/* Under the lock: finds the server, or makes one that is down. */
struct fake_server *fake_server_at(const char *url)
{
	struct fake_server *server;

	for (unsigned i = 0; i < fake.server_count; i++) {
		if (strcmp(fake.servers[i].url, url) == 0)
			return &fake.servers[i];
	}
	if (fake.server_count == FAKE_SERVERS_MAX)
		abort();
	server = &fake.servers[fake.server_count++];
	strncpy(server->url, url, sizeof(server->url) - 1);
	return server;
}

void fake_server_start(const char *url, uint32_t region_count, uint64_t region_bytes)
{
	struct fake_server *server;

	pthread_mutex_lock(&fake.lock);
	server = fake_server_at(url);
	server->is_up = true;
	server->incarnation = ++fake.incarnations;
	server->region_count = region_count;
	server->region_bytes = region_bytes;
	for (unsigned i = 0; i < region_count; i++) {
		free(server->bytes[i]);
		server->bytes[i] = calloc(1, region_bytes);
	}
	pthread_mutex_unlock(&fake.lock);
}

void fake_server_stop(const char *url)
{
	struct fake_server *server;

	pthread_mutex_lock(&fake.lock);
	server = fake_server_at(url);
	server->is_up = false;
	for (unsigned i = 0; i < fake.lane_count; i++) {
		struct rmem_lane_link *link = fake.lanes[i];

		if (!link || link->conn->server != server)
			continue;
		link->is_in_error = true;
		if (!link->conn->is_over)
			signal_fd(link->conn->fd);
		link->conn->is_over = true;
	}
	pthread_mutex_unlock(&fake.lock);
}

void fake_server_hang(const char *url, bool is_hanging)
{
	pthread_mutex_lock(&fake.lock);
	fake_server_at(url)->is_hanging = is_hanging;
	pthread_mutex_unlock(&fake.lock);
}

uint8_t *fake_server_bytes(const char *url, uint32_t region)
{
	uint8_t *bytes;

	pthread_mutex_lock(&fake.lock);
	bytes = fake_server_at(url)->bytes[region];
	pthread_mutex_unlock(&fake.lock);
	return bytes;
}

unsigned fake_connect_count(const char *url)
{
	unsigned count;

	pthread_mutex_lock(&fake.lock);
	count = fake_server_at(url)->connects;
	pthread_mutex_unlock(&fake.lock);
	return count;
}

unsigned fake_lane_count(void)
{
	unsigned count;

	pthread_mutex_lock(&fake.lock);
	count = fake.lane_count;
	pthread_mutex_unlock(&fake.lock);
	return count;
}

uint32_t fake_lane_waiting(unsigned lane)
{
	uint32_t count = 0;

	pthread_mutex_lock(&fake.lock);
	if (lane < fake.lane_count && fake.lanes[lane])
		count = fake.lanes[lane]->count;
	pthread_mutex_unlock(&fake.lock);
	return count;
}

void fake_lane_break(unsigned lane)
{
	pthread_mutex_lock(&fake.lock);
	if (lane < fake.lane_count && fake.lanes[lane])
		fake.lanes[lane]->is_in_error = true;
	pthread_mutex_unlock(&fake.lock);
}

/* --- The far side of notices ------------------------------------------------------------------ */

uint32_t fake_far_arrived(unsigned lane)
{
	uint32_t count = 0;

	pthread_mutex_lock(&fake.lock);
	if (lane < fake.lane_count && fake.lanes[lane])
		count = fake.lanes[lane]->mail.arrived;
	pthread_mutex_unlock(&fake.lock);
	return count;
}

uint32_t fake_far_transfer(unsigned lane, uint32_t at)
{
	uint32_t transfer;

	pthread_mutex_lock(&fake.lock);
	transfer = fake.lanes[lane]->mail.transfers[at % FAKE_FAR_MAX];
	pthread_mutex_unlock(&fake.lock);
	return transfer;
}

/* Under the lock: the lane, if its far side can do anything. */
static struct rmem_lane_link *far_of(unsigned lane)
{
	struct rmem_lane_link *link = lane < fake.lane_count ? fake.lanes[lane] : NULL;

	return link && link->mail.is_started && !link->is_in_error ? link : NULL;
}

bool fake_far_grant(unsigned lane, uint32_t count)
{
	struct rmem_lane_link *link;
	bool may;

	pthread_mutex_lock(&fake.lock);
	link = far_of(lane);
	may = link && count > 0 && count <= link->mail.arrived - link->mail.granted;
	if (may) {
		link->mail.granted += count;
		fake_report(link, &(struct rmem_completion){link->mail.id, RMEM_WC_GRANT, count});
	}
	pthread_mutex_unlock(&fake.lock);
	return may;
}

bool fake_far_send(unsigned lane, uint32_t transfer)
{
	struct rmem_lane_link *link;
	bool may;

	pthread_mutex_lock(&fake.lock);
	link = far_of(lane);
	may = link && link->mail.far_sent - link->mail.far_granted < link->mail.depth;
	if (may) {
		link->mail.coming[link->mail.far_sent++ % FAKE_NOTICES_MAX] =
			(struct rmem_notice){.transfer = transfer};
		fake_report(link, &(struct rmem_completion){link->mail.id, RMEM_WC_NOTICE, 0});
	}
	pthread_mutex_unlock(&fake.lock);
	return may;
}

static bool touches(const struct rmem_wr *wr, uintptr_t start, size_t length)
{
	for (unsigned i = 0; i < wr->sge_count; i++) {
		uintptr_t at = (uintptr_t)wr->sge[i].address;

		if (at < start + length && start < at + wr->sge[i].length)
			return true;
	}
	return false;
}

bool fake_is_outstanding(const void *address, size_t length)
{
	bool found = false;

	pthread_mutex_lock(&fake.lock);
	for (unsigned i = 0; i < fake.lane_count && !found; i++) {
		struct rmem_lane_link *link = fake.lanes[i];

		for (uint32_t n = 0; link && n < link->count && !found; n++)
			found = touches(&link->waiting[(link->head + n) % link->depth],
					(uintptr_t)address, length);
	}
	pthread_mutex_unlock(&fake.lock);
	return found;
}

static unsigned read_locked(const unsigned *value)
{
	unsigned result;

	pthread_mutex_lock(&fake.lock);
	result = *value;
	pthread_mutex_unlock(&fake.lock);
	return result;
}

unsigned fake_violations(void)
{
	return read_locked(&fake.violations);
}

unsigned fake_open_lanes(void)
{
	return read_locked(&fake.open_lanes);
}

unsigned fake_open_conns(void)
{
	return read_locked(&fake.open_conns);
}
