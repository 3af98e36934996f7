/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/alltoall.h - which exchanges of all with all are answered here. */
#ifndef NIGH_MPI_ALLTOALL_H
#define NIGH_MPI_ALLTOALL_H

#include "hosts/mpi/abi.h"

#include <stdbool.h>

struct nigh_mpi_alltoall {
    const void *send; /* of each rank, as what is received */
    int64_t sends;
    nigh_mpi_type type;
    void *recv;
    int64_t recvs;
    nigh_mpi_type into;
};

/* False: MPI is to do it, or to say what is wrong with it. True: it is done, and *result what the call returns. */
bool nigh_mpi_alltoall(const struct nigh_mpi_alltoall *call, nigh_mpi_comm comm, int *result);

#endif
