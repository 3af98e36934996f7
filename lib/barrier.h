/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/barrier.h - the barrier of other calls of the library. */
#ifndef NIGH_LIB_BARRIER_H
#define NIGH_LIB_BARRIER_H

#include "lib/comm.h"

/* nigh_barrier() on a communicator that was checked, on behalf of `call`. Waits. */
int nigh_barrier_on(struct nigh_call call, struct nigh_comm *comm);

#endif
