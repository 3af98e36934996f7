/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/gather.h - which gathers, to one rank or to all, are answered here. */
#ifndef NIGH_MPI_GATHER_H
#define NIGH_MPI_GATHER_H

#include "hosts/mpi/abi.h"

#include <stdbool.h>

struct nigh_mpi_gather {
    const void *send;
    int64_t sends;
    nigh_mpi_type type;
    void *recv; /* this and the next two are the root's alone, if there is one */
    int64_t recvs;
    nigh_mpi_type into;
    int root; /* not of an allgather */
};

/* False: MPI is to do it, or to say what is wrong with it. True: it is done, and *result what the call returns. */
bool nigh_mpi_gather(const struct nigh_mpi_gather *call, nigh_mpi_comm comm, int *result);
bool nigh_mpi_allgather(const struct nigh_mpi_gather *call, nigh_mpi_comm comm, int *result);

#endif
