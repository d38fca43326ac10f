/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/auth.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if RMEM_SODIUM
#include <sodium.h>

/* Of whatever the file has. */
static uint8_t key[crypto_generichash_KEYBYTES];
static bool is_on;

static_assert(RMEM_AUTH_PROOF_BYTES >= crypto_generichash_BYTES_MIN &&
		      RMEM_AUTH_PROOF_BYTES <= crypto_generichash_BYTES_MAX,
	      "a proof is one hash");

/* Read whole, or -errno. */
static ssize_t read_file(int fd, uint8_t *bytes, size_t size)
{
	size_t used = 0;

	while (used < size) {
		ssize_t got = read(fd, bytes + used, size - used);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		used += (size_t)got;
	}
	return (ssize_t)used;
}

static int check_file(int fd, const char *path, struct rmem_error *error)
{
	struct stat info;

	if (fstat(fd, &info) != 0)
		return rmem_fail(error, errno, "key file %s: %s", path, strerror(errno));
	if (!S_ISREG(info.st_mode))
		return rmem_fail(error, EINVAL, "key file %s: that is no file", path);
	if ((info.st_mode & 077) != 0)
		return rmem_fail(error, EPERM,
				 "key file %s: other users may read or write it: chmod 600 it, and "
				 "make a new key if they did",
				 path);
	return 0;
}

static int take_key(const char *path, uint8_t *bytes, ssize_t length, struct rmem_error *error)
{
	if (length < 0)
		return rmem_fail(error, (int)-length, "key file %s: %s", path,
				 strerror((int)-length));
	while (length > 0 && (bytes[length - 1] == '\n' || bytes[length - 1] == '\r'))
		length--;
	if (length < RMEM_AUTH_KEY_MIN || length > RMEM_AUTH_KEY_MAX)
		return rmem_fail(error, EINVAL,
				 "key file %s: a key of %zd bytes; it must have from %d to %d, and "
				 "be random: head -c 32 /dev/urandom | base64",
				 path, length, RMEM_AUTH_KEY_MIN, RMEM_AUTH_KEY_MAX);
	crypto_generichash(key, sizeof(key), bytes, (size_t)length, NULL, 0);
	is_on = true;
	return 0;
}

int rmem_auth_set_key_file(const char *path, struct rmem_error *error)
{
	uint8_t bytes[RMEM_AUTH_KEY_MAX + 3]; /* so that one that is too long shows */
	int fd, rc;

	is_on = false;
	if (path == NULL)
		return 0;
	if (sodium_init() < 0)
		return rmem_fail(error, EIO, "libsodium can't be used here");
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* it may be a FIFO */
	if (fd < 0)
		return rmem_fail(error, errno, "key file %s: %s", path, strerror(errno));
	rc = check_file(fd, path, error);
	if (rc == 0)
		rc = take_key(path, bytes, read_file(fd, bytes, sizeof(bytes)), error);
	sodium_memzero(bytes, sizeof(bytes));
	close(fd);
	return rc;
}

bool rmem_auth_is_on(void)
{
	return is_on;
}

void rmem_auth_nonce(uint8_t nonce[RMEM_AUTH_NONCE_BYTES])
{
	randombytes_buf(nonce, RMEM_AUTH_NONCE_BYTES);
}

void rmem_auth_prove(enum rmem_auth_side side, const struct rmem_auth_nonces *nonces,
		     uint8_t proof[RMEM_AUTH_PROOF_BYTES])
{
	static const char *const names[] = {
		[RMEM_AUTH_CLIENT] = "rmemfs client",
		[RMEM_AUTH_SERVER] = "rmemfs server",
	};
	crypto_generichash_state state;

	assert(is_on);
	crypto_generichash_init(&state, key, sizeof(key), RMEM_AUTH_PROOF_BYTES);
	crypto_generichash_update(&state, (const uint8_t *)names[side], strlen(names[side]));
	crypto_generichash_update(&state, nonces->client, sizeof(nonces->client));
	crypto_generichash_update(&state, nonces->server, sizeof(nonces->server));
	crypto_generichash_final(&state, proof, RMEM_AUTH_PROOF_BYTES);
}

bool rmem_auth_is_right(enum rmem_auth_side side, const struct rmem_auth_nonces *nonces,
			const uint8_t proof[RMEM_AUTH_PROOF_BYTES])
{
	uint8_t wanted[RMEM_AUTH_PROOF_BYTES];

	rmem_auth_prove(side, nonces, wanted);
	return sodium_memcmp(wanted, proof, sizeof(wanted)) == 0;
}

#else

int rmem_auth_set_key_file(const char *path, struct rmem_error *error)
{
	if (path == NULL)
		return 0;
	return rmem_fail(error, ENOTSUP,
			 "key file %s: this build has no libsodium: install libsodium-dev and "
			 "build anew",
			 path);
}

bool rmem_auth_is_on(void)
{
	return false;
}

void rmem_auth_nonce(uint8_t nonce[RMEM_AUTH_NONCE_BYTES])
{
	(void)nonce;
	assert(false);
}

void rmem_auth_prove(enum rmem_auth_side side, const struct rmem_auth_nonces *nonces,
		     uint8_t proof[RMEM_AUTH_PROOF_BYTES])
{
	(void)side;
	(void)nonces;
	(void)proof;
	assert(false);
}

bool rmem_auth_is_right(enum rmem_auth_side side, const struct rmem_auth_nonces *nonces,
			const uint8_t proof[RMEM_AUTH_PROOF_BYTES])
{
	(void)side;
	(void)nonces;
	(void)proof;
	return false;
}

#endif
