/* SPDX-License-Identifier: Apache-2.0 */
/* A server's pool of memory: made, checked, populated, and remembered across restarts.
 *
 * An anonymous pool is a sealed memfd: its size can't change any more, so that no client can be
 * made to fault on it. A pool file begins with a header (magic, size, incarnation, boot id,
 * clean flag), so that a server which comes back knows whether the content survived. Either way all
 * of its memory exists before the first client sees it: running out is a refusal to start, never
 * a signal in the middle of a copy.
 *
 * Everything here is called by one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/rmem.h"

#define RMEM_POOL_ANONYMOUS "anonymous"

enum rmem_pool_populate {
	RMEM_POPULATE_RESERVE, /* memory is allocated, but zeroed when first touched */
	RMEM_POPULATE_TOUCH,   /* zeroed now, by all processors */
};

struct rmem_pool_options {
	uint64_t size_bytes;		 /* multiple of 4096 */
	bool any_size;			 /* take a pool file that is there as it is, also a smaller one */
	const char *backing;		 /* RMEM_POOL_ANONYMOUS or the path of a file */
	enum rmem_huge_pages huge_pages; /* of an anonymous pool */
	enum rmem_pool_populate populate;
	int cancel_fd; /* readable: give up with -ECANCELED; -1 for none */
};

struct rmem_pool {
	int fd;		      /* what clients map */
	int lock_fd;	      /* of a file: holds its lock; -1 otherwise */
	uint64_t data_offset; /* of the exported bytes in `fd` */
	uint64_t data_bytes;
	uint64_t map_bytes; /* of the whole file */
	uint8_t *map;
	uint64_t incarnation;
	uint8_t owner[RMEM_OWNER_BYTES]; /* whose content it is; zero: nobody's */
	uint32_t page_bytes;
	uint32_t flags; /* enum rmem_status_flags */
	bool is_open;	/* a file: its header says so, and is to say "clean" at the end */
	char *backing;
};

/* Errors: -EINVAL (an option), -ENOMEM (more than there is; says how much), -EBUSY (another server
 * has the file), -EEXIST (the file is no pool, or not one of this size; it is left as it was),
 * -ECANCELED, and those of the file system. */
int rmem_pool_create(const struct rmem_pool_options *options, struct rmem_pool **pool,
		     struct rmem_error *error) RMEM_MUST_CHECK;

/* From now on the content is `owner`'s; a file remembers it. Errors: -EIO and those of writing. */
int rmem_pool_claim(struct rmem_pool *pool, const uint8_t owner[RMEM_OWNER_BYTES],
		    struct rmem_error *error) RMEM_MUST_CHECK;

/* A file is written back and marked clean. NULL is fine. Mappings of clients stay valid. */
void rmem_pool_destroy(struct rmem_pool *pool);

/* --- Among the pool's own files --------------------------------------------------------------- */

/* Allocates the memory of [0, bytes) of the file without touching it. */
int rmem_pool_reserve(int fd, uint64_t bytes, int cancel_fd,
		      struct rmem_error *error) RMEM_MUST_CHECK;

enum rmem_pool_access {
	RMEM_POOL_FRESH,    /* no content yet */
	RMEM_POOL_SURVIVED, /* content that must not be dirtied */
};

/* Touches every page of the pool's mapping, with as many threads as there are processors. Pages
 * that nobody allocated before are allocated. */
int rmem_pool_touch(const struct rmem_pool *pool, enum rmem_pool_access access, int cancel_fd,
		    struct rmem_error *error) RMEM_MUST_CHECK;

/* Never 0. */
int rmem_pool_new_incarnation(uint64_t *incarnation, struct rmem_error *error) RMEM_MUST_CHECK;

/* The pool file pool->backing, opened or made; `pool` has no more than that yet. After an error it
 * is for rmem_pool_destroy(). */
int rmem_pool_file_open(const struct rmem_pool_options *options, struct rmem_pool *pool,
			struct rmem_error *error) RMEM_MUST_CHECK;
/* Writes it back and marks it clean; the rest is for rmem_pool_destroy(). */
void rmem_pool_file_close(struct rmem_pool *pool);
/* Writes the header of an open file anew. */
int rmem_pool_file_update(struct rmem_pool *pool, struct rmem_error *error) RMEM_MUST_CHECK;
