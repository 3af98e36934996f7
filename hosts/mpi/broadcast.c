/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/broadcast.c - see broadcast.h. */
#include "hosts/mpi/broadcast.h"
#include "hosts/mpi/answer.h"

/* Ranks may describe the same bytes by different types, and by addresses without a buffer. */
bool nigh_mpi_broadcast(void *buffer, int64_t count, nigh_mpi_type type, int root, nigh_mpi_comm comm,
                        int *result)
{
    struct nigh_mpi_vector vector;
    struct nigh_mpi_group *group;
    struct nigh_mpi_run run;

    if (!nigh_mpi_limits.bcast_from || !nigh_mpi_vector_measure(&vector, count, type) ||
        vector.bytes < nigh_mpi_limits.bcast_from)
        return false;
    group = nigh_mpi_group_of(comm, vector.bytes);
    if (!nigh_mpi_has_root(group, root))
        return false;
    run = nigh_mpi_run_of(group, "MPI_Bcast", NIGH_BROADCAST, vector.bytes);
    run.call.root = (uint32_t)root;
    run.gives = group->me == root;
    run.keeps = !run.gives;
    nigh_mpi_vector_look(&vector, buffer, type, comm);
    *result = nigh_mpi_answer_run(&run, &vector, buffer, buffer, type, comm);
    return true;
}
