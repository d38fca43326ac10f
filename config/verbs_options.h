/* SPDX-License-Identifier: Apache-2.0 */
/* From a configuration to the settings of the verbs fabric, for every main() alike. It is a header
 * so that the library of config/ stays without the engine. */
#pragma once

#include <string.h>

#include "config/config.h"
#include "engine/auth.h"
#include "engine/verbs.h"

/* The strings stay the configuration's. Errors: those of rmem_verbs_configure(). */
RMEM_MUST_CHECK static inline int conf_apply_verbs(const struct conf *conf,
						   struct rmem_error *error)
{
	const char *source = conf_text(conf, "verbs.source");
	unsigned mtu = conf_enum(conf, "verbs.mtu");
	const struct rmem_verbs_options options = {
		.source = strcmp(source, "auto") == 0 ? NULL : source,
		.port = conf_count(conf, "verbs.port"),
		.mtu_bytes = mtu == CONF_MTU_AUTO ? 0 : 128u << mtu,
		.retry_count = conf_count(conf, "verbs.retry"),
		.ack_timeout_us = (unsigned)conf_duration_us(conf, "verbs.timeout"),
		.rnr_retry_count = conf_count(conf, "verbs.rnr_retry"),
		.rnr_timer_us = (unsigned)conf_duration_us(conf, "verbs.rnr_timer"),
		.traffic_class = conf_count(conf, "verbs.traffic_class"),
		.inline_bytes = (unsigned)conf_size_bytes(conf, "verbs.inline"),
	};

	return rmem_verbs_configure(&options, error);
}

/* The key by which clients and servers know each other. Errors: those of rmem_auth_set_key_file().
 */
RMEM_MUST_CHECK static inline int conf_apply_key(const struct conf *conf, struct rmem_error *error)
{
	const char *path = conf_text(conf, "auth.key_file");

	return rmem_auth_set_key_file(strcmp(path, "none") == 0 ? NULL : path, error);
}
