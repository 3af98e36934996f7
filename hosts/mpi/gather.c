/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/gather.c - see gather.h. */
#include "hosts/mpi/gather.h"
#include "hosts/mpi/answer.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/flat.h"
#include "hosts/mpi/log.h"
#include "hosts/mpi/short.h"

#include <errno.h>
#include <stdlib.h>

#define WHAT "MPI_Gather"

static bool is_answered(uint64_t bytes)
{
    uint64_t most =
        nigh_mpi_limits.gather_to < NIGH_MPI_SLOT_BYTES ? nigh_mpi_limits.gather_to : NIGH_MPI_SLOT_BYTES;

    return bytes <= most && (bytes <= NIGH_MPI_SHORT_BYTES || bytes >= NIGH_MPI_FLAT_FROM);
}

static int run(const struct nigh_mpi_rooted *rooted)
{
    return rooted->bytes <= NIGH_MPI_SHORT_BYTES ? nigh_mpi_short_run(rooted) : nigh_mpi_flat_run(rooted);
}

static int give_up(struct nigh_mpi_group *group, int rc)
{
    nigh_mpi_answer_give_up(group);
    return rc;
}

/* ---- a rank that is not the root ----------------------------------------------------------------------- */

static int send_packed(struct nigh_mpi_rooted *rooted, const struct nigh_mpi_vector *vector,
                       nigh_mpi_type type, nigh_mpi_comm comm)
{
    char packed[NIGH_MPI_SLOT_BYTES];
    int rc = nigh_mpi_vector_pack(vector, rooted->send, type, packed, comm);

    rooted->send = packed;
    return rc ? give_up(rooted->group, rc) : run(rooted);
}

/* ---- the root ------------------------------------------------------------------------------------------ */

/* What the root sends itself must be as long as what it keeps. MPI is not asked any more: the others do not. */
static int own_differs(const struct nigh_mpi_gather *call, uint32_t kept, struct nigh_mpi_vector *own)
{
    if (nigh_mpi_vector_describe(own, call->send, call->sends, call->type) && own->bytes == kept)
        return 0;
    nigh_mpi_log(WHAT
                 " of %u bytes of each rank: the root sends another length (%lld elements of its send type)",
                 kept, (long long)call->sends);
    return -EMSGSIZE;
}

static int unpack_all(const struct nigh_mpi_gather *call, const struct nigh_mpi_rooted *rooted,
                      const struct nigh_mpi_vector *vector, nigh_mpi_comm comm)
{
    bool in_place = call->send == NIGH_MPI_IN_PLACE;
    nigh_mpi_aint low, extent;
    int rc = nigh_mpi_calls()->Type_get_extent(call->into, &low, &extent) ? -EIO : 0;

    for (int r = 0; r < rooted->group->ranks && !rc; r++) {
        uintptr_t to = (uintptr_t)call->recv + (uintptr_t)(r * (int64_t)vector->count * extent);

        if (r != rooted->group->me || !in_place)
            rc = nigh_mpi_vector_unpack(vector, nigh_mpi_rooted_place(rooted, r), (void *)to, call->into,
                                        comm);
    }
    return rc;
}

/* Its own goes where it is kept before the others' do: packed there, if it has to be. */
static int collect(const struct nigh_mpi_gather *call, struct nigh_mpi_rooted *rooted, bool packs,
                   nigh_mpi_comm comm)
{
    struct nigh_mpi_vector own;
    char *place = nigh_mpi_rooted_place(rooted, rooted->group->me);
    int rc = 0;

    if (call->send == NIGH_MPI_IN_PLACE) {
        rooted->send = place;
        return run(rooted);
    }
    rc = own_differs(call, rooted->bytes, &own);
    if (!rc && (packs || !own.dense)) {
        rc = nigh_mpi_vector_pack(&own, call->send, call->type, place, comm);
        rooted->send = place;
    }
    return rc ? give_up(rooted->group, rc) : run(rooted);
}

static int collect_packed(const struct nigh_mpi_gather *call, struct nigh_mpi_rooted *rooted,
                          const struct nigh_mpi_vector *vector, nigh_mpi_comm comm)
{
    uint64_t bytes = vector->bytes * (unsigned)rooted->group->ranks;
    int rc;

    rooted->recv = malloc(bytes);
    if (!rooted->recv) {
        nigh_mpi_log(WHAT ": no memory for %llu bytes to unpack", (unsigned long long)bytes);
        return give_up(rooted->group, -ENOMEM);
    }
    rc = collect(call, rooted, true, comm);
    if (!rc)
        rc = unpack_all(call, rooted, vector, comm);
    free(rooted->recv);
    return rc;
}

/* ---- the call ------------------------------------------------------------------------------------------ */

/* Which of its arguments count, only the root says, and the ranks' types and buffers differ: bytes do not. */
bool nigh_mpi_gather(const struct nigh_mpi_gather *call, nigh_mpi_comm comm, int *result)
{
    struct nigh_mpi_rooted rooted = {
        .what = WHAT, .send = call->send, .recv = call->recv, .root = call->root};
    struct nigh_mpi_vector vector;
    int me, rc;
    bool packs, is_root;

    if (!nigh_mpi_limits.gather_to || comm == NIGH_MPI_COMM_NULL || nigh_mpi_calls()->Comm_rank(comm, &me))
        return false;
    is_root = me == call->root;
    if (!nigh_mpi_vector_describe(&vector, is_root ? call->recv : call->send,
                                  is_root ? call->recvs : call->sends, is_root ? call->into : call->type) ||
        !is_answered(vector.bytes))
        return false;
    rooted.group = nigh_mpi_group_of(comm, vector.bytes);
    if (!nigh_mpi_has_root(rooted.group, call->root))
        return false;
    rooted.bytes = (uint32_t)vector.bytes;
    packs = nigh_mpi_answer_packs(&vector);
    if (is_root)
        rc = packs ? collect_packed(call, &rooted, &vector, comm) : collect(call, &rooted, false, comm);
    else
        rc = packs ? send_packed(&rooted, &vector, call->type, comm) : run(&rooted);
    *result = nigh_mpi_answer(rc, comm);
    return true;
}
