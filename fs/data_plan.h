/* SPDX-License-Identifier: Apache-2.0 */
/* The halves of a data request that happen under the inode's lock: plan before the transfer, apply
 * after it. Private to data*.c. */
#pragma once

#include "fs/data.h"

struct data_shared {
	struct rmem_engine *engine;
	struct volume *volume;
	unsigned wait_ms;
	void *zeros; /* one registered page of zeros, the source of padding */
	struct rmem_memory *zeros_memory;
};

/* From plan: the request must run alone; enter the gate again, exclusively. */
#define DATA_NEED_EXCLUSIVE 1

/* Fills in request->segments and ->transferred. 0, DATA_NEED_EXCLUSIVE or -errno; -ENOTCONN: a
 * server is not there now. May be called again for the same request. */
int data_plan(struct data_shared *shared, struct data_request *request) RMEM_MUST_CHECK;
int data_plan_truncate(struct data_shared *shared, struct data_request *request) RMEM_MUST_CHECK;
int data_plan_fallocate(struct data_shared *shared, struct data_request *request) RMEM_MUST_CHECK;

/* The bytes have moved: makes the change visible. 0 or -errno. */
int data_apply(struct data_shared *shared, struct data_request *request) RMEM_MUST_CHECK;
int data_apply_truncate(struct data_shared *shared, struct data_request *request) RMEM_MUST_CHECK;
int data_apply_fallocate(struct data_shared *shared, struct data_request *request) RMEM_MUST_CHECK;

/* Adds a segment for `length` bytes at file offset `at` within `piece`. */
int data_add_segment(struct data_shared *shared, struct data_request *request,
		     const struct extent_piece *piece, uint64_t at, uint64_t length,
		     void *local) RMEM_MUST_CHECK;

/* Zeros the part of [from, to) that lies on a written page; both lie on one page. */
int data_zero_within_page(struct data_shared *shared, struct data_request *request, uint64_t from,
			  uint64_t to) RMEM_MUST_CHECK;

/* What lies between the old end of the file and `upto` on the page of the old end holds no meaning
 * so far, and may hold old bytes: it becomes part of the file now, so it is zeroed. */
int data_zero_gap(struct data_shared *shared, struct data_request *request,
		  uint64_t upto) RMEM_MUST_CHECK;

/* attr with times and privileges as after a change of data. */
void data_touch(struct data_request *request, struct inode_attr *attr);
