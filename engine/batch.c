/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/batch.h"

#include <errno.h>
#include <string.h>

#include "engine/base/checked.h"

bool rmem_batch_unlink(struct rmem_batch_list *list, struct rmem_batch *batch)
{
	struct rmem_batch *before = NULL;
	struct rmem_batch *at = list->first;

	while (at && at != batch) {
		before = at;
		at = at->engine.next;
	}
	if (!at)
		return false;
	if (before)
		before->engine.next = batch->engine.next;
	else
		list->first = batch->engine.next;
	if (list->last == batch)
		list->last = before;
	return true;
}

/* The size of the pieces a segment of `length` bytes, more than a chunk, is cut to. A function of
 * the length alone, so that the cursor needs to remember nothing else. */
static RMEM_COLD uint64_t piece_bytes(const struct rmem_plan_limits *limits, uint64_t length)
{
	uint64_t piece = limits->chunk_bytes;

	if ((length - 1) / piece >= limits->chunks_max) {
		piece = (length - 1) / limits->chunks_max + 1;
		piece = rmem_round_up(piece, RMEM_PAGE_BYTES);
	}
	return rmem_min_u64(piece, limits->piece_max_bytes);
}

/* 0, or what is wrong with the segment. On success target->memory.key is its local key. */
static inline int check(struct rmem_plan_target *target, const struct rmem_segment *segment)
{
	if (RMEM_UNLIKELY(segment->region >= target->region_count))
		return -EINVAL;
	if (RMEM_UNLIKELY(!rmem_range_ok(segment->remote, segment->length,
					 target->regions[segment->region].length)))
		return -ERANGE;
	if (RMEM_UNLIKELY(!rmem_memory_key(&target->memory, segment->local, segment->length)))
		return -EINVAL;
	return 0;
}

/* Takes the segments that continue `last` into the request that ends with it. `length` is what the
 * request carries so far; returns what it carries then. */
static uint64_t merge(struct rmem_plan_target *target, struct rmem_batch *batch, struct rmem_wr *wr,
		      uint64_t length)
{
	const struct rmem_segment *last = &batch->segments[batch->engine.segment - 1];
	struct rmem_sge *sge = &wr->sge[0];

	while (batch->engine.segment < batch->segment_count) {
		const struct rmem_segment *next = last + 1;

		if (RMEM_LIKELY(next->remote != last->remote + last->length))
			break;
		if (next->server != last->server || next->region != last->region)
			break;
		if (next->length == 0 || next->length > target->limits.chunk_bytes ||
		    length + next->length > target->limits.chunk_bytes)
			break;
		if (check(target, next) != 0) /* to be reported when it is its turn */
			break;
		if ((char *)sge->address + sge->length == next->local &&
		    sge->key == target->memory.key) {
			sge->length += (uint32_t)next->length;
		} else if (wr->sge_count < target->limits.sge_max) {
			sge = &wr->sge[wr->sge_count++];
			sge->address = next->local;
			sge->length = (uint32_t)next->length;
			sge->key = target->memory.key;
		} else {
			break;
		}
		length += next->length;
		last = next;
		batch->engine.segment++;
	}
	return length;
}

/* Plans one request for the segment at the cursor, which is `segment`. Returns the bytes it
 * carries, or -errno. */
static int64_t plan_one(struct rmem_plan_target *target, struct rmem_batch *batch,
			const struct rmem_segment *segment, struct rmem_wr *wr)
{
	const struct rmem_plan_limits *limits = &target->limits;
	uint64_t offset = batch->engine.offset;
	uint64_t length = segment->length - offset;
	int rc = check(target, segment);

	if (RMEM_UNLIKELY(rc != 0))
		return rc;
	const struct rmem_remote *region = &target->regions[segment->region];

	wr->remote_address = region->address + segment->remote + offset;
	wr->remote_key = region->key;
	wr->op = batch->op == RMEM_READ ? RMEM_WR_READ : RMEM_WR_WRITE;
	wr->flags = 0;
	wr->sge_count = 1;
	wr->sge[0].address = (char *)segment->local + offset;
	wr->sge[0].key = target->memory.key;
	if (RMEM_UNLIKELY(segment->length > limits->chunk_bytes)) {
		uint64_t piece = piece_bytes(limits, segment->length);

		if (length > piece) {
			wr->sge[0].length = (uint32_t)piece;
			batch->engine.offset = offset + piece;
			return (int64_t)piece;
		}
	}
	wr->sge[0].length = (uint32_t)length;
	batch->engine.offset = 0;
	batch->engine.segment++;
	length = merge(target, batch, wr, length);
	if (length <= limits->inline_bytes && batch->op == RMEM_WRITE)
		wr->flags = RMEM_WR_INLINE;
	return (int64_t)length;
}

/* Region and server of a segment, and its reserve, as one number. */
static inline uint64_t route_of(const struct rmem_segment *segment)
{
	uint64_t route;

	_Static_assert(sizeof(*segment) - offsetof(struct rmem_segment, region) == sizeof(route),
		       "region, server and reserve are the rest of a segment");
	memcpy(&route, (const char *)segment + offsetof(struct rmem_segment, region),
	       sizeof(route));
	return route;
}

/* Eight bytes at once: members given one by one are copied one by one. */
static inline void copy_8(void *to, const void *from)
{
	memcpy(to, from, 8);
}

/* Everything but the places is as in `like`. */
static inline void copy_kind(struct rmem_wr *wr, const struct rmem_wr *like)
{
	_Static_assert(offsetof(struct rmem_wr, sge) - offsetof(struct rmem_wr, remote_key) == 8,
		       "key, operation, flags and number of pieces");
	_Static_assert(sizeof(struct rmem_sge) - offsetof(struct rmem_sge, length) == 8,
		       "length and key");
	wr->id = like->id;
	copy_8(&wr->remote_key, &like->remote_key);
	copy_8(&wr->sge[0].length, &like->sge[0].length);
}

/* The usual case without the questions: segments that differ from `last`, whose request is `first`,
 * in their places only, and do not merge with the one behind them. Plans up to `count` of them,
 * behind which the batch goes on, into the requests after `first`; stops at a segment that is
 * anything else. Returns how many. Has just so many variables that the loop's are in registers. */
static __attribute__((noinline)) uint32_t plan_alike(const struct rmem_plan_target *target,
						     const struct rmem_segment *last,
						     uint32_t count, struct rmem_wr *first)
{
	const struct rmem_segment *const end = last + 1 + count;
	const struct rmem_segment *segment = last + 1;
	const struct rmem_remote *region = &target->regions[last->region];
	const uint64_t route = route_of(last);
	const uint64_t length = last->length;
	const uint64_t remote_max = region->length - length;
	const uint64_t region_address = region->address;
	const uintptr_t local_min = target->memory.start;
	const uint64_t local_max = target->memory.length - length;
	const struct rmem_wr *const like = first;
	struct rmem_wr *wr = first + 1;

	for (; segment < end; segment++, wr++) {
		const uint64_t remote = segment->remote;
		void *const local = segment->local;

		if (RMEM_UNLIKELY(segment->length != length || route_of(segment) != route ||
				  remote > remote_max || (uintptr_t)local - local_min > local_max ||
				  segment[1].remote == remote + length))
			break;
		copy_kind(wr, like);
		wr->remote_address = region_address + remote;
		wr->sge[0].address = local;
	}
	return (uint32_t)(segment - last) - 1;
}

/* How many of the segments at the cursor plan_alike() may plan. */
static inline uint32_t alike_max(const struct rmem_plan_target *target,
				 const struct rmem_batch *batch, const struct rmem_segment *last,
				 const struct rmem_wr *wr, const struct rmem_plan_budget *budget)
{
	uint32_t left = batch->segment_count - batch->engine.segment;
	uint32_t count = budget->wr_max - budget->wr_count;
	uint64_t room = budget->bytes_max - budget->bytes;

	/* What was cut or merged is not alike, and a merge may have met with other memory. */
	if (left < 2 || last + 1 != &batch->segments[batch->engine.segment] ||
	    last->length != wr->sge[0].length || wr->sge[0].key != target->memory.key ||
	    budget->bytes >= budget->bytes_max || route_of(last + 1) != route_of(last))
		return 0;
	if (count > left - 1)
		count = left - 1;
	/* As many as begin before the room is full. */
	if (RMEM_UNLIKELY(count * last->length >= room))
		count = (uint32_t)((room - 1) / last->length) + 1;
	return count;
}

int rmem_plan_fill(struct rmem_plan_target *target, struct rmem_batch *batch, struct rmem_wr *wrs,
		   struct rmem_plan_budget *budget)
{
	const struct rmem_segment *segment;

	budget->wr_count = 0;
	budget->bytes = 0;
	while (budget->wr_count < budget->wr_max && budget->bytes < budget->bytes_max) {
		struct rmem_wr *wr = &wrs[budget->wr_count];
		int64_t length;
		uint32_t count;

		segment = rmem_plan_next(batch);
		if (!segment)
			return RMEM_PLAN_END;
		if (segment->server != target->server)
			return RMEM_PLAN_SERVER;
		length = plan_one(target, batch, segment, wr);
		if (RMEM_UNLIKELY(length < 0))
			return (int)length;
		wr->id = budget->id;
		budget->bytes += (uint64_t)length;
		budget->wr_count++;
		if (batch->engine.segment == batch->segment_count)
			return RMEM_PLAN_END;
		count = alike_max(target, batch, segment, wr, budget);
		if (count > 0) {
			count = plan_alike(target, segment, count, wr);
			batch->engine.segment += count;
			budget->wr_count += count;
			budget->bytes += count * segment->length;
		}
	}
	return RMEM_PLAN_BUDGET;
}
