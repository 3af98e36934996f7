/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/rooted.c - see rooted.h. */
#include "hosts/mpi/rooted.h"
#include "hosts/mpi/exchange.h"
#include "hosts/mpi/flat.h"
#include "hosts/mpi/log.h"
#include "hosts/mpi/short.h"
#include "hosts/mpi/spread.h"

#include <errno.h>
#include <string.h>

int nigh_mpi_rooted_gone(const struct nigh_mpi_rooted *call, int rank, int rc)
{
    nigh_mpi_log("%s of %u bytes: rank %d of its communicator cannot be reached: %s", call->what, call->bytes,
                 rank, strerror(-rc));
    return rc;
}

static uint64_t tag_of(const struct nigh_mpi_rooted *call)
{
    return call->group->tag + NIGH_MPI_TAG_LENT;
}

int nigh_mpi_rooted_expect(const struct nigh_mpi_rooted *call, int rank, struct nigh_mpi_arrival *arrival)
{
    int rc;

    arrival->from = call->group->peers[rank];
    rc = nigh_mpi_session_expect(arrival, NIGH_MPI_SLOT_BYTES, tag_of(call));
    return rc ? nigh_mpi_rooted_gone(call, rank, rc) : 0;
}

int nigh_mpi_rooted_expect_each(const struct nigh_mpi_rooted *call)
{
    struct nigh_mpi_group *group = call->group;
    int rc = 0;

    for (int r = 0; r < group->ranks && !rc; r++) {
        group->sources[r].came = r == group->me;
        if (r != group->me)
            rc = nigh_mpi_rooted_expect(call, r, nigh_mpi_rooted_arrival(call, r));
    }
    return rc;
}

int nigh_mpi_rooted_lend(const struct nigh_mpi_rooted *call, int rank, struct nigh_mpi_slot *slot,
                         uint64_t bytes)
{
    int rc = nigh_mpi_session_lend(call->group->peers[rank], slot, bytes, call->bytes, tag_of(call));

    return rc ? nigh_mpi_rooted_gone(call, rank, rc) : 0;
}

int nigh_mpi_rooted_check(const struct nigh_mpi_rooted *call, int rank,
                          const struct nigh_mpi_arrival *arrival, uint64_t bytes)
{
    if (arrival->status < 0)
        return nigh_mpi_rooted_gone(call, rank, arrival->status);
    if (arrival->bytes == bytes && (!arrival->total || arrival->total == call->bytes))
        return 0;
    nigh_mpi_log(
        "%s of %u bytes: rank %d of its communicator takes part with %llu: give all ranks the same count",
        call->what, call->bytes, rank,
        (unsigned long long)(arrival->total ? arrival->total : arrival->bytes));
    return -EMSGSIZE;
}

int nigh_mpi_rooted_check_slot(const struct nigh_mpi_rooted *call, const struct nigh_mpi_slot *slot)
{
    if (slot->lent.status < 0)
        nigh_mpi_log("%s of %u bytes: a rank that was to read what an earlier call lent it is gone: %s",
                     call->what, call->bytes, strerror(-slot->lent.status));
    return slot->lent.status;
}

int nigh_mpi_rooted_let_out(const struct nigh_mpi_rooted *call)
{
    struct nigh_mpi_group *group = call->group;
    int rc = 0;

    for (int r = 0; r < group->ranks && !rc; r++)
        if (r != group->me)
            rc = nigh_mpi_group_let_out(group, call->what, group->peers[r]);
    return rc;
}

static void count(const struct nigh_mpi_rooted *call)
{
    struct nigh_mpi_account *account = &nigh_mpi_session_account;
    bool is_short = nigh_mpi_is_short(call->bytes);

    account->alltoalls += call->apart;
    account->allgathers += call->root == NIGH_MPI_NONE && !call->apart;
    account->gathers += call->root != NIGH_MPI_NONE && !call->add;
    account->shorts += call->add && is_short;
    account->reduces += call->add && !is_short;
    account->bytes += is_short ? 0 : call->bytes;
}

static int run(const struct nigh_mpi_rooted *call)
{
    if (call->group->broken)
        return -ECONNRESET;
    if (call->root == NIGH_MPI_NONE && !call->apart)
        return nigh_mpi_spread(call);
    if (nigh_mpi_is_short(call->bytes))
        return nigh_mpi_short(call);
    return call->apart ? nigh_mpi_exchange(call) : nigh_mpi_flat(call);
}

int nigh_mpi_rooted_run(const struct nigh_mpi_rooted *call)
{
    int rc;

    nigh_mpi_session_lock();
    count(call);
    rc = run(call);
    if (rc)
        nigh_mpi_group_give_up(call->group);
    nigh_mpi_session_unlock();
    return rc;
}
