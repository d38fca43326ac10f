/* SPDX-License-Identifier: Apache-2.0 */
/* Ordinary stores, on every architecture. They need no fence of their own: whoever publishes the
 * bytes does so with a release, which orders ordinary stores. */
#include "engine/stream_units.h"

#include <string.h>

void rmem_stream_fill_plain(void *dst, unsigned char byte, size_t length)
{
	memset(dst, byte, length);
}

void rmem_stream_copy_plain(void *dst, const void *src, size_t length)
{
	memcpy(dst, src, length);
}
