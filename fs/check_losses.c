/* SPDX-License-Identifier: Apache-2.0 */
/* Which files lost data with the memory of a server, and where they are.
 *
 * The scan of the extents lists the inodes with their damaged bytes. Names are found from below: of
 * those inodes and of the directories above them, each of which is marked once, and whose names one
 * more scan of the entries collects. So a volume without losses pays nothing, and one with few pays
 * for few. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/checked.h"
#include "fs/check_parts.h"

struct check_place {
	uint64_t ino, parent;
	char *name; /* NULL: not found */
};

/* Pages that were never written read as zeroes without any memory, and those behind the end of the
 * file hold nothing. */
static uint64_t damaged_bytes(const struct record_chunk_view *view,
			      const struct record_extent *extent, uint64_t chunk, uint64_t size)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < extent->pages; i++) {
		uint32_t page = extent->page + i;
		uint64_t start = chunk * VOLUME_CHUNK_BYTES + (uint64_t)page * VOLUME_PAGE_BYTES;

		if (start >= size)
			break;
		if (view->all_written ||
		    record_chunk_written_word(view, page / 64) >> page % 64 & 1)
			bytes += rmem_min_u64(VOLUME_PAGE_BYTES, size - start);
	}
	return bytes;
}

int check_loss_add(struct check *check, uint64_t ino, uint64_t chunk,
		   const struct record_chunk_view *view, const struct record_extent *extent)
{
	const struct check_inode *inode = check_inode_find(check, ino);
	struct check_loss *last =
		check->loss_count > 0 ? &check->losses[check->loss_count - 1] : NULL;
	void *losses = check->losses;
	uint64_t bytes;
	int error;

	check->result->pages_lost += extent->pages;
	bytes = inode == NULL ? 0 : damaged_bytes(view, extent, chunk, inode->size);
	if (bytes == 0)
		return 0;
	check->result->bytes_lost += bytes;
	if (last != NULL && last->ino == ino) { /* the records of an inode follow each other */
		last->bytes += bytes;
		return 0;
	}
	error = check_grow(&losses, &check->loss_room, check->loss_count, sizeof(*last));
	check->losses = losses;
	if (error == 0)
		check->losses[check->loss_count++] =
			(struct check_loss){.ino = ino, .bytes = bytes};
	return error;
}

/* --- Names ------------------------------------------------------------------------------------ */

/* Marks an inode and what is above it, up to what is marked already. */
static int mark_up(struct check *check, uint64_t ino)
{
	struct check_inode *inode = check_inode_find(check, ino);

	while (inode != NULL && inode->ino != INODE_ROOT && !inode->placed) {
		void *places = check->places;
		int error = check_grow(&places, &check->place_room, check->place_count,
				       sizeof(*check->places));

		check->places = places;
		if (error != 0)
			return error;
		check->places[check->place_count++] =
			(struct check_place){.ino = inode->ino, .parent = inode->name_parent};
		inode->placed = true;
		inode = check_inode_find(check, inode->name_parent);
	}
	return 0;
}

static int compare_places(const void *left, const void *right)
{
	const struct check_place *a = left;
	const struct check_place *b = right;

	return (a->ino > b->ino) - (a->ino < b->ino);
}

static struct check_place *find_place(struct check *check, uint64_t ino)
{
	struct check_place wanted = {.ino = ino};

	if (check->place_count == 0)
		return NULL;
	return bsearch(&wanted, check->places, check->place_count, sizeof(wanted), compare_places);
}

static int take_name(void *user, struct store_slice key, struct store_slice value)
{
	struct check *check = user;
	struct check_place *place;
	struct store_slice name;
	uint64_t directory, ino;
	uint32_t type;

	if (record_parse_name(key, RECORD_DIRENT, &directory, &name) != 0 ||
	    record_decode_dirent(value, &ino, &type) != 0)
		return 0; /* has been reported */
	place = find_place(check, ino);
	if (place == NULL || place->name != NULL || place->parent != directory)
		return 0;
	place->name = strndup(name.data, name.size);
	return place->name == NULL ? -ENOMEM : 0;
}

/* Writes the path of an inode so that it ends where `path` does, and returns its beginning. A part
 * that has no name, or no room, is "...". */
static const char *path_of(struct check *check, uint64_t ino, char path[PATH_MAX])
{
	char *at = path + PATH_MAX - 1;

	*at = '\0';
	for (size_t depth = 0; ino != INODE_ROOT; depth++) {
		const struct check_place *place = find_place(check, ino);
		const char *name = place != NULL ? place->name : NULL;
		size_t length = name != NULL ? strlen(name) : 0;

		if (name == NULL || length + 5 > (size_t)(at - path) ||
		    depth > check->place_count) {
			at -= 3;
			memcpy(at, "...", 3);
			break;
		}
		at -= length;
		memcpy(at, name, length);
		*--at = '/';
		ino = place->parent;
	}
	return at;
}

/* For a terminal: what would move its cursor is '?'. */
static void print_path(const char *path, char *text)
{
	for (; *path != '\0'; path++)
		*text++ = (char)((unsigned char)*path < ' ' || *path == 0x7f ? '?' : *path);
	*text = '\0';
}

static void report_loss(struct check *check, const struct check_loss *loss)
{
	const struct check_inode *inode = check_inode_find(check, loss->ino);
	char path[PATH_MAX], plain[PATH_MAX], text[PATH_MAX + 200];
	struct check_finding finding = {.severity = CHECK_NOTE, .text = text};

	finding.path = path_of(check, loss->ino, path);
	finding.bytes_lost = loss->bytes;
	print_path(finding.path, plain);
	if (inode->names == 0) {
		finding.path = NULL;
		snprintf(plain, sizeof(plain), "inode %" PRIu64 ", which is deleted and kept open,",
			 loss->ino);
	}
	snprintf(text, sizeof(text), "%s has lost %" PRIu64 " of its %" PRIu64 " bytes", plain,
		 loss->bytes, inode->size);
	check_report_finding(check, &finding);
}

int check_losses(struct check *check)
{
	int error = 0;

	check->result->files_damaged = check->loss_count;
	if (check->loss_count == 0)
		return 0;
	for (size_t i = 0; i < check->loss_count && error == 0; i++)
		error = mark_up(check, check->losses[i].ino);
	if (error != 0)
		return error;
	if (check->place_count > 0)
		qsort(check->places, check->place_count, sizeof(check->places[0]), compare_places);
	error = check_scan(check, RECORD_DIRENT, take_name);
	for (size_t i = 0; i < check->loss_count && error == 0; i++)
		report_loss(check, &check->losses[i]);
	return error;
}

void check_losses_finish(struct check *check)
{
	for (size_t i = 0; i < check->place_count; i++)
		free(check->places[i].name);
	free(check->places);
	free(check->losses);
}
