/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/reference.h - reductions by arithmetic that shares nothing with coll/: one element at a time, to the bit.
 * Link with -lm. */
#ifndef NIGH_TESTS_REFERENCE_H
#define NIGH_TESTS_REFERENCE_H

#include "nigh/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reference {
    int type, op;
    uint32_t source_count, ranks;
    const void *const *sources, *const *factors; /* any alignment; factors for NIGH_PREMUL */
};

/* Is the operation defined for the type? Any numbers. */
bool reference_is_defined(int type, int op);

/* Bytes of an element: NIGH_I8 .. NIGH_F64_I32. */
size_t reference_width(int type);

/* into[i] = sources[0][i] op sources[1][i] op ... as coll/fold.h says; `into` is none of the sources. */
void reference_fold(const struct reference *r, uint8_t *into, size_t count);

/* A random element. Tame: small numbers, few of them different, none a NaN; else among others denormals, infinities and
 * NaNs of all kinds. *dice is not 0, and moves on. */
void reference_element(int type, uint8_t *at, bool tame, uint64_t *dice);
uint64_t reference_roll(uint64_t *dice);

/* NIGH_F16, NIGH_BF16. To bits: rounded to nearest even, every NaN the same. */
double reference_half_value(int type, uint16_t bits);
uint16_t reference_half_bits(int type, double value);

#endif
