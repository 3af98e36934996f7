/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/flat.c - see flat.h. */
#include "hosts/mpi/flat.h"

#include <string.h>

/* ---- a rank that lends --------------------------------------------------------------------------------- */

/* The one used last, which the caches still hold, if it has come back. */
static struct nigh_mpi_slot *pick_slot(struct nigh_mpi_group *group)
{
    struct nigh_mpi_slot *last = &group->slots[(group->used + NIGH_MPI_SLOTS - 1) % NIGH_MPI_SLOTS];

    if (last->lent.open)
        nigh_mpi_session_poll();
    return last->lent.open ? &group->slots[group->used++ % NIGH_MPI_SLOTS] : last;
}

static int lend(const struct nigh_mpi_rooted *call)
{
    struct nigh_mpi_group *group = call->group;
    struct nigh_mpi_slot *slot = pick_slot(group);
    uint32_t empty = 0;
    int rc = 0;

    while (slot->lent.open && !rc)
        rc = nigh_mpi_group_wait(group, call->what, &empty);
    if (!rc)
        rc = nigh_mpi_rooted_check_slot(call, slot);
    if (rc)
        return rc;
    memcpy(slot->memory, call->send, call->bytes);
    rc = nigh_mpi_rooted_lend(call, call->root, slot, call->bytes);
    return rc ? rc : nigh_mpi_group_let_out(group, call->what, group->peers[call->root]);
}

/* ---- the root ------------------------------------------------------------------------------------------ */

static void keep(const struct nigh_mpi_rooted *call, int rank)
{
    memcpy(nigh_mpi_rooted_place(call, rank), nigh_mpi_rooted_arrival(call, rank)->data, call->bytes);
    nigh_mpi_session_give_back(nigh_mpi_rooted_arrival(call, rank));
}

/*
 * A sum in the making, in the same order on every run, whoever comes first: ranks 0 and 1, 2 and 3, those two sums, and
 * so on. What can be added is, while others are waited for: behind the last one are as many additions as the tree has
 * levels. In the order of the ranks they were all, at worst (2 KiB 12 us, with this 8.4).
 */
struct sum {
    const struct nigh_mpi_rooted *call;
    const char *part[NIGH_MPI_FLAT_RANKS]; /* the sum of 1 << level ranks, this one first; NULL: not yet */
    int level[NIGH_MPI_FLAT_RANKS];
};

static void done_with(const struct nigh_mpi_rooted *call, int rank, const char *part)
{
    if (part == nigh_mpi_rooted_arrival(call, rank)->data)
        nigh_mpi_session_give_back(nigh_mpi_rooted_arrival(call, rank));
}

/* The sum of two halves takes the place of the first. */
static void add(struct sum *sum, int left, int right, char *to)
{
    const struct nigh_mpi_rooted *call = sum->call;

    call->add(to, sum->part[left], sum->part[right], call->count);
    done_with(call, left, sum->part[left]);
    done_with(call, right, sum->part[right]);
    sum->part[left] = to;
}

/* A rank's vector is there: adds what can be added now. */
static void join(struct sum *sum, int rank, const char *data)
{
    const struct nigh_mpi_rooted *call = sum->call;
    int ranks = call->group->ranks;

    sum->part[rank] = data;
    for (int level = 0; 1 << level < ranks; level++) {
        int left = rank & ~(1 << level), right = rank | 1 << level;

        sum->level[rank] = level;
        if (right < ranks) {
            if (!sum->part[left] || !sum->part[right] || sum->level[left] != sum->level[right])
                return;
            add(sum, left, right,
                2 << level < ranks ? call->group->sums + (uint64_t)left / 2 * call->bytes : call->recv);
        }
        rank = left;
    }
}

/* What has come since the last time; how many, or an error. */
static int take_some(const struct nigh_mpi_rooted *call, struct sum *sum)
{
    struct nigh_mpi_group *group = call->group;
    int taken = 0, rc = 0;

    for (int r = 0; r < group->ranks && !rc; r++) {
        const struct nigh_mpi_arrival *arrival = nigh_mpi_rooted_arrival(call, r);

        if (group->sources[r].came || arrival->posted)
            continue;
        rc = nigh_mpi_rooted_check(call, r, arrival, call->bytes);
        if (rc)
            break;
        group->sources[r].came = 1;
        taken++;
        if (call->add)
            join(sum, r, arrival->data);
        else
            keep(call, r);
    }
    return rc ? rc : taken;
}

static void begin_own(const struct nigh_mpi_rooted *call, struct sum *sum)
{
    char *own = nigh_mpi_rooted_place(call, call->group->me);

    if (call->add)
        join(sum, call->group->me, call->send);
    else if (own != call->send)
        memcpy(own, call->send, call->bytes);
}

static int collect(const struct nigh_mpi_rooted *call)
{
    struct sum sum = {.call = call};
    int left = call->group->ranks - 1, rc = nigh_mpi_rooted_expect_each(call);
    uint32_t empty = 0;

    if (!rc)
        begin_own(call, &sum);
    while (left && rc >= 0) {
        rc = take_some(call, &sum);
        if (rc > 0)
            left -= rc;
        else if (!rc)
            rc = nigh_mpi_group_wait(call->group, call->what, &empty);
    }
    return rc < 0 ? rc : 0;
}

int nigh_mpi_flat(const struct nigh_mpi_rooted *call)
{
    return call->group->me == call->root ? collect(call) : lend(call);
}
