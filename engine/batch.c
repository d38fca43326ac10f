/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/batch.h"

#include <errno.h>

#include "engine/base/checked.h"

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

/* The usual case without the questions: segments that need no cut and no merge, in the region and
 * the local memory of the one before. What the loop needs is in few local variables, because the
 * compiler must otherwise fear that a store to a request changed it. Both the region and the memory
 * hold a chunk at least, so "the end lies within" is one comparison. Stops at the first segment
 * that is anything else, which is plan_one()'s. */
static void plan_plain(const struct rmem_plan_target *target, struct rmem_batch *batch,
		       struct rmem_wr *wrs, struct rmem_plan_budget *budget)
{
	const struct rmem_segment *segment = &batch->segments[batch->engine.segment];
	const struct rmem_remote *region = &target->regions[segment->region];
	uint32_t left = batch->segment_count - batch->engine.segment - 1;
	uint32_t max = budget->wr_max - budget->wr_count;
	const struct rmem_segment *end = segment + (left < max ? left : max);
	const struct rmem_segment *first = segment;
	const uint64_t chunk = target->limits.chunk_bytes;
	const uint64_t inline_bytes = batch->op == RMEM_WRITE ? target->limits.inline_bytes : 0;
	const uint64_t region_bytes = region->length;
	const uint64_t region_address = region->address;
	const uint32_t region_key = region->key;
	const uintptr_t memory_start = target->memory.start;
	const uint64_t memory_bytes = target->memory.length;
	const uint32_t memory_key = target->memory.key;
	const uint32_t region_index = segment->region;
	const uint32_t server = target->server;
	const uint8_t op = batch->op == RMEM_READ ? RMEM_WR_READ : RMEM_WR_WRITE;
	const uint64_t id = budget->id;
	struct rmem_wr *wr = &wrs[budget->wr_count];
	uint64_t bytes = budget->bytes;

	if (region_bytes < chunk || memory_bytes < chunk)
		return;
	for (; segment < end && bytes < budget->bytes_max; segment++, wr++) {
		uint64_t length = segment->length;
		uint64_t remote = segment->remote;
		void *local = segment->local;

		if (RMEM_UNLIKELY(length - 1 >= chunk || remote > region_bytes - length ||
				  (uintptr_t)local - memory_start > memory_bytes - length))
			break;
		if (RMEM_UNLIKELY(segment[1].remote == remote + length))
			break;
		if (RMEM_UNLIKELY(segment->region != region_index || segment->server != server))
			break;
		wr->id = id;
		wr->remote_address = region_address + remote;
		wr->remote_key = region_key;
		wr->op = op;
		wr->flags = length <= inline_bytes ? RMEM_WR_INLINE : 0;
		wr->sge_count = 1;
		wr->sge[0].address = local;
		wr->sge[0].length = (uint32_t)length;
		wr->sge[0].key = memory_key;
		bytes += length;
	}
	batch->engine.segment += (uint32_t)(segment - first);
	budget->wr_count += (uint32_t)(segment - first);
	budget->bytes = bytes;
}

int rmem_plan_fill(struct rmem_plan_target *target, struct rmem_batch *batch, struct rmem_wr *wrs,
		   struct rmem_plan_budget *budget)
{
	const struct rmem_segment *segment;

	budget->wr_count = 0;
	budget->bytes = 0;
	while (budget->wr_count < budget->wr_max && budget->bytes < budget->bytes_max) {
		int64_t length;

		segment = rmem_plan_next(batch);
		if (!segment)
			return RMEM_PLAN_END;
		if (segment->server != target->server)
			return RMEM_PLAN_SERVER;
		/* Does the first, finds its memory and all that is special about it. */
		length = plan_one(target, batch, segment, &wrs[budget->wr_count]);
		if (RMEM_UNLIKELY(length < 0))
			return (int)length;
		wrs[budget->wr_count].id = budget->id;
		budget->bytes += (uint64_t)length;
		budget->wr_count++;
		if (batch->engine.segment < batch->segment_count && batch->engine.offset == 0 &&
		    batch->segments[batch->engine.segment].region < target->region_count)
			plan_plain(target, batch, wrs, budget);
	}
	return RMEM_PLAN_BUDGET;
}
