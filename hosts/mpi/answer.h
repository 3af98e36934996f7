/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/answer.h - is a call answered here, and what the program hears of it. */
#ifndef NIGH_MPI_ANSWER_H
#define NIGH_MPI_ANSWER_H

#include "hosts/mpi/kinds.h"

/* Makes the call; with `request` starts it. False: it is the MPI's. Else *result is what the program gets, and the communicator's
 * error handler has been told of an error. */
bool nigh_mpi_answer(enum nigh_mpi_kind kind, const struct nigh_mpi_arguments *arguments,
                     nigh_mpi_request *request, int *result);

/* MPI's error for a negative errno, or `rc`, which is one; 0: none. */
int nigh_mpi_error_of(int rc);

/* And the communicator's error handler hears of a negative errno. */
int nigh_mpi_report(int rc, nigh_mpi_comm comm);

#endif
