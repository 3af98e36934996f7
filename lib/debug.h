/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/debug.h - NIGH_DEBUG: was a buffer changed while it belonged to nigh? Called for every operation that a program
 * posts; without NIGH_DEBUG they are one test of a bit. */
#ifndef NIGH_LIB_DEBUG_H
#define NIGH_LIB_DEBUG_H

#include "lib/request.h"

void nigh_debug_begin_it(struct nigh_operation *operation);
void nigh_debug_end_it(struct nigh_call call, struct nigh_operation *operation);
void nigh_debug_forget_it(struct nigh_operation *operation);

/* Just before an operation is posted: keeps a copy of what is sent, fills what is received into. */
static inline void nigh_debug_begin(struct nigh_operation *operation)
{
    if (nigh_unlikely(nigh_core.guard & NIGH_GUARD_DEBUG))
        nigh_debug_begin_it(operation);
}

/* When it is waited for, or was tested successfully: compares and says what was changed. */
static inline void nigh_debug_end(struct nigh_call call, struct nigh_operation *operation)
{
    if (nigh_unlikely(nigh_core.guard & NIGH_GUARD_DEBUG))
        nigh_debug_end_it(call, operation);
}

/* When it was not posted after all. */
static inline void nigh_debug_forget(struct nigh_operation *operation)
{
    if (nigh_unlikely(nigh_core.guard & NIGH_GUARD_DEBUG))
        nigh_debug_forget_it(operation);
}

#endif
