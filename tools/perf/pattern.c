/* SPDX-License-Identifier: BSD-3-Clause */
/* Filling and checking message buffers. */
#include "tools/perf/pattern.h"

#include <string.h>

void perf_fill(void *buffer, size_t bytes, uint64_t seed)
{
    uint8_t *out = buffer;
    size_t words = bytes / 8;
    uint64_t word;

    for (size_t i = 0; i < words; i++) {
        word = seed + i;
        memcpy(out + 8 * i, &word, 8);
    }
    word = seed + words;
    memcpy(out + 8 * words, &word, bytes % 8);
}

/* Whether a block differs at all: one pass without branches, which compilers make wide. */
static uint64_t difference(const uint8_t *in, size_t words, uint64_t seed)
{
    uint64_t found = 0, word;

    for (size_t i = 0; i < words; i++) {
        memcpy(&word, in + 8 * i, 8);
        found |= word ^ (seed + i);
    }
    return found;
}

static size_t first_difference(const uint8_t *in, size_t bytes, uint64_t seed)
{
    uint64_t word;

    for (size_t i = 0; i < bytes; i++) {
        word = seed + i / 8;
        if (in[i] != ((const uint8_t *)&word)[i % 8])
            return i;
    }
    return bytes;
}

size_t perf_check(const void *buffer, size_t bytes, uint64_t seed)
{
    const uint8_t *in = buffer;
    size_t words = bytes / 8;
    uint64_t word = seed + words;

    if (difference(in, words, seed) == 0 && memcmp(in + 8 * words, &word, bytes % 8) == 0)
        return bytes;
    return first_difference(in, bytes, seed);
}
