/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/broadcast.h - which broadcasts are answered here. */
#ifndef NIGH_MPI_BROADCAST_H
#define NIGH_MPI_BROADCAST_H

#include "hosts/mpi/abi.h"

#include <stdbool.h>

/* False: MPI is to do it, or to say what is wrong with it. True: it is done, and *result what the call returns. */
bool nigh_mpi_broadcast(void *buffer, int64_t count, nigh_mpi_type type, int root, nigh_mpi_comm comm,
                        int *result);

#endif
