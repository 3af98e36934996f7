/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/progress.h - who moves requests on while the program is in a call of MPI's, or computes. Open MPI and MPICH from 4.3 on call
 * a hook of ours from their own progress. Other MPIs of MPICH's ABI call us for requests that are waited for or tested alone; in all
 * other calls, as in MPI_Recv, a thread of ours moves requests on.
 */
#ifndef NIGH_MPI_PROGRESS_H
#define NIGH_MPI_PROGRESS_H

#include "hosts/mpi/abi.h"

#include <stdbool.h>

/* Can this MPI do it, with the threads that the program has asked for? One rank may find it out, and another one not: they tell each
 * other. */
bool nigh_mpi_progress_can(void);

/* There will be a request, or there is one now: called for both. False: it would not move. */
bool nigh_mpi_progress_begin(void);

/* There will be a request of kept.h's, which needs nothing of nigh's. False: it would not move. */
bool nigh_mpi_progress_without_nigh(void);

/* MPI_Grequest_start(), with what is to be called. */
int nigh_mpi_progress_request(nigh_mpi_request_query query, nigh_mpi_request_free release,
                              nigh_mpi_request_cancel cancel, void *state, nigh_mpi_request *request);

/* nigh has completed the operation of a request. With the session's lock. */
struct nigh_mpi_operation;
void nigh_mpi_progress_done(struct nigh_mpi_operation *operation);

/* The operation of a request of kept.h's is done. Without a lock. */
void nigh_mpi_progress_complete(struct nigh_mpi_operation *operation);

/* The session ends. With its lock. */
void nigh_mpi_progress_end(void);

#endif
