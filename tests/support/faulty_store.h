/* SPDX-License-Identifier: Apache-2.0 */
/* A store in front of another one that fails when it is told to: at a put or delete, or at a
 * commit. For one thread. */
#pragma once

#include "fs/store.h"

struct faulty_store;

/* Takes over `real`, and closes it with store_close() of the result. */
struct store *faulty_store_create(struct store *real);

/* The `nth` put or delete from now on (1: the next) returns `error`; 0 disarms. */
void faulty_store_fail_put(struct store *store, unsigned nth, int error);
/* The next `count` commits do not happen and return `error`. */
void faulty_store_fail_commits(struct store *store, unsigned count, int error);
/* Disarms both. True when one of them has struck since it was armed. */
bool faulty_store_disarm(struct store *store);

/* Commits of write transactions so far. */
unsigned faulty_store_commits(const struct store *store);
