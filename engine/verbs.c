/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/checked.h"

/* An inline write of 220 bytes and the other fields of its request fill four 64-byte blocks of a
 * send queue. */
#define DEFAULTS                                                                                   \
	{                                                                                          \
		.port = RMEM_VERBS_PORT, .retry_count = 7, .rnr_retry_count = 6,                   \
		.rnr_timer_us = 640, .inline_bytes = 220,                                          \
	}

static struct rmem_verbs_options in_force = DEFAULTS;

void rmem_verbs_options_init(struct rmem_verbs_options *options)
{
	*options = (struct rmem_verbs_options)DEFAULTS;
}

const struct rmem_verbs_options *rmem_verbs_options(void)
{
	return &in_force;
}

int rmem_verbs_configure(const struct rmem_verbs_options *options, struct rmem_error *error)
{
	if (options->port == 0 || options->port > UINT16_MAX)
		return rmem_fail(error, EINVAL, "port is %u: it must be from 1 to 65535",
				 options->port);
	if (options->mtu_bytes != 0 && (!rmem_is_power_of_two(options->mtu_bytes) ||
					options->mtu_bytes < 256 || options->mtu_bytes > 4096))
		return rmem_fail(error, EINVAL,
				 "mtu_bytes is %u: it must be 256, 512, 1024, 2048 or 4096",
				 options->mtu_bytes);
	if (options->retry_count > RMEM_VERBS_RETRY_MAX)
		return rmem_fail(error, EINVAL, "retry_count is %u: it must be at most %d",
				 options->retry_count, RMEM_VERBS_RETRY_MAX);
	if (options->rnr_retry_count > RMEM_VERBS_RNR_MAX)
		return rmem_fail(error, EINVAL, "rnr_retry_count is %u: it must be at most %d",
				 options->rnr_retry_count, RMEM_VERBS_RNR_MAX);
	if (options->traffic_class > UINT8_MAX)
		return rmem_fail(error, EINVAL, "traffic_class is %u: it must be at most 255",
				 options->traffic_class);
	in_force = *options;
	return 0;
}

/* --- URLs --------------------------------------------------------------------------------------
 */

static int malformed(const char *url, const char *why, struct rmem_error *error)
{
	return rmem_fail(error, EINVAL,
			 "%s: %s; an address looks like verbs://10.0.0.1:7471 or "
			 "verbs://[fe80::1%%eth0]:7471",
			 url, why);
}

static int take_port(const char *url, const char *text, struct rmem_verbs_address *address,
		     struct rmem_error *error)
{
	size_t length = strspn(text, "0123456789");
	unsigned long port = length > 0 && length <= 5 ? strtoul(text, NULL, 10) : 0;

	if (text[length] != '\0' || port == 0 || port > UINT16_MAX)
		return malformed(url, "the port must be a number from 1 to 65535", error);
	memcpy(address->port, text, length + 1);
	return 0;
}

int rmem_verbs_parse(const char *url, struct rmem_verbs_address *address, struct rmem_error *error)
{
	static const char scheme[] = "verbs://";
	const char *host = url + sizeof(scheme) - 1;
	const char *end, *port;

	if (strncmp(url, scheme, sizeof(scheme) - 1) != 0)
		return malformed(url, "not a URL of the form verbs://HOST:PORT", error);
	if (*host == '[') {
		host++;
		end = strchr(host, ']');
		if (end == NULL)
			return malformed(url, "the bracket is not closed", error);
		port = end + 1;
	} else {
		end = host + strcspn(host, ":");
		port = end;
		if (*port != '\0' && strchr(port + 1, ':') != NULL)
			return malformed(url, "an IPv6 address needs brackets", error);
	}
	if (end == host)
		return malformed(url, "the host is missing", error);
	if ((size_t)(end - host) >= sizeof(address->host))
		return malformed(url, "the host is too long", error);
	memcpy(address->host, host, (size_t)(end - host));
	address->host[end - host] = '\0';
	if (strcspn(address->host, "/ \t?#@") != strlen(address->host))
		return malformed(url, "that is no host", error);
	if (*port == ':')
		return take_port(url, port + 1, address, error);
	if (*port != '\0')
		return malformed(url, "only a port may follow the host", error);
	snprintf(address->port, sizeof(address->port), "%hu", (unsigned short)in_force.port);
	return 0;
}

/* --- Codes -------------------------------------------------------------------------------------
 */

uint8_t rmem_verbs_timeout_code(uint64_t total_us, unsigned tries)
{
	uint64_t each_ns = total_us * 1000 / (tries > 0 ? tries : 1);
	uint8_t code = 1;

	while (code < 31 && (UINT64_C(4096) << (code + 1)) <= each_ns)
		code++;
	return code;
}

uint8_t rmem_verbs_rnr_code(unsigned us)
{
	/* In units of 10 us, for the codes from 1. */
	static const uint16_t timers[] = {
		1,    2,    3,	  4,	6,     8,     12,    16,    24,	   32,	 48,
		64,   96,   128,  192,	256,   384,   512,   768,   1024,  1536, 2048,
		3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	for (unsigned i = 0; i < RMEM_COUNT_OF(timers); i++) {
		if (timers[i] * 10u >= us)
			return (uint8_t)(i + 1);
	}
	return 0;
}
