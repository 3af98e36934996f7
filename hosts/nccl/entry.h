/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/nccl/entry.h - v10's one context of a process. */
#ifndef NIGH_NCCL_ENTRY_H
#define NIGH_NCCL_ENTRY_H

#include "hosts/nccl/context.h"

/* Around the end of a connection or listener: of v10's context the last one ends it, as v10 has no finalize(). Does nothing to
 * other contexts. */
void nigh_nccl_shared_lock(struct nigh_nccl_context *context);
void nigh_nccl_shared_unlock(struct nigh_nccl_context *context);

#endif
