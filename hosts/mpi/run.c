/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/run.c - see run.h. */
#include "hosts/mpi/run.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/log.h"
#include "hosts/mpi/types.h"

#include <errno.h>
#include <string.h>

struct nigh_mpi_run nigh_mpi_run_of(struct nigh_mpi_group *group, const char *what, uint16_t op,
                                    uint64_t bytes)
{
    return (struct nigh_mpi_run){
        .group = group,
        .what = what,
        .bytes = bytes,
        .call = {.size = sizeof(struct nigh_collective), .op = op, .type = NIGH_U8, .count = bytes},
    };
}

static void reduce_by_mpi(void *arg, const void *in, void *inout, uint64_t count)
{
    const struct nigh_mpi_reduction *reduction = arg;

    (void)nigh_mpi_calls()->Reduce_local(in, inout, (int)count, reduction->type, reduction->op);
}

void nigh_mpi_run_reduces(struct nigh_mpi_run *run, struct nigh_mpi_reduction *reduction)
{
    uint16_t type = nigh_mpi_type_of(reduction->type), of = nigh_mpi_reduction_of(reduction->op);

    run->call.count = run->bytes / reduction->width;
    run->call.type = type && of ? type : NIGH_OPAQUE;
    run->call.reduction = type && of ? of : NIGH_FUNCTION;
    if (type && of)
        return;
    run->call.width = (uint32_t)reduction->width;
    run->call.function = reduce_by_mpi;
    run->call.function_arg = reduction;
}

static void count(const struct nigh_mpi_run *run)
{
    struct nigh_mpi_account *account = &nigh_mpi_session_account;
    bool is_short = nigh_mpi_is_short(run->bytes);

    switch (run->call.op) {
    case NIGH_ALLTOALL:
        account->alltoalls++;
        break;
    case NIGH_ALLGATHER:
        account->allgathers++;
        break;
    case NIGH_GATHER:
        account->gathers++;
        break;
    case NIGH_REDUCE:
        account->shorts += is_short;
        account->reduces += !is_short;
        break;
    case NIGH_ALLREDUCE:
        account->allreduces++;
        break;
    default:
        account->broadcasts++;
    }
    account->bytes += is_short ? 0 : run->bytes;
}

/* What nigh says of the end of a group, or why it does not take the call. */
static int failed(const struct nigh_mpi_run *run, int rc)
{
    struct nigh_query_group facts = {.size = sizeof(facts)};

    (void)nigh_mpi_session_nigh()->query_group(run->group->nigh, &facts);
    nigh_mpi_log("%s of %llu bytes: %s%s%s", run->what, (unsigned long long)run->bytes, strerror(-rc),
                 facts.text[0] ? ": " : "", facts.text);
    return rc;
}

static int wait_for(struct nigh_mpi_run *run, const struct nigh_mpi_receipt *receipt)
{
    for (uint32_t empty = 0; receipt->open;) {
        if (nigh_mpi_session_poll() > 0) {
            empty = 0;
            continue;
        }
        nigh_mpi_session_unlock();
        nigh_mpi_session_idle(++empty);
        nigh_mpi_session_lock();
    }
    return receipt->status ? failed(run, receipt->status) : 0;
}

static int post_and_wait(struct nigh_mpi_run *run)
{
    struct nigh_mpi_receipt receipt = {.open = 1};
    int rc;

    run->call.context = (uintptr_t)&receipt;
    rc = nigh_mpi_session_nigh()->post_collective(run->group->nigh, &run->call);
    return rc ? failed(run, rc) : wait_for(run, &receipt);
}

int nigh_mpi_run(struct nigh_mpi_run *run)
{
    int rc;

    nigh_mpi_session_lock();
    count(run);
    rc = run->group->broken ? -ECONNRESET : post_and_wait(run);
    if (rc)
        nigh_mpi_group_give_up(run->group);
    nigh_mpi_session_unlock();
    return rc;
}
