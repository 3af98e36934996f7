/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/broadcast.c - see broadcast.h. */
#include "hosts/mpi/broadcast.h"
#include "hosts/mpi/answer.h"

/* Ranks may describe the same bytes by different types, and by addresses without a buffer. */
bool nigh_mpi_broadcast(void *buffer, int64_t count, nigh_mpi_type type, int root, nigh_mpi_comm comm,
                        int *result)
{
    struct nigh_mpi_flow flow = {.what = "MPI_Bcast", .type = type, .root = root, .down = true};
    struct nigh_mpi_vector vector;

    if (!nigh_mpi_limits.bcast_from || !nigh_mpi_vector_measure(&vector, count, type) ||
        vector.bytes < nigh_mpi_limits.bcast_from)
        return false;
    flow.group = nigh_mpi_group_of(comm, vector.bytes);
    if (!nigh_mpi_has_root(flow.group, root))
        return false;
    nigh_mpi_vector_look(&vector, buffer, type, comm);
    *result = nigh_mpi_answer_flow(&flow, &vector, buffer, buffer, comm);
    return true;
}
