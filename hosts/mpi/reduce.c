/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/reduce.c - see reduce.h. */
#include "hosts/mpi/reduce.h"
#include "hosts/mpi/answer.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/types.h"

#define SHORT_TO 2048u

/* Nigh's own, or an operation of the program's own that commutes, which goes with any type. MPI's own do not, and what is wrong
 * then the MPI is to say. */
static bool is_reducible(struct nigh_mpi_reduction *reduction, struct nigh_mpi_vector *vector, int64_t count)
{
    int commutes;

    if (!nigh_mpi_vector_measure(vector, count, reduction->type))
        return false;
    vector->dense = true;
    reduction->width = vector->width;
    if (nigh_mpi_type_of(reduction->type) && nigh_mpi_reduction_of(reduction->op))
        return true;
    return vector->bytes >= nigh_mpi_limits.reduce_from && !nigh_mpi_is_own_op(reduction->op) &&
           !nigh_mpi_calls()->Op_commutative(reduction->op, &commutes) && commutes &&
           nigh_mpi_vector_is_close(vector, reduction->type);
}

/* Buffers that MPI does not refuse: `send` alone at ranks other than the root. */
static bool has_buffers(const struct nigh_mpi_group *group, int root, const void *send, const void *recv)
{
    if (group->me == root)
        return send && recv && send != recv;
    return send && send != NIGH_MPI_IN_PLACE;
}

/* Up to 256 bytes, and from 2 KiB on. */
static bool is_answered(uint64_t bytes)
{
    return nigh_mpi_is_short(bytes) || bytes >= SHORT_TO;
}

bool nigh_mpi_reduce(const void *send, void *recv, int64_t count, nigh_mpi_type type, nigh_mpi_op op,
                     int root, nigh_mpi_comm comm, int *result)
{
    struct nigh_mpi_reduction reduction = {.type = type, .op = op};
    struct nigh_mpi_vector vector;
    struct nigh_mpi_group *group;
    struct nigh_mpi_run run;

    if (!nigh_mpi_limits.reduce_from || !is_reducible(&reduction, &vector, count) ||
        !is_answered(vector.bytes))
        return false;
    group = nigh_mpi_group_of(comm, vector.bytes);
    if (!nigh_mpi_has_root(group, root) || !has_buffers(group, root, send, recv))
        return false;
    run = nigh_mpi_run_of(group, "MPI_Reduce", NIGH_REDUCE, vector.bytes);
    run.call.root = (uint32_t)root;
    run.gives = true;
    run.keeps = group->me == root;
    nigh_mpi_run_reduces(&run, &reduction);
    *result = nigh_mpi_answer_run(&run, &vector, send == NIGH_MPI_IN_PLACE ? recv : send, recv, type, comm);
    return true;
}

bool nigh_mpi_allreduce(const void *send, void *recv, int64_t count, nigh_mpi_type type, nigh_mpi_op op,
                        nigh_mpi_comm comm, int *result)
{
    struct nigh_mpi_reduction reduction = {.type = type, .op = op};
    struct nigh_mpi_vector vector;
    struct nigh_mpi_group *group;
    struct nigh_mpi_run run;

    if (!nigh_mpi_limits.reduce_from || !is_reducible(&reduction, &vector, count) ||
        vector.bytes < nigh_mpi_limits.reduce_from)
        return false;
    group = nigh_mpi_group_of(comm, vector.bytes);
    if (!group || !send || !recv || send == recv)
        return false;
    run = nigh_mpi_run_of(group, "MPI_Allreduce", NIGH_ALLREDUCE, vector.bytes);
    run.gives = run.keeps = true;
    nigh_mpi_run_reduces(&run, &reduction);
    *result = nigh_mpi_answer_run(&run, &vector, send == NIGH_MPI_IN_PLACE ? recv : send, recv, type, comm);
    return true;
}
