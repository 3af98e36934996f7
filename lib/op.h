/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/op.h - operations of the program's: nigh_op_create(), nigh_op_premul(). */
#ifndef NIGH_LIB_OP_H
#define NIGH_LIB_OP_H

#include "lib/core.h"

#include <stdbool.h>

/* The widest element that has a factor. */
#define NIGH_OP_FACTOR_BYTES 16u

struct nigh_own_op {
    bool used;
    int type;                /* of the factor; 0: it is a function, of any type */
    nigh_reduce_fn function; /* NULL: it is a factor */
    void *arg;
    uint8_t factor[NIGH_OP_FACTOR_BYTES];
};

/* Those of enum nigh_atomic_op are below. */
#define NIGH_OP_FIRST 1000

/* NULL: there is none of that number, or not any more. */
const struct nigh_own_op *nigh_op_find(int op);

#endif
