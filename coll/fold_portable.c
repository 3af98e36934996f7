/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/fold_portable.c - the reductions for every CPU of the architecture that this is built for. */
#include "coll/fold_kernel.h"

#include <stddef.h>
#include <string.h>

#ifdef __clang__
#pragma clang fp contract(off)
#else
#pragma GCC optimize("O2", "tree-vectorize", "vect-cost-model=dynamic", "fp-contract=off")
#endif

#ifdef __ARM_FP16_FORMAT_IEEE
typedef __fp16 any_fp16 __attribute__((aligned(1), may_alias));
typedef float any_float __attribute__((aligned(1), may_alias));

static uint64_t f16_widen_many(void *out, const void *in, uint64_t count)
{
    const any_fp16 *a = in;
    any_float *to = out;

    for (uint64_t i = 0; i < count; i++)
        to[i] = a[i];
    return count;
}

static uint64_t f16_narrow_many(void *out, const void *in, uint64_t count)
{
    const any_float *a = in;
    any_fp16 *to = out;

    for (uint64_t i = 0; i < count; i++)
        to[i] = (__fp16)a[i];
    return count;
}
#else
/* No instruction for it: fold_form.h converts all of them. */
#define f16_widen_many(out, in, count)  ((void)(out), (void)(in), (uint64_t)0)
#define f16_narrow_many(out, in, count) ((void)(out), (void)(in), (uint64_t)0)
#endif

#define FOLD_TABLE nigh_fold_portable
#include "coll/fold_form.h"
