/* SPDX-License-Identifier: BSD-3-Clause */
/* What messages contain: every word differs from its neighbours and from the same word of every other
 * message, so that a message that is late, early, shifted or half there is seen. Filling and checking touch
 * every byte, as a program that has just computed or is about to use the data does. */
#ifndef NIGH_PERF_PATTERN_H
#define NIGH_PERF_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Both are inline, as the like of them are in the programs of the peers that nigh is compared with: at 8 bytes a call
 * and a copy of no bytes at the end were a fifth of a message. */

/* Writes `bytes` bytes, any alignment. */
static inline void perf_fill(void *buffer, size_t bytes, uint64_t seed)
{
    uint8_t *out = buffer;
    size_t words = bytes / 8;
    uint64_t word;

    for (size_t i = 0; i < words; i++) {
        word = seed + i;
        memcpy(out + 8 * i, &word, 8);
    }
    word = seed + words;
    if (bytes % 8)
        memcpy(out + 8 * words, &word, bytes % 8);
}

/* For perf_check() alone: looks byte by byte. */
size_t perf_first_difference(const void *buffer, size_t bytes, uint64_t seed);

/* The offset of the first byte that perf_fill() with this seed would not have written; `bytes` when all are
 * right. One pass without branches, which compilers make wide. */
static inline size_t perf_check(const void *buffer, size_t bytes, uint64_t seed)
{
    const uint8_t *in = buffer;
    size_t words = bytes / 8;
    uint64_t found = 0, word;

    for (size_t i = 0; i < words; i++) {
        memcpy(&word, in + 8 * i, 8);
        found |= word ^ (seed + i);
    }
    if (found != 0 || bytes % 8)
        return perf_first_difference(buffer, bytes, seed);
    return bytes;
}

/* A seed for the message `number` from `rank`; never the same for two of one run. */
static inline uint64_t perf_seed(uint32_t rank, uint64_t number)
{
    /* An odd multiplier is a bijection of 64-bit words: no two numbers share a seed, and seeds lie far apart,
     * so that the running words of two messages do not coincide. */
    return (number * 64 + rank + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

#endif
