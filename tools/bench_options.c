/* SPDX-License-Identifier: Apache-2.0 */
/* The table of rmem-bench's options. */
#include "engine/rmem.h"
#include "tools/bench_settings.h"

#define SEC UINT64_C(1000000)

#define BATCH_MAX     65536u
#define IN_FLIGHT_MAX 1024u

#define BOTH	    (BENCH_BW | BENCH_LAT)
#define FIELD(name) offsetof(struct bench_settings, name)
#define WORDS(...)  ((const char *const[]){__VA_ARGS__, NULL})

#define COUNT(least, most, default_)                                                               \
	{                                                                                          \
		.type = CONF_COUNT, .min = (least), .max = (most), .initial = (default_)           \
	}
#define DURATION(most, default_)                                                                   \
	{                                                                                          \
		.type = CONF_DURATION, .max = (most), .initial = (default_)                        \
	}

/* In the order of the help. An option that has other defaults for each command has two rows. */
const struct bench_option bench_options[] = {
	{
		.name = "--preset",
		.argument = "NAME",
		.help = "parameters under one name, see below; other options count more",
		.kind = BENCH_OPTION_PRESET,
		.commands = BENCH_BW,
	},
	{
		.name = "--op",
		.argument = "OP",
		.help = "what to do",
		.kind = BENCH_OPTION_NUMBER,
		.commands = BENCH_BW,
		.offset = FIELD(op),
		.key = {.type = CONF_ENUM, .words = WORDS("write", "read"), .initial = "write"},
	},
	{
		.name = "--op",
		.argument = "OP",
		.help = "what to do",
		.kind = BENCH_OPTION_NUMBER,
		.commands = BENCH_LAT,
		.offset = FIELD(op),
		.key = {.type = CONF_ENUM,
			.words = WORDS("write", "read", "both"),
			.initial = "both"},
	},
	{
		.name = "--size",
		.argument = "A[:B]",
		.help = "size of a message, or from A doubled up to B",
		.kind = BENCH_OPTION_SIZES,
		.commands = BENCH_BW,
		.key = {.initial = "4KiB:1MiB"},
	},
	{
		.name = "--size",
		.argument = "A[:B]",
		.help = "size of a message, or from A doubled up to B",
		.kind = BENCH_OPTION_SIZES,
		.commands = BENCH_LAT,
		.key = {.initial = "1:1MiB"},
	},
	{
		.name = "--reactors",
		.argument = "N",
		.help = "threads, each with a reactor and connections of its own",
		.kind = BENCH_OPTION_NUMBER,
		.commands = BENCH_BW,
		.offset = FIELD(reactors),
		.key = COUNT(1, RMEM_REACTORS_MAX, "1"),
	},
	{
		.name = "--batch",
		.argument = "N",
		.help = "messages in a batch",
		.kind = BENCH_OPTION_NUMBER,
		.commands = BENCH_BW,
		.offset = FIELD(batch),
		.key = COUNT(1, BATCH_MAX, "64"),
	},
	{
		.name = "--in-flight",
		.argument = "N",
		.help = "batches that a reactor has under way",
		.kind = BENCH_OPTION_NUMBER,
		.commands = BENCH_BW,
		.offset = FIELD(in_flight),
		.key = COUNT(1, IN_FLIGHT_MAX, "1"),
	},
	{
		.name = "--iterations",
		.argument = "N",
		.help = "batches of each reactor in a measurement",
		.kind = BENCH_OPTION_NUMBER,
		.commands = BENCH_BW,
		.offset = FIELD(iterations),
		.key = COUNT(1, BENCH_SAMPLES_MAX, "512"),
	},
	{
		.name = "--iterations",
		.argument = "N",
		.help = "operations in a measurement",
		.kind = BENCH_OPTION_NUMBER,
		.commands = BENCH_LAT,
		.offset = FIELD(iterations),
		.key = COUNT(1, BENCH_SAMPLES_MAX, "1000"),
	},
	{
		.name = "--warmup",
		.argument = "N",
		.help = "batches before the clock starts",
		.kind = BENCH_OPTION_NUMBER,
		.commands = BENCH_BW,
		.offset = FIELD(warmup),
		.key = COUNT(0, BENCH_SAMPLES_MAX, "8"),
	},
	{
		.name = "--warmup",
		.argument = "N",
		.help = "operations before the clock starts",
		.kind = BENCH_OPTION_NUMBER,
		.commands = BENCH_LAT,
		.offset = FIELD(warmup),
		.key = COUNT(0, BENCH_SAMPLES_MAX, "100"),
	},
	{
		.name = "--repeat",
		.argument = "N",
		.help = "times to measure everything, in turn; medians are reported",
		.kind = BENCH_OPTION_NUMBER,
		.commands = BOTH,
		.offset = FIELD(repeat),
		.key = COUNT(1, 1000, "3"),
	},
	{
		.name = "--limit",
		.argument = "TIME",
		.help = "of one measurement, which then ends with fewer iterations; 0: none",
		.kind = BENCH_OPTION_NUMBER,
		.commands = BOTH,
		.offset = FIELD(limit_us),
		.key = DURATION(3600 * SEC, "10s"),
	},
	{
		.name = "--idle",
		.argument = "TIME",
		.help = "how long to look at what an idle reactor costs; 0: not at all",
		.kind = BENCH_OPTION_NUMBER,
		.commands = BENCH_LAT,
		.offset = FIELD(idle_us),
		.key = DURATION(3600 * SEC, "1s"),
	},
	{
		.name = "--layout",
		.argument = "HOW",
		.help = "whether neighbours in a batch continue each other and so merge",
		.kind = BENCH_OPTION_NUMBER,
		.commands = BENCH_BW,
		.offset = FIELD(layout),
		.key = {.type = CONF_ENUM,
			.words = WORDS("scattered", "contiguous"),
			.initial = "scattered"},
	},
	{
		.name = "--server",
		.argument = "URL",
		.help = "a server to use instead of ones of its own; may be given again",
		.kind = BENCH_OPTION_SETTING,
		.commands = BOTH,
		.setting = "servers",
	},
	{
		.name = "--overwrite",
		.help = "the content of those servers may be overwritten",
		.kind = BENCH_OPTION_FLAG,
		.commands = BOTH,
		.offset = FIELD(overwrite),
	},
	{
		.name = "--servers",
		.argument = "N",
		.help = "servers of its own, in this process, over shm",
		.kind = BENCH_OPTION_NUMBER,
		.commands = BENCH_BW,
		.offset = FIELD(servers),
		.given_offset = FIELD(servers_given),
		.key = COUNT(1, RMEM_SERVERS_MAX, "1"),
	},
	{
		.name = "--spread",
		.argument = "HOW",
		.help = "over several servers: batch by batch, or message by message",
		.kind = BENCH_OPTION_NUMBER,
		.commands = BENCH_BW,
		.offset = FIELD(spread),
		.key = {.type = CONF_ENUM, .words = WORDS("batch", "message"), .initial = "batch"},
	},
	{
		.name = "--memory",
		.argument = "SIZE",
		.help = "the most to use on this machine, servers of its own included; 0: half of\n"
			"what is free",
		.kind = BENCH_OPTION_NUMBER,
		.commands = BENCH_BW,
		.offset = FIELD(memory_bytes),
		.key = {.type = CONF_SIZE, .max = UINT64_C(1) << 46, .initial = "0"},
	},
	{
		.name = "--lanes",
		.argument = "N",
		.help = "engine.lanes: queue pairs of each reactor to each server",
		.kind = BENCH_OPTION_SETTING,
		.commands = BENCH_BW,
		.setting = "engine.lanes",
	},
	{
		.name = "--chunk",
		.argument = "SIZE",
		.help = "engine.chunk: longer messages are cut to this; or off",
		.kind = BENCH_OPTION_SETTING,
		.commands = BOTH,
		.setting = "engine.chunk",
		.off = "64MiB",
	},
	{
		.name = "--max-chunks",
		.argument = "N",
		.help = "engine.max_chunks: into at most so many",
		.kind = BENCH_OPTION_SETTING,
		.commands = BENCH_BW,
		.setting = "engine.max_chunks",
	},
	{
		.name = "--post-batch",
		.argument = "N",
		.help = "engine.post_batch: work requests per doorbell at most",
		.kind = BENCH_OPTION_SETTING,
		.commands = BENCH_BW,
		.setting = "engine.post_batch",
	},
	{
		.name = "--depth",
		.argument = "N",
		.help = "engine.depth: work requests in flight on a lane",
		.kind = BENCH_OPTION_SETTING,
		.commands = BENCH_BW,
		.setting = "engine.depth",
	},
	{
		.name = "--poll",
		.argument = "MODE",
		.help = "engine.poll: busy, event or adaptive",
		.kind = BENCH_OPTION_SETTING,
		.commands = BENCH_BW,
		.setting = "engine.poll",
	},
	{
		.name = "--copy",
		.help = "measure a loop that only copies the same messages, too, in turn",
		.kind = BENCH_OPTION_FLAG,
		.commands = BENCH_BW,
		.offset = FIELD(copy),
	},
	{
		.name = "--verify",
		.help = "compare what arrived, outside of what is timed",
		.kind = BENCH_OPTION_FLAG,
		.commands = BOTH,
		.offset = FIELD(verify),
	},
	{
		.name = "--json",
		.help = "the result in JSON",
		.kind = BENCH_OPTION_FLAG,
		.commands = BOTH,
		.offset = FIELD(json),
	},
	{
		.name = "--plot",
		.argument = "FILE",
		.help = "draw the result into FILE.svg or FILE.png with gnuplot",
		.kind = BENCH_OPTION_TEXT,
		.commands = BOTH,
		.offset = FIELD(plot),
	},
};

const size_t bench_option_count = RMEM_COUNT_OF(bench_options);
