/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/options.h"
#include "config/verbs_options.h"
#include "fs/channel.h"

static void print_help(void)
{
	printf("usage: rmemfs CONFIG MOUNTPOINT [-o OPT[,OPT...]] [-f] [--set KEY=VALUE]...\n"
	       "Mounts remote memory as a filesystem and returns once the mount is usable.\n\n"
	       "  -o OPT,...            mount options, see mount.fuse3(8)\n"
	       "  -f, --foreground      stay in the foreground, log to stderr\n"
	       "                        unless log.sink says otherwise\n" CONF_OPTIONS_HELP
	       "  -h, --help            this text\n"
	       "  -V, --version         the version\n\n"
	       "Unmount with `umount MOUNTPOINT` (or fusermount3 -u), or send SIGTERM.\n"
	       "From fstab: /etc/rmemfs.cfg /mnt/r fuse.rmemfs _netdev 0 0\n");
}

static int take_arguments(struct options *options, struct conf_options *common, int argc,
			  char **argv)
{
	if (optind < argc && common->file == NULL)
		common->file = argv[optind++];
	if (optind < argc)
		options->mountpoint = argv[optind++];
	options->config_path = common->file;
	if (optind < argc) {
		fprintf(stderr,
			"rmemfs: %s: one CONFIG and one MOUNTPOINT are expected; try --help\n",
			argv[optind]);
		return -1;
	}
	if (common->help)
		return 0;
	if (common->file == NULL) {
		fprintf(stderr, "rmemfs: no CONFIG given; try --help\n");
		return -1;
	}
	if (options->mountpoint == NULL && !common->check) {
		fprintf(stderr, "rmemfs: no MOUNTPOINT given; try --help\n");
		return -1;
	}
	return 0;
}

/* 1: done; -1: wrong; 0: go on. */
static int take_option(struct options *options, struct conf_options *common, int option)
{
	if (conf_options_take(common, option, optarg))
		return 0;
	switch (option) {
	case 'o':
		if (options->mount_option_count == OPTIONS_MOUNT_MAX) {
			fprintf(stderr, "rmemfs: more than %d times -o; join them with commas\n",
				OPTIONS_MOUNT_MAX);
			return -1;
		}
		options->mount_options[options->mount_option_count++] = optarg;
		return 0;
	case 'f':
		options->foreground = true;
		return 0;
	case 'h':
		print_help();
		return 1;
	case 'V':
		printf("rmemfs %s\n", RMEM_VERSION);
		return 1;
	default:
		fprintf(stderr, "rmemfs: try --help\n");
		return -1;
	}
}

int options_parse(struct options *options, int argc, char **argv)
{
	static const struct option long_options[] = {
		CONF_LONG_OPTIONS,
		{"foreground", no_argument, NULL, 'f'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{0},
	};
	struct conf_options common;
	int option, result = 0;

	*options = (struct options){0};
	conf_options_init(&common, CONF_RMEMFS);
	common.inspect = conf_apply_key;
	while (result == 0 &&
	       (option = getopt_long(argc, argv, "c:o:fhV", long_options, NULL)) != -1)
		result = take_option(options, &common, option);
	if (result == 0)
		result = take_arguments(options, &common, argc, argv);
	if (result != 0) {
		conf_options_finish(&common);
		return result;
	}
	switch (conf_options_load(&common, &options->conf)) {
	case CONF_RUN:
		return 0;
	case CONF_DONE:
		return 1;
	case CONF_FAIL:
		break;
	}
	return -1;
}

void options_finish(struct options *options)
{
	conf_destroy(options->conf);
	options->conf = NULL;
}

static unsigned to_ms(uint64_t us)
{
	return (unsigned)((us + 999) / 1000);
}

/* All but the first work only when many requests wait, so as many as there are processors do no
 * harm; more than four only pay off with more than one fast link. */
static unsigned default_reactors(void)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	return processors < 1 ? 1 : processors > 4 ? 4 : (unsigned)processors;
}

static enum rmem_huge_pages huge_pages(const struct conf *conf)
{
	static const enum rmem_huge_pages policies[] = {
		[CONF_HUGE_AUTO] = RMEM_HUGE_AUTO,
		[CONF_HUGE_OFF] = RMEM_HUGE_OFF,
		[CONF_HUGE_REQUIRE] = RMEM_HUGE_REQUIRE,
	};

	return policies[conf_enum(conf, "staging.huge_pages")];
}

void options_engine(const struct conf *conf, struct rmem_engine_options *engine)
{
	static const enum rmem_poll_mode poll_modes[] = {
		[CONF_POLL_BUSY] = RMEM_POLL_BUSY,
		[CONF_POLL_EVENT] = RMEM_POLL_EVENT,
		[CONF_POLL_ADAPTIVE] = RMEM_POLL_ADAPTIVE,
	};
	rmem_engine_options_init(engine);
	engine->reactor_count = conf_count(conf, "fs.reactors");
	if (engine->reactor_count == 0)
		engine->reactor_count = default_reactors();
	engine->poll = poll_modes[conf_enum(conf, "engine.poll")];
	engine->spin_us = (unsigned)conf_duration_us(conf, "engine.spin");
	engine->lanes = conf_count(conf, "engine.lanes");
	engine->depth = conf_count(conf, "engine.depth");
	engine->post_batch = conf_count(conf, "engine.post_batch");
	engine->chunk_bytes = conf_size_bytes(conf, "engine.chunk");
	engine->chunks_max = conf_count(conf, "engine.max_chunks");
	engine->staging_slot_bytes = CHANNEL_SLOT_BYTES;
	engine->staging_bytes = conf_size_bytes(conf, "staging.size");
	engine->stream_threshold_bytes = conf_size_bytes(conf, "staging.stream_threshold");
	engine->huge_pages = huge_pages(conf);
	engine->connect_timeout_ms = to_ms(conf_duration_us(conf, "engine.connect_timeout"));
	engine->detect_ms = to_ms(conf_duration_us(conf, "engine.detect"));
	engine->reconnect_min_ms = to_ms(conf_duration_us(conf, "engine.reconnect_min"));
	engine->reconnect_max_ms = to_ms(conf_duration_us(conf, "engine.reconnect_max"));
}

void options_volume(const struct conf *conf, const char *holder, struct volume_options *volume)
{
	*volume = (struct volume_options){
		.store =
			{
				.url = conf_text(conf, "store.url"),
				.sync_commits = conf_enum(conf, "store.sync") == CONF_SYNC_COMMIT,
				.map_bytes = conf_size_bytes(conf, "store.map_size"),
				.holder = holder,
			},
		.stripe_bytes = conf_size_bytes(conf, "fs.stripe"),
		.sync_interval_ms = to_ms(conf_duration_us(conf, "store.sync_interval")),
	};
}

void options_data(const struct conf *conf, struct data_options *data)
{
	bool back = conf_enum(conf, "fs.write") == CONF_WRITE_BACK;

	*data = (struct data_options){
		.grace_ms = (unsigned)(conf_duration_us(conf, "engine.detect") / 1000),
		.wait_ms = (unsigned)(conf_duration_us(conf, "fs.wait") / 1000),
		.dirty_bytes = back ? conf_size_bytes(conf, "fs.dirty_limit") : 0,
		.dirty_age_ms = to_ms(conf_duration_us(conf, "fs.dirty_age")),
		.stage_bytes = conf_size_bytes(conf, "fs.stage_max"),
		.stage_local = conf_bool(conf, "fs.stage_local"),
		.huge_pages = huge_pages(conf),
		.stream_threshold_bytes = conf_size_bytes(conf, "staging.stream_threshold"),
	};
}

enum mount_cache options_cache(const struct conf *conf)
{
	switch ((enum conf_cache)conf_enum(conf, "fs.cache")) {
	case CONF_CACHE_NONE:
		return MOUNT_CACHE_NONE;
	case CONF_CACHE_AUTO:
		return MOUNT_CACHE_AUTO;
	case CONF_CACHE_DEFAULT: /* the only store there is admits one mount at a time */
	case CONF_CACHE_ALWAYS:
		break;
	}
	return MOUNT_CACHE_ALWAYS;
}
