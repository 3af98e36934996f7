/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/copy.c - see copy.h. */
#include "hosts/mpi/copy.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>

#define LINE 64u

static void stream_line(char *to, const char *from)
{
    __m128i word[4];

    for (int i = 0; i < 4; i++)
        word[i] = _mm_loadu_si128((const __m128i *)(const void *)from + i);
    for (int i = 0; i < 4; i++)
        _mm_stream_si128((__m128i *)(void *)to + i, word[i]);
}

void nigh_mpi_copy_past(void *to, const void *from, size_t bytes)
{
    size_t head = -(uintptr_t)to % LINE, at = head < bytes ? head : bytes;

    memcpy(to, from, at);
    for (; bytes - at >= LINE; at += LINE)
        stream_line((char *)to + at, (const char *)from + at);
    memcpy((char *)to + at, (const char *)from + at, bytes - at);
    _mm_sfence(); /* other threads of the program may be told of the result */
}
#else
void nigh_mpi_copy_past(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif
