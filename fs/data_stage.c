/* SPDX-License-Identifier: Apache-2.0 */
/* Writes into dirty pages, see dirty.h; and looking for data where some of it is dirty.
 *
 * A write is staged as a whole or not at all, under the inode's lock, so it is a point in time for
 * everybody else. It goes through instead
 *  - when all that it needs is on servers of this host, and none of it dirty: the transfer is a
 *    copy, done when it is posted, so staging is the same work twice (options.stage_local asks for
 *    it all the same). Where there are no other servers, nobody comes here: data.c has no pool;
 *  - when it is long: copying it once more would cost what sending it costs;
 *  - when it would leave a gap in the dirty bytes of a page that remote memory holds;
 *  - when a server that it needs is not there, so that the writer learns of it;
 *  - while another write to the file goes through: two on their way to one page must not meet.
 * A write that goes through and touches dirty bytes runs alone at the gate, and the dirty bytes
 * follow it (dirty_overwrite()). */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "engine/stream.h"
#include "engine/stream_policy.h"
#include "fs/data_plan.h"
#include "fs/dirty.h"

#define PAGE	 VOLUME_PAGE_BYTES
#define NOT_THIS 3 /* the write has to go through */

struct stage {
	struct data_shared *shared;
	struct data_request *request;
	struct inode *inode;
	struct dirty_file *file;
	uint64_t begin, end;  /* of the write */
	uint64_t size;	      /* of the file, before */
	uint32_t need;	      /* pages to take from the request */
	bool pays;	      /* some page is far away, or dirty already */
	uint64_t seen_number; /* looked up last, and what was found */
	struct dirty_page *seen;
};

/* The bytes that become dirty on one page: zeros in [from, data), those of the write in
 * [data, data_end), zeros up to `to`. */
struct span {
	uint32_t from, data, data_end, to;
};

static struct span span_of(const struct stage *stage, uint64_t number, bool fresh)
{
	uint64_t base = number * PAGE;
	uint64_t size = stage->size <= base ? 0 : rmem_min_u64(stage->size - base, PAGE);
	struct span span = {
		.data = (uint32_t)(rmem_max_u64(stage->begin, base) - base),
		.data_end = (uint32_t)(rmem_min_u64(stage->end, base + PAGE) - base),
	};

	/* Between the old end and the write there are zeros from now on. */
	span.from = (uint32_t)rmem_min_u64(size, span.data);
	span.to = span.data_end;
	if (fresh) {
		span.from = 0;
		span.to = PAGE;
	}
	return span;
}

/* Whether the page's dirty bytes stay one stretch; counts what it takes. */
static bool fits(struct stage *stage, uint64_t number, const struct span *span)
{
	struct dirty_page *page = dirty_find(stage->file, number);

	stage->seen_number = number;
	stage->seen = page;
	if (page == NULL) {
		stage->need++;
		return true;
	}
	stage->pays = true;
	if (page->state == DIRTY_WRITING)
		stage->need++;
	return span->from <= page->to && span->to >= page->from;
}

/* Whether the piece's server is there; sees whether it is far away. */
static bool is_reachable(struct stage *stage, const struct extent_piece *piece)
{
	const struct volume_region *region = volume_region(stage->shared->volume, piece->region);

	if (piece->kind == EXTENT_HOLE || region == NULL || !region->attached || region->lost)
		return false;
	stage->pays = stage->pays || !region->is_copy;
	return true;
}

static int check_piece(struct stage *stage, const struct extent_piece *piece)
{
	bool fresh = piece->kind == EXTENT_UNWRITTEN;

	if (!is_reachable(stage, piece))
		return NOT_THIS;
	for (uint64_t at = piece->offset; at < piece->offset + piece->length; at += PAGE) {
		struct span span = span_of(stage, at / PAGE, fresh);

		if (!fits(stage, at / PAGE, &span))
			return NOT_THIS;
	}
	return 0;
}

/* The page of the old end, when the write begins behind it, on another page: the rest of it becomes
 * zeros. `span` is empty when there is nothing to do. */
static int check_end(struct stage *stage, struct span *span)
{
	uint64_t number = stage->size / PAGE;
	uint32_t size = (uint32_t)(stage->size % PAGE);
	const struct dirty_page *page;
	struct extent_piece piece;
	int result;

	*span = (struct span){0};
	if (size == 0 || stage->begin / PAGE <= number)
		return 0;
	result = extent_lookup(stage->shared->volume, stage->inode, number * PAGE, PAGE, &piece, 1);
	if (result < 0)
		return result;
	if (piece.kind != EXTENT_WRITTEN)
		return 0;
	page = dirty_find(stage->file, number);
	if (page != NULL && page->to == PAGE && page->from <= size)
		return 0;
	*span = (struct span){.from = size, .data = PAGE, .data_end = PAGE, .to = PAGE};
	return is_reachable(stage, &piece) && fits(stage, number, span) ? 0 : NOT_THIS;
}

/* A page that may be changed. */
static struct dirty_page *open_page(struct stage *stage, uint64_t number)
{
	struct dirty_page *page = number == stage->seen_number
					  ? stage->seen /* all there is of a short write */
					  : dirty_find(stage->file, number);
	struct dirty_page *fresh;

	if (page != NULL && page->state == DIRTY_IDLE)
		return page;
	fresh = stage->request->pages.got;
	stage->request->pages.got = fresh->next;
	if (page != NULL)
		dirty_renew(stage->file, page, fresh);
	else
		dirty_add(stage->file, fresh, number);
	return fresh;
}

/* The policy is asked for the write as a whole: its pages lie here and there. */
static void copy_out(const struct stage *stage, uint8_t *to, const uint8_t *from, size_t length)
{
	const struct rmem_arena *arena = &stage->shared->pool->arena;
	size_t all = stage->end - stage->begin;

	if (all >= arena->stream_threshold_bytes)
		rmem_stream_policy_note_write(&rmem_staging_policy, to, length);
	if (length == PAGE && rmem_staging_should_stream(arena, rmem_round_down(all, PAGE)))
		rmem_stream_copy(to, from, length);
	else
		memcpy(to, from, length);
}

static void fill_page(struct stage *stage, uint64_t number, const struct span *span)
{
	struct dirty_page *page = open_page(stage, number);
	uint64_t base = number * PAGE;

	if (page->to == 0) {
		memset(page->bytes + span->from, 0, span->data - span->from);
		memset(page->bytes + span->data_end, 0, span->to - span->data_end);
		page->from = (uint16_t)span->from;
		page->to = (uint16_t)span->to;
	} else {
		/* A fresh page is dirty as a whole: its bytes before and behind stay. */
		uint64_t zeros = rmem_max_u64(
			span->from,
			stage->size <= base ? 0 : rmem_min_u64(stage->size - base, PAGE));

		if (zeros < span->data)
			memset(page->bytes + zeros, 0, span->data - zeros);
		page->from = (uint16_t)rmem_min_u64(page->from, span->from);
		page->to = (uint16_t)rmem_max_u64(page->to, span->to);
	}
	if (span->data < span->data_end)
		copy_out(stage, page->bytes + span->data,
			 stage->request->buffer + (base + span->data - stage->begin),
			 span->data_end - span->data);
	if (rmem_min_u64(stage->end, base + PAGE) > stage->size)
		dirty_note_growth(stage->file, page, stage->size);
}

static uint32_t length_of(const struct dirty_page *list)
{
	uint32_t count = 0;

	for (; list != NULL; list = list->next)
		count++;
	return count;
}

/* Nothing fails from here on. */
static void fill(struct stage *stage, const struct extent_piece *pieces, unsigned count,
		 const struct span *end_span)
{
	struct data_request *request = stage->request;
	struct inode *inode = stage->inode;

	if (end_span->to > 0)
		fill_page(stage, stage->size / PAGE, end_span);
	for (unsigned i = 0; i < count; i++) {
		bool fresh = pieces[i].kind == EXTENT_UNWRITTEN;

		for (uint64_t at = pieces[i].offset; at < pieces[i].offset + pieces[i].length;
		     at += PAGE) {
			struct span span = span_of(stage, at / PAGE, fresh);

			fill_page(stage, at / PAGE, &span);
		}
	}
	if (stage->end > inode->attr.size)
		inode->attr.size = stage->end;
	data_touch(request, &inode->attr);
	inode_mark_dirty(stage->shared->volume, inode, INODE_DIRTY_ATTR);
}

static int try_stage(struct data_shared *shared, struct data_request *request)
{
	struct extent_piece pieces[DATA_PIECES_MAX];
	struct inode *inode = request->inode;
	struct stage stage = {
		.shared = shared,
		.request = request,
		.inode = inode,
		.file = inode->dirty_file,
		.begin = request->offset,
		.end = request->offset + request->length,
		.size = inode->attr.size,
		.pays = shared->options.stage_local,
		.seen_number = UINT64_MAX,
	};
	uint64_t from = rmem_round_down(stage.begin, PAGE), to = rmem_round_up(stage.end, PAGE);
	struct span end_span;
	int count, result;

	count = extent_lookup(shared->volume, inode, from, to - from, pieces, DATA_PIECES_MAX);
	if (count <= 0)
		return count < 0 ? count : -EIO;
	if (pieces[count - 1].offset + pieces[count - 1].length < to)
		return NOT_THIS;
	result = check_end(&stage, &end_span);
	for (int i = 0; result == 0 && i < count; i++)
		result = check_piece(&stage, &pieces[i]);
	if (result == 0 && (!stage.pays || stage.need > length_of(request->pages.got)))
		return NOT_THIS;
	if (result == 0)
		fill(&stage, pieces, (unsigned)count, &end_span);
	return result == 0 ? DATA_STAGED : result;
}

int data_stage(struct data_shared *shared, struct data_request *request)
{
	struct inode *inode = request->inode;
	uint64_t end = request->offset + request->length;
	int result;

	if (request->pages.got != NULL && inode->through == 0) {
		if (inode->dirty_file == NULL)
			inode->dirty_file = dirty_file_create();
		if (inode->dirty_file == NULL)
			return -ENOMEM;
		result = try_stage(shared, request);
		if (result != NOT_THIS)
			return result;
	}
	if (!request->waiter.exclusive && dirty_overlaps(inode->dirty_file, request->offset, end))
		return DATA_NEED_EXCLUSIVE;
	return 0;
}

/* --- Seeking ---------------------------------------------------------------------------------- */

static int seek_data(struct volume *volume, struct inode *inode, uint64_t offset, uint64_t *found)
{
	uint64_t dirty = dirty_first_from(inode->dirty_file, offset / PAGE);
	int result = extent_seek_data(volume, inode, offset, found);

	if (dirty == UINT64_MAX || (result != 0 && result != -ENXIO))
		return result;
	dirty = rmem_max_u64(dirty * PAGE, offset);
	if (dirty >= inode->attr.size)
		return result;
	*found = result == 0 ? rmem_min_u64(*found, dirty) : dirty;
	return 0;
}

static int seek_hole(struct volume *volume, struct inode *inode, uint64_t offset, uint64_t *found)
{
	int result;

	for (;;) {
		result = extent_seek_hole(volume, inode, offset, found);
		if (result != 0 || *found >= inode->attr.size ||
		    dirty_find(inode->dirty_file, *found / PAGE) == NULL)
			return result;
		offset = (*found / PAGE + 1) * PAGE;
		if (offset >= inode->attr.size) {
			*found = inode->attr.size;
			return 0;
		}
	}
}

int data_seek(struct volume *volume, struct inode *inode, int whence, uint64_t offset,
	      uint64_t *found)
{
	return whence == SEEK_DATA ? seek_data(volume, inode, offset, found)
				   : seek_hole(volume, inode, offset, found);
}
