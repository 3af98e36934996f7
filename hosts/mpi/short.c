/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/short.c - see short.h. */
#include "hosts/mpi/short.h"

#include <errno.h>
#include <string.h>

static uint64_t tag_of(const struct nigh_mpi_group *group)
{
    return group->tag + NIGH_MPI_TAG_SHORTS;
}

/* ---- a rank that sends --------------------------------------------------------------------------------- */

/* One in so many is told of when the root has taken it, and the next of those waits for that. */
static int wait_for(const struct nigh_mpi_rooted *call, int rank)
{
    const struct nigh_mpi_receipt *asked = &call->group->shorts[rank].question.asked;
    uint32_t empty = 0;
    int rc = 0;

    while (asked->open && !rc)
        rc = nigh_mpi_group_wait(call->group, call->what, &empty);
    return !rc && asked->status ? nigh_mpi_rooted_gone(call, rank, asked->status) : rc;
}

/* Nobody is more than one alltoall ahead, so those need not ask. */
static struct nigh_mpi_question *question_to(const struct nigh_mpi_rooted *call, int rank)
{
    struct nigh_mpi_question *question = &call->group->shorts[rank].question;
    bool asks = !call->apart && call->group->peers[rank]->posted - question->at >= NIGH_MPI_SHORTS_AHEAD;

    return asks ? question : NULL;
}

static int send_to(const struct nigh_mpi_rooted *call, int rank, const char *vector)
{
    struct nigh_mpi_peer *to = call->group->peers[rank];
    struct nigh_mpi_question *question = question_to(call, rank);
    int rc = question ? wait_for(call, rank) : 0;
    uint32_t empty = 0;

    while (!rc) {
        rc = nigh_mpi_session_send(to, vector, call->bytes, tag_of(call->group), question);
        if (!rc)
            break;
        rc = rc == -EAGAIN ? nigh_mpi_group_wait(call->group, call->what, &empty)
                           : nigh_mpi_rooted_gone(call, rank, rc);
    }
    if (!rc && nigh_mpi_session_may_wait(to))
        rc = nigh_mpi_group_let_out(call->group, call->what, to);
    return rc;
}

/* The ranks behind this one in turn, so that not all send to the same one. */
static int send_to_each(const struct nigh_mpi_rooted *call)
{
    const struct nigh_mpi_group *group = call->group;
    int rc = 0;

    for (int i = 1; i < group->ranks && !rc; i++) {
        int rank = (group->me + i) % group->ranks;

        rc = send_to(call, rank, nigh_mpi_rooted_part(call, rank));
    }
    return rc;
}

/* ---- who keeps or adds them --------------------------------------------------------------------------- */

/* So many receives wait for one peer, or half of that. */
static uint32_t ahead(const struct nigh_mpi_group *group)
{
    uint32_t share = NIGH_MPI_SHORTS_PENDING / (uint32_t)group->ranks;

    if (!share || nigh_mpi_session_pending() >= NIGH_MPI_SHORTS_PENDING)
        return 1;
    return share < NIGH_MPI_SHORTS_POSTED ? share : NIGH_MPI_SHORTS_POSTED;
}

/* An error counts only where nothing is posted: a peer that has left may have sent all that is wanted of it before. */
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
static int expect_all(const struct nigh_mpi_rooted *call)
{
    struct nigh_mpi_group *group = call->group;
    uint32_t count = ahead(group);
    int rc = 0;

    for (int r = 0; r < group->ranks && !rc; r++) {
        struct nigh_mpi_shorts *shorts = &group->shorts[r];

        if (r != group->me && shorts->posted - shorts->taken <= count / 2)
            rc = expect(shorts, group->peers[r], count, tag_of(group));
        if (rc)
            nigh_mpi_rooted_gone(call, r, rc);
    }
    return rc;
}

static int await(const struct nigh_mpi_rooted *call, int rank)
{
    struct nigh_mpi_shorts *shorts = &call->group->shorts[rank];
    const struct nigh_mpi_arrival *arrival = &shorts->arrivals[shorts->taken % NIGH_MPI_SHORTS_POSTED];
    uint32_t empty = 0;
    int rc = 0;

    while (arrival->posted && !rc)
        rc = nigh_mpi_group_wait(call->group, call->what, &empty);
    return rc ? rc : nigh_mpi_rooted_check(call, rank, arrival, call->bytes);
}

/* What await() has waited for. */
static const void *take(struct nigh_mpi_shorts *shorts)
{
    return shorts->rooms[shorts->taken++ % NIGH_MPI_SHORTS_POSTED];
}

/* In the order of ranks. */
static int add_all(const struct nigh_mpi_rooted *call)
{
    char sum[NIGH_MPI_SHORT_BYTES];
    int rc = 0;

    for (int r = 0; r < call->group->ranks && !rc; r++) {
        const void *one = call->send;

        if (r != call->group->me) {
            rc = await(call, r);
            one = rc ? NULL : take(&call->group->shorts[r]);
        }
        if (!rc && r == 0)
            memcpy(sum, one, call->bytes);
        else if (!rc)
            call->add(sum, sum, one, call->count);
    }
    if (!rc)
        memcpy(call->recv, sum, call->bytes);
    return rc;
}

static int keep_all(const struct nigh_mpi_rooted *call)
{
    struct nigh_mpi_group *group = call->group;
    const char *sent = call->apart ? nigh_mpi_rooted_part(call, group->me) : call->send;
    char *own = nigh_mpi_rooted_place(call, group->me);
    int rc = 0;

    if (own != sent)
        memcpy(own, sent, call->bytes);
    for (int r = 0; r < group->ranks && !rc; r++) {
        rc = r == group->me ? 0 : await(call, r);
        if (!rc && r != group->me)
            memcpy(nigh_mpi_rooted_place(call, r), take(&group->shorts[r]), call->bytes);
    }
    return rc;
}

int nigh_mpi_short(const struct nigh_mpi_rooted *call)
{
    struct nigh_mpi_group *group = call->group;
    int rc;

    if (!call->apart && group->me != call->root)
        return send_to(call, call->root, call->send);
    rc = expect_all(call);
    if (!rc && call->apart)
        rc = send_to_each(call);
    if (rc)
        return rc;
    return call->add ? add_all(call) : keep_all(call);
}
