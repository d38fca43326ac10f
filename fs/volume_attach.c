/* SPDX-License-Identifier: Apache-2.0 */
/* Attaching servers: which memory of which server is which region of the volume.
 *
 * A server is known by the incarnation of its content first, so that it may move to another
 * address, and by its URL second: a server with a known URL and another incarnation has lost what
 * it held. Its S record is then written anew with new region ids; ids that no S record lists are
 * lost, and the extents there read as -EIO until they are deleted. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/timer.h"
#include "fs/volume_parts.h"

_Static_assert(sizeof(((struct record_server_fields *)0)->url) ==
		       sizeof(((struct rmem_server_info *)0)->url),
	       "one is copied to the other");

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
	memcpy(server->url, info->url, sizeof(server->url));
	for (unsigned i = 0; i < info->region_count; i++) {
		if (i < server->region_count) {
			if (server->regions[i].length != info->regions[i].length)
				return -EPROTO;
			continue;
		}
		if (attach->fields.region_next >= VOLUME_REGIONS_MAX)
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

uint64_t volume_detached_ns(const struct volume *volume)
{
	/* Relaxed: only a point in time. */
	return atomic_load_explicit(&volume->detached_ns, memory_order_relaxed);
}

void volume_detach(struct volume *volume, unsigned server)
{
	uint32_t count;

	atomic_store_explicit(&volume->detached_ns, rmem_now_ns(), memory_order_relaxed);
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
	volume_regions_fill(volume, &attach->server,
			    atomic_load_explicit(&volume->region_count, memory_order_relaxed));
	volume_regions_publish(volume, (uint32_t)attach->fields.region_next);
}

static int attach_region(struct volume *volume, unsigned server, uint32_t index,
			 const struct attach *attach)
{
	uint32_t id = attach->server.regions[index].id;
	struct volume_region *region = &volume->regions[id];
	int error;

	if (region->placed && (region->server != server || region->server_region != index))
		return -EEXIST;
	if (!region->placed) {
		error = volume_region_count(volume, region);
		if (error != 0)
			return error;
		region->server = (uint16_t)server;
		region->server_region = index;
		region->is_copy = attach->info->is_copy;
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
		int error = attach_region(volume, server, i, attach);

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
				 VOLUME_REGIONS_MAX);
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
	/* A full store has room for that, or nobody could mount it and remove files. */
	if (status == -ENOSPC)
		status = store_shrink(volume->store, attach_in_store, attach);
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
