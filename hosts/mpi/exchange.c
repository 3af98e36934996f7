/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/exchange.c - see exchange.h. */
#include "hosts/mpi/exchange.h"

#include <string.h>

struct run {
    const struct nigh_mpi_rooted *call;
    int sent; /* how many vectors, this rank's own first */
    int left; /* so many are still to come */
};

/* So that not all send to the same one: the ranks behind this one in turn. */
static int receiver(const struct run *run)
{
    const struct nigh_mpi_group *group = run->call->group;

    return (group->me + run->sent) % group->ranks;
}

static int begin(struct run *run)
{
    const struct nigh_mpi_rooted *call = run->call;
    struct nigh_mpi_group *group = call->group;
    int rc = nigh_mpi_rooted_expect_each(call);

    if (!rc)
        memcpy(nigh_mpi_rooted_place(call, group->me), nigh_mpi_rooted_part(call, group->me), call->bytes);
    run->sent = 1;
    run->left = group->ranks - 1;
    return rc;
}

static int give(struct run *run, struct nigh_mpi_slot *slot)
{
    const struct nigh_mpi_rooted *call = run->call;
    int rank = receiver(run), rc = nigh_mpi_rooted_check_slot(call, slot);

    if (rc)
        return rc;
    memcpy(slot->memory, nigh_mpi_rooted_part(call, rank), call->bytes);
    run->sent++;
    return nigh_mpi_rooted_lend(call, rank, slot, call->bytes);
}

/* From the slots that have come back. 1: something went, or an error. */
static int give_some(struct run *run)
{
    struct nigh_mpi_group *group = run->call->group;
    int some = 0, rc = 0;

    for (unsigned i = 0; i < NIGH_MPI_SLOTS && run->sent < group->ranks && !rc; i++) {
        if (group->slots[i].lent.open)
            continue;
        some = 1;
        rc = give(run, &group->slots[i]);
    }
    return rc ? rc : some;
}

static int take(struct run *run, int rank)
{
    const struct nigh_mpi_rooted *call = run->call;
    struct nigh_mpi_arrival *arrival = nigh_mpi_rooted_arrival(call, rank);
    int rc = nigh_mpi_rooted_check(call, rank, arrival, call->bytes);

    if (rc)
        return rc;
    memcpy(nigh_mpi_rooted_place(call, rank), arrival->data, call->bytes);
    nigh_mpi_session_give_back(arrival);
    call->group->sources[rank].came = 1;
    run->left--;
    return 0;
}

/* 1: something had come, or an error. */
static int take_some(struct run *run)
{
    struct nigh_mpi_group *group = run->call->group;
    int some = 0, rc = 0;

    for (int i = 1; i < group->ranks && !rc; i++) {
        int rank = (group->me + group->ranks - i) % group->ranks;

        if (group->sources[rank].came || nigh_mpi_rooted_arrival(run->call, rank)->posted)
            continue;
        some = 1;
        rc = take(run, rank);
    }
    return rc ? rc : some;
}

int nigh_mpi_exchange(const struct nigh_mpi_rooted *call)
{
    struct run run = {.call = call};
    uint32_t empty = 0;
    int rc = begin(&run);

    while (rc >= 0 && (run.left || run.sent < call->group->ranks)) {
        int gave = give_some(&run), took = gave < 0 ? gave : take_some(&run);

        rc = took < 0 ? took : 0;
        if (!rc && !gave && !took)
            rc = nigh_mpi_group_wait(call->group, call->what, &empty);
    }
    return rc < 0 ? rc : nigh_mpi_rooted_let_out(call);
}
