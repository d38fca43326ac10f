/* SPDX-License-Identifier: Apache-2.0 */
/* Truncation and fallocate. They always run alone at the gate. */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>

#include "engine/base/checked.h"
#include "fs/data_plan.h"
#include "fs/dirty.h"

int data_plan_truncate(struct data_shared *shared, struct data_request *request)
{
	if (request->offset > request->inode->attr.size)
		return data_zero_gap(shared, request, request->offset);
	return 0;
}

/* Pages that stopped being dirty may have kept a size and a written state from the store. */
static void note_dropped(struct data_shared *shared, struct data_request *request)
{
	if (request->pages.got != NULL)
		inode_mark_dirty(shared->volume, request->inode,
				 INODE_DIRTY_ATTR | INODE_DIRTY_MAP);
}

int data_apply_truncate(struct data_shared *shared, struct data_request *request)
{
	struct inode *inode = request->inode;
	struct inode_attr attr = inode->attr;
	bool shrinks = request->offset < attr.size;
	int result;

	attr.size = request->offset;
	data_touch(request, &attr);
	if (!shrinks || attr.pages == 0) {
		inode->attr = attr;
		inode_mark_dirty(shared->volume, inode, INODE_DIRTY_ATTR);
		return 0;
	}
	result = extent_unmap(shared->volume, inode,
			      rmem_round_up(request->offset, VOLUME_PAGE_BYTES), UINT64_MAX, &attr);
	if (result == 0) {
		request->pages.got = dirty_truncate(inode->dirty_file, request->offset);
		note_dropped(shared, request);
	}
	return result;
}

/* The edges of a range that is to read as zeros, where they share a page with what stays. */
static int plan_zero_edges(struct data_shared *shared, struct data_request *request)
{
	uint64_t begin = request->offset, end = begin + request->length;
	uint64_t head_end = rmem_min_u64(rmem_round_up(begin, VOLUME_PAGE_BYTES), end);
	uint64_t tail_begin = rmem_max_u64(rmem_round_down(end, VOLUME_PAGE_BYTES), head_end);
	int result;

	result = data_zero_within_page(shared, request, begin, head_end);
	if (result != 0)
		return result;
	return data_zero_within_page(shared, request, tail_begin, end);
}

int data_plan_fallocate(struct data_shared *shared, struct data_request *request)
{
	int operation = request->mode & ~FALLOC_FL_KEEP_SIZE;
	uint64_t end = request->offset + request->length;
	int result;

	if (operation == FALLOC_FL_PUNCH_HOLE)
		return request->mode & FALLOC_FL_KEEP_SIZE ? plan_zero_edges(shared, request)
							   : -EOPNOTSUPP;
	if (operation != 0 && operation != FALLOC_FL_ZERO_RANGE)
		return -EOPNOTSUPP;
	result = extent_allocate(shared->volume, request->inode, request->offset, request->length,
				 EXTENT_EXACT);
	if (result == 0 && operation == FALLOC_FL_ZERO_RANGE)
		result = plan_zero_edges(shared, request);
	if (result == 0 && !(request->mode & FALLOC_FL_KEEP_SIZE) &&
	    end > request->inode->attr.size)
		result = data_zero_gap(shared, request, end);
	return result;
}

int data_apply_fallocate(struct data_shared *shared, struct data_request *request)
{
	struct inode *inode = request->inode;
	struct inode_attr attr = inode->attr;
	uint64_t end = request->offset + request->length;
	unsigned dirty = INODE_DIRTY_ATTR;

	data_touch(request, &attr);
	if (request->mode & FALLOC_FL_PUNCH_HOLE) {
		int result = extent_unmap(shared->volume, inode, request->offset, request->length,
					  &attr);

		if (result == 0) {
			request->pages.got = dirty_punch(inode->dirty_file, request->offset, end);
			note_dropped(shared, request);
		}
		return result;
	}
	if (request->mode & FALLOC_FL_ZERO_RANGE) {
		request->pages.got = dirty_punch(inode->dirty_file, request->offset, end);
		extent_mark_unwritten(shared->volume, inode, request->offset, request->length);
		dirty |= INODE_DIRTY_MAP;
	}
	if (!(request->mode & FALLOC_FL_KEEP_SIZE) && end > attr.size)
		attr.size = end;
	inode->attr = attr;
	inode_mark_dirty(shared->volume, inode, dirty);
	return 0;
}
