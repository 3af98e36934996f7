/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/fold_avx2.c - the reductions for x86-64 with AVX2 and F16C, whatever the flags of the build are. */
#include "coll/fold_kernel.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <stddef.h>
#include <string.h>

#ifdef __clang__
#pragma clang fp contract(off)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#pragma GCC optimize("O2", "tree-vectorize", "vect-cost-model=dynamic", "fp-contract=off")
#endif

static uint64_t f16_widen_many(float *out, const void *in, uint64_t count)
{
    uint64_t i = 0;

    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(out + i,
                         _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)((const uint16_t *)in + i))));
    return i;
}

static uint64_t f16_narrow_many(void *out, const float *in, uint64_t count)
{
    uint64_t i = 0;

    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i_u *)((uint16_t *)out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
    return i;
}

#define FOLD_TABLE nigh_fold_avx2
#include "coll/fold_form.h"

#ifdef __clang__
#pragma clang attribute pop
#endif

#else
typedef int nigh_fold_avx2_is_empty;
#endif
