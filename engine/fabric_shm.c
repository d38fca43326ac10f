/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/fabric_shm.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "engine/staging.h"
#include "engine/stream.h"

/* How much of a request is fetched ahead of it: enough to hide the first misses of a large one, and
 * all of a small one. Two requests ahead is far enough. Measured, 512-byte writes in chains of 256
 * to random places of 1 GiB: 10.3 million a second against 7.5 without; to successive ones, 17.6
 * against 13.0. Asking for every second line, and leaving its neighbour to the processor, gains
 * nothing. */
#define PREFETCH_BYTES 512

/* --- Completion queues ------------------------------------------------------------------------ */

static uint32_t ring_size(uint32_t depth)
{
	uint32_t size = 16;

	while (size < depth)
		size *= 2;
	return size;
}

static int cq_create(struct rmem_port *port, uint32_t depth, struct rmem_cq **cq,
		     struct rmem_error *error)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct rmem_cq *made;
	int code;

	(void)port;
	if (depth == 0 || depth > SHM_CQ_DEPTH_MAX)
		return rmem_fail(error, EINVAL, "a completion queue of %u entries", depth);
	made = calloc(1, sizeof(*made));
	if (made == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	made->mask = ring_size(depth) - 1;
	made->ring = calloc(made->mask + 1u, sizeof(*made->ring));
	made->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	made->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (made->ring == NULL || made->event_fd < 0 || made->epoll_fd < 0 ||
	    epoll_ctl(made->epoll_fd, EPOLL_CTL_ADD, made->event_fd, &event) != 0) {
		code = made->ring == NULL ? ENOMEM : errno;
		if (made->event_fd >= 0)
			close(made->event_fd);
		if (made->epoll_fd >= 0)
			close(made->epoll_fd);
		free(made->ring);
		free(made);
		return rmem_fail(error, code, "no completion queue: %s", strerror(code));
	}
	*cq = made;
	return 0;
}

static int cq_resize(struct rmem_cq *cq, uint32_t depth, struct rmem_error *error)
{
	uint32_t mask = ring_size(depth) - 1;
	struct shm_cqe *ring;

	if (depth == 0 || depth > SHM_CQ_DEPTH_MAX)
		return rmem_fail(error, EINVAL, "a completion queue of %u entries", depth);
	if (mask <= cq->mask)
		return 0;
	ring = calloc(mask + 1u, sizeof(*ring));
	if (ring == NULL)
		return rmem_fail(error, ENOMEM, "no completion queue of %u entries", depth);
	for (uint32_t i = cq->head; i != cq->tail; i++)
		ring[i & mask] = cq->ring[i & cq->mask];
	free(cq->ring);
	cq->ring = ring;
	cq->mask = mask;
	return 0;
}

static void cq_destroy(struct rmem_cq *cq)
{
	if (cq == NULL)
		return;
	assert(atomic_load(&cq->lanes) == 0);
	shm_mail_destroy(atomic_load(&cq->mail));
	close(cq->epoll_fd);
	close(cq->event_fd);
	free(cq->ring);
	free(cq);
}

/* There is room: every request outstanding completes at most once, and lane_post() takes no more
 * of them than the ring has entries. */
static inline void complete(struct rmem_lane_link *link, uint64_t id, enum rmem_wc_status status,
			    uint32_t retires)
{
	struct rmem_cq *cq = link->cq;
	struct shm_cqe *entry = &cq->ring[cq->tail & cq->mask];

	cq->tail++;
	entry->completion.id = id;
	entry->completion.status = status;
	entry->completion.provider_status = 0;
	entry->link = link;
	entry->retires = retires;
}

static int cq_poll(struct rmem_cq *cq, struct rmem_completion *completions, unsigned count)
{
	struct shm_mail *mail = shm_mail_of(cq);
	unsigned taken = 0;

	while (taken < count && cq->head != cq->tail) {
		struct shm_cqe *entry = &cq->ring[cq->head & cq->mask];

		cq->head++;
		completions[taken++] = entry->completion;
		entry->link->in_flight -= entry->retires;
		cq->outstanding -= entry->retires;
	}
	if (RMEM_UNLIKELY(mail != NULL))
		taken += shm_mail_poll(mail, completions + taken, count - taken);
	return (int)taken;
}

static int cq_fd(const struct rmem_cq *cq)
{
	return cq->epoll_fd;
}

/* Completions come from lane_post() alone, on the thread that polls: no other one looks at
 * `is_armed`. Notices come from elsewhere. */
static int cq_arm(struct rmem_cq *cq)
{
	struct shm_mail *mail = shm_mail_of(cq);

	cq->is_armed = true;
	if (mail != NULL)
		shm_mail_arm(mail);
	return 0;
}

static RMEM_COLD void announce(struct rmem_cq *cq)
{
	const uint64_t one = 1;

	cq->is_armed = false;
	(void)!write(cq->event_fd, &one, sizeof(one));
}

static void cq_ack(struct rmem_cq *cq)
{
	struct epoll_event events[16];
	uint64_t count;

	(void)!read(cq->event_fd, &count, sizeof(count));
	/* Looking is what consumes the edges of the others. */
	while (epoll_wait(cq->epoll_fd, events, 16, 0) == 16)
		;
}

/* --- Lanes ------------------------------------------------------------------------------------ */

static int lane_open(struct rmem_conn *conn, struct rmem_cq *cq,
		     const struct rmem_lane_options *options, struct rmem_lane_link **link,
		     struct rmem_error *error)
{
	struct rmem_lane_link *made;
	int lost;

	if (options->depth == 0 || options->depth > SHM_DEPTH_MAX ||
	    options->inline_bytes > SHM_INLINE_MAX_BYTES)
		return rmem_fail(error, EINVAL, "a lane of depth %u with %u bytes inline",
				 options->depth, options->inline_bytes);
	made = calloc(1, sizeof(*made));
	if (made == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	made->regions = conn->regions;
	made->mrs = conn->mrs;
	made->cq = cq;
	made->depth = options->depth;
	made->inline_bytes = options->inline_bytes;
	made->stream_bytes =
		options->stream_bytes != 0 ? options->stream_bytes : rmem_stream_threshold_bytes();
	made->watch_bytes = made->stream_bytes == RMEM_STREAM_NEVER ? UINT64_MAX : RMEM_PAGE_BYTES;
	made->stream_policy = conn->stream_policy;
	made->conn = conn;
	made->wake_fd = -1;
	lost = options->notices > 0 ? shm_mailbox_open(made, options->notices, error) : 0;
	if (lost != 0) {
		shm_mailbox_close(made);
		free(made);
		return lost;
	}
	pthread_mutex_lock(&conn->lock);
	lost = conn->lost;
	if (lost == 0) {
		LIST_INSERT_HEAD(&conn->lanes, made, link);
		atomic_fetch_add(&cq->lanes, 1);
	}
	pthread_mutex_unlock(&conn->lock);
	if (lost != 0) {
		shm_mailbox_close(made);
		free(made);
		return rmem_fail(error, -lost, "%s: the connection is lost: %s", conn->path,
				 strerror(-lost));
	}
	*link = made;
	return 0;
}

static void lane_close(struct rmem_lane_link *link)
{
	if (link == NULL)
		return;
	assert(link->in_flight == 0);
	pthread_mutex_lock(&link->conn->lock);
	LIST_REMOVE(link, link);
	pthread_mutex_unlock(&link->conn->lock);
	shm_mailbox_close(link);
	atomic_fetch_sub(&link->cq->lanes, 1);
	free(link);
}

/* Nothing waits to be flushed here: what was posted has run. What ran without a signal ends with
 * the next request, which finds the lane in error. Relaxed: the state says nothing about other
 * memory, and a request that runs while it changes is one that ran before. */
void shm_lane_abort(struct rmem_lane_link *link)
{
	atomic_store_explicit(&link->state, SHM_LANE_ERROR, memory_order_relaxed);
}

static bool is_well_formed(const struct rmem_lane_link *link, const struct rmem_wr *wr)
{
	uint64_t total = 0;

	if (wr->op > RMEM_WR_NOTICE || wr->sge_count > RMEM_SGE_MAX)
		return false;
	if (wr->op >= RMEM_WR_WRITE_NOTICE && shm_lane_notices(link) == 0)
		return false;
	if (wr->op == RMEM_WR_NOTICE)
		return wr->sge_count == 0 ||
		       (wr->sge_count == 1 && wr->sge[0].length <= RMEM_NOTICE_BYTES_MAX);
	if ((wr->flags & RMEM_WR_INLINE) == 0)
		return true;
	for (unsigned i = 0; i < wr->sge_count; i++)
		total += wr->sge[i].length;
	return wr->op != RMEM_WR_READ && total <= link->inline_bytes;
}

static inline bool is_local(const struct rmem_lane_link *link, const struct rmem_sge *sge)
{
	const struct shm_mr_entry *entry = &link->mrs[sge->key & (SHM_MR_MAX - 1)];
	uint32_t key = atomic_load_explicit(&entry->key, memory_order_acquire);

	/* No key is 0, and a free entry has no length, so that 0 fits nothing but nothing. */
	return key == sge->key &&
	       rmem_range_ok((uintptr_t)sge->address - entry->base, sge->length, entry->length);
}

/* What is read here was sent by somebody, and what is written was staged. Whole pages on their way
 * out go past the caches unless such pages are touched again soon: that spares reading what they
 * overwrite. Measured, 64 KiB writes to 2 GiB: 19.1 GB/s against 8.1. */
static __attribute__((noinline)) void copy_watched(const struct rmem_lane_link *link, uint8_t op,
						   uint8_t *remote, const struct rmem_sge *sge)
{
	bool is_stream_size = sge->length >= link->stream_bytes;

	if (op == RMEM_WR_READ) {
		rmem_stream_policy_note_read(link->stream_policy, remote, sge->length);
		memcpy(sge->address, remote, sge->length);
		return;
	}
	rmem_stream_policy_note_read(&rmem_staging_policy, sge->address, sge->length);
	if (is_stream_size)
		rmem_stream_policy_note_write(link->stream_policy, remote, sge->length);
	if (is_stream_size && (((uintptr_t)remote | sge->length) & (RMEM_PAGE_BYTES - 1)) == 0 &&
	    rmem_stream_policy_wants(link->stream_policy))
		rmem_stream_copy(remote, sge->address, sge->length);
	else
		memcpy(remote, sge->address, sge->length);
}

static inline void copy(const struct rmem_lane_link *link, uint8_t op, uint8_t *remote,
			const struct rmem_sge *sge)
{
	if (RMEM_UNLIKELY(sge->length >= link->watch_bytes))
		copy_watched(link, op, remote, sge);
	else if (op == RMEM_WR_READ)
		memcpy(sge->address, remote, sge->length);
	else
		memcpy(remote, sge->address, sge->length);
}

/* Where `total` bytes at the request's remote place are; NULL when it may not touch them. */
static inline uint8_t *find_remote(const struct rmem_lane_link *link, const struct rmem_wr *wr,
				   uint64_t total)
{
	const struct shm_region *region = &link->regions[wr->remote_key & (RMEM_REGIONS_MAX - 1)];
	uint64_t offset = wr->remote_address - region->address; /* huge when it lies before */

	if (RMEM_UNLIKELY(region->key != wr->remote_key ||
			  !rmem_range_ok(offset, total, region->length)))
		return NULL;
	return region->map + offset;
}

/* What a request may do, looked up and checked piece by piece. */
static enum rmem_wc_status transfer(const struct rmem_lane_link *link, const struct rmem_wr *wr)
{
	uint64_t total = 0;
	uint8_t *remote;

	for (unsigned i = 0; i < wr->sge_count; i++) {
		if ((wr->flags & RMEM_WR_INLINE) == 0 && !is_local(link, &wr->sge[i]))
			return RMEM_WC_LOCAL_ERROR;
		total += wr->sge[i].length;
	}
	if (total > SHM_MESSAGE_MAX_BYTES)
		return RMEM_WC_LOCAL_ERROR;
	remote = find_remote(link, wr, total);
	if (remote == NULL)
		return RMEM_WC_REMOTE_ACCESS;
	for (unsigned i = 0; i < wr->sge_count; i++) {
		copy(link, wr->op, remote, &wr->sge[i]);
		remote += wr->sge[i].length;
	}
	return RMEM_WC_OK;
}

static __attribute__((noinline)) enum rmem_wc_status execute_any(struct rmem_lane_link *link,
								 const struct rmem_wr *wr)
{
	enum rmem_wc_status status = RMEM_WC_OK;

	if (wr->op != RMEM_WR_NOTICE)
		status = transfer(link, wr);
	if (wr->op >= RMEM_WR_WRITE_NOTICE && status == RMEM_WC_OK)
		shm_mailbox_send(link, wr);
	return status;
}

/* --- Posting ---------------------------------------------------------------------------------- */

/* The region and the memory of the last plain request, which the next one mostly has, too. Lasts
 * for one post: memory is not unregistered while requests use it. */
struct view {
	uint32_t remote_key;
	uint32_t local_key;
	uint64_t region_address;
	uint64_t region_bytes;
	uintptr_t shift; /* from an address in the region to where it is mapped; wraps */
	uintptr_t local_base;
	uint64_t local_bytes;
	uint64_t length_max; /* what fits into both, and into a message */
	/* The length of the last request, which the next one mostly has, too, and the last places
	 * in the region and the memory where that fits. */
	uint64_t length;
	uint64_t offset_max, local_max;
};

/* False when the length fits nowhere. */
static inline bool set_length(struct view *view, uint64_t length)
{
	if (length > view->length_max)
		return false;
	view->length = length;
	view->offset_max = view->region_bytes - length;
	view->local_max = view->local_bytes - length;
	return true;
}

/* Fills in the view for a request. False when a key of it is not valid. */
static __attribute__((noinline)) bool look_up(const struct rmem_lane_link *link,
					      const struct rmem_wr *wr, struct view *view)
{
	const struct shm_region *region = &link->regions[wr->remote_key & (RMEM_REGIONS_MAX - 1)];
	uint32_t local_key = wr->sge[0].key;
	const struct shm_mr_entry *entry = &link->mrs[local_key & (SHM_MR_MAX - 1)];

	if (region->key != wr->remote_key ||
	    atomic_load_explicit(&entry->key, memory_order_acquire) != local_key)
		return false;
	*view = (struct view){
		.remote_key = wr->remote_key,
		.local_key = local_key,
		.region_address = region->address,
		.region_bytes = region->length,
		.shift = (uintptr_t)region->map - region->address,
		.local_base = entry->base,
		.local_bytes = entry->length,
		.length_max = rmem_min_u64(rmem_min_u64(region->length, entry->length),
					   SHM_MESSAGE_MAX_BYTES),
		.length = UINT64_MAX, /* of none */
	};
	return true;
}

/* Asks for the remote lines of a request that is about to run. Whether it may touch them is not
 * known yet and makes no difference: what a prefetch finds stays in the cache. Always inline,
 * because to GCC a function that only prefetches has no effect, and a call to it is dropped. */
static inline __attribute__((always_inline)) void prefetch(const struct view *view,
							   const struct rmem_wr *wr)
{
	uintptr_t at = wr->remote_address + view->shift;
	uint32_t bytes = wr->sge[0].length;

	if (RMEM_LIKELY(bytes >= PREFETCH_BYTES)) {
		/* Spelt out: a loop would take more instructions than its eight. */
		__builtin_prefetch((const void *)at, 1);
		__builtin_prefetch((const void *)(at + 1 * RMEM_CACHE_LINE), 1);
		__builtin_prefetch((const void *)(at + 2 * RMEM_CACHE_LINE), 1);
		__builtin_prefetch((const void *)(at + 3 * RMEM_CACHE_LINE), 1);
		__builtin_prefetch((const void *)(at + 4 * RMEM_CACHE_LINE), 1);
		__builtin_prefetch((const void *)(at + 5 * RMEM_CACHE_LINE), 1);
		__builtin_prefetch((const void *)(at + 6 * RMEM_CACHE_LINE), 1);
		__builtin_prefetch((const void *)(at + 7 * RMEM_CACHE_LINE), 1);
		_Static_assert(PREFETCH_BYTES == 8 * RMEM_CACHE_LINE, "all of them");
		return;
	}
	for (uintptr_t end = at + bytes; at < end; at += RMEM_CACHE_LINE)
		__builtin_prefetch((const void *)at, 1);
}

/* Operation, flags and number of pieces, as one number. */
struct kind {
	uint8_t op, flags;
	uint16_t sge_count;
};

static inline uint32_t kind_number(const void *kind)
{
	uint32_t number;

	_Static_assert(sizeof(struct kind) == sizeof(number) &&
			       offsetof(struct rmem_wr, sge) - offsetof(struct rmem_wr, op) ==
				       sizeof(number),
		       "the three are neighbours in a request");
	memcpy(&number, kind, sizeof(number));
	return number;
}

/* One piece that is well formed: what nearly all requests are. One that goes inline is mostly
 * registered as well. */
static inline bool is_plain(const struct rmem_lane_link *link, const struct rmem_wr *wr)
{
	const struct kind any = {.op = RMEM_WR_READ | RMEM_WR_WRITE, .flags = RMEM_WR_SIGNALED};
	const struct kind plain = {.sge_count = 1};

	_Static_assert((RMEM_WR_READ | RMEM_WR_WRITE) == 1, "there is no other such operation");
	return RMEM_LIKELY((kind_number(&wr->op) & ~kind_number(&any)) == kind_number(&plain)) ||
	       (wr->op == RMEM_WR_WRITE && wr->sge_count == 1 &&
		wr->sge[0].length <= link->inline_bytes);
}

/* Executes a plain request. What does not fit goes the long way, which finds out what is wrong. */
static inline enum rmem_wc_status execute_plain(struct rmem_lane_link *link,
						const struct rmem_wr *wr, struct view *view)
{
	const struct rmem_sge *sge = &wr->sge[0];
	uint64_t length = sge->length;
	uint64_t offset; /* huge when it lies before the region */

	if (RMEM_UNLIKELY(wr->remote_key != view->remote_key || sge->key != view->local_key) &&
	    !look_up(link, wr, view))
		return execute_any(link, wr);
	if (RMEM_UNLIKELY(length != view->length) && !set_length(view, length))
		return execute_any(link, wr);
	offset = wr->remote_address - view->region_address;
	if (RMEM_UNLIKELY(offset > view->offset_max ||
			  (uintptr_t)sge->address - view->local_base > view->local_max))
		return execute_any(link, wr);
	copy(link, wr->op, (uint8_t *)(wr->remote_address + view->shift), sge);
	return RMEM_WC_OK;
}

/* Executes one request, unless the lane is in error by then: an abort by another thread takes
 * effect between two requests. `view` is NULL for one that is not plain. */
static inline enum rmem_wc_status run(struct rmem_lane_link *link, const struct rmem_wr *wr,
				      struct view *view)
{
	enum rmem_wc_status status;

	if (RMEM_UNLIKELY(atomic_load_explicit(&link->state, memory_order_relaxed) !=
			  SHM_LANE_RUNNING))
		return RMEM_WC_FLUSHED;
	status = view != NULL ? execute_plain(link, wr, view) : execute_any(link, wr);
	if (RMEM_UNLIKELY(status != RMEM_WC_OK))
		atomic_store_explicit(&link->state, SHM_LANE_ERROR, memory_order_relaxed);
	return status;
}

/* Some of the memory was not there. Which requests it hit is not known, so all of this post have
 * failed. */
static RMEM_COLD void spoil(struct rmem_lane_link *link, uint32_t first)
{
	struct rmem_cq *cq = link->cq;

	for (uint32_t i = first; i != cq->tail; i++) {
		struct rmem_completion *completion = &cq->ring[i & cq->mask].completion;

		if (completion->status == RMEM_WC_OK)
			completion->status = i == first ? RMEM_WC_PEER_LOST : RMEM_WC_FLUSHED;
	}
	shm_lane_abort(link);
}

static int lane_post(struct rmem_lane_link *link, struct rmem_wr *chain, struct rmem_wr **bad)
{
	struct rmem_cq *cq = link->cq;
	uint32_t room = link->depth - link->in_flight;
	uint32_t cq_room = cq->mask + 1 - cq->outstanding;
	uint32_t first = cq->tail;
	uint32_t taken = 0;
	uint32_t covered = 0 - link->uncovered; /* of those taken; wraps */
	const struct rmem_wr *ahead = chain->next;
	struct view view = {0};
	struct rmem_wr *wr;
	int rc = 0;

	if (cq_room < room)
		room = cq_room;
	if (RMEM_LIKELY(is_plain(link, chain)))
		(void)look_up(link, chain, &view); /* so that the third is fetched, too */
	for (wr = chain; wr != NULL; wr = wr->next) {
		enum rmem_wc_status status;

		if (RMEM_UNLIKELY(taken == room)) {
			rc = -EAGAIN;
			break;
		}
		if (RMEM_LIKELY(ahead != NULL) && (ahead = ahead->next) != NULL &&
		    ahead->remote_key == view.remote_key)
			prefetch(&view, ahead);
		if (RMEM_LIKELY(is_plain(link, wr))) {
			status = run(link, wr, &view);
		} else if (is_well_formed(link, wr)) {
			status = run(link, wr, NULL);
		} else {
			rc = -EINVAL;
			break;
		}
		taken++;
		if (RMEM_UNLIKELY(status != RMEM_WC_OK) || (wr->flags & RMEM_WR_SIGNALED) != 0) {
			complete(link, wr->id, status, taken - covered);
			covered = taken;
		}
	}
	link->uncovered = taken - covered;
	link->in_flight += taken;
	cq->outstanding += taken;
	if (RMEM_UNLIKELY(atomic_load_explicit(&link->conn->is_cut, memory_order_relaxed)))
		spoil(link, first);
	if (rc != 0)
		*bad = wr;
	if (RMEM_UNLIKELY(cq->is_armed) && cq->head != cq->tail)
		announce(cq);
	return rc;
}

const struct rmem_fabric rmem_fabric_shm = {
	.scheme = "shm",
	.is_copy = true,
	.port_open = shm_port_open,
	.port_close = shm_port_close,
	.port_limits = shm_port_limits,
	.mr_register = shm_mr_register,
	.mr_unregister = shm_mr_unregister,
	.mr_key = shm_mr_key,
	.cq_create = cq_create,
	.cq_resize = cq_resize,
	.cq_destroy = cq_destroy,
	.cq_poll = cq_poll,
	.cq_fd = cq_fd,
	.cq_arm = cq_arm,
	.cq_ack = cq_ack,
	.connect = shm_connect,
	.conn_info = shm_conn_info,
	.conn_fd = shm_conn_fd,
	.conn_alive = shm_conn_alive,
	.disconnect = shm_disconnect,
	.lane_open = lane_open,
	.lane_post = lane_post,
	.lane_abort = shm_lane_abort,
	.lane_close = lane_close,
	.lane_notices = shm_lane_notices,
	.notices_start = shm_notices_start,
	.notices_stop = shm_notices_stop,
	.notice_take = shm_notice_take,
	.notices_grant = shm_lane_grant,
};
