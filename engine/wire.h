/* SPDX-License-Identifier: Apache-2.0 */
/* Every message between a client and a memory server, as it lies on the wire.
 *
 * A conversation: the client says HELLO and gets WELCOME, or an ERROR and the end; the connection
 * then stays open and its end is the end of the peer. STATUS_REQUEST gets STATUS, any time after
 * WELCOME, and as a first message where the server has no key: one that has tells nothing to who
 * doesn't prove to have it, too. HELLO with the feature ASK does, and gets STATUS in place of
 * WELCOME. Over a Unix socket, WELCOME carries the descriptors of the
 * pool as SCM_RIGHTS, and there NOTICES_REQUEST, any time after WELCOME, gets NOTICES: each carries
 * the descriptors that engine/fabric_shm_notices.h tells of.
 *
 * Rules: all numbers are little-endian; what is reserved is sent as zero, and refused when it is
 * not; texts are padded with zeros and end with one. The header and ERROR keep their layout in
 * every version, so that a peer of any version can read why it was turned away. A new field takes
 * reserved bytes and a feature bit; a new version is for what can't be had that way. Features that
 * both sides name are in force. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/auth.h"
#include "engine/base/hint.h"
#include "engine/fabric.h"
#include "engine/rmem.h"

#define RMEM_WIRE_MAGIC	    0x4d454d52u /* "RMEM" */
#define RMEM_WIRE_VERSION   1
#define RMEM_WIRE_MAX_BYTES 4096 /* of any message, header included */
#define RMEM_WIRE_NO_FD	    0xffffffffu

enum rmem_wire_type {
	RMEM_WIRE_HELLO = 1,
	RMEM_WIRE_WELCOME = 2,
	RMEM_WIRE_STATUS_REQUEST = 3,
	RMEM_WIRE_STATUS = 4,
	RMEM_WIRE_ERROR = 5,
	RMEM_WIRE_NOTICES_REQUEST = 6,
	RMEM_WIRE_NOTICES = 7,
	RMEM_WIRE_CHALLENGE = 8,
	RMEM_WIRE_PROOF = 9,
};

/* In HELLO what the client can do, in WELCOME what the server can. */
enum rmem_wire_feature {
	RMEM_WIRE_FEATURE_NOTICES = 1,
	RMEM_WIRE_FEATURE_KEY = 2, /* a client that has one, and wants the server to have it */
	RMEM_WIRE_FEATURE_ASK =
		4, /* a client that wants STATUS instead of WELCOME, and no memory */
};

enum rmem_wire_code {
	RMEM_WIRE_CODE_PROTOCOL = 1, /* a message that makes no sense, or not here */
	RMEM_WIRE_CODE_VERSION = 2,
	RMEM_WIRE_CODE_BUSY = 3,    /* no room for another client */
	RMEM_WIRE_CODE_TIMEOUT = 4, /* the client took too long to say who it is */
	RMEM_WIRE_CODE_STOPPING = 5,
	RMEM_WIRE_CODE_INTERNAL = 6,
	RMEM_WIRE_CODE_OWNED = 7, /* the memory holds somebody else's content */
	RMEM_WIRE_CODE_KEY = 8,	  /* one has a key and the other not, or another one */
};

struct rmem_wire_header {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	uint32_t length; /* of the message, this header included */
	uint32_t reserved;
};
static_assert(sizeof(struct rmem_wire_header) == 16, "wire layout");
static_assert(offsetof(struct rmem_wire_header, type) == 6, "wire layout");
static_assert(offsetof(struct rmem_wire_header, length) == 8, "wire layout");

#define RMEM_WIRE_NAME_BYTES 32
#define RMEM_WIRE_HOST_BYTES 64

struct rmem_wire_hello {
	struct rmem_wire_header header;
	uint64_t features; /* that the client can do */
	uint32_t pid;	   /* of the client, on its host; for the log */
	uint32_t reserved0;
	char name[RMEM_WIRE_NAME_BYTES]; /* program, for the log */
	char host[RMEM_WIRE_HOST_BYTES];
	uint8_t owner[RMEM_OWNER_BYTES]; /* whose content it wants to keep there; zero: nobody's */
	uint8_t nonce[RMEM_AUTH_NONCE_BYTES]; /* with the feature; otherwise zero */
	uint8_t reserved[16];
};
static_assert(sizeof(struct rmem_wire_hello) == 192, "wire layout");
static_assert(offsetof(struct rmem_wire_hello, features) == 16, "wire layout");
static_assert(offsetof(struct rmem_wire_hello, pid) == 24, "wire layout");
static_assert(offsetof(struct rmem_wire_hello, name) == 32, "wire layout");
static_assert(offsetof(struct rmem_wire_hello, host) == 64, "wire layout");
static_assert(offsetof(struct rmem_wire_hello, owner) == 128, "wire layout");
static_assert(offsetof(struct rmem_wire_hello, nonce) == 144, "wire layout");
static_assert(offsetof(struct rmem_wire_hello, reserved) == 176, "wire layout");

/* Where both have a key, HELLO gets a CHALLENGE, that a PROOF, and only that WELCOME. */
struct rmem_wire_challenge {
	struct rmem_wire_header header;
	uint8_t nonce[RMEM_AUTH_NONCE_BYTES]; /* the server's */
	uint8_t proof[RMEM_AUTH_PROOF_BYTES]; /* likewise */
};
static_assert(sizeof(struct rmem_wire_challenge) == 80, "wire layout");
static_assert(offsetof(struct rmem_wire_challenge, nonce) == 16, "wire layout");
static_assert(offsetof(struct rmem_wire_challenge, proof) == 48, "wire layout");

struct rmem_wire_proof {
	struct rmem_wire_header header;
	uint8_t proof[RMEM_AUTH_PROOF_BYTES]; /* the client's */
};
static_assert(sizeof(struct rmem_wire_proof) == 48, "wire layout");
static_assert(offsetof(struct rmem_wire_proof, proof) == 16, "wire layout");

struct rmem_wire_region {
	uint64_t address; /* what work requests add offsets to */
	uint64_t length;
	uint64_t fd_offset; /* where the region begins in the descriptor */
	uint32_t key;
	uint32_t id;
	uint32_t fd_index; /* among those that came along, or RMEM_WIRE_NO_FD */
	uint32_t page_bytes;
	uint8_t reserved[8];
};
static_assert(sizeof(struct rmem_wire_region) == 48, "wire layout");
static_assert(offsetof(struct rmem_wire_region, length) == 8, "wire layout");
static_assert(offsetof(struct rmem_wire_region, fd_offset) == 16, "wire layout");
static_assert(offsetof(struct rmem_wire_region, key) == 24, "wire layout");
static_assert(offsetof(struct rmem_wire_region, id) == 28, "wire layout");
static_assert(offsetof(struct rmem_wire_region, fd_index) == 32, "wire layout");
static_assert(offsetof(struct rmem_wire_region, page_bytes) == 36, "wire layout");

/* Followed by `region_count` regions. */
struct rmem_wire_welcome {
	struct rmem_wire_header header;
	uint64_t features; /* in force */
	uint64_t incarnation;
	uint32_t pid; /* of the server */
	uint32_t region_count;
	uint8_t reserved[24];
};
static_assert(sizeof(struct rmem_wire_welcome) == 64, "wire layout");
static_assert(offsetof(struct rmem_wire_welcome, features) == 16, "wire layout");
static_assert(offsetof(struct rmem_wire_welcome, incarnation) == 24, "wire layout");
static_assert(offsetof(struct rmem_wire_welcome, pid) == 32, "wire layout");
static_assert(offsetof(struct rmem_wire_welcome, region_count) == 36, "wire layout");
static_assert(offsetof(struct rmem_wire_welcome, reserved) == 40, "wire layout");
static_assert(sizeof(struct rmem_wire_welcome) +
			      RMEM_REGIONS_MAX * sizeof(struct rmem_wire_region) <=
		      RMEM_WIRE_MAX_BYTES,
	      "a full region table fits into one message");

struct rmem_wire_status_request {
	struct rmem_wire_header header;
	uint8_t reserved[16];
};
static_assert(sizeof(struct rmem_wire_status_request) == 32, "wire layout");

#define RMEM_WIRE_BACKING_BYTES 256

struct rmem_wire_status {
	struct rmem_wire_header header;
	uint64_t incarnation;
	uint64_t pool_bytes;
	uint64_t uptime_ms;
	uint32_t pid;
	uint32_t page_bytes; /* of the pool's memory: 4096 when it is not huge */
	uint32_t region_count;
	uint32_t client_count;
	uint32_t flags;
	uint32_t reserved0;
	char program[RMEM_WIRE_NAME_BYTES];    /* and its version */
	char backing[RMEM_WIRE_BACKING_BYTES]; /* "anonymous" or a path */
	uint8_t owner[RMEM_OWNER_BYTES]; /* whose content it has; zero: nobody's, or not told */
	uint8_t reserved[48];
};
static_assert(sizeof(struct rmem_wire_status) == 416, "wire layout");
static_assert(offsetof(struct rmem_wire_status, incarnation) == 16, "wire layout");
static_assert(offsetof(struct rmem_wire_status, pool_bytes) == 24, "wire layout");
static_assert(offsetof(struct rmem_wire_status, uptime_ms) == 32, "wire layout");
static_assert(offsetof(struct rmem_wire_status, pid) == 40, "wire layout");
static_assert(offsetof(struct rmem_wire_status, page_bytes) == 44, "wire layout");
static_assert(offsetof(struct rmem_wire_status, region_count) == 48, "wire layout");
static_assert(offsetof(struct rmem_wire_status, client_count) == 52, "wire layout");
static_assert(offsetof(struct rmem_wire_status, flags) == 56, "wire layout");
static_assert(offsetof(struct rmem_wire_status, program) == 64, "wire layout");
static_assert(offsetof(struct rmem_wire_status, backing) == 96, "wire layout");
static_assert(offsetof(struct rmem_wire_status, owner) == 352, "wire layout");
static_assert(offsetof(struct rmem_wire_status, reserved) == 368, "wire layout");

/* Request and answer alike. */
struct rmem_wire_notices {
	struct rmem_wire_header header;
	uint32_t notices; /* each way: wanted; in the answer: to be had, 2^n, or 0 */
	uint32_t bit;	  /* of the sender's bell, that the other is to set: 0 to 63 */
	uint8_t reserved[8];
};
static_assert(sizeof(struct rmem_wire_notices) == 32, "wire layout");
static_assert(offsetof(struct rmem_wire_notices, notices) == 16, "wire layout");
static_assert(offsetof(struct rmem_wire_notices, bit) == 20, "wire layout");
static_assert(offsetof(struct rmem_wire_notices, reserved) == 24, "wire layout");

#define RMEM_WIRE_TEXT_BYTES 232

struct rmem_wire_error {
	struct rmem_wire_header header;
	uint32_t code;
	uint32_t reserved0;
	char text[RMEM_WIRE_TEXT_BYTES];
};
static_assert(sizeof(struct rmem_wire_error) == 256, "wire layout");
static_assert(offsetof(struct rmem_wire_error, code) == 16, "wire layout");
static_assert(offsetof(struct rmem_wire_error, text) == 24, "wire layout");

/* Queue pairs that rdma_cm connects are introduced by a JOIN in the private data of the request,
 * and answered by one in that of the reply. The first of a client is for control: messages go over
 * it as over a socket, each with one SEND. The answer to it has a token, by which the client's
 * lanes are known for its own; they come after WELCOME. A refusal has a DENIAL. Private data is
 * padded with zeros by the connection manager, so what follows is ignored. */
enum rmem_wire_join_kind {
	RMEM_WIRE_JOIN_CONTROL = 1,
	RMEM_WIRE_JOIN_LANE = 2,
};

#define RMEM_WIRE_JOIN_MAX_BYTES   56  /* of a request's private data, over IP */
#define RMEM_WIRE_DENIAL_MAX_BYTES 148 /* of a refusal's */

struct rmem_wire_join {
	uint32_t magic;
	uint16_t version;
	uint16_t kind;
	uint64_t token;
	uint32_t mtu_bytes; /* the largest that the client wants; in the answer: what it is */
	uint32_t notices;   /* each way, on a lane: wanted; in the answer: to be had, 2^n, or 0 */
	uint8_t reserved[24];
};
static_assert(sizeof(struct rmem_wire_join) == 48, "wire layout");
static_assert(offsetof(struct rmem_wire_join, version) == 4, "wire layout");
static_assert(offsetof(struct rmem_wire_join, kind) == 6, "wire layout");
static_assert(offsetof(struct rmem_wire_join, token) == 8, "wire layout");
static_assert(offsetof(struct rmem_wire_join, mtu_bytes) == 16, "wire layout");
static_assert(offsetof(struct rmem_wire_join, notices) == 20, "wire layout");
static_assert(offsetof(struct rmem_wire_join, reserved) == 24, "wire layout");
static_assert(sizeof(struct rmem_wire_join) <= RMEM_WIRE_JOIN_MAX_BYTES, "fits a request");

#define RMEM_WIRE_DENIAL_TEXT_BYTES 128

struct rmem_wire_denial {
	uint32_t magic;
	uint16_t version;
	uint16_t reserved0;
	uint32_t code;
	uint32_t reserved1;
	char text[RMEM_WIRE_DENIAL_TEXT_BYTES];
};
static_assert(sizeof(struct rmem_wire_denial) == 144, "wire layout");
static_assert(offsetof(struct rmem_wire_denial, code) == 8, "wire layout");
static_assert(offsetof(struct rmem_wire_denial, text) == 16, "wire layout");
static_assert(sizeof(struct rmem_wire_denial) <= RMEM_WIRE_DENIAL_MAX_BYTES, "fits a refusal");

/* --- What the program works with -------------------------------------------------------------- */

struct rmem_hello {
	uint64_t features;
	uint32_t pid;
	char name[RMEM_WIRE_NAME_BYTES];
	char host[RMEM_WIRE_HOST_BYTES];
	uint8_t owner[RMEM_OWNER_BYTES];
	uint8_t nonce[RMEM_AUTH_NONCE_BYTES];
};

struct rmem_challenge {
	uint8_t nonce[RMEM_AUTH_NONCE_BYTES];
	uint8_t proof[RMEM_AUTH_PROOF_BYTES];
};

struct rmem_welcome_region {
	struct rmem_remote remote;
	uint64_t fd_offset;
	uint32_t fd_index;
	uint32_t page_bytes;
};

struct rmem_welcome {
	uint64_t features;
	uint64_t incarnation;
	uint32_t pid;
	uint32_t region_count;
	struct rmem_welcome_region regions[RMEM_REGIONS_MAX];
};

enum rmem_status_flags {
	RMEM_STATUS_HUGE_PAGES = 1,  /* of hugetlbfs */
	RMEM_STATUS_TRANSPARENT = 2, /* transparent ones were asked for */
	RMEM_STATUS_PERSISTENT = 4,  /* the pool is a file */
};

/* Also what rmem_server_query_status() gives. */
struct rmem_status {
	uint64_t incarnation;
	uint64_t pool_bytes;
	uint64_t uptime_ms;
	uint32_t pid;
	uint32_t page_bytes;
	uint32_t region_count;
	uint32_t client_count; /* connected, the asker not counted */
	uint32_t flags;
	char program[RMEM_WIRE_NAME_BYTES];
	char backing[RMEM_WIRE_BACKING_BYTES];
	uint8_t owner[RMEM_OWNER_BYTES]; /* whose content it has; zero: nobody's, or not told */
};

struct rmem_join {
	enum rmem_wire_join_kind kind;
	uint64_t token;
	uint32_t mtu_bytes;
	uint32_t notices;
};

struct rmem_wire_bells {
	uint32_t notices;
	uint32_t bit;
};

struct rmem_wire_refusal {
	uint32_t code;
	char text[RMEM_WIRE_TEXT_BYTES];
};

/* Each writes one message into `buffer` of RMEM_WIRE_MAX_BYTES and returns its length. Texts that
 * are too long are cut. */
size_t rmem_wire_put_hello(void *buffer, const struct rmem_hello *hello);
size_t rmem_wire_put_challenge(void *buffer, const struct rmem_challenge *challenge);
size_t rmem_wire_put_proof(void *buffer, const uint8_t proof[RMEM_AUTH_PROOF_BYTES]);
size_t rmem_wire_put_welcome(void *buffer, const struct rmem_welcome *welcome);
size_t rmem_wire_put_status_request(void *buffer);
size_t rmem_wire_put_status(void *buffer, const struct rmem_status *status);
size_t rmem_wire_put_error(void *buffer, enum rmem_wire_code code, const char *text);
/* `type` is NOTICES_REQUEST or NOTICES. */
size_t rmem_wire_put_notices(void *buffer, enum rmem_wire_type type,
			     const struct rmem_wire_bells *bells);

/* Looks at the beginning of a message of which `used` bytes have come. 0: the header is there and
 * sound, `*type` and `*length` are set (the message itself may still be on its way). -EAGAIN: more
 * is needed to tell. -EPROTO: this is no such protocol, or a length out of range.
 * -EPROTONOSUPPORT: another version of it, and no ERROR. */
int rmem_wire_peek(const void *buffer, size_t used, enum rmem_wire_type *type,
		   size_t *length) RMEM_MUST_CHECK;

/* Each reads a whole message, which rmem_wire_peek() found sound and of this type. Every field is
 * checked; texts come back ended and printable. -EPROTO when something is wrong. */
int rmem_wire_get_hello(const void *buffer, size_t length,
			struct rmem_hello *hello) RMEM_MUST_CHECK;
int rmem_wire_get_challenge(const void *buffer, size_t length,
			    struct rmem_challenge *challenge) RMEM_MUST_CHECK;
int rmem_wire_get_proof(const void *buffer, size_t length,
			uint8_t proof[RMEM_AUTH_PROOF_BYTES]) RMEM_MUST_CHECK;
int rmem_wire_get_welcome(const void *buffer, size_t length,
			  struct rmem_welcome *welcome) RMEM_MUST_CHECK;
int rmem_wire_get_status_request(const void *buffer, size_t length) RMEM_MUST_CHECK;
int rmem_wire_get_status(const void *buffer, size_t length,
			 struct rmem_status *status) RMEM_MUST_CHECK;
int rmem_wire_get_error(const void *buffer, size_t length,
			struct rmem_wire_refusal *refusal) RMEM_MUST_CHECK;

int rmem_wire_get_notices(const void *buffer, size_t length,
			  struct rmem_wire_bells *bells) RMEM_MUST_CHECK;

/* Private data: into `buffer` of RMEM_WIRE_DENIAL_MAX_BYTES. */
size_t rmem_wire_put_join(void *buffer, const struct rmem_join *join);
size_t rmem_wire_put_denial(void *buffer, enum rmem_wire_code code, const char *text);

/* -EPROTO: not from a program of this kind, or garbled. -EPROTONOSUPPORT: of another version. */
int rmem_wire_get_join(const void *buffer, size_t length, struct rmem_join *join) RMEM_MUST_CHECK;
/* Of any version. */
int rmem_wire_get_denial(const void *buffer, size_t length,
			 struct rmem_wire_refusal *refusal) RMEM_MUST_CHECK;
