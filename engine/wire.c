/* SPDX-License-Identifier: Apache-2.0 */
/* Messages are copied in and out of their wire structs, never read in place: a received buffer has
 * no particular alignment. */
#include "engine/wire.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/checked.h"

static struct rmem_wire_header header_make(enum rmem_wire_type type, size_t length)
{
	return (struct rmem_wire_header){
		.magic = htole32(RMEM_WIRE_MAGIC),
		.version = htole16(RMEM_WIRE_VERSION),
		.type = htole16((uint16_t)type),
		.length = htole32((uint32_t)length),
	};
}

/* Copies what fits, ends it and leaves the rest zero, as it was. */
static void text_put(char *field, size_t size, const char *text)
{
	size_t length = strnlen(text, size - 1);

	memcpy(field, text, length);
}

static bool is_zero(const void *bytes, size_t size)
{
	const uint8_t *byte = bytes;

	for (size_t i = 0; i < size; i++) {
		if (byte[i] != 0)
			return false;
	}
	return true;
}

/* A text goes to logs and terminals: what is not plain ASCII becomes '?'. */
static int text_get(char *text, const char *field, size_t size)
{
	size_t length = strnlen(field, size);

	if (length == size || !is_zero(field + length, size - length))
		return -EPROTO;
	memcpy(text, field, size);
	for (size_t i = 0; i < length; i++) {
		if (text[i] < 0x20 || text[i] > 0x7e)
			text[i] = '?';
	}
	return 0;
}

size_t rmem_wire_put_hello(void *buffer, const struct rmem_hello *hello)
{
	struct rmem_wire_hello wire = {
		.header = header_make(RMEM_WIRE_HELLO, sizeof(wire)),
		.features = htole64(hello->features),
		.pid = htole32(hello->pid),
	};

	text_put(wire.name, sizeof(wire.name), hello->name);
	text_put(wire.host, sizeof(wire.host), hello->host);
	memcpy(wire.owner, hello->owner, sizeof(wire.owner));
	memcpy(wire.nonce, hello->nonce, sizeof(wire.nonce));
	memcpy(buffer, &wire, sizeof(wire));
	return sizeof(wire);
}

size_t rmem_wire_put_challenge(void *buffer, const struct rmem_challenge *challenge)
{
	struct rmem_wire_challenge wire = {
		.header = header_make(RMEM_WIRE_CHALLENGE, sizeof(wire)),
	};

	memcpy(wire.nonce, challenge->nonce, sizeof(wire.nonce));
	memcpy(wire.proof, challenge->proof, sizeof(wire.proof));
	memcpy(buffer, &wire, sizeof(wire));
	return sizeof(wire);
}

size_t rmem_wire_put_proof(void *buffer, const uint8_t proof[RMEM_AUTH_PROOF_BYTES])
{
	struct rmem_wire_proof wire = {.header = header_make(RMEM_WIRE_PROOF, sizeof(wire))};

	memcpy(wire.proof, proof, sizeof(wire.proof));
	memcpy(buffer, &wire, sizeof(wire));
	return sizeof(wire);
}

size_t rmem_wire_put_welcome(void *buffer, const struct rmem_welcome *welcome)
{
	size_t length = sizeof(struct rmem_wire_welcome) +
			welcome->region_count * sizeof(struct rmem_wire_region);
	struct rmem_wire_welcome wire = {
		.header = header_make(RMEM_WIRE_WELCOME, length),
		.features = htole64(welcome->features),
		.incarnation = htole64(welcome->incarnation),
		.pid = htole32(welcome->pid),
		.region_count = htole32(welcome->region_count),
	};
	uint8_t *at = buffer;

	assert(welcome->region_count <= RMEM_REGIONS_MAX);
	memcpy(at, &wire, sizeof(wire));
	at += sizeof(wire);
	for (uint32_t i = 0; i < welcome->region_count; i++) {
		const struct rmem_welcome_region *region = &welcome->regions[i];
		struct rmem_wire_region entry = {
			.address = htole64(region->remote.address),
			.length = htole64(region->remote.length),
			.fd_offset = htole64(region->fd_offset),
			.key = htole32(region->remote.key),
			.id = htole32(region->remote.id),
			.fd_index = htole32(region->fd_index),
			.page_bytes = htole32(region->page_bytes),
		};

		memcpy(at, &entry, sizeof(entry));
		at += sizeof(entry);
	}
	return length;
}

size_t rmem_wire_put_status_request(void *buffer)
{
	struct rmem_wire_status_request wire = {
		.header = header_make(RMEM_WIRE_STATUS_REQUEST, sizeof(wire)),
	};

	memcpy(buffer, &wire, sizeof(wire));
	return sizeof(wire);
}

size_t rmem_wire_put_status(void *buffer, const struct rmem_status *status)
{
	struct rmem_wire_status wire = {
		.header = header_make(RMEM_WIRE_STATUS, sizeof(wire)),
		.incarnation = htole64(status->incarnation),
		.pool_bytes = htole64(status->pool_bytes),
		.uptime_ms = htole64(status->uptime_ms),
		.pid = htole32(status->pid),
		.page_bytes = htole32(status->page_bytes),
		.region_count = htole32(status->region_count),
		.client_count = htole32(status->client_count),
		.flags = htole32(status->flags),
	};

	text_put(wire.program, sizeof(wire.program), status->program);
	text_put(wire.backing, sizeof(wire.backing), status->backing);
	memcpy(wire.owner, status->owner, sizeof(wire.owner));
	memcpy(buffer, &wire, sizeof(wire));
	return sizeof(wire);
}

size_t rmem_wire_put_error(void *buffer, enum rmem_wire_code code, const char *text)
{
	struct rmem_wire_error wire = {
		.header = header_make(RMEM_WIRE_ERROR, sizeof(wire)),
		.code = htole32((uint32_t)code),
	};

	text_put(wire.text, sizeof(wire.text), text);
	memcpy(buffer, &wire, sizeof(wire));
	return sizeof(wire);
}

int rmem_wire_peek(const void *buffer, size_t used, enum rmem_wire_type *type, size_t *length)
{
	const uint32_t magic = htole32(RMEM_WIRE_MAGIC);
	struct rmem_wire_header header;

	/* A foreign peer is told apart by the first bytes it sends, it may never send more. */
	if (memcmp(buffer, &magic, used < sizeof(magic) ? used : sizeof(magic)) != 0)
		return -EPROTO;
	if (used < sizeof(header))
		return -EAGAIN;
	memcpy(&header, buffer, sizeof(header));
	*type = (enum rmem_wire_type)le16toh(header.type);
	*length = le32toh(header.length);
	if (*length < sizeof(header) || *length > RMEM_WIRE_MAX_BYTES)
		return -EPROTO;
	if (*type == RMEM_WIRE_ERROR)
		return 0;
	if (le16toh(header.version) != RMEM_WIRE_VERSION)
		return -EPROTONOSUPPORT;
	return header.reserved == 0 ? 0 : -EPROTO;
}

int rmem_wire_get_hello(const void *buffer, size_t length, struct rmem_hello *hello)
{
	struct rmem_wire_hello wire;

	if (length != sizeof(wire))
		return -EPROTO;
	memcpy(&wire, buffer, sizeof(wire));
	if (wire.reserved0 != 0 || !is_zero(wire.reserved, sizeof(wire.reserved)))
		return -EPROTO;
	hello->features = le64toh(wire.features);
	hello->pid = le32toh(wire.pid);
	if ((hello->features & RMEM_WIRE_FEATURE_KEY) == 0 &&
	    !is_zero(wire.nonce, sizeof(wire.nonce)))
		return -EPROTO;
	memcpy(hello->owner, wire.owner, sizeof(hello->owner));
	memcpy(hello->nonce, wire.nonce, sizeof(hello->nonce));
	if (text_get(hello->name, wire.name, sizeof(wire.name)) != 0)
		return -EPROTO;
	return text_get(hello->host, wire.host, sizeof(wire.host));
}

int rmem_wire_get_challenge(const void *buffer, size_t length, struct rmem_challenge *challenge)
{
	struct rmem_wire_challenge wire;

	if (length != sizeof(wire))
		return -EPROTO;
	memcpy(&wire, buffer, sizeof(wire));
	memcpy(challenge->nonce, wire.nonce, sizeof(challenge->nonce));
	memcpy(challenge->proof, wire.proof, sizeof(challenge->proof));
	return 0;
}

int rmem_wire_get_proof(const void *buffer, size_t length, uint8_t proof[RMEM_AUTH_PROOF_BYTES])
{
	struct rmem_wire_proof wire;

	if (length != sizeof(wire))
		return -EPROTO;
	memcpy(&wire, buffer, sizeof(wire));
	memcpy(proof, wire.proof, sizeof(wire.proof));
	return 0;
}

static int region_get(const uint8_t *at, uint32_t id, struct rmem_welcome_region *region)
{
	struct rmem_wire_region wire;

	memcpy(&wire, at, sizeof(wire));
	*region = (struct rmem_welcome_region){
		.remote = {.address = le64toh(wire.address),
			   .length = le64toh(wire.length),
			   .key = le32toh(wire.key),
			   .id = le32toh(wire.id)},
		.fd_offset = le64toh(wire.fd_offset),
		.fd_index = le32toh(wire.fd_index),
		.page_bytes = le32toh(wire.page_bytes),
	};
	if (region->remote.id != id || region->remote.length == 0 ||
	    region->remote.length % RMEM_PAGE_BYTES != 0 || !is_zero(wire.reserved, 8))
		return -EPROTO;
	if (region->page_bytes < RMEM_PAGE_BYTES || !rmem_is_power_of_two(region->page_bytes))
		return -EPROTO;
	/* Nothing that is computed from these wraps: neither an address nor a file offset. */
	if (!rmem_range_ok(region->remote.address, region->remote.length, UINT64_MAX) ||
	    !rmem_range_ok(region->fd_offset, region->remote.length, INT64_MAX))
		return -EPROTO;
	return region->fd_offset % region->page_bytes == 0 ? 0 : -EPROTO;
}

int rmem_wire_get_welcome(const void *buffer, size_t length, struct rmem_welcome *welcome)
{
	const uint8_t *at = buffer;
	struct rmem_wire_welcome wire;

	if (length < sizeof(wire))
		return -EPROTO;
	memcpy(&wire, at, sizeof(wire));
	at += sizeof(wire);
	welcome->features = le64toh(wire.features);
	welcome->incarnation = le64toh(wire.incarnation);
	welcome->pid = le32toh(wire.pid);
	welcome->region_count = le32toh(wire.region_count);
	if (welcome->region_count == 0 || welcome->region_count > RMEM_REGIONS_MAX ||
	    welcome->incarnation == 0 || !is_zero(wire.reserved, sizeof(wire.reserved)))
		return -EPROTO;
	if (length != sizeof(wire) + welcome->region_count * sizeof(struct rmem_wire_region))
		return -EPROTO;
	for (uint32_t i = 0; i < welcome->region_count; i++) {
		if (region_get(at, i, &welcome->regions[i]) != 0)
			return -EPROTO;
		at += sizeof(struct rmem_wire_region);
	}
	return 0;
}

int rmem_wire_get_status_request(const void *buffer, size_t length)
{
	struct rmem_wire_status_request wire;

	if (length != sizeof(wire))
		return -EPROTO;
	memcpy(&wire, buffer, sizeof(wire));
	return is_zero(wire.reserved, sizeof(wire.reserved)) ? 0 : -EPROTO;
}

int rmem_wire_get_status(const void *buffer, size_t length, struct rmem_status *status)
{
	struct rmem_wire_status wire;

	if (length != sizeof(wire))
		return -EPROTO;
	memcpy(&wire, buffer, sizeof(wire));
	if (wire.reserved0 != 0 || !is_zero(wire.reserved, sizeof(wire.reserved)))
		return -EPROTO;
	status->incarnation = le64toh(wire.incarnation);
	status->pool_bytes = le64toh(wire.pool_bytes);
	status->uptime_ms = le64toh(wire.uptime_ms);
	status->pid = le32toh(wire.pid);
	status->page_bytes = le32toh(wire.page_bytes);
	status->region_count = le32toh(wire.region_count);
	status->client_count = le32toh(wire.client_count);
	status->flags = le32toh(wire.flags);
	memcpy(status->owner, wire.owner, sizeof(status->owner));
	if (status->region_count > RMEM_REGIONS_MAX)
		return -EPROTO;
	if (text_get(status->program, wire.program, sizeof(wire.program)) != 0)
		return -EPROTO;
	return text_get(status->backing, wire.backing, sizeof(wire.backing));
}

int rmem_wire_get_error(const void *buffer, size_t length, struct rmem_wire_refusal *refusal)
{
	struct rmem_wire_error wire;

	/* A later version may say more behind what is read here. */
	if (length < sizeof(wire))
		return -EPROTO;
	memcpy(&wire, buffer, sizeof(wire));
	refusal->code = le32toh(wire.code);
	return text_get(refusal->text, wire.text, sizeof(wire.text));
}

size_t rmem_wire_put_notices(void *buffer, enum rmem_wire_type type,
			     const struct rmem_wire_bells *bells)
{
	struct rmem_wire_notices wire = {
		.header = header_make(type, sizeof(wire)),
		.notices = htole32(bells->notices),
		.bit = htole32(bells->bit),
	};

	memcpy(buffer, &wire, sizeof(wire));
	return sizeof(wire);
}

static bool is_notice_count(uint32_t count)
{
	return count == 0 || (count <= RMEM_NOTICES_MAX && rmem_is_power_of_two(count));
}

int rmem_wire_get_notices(const void *buffer, size_t length, struct rmem_wire_bells *bells)
{
	struct rmem_wire_notices wire;

	if (length != sizeof(wire))
		return -EPROTO;
	memcpy(&wire, buffer, sizeof(wire));
	bells->notices = le32toh(wire.notices);
	bells->bit = le32toh(wire.bit);
	if (!is_notice_count(bells->notices) || bells->bit > 63 ||
	    !is_zero(wire.reserved, sizeof(wire.reserved)))
		return -EPROTO;
	return 0;
}

size_t rmem_wire_put_join(void *buffer, const struct rmem_join *join)
{
	struct rmem_wire_join wire = {
		.magic = htole32(RMEM_WIRE_MAGIC),
		.version = htole16(RMEM_WIRE_VERSION),
		.kind = htole16((uint16_t)join->kind),
		.token = htole64(join->token),
		.mtu_bytes = htole32(join->mtu_bytes),
		.notices = htole32(join->notices),
	};

	memcpy(buffer, &wire, sizeof(wire));
	return sizeof(wire);
}

size_t rmem_wire_put_denial(void *buffer, enum rmem_wire_code code, const char *text)
{
	struct rmem_wire_denial wire = {
		.magic = htole32(RMEM_WIRE_MAGIC),
		.version = htole16(RMEM_WIRE_VERSION),
		.code = htole32((uint32_t)code),
	};

	text_put(wire.text, sizeof(wire.text), text);
	memcpy(buffer, &wire, sizeof(wire));
	return sizeof(wire);
}

int rmem_wire_get_join(const void *buffer, size_t length, struct rmem_join *join)
{
	struct rmem_wire_join wire;
	uint16_t kind;

	if (length < sizeof(wire))
		return -EPROTO;
	memcpy(&wire, buffer, sizeof(wire));
	if (le32toh(wire.magic) != RMEM_WIRE_MAGIC)
		return -EPROTO;
	if (le16toh(wire.version) != RMEM_WIRE_VERSION)
		return -EPROTONOSUPPORT;
	kind = le16toh(wire.kind);
	join->notices = le32toh(wire.notices);
	if ((kind != RMEM_WIRE_JOIN_CONTROL && kind != RMEM_WIRE_JOIN_LANE) ||
	    !is_notice_count(join->notices) || !is_zero(wire.reserved, sizeof(wire.reserved)))
		return -EPROTO;
	join->kind = (enum rmem_wire_join_kind)kind;
	join->token = le64toh(wire.token);
	join->mtu_bytes = le32toh(wire.mtu_bytes);
	if (join->mtu_bytes != 0 && (!rmem_is_power_of_two(join->mtu_bytes) ||
				     join->mtu_bytes < 256 || join->mtu_bytes > 4096))
		return -EPROTO;
	return 0;
}

int rmem_wire_get_denial(const void *buffer, size_t length, struct rmem_wire_refusal *refusal)
{
	struct rmem_wire_denial wire;
	char text[RMEM_WIRE_DENIAL_TEXT_BYTES];

	if (length < sizeof(wire))
		return -EPROTO;
	memcpy(&wire, buffer, sizeof(wire));
	if (le32toh(wire.magic) != RMEM_WIRE_MAGIC ||
	    text_get(text, wire.text, sizeof(wire.text)) != 0)
		return -EPROTO;
	refusal->code = le32toh(wire.code);
	snprintf(refusal->text, sizeof(refusal->text), "%s", text);
	return 0;
}
