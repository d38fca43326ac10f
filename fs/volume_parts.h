/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of volume share. */
#pragma once

#include "fs/record.h"
#include "fs/volume.h"

#define VOLUME_REGIONS_MAX (1u << 20) /* ids */

/* Opening: the volume's record and a session of this mount in one transaction (of an empty store,
 * the first volume record and the root directory too). Sets uuid and mount_id. */
int volume_session_begin(struct volume *volume, const struct volume_options *options,
			 struct rmem_error *error) RMEM_MUST_CHECK;
int volume_session_end(struct volume *volume) RMEM_MUST_CHECK;

/* Reclaims what other sessions left, which the store's lock says are dead, and ends them. What
 * cannot be reclaimed is logged and left. */
void volume_session_recover(struct volume *volume);

/* The region table from what the store knows about servers. */
int volume_regions_load(struct volume *volume, struct rmem_error *error) RMEM_MUST_CHECK;
/* Then: lets the allocator load the bitmaps of all of them, so that pages can be given back on
 * servers that are not there, and deletes those of lost regions. */
int volume_regions_allocate(struct volume *volume) RMEM_MUST_CHECK;
/* The allocator loads the bitmaps of one of them, unless it has them. Under region_lock. */
int volume_region_count(struct volume *volume, struct volume_region *region) RMEM_MUST_CHECK;
/* Fills in a server's regions, of which those with ids below `known` are in use already, so that
 * their constant fields are there; then they are published. Under region_lock. */
void volume_regions_fill(struct volume *volume, const struct record_server_fields *server,
			 uint32_t known);
void volume_regions_publish(struct volume *volume, uint32_t count);
void volume_regions_finish(struct volume *volume);
