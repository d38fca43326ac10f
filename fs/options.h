/* SPDX-License-Identifier: Apache-2.0 */
/* From the command line and the configuration to the option structs of the modules. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "engine/rmem.h"
#include "fs/mount.h"
#include "fs/volume.h"

#define OPTIONS_MOUNT_MAX 32

struct options {
	struct conf *conf;
	const char *config_path, *mountpoint;
	bool foreground;
	const char *mount_options[OPTIONS_MOUNT_MAX]; /* -o */
	size_t mount_option_count;
};

/* 0: go on; 1: done, exit with 0 (help, version, --check-config); -1: exit with 1, it was said why.
 */
int options_parse(struct options *options, int argc, char **argv) RMEM_MUST_CHECK;
void options_finish(struct options *options);

void options_engine(const struct conf *conf, struct rmem_engine_options *engine);
void options_volume(const struct conf *conf, const char *holder, struct volume_options *volume);
void options_data(const struct conf *conf, struct data_options *data);
enum mount_cache options_cache(const struct conf *conf);
