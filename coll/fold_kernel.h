/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/fold_kernel.h - what fold.c and the builds of fold_form.h tell each other: the loops that a reduction consists of. */
#ifndef NIGH_COLL_FOLD_KERNEL_H
#define NIGH_COLL_FOLD_KERNEL_H

#include "coll/fold.h"

/* Each loop takes any alignment; `out` may be the address of any operand. An accumulator is an element, or the f32 that
 * stands for a half-width float. A lane is what step(), two() and divide() count: half a complex number, else an element.
 * step() and, in what they need, the others are there; NULL otherwise. */
struct nigh_fold_kernel {
    uint16_t bytes; /* of an element; an accumulator has at most twice as many */
    uint16_t lanes; /* in an element */
    void (*step)(void *out, const void *left, const void *right, uint64_t lanes);
    /* (left op right) op third, with elements on the right: instead of step() and step(). */
    void (*two)(void *out, const void *left, const void *right, const void *third, uint64_t lanes);
    /* Two sources alone, from elements to elements; accumulators that are elements do without. */
    void (*direct)(void *out, const void *left, const void *right, uint64_t lanes);
    /* One source alone, which is both operands. */
    void (*alone)(void *out, const void *left, const void *right, uint64_t lanes);
    /* Where accumulators are not elements: from one to the other. */
    void (*widen)(void *out, const void *elements, uint64_t count);
    void (*narrow)(void *out, const void *accumulators, uint64_t count);
    void (*scale)(void *out, const void *in, const void *factor,
                  uint64_t count); /* NIGH_PREMUL; of accumulators */
    void (*divide)(void *out, const void *in, uint32_t ranks, uint64_t lanes); /* NIGH_AVG */
};

/* Element types, as a C compiler lays them out. */
struct nigh_i16_i32 {
    int16_t value;
    int32_t index;
};
struct nigh_i32_i32 {
    int32_t value;
    int32_t index;
};
struct nigh_i64_i32 {
    int64_t value;
    int32_t index;
};
struct nigh_f32_i32 {
    float value;
    int32_t index;
};
struct nigh_f64_i32 {
    double value;
    int32_t index;
};

/* Runs a kernel's loops over blocks of the sources. */
void nigh_fold_run(const struct nigh_fold_kernel *kernel, void *into, const void *const *sources,
                   uint32_t source_count, uint64_t count, const struct nigh_fold_more *more);

typedef const nigh_fold_fn nigh_fold_table[NIGH_OPAQUE][NIGH_FUNCTION];

extern nigh_fold_table nigh_fold_portable;
#if defined(__x86_64__)
extern nigh_fold_table nigh_fold_avx2;   /* and F16C */
extern nigh_fold_table nigh_fold_avx512; /* F, BW, DQ and VL */
#endif

#endif
