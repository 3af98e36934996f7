/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/reduce.h - which reductions are answered here. */
#ifndef NIGH_MPI_REDUCE_H
#define NIGH_MPI_REDUCE_H

#include "hosts/mpi/abi.h"

#include <stdbool.h>

/* False: MPI is to do it, or to say what is wrong with it. True: it is done, and *result what the call returns. */
bool nigh_mpi_reduce(const void *send, void *recv, int64_t count, nigh_mpi_type type, nigh_mpi_op op,
                     int root, nigh_mpi_comm comm, int *result);
bool nigh_mpi_allreduce(const void *send, void *recv, int64_t count, nigh_mpi_type type, nigh_mpi_op op,
                        nigh_mpi_comm comm, int *result);

#endif
