/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/kept.h - calls of the MPI's own that return a request, and read arrays of ours until that is complete. The program gets a
 * request of ours, which completes behind the MPI's. */
#ifndef NIGH_MPI_KEPT_H
#define NIGH_MPI_KEPT_H

#include "hosts/mpi/abi.h"

#include <stdbool.h>

struct nigh_mpi_kept;

/* One with a request for the program, before the call. Takes `memory`, which is freed then. 0, or a negative errno, logged. */
int nigh_mpi_kept_new(const char *call, int *memory, struct nigh_mpi_kept **out);

/* The call has returned `result`, and 0 with the request `inner`. Returns the result; with 0 *request is the program's. */
int nigh_mpi_kept_begin(struct nigh_mpi_kept *kept, int result, nigh_mpi_request inner,
                        nigh_mpi_request *request);

/* Completes those whose calls are complete. True: there was one. Any thread; MPI may call it, with its own locks. */
bool nigh_mpi_kept_move(void);

#endif
