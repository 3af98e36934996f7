/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/spread.c - see spread.h. */
#include "hosts/mpi/spread.h"
#include "hosts/mpi/copy.h"

#include <string.h>

#define PART_BYTES NIGH_MPI_SLOT_BYTES
/* From so many bytes of results, of all ranks together, copies go past the caches. */
#define PAST (8u << 20)

struct run {
    const struct nigh_mpi_rooted *call;
    uint64_t parts;
    uint64_t sent; /* parts of this rank's */
    int left;      /* other ranks of which parts are still to come */
};

static uint64_t length(const struct run *run, uint64_t part)
{
    uint64_t left = run->call->bytes - part * PART_BYTES;

    return left < PART_BYTES ? left : PART_BYTES;
}

static void keep(const struct nigh_mpi_rooted *call, char *to, const void *from, uint64_t bytes)
{
    uint64_t ranks = (unsigned)call->group->ranks;

    if (call->bytes * ranks * ranks >= PAST)
        nigh_mpi_copy_past(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

/* ---- what comes ---------------------------------------------------------------------------------------- */

static struct nigh_mpi_arrival *arrival_of(const struct run *run, int rank, uint64_t part)
{
    return &run->call->group->sources[rank].arrivals[part % NIGH_MPI_AHEAD];
}

static int expect(const struct run *run, int rank, uint64_t part)
{
    return part < run->parts ? nigh_mpi_rooted_expect(run->call, rank, arrival_of(run, rank, part)) : 0;
}

static int take(struct run *run, int rank)
{
    const struct nigh_mpi_rooted *call = run->call;
    uint64_t *came = &call->group->sources[rank].came, part = *came;
    struct nigh_mpi_arrival *arrival = arrival_of(run, rank, part);
    int rc = nigh_mpi_rooted_check(call, rank, arrival, length(run, part));

    if (rc)
        return rc;
    keep(call, nigh_mpi_rooted_place(call, rank) + part * PART_BYTES, arrival->data, length(run, part));
    nigh_mpi_session_give_back(arrival);
    if (++*came == run->parts)
        run->left--;
    return expect(run, rank, part + NIGH_MPI_AHEAD);
}

/* 1: something of what comes was there. */
static int take_some(struct run *run)
{
    struct nigh_mpi_group *group = run->call->group;
    int some = 0, rc = 0;

    for (int i = 1; i < group->ranks && !rc; i++) {
        int rank = (group->me + i) % group->ranks;
        uint64_t came = group->sources[rank].came;

        if (came == run->parts || arrival_of(run, rank, came)->posted)
            continue;
        some = 1;
        rc = take(run, rank);
    }
    return rc ? rc : some;
}

/* ---- what goes ----------------------------------------------------------------------------------------- */

static int lend_to_all(const struct run *run, struct nigh_mpi_slot *slot, uint64_t bytes)
{
    struct nigh_mpi_group *group = run->call->group;
    int rc = 0;

    for (int i = 1; i < group->ranks && !rc; i++)
        rc = nigh_mpi_rooted_lend(run->call, (group->me + i) % group->ranks, slot, bytes);
    return rc;
}

/* 1: the next part of this rank's is on its way. */
static int give_some(struct run *run)
{
    const struct nigh_mpi_rooted *call = run->call;
    struct nigh_mpi_slot *slot = &call->group->slots[call->group->used % NIGH_MPI_SLOTS];
    uint64_t bytes;
    int rc;

    if (run->sent == run->parts || slot->lent.open)
        return 0;
    rc = nigh_mpi_rooted_check_slot(call, slot);
    if (rc)
        return rc;
    bytes = length(run, run->sent);
    memcpy(slot->memory, call->send + run->sent * PART_BYTES, bytes);
    rc = lend_to_all(run, slot, bytes);
    call->group->used++;
    run->sent++;
    return rc < 0 ? rc : 1;
}

/* ---- the run ------------------------------------------------------------------------------------------- */

static int begin(struct run *run)
{
    const struct nigh_mpi_rooted *call = run->call;
    struct nigh_mpi_group *group = call->group;
    char *own = nigh_mpi_rooted_place(call, group->me);
    int rc = 0;

    for (int r = 0; r < group->ranks && !rc; r++) {
        group->sources[r].came = 0;
        for (uint64_t part = 0; part < NIGH_MPI_AHEAD && r != group->me && !rc; part++)
            rc = expect(run, r, part);
    }
    if (!rc && own != call->send)
        keep(call, own, call->send, call->bytes);
    return rc;
}

int nigh_mpi_spread(const struct nigh_mpi_rooted *call)
{
    struct run run = {.call = call, .left = call->group->ranks - 1};
    uint32_t empty = 0;
    int rc;

    run.parts = (call->bytes + PART_BYTES - 1) / PART_BYTES;
    rc = begin(&run);
    while (rc >= 0 && (run.left || run.sent < run.parts)) {
        int gave = give_some(&run), took = gave < 0 ? gave : take_some(&run);

        rc = took < 0 ? took : 0;
        if (!rc && !gave && !took)
            rc = nigh_mpi_group_wait(call->group, call->what, &empty);
    }
    return rc < 0 ? rc : nigh_mpi_rooted_let_out(call);
}
