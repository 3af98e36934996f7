/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/reduce.h - what a reduction does to two vectors, for every operation and type; and their names. */
#ifndef NIGH_LIB_REDUCE_H
#define NIGH_LIB_REDUCE_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of an element of enum nigh_type; 0: there is no such type. */
uint32_t nigh_type_width(int type);

/* "NIGH_F32", "type 77". */
struct nigh_name {
    char text[24];
};
struct nigh_name nigh_type_name(int type);
struct nigh_name nigh_reduction_name(int op);

/* Does `op` of enum nigh_atomic_op combine two values of `type`? */
bool nigh_reduces(int op, int type);

/*
 * out[i] = a[i] op b[i] for all `count` elements: `a` is of the lower ranks. Integers wrap. `out` may be `a` or `b`,
 * but not overlap them otherwise; any alignment. nigh_reduces(op, type) holds.
 */
void nigh_combine(int op, int type, void *out, const void *a, const void *b, uint64_t count);

#endif
