/* SPDX-License-Identifier: BSD-3-Clause */
/* What is wrong with a message: rare, so not inline. */
#include "tools/perf/pattern.h"

size_t perf_first_difference(const void *buffer, size_t bytes, uint64_t seed)
{
    const uint8_t *in = buffer;
    uint64_t word;

    for (size_t i = 0; i < bytes; i++) {
        word = seed + i / 8;
        if (in[i] != ((const uint8_t *)&word)[i % 8])
            return i;
    }
    return bytes;
}
