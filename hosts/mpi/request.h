/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/request.h - operations that return a request: a generalized request of MPI's, so that all of MPI's calls take it. */
#ifndef NIGH_MPI_REQUEST_H
#define NIGH_MPI_REQUEST_H

#include "hosts/mpi/operation.h"

/* One with a request at the MPI, which is given away by its `free`. NULL: no memory, or the MPI makes none. */
struct nigh_mpi_operation *nigh_mpi_request_take(struct nigh_mpi_group *group, nigh_mpi_comm comm);

/* It has failed, and the program has heard of it: the request goes. */
void nigh_mpi_request_drop(struct nigh_mpi_operation *operation);

/* Completes it at the MPI, if nigh has completed it. True: it is complete. `state`: the operation, for MPI. */
bool nigh_mpi_request_complete(void *state);

/* Takes back what MPI has freed. With the session's lock. */
void nigh_mpi_request_clean(void);

#endif
