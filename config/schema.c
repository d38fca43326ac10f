/* SPDX-License-Identifier: Apache-2.0 */
#include "config/schema.h"

#include "engine/base/hint.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)
#define MS  UINT64_C(1000)
#define SEC (1000 * MS)

#define MOUNT  CONF_RMEMFS
#define SERVER CONF_RMEMD
#define STORE  (CONF_RMEMFS | CONF_RMEMCTL)
#define CLIENT (CONF_RMEMFS | CONF_RMEMCTL | CONF_BENCH)
#define ENGINE (CONF_RMEMFS | CONF_BENCH)
#define ALL    (CONF_RMEMFS | CONF_RMEMD | CONF_RMEMCTL | CONF_BENCH)

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char *const server_urls[] = {"shm:/PATH", "verbs://HOST:PORT", NULL};
static const char *const store_urls[] = {"lmdb:/PATH", NULL};
static const char *const huge_pages[] = {"auto", "off", "require", NULL};
static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
static const char *const module_levels[] = {"default", "error", "warn", "info", "debug", NULL};

#define MODULE_LEVEL(module, whose)                                                                \
	{                                                                                          \
		.name = "log." module, .type = CONF_ENUM, .programs = ALL, .words = module_levels, \
		.initial = "default",                                                              \
		.help = "The level of " whose " alone; `default` takes that of log.level."         \
	}

/* Groups stand together, in the order in which they are explained. */
const struct conf_key conf_schema[] = {
	{
		.name = "servers",
		.type = CONF_URL_LIST,
		.programs = CLIENT,
		.required = CONF_RMEMFS | CONF_RMEMCTL,
		.max = 256,
		.words = server_urls,
		.initial = "",
		.help = "The memory servers that hold the files' bytes. Keep a server in the list "
			"as long as files have extents on it.",
	},
	{
		.name = "store.url",
		.type = CONF_URL,
		.programs = STORE,
		.required = STORE,
		.words = store_urls,
		.initial = "",
		.help = "Where names, inodes and extents are kept. `lmdb:` is a folder on a local "
			"disk, made when it is not there, and serves one mount at a time.",
	},
	{
		.name = "store.sync",
		.type = CONF_ENUM,
		.programs = STORE,
		.words = WORDS("fsync", "commit"),
		.initial = "fsync",
		.help = "When the store's transactions reach the disk: `fsync` at fsync() and "
			"close(), and in the background each store.sync_interval; `commit` before "
			"each operation that changes something returns.",
	},
	{
		.name = "store.sync_interval",
		.type = CONF_DURATION,
		.programs = MOUNT,
		.min = 10 * MS,
		.max = 3600 * SEC,
		.initial = "1s",
		.help = "With store.sync at `fsync`: how old a change may get before it is synced "
			"in the background.",
	},
	{
		.name = "store.map_size",
		.type = CONF_SIZE,
		.programs = STORE,
		.min = 16 * MIB,
		.max = 16 * TIB,
		.multiple = 4 * KIB,
		.initial = "64GiB",
		.help = "The most that an LMDB store may grow to. It takes address space, and disk "
			"space only as it fills.",
	},
	{
		.name = "fs.cache",
		.type = CONF_ENUM,
		.programs = MOUNT,
		.words = WORDS("default", "none", "auto", "always"),
		.initial = "default",
		.help = "What the kernel may cache: `none` nothing; `auto` data and attributes "
			"that are checked again when a file is opened; `always` everything for "
			"good, which needs a store that one mount owns. `default` is `always` on "
			"LMDB.",
	},
	{
		.name = "fs.write",
		.type = CONF_ENUM,
		.programs = MOUNT,
		.words = WORDS("through", "back"),
		.initial = "through",
		.help = "When a write is answered: `through` once its bytes are in remote memory; "
			"`back` once they are in memory here, to be sent in large batches soon, at "
			"fsync and at close (writes to servers of this host go through: see "
			"fs.stage_local). A server that is lost meanwhile then shows as EIO at "
			"the "
			"next fsync or close.",
	},
	{
		.name = "fs.dirty_limit",
		.type = CONF_SIZE,
		.programs = MOUNT,
		.min = 64 * KIB,
		.max = 64 * GIB,
		.multiple = 4 * KIB,
		.initial = "64MiB",
		.help = "With fs.write at `back`: memory for bytes that were not sent yet. From "
			"half "
			"of it on they are sent at once; when it is full, writers wait.",
	},
	{
		.name = "fs.dirty_age",
		.type = CONF_DURATION,
		.programs = MOUNT,
		.min = 10 * MS,
		.max = 3600 * SEC,
		.initial = "1s",
		.help = "With fs.write at `back`: bytes are sent when they are so old.",
	},
	{
		.name = "fs.stage_max",
		.type = CONF_SIZE,
		.programs = MOUNT,
		.min = 4 * KIB,
		.max = 1 * MIB,
		.multiple = 4 * KIB,
		.initial = "128KiB",
		.help = "With fs.write at `back`: a longer write goes through, because copying it "
			"costs as much as sending it. No more than fs.dirty_limit, which it has "
			"to fit into.",
	},
	{
		.name = "fs.stage_local",
		.type = CONF_BOOL,
		.programs = MOUNT,
		.initial = "false",
		.help = "With fs.write at `back`: writes to servers of this host (`shm:`) wait to "
			"be sent, too. Sending there is a copy, as keeping is, so they go through "
			"otherwise. Worth it where such a server's pool is slower than memory, as "
			"a DAX file is.",
	},
	{
		.name = "fs.writeback_cache",
		.type = CONF_BOOL,
		.programs = MOUNT,
		.initial = "false",
		.help = "With `fs.cache` always, let the kernel answer buffered writes by itself "
			"and write them back within seconds, at fsync and at close. Small writes "
			"get "
			"much faster; errors, a full volume among them, show only at fsync and "
			"close.",
	},
	{
		.name = "fs.reactors",
		.type = CONF_COUNT,
		.programs = MOUNT,
		.max = 64,
		.initial = "0",
		.help = "Threads that take requests and carry them out, each with its own "
			"connections; 0 chooses by the number of CPUs.",
	},
	{
		.name = "fs.stripe",
		.type = CONF_SIZE,
		.programs = MOUNT,
		.min = 4 * KIB,
		.max = 64 * MIB,
		.multiple = 4 * KIB,
		.initial = "1MiB",
		.help = "A large file goes to the servers in turn, so much to each.",
	},
	{
		.name = "fs.wait",
		.type = CONF_DURATION,
		.programs = MOUNT,
		.max = 3600 * SEC,
		.initial = "0",
		.help = "How long an operation on a lost server waits for it to come back before "
			"it fails with EIO. At 0, operations wait only within engine.detect of the "
			"loss.",
	},
	{
		.name = "fs.control",
		.type = CONF_PATH,
		.programs = STORE,
		.words = WORDS("auto"),
		.initial = "auto",
		.help = "The socket on which a mount answers rmemctl. It must not lie on the mount "
			"itself; `auto` chooses one.",
	},
	{
		.name = "fs.default_permissions",
		.type = CONF_BOOL,
		.programs = MOUNT,
		.initial = "true",
		.help = "The kernel checks access rights. Without it everybody who reaches the "
			"mount "
			"may do everything.",
	},
	{
		.name = "fs.allow_other",
		.type = CONF_BOOL,
		.programs = MOUNT,
		.initial = "false",
		.help = "Other users than the one who mounted may use the mount. An ordinary user "
			"needs user_allow_other in /etc/fuse.conf for it.",
	},
	{
		.name = "engine.poll",
		.type = CONF_ENUM,
		.programs = CLIENT,
		.words = WORDS("busy", "event", "adaptive"),
		.initial = "adaptive",
		.help = "How a reactor waits: `busy` never sleeps; `event` sleeps at once; "
			"`adaptive` spins for engine.spin first.",
	},
	{
		.name = "engine.spin",
		.type = CONF_DURATION,
		.programs = CLIENT,
		.max = 1 * SEC,
		.initial = "50us",
		.help = "How long an idle reactor polls before it sleeps, with engine.poll at "
			"`adaptive`; up to 16 times as long for transfers that are under way, "
			"where those take longer than this.",
	},
	{
		.name = "engine.chunk",
		.type = CONF_SIZE,
		.programs = ENGINE,
		.min = 4 * KIB,
		.max = 64 * MIB,
		.multiple = 4 * KIB,
		.initial = "64KiB",
		.help = "Transfers longer than this are cut into work requests of this size.",
	},
	{
		.name = "engine.max_chunks",
		.type = CONF_COUNT,
		.programs = ENGINE,
		.min = 1,
		.max = 65536,
		.initial = "64",
		.help = "The most work requests that one transfer is cut into; a longer one gets "
			"larger chunks.",
	},
	{
		.name = "engine.lanes",
		.type = CONF_COUNT,
		.programs = ENGINE,
		.min = 1,
		.max = 16,
		.initial = "1",
		.help = "Queue pairs of each reactor to each server.",
	},
	{
		.name = "engine.post_batch",
		.type = CONF_COUNT,
		.programs = ENGINE,
		.min = 1,
		.max = 1024,
		.initial = "32",
		.help = "The most work requests that are chained and posted with one doorbell.",
	},
	{
		.name = "engine.depth",
		.type = CONF_COUNT,
		.programs = ENGINE,
		.min = 2,
		.max = 32768,
		.initial = "256",
		.help = "Work requests that may be in flight on one lane. More than that waits.",
	},
	{
		.name = "engine.telemetry",
		.type = CONF_BOOL,
		.programs = CLIENT,
		.initial = "false",
		.help = "Measure how long transfers take, one in 16 of them: `rmemctl status "
			"--json` "
			"shows it. `rmemctl set` switches it while a mount runs.",
	},
	{
		.name = "engine.detect",
		.type = CONF_DURATION,
		.programs = CLIENT,
		.min = 10 * MS,
		.max = 600 * SEC,
		.initial = "2s",
		.help = "A server that does not answer for this long is down.",
	},
	{
		.name = "engine.connect_timeout",
		.type = CONF_DURATION,
		.programs = CLIENT,
		.min = 10 * MS,
		.max = 600 * SEC,
		.initial = "5s",
		.help = "How long one attempt to connect to a server may take, and how long a "
			"mount "
			"waits for its servers before it goes on without some of them.",
	},
	{
		.name = "engine.reconnect_min",
		.type = CONF_DURATION,
		.programs = CLIENT,
		.min = 1 * MS,
		.max = 60 * SEC,
		.initial = "100ms",
		.help = "The pause before the first attempt to reconnect; it doubles with each one "
			"that fails.",
	},
	{
		.name = "engine.reconnect_max",
		.type = CONF_DURATION,
		.programs = CLIENT,
		.min = 1 * MS,
		.max = 3600 * SEC,
		.initial = "5s",
		.help = "The longest pause between attempts to reconnect.",
	},
	{
		.name = "auth.key_file",
		.type = CONF_PATH,
		.programs = ALL,
		.words = WORDS("none"),
		.initial = "none",
		.help = "A file with a key of at least 16 random bytes that clients and servers "
			"have in common, and that nobody else may read. Each proves to the other "
			"that it has it before memory is handed out, or anything told of it.",
	},
	{
		.name = "verbs.port",
		.type = CONF_COUNT,
		.programs = ALL,
		.min = 1,
		.max = 65535,
		.initial = "7471",
		.help = "The port of `verbs:` addresses that name none.",
	},
	{
		.name = "verbs.source",
		.type = CONF_URL,
		.programs = CLIENT,
		.words = WORDS("auto", "ADDRESS", "DEVICE"),
		.initial = "auto",
		.help = "Which local address or RDMA device (`rdma link` shows them) connections "
			"leave from; `auto` goes by the route to the server.",
	},
	{
		.name = "verbs.mtu",
		.type = CONF_ENUM,
		.programs = ALL,
		.words = WORDS("auto", "256", "512", "1024", "2048", "4096"),
		.initial = "auto",
		.help = "The largest path MTU to use, in bytes; `auto` is the path's own. Client "
			"and server take the smaller of theirs.",
	},
	{
		.name = "verbs.retry",
		.type = CONF_COUNT,
		.programs = ALL,
		.max = 7,
		.initial = "7",
		.help = "How often a device sends a request again that nobody answered, before the "
			"connection is lost.",
	},
	{
		.name = "verbs.timeout",
		.type = CONF_DURATION,
		.programs = ALL,
		.max = 60 * SEC,
		.initial = "0",
		.help = "How long a device waits for an answer each time; 0 derives it from "
			"engine.detect. Devices have steps, each twice the one before, and take "
			"the "
			"one that is not longer.",
	},
	{
		.name = "verbs.rnr_retry",
		.type = CONF_COUNT,
		.programs = ALL,
		.max = 6,
		.initial = "6",
		.help = "How often a message is sent again that the peer had no room for.",
	},
	{
		.name = "verbs.rnr_timer",
		.type = CONF_DURATION,
		.programs = ALL,
		.min = 10,
		.max = 491520,
		.initial = "640us",
		.help = "How long a device without room asks the sender to wait each time.",
	},
	{
		.name = "verbs.traffic_class",
		.type = CONF_COUNT,
		.programs = CLIENT,
		.max = 255,
		.initial = "0",
		.help = "The traffic class (RoCE: the IP header's DSCP and ECN bits) of all "
			"packets, "
			"for networks that keep RDMA lossless by it.",
	},
	{
		.name = "verbs.inline",
		.type = CONF_SIZE,
		.programs = ENGINE,
		.max = 1024,
		.initial = "220B",
		.help = "A write up to this travels within its work request, if the device can: "
			"that "
			"saves it a look at memory.",
	},
	{
		.name = "staging.size",
		.type = CONF_SIZE,
		.programs = ENGINE,
		.min = 1 * MIB,
		.max = 64 * GIB,
		.multiple = 4 * KIB,
		.initial = "64MiB",
		.help = "Registered memory of each reactor that data passes through.",
	},
	{
		.name = "staging.huge_pages",
		.type = CONF_ENUM,
		.programs = ENGINE,
		.words = huge_pages,
		.initial = "auto",
		.help = "Huge pages for staging memory: `auto` takes them when they are there, "
			"`require` refuses to start without.",
	},
	{
		.name = "staging.streaming",
		.type = CONF_ENUM,
		.programs = ENGINE,
		.words = WORDS("auto", "avx512", "avx2", "sse2", "off"),
		.initial = "auto",
		.help = "The streaming stores to use: `auto` takes the best that the CPU has; "
			"asking "
			"for what it lacks is an error.",
	},
	{
		.name = "staging.stream_threshold",
		.type = CONF_SIZE,
		.programs = ENGINE,
		.max = 1 * GIB,
		.initial = "0",
		.help = "Copies shorter than this use ordinary stores; 0 measures at start "
			"from where on streaming stores gain. Longer ones use them while their "
			"bytes are not soon read or written again.",
	},
	{
		.name = "server.listen",
		.type = CONF_URL_LIST,
		.programs = SERVER,
		.required = SERVER,
		.max = 16,
		.words = server_urls,
		.initial = "shm:/run/rmemd.sock",
		.help = "Where the server waits for mounts.",
	},
	{
		.name = "server.size",
		.type = CONF_SIZE,
		.programs = SERVER,
		.min = 1 * MIB,
		.max = 64 * TIB,
		.multiple = 4 * KIB,
		.initial = "1GiB",
		.help = "The size of the pool that the server exports. When it is not set, a pool "
			"file that is there keeps the size it has.",
	},
	{
		.name = "server.backing",
		.type = CONF_PATH,
		.programs = SERVER,
		.words = WORDS("anonymous"),
		.initial = "anonymous",
		.help = "What the pool is made of: `anonymous` memory, which is lost with the "
			"server, or a file on tmpfs, hugetlbfs or a DAX device, which outlives it.",
	},
	{
		.name = "server.huge_pages",
		.type = CONF_ENUM,
		.programs = SERVER,
		.words = huge_pages,
		.initial = "auto",
		.help = "Huge pages for an anonymous pool: `auto` takes them when they are there, "
			"`require` refuses to start without.",
	},
	{
		.name = "server.populate",
		.type = CONF_BOOL,
		.programs = SERVER,
		.initial = "true",
		.help = "Zero the whole pool at start, on all processors. Otherwise its memory is "
			"only reserved then, and a page is zeroed when it is first used.",
	},
	{
		.name = "server.socket_mode",
		.type = CONF_MODE,
		.programs = SERVER,
		.max = 0777,
		.initial = "0600",
		.help = "Access rights of the server's Unix socket: who may write to it reads and "
			"writes the whole pool.",
	},
	{
		.name = "server.allow_unauthenticated",
		.type = CONF_BOOL,
		.programs = SERVER,
		.initial = "false",
		.help = "Serve on network addresses (`verbs:`, other than loopback) without "
			"auth.key_file, where everybody who reaches one reads and writes the whole "
			"pool. For networks that are "
			"trusted as a whole.",
	},
	{
		.name = "log.level",
		.type = CONF_ENUM,
		.programs = ALL,
		.words = levels,
		.initial = "info",
		.help = "How much is logged; each level includes those before it.",
	},
	MODULE_LEVEL("config", "the configuration"),
	MODULE_LEVEL("engine", "the engine"),
	MODULE_LEVEL("fabric", "the fabrics"),
	MODULE_LEVEL("server", "the memory server"),
	MODULE_LEVEL("store", "the metadata store"),
	MODULE_LEVEL("fs", "the filesystem"),
	MODULE_LEVEL("tool", "the programs around them"),
	{
		.name = "log.sink",
		.type = CONF_ENUM,
		.programs = ALL,
		.words = WORDS("auto", "stderr", "syslog"),
		.initial = "auto",
		.help = "Where the log goes: `auto` is syslog for a mount in the background, once "
			"it is usable, and stderr otherwise. What was chosen goes for a mount with "
			"`-f`, too; one in the background has no stderr, so with `stderr` its log "
			"ends there.",
	},
};

const size_t conf_schema_count = RMEM_COUNT_OF(conf_schema);

const struct conf_order conf_orders[] = {
	{"engine.reconnect_min", "engine.reconnect_max"},
	{"engine.post_batch", "engine.depth"},
	{"engine.chunk", "staging.size"},
	{"fs.stage_max", "fs.dirty_limit"},
	{NULL, NULL},
};
