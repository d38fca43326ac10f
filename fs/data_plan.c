/* SPDX-License-Identifier: Apache-2.0 */
/* Planning and applying reads and writes.
 *
 * Two rules keep bytes of earlier owners of a page from ever being seen:
 *  - a page counts as written only after all of it that lies within the file was written. A write
 *    that covers a fresh page in part pads the rest, up to the end of the file, with zeros;
 *  - bytes behind the end of the file mean nothing. Whoever moves the end further zeroes what comes
 *    in between on the old last page (data_zero_gap()).
 * Pads and gaps must not race with another write to the same page, so they run alone at the gate. A
 * file written in whole pages, or appended to, never needs them. */
#include "fs/data_plan.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/checked.h"
#include "fs/dirty.h"

int data_add_segment(struct data_shared *shared, struct data_request *request,
		     const struct extent_piece *piece, uint64_t at, uint64_t length, void *local)
{
	const struct volume_region *region = volume_region(shared->volume, piece->region);
	struct rmem_segment *segment;

	if (RMEM_UNLIKELY(region == NULL || region->lost))
		return -EIO;
	if (RMEM_UNLIKELY(!region->attached))
		return -ENOTCONN;
	if (RMEM_UNLIKELY(request->segment_count == DATA_SEGMENTS_MAX))
		return -EIO;
	segment = &request->segments[request->segment_count++];
	*segment = (struct rmem_segment){
		.local = local,
		.remote = piece->region_offset + (at - piece->offset),
		.length = length,
		.region = region->server_region,
		.server = region->server,
	};
	return 0;
}

void data_touch(struct data_request *request, struct inode_attr *attr)
{
	uint32_t mode = attr->mode;

	if (!(request->flags & DATA_KEEP_TIMES))
		attr->mtime_ns = attr->ctime_ns = inode_now_ns();
	if (!(request->flags & DATA_DROP_PRIVILEGES))
		return;
	attr->mode &= ~(uint32_t)S_ISUID;
	if (attr->mode & S_IXGRP)
		attr->mode &= ~(uint32_t)S_ISGID;
	request->dropped = attr->mode != mode;
}

int data_zero_within_page(struct data_shared *shared, struct data_request *request, uint64_t from,
			  uint64_t to)
{
	struct dirty_range dirty;
	struct extent_piece piece;
	int result;

	if (from >= to)
		return 0;
	result = extent_lookup(shared->volume, request->inode, from, to - from, &piece, 1);
	if (result < 0)
		return result;
	if (piece.kind != EXTENT_WRITTEN)
		return 0;
	/* What is dirty is zeroed where it is, with the rest of the change. */
	if (!dirty_next(request->inode->dirty_file, from, to, &dirty))
		return data_add_segment(shared, request, &piece, from, to - from, shared->zeros);
	if (from < dirty.offset) {
		result = data_add_segment(shared, request, &piece, from, dirty.offset - from,
					  shared->zeros);
		if (result != 0)
			return result;
	}
	from = dirty.offset + dirty.length;
	return from < to ? data_add_segment(shared, request, &piece, from, to - from, shared->zeros)
			 : 0;
}

int data_zero_gap(struct data_shared *shared, struct data_request *request, uint64_t upto)
{
	uint64_t size = request->inode->attr.size;

	return data_zero_within_page(shared, request, size,
				     rmem_min_u64(rmem_round_up(size, VOLUME_PAGE_BYTES), upto));
}

/* [at, end) holds nothing dirty. */
static int plan_read_clean(struct data_shared *shared, struct data_request *request, uint64_t at,
			   uint64_t end)
{
	struct extent_piece pieces[DATA_PIECES_MAX];

	while (at < end) {
		int count = extent_lookup(shared->volume, request->inode, at, end - at, pieces,
					  DATA_PIECES_MAX);
		if (count <= 0)
			return count < 0 ? count : -EIO;
		for (int i = 0; i < count; i++) {
			uint8_t *local = request->buffer + (at - request->offset);
			int result = 0;

			/* The kernel reads these zeros next: ordinary stores, not streaming. */
			if (pieces[i].kind == EXTENT_WRITTEN)
				result = data_add_segment(shared, request, &pieces[i], at,
							  pieces[i].length, local);
			else
				memset(local, 0, pieces[i].length);
			if (result != 0)
				return result;
			at += pieces[i].length;
		}
	}
	return 0;
}

/* Dirty bytes are copied now: they may be flushed, and overwritten, before the rest arrives. */
static int plan_read(struct data_shared *shared, struct data_request *request)
{
	uint64_t size = request->inode->attr.size, at = request->offset, end;
	struct dirty_range dirty;
	int result;

	request->transferred = 0;
	if (at >= size)
		return 0;
	end = at + rmem_min_u64(request->length, size - at);
	request->transferred = end - at;
	while (dirty_next(request->inode->dirty_file, at, end, &dirty)) {
		result = plan_read_clean(shared, request, at, dirty.offset);
		if (result != 0)
			return result;
		rmem_staging_copy_in(request->buffer + (dirty.offset - request->offset),
				     dirty.bytes, dirty.length);
		at = dirty.offset + dirty.length;
	}
	return plan_read_clean(shared, request, at, end);
}

/* One piece of the pages that a write touches. Fresh pages get pads in front and, within the file,
 * behind. */
static int plan_write_piece(struct data_shared *shared, struct data_request *request,
			    const struct extent_piece *piece)
{
	uint64_t begin = request->offset, end = begin + request->length;
	uint64_t piece_end = piece->offset + piece->length;
	uint64_t from = rmem_max_u64(piece->offset, begin), to = rmem_min_u64(piece_end, end);
	uint64_t pad_end = rmem_min_u64(piece_end, request->inode->attr.size);
	int result;

	if (piece->kind == EXTENT_HOLE)
		return -EIO; /* extent_allocate() left none */
	if (piece->kind == EXTENT_UNWRITTEN) {
		request->fresh = true;
		if (!request->waiter.exclusive && (from > piece->offset || pad_end > to))
			return DATA_NEED_EXCLUSIVE;
		if (from > piece->offset) {
			result = data_add_segment(shared, request, piece, piece->offset,
						  from - piece->offset, shared->zeros);
			if (result != 0)
				return result;
		}
		if (pad_end > to) {
			result = data_add_segment(shared, request, piece, to, pad_end - to,
						  shared->zeros);
			if (result != 0)
				return result;
		}
	}
	return data_add_segment(shared, request, piece, from, to - from,
				request->buffer + (from - begin));
}

static int plan_write(struct data_shared *shared, struct data_request *request)
{
	struct extent_piece pieces[DATA_PIECES_MAX];
	struct inode *inode = request->inode;
	uint64_t at = rmem_round_down(request->offset, VOLUME_PAGE_BYTES);
	uint64_t end = rmem_round_up(request->offset + request->length, VOLUME_PAGE_BYTES);
	int result;

	request->transferred = request->length;
	request->fresh = false;
	if (request->length == 0)
		return 0;
	result = extent_allocate(shared->volume, inode, request->offset, request->length,
				 EXTENT_GROW);
	if (result == 0 && shared->pool != NULL)
		result = data_stage(shared, request);
	if (result != 0)
		return result;
	if (request->offset > inode->attr.size) {
		result = data_zero_gap(shared, request, request->offset);
		if (result != 0)
			return result;
		if (request->segment_count > 0 && !request->waiter.exclusive)
			return DATA_NEED_EXCLUSIVE;
	}
	while (at < end) {
		int count =
			extent_lookup(shared->volume, inode, at, end - at, pieces, DATA_PIECES_MAX);
		if (count <= 0)
			return count < 0 ? count : -EIO;
		for (int i = 0; i < count; i++) {
			result = plan_write_piece(shared, request, &pieces[i]);
			if (result != 0)
				return result;
			at += pieces[i].length;
		}
	}
	return 0;
}

static int apply_write(struct data_shared *shared, struct data_request *request)
{
	struct inode *inode = request->inode;
	uint64_t end = request->offset + request->length;
	unsigned dirty = INODE_DIRTY_ATTR;

	if (request->length == 0)
		return 0;
	if (request->waiter.exclusive) /* else nothing of it is dirty */
		dirty_overwrite(inode->dirty_file, request->offset, end, request->buffer);
	if (request->fresh) {
		extent_mark_written(shared->volume, inode, request->offset, request->length);
		dirty |= INODE_DIRTY_MAP;
	}
	if (end > inode->attr.size)
		inode->attr.size = end;
	data_touch(request, &inode->attr);
	inode_mark_dirty(shared->volume, inode, dirty);
	return 0;
}

int data_plan(struct data_shared *shared, struct data_request *request)
{
	request->segment_count = 0;
	switch (request->kind) {
	case DATA_READ:
		return plan_read(shared, request);
	case DATA_WRITE:
		return plan_write(shared, request);
	case DATA_TRUNCATE:
		return data_plan_truncate(shared, request);
	case DATA_FALLOCATE:
		return data_plan_fallocate(shared, request);
	case DATA_TRIM:
	case DATA_DISCARD:
	case DATA_SYNC:
		return 0;
	}
	return -EINVAL;
}

int data_apply(struct data_shared *shared, struct data_request *request)
{
	switch (request->kind) {
	case DATA_READ:
		return 0;
	case DATA_WRITE:
		return apply_write(shared, request);
	case DATA_TRUNCATE:
		return data_apply_truncate(shared, request);
	case DATA_FALLOCATE:
		return data_apply_fallocate(shared, request);
	case DATA_TRIM:
		return extent_trim(shared->volume, request->inode);
	case DATA_DISCARD:
		request->pages.got = dirty_truncate(request->inode->dirty_file, 0);
		return 0;
	case DATA_SYNC:
		return 0;
	}
	return -EINVAL;
}
