/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/self.h - a communicator of this process alone, of which the program knows nothing. Its errors are returned. */
#ifndef NIGH_MPI_SELF_H
#define NIGH_MPI_SELF_H

#include "hosts/mpi/abi.h"

#include <stdbool.h>

/* Does the MPI look at arguments? Not where it was built, or started, without that. */
extern bool nigh_mpi_self_checks;

/* 0, or MPI's error. With the session's lock, as the end. */
int nigh_mpi_self_open(void);
/* Of an open one. */
nigh_mpi_comm nigh_mpi_self(void);
void nigh_mpi_self_close(void);

#endif
