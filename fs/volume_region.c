/* SPDX-License-Identifier: Apache-2.0 */
/* The table of regions: what a volume's region ids stand for.
 *
 * It is address space for every id there may be; pages of it come into being as ids are used, and
 * nothing ever moves, so it is read without a lock. Ids that no S record lists are lost. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/log.h"
#include "fs/alloc.h"
#include "fs/volume_parts.h"

#define TABLE_BYTES (VOLUME_REGIONS_MAX * sizeof(struct volume_region))

const struct volume_region *volume_region(const struct volume *volume, uint32_t id)
{
	if (id == 0 || id >= atomic_load_explicit(&volume->region_count, memory_order_acquire))
		return NULL;
	return &volume->regions[id];
}

/* The acquire in volume_region() pairs with the release here. */
void volume_regions_publish(struct volume *volume, uint32_t count)
{
	atomic_store_explicit(&volume->region_count, count, memory_order_release);
}

void volume_regions_fill(struct volume *volume, const struct record_server_fields *server,
			 uint32_t known)
{
	for (uint32_t i = 0; i < server->region_count; i++) {
		struct volume_region *region = &volume->regions[server->regions[i].id];

		if (server->regions[i].id >= known) {
			region->id = server->regions[i].id;
			region->incarnation = server->incarnation;
			region->length = server->regions[i].length;
		}
		atomic_store_explicit(&region->lost, false, memory_order_release);
	}
}

static int load_server(void *user, struct store_slice key, struct store_slice value)
{
	struct volume *volume = user;
	struct record_server_fields server;
	int error = record_decode_server(value, &server);

	(void)key;
	for (uint32_t i = 0; i < server.region_count && error == 0; i++) {
		if (volume_region(volume, server.regions[i].id) == NULL)
			error = -EIO;
	}
	if (error == 0)
		volume_regions_fill(volume, &server, 0);
	return error;
}

static int load_regions(struct volume *volume, struct store_txn *txn)
{
	struct record_volume_fields fields;
	struct record_key key;
	struct store_slice value;
	int error = store_get(txn, record_key_kind(&key, RECORD_VOLUME), &value);

	if (error == 0)
		error = record_decode_volume(value, &fields);
	if (error != 0)
		return error;
	if (fields.region_next > VOLUME_REGIONS_MAX)
		return -EOVERFLOW;
	for (uint32_t id = 0; id < fields.region_next; id++) {
		volume->regions[id].id = id;
		atomic_store_explicit(&volume->regions[id].lost, true, memory_order_relaxed);
	}
	volume_regions_publish(volume, (uint32_t)fields.region_next);
	return store_scan(txn, record_key_kind(&key, RECORD_SERVER), (struct store_slice){0},
			  load_server, volume);
}

int volume_regions_load(struct volume *volume, struct rmem_error *error)
{
	struct store_txn *txn;
	void *table = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int status;

	if (table == MAP_FAILED)
		return rmem_fail(error, ENOMEM, "out of memory: %zu bytes of address space",
				 TABLE_BYTES);
	volume->regions = table;
	status = store_begin(volume->store, STORE_READ, &txn);
	if (status == 0) {
		status = load_regions(volume, txn);
		store_abort(txn);
	}
	if (status != 0)
		return rmem_fail(error, -status, "cannot read what the volume knows of servers: %s",
				 strerror(-status));
	return 0;
}

int volume_region_count(struct volume *volume, struct volume_region *region)
{
	int error;

	if (region->counted)
		return 0;
	error = alloc_add_region(volume->allocator, region->id, region->length / VOLUME_PAGE_BYTES);
	region->counted = error == 0;
	return error;
}

#define KEYS_AT_ONCE 64u

struct stale {
	struct volume *volume;
	uint64_t region[KEYS_AT_ONCE], group[KEYS_AT_ONCE];
	unsigned count;
};

static int collect_stale(void *user, struct store_slice key, struct store_slice value)
{
	struct stale *stale = user;
	const struct volume_region *region;
	uint64_t id, group;
	int error = record_parse_pair(key, RECORD_BITMAP, &id, &group);

	(void)value;
	if (error != 0)
		return error;
	region = id > UINT32_MAX ? NULL : volume_region(stale->volume, (uint32_t)id);
	/* What no region ever had is for the checker to tell. */
	if (region == NULL || !atomic_load_explicit(&region->lost, memory_order_relaxed))
		return 0;
	stale->region[stale->count] = id;
	stale->group[stale->count++] = group;
	return stale->count == KEYS_AT_ONCE ? 1 : 0;
}

static int delete_stale(struct store_txn *txn, void *user)
{
	struct stale *stale = user;
	struct record_key key;
	int error;

	stale->count = 0;
	error = store_scan(txn, record_key_kind(&key, RECORD_BITMAP), (struct store_slice){0},
			   collect_stale, stale);
	for (unsigned i = 0; i < stale->count && error >= 0; i++)
		error = store_delete(txn, record_key_pair(&key, RECORD_BITMAP, stale->region[i],
							  stale->group[i]));
	return error < 0 ? error : 0;
}

int volume_regions_allocate(struct volume *volume)
{
	struct stale stale = {.volume = volume};
	int error = 0;

	do {
		error = store_shrink(volume->store, delete_stale, &stale);
	} while (error == 0 && stale.count == KEYS_AT_ONCE);
	for (uint32_t id = 1; error == 0; id++) {
		if (volume_region(volume, id) == NULL)
			break;
		if (!atomic_load_explicit(&volume->regions[id].lost, memory_order_relaxed))
			error = volume_region_count(volume, &volume->regions[id]);
	}
	return error;
}

void volume_regions_finish(struct volume *volume)
{
	if (volume->regions != NULL)
		munmap(volume->regions, TABLE_BYTES);
	volume->regions = NULL;
}

/* --- Looking ---------------------------------------------------------------------------------- */

struct missing {
	struct volume *volume;
	int count;
};

static int report_server(void *user, struct store_slice key, struct store_slice value)
{
	struct missing *missing = user;
	struct record_server_fields server;
	uint64_t bytes = 0;
	int error = record_decode_server(value, &server);

	(void)key;
	if (error != 0)
		return error;
	for (uint32_t i = 0; i < server.region_count; i++) {
		const struct volume_region *region =
			volume_region(missing->volume, server.regions[i].id);

		if (region != NULL &&
		    !atomic_load_explicit(&region->attached, memory_order_acquire))
			bytes += region->length;
	}
	if (bytes == 0)
		return 0;
	missing->count++;
	rmem_log_warn(RMEM_LOG_FS,
		      "server %s (%" PRIu64 " MiB) belongs to the volume and is not connected: "
		      "what files have there reads as I/O errors until it is",
		      server.url, bytes >> 20);
	return 0;
}

int volume_report_missing(struct volume *volume)
{
	struct missing missing = {.volume = volume};
	struct record_key key;
	struct store_txn *txn;
	int error = store_begin(volume->store, STORE_READ, &txn);

	if (error != 0)
		return error;
	error = store_scan(txn, record_key_kind(&key, RECORD_SERVER), (struct store_slice){0},
			   report_server, &missing);
	store_abort(txn);
	return error != 0 ? error : missing.count;
}

void volume_usage(struct volume *volume, struct volume_usage *usage)
{
	struct alloc_usage pages;

	alloc_usage(volume->allocator, &pages);
	usage->pages_total = pages.total;
	usage->pages_free = pages.free;
	usage->pages_available = pages.available;
	usage->inodes = atomic_load_explicit(&volume->inode_count, memory_order_relaxed);
}
