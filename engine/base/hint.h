/* SPDX-License-Identifier: Apache-2.0 */
/* Hints to the compiler and the few constants that everything shares. */
#pragma once

#define RMEM_LIKELY(x)   __builtin_expect(!!(x), 1)
#define RMEM_UNLIKELY(x) __builtin_expect(!!(x), 0)

#define RMEM_COLD        __attribute__((cold, noinline))
#define RMEM_MUST_CHECK  __attribute__((warn_unused_result))
#define RMEM_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* x86 moves lines in pairs, arm64 has 128-byte lines: both are covered by 128 where two
 * threads would otherwise share, and by 64 where one thread only wants to touch one line. */
#define RMEM_CACHE_LINE 64
#define RMEM_CACHE_PAIR 128

#define RMEM_PAGE_BYTES 4096u

#define RMEM_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* From a pointer to a member to the struct that embeds it. */
#define RMEM_CONTAINER_OF(pointer, type, member)                                                   \
	((type *)(void *)((char *)(pointer) - offsetof(type, member)))
