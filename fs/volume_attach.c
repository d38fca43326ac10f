/* SPDX-License-Identifier: Apache-2.0 */
/* Servers and regions: which memory of which server is which region of the volume.
 *
 * A server is known by the incarnation of its content first, so that it may move to another
 * address, and by its URL second: a server with a known URL and another incarnation has lost what
 * it held. Its S record is then written anew with new region ids; ids that no S record lists are
 * lost, and the extents there read as -EIO until they are deleted.
 *
 * The table of regions is address space for every id there may be; pages of it come into being as
 * ids are used, and nothing ever moves, so it is read without a lock. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/log.h"
#include "fs/alloc.h"
#include "fs/volume_parts.h"

#define REGION_IDS_MAX (1u << 20)
#define TABLE_BYTES    (REGION_IDS_MAX * sizeof(struct volume_region))

const struct volume_region *volume_region(const struct volume *volume, uint32_t id)
{
	if (id == 0 || id >= atomic_load_explicit(&volume->region_count, memory_order_acquire))
		return NULL;
	return &volume->regions[id];
}

/* --- Loading ---------------------------------------------------------------------------------- */

/* Region ids grow from what V says; the acquire in volume_region() pairs with this release. */
static void publish_count(struct volume *volume, uint32_t count)
{
	atomic_store_explicit(&volume->region_count, count, memory_order_release);
}

/* Regions with ids below `known` are in use already: their constant fields are there. */
static void fill_regions(struct volume *volume, const struct record_server_fields *server,
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
		fill_regions(volume, &server, 0);
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
	if (fields.region_next > REGION_IDS_MAX)
		return -EOVERFLOW;
	for (uint32_t id = 0; id < fields.region_next; id++) {
		volume->regions[id].id = id;
		atomic_store_explicit(&volume->regions[id].lost, true, memory_order_relaxed);
	}
	publish_count(volume, (uint32_t)fields.region_next);
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

static int count_region(struct volume *volume, struct volume_region *region)
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
			error = count_region(volume, &volume->regions[id]);
	}
	return error;
}

void volume_regions_finish(struct volume *volume)
{
	if (volume->regions != NULL)
		munmap(volume->regions, TABLE_BYTES);
	volume->regions = NULL;
}

/* --- Attaching -------------------------------------------------------------------------------- */

struct attach {
	struct volume *volume;
	const struct rmem_server_info *info;
	uint64_t number; /* of the server in the volume; 0: not known */
	bool same;	 /* known by its incarnation */
	bool changed;	 /* its record has to be written */
	struct record_server_fields server;
	struct record_server_fields replaced; /* by it: regions that are lost */
	struct record_volume_fields fields;
};

static int match_server(void *user, struct store_slice key, struct store_slice value)
{
	struct attach *attach = user;
	struct record_server_fields server;
	uint64_t number;
	int error = record_parse_number(key, RECORD_SERVER, &number);

	if (error == 0)
		error = record_decode_server(value, &server);
	if (error != 0)
		return error;
	if (server.incarnation == attach->info->incarnation) {
		attach->same = true;
	} else if (attach->number != 0 || strcmp(server.url, attach->info->url) != 0) {
		return 0;
	}
	attach->number = number;
	attach->server = server;
	return attach->same ? 1 : 0;
}

/* New regions of the server get ids; what it had under this incarnation stays. */
static int merge_regions(struct attach *attach)
{
	const struct rmem_server_info *info = attach->info;
	struct record_server_fields *server = &attach->server;

	attach->replaced.region_count = 0;
	if (!attach->same) {
		if (attach->number != 0)
			attach->replaced = *server;
		memset(server, 0, sizeof(*server));
		server->incarnation = info->incarnation;
	}
	attach->changed = strcmp(server->url, info->url) != 0;
	strcpy(server->url, info->url); /* both are char[256] */
	for (unsigned i = 0; i < info->region_count; i++) {
		if (i < server->region_count) {
			if (server->regions[i].length != info->regions[i].length)
				return -EPROTO;
			continue;
		}
		if (attach->fields.region_next >= REGION_IDS_MAX)
			return -EOVERFLOW;
		server->regions[i].id = (uint32_t)attach->fields.region_next++;
		server->regions[i].length = info->regions[i].length;
		server->region_count = i + 1;
		attach->changed = true;
	}
	return 0;
}

static int put_server(struct store_txn *txn, struct attach *attach)
{
	struct record_key key;
	struct record_volume volume;
	struct record_server server;
	int error;

	if (attach->number == 0)
		attach->number = attach->fields.server_next++;
	error = store_put(txn, record_key_kind(&key, RECORD_VOLUME),
			  record_encode_volume(&volume, &attach->fields));
	if (error != 0)
		return error;
	return store_put(txn, record_key_number(&key, RECORD_SERVER, attach->number),
			 record_encode_server(&server, &attach->server));
}

static int attach_in_store(struct store_txn *txn, void *user)
{
	struct attach *attach = user;
	struct record_key key;
	struct store_slice value;
	int error = store_get(txn, record_key_kind(&key, RECORD_VOLUME), &value);

	attach->number = 0;
	attach->same = false;
	if (error == 0)
		error = record_decode_volume(value, &attach->fields);
	if (error == 0)
		error = store_scan(txn, record_key_kind(&key, RECORD_SERVER),
				   (struct store_slice){0}, match_server, attach);
	if (error >= 0)
		error = merge_regions(attach);
	if (error == 0 && attach->changed)
		error = put_server(txn, attach);
	return error;
}

/* Regions of the server under any other incarnation are gone. */
static void lose_old(struct volume *volume, unsigned server, uint64_t incarnation)
{
	uint32_t count = atomic_load_explicit(&volume->region_count, memory_order_relaxed);

	for (uint32_t id = 1; id < count; id++) {
		struct volume_region *region = &volume->regions[id];

		if (region->placed && region->server == server &&
		    region->incarnation != incarnation)
			atomic_store_explicit(&region->lost, true, memory_order_release);
	}
}

void volume_detach(struct volume *volume, unsigned server)
{
	uint32_t count;

	pthread_mutex_lock(&volume->region_lock);
	count = atomic_load_explicit(&volume->region_count, memory_order_relaxed);
	for (uint32_t id = 1; id < count; id++) {
		struct volume_region *region = &volume->regions[id];

		if (region->placed && region->server == server)
			atomic_store_explicit(&region->attached, false, memory_order_release);
	}
	pthread_mutex_unlock(&volume->region_lock);
}

/* After the commit, region_lock held: memory follows the store. */
static void follow(struct volume *volume, unsigned server, const struct attach *attach)
{
	const struct record_server_fields *replaced = &attach->replaced;

	lose_old(volume, server, attach->server.incarnation);
	for (uint32_t i = 0; i < replaced->region_count; i++)
		atomic_store_explicit(&volume->regions[replaced->regions[i].id].lost, true,
				      memory_order_release);
	fill_regions(volume, &attach->server,
		     atomic_load_explicit(&volume->region_count, memory_order_relaxed));
	publish_count(volume, (uint32_t)attach->fields.region_next);
}

static int attach_region(struct volume *volume, unsigned server, uint32_t index, uint32_t id)
{
	struct volume_region *region = &volume->regions[id];
	int error;

	if (region->placed && (region->server != server || region->server_region != index))
		return -EEXIST;
	if (!region->placed) {
		error = count_region(volume, region);
		if (error != 0)
			return error;
		region->server = (uint16_t)server;
		region->server_region = index;
		region->placed = true;
	}
	/* Pairs with the acquire of whoever reads the fields above. */
	atomic_store_explicit(&region->attached, true, memory_order_release);
	return 0;
}

static int attach_regions(struct volume *volume, unsigned server, const struct attach *attach)
{
	uint32_t count = attach->server.region_count;

	if (attach->info->region_count < count) {
		rmem_log_warn(RMEM_LOG_FS, "server %s exports %u regions, but held %" PRIu32,
			      attach->info->url, attach->info->region_count, count);
		count = attach->info->region_count;
	}
	for (uint32_t i = 0; i < count; i++) {
		int error = attach_region(volume, server, i, attach->server.regions[i].id);

		if (error != 0)
			return error;
	}
	return 0;
}

static int explain(int status, const struct attach *attach, struct rmem_error *error)
{
	const char *url = attach->info->url;

	switch (status) {
	case 0:
		return 0;
	case -EPROTO:
		return rmem_fail(error, EPROTO,
				 "server %s has the content it had, but regions of other sizes: "
				 "start it with the size it had",
				 url);
	case -EEXIST:
		return rmem_fail(error, EEXIST,
				 "server %s is the same as another one of the list: "
				 "leave one of them out",
				 url);
	case -EOVERFLOW:
		return rmem_fail(error, EOVERFLOW, "the volume has used up its %u region numbers",
				 REGION_IDS_MAX);
	default:
		return rmem_fail(error, -status, "cannot attach server %s: %s", url,
				 strerror(-status));
	}
}

static void tell(const struct attach *attach)
{
	const char *url = attach->info->url;

	if (attach->replaced.region_count > 0)
		rmem_log_error(RMEM_LOG_FS,
			       "server %s has lost its memory: what files had there is gone, and "
			       "reads as I/O errors",
			       url);
	else if (!attach->same)
		rmem_log_info(RMEM_LOG_FS, "server %s is new to the volume", url);
}

int volume_attach(struct volume *volume, unsigned server, const struct rmem_server_info *info,
		  struct rmem_error *error)
{
	struct attach *attach = calloc(1, sizeof(*attach)); /* some kilobytes */
	int status;

	if (attach == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	attach->volume = volume;
	attach->info = info;
	pthread_mutex_lock(&volume->region_lock);
	status = store_update(volume->store, attach_in_store, attach);
	if (status == 0) {
		follow(volume, server, attach);
		tell(attach);
		status = attach_regions(volume, server, attach);
	}
	pthread_mutex_unlock(&volume->region_lock);
	status = explain(status, attach, error);
	free(attach);
	return status;
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
	alloc_usage(volume->allocator, &usage->pages_total, &usage->pages_free);
	usage->inodes = atomic_load_explicit(&volume->inode_count, memory_order_relaxed);
}
