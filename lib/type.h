/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/type.h - the types of nigh.h and what combines them: widths, names, which operation is defined for which type. */
#ifndef NIGH_LIB_TYPE_H
#define NIGH_LIB_TYPE_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of an element of enum nigh_type, or of NIGH_BYTES(); 0: there is no such type, or it has no width of its own. */
uint32_t nigh_type_width(int type);

/* "NIGH_F32", "NIGH_BYTES(12)", "type 77". */
struct nigh_name {
    char text[24];
};
struct nigh_name nigh_type_name(int type);
struct nigh_name nigh_reduction_name(int op);

/* Does a collective combine values of `type` by `op` of enum nigh_atomic_op? */
bool nigh_reduces(int op, int type);
/* Does an atomic of a window? */
bool nigh_accumulates(int op, int type);

#endif
