/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/fold.h - reduction kernels: one per type and operation, compiled for several instruction sets and chosen at run
 * time. A kernel combines any number of source buffers, element by element. Each build of a kernel gives the same bits,
 * however the elements are split between calls and aligned. */
#ifndef NIGH_COLL_FOLD_H
#define NIGH_COLL_FOLD_H

#include "nigh/transport.h"
#include "shm/copy.h"

#include <stdint.h>

struct nigh_fold_more {
    uint32_t ranks;             /* NIGH_AVG divides by it; at least 1 */
    const void *const *factors; /* NIGH_PREMUL: an element of the type for each source, any alignment */
};

/*
 * into[i] = sources[0][i] op sources[1][i] op ..., from left to right, for `count` elements. `into` may be the same
 * address as any of the sources and does not overlap them otherwise. Any alignment. source_count is at least 1: one
 * source is copied, after AVG has divided it, or PREMUL multiplied; booleans become 0 or 1. `more` is read by AVG and
 * PREMUL alone. Without elements nothing is read. Takes less than 3 KiB of stack. Any thread, never blocks, cannot
 * fail.
 *
 *  - Integers wrap. AVG divides the wrapped sum and truncates toward zero.
 *  - f16 and bf16: computed in f32 across all sources, rounded once, to nearest even.
 *  - Logical operations give 0 or 1 of the type; a NaN is true. Booleans: SUM is or, PROD and MIN are and, MAX is or.
 *  - MIN and MAX: a NaN in any source gives NaN; of equal values (-0 and 0) the first wins.
 *  - MINLOC and MAXLOC: the first NaN wins.
 *  - A NaN that two or more sources, AVG or PREMUL give has these bits: sign and payload 0, quiet.
 */
typedef void (*nigh_fold_fn)(void *into, const void *const *sources, uint32_t source_count, uint64_t count,
                             const struct nigh_fold_more *more);

/* The kernel in the widest form that this CPU runs; NULL where the operation is not defined for the type, or one of them
 * is unknown. Any thread.
 *   SUM PROD                  all but pairs
 *   MIN MAX LAND LOR LXOR     integers, floats, bool
 *   BAND BOR BXOR             integers, bool
 *   AVG PREMUL                integers, floats, complex
 *   MINLOC MAXLOC             pairs of value and index */
nigh_fold_fn nigh_fold_select(enum nigh_type type, enum nigh_atomic_op op);

/* The kernel in one given form; NULL also when the CPU or the build lacks the form. */
nigh_fold_fn nigh_fold_select_isa(enum nigh_type type, enum nigh_atomic_op op, enum nigh_copy_isa isa);

/* Bytes of an element; 0: no such type, or NIGH_OPAQUE. */
uint32_t nigh_type_bytes(uint32_t type);

/* "f32", "sum"; "?" for a value that is none of the enum. Static storage. */
const char *nigh_type_name(uint32_t type);
const char *nigh_reduction_name(uint32_t op);

#endif
