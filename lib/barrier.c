/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/barrier.c - nobody leaves before all have come: dissemination, an empty message a round. */
#include "lib/barrier.h"
#include "lib/control.h"
#include "lib/error.h"

int nigh_barrier_on(struct nigh_call call, struct nigh_comm *comm)
{
    int size = (int)comm->size, round = 0, rc = 0;

    for (int step = 1; !rc && step < size; step *= 2, round++)
        rc =
            nigh_control_swap(call, comm, (comm->rank + step) % size, NULL, (comm->rank + size - step) % size,
                              NULL, 0, nigh_control_tag(NIGH_CONTROL_BARRIER, (uint32_t)round));
    return rc;
}

NIGH_PUBLIC int nigh_barrier(struct nigh_comm *comm)
{
    struct nigh_call call = NIGH_CALL("nigh_barrier");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = nigh_comm_check(call, comm);
    if (!rc)
        rc = nigh_barrier_on(call, comm);
    nigh_leave();
    return rc;
}
