/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/young.h - the first messages of a rank, watched for sends that only come back because small messages are
 * buffered. Later ones are not: by then the guard is gone and the short ways of sends and receives are free again.
 */
#ifndef NIGH_LIB_YOUNG_H
#define NIGH_LIB_YOUNG_H

#include "lib/request.h"

/* Begins, if nothing is in the way (threads, NIGH_STRICT=1); ends it early. */
void nigh_young_begin(void);
void nigh_young_end(void);

void nigh_young_post_it(struct nigh_operation *operation);
void nigh_young_came_it(const struct nigh_operation *operation, uint64_t imm);

/* Before an operation of the program is posted. */
static inline void nigh_young_post(struct nigh_operation *operation)
{
    if (nigh_unlikely(nigh_core.guard & NIGH_GUARD_YOUNG))
        nigh_young_post_it(operation);
}

/* A message with this immediate has come for a receive of the program. */
static inline void nigh_young_came(const struct nigh_operation *operation, uint64_t imm)
{
    if (nigh_unlikely(nigh_core.guard & NIGH_GUARD_YOUNG))
        nigh_young_came_it(operation, imm);
}

#endif
