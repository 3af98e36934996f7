/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/gather.c - see gather.h. */
#include "hosts/mpi/gather.h"
#include "hosts/mpi/answer.h"
#include "hosts/mpi/flat.h"
#include "hosts/mpi/log.h"
#include "hosts/mpi/spread.h"

#include <errno.h>

static bool is_answered(uint64_t bytes)
{
    uint64_t most =
        nigh_mpi_limits.gather_to < NIGH_MPI_SLOT_BYTES ? nigh_mpi_limits.gather_to : NIGH_MPI_SLOT_BYTES;

    return bytes <= most && (nigh_mpi_is_short(bytes) || bytes >= NIGH_MPI_FLAT_FROM);
}

/* ---- who sends alone ------------------------------------------------------------------------------- */

static int send_packed(struct nigh_mpi_rooted *rooted, const struct nigh_mpi_vector *vector,
                       nigh_mpi_type type, nigh_mpi_comm comm)
{
    void *packed = nigh_mpi_answer_memory(rooted->what, vector->bytes);
    int rc = packed ? nigh_mpi_vector_pack(vector, rooted->send, type, packed, comm) : -ENOMEM;

    nigh_mpi_answer_count_packed();
    rooted->send = packed;
    rc = rc ? nigh_mpi_answer_give_up(rooted->group, rc) : nigh_mpi_rooted_run(rooted);
    nigh_mpi_answer_release(packed);
    return rc;
}

/* ---- who keeps them -------------------------------------------------------------------------------- */

/* What a rank sends itself must be as long as what it keeps. MPI is not asked any more: the others do not. */
static int own_differs(const struct nigh_mpi_gather *call, const struct nigh_mpi_rooted *rooted,
                       struct nigh_mpi_vector *own, nigh_mpi_comm comm)
{
    if (nigh_mpi_vector_measure(own, call->sends, call->type) && own->bytes == rooted->bytes) {
        nigh_mpi_vector_look(own, call->send, call->type, comm);
        return 0;
    }
    nigh_mpi_log(
        "%s of %u bytes of each rank: this one sends itself another length (%lld elements of its send type)",
        rooted->what, rooted->bytes, (long long)call->sends);
    return -EMSGSIZE;
}

/* What lies in its place already others need, too, where all keep all. */
static int pack_in_place(const struct nigh_mpi_gather *call, const struct nigh_mpi_rooted *rooted,
                         const struct nigh_mpi_vector *vector, char *to, nigh_mpi_comm comm)
{
    void *from;
    int rc = nigh_mpi_vector_place(vector, call->recv, call->into, rooted->group->me, &from);

    return rc ? rc : nigh_mpi_vector_pack(vector, from, call->into, to, comm);
}

/* Its own goes where it is kept before the others' do: packed there, if it has to be. */
static int collect(const struct nigh_mpi_gather *call, struct nigh_mpi_rooted *rooted,
                   const struct nigh_mpi_vector *vector, bool packs, nigh_mpi_comm comm)
{
    struct nigh_mpi_vector own;
    char *place = nigh_mpi_rooted_place(rooted, rooted->group->me);
    int rc = 0;

    if (call->send == NIGH_MPI_IN_PLACE) {
        if (packs && rooted->root == NIGH_MPI_NONE)
            rc = pack_in_place(call, rooted, vector, place, comm);
        rooted->send = place;
    } else {
        rc = own_differs(call, rooted, &own, comm);
        if (!rc && !packs && !own.dense)
            nigh_mpi_answer_count_packed();
        if (!rc && (packs || !own.dense)) {
            rc = nigh_mpi_vector_pack(&own, call->send, call->type, place, comm);
            rooted->send = place;
        }
    }
    return rc ? nigh_mpi_answer_give_up(rooted->group, rc) : nigh_mpi_rooted_run(rooted);
}

static int collect_packed(const struct nigh_mpi_gather *call, struct nigh_mpi_rooted *rooted,
                          const struct nigh_mpi_vector *vector, nigh_mpi_comm comm)
{
    int rc;

    rooted->recv = nigh_mpi_answer_memory(rooted->what, vector->bytes * (unsigned)rooted->group->ranks);
    if (!rooted->recv)
        return nigh_mpi_answer_give_up(rooted->group, -ENOMEM);
    nigh_mpi_answer_count_packed();
    rc = collect(call, rooted, vector, true, comm);
    if (!rc)
        rc = nigh_mpi_vector_unpack_each(vector, rooted->recv, call->recv, call->into, rooted->group->ranks,
                                         call->send == NIGH_MPI_IN_PLACE ? rooted->group->me : NIGH_MPI_NONE,
                                         comm);
    nigh_mpi_answer_release(rooted->recv);
    return rc;
}

static int keep(const struct nigh_mpi_gather *call, struct nigh_mpi_rooted *rooted,
                const struct nigh_mpi_vector *vector, nigh_mpi_comm comm)
{
    return nigh_mpi_answer_packs(vector) ? collect_packed(call, rooted, vector, comm)
                                         : collect(call, rooted, vector, false, comm);
}

/* ---- the calls ------------------------------------------------------------------------------------- */

/* Which of its arguments count, only the root says, and the ranks' types and buffers differ: bytes do not. */
bool nigh_mpi_gather(const struct nigh_mpi_gather *call, nigh_mpi_comm comm, int *result)
{
    struct nigh_mpi_rooted rooted = {
        .what = "MPI_Gather", .send = call->send, .recv = call->recv, .root = call->root};
    struct nigh_mpi_vector vector;
    int rc, me = nigh_mpi_limits.gather_to ? nigh_mpi_group_rank(comm) : NIGH_MPI_NONE;
    bool keeps = me == call->root;

    if (me == NIGH_MPI_NONE || (!keeps && call->send == NIGH_MPI_IN_PLACE) ||
        !nigh_mpi_vector_measure(&vector, keeps ? call->recvs : call->sends,
                                 keeps ? call->into : call->type) ||
        !is_answered(vector.bytes))
        return false;
    rooted.group = nigh_mpi_group_of(comm, vector.bytes);
    if (!nigh_mpi_has_root(rooted.group, call->root))
        return false;
    rooted.bytes = (uint32_t)vector.bytes;
    nigh_mpi_vector_look(&vector, keeps ? call->recv : call->send, keeps ? call->into : call->type, comm);
    if (keeps)
        rc = keep(call, &rooted, &vector, comm);
    else
        rc = nigh_mpi_answer_packs(&vector) ? send_packed(&rooted, &vector, call->type, comm)
                                            : nigh_mpi_rooted_run(&rooted);
    *result = nigh_mpi_answer(rc, comm);
    return true;
}

bool nigh_mpi_allgather(const struct nigh_mpi_gather *call, nigh_mpi_comm comm, int *result)
{
    struct nigh_mpi_rooted rooted = {
        .what = "MPI_Allgather", .send = call->send, .recv = call->recv, .root = NIGH_MPI_NONE};
    struct nigh_mpi_vector vector;

    if (!nigh_mpi_limits.allgather_from || !nigh_mpi_vector_measure(&vector, call->recvs, call->into) ||
        vector.bytes < nigh_mpi_limits.allgather_from)
        return false;
    rooted.group = nigh_mpi_group_of(comm, vector.bytes);
    if (!rooted.group || (rooted.group->ranks > NIGH_MPI_SPREAD_RANKS && vector.bytes < NIGH_MPI_SPREAD_FROM))
        return false;
    rooted.bytes = (uint32_t)vector.bytes;
    nigh_mpi_vector_look(&vector, call->recv, call->into, comm);
    *result = nigh_mpi_answer(keep(call, &rooted, &vector, comm), comm);
    return true;
}
