/* SPDX-License-Identifier: Apache-2.0 */
/* From a configuration to the streaming stores, for every main() alike. It is a header so that the
 * library of config/ stays without the engine. */
#pragma once

#include "config/config.h"
#include "engine/stream.h"

/* Chooses the version that staging.streaming names. Errors: -ENOTSUP (this CPU lacks it), with the
 * key and where it was set. */
RMEM_MUST_CHECK static inline int conf_apply_streaming(const struct conf *conf,
						       struct rmem_error *error)
{
	static const enum rmem_stream_isa versions[] = {
		[CONF_STREAMING_AUTO] = RMEM_STREAM_AUTO,
		[CONF_STREAMING_AVX512] = RMEM_STREAM_AVX512,
		[CONF_STREAMING_AVX2] = RMEM_STREAM_AVX2,
		[CONF_STREAMING_SSE2] = RMEM_STREAM_SSE2,
		[CONF_STREAMING_OFF] = RMEM_STREAM_OFF,
	};
	int rc = rmem_stream_select(versions[conf_enum(conf, "staging.streaming")], error);

	return rc == 0 ? 0
		       : rmem_fail_prefix(error, rc, "%s: staging.streaming",
					  conf_origin(conf, "staging.streaming"));
}
