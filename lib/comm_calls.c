/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/comm_calls.c - the calls about a communicator that concern this rank alone. */
#include "lib/comm.h"
#include "lib/error.h"

#include <errno.h>
#include <stdio.h>

NIGH_PUBLIC struct nigh_comm *nigh_world(void)
{
    return nigh_core.guard & (NIGH_GUARD_CLOSED | NIGH_GUARD_FORKED) ? NULL : nigh_core.world;
}

NIGH_PUBLIC struct nigh_comm *nigh_self(void)
{
    return nigh_core.guard & (NIGH_GUARD_CLOSED | NIGH_GUARD_FORKED) ? NULL : nigh_core.self;
}

/* Checks a communicator and one output. */
static int check(struct nigh_call call, const struct nigh_comm *comm, const void *out)
{
    int rc = nigh_comm_check(call, comm);

    return rc || out ? rc : nigh_fail(call, -EINVAL, "the result has no place: NULL");
}

NIGH_PUBLIC int nigh_comm_rank(struct nigh_comm *comm, int *rank)
{
    struct nigh_call call = NIGH_CALL("nigh_comm_rank");
    int rc = nigh_enter_beside(call);

    if (rc)
        return rc;
    rc = check(call, comm, rank);
    if (!rc)
        *rank = comm->rank;
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_comm_size(struct nigh_comm *comm, int *size)
{
    struct nigh_call call = NIGH_CALL("nigh_comm_size");
    int rc = nigh_enter_beside(call);

    if (rc)
        return rc;
    rc = check(call, comm, size);
    if (!rc)
        *size = (int)comm->size;
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_comm_world_rank(struct nigh_comm *comm, int rank, int *world_rank)
{
    struct nigh_call call = NIGH_CALL("nigh_comm_world_rank");
    int rc = nigh_enter_beside(call);

    if (rc)
        return rc;
    rc = check(call, comm, world_rank);
    if (!rc && (uint32_t)rank >= comm->size)
        rc = nigh_fail(call, -ERANGE, "there is no rank %d in %s: its ranks are 0 to %u", rank,
                       nigh_comm_text(comm).text, comm->size - 1);
    if (!rc)
        *world_rank = nigh_comm_to_world(comm, rank);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_comm_free(struct nigh_comm **comm)
{
    struct nigh_call call = NIGH_CALL("nigh_comm_free");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = comm ? nigh_comm_check(call, *comm) : nigh_fail(call, -EINVAL, "the communicator is NULL");
    if (!rc && (*comm == nigh_core.world || *comm == nigh_core.self))
        rc = nigh_fail(call, -EPERM, "%s lives until nigh_finalize", nigh_comm_text(*comm).text);
    if (!rc) {
        nigh_comm_drop(*comm);
        *comm = NULL;
    }
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_comm_set_timeout(struct nigh_comm *comm, double seconds)
{
    struct nigh_call call = NIGH_CALL("nigh_comm_set_timeout");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = nigh_comm_check(call, comm);
    if (!rc && !(seconds >= 0))
        rc = nigh_fail(call, -EINVAL, "%g is no number of seconds (0 = never)", seconds);
    if (!rc)
        comm->timeout_ns = seconds < 1e9 ? (uint64_t)(seconds * 1e9) : 0;
    if (!rc && seconds > 0 && comm->timeout_ns == 0)
        comm->timeout_ns = seconds < 1 ? 1 : 0;
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_comm_set_name(struct nigh_comm *comm, const char *name)
{
    struct nigh_call call = NIGH_CALL("nigh_comm_set_name");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = check(call, comm, name);
    if (!rc)
        snprintf(comm->name, sizeof(comm->name), "%s", name);
    nigh_leave();
    return rc;
}
