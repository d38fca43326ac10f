/* SPDX-License-Identifier: Apache-2.0 */
/* Filling and copying memory past the caches.
 *
 * Non-temporal ("streaming") stores write whole lines to memory without reading them first and
 * without evicting what the caches hold. They win for bytes that this CPU won't read soon and
 * lose for bytes that it will: who calls this decides that, see rmem_staging_should_stream().
 *
 * Streaming stores are not ordered by a release or by the next store. Both functions end with a
 * store fence (one a call, whatever the length), so what follows - a doorbell, a flag, a message -
 * needs nothing more than it would need after memcpy().
 *
 * One version is chosen at start; until then plain memset() and memcpy() stand in. All versions
 * write the same bytes, so choosing again while others run is harmless. Any thread may call any
 * function here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/error.h"
#include "engine/base/hint.h"

/* In ascending order of preference. */
enum rmem_stream_isa {
	RMEM_STREAM_AUTO, /* the best that the CPU has */
	RMEM_STREAM_OFF,  /* memset() and memcpy() */
	RMEM_STREAM_SSE2,
	RMEM_STREAM_AVX2,
	RMEM_STREAM_AVX512,
	RMEM_STREAM_ISAS,
};

/* Chooses the version; before threads start, so that all of them see the same speed.
 * Errors: -ENOTSUP (this CPU lacks it, or the operating system doesn't save its registers). */
int rmem_stream_select(enum rmem_stream_isa wanted, struct rmem_error *error) RMEM_MUST_CHECK;

/* What was chosen; never RMEM_STREAM_AUTO. */
enum rmem_stream_isa rmem_stream_isa_selected(void);

/* Whether rmem_stream_select() would take it. AUTO and OFF always are. */
bool rmem_stream_isa_available(enum rmem_stream_isa isa);

/* As the configuration spells it: "auto", "off", "sse2", "avx2", "avx512". */
const char *rmem_stream_isa_name(enum rmem_stream_isa isa);
/* Errors: -EINVAL (no such name). */
int rmem_stream_isa_from_name(const char *name, enum rmem_stream_isa *isa) RMEM_MUST_CHECK;

/* As memset() and memcpy(), for any alignment and length. Overlap is a bug and is asserted. */
void rmem_stream_fill(void *dst, unsigned char byte, size_t length);
void rmem_stream_copy(void *dst, const void *src, size_t length);
