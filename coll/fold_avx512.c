/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/fold_avx512.c - the reductions for x86-64 with AVX-512 F, BW, DQ and VL, whatever the flags of the build are. */
#include "coll/fold_kernel.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <stddef.h>
#include <string.h>

#ifdef __clang__
#pragma clang fp contract(off)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#pragma GCC optimize("O2", "tree-vectorize", "vect-cost-model=dynamic", "fp-contract=off")
#endif

static uint64_t f16_widen_many(float *out, const void *in, uint64_t count)
{
    uint64_t i = 0;

    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(out + i,
                         _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)((const uint16_t *)in + i))));
    return i;
}

static uint64_t f16_narrow_many(void *out, const float *in, uint64_t count)
{
    uint64_t i = 0;

    for (; i + 16 <= count; i += 16)
        _mm256_storeu_si256((__m256i_u *)((uint16_t *)out + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
    return i;
}

#define FOLD_TABLE nigh_fold_avx512
#include "coll/fold_form.h"

#ifdef __clang__
#pragma clang attribute pop
#endif

#else
typedef int nigh_fold_avx512_is_empty;
#endif
