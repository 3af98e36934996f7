/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/alltoall.c - see alltoall.h. */
#include "hosts/mpi/alltoall.h"
#include "hosts/mpi/answer.h"
#include "hosts/mpi/exchange.h"
#include "hosts/mpi/log.h"
#include "hosts/mpi/short.h"

#include <errno.h>
#include <string.h>

#define WHAT "MPI_Alltoall"

/* What a rank sends. */
struct sent {
    struct nigh_mpi_vector vector; /* for one rank; those for the others lie behind it */
    const void *buffer;
    nigh_mpi_type type;
    bool in_place; /* what comes lies on what is yet to be sent: short ones go first, others are copied */
};

static bool is_answered(uint64_t bytes)
{
    return bytes <= nigh_mpi_limits.alltoall_to && bytes <= NIGH_MPI_SLOT_BYTES &&
           (nigh_mpi_is_short(bytes) || bytes >= NIGH_MPI_EXCHANGE_FROM);
}

static bool has_ranks(int ranks, uint64_t bytes)
{
    if (nigh_mpi_is_short(bytes))
        return ranks <= NIGH_MPI_SHORT_EACH_MAX;
    return ranks >= NIGH_MPI_EXCHANGE_MIN && ranks <= NIGH_MPI_EXCHANGE_MAX;
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
static int run_packed(const struct nigh_mpi_alltoall *call, struct nigh_mpi_rooted *rooted,
                      const struct nigh_mpi_vector *kept, const struct sent *sent, nigh_mpi_comm comm)
{
    int ranks = rooted->group->ranks, rc;
    uint64_t bytes = kept->bytes * (unsigned)ranks;
    char *memory = nigh_mpi_answer_memory(WHAT, 2 * bytes);

    if (!memory)
        return nigh_mpi_answer_give_up(rooted->group, -ENOMEM);
    nigh_mpi_answer_count_packed();
    rooted->send = memory;
    rooted->recv = memory + bytes;
    rc = nigh_mpi_vector_pack_each(&sent->vector, sent->buffer, sent->type, memory, ranks, comm);
    rc = rc ? nigh_mpi_answer_give_up(rooted->group, rc) : nigh_mpi_rooted_run(rooted);
    if (!rc)
        rc = nigh_mpi_vector_unpack_each(kept, rooted->recv, call->recv, call->into, ranks, NIGH_MPI_NONE,
                                         comm);
    nigh_mpi_answer_release(memory);
    return rc;
}

static int run_in_place(struct nigh_mpi_rooted *rooted)
{
    uint64_t bytes = (uint64_t)rooted->bytes * (unsigned)rooted->group->ranks;
    void *memory = nigh_mpi_answer_memory(WHAT, bytes);
    int rc;

    if (!memory)
        return nigh_mpi_answer_give_up(rooted->group, -ENOMEM);
    memcpy(memory, rooted->recv, bytes);
    rooted->send = memory;
    rc = nigh_mpi_rooted_run(rooted);
    nigh_mpi_answer_release(memory);
    return rc;
}

static int run(const struct nigh_mpi_alltoall *call, struct nigh_mpi_rooted *rooted,
               const struct nigh_mpi_vector *kept, nigh_mpi_comm comm)
{
    bool packs = nigh_mpi_answer_packs(kept);
    struct sent sent;
    int rc = describe(call, kept, &sent, comm);

    if (rc)
        return nigh_mpi_answer_give_up(rooted->group, rc);
    if (packs || !sent.vector.dense)
        return run_packed(call, rooted, kept, &sent, comm);
    rooted->send = sent.buffer;
    rooted->recv = call->recv;
    return sent.in_place && !nigh_mpi_is_short(kept->bytes) ? run_in_place(rooted)
                                                            : nigh_mpi_rooted_run(rooted);
}

bool nigh_mpi_alltoall(const struct nigh_mpi_alltoall *call, nigh_mpi_comm comm, int *result)
{
    struct nigh_mpi_rooted rooted = {.what = WHAT, .root = NIGH_MPI_NONE, .apart = true};
    struct nigh_mpi_vector kept;

    if (!nigh_mpi_limits.alltoall_to || !nigh_mpi_vector_measure(&kept, call->recvs, call->into) ||
        !is_answered(kept.bytes) || !has_ranks(nigh_mpi_group_ranks(comm), kept.bytes))
        return false;
    rooted.group = nigh_mpi_group_of(comm, kept.bytes);
    if (!rooted.group || (call->send && call->send == call->recv))
        return false;
    rooted.bytes = (uint32_t)kept.bytes;
    nigh_mpi_vector_look(&kept, call->recv, call->into, comm);
    *result = nigh_mpi_answer(run(call, &rooted, &kept, comm), comm);
    return true;
}
