/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/gather.c - see gather.h. */
#include "hosts/mpi/gather.h"
#include "hosts/mpi/answer.h"
#include "hosts/mpi/log.h"

#include <errno.h>

#define SHORT_TO 2048u

static bool is_answered(uint64_t bytes)
{
    return bytes <= nigh_mpi_limits.gather_to && (nigh_mpi_is_short(bytes) || bytes >= SHORT_TO);
}

/* ---- a rank that sends alone ------------------------------------------------------------------------ */

static int send_packed(struct nigh_mpi_run *run, const struct nigh_mpi_vector *vector, const void *send,
                       nigh_mpi_type type, nigh_mpi_comm comm)
{
    void *packed = nigh_mpi_answer_memory(run->what, vector->bytes);
    int rc = packed ? nigh_mpi_vector_pack(vector, send, type, packed, comm) : -ENOMEM;

    nigh_mpi_answer_count_packed();
    run->call.send = packed;
    rc = rc ? nigh_mpi_answer_give_up(run->group, rc) : nigh_mpi_run(run);
    nigh_mpi_answer_release(packed);
    return rc;
}

/* ---- a rank that keeps all -------------------------------------------------------------------------- */

/* What a rank sends itself must be as long as what it keeps. MPI is not asked any more: the others do not. */
static int own_differs(const struct nigh_mpi_gather *call, const struct nigh_mpi_run *run,
                       struct nigh_mpi_vector *own, nigh_mpi_comm comm)
{
    if (nigh_mpi_vector_measure(own, call->sends, call->type) && own->bytes == run->bytes) {
        nigh_mpi_vector_look(own, call->send, call->type, comm);
        return 0;
    }
    nigh_mpi_log("%s of %llu bytes of each rank: this one sends itself another length (%lld elements of its "
                 "send type)",
                 run->what, (unsigned long long)run->bytes, (long long)call->sends);
    return -EMSGSIZE;
}

/* Its own goes where it is kept, `place`, by MPI: packed there. */
static int pack_own(const struct nigh_mpi_gather *call, struct nigh_mpi_run *run,
                    const struct nigh_mpi_vector *own, char *place, nigh_mpi_comm comm)
{
    run->call.flags |= NIGH_COLLECTIVE_IN_PLACE;
    return nigh_mpi_vector_pack(own, call->send, call->type, place, comm);
}

/* What lies in its place already is packed, too, where others need it. */
static int pack_in_place(const struct nigh_mpi_gather *call, struct nigh_mpi_run *run,
                         const struct nigh_mpi_vector *vector, char *place, nigh_mpi_comm comm)
{
    void *from;
    int rc;

    if (run->call.op == NIGH_GATHER)
        return 0;
    rc = nigh_mpi_vector_place(vector, call->recv, call->into, run->group->me, &from);
    return rc ? rc : nigh_mpi_vector_pack(vector, from, call->into, place, comm);
}

static int collect(const struct nigh_mpi_gather *call, struct nigh_mpi_run *run,
                   const struct nigh_mpi_vector *vector, bool packs, nigh_mpi_comm comm)
{
    char *place = (char *)run->call.recv + (uint64_t)(unsigned)run->group->me * run->bytes;
    struct nigh_mpi_vector own;
    int rc = 0;

    if (call->send == NIGH_MPI_IN_PLACE) {
        run->call.flags |= NIGH_COLLECTIVE_IN_PLACE;
        rc = packs ? pack_in_place(call, run, vector, place, comm) : 0;
    } else {
        rc = own_differs(call, run, &own, comm);
        if (!rc && !packs && !own.dense)
            nigh_mpi_answer_count_packed();
        run->call.send = call->send;
        if (!rc && (packs || !own.dense))
            rc = pack_own(call, run, &own, place, comm);
    }
    return rc ? nigh_mpi_answer_give_up(run->group, rc) : nigh_mpi_run(run);
}

static int collect_packed(const struct nigh_mpi_gather *call, struct nigh_mpi_run *run,
                          const struct nigh_mpi_vector *vector, nigh_mpi_comm comm)
{
    int rc;

    run->call.recv = nigh_mpi_answer_memory(run->what, vector->bytes * (unsigned)run->group->ranks);
    if (!run->call.recv)
        return nigh_mpi_answer_give_up(run->group, -ENOMEM);
    nigh_mpi_answer_count_packed();
    rc = collect(call, run, vector, true, comm);
    if (!rc)
        rc = nigh_mpi_vector_unpack_each(vector, run->call.recv, call->recv, call->into, run->group->ranks,
                                         call->send == NIGH_MPI_IN_PLACE ? run->group->me : NIGH_MPI_NONE,
                                         comm);
    nigh_mpi_answer_release(run->call.recv);
    return rc;
}

static int keep(const struct nigh_mpi_gather *call, struct nigh_mpi_run *run,
                const struct nigh_mpi_vector *vector, nigh_mpi_comm comm)
{
    run->call.recv = call->recv;
    return nigh_mpi_answer_packs(vector) ? collect_packed(call, run, vector, comm)
                                         : collect(call, run, vector, false, comm);
}

/* ---- the calls ------------------------------------------------------------------------------------- */

/* Which of its arguments count, only the root says, and the ranks' types and buffers differ: bytes do not. */
bool nigh_mpi_gather(const struct nigh_mpi_gather *call, nigh_mpi_comm comm, int *result)
{
    struct nigh_mpi_vector vector;
    struct nigh_mpi_group *group;
    struct nigh_mpi_run run;
    int rc, me = nigh_mpi_limits.gather_to ? nigh_mpi_group_rank(comm) : NIGH_MPI_NONE;
    bool keeps = me == call->root;

    if (me == NIGH_MPI_NONE || (!keeps && call->send == NIGH_MPI_IN_PLACE) ||
        !nigh_mpi_vector_measure(&vector, keeps ? call->recvs : call->sends,
                                 keeps ? call->into : call->type) ||
        !is_answered(vector.bytes))
        return false;
    group = nigh_mpi_group_of(comm, vector.bytes);
    if (!nigh_mpi_has_root(group, call->root))
        return false;
    run = nigh_mpi_run_of(group, "MPI_Gather", NIGH_GATHER, vector.bytes);
    run.call.root = (uint32_t)call->root;
    run.call.send = call->send;
    nigh_mpi_vector_look(&vector, keeps ? call->recv : call->send, keeps ? call->into : call->type, comm);
    if (keeps)
        rc = keep(call, &run, &vector, comm);
    else
        rc = nigh_mpi_answer_packs(&vector) ? send_packed(&run, &vector, call->send, call->type, comm)
                                            : nigh_mpi_run(&run);
    *result = nigh_mpi_answer(rc, comm);
    return true;
}

bool nigh_mpi_allgather(const struct nigh_mpi_gather *call, nigh_mpi_comm comm, int *result)
{
    struct nigh_mpi_vector vector;
    struct nigh_mpi_group *group;
    struct nigh_mpi_run run;

    if (!nigh_mpi_limits.allgather_from || !nigh_mpi_vector_measure(&vector, call->recvs, call->into) ||
        vector.bytes < nigh_mpi_limits.allgather_from)
        return false;
    group = nigh_mpi_group_of(comm, vector.bytes);
    if (!group)
        return false;
    run = nigh_mpi_run_of(group, "MPI_Allgather", NIGH_ALLGATHER, vector.bytes);
    nigh_mpi_vector_look(&vector, call->recv, call->into, comm);
    *result = nigh_mpi_answer(keep(call, &run, &vector, comm), comm);
    return true;
}
