/* SPDX-License-Identifier: Apache-2.0 */
/* A mounted volume: the store, the inodes, the allocator, and which region is where. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/rmem.h"
#include "fs/store.h"

struct inode;
struct inode_table;
struct allocator;
struct volume_worker;

#define VOLUME_PAGE_BYTES  4096u
#define VOLUME_CHUNK_BYTES (64ull << 20) /* one C record covers this much of a file */
#define VOLUME_NAME_MAX	   255u
#define VOLUME_SIZE_MAX	   (1ull << 60) /* bytes of one file */

struct volume_options {
	struct store_options store;
	uint64_t stripe_bytes;	   /* power of two, multiple of a page */
	const char *mountpoint;	   /* for people; may be NULL */
	unsigned sync_interval_ms; /* dirty inodes are put and the store is synced this often */
};

/* What a volume's region id stands for. Ids are never used twice in a volume. */
struct volume_region {
	uint32_t id;
	uint32_t server_region; /* index on the server */
	uint16_t server;	/* index in the engine */
	bool is_copy;		/* of the server: transfers are copies of our own */
	bool placed;		/* region_lock: the three above are known */
	bool counted;		/* region_lock: the allocator has its bitmaps */
	uint64_t incarnation;	/* of the content that files have there */
	uint64_t length;	/* bytes */
	/* The server is up, as far as we were told, and was seen with the incarnation that holds
	 * our bytes. `server`, `server_region` and `is_copy` are written once, before this is set
	 * first. */
	_Atomic(bool) attached;
	_Atomic(bool) lost; /* its memory is gone: reads are EIO, frees cost nothing */
};

struct volume {
	struct store *store;
	struct inode_table *inodes;
	struct allocator *allocator;
	struct volume_worker *worker;
	/* Held by every operation that changes names, link counts or orphans. */
	pthread_mutex_t namespace_lock;
	uint8_t uuid[16];
	uint64_t mount_id;
	uint64_t ino_next, ino_end;    /* namespace_lock: numbers reserved for this mount */
	int64_t linger_until_ns;       /* namespace_lock: see namespace_met_removed() */
	_Atomic(uint64_t) inode_count; /* for statfs */
	uint64_t stripe_bytes;
	unsigned sync_interval_ms;
	/* Region table: grows at attach, entries never move or go; read without a lock. */
	struct volume_region *regions;
	_Atomic(uint32_t) region_count;
	pthread_mutex_t region_lock;   /* attaching; before the store's writer */
	_Atomic(uint64_t) detached_ns; /* when a server was lost last, by the monotonic clock */
};

/* Opens the store (formatting an empty one), takes the mount session, reclaims what dead sessions
 * left (orphans), loads the allocator, starts the worker thread.
 * Errors: those of store_open(), -EPROTO (format of another version), -EIO. */
int volume_open(const struct volume_options *options, struct volume **volume,
		struct rmem_error *error) RMEM_MUST_CHECK;

/* Flushes, syncs, ends the session, closes. Returns the first error; all is freed anyway. */
int volume_close(struct volume *volume) RMEM_MUST_CHECK;

/* Tells the volume that engine server `server` is up as `info` describes. A server new to the
 * volume brings its regions as free space; a known one with the same incarnation gets its regions
 * attached; one with another incarnation has lost our bytes: its old regions become lost, its new
 * ones free space. Any thread. Errors: -EIO, -ENOSPC (store). */
int volume_attach(struct volume *volume, unsigned server, const struct rmem_server_info *info,
		  struct rmem_error *error) RMEM_MUST_CHECK;

/* Engine server `server` is down. Its regions are not used until volume_attach() has seen that what
 * comes up there again is what it was: memory that never held our bytes answers no read. Any
 * thread, waits for a volume_attach() that runs. */
void volume_detach(struct volume *volume, unsigned server);
/* When that was done last, by the monotonic clock; 0: never. Any thread. */
uint64_t volume_detached_ns(const struct volume *volume);

/* Warns in the log of each server that holds bytes of the volume and was not attached so far.
 * Returns their number, or -errno. */
int volume_report_missing(struct volume *volume) RMEM_MUST_CHECK;

/* NULL: no such region. Any thread, no lock. */
const struct volume_region *volume_region(const struct volume *volume, uint32_t id);

struct volume_usage {
	uint64_t pages_total, pages_free; /* of all servers, up or down, that have not lost them */
	uint64_t pages_available;	  /* free ones of the servers that are up */
	uint64_t inodes;
};
void volume_usage(struct volume *volume, struct volume_usage *usage);

/* namespace_lock held: a number that no inode of the volume ever had. Errors: -EIO, -ENOSPC. */
int volume_reserve_ino(struct volume *volume, uint64_t *ino) RMEM_MUST_CHECK;

/* Runs `job` on the worker thread: what may block (store syncs, large reclaims). */
struct volume_job {
	void (*run)(struct volume_job *job);
	struct volume_job *next;
};
void volume_defer(struct volume *volume, struct volume_job *job);

/* Calls `done(user, status)` on the worker thread once everything committed before is durable;
 * requests that wait together share one store_sync(). Allocates nothing: `sync` is the caller's. */
struct volume_sync {
	void (*done)(struct volume_sync *sync, int status);
	struct volume_sync *next;
};
void volume_sync(struct volume *volume, struct volume_sync *sync);
