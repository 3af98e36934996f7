/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/progress.h - who moves requests on while the program is in a call of MPI's, or computes. Open MPI and MPICH 5 call a
 * hook of ours from their own progress. Others (MPICH before 4.3, Intel MPI) call one for requests that are waited for or tested;
 * what a program does else, as in MPI_Recv, leaves them to a thread of ours.
 */
#ifndef NIGH_MPI_PROGRESS_H
#define NIGH_MPI_PROGRESS_H

#include "hosts/mpi/abi.h"

#include <stdbool.h>

/* Can this MPI do it? The same in all processes that use it. */
bool nigh_mpi_progress_can(void);

/* There will be a request, or there is one now: called for both. False: it would not move. */
bool nigh_mpi_progress_begin(void);

/* MPI_Grequest_start(), with what is to be called. */
int nigh_mpi_progress_request(nigh_mpi_request_query query, nigh_mpi_request_free release,
                              nigh_mpi_request_cancel cancel, void *state, nigh_mpi_request *request);

/* The session ends. With its lock. */
void nigh_mpi_progress_end(void);

#endif
