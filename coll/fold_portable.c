/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/fold_portable.c - the reductions for every CPU of the architecture that this is built for. */
#include "coll/fold_kernel.h"

#ifdef __aarch64__
#include <arm_neon.h>
#endif
#include <stddef.h>
#include <string.h>

#ifdef __clang__
#pragma clang fp contract(off)
#else
#pragma GCC optimize("O2", "tree-vectorize", "vect-cost-model=dynamic", "fp-contract=off")
#endif

#ifdef __aarch64__
static uint64_t f16_widen_many(float *out, const void *in, uint64_t count)
{
    uint64_t i = 0;

    for (; i + 4 <= count; i += 4) {
        float16x4_t half;
        float32x4_t wide;

        memcpy(&half, (const uint16_t *)in + i, sizeof(half));
        wide = vcvt_f32_f16(half);
        memcpy(out + i, &wide, sizeof(wide));
    }
    return i;
}

static uint64_t f16_narrow_many(void *out, const float *in, uint64_t count)
{
    uint64_t i = 0;

    for (; i + 4 <= count; i += 4) {
        float32x4_t wide;
        float16x4_t half;

        memcpy(&wide, in + i, sizeof(wide));
        half = vcvt_f16_f32(wide);
        memcpy((uint16_t *)out + i, &half, sizeof(half));
    }
    return i;
}
#else
/* No instruction for it: fold_form.h converts all of them. */
#define f16_widen_many(out, in, count)  ((void)(out), (void)(in), (uint64_t)0)
#define f16_narrow_many(out, in, count) ((void)(out), (void)(in), (uint64_t)0)
#endif

#define FOLD_TABLE nigh_fold_portable
#include "coll/fold_form.h"
