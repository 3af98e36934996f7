/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/account.h - which calls were answered here and not by the MPI, which nobody sees otherwise. */
#ifndef NIGH_MPI_ACCOUNT_H
#define NIGH_MPI_ACCOUNT_H

#include "hosts/mpi/kinds.h"

#include <stdint.h>

/* Counted by who holds the session's lock. */
struct nigh_mpi_account {
    uint64_t calls[NIGH_MPI_KINDS];
    uint64_t requests; /* of these */
    uint64_t bytes;    /* of this rank's vectors, but in alltoallv and reduce_scatter */
    uint64_t packed;   /* calls whose vectors MPI packed and unpacked */
    uint64_t failed;
};

/* Appends one line of JSON to the file that NIGH_MPI_ACCOUNT names ("-": standard error); without the variable
 * nothing. `rank` is that in the communicator that nigh was opened for. */
void nigh_mpi_account_write(const struct nigh_mpi_account *account, int rank);

#endif
