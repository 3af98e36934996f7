/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/nccl/entry.h - v10's contexts. */
#ifndef NIGH_NCCL_ENTRY_H
#define NIGH_NCCL_ENTRY_H

#include "hosts/nccl/context.h"

/* Around a call that may end a connection or listener: with the last one its context ends, as v10 has no finalize(). They do
 * nothing to contexts of other versions. */
void nigh_nccl_shared_hold(struct nigh_nccl_context *context);
void nigh_nccl_shared_drop(struct nigh_nccl_context *context);

/* In a forked child: none of them is this process's. */
void nigh_nccl_shared_forked(void);

#endif
