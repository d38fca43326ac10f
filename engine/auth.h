/* SPDX-License-Identifier: Apache-2.0 */
/* Who may use a server's memory: a key that both sides were given beforehand.
 *
 * Each side sends a number that it never sent before, and proves that it has the key by a keyed
 * hash over both numbers, under its own name, so that neither can be made to answer for the other.
 * The server proves first. What is sent is worth nothing later, and the key itself is never sent.
 * None of this hides or protects what is transferred afterwards.
 *
 * The key is the process's, as its owner is. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"

#define RMEM_AUTH_NONCE_BYTES 32
#define RMEM_AUTH_PROOF_BYTES 32
#define RMEM_AUTH_KEY_MIN     16 /* bytes of a key file, without the end of the line */
#define RMEM_AUTH_KEY_MAX     4096

enum rmem_auth_side { RMEM_AUTH_CLIENT, RMEM_AUTH_SERVER };

/* What both sides have sent. */
struct rmem_auth_nonces {
	uint8_t client[RMEM_AUTH_NONCE_BYTES];
	uint8_t server[RMEM_AUTH_NONCE_BYTES];
};

/* Takes the key from a file; NULL: none is wanted any more. Before other threads are there. Errors:
 * those of the file, -EPERM (others may read it), -EINVAL (too short or too long), -ENOTSUP (this
 * build has no libsodium). */
int rmem_auth_set_key_file(const char *path, struct rmem_error *error) RMEM_MUST_CHECK;

/* Whether there is a key, so that the other side has to have it, too. */
bool rmem_auth_is_on(void);

/* The rest only when there is one. */
void rmem_auth_nonce(uint8_t nonce[RMEM_AUTH_NONCE_BYTES]);
void rmem_auth_prove(enum rmem_auth_side side, const struct rmem_auth_nonces *nonces,
		     uint8_t proof[RMEM_AUTH_PROOF_BYTES]);
/* Takes as long for a wrong proof as for a right one. */
bool rmem_auth_is_right(enum rmem_auth_side side, const struct rmem_auth_nonces *nonces,
			const uint8_t proof[RMEM_AUTH_PROOF_BYTES]);
