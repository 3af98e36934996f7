/* SPDX-License-Identifier: BSD-3-Clause */
/* What messages contain: every word differs from its neighbours and from the same word of every other
 * message, so that a message that is late, early, shifted or half there is seen. Filling and checking touch
 * every byte, as a program that has just computed or is about to use the data does. */
#ifndef NIGH_PERF_PATTERN_H
#define NIGH_PERF_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* Writes `bytes` bytes, any alignment. */
void perf_fill(void *buffer, size_t bytes, uint64_t seed);

/* The offset of the first byte that perf_fill() with this seed would not have written; `bytes` when all are
 * right. */
size_t perf_check(const void *buffer, size_t bytes, uint64_t seed);

/* A seed for the message `number` from `rank`; never the same for two of one run. */
static inline uint64_t perf_seed(uint32_t rank, uint64_t number)
{
    /* An odd multiplier is a bijection of 64-bit words: no two numbers share a seed, and seeds lie far apart,
     * so that the running words of two messages do not coincide. */
    return (number * 64 + rank + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

#endif
