/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/alltoall.c - see alltoall.h. */
#include "hosts/mpi/alltoall.h"
#include "hosts/mpi/answer.h"
#include "hosts/mpi/log.h"

#include <errno.h>

#define WHAT "MPI_Alltoall"

/* What a rank sends. */
struct sent {
    struct nigh_mpi_vector vector; /* for one rank; those for the others lie behind it */
    const void *buffer;
    nigh_mpi_type type;
    bool in_place;
};

#define LONG_FROM 32768u

static bool is_answered(uint64_t bytes)
{
    return bytes <= nigh_mpi_limits.alltoall_to && (nigh_mpi_is_short(bytes) || bytes >= LONG_FROM);
}

/* MPI is not asked any more where lengths differ: the others do not. */
static int describe(const struct nigh_mpi_alltoall *call, const struct nigh_mpi_vector *kept,
                    struct sent *sent, nigh_mpi_comm comm)
{
    if (call->send == NIGH_MPI_IN_PLACE) {
        *sent = (struct sent){*kept, call->recv, call->into, true};
        return 0;
    }
    *sent = (struct sent){.buffer = call->send, .type = call->type};
    if (nigh_mpi_vector_measure(&sent->vector, call->sends, call->type) &&
        sent->vector.bytes == kept->bytes) {
        nigh_mpi_vector_look(&sent->vector, call->send, call->type, comm);
        return 0;
    }
    nigh_mpi_log(
        WHAT " of %llu bytes of each rank: this one sends another length (%lld elements of its send type)",
        (unsigned long long)kept->bytes, (long long)call->sends);
    return -EMSGSIZE;
}

/* What goes, and what comes, as it lies in memory that is packed. */
static int run_packed(const struct nigh_mpi_alltoall *call, struct nigh_mpi_run *run,
                      const struct nigh_mpi_vector *kept, const struct sent *sent, nigh_mpi_comm comm)
{
    int ranks = run->group->ranks, rc;
    uint64_t bytes = kept->bytes * (unsigned)ranks;
    char *memory = nigh_mpi_answer_memory(WHAT, 2 * bytes);

    if (!memory)
        return nigh_mpi_answer_give_up(run->group, -ENOMEM);
    nigh_mpi_answer_count_packed();
    run->call.send = memory;
    run->call.recv = memory + bytes;
    rc = nigh_mpi_vector_pack_each(&sent->vector, sent->buffer, sent->type, memory, ranks, comm);
    rc = rc ? nigh_mpi_answer_give_up(run->group, rc) : nigh_mpi_run(run);
    if (!rc)
        rc = nigh_mpi_vector_unpack_each(kept, memory + bytes, call->recv, call->into, ranks, NIGH_MPI_NONE,
                                         comm);
    nigh_mpi_answer_release(memory);
    return rc;
}

static int run_call(const struct nigh_mpi_alltoall *call, struct nigh_mpi_run *run,
                    const struct nigh_mpi_vector *kept, nigh_mpi_comm comm)
{
    bool packs = nigh_mpi_answer_packs(kept);
    struct sent sent;
    int rc = describe(call, kept, &sent, comm);

    if (rc)
        return nigh_mpi_answer_give_up(run->group, rc);
    if (packs || !sent.vector.dense)
        return run_packed(call, run, kept, &sent, comm);
    run->call.send = sent.buffer;
    run->call.recv = call->recv;
    run->call.flags = sent.in_place ? NIGH_COLLECTIVE_IN_PLACE : 0;
    return nigh_mpi_run(run);
}

bool nigh_mpi_alltoall(const struct nigh_mpi_alltoall *call, nigh_mpi_comm comm, int *result)
{
    struct nigh_mpi_vector kept;
    struct nigh_mpi_group *group;
    struct nigh_mpi_run run;

    if (!nigh_mpi_limits.alltoall_to || !nigh_mpi_vector_measure(&kept, call->recvs, call->into) ||
        !is_answered(kept.bytes))
        return false;
    group = nigh_mpi_group_of(comm, kept.bytes);
    if (!group || (call->send && call->send == call->recv))
        return false;
    run = nigh_mpi_run_of(group, WHAT, NIGH_ALLTOALL, kept.bytes);
    nigh_mpi_vector_look(&kept, call->recv, call->into, comm);
    *result = nigh_mpi_answer(run_call(call, &run, &kept, comm), comm);
    return true;
}
