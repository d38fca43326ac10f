/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/dispatch_script.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct drig rig;

struct script script;

static uint32_t accept(void *user, unsigned lane, uint32_t count, int *rc)
{
	(void)user;
	(void)lane;
	if (script.times == 0 || script.accept >= count)
		return count;
	script.times--;
	*rc = script.rc;
	return script.accept;
}

static enum rmem_wc_status execute(void *user, unsigned lane, const struct rmem_wr *wr)
{
	(void)user;
	(void)lane;
	return wr->remote_address == script.fail_remote ? script.status : RMEM_WC_OK;
}

const struct fake_hooks script_hooks = {.accept = accept, .execute = execute};

void script_start(const struct drig_shape *shape)
{
	memset(&script, 0, sizeof(script));
	script.fail_remote = UINT64_MAX;
	drig_start(&rig, shape);
	fake_set_hooks(&script_hooks);
}

void script_start_plain(void)
{
	script_start(&(struct drig_shape){.servers = 1, .lanes = 1, .depth = 64, .post_batch = 32});
}

/* `count` segments of 512 bytes, none next to another, at places of their own. */
struct drig_batch *script_batch(enum rmem_op op, unsigned first, unsigned count)
{
	struct drig_batch *batch = drig_batch(op, count);

	for (unsigned i = 0; i < count; i++)
		batch->segments[i] = (struct rmem_segment){
			.local = rig.local + (size_t)(first + i) * 512,
			.remote = (uint64_t)(first + i) * 1024,
			.length = 512,
		};
	return batch;
}

void script_paint(unsigned first, unsigned count)
{
	for (unsigned i = 0; i < count * 512; i++)
		rig.local[first * 512 + i] = (uint8_t)((i * 14 + i / 512 * 2) | 1); /* not 0 */
}

/* Whether the segment's bytes have arrived. */
bool script_arrived(unsigned segment)
{
	return memcmp(fake_server_bytes(rig.urls[0], 0) + (size_t)segment * 1024,
		      rig.local + (size_t)segment * 512, 512) == 0;
}

void script_run_all(void)
{
	for (unsigned i = 0; i < 100; i++) {
		for (unsigned lane = 0; lane < fake_lane_count(); lane++)
			fake_run(lane, UINT32_MAX);
		drig_turn(&rig);
	}
}

void script_expect_end(struct drig_batch *batch, int status)
{
	ck_assert_uint_eq(batch->ended, 1);
	ck_assert_int_eq(batch->status, status);
	ck_assert(!batch->was_outstanding);
	free(batch);
}

uint64_t script_stat(enum rmem_stat which)
{
	struct rmem_stats_snapshot snapshot;

	rmem_stats_read(&rig.metrics.stats, &snapshot);
	return snapshot.values[which];
}
