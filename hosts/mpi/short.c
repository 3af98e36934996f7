/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/short.c - see short.h. */
#include "hosts/mpi/short.h"
#include "hosts/mpi/log.h"

#include <errno.h>
#include <string.h>

static uint64_t tag_of(const struct nigh_mpi_group *group)
{
    return group->tag + NIGH_MPI_TAG_SHORTS;
}

/* Nothing has come: because somebody will not come? With the lock. */
static int wait_on(struct nigh_mpi_group *group, uint32_t *empty)
{
    int rc = 0;

    if (nigh_mpi_session_poll() > 0)
        *empty = 0;
    else
        rc = nigh_mpi_group_idle(group, "MPI_Reduce", ++*empty);
    return rc;
}

/* ---- a rank that sends --------------------------------------------------------------------------------- */

/* One in so many is told of when the root has taken it, and the next of those waits for that. */
static int wait_for_root(struct nigh_mpi_group *group, struct nigh_mpi_peer *root)
{
    uint32_t empty = 0;
    int rc = 0;

    while (root->asked.open && !rc)
        rc = wait_on(group, &empty);
    return rc ? rc : root->asked.status;
}

static int send_to(struct nigh_mpi_group *group, const void *send, uint32_t bytes, struct nigh_mpi_peer *root)
{
    bool asks = root->posted - root->asked_at >= NIGH_MPI_SHORTS_AHEAD;
    int rc = asks ? wait_for_root(group, root) : 0;
    uint32_t empty = 0;

    while (!rc) {
        rc = nigh_mpi_session_send(root, send, bytes, tag_of(group), asks);
        if (rc != -EAGAIN)
            break;
        rc = wait_on(group, &empty);
    }
    if (!rc && nigh_mpi_session_may_wait(root))
        rc = nigh_mpi_group_let_out(group, "MPI_Reduce", root);
    return rc;
}

/* ---- the root ------------------------------------------------------------------------------------------ */

static int expect_all(struct nigh_mpi_group *group, uint32_t bytes)
{
    int rc = 0;

    for (int r = 0; r < group->ranks && !rc; r++) {
        struct nigh_mpi_short *peer = &group->shorts[r];

        peer->arrival.from = group->peers[r];
        if (r != group->me)
            rc = nigh_mpi_session_expect_into(&peer->arrival, peer->room, bytes, tag_of(group));
    }
    return rc;
}

static int await(struct nigh_mpi_group *group, int rank, uint32_t bytes)
{
    const struct nigh_mpi_arrival *arrival = &group->shorts[rank].arrival;
    uint32_t empty = 0;
    int rc = 0;

    while (arrival->posted && !rc)
        rc = wait_on(group, &empty);
    if (rc || (!arrival->status && arrival->bytes == bytes))
        return rc;
    if (arrival->status < 0 && arrival->status != -EMSGSIZE) {
        nigh_mpi_log("MPI_Reduce of %u bytes: rank %d of its communicator is gone: %s", bytes, rank,
                     strerror(-arrival->status));
        return arrival->status;
    }
    nigh_mpi_log("MPI_Reduce of %u bytes: rank %d of its communicator takes part with %llu: give all ranks "
                 "the same count",
                 bytes, rank, (unsigned long long)arrival->bytes);
    return -EMSGSIZE;
}

/* In the order of ranks. */
static int add_all(struct nigh_mpi_group *group, const void *send, void *recv, uint32_t count, uint32_t bytes,
                   nigh_mpi_add_fn add)
{
    char sum[NIGH_MPI_SHORT_BYTES];
    int rc = 0;

    for (int r = 0; r < group->ranks && !rc; r++) {
        const void *one = r == group->me ? send : group->shorts[r].room;

        rc = r == group->me ? 0 : await(group, r, bytes);
        if (!rc && r == 0)
            memcpy(sum, one, bytes);
        else if (!rc)
            add(sum, sum, one, count);
    }
    if (!rc)
        memcpy(recv, sum, bytes);
    return rc;
}

int nigh_mpi_short_reduce(struct nigh_mpi_group *group, const void *send, void *recv, uint32_t count,
                          uint32_t bytes, nigh_mpi_add_fn add, int root)
{
    int rc;

    nigh_mpi_session_lock();
    nigh_mpi_session_account.shorts++;
    if (group->broken)
        rc = -ECONNRESET;
    else if (group->me != root)
        rc = send_to(group, send, bytes, group->peers[root]);
    else
        rc = expect_all(group, bytes);
    if (!rc && group->me == root)
        rc = add_all(group, send, recv, count, bytes, add);
    if (rc)
        nigh_mpi_group_give_up(group);
    nigh_mpi_session_unlock();
    return rc;
}
