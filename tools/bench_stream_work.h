/* SPDX-License-Identifier: Apache-2.0 */
/* What rmem-bench stream measures: one way of writing, at one size, to memory in the caches or out
 * of them, and reading back what was written. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/staging.h"
#include "engine/stream.h"

/* Pieces are written in batches of about this many bytes, then the batch is read back: enough for
 * the clock, little enough for the second-level cache. */
#define BENCH_STREAM_BATCH_BYTES ((size_t)64 << 10)

struct bench_stream_area {
	unsigned char *memory; /* what is written; far more than the caches hold */
	unsigned char *source; /* size_max bytes, and as many to read into */
	size_t bytes, size_max;
	struct rmem_arena arena; /* for the policy's threshold */
};

/* For pieces up to `size_max`. `threshold_bytes` as staging.stream_threshold. Errors: -ENOMEM. */
int bench_stream_area_init(struct bench_stream_area *area, size_t size_max, size_t threshold_bytes,
			   struct rmem_error *error) RMEM_MUST_CHECK;
void bench_stream_area_finish(struct bench_stream_area *area);

enum bench_stream_op { BENCH_STREAM_FILL, BENCH_STREAM_COPY, BENCH_STREAM_OPS };

struct bench_stream_load {
	enum bench_stream_op op;
	bool is_cold; /* the destination is in no cache; the source is, if it fits */
	enum rmem_stream_isa isa;
	size_t size;
	uint64_t limit_ns;
};

struct bench_stream_result {
	double write_gb_per_s, read_gb_per_s; /* 10^9 bytes */
};

/* Selects load->isa, which the CPU must have. */
void bench_stream_measure(const struct bench_stream_area *area,
			  const struct bench_stream_load *load, struct bench_stream_result *result);

/* Half reads: writes a piece to cold memory, copies the one from there that was written `behind`
 * bytes of writes before (0: the same), and so on. GB/s of what was written. */
enum bench_stream_mix { BENCH_MIX_PLAIN, BENCH_MIX_STREAMED, BENCH_MIX_POLICY, BENCH_MIXES };
double bench_stream_mixed(const struct bench_stream_area *area, enum bench_stream_mix mix,
			  size_t size, size_t behind, uint64_t limit_ns);
