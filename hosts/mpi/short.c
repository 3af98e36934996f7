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

/* So many receives wait for one peer, or half of that. */
static uint32_t ahead(const struct nigh_mpi_group *group)
{
    uint32_t share = NIGH_MPI_SHORTS_PENDING / (uint32_t)group->ranks;

    if (share >= NIGH_MPI_SHORTS_POSTED)
        return NIGH_MPI_SHORTS_POSTED;
    return share > NIGH_MPI_SHORTS_POSTED_LEAST ? share : NIGH_MPI_SHORTS_POSTED_LEAST;
}

/* A peer that has left may have sent all that is wanted of it before. */
static int expect(struct nigh_mpi_shorts *shorts, struct nigh_mpi_peer *from, uint32_t count, uint64_t tag)
{
    int rc = 0;

    while (shorts->posted - shorts->taken < count && !rc) {
        uint32_t at = shorts->posted % NIGH_MPI_SHORTS_POSTED;

        shorts->arrivals[at].from = from;
        rc =
            nigh_mpi_session_expect_into(&shorts->arrivals[at], shorts->rooms[at], NIGH_MPI_SHORT_BYTES, tag);
        if (!rc)
            shorts->posted++;
    }
    return shorts->posted == shorts->taken ? rc : 0;
}

/* A few at a time: what is posted in a row is filed in a row. */
static int expect_all(struct nigh_mpi_group *group)
{
    uint32_t count = ahead(group);
    int rc = 0;

    for (int r = 0; r < group->ranks && !rc; r++) {
        struct nigh_mpi_shorts *shorts = &group->shorts[r];

        if (r != group->me && shorts->posted - shorts->taken <= count / 2)
            rc = expect(shorts, group->peers[r], count, tag_of(group));
    }
    return rc;
}

static int await(struct nigh_mpi_group *group, int rank, uint32_t bytes)
{
    struct nigh_mpi_shorts *shorts = &group->shorts[rank];
    const struct nigh_mpi_arrival *arrival = &shorts->arrivals[shorts->taken % NIGH_MPI_SHORTS_POSTED];
    uint32_t empty = 0;
    int rc = 0;

    while (arrival->posted && !rc)
        rc = wait_on(group, &empty);
    if (rc || (!arrival->status && arrival->bytes == bytes))
        return rc;
    if (arrival->status < 0) {
        nigh_mpi_log("MPI_Reduce of %u bytes: rank %d of its communicator is gone: %s", bytes, rank,
                     strerror(-arrival->status));
        return arrival->status;
    }
    nigh_mpi_log("MPI_Reduce of %u bytes: rank %d of its communicator takes part with %llu: give all ranks "
                 "the same count",
                 bytes, rank, (unsigned long long)arrival->bytes);
    return -EMSGSIZE;
}

/* What await() has waited for. */
static const void *take(struct nigh_mpi_shorts *shorts)
{
    return shorts->rooms[shorts->taken++ % NIGH_MPI_SHORTS_POSTED];
}

/* In the order of ranks. */
static int add_all(struct nigh_mpi_group *group, const void *send, void *recv, uint32_t count, uint32_t bytes,
                   nigh_mpi_add_fn add)
{
    char sum[NIGH_MPI_SHORT_BYTES];
    int rc = 0;

    for (int r = 0; r < group->ranks && !rc; r++) {
        const void *one = send;

        if (r != group->me) {
            rc = await(group, r, bytes);
            one = rc ? NULL : take(&group->shorts[r]);
        }
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
        rc = expect_all(group);
    if (!rc && group->me == root)
        rc = add_all(group, send, recv, count, bytes, add);
    if (rc)
        nigh_mpi_group_give_up(group);
    nigh_mpi_session_unlock();
    return rc;
}
