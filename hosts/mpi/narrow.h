/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/narrow.h - a call with large counts over an MPI that has none (Open MPI 4 and 5, MPICH before 4): the same with an int for
 * each count. */
#ifndef NIGH_MPI_NARROW_H
#define NIGH_MPI_NARROW_H

#include "hosts/mpi/kinds.h"

struct nigh_mpi_narrow {
    const int *send_counts, *send_offsets, *recv_counts,
        *recv_offsets; /* NULL: the call does not read them */
    int *memory;       /* of them; the caller frees it */
    struct nigh_mpi_kept *kept;
};

/* 0; or MPI's error, logged, and the communicator's error handler has heard of it: a count that the call reads is no int, or there is
 * no memory. */
int nigh_mpi_narrow(enum nigh_mpi_kind kind, const struct nigh_mpi_arguments *arguments,
                    struct nigh_mpi_narrow *out);

/* The same for a call that returns a request. `kept` has the memory and gets the MPI's request, until which the arrays stay; NULL: the
 * call reads no array, and there is no memory to free. */
int nigh_mpi_narrow_request(enum nigh_mpi_kind kind, const struct nigh_mpi_arguments *arguments,
                            struct nigh_mpi_narrow *out);

#endif
