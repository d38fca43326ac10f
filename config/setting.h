/* SPDX-License-Identifier: Apache-2.0 */
/* What config.c and loader.c share of a configuration's inside. */
#pragma once

#include "config/config.h"
#include "config/value.h"

enum conf_layer { CONF_LAYER_DEFAULT, CONF_LAYER_FILE, CONF_LAYER_COMMAND };

struct conf_setting {
	struct conf_value value;
	enum conf_layer layer;
	char *origin; /* NULL for a default */
	bool wrong;   /* something was said about it that is no value: what is here is older */
};

struct conf {
	enum conf_program program;
	struct conf_setting *settings; /* one per row of the schema */
	bool partial;		       /* parts of a file were unreadable or unknown */
};

static inline struct conf_setting *conf_setting_of(const struct conf *conf,
						   const struct conf_key *key)
{
	return &conf->settings[key - conf_schema];
}

/* Puts `value`, whose content it takes over, in the place of what is there. -ENOMEM leaves both
 * with their owners. */
RMEM_MUST_CHECK int conf_setting_replace(struct conf_setting *setting, struct conf_value *value,
					 enum conf_layer layer, const char *origin);

/* Writes the sentence for a key that does not exist, with the nearest one that does. */
void conf_unknown_text(const char *name, char *text, size_t size);
