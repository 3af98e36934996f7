/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/elements.h - a program's operation on elements that do not lie as they are sent: nigh has them packed, so they are unpacked
 * for the operation, and packed again. */
#ifndef NIGH_MPI_ELEMENTS_H
#define NIGH_MPI_ELEMENTS_H

#include "hosts/mpi/vector.h"

struct nigh_mpi_elements {
    char *memory;                     /* NULL: elements lie as they are sent */
    struct nigh_mpi_vector in, inout; /* of `most` elements, in `memory` */
    int64_t most;
};

/* For elements of `type`. 0; -ENOMEM, logged; or MPI's error, which it has reported. nigh_mpi_elements_free() takes one that is zero,
 * too. */
int nigh_mpi_elements_make(struct nigh_mpi_elements *elements, nigh_mpi_type type);
void nigh_mpi_elements_free(struct nigh_mpi_elements *elements);

/* inout[i] = in[i] op inout[i], of packed elements. 0, or MPI's error, which it has reported. */
int nigh_mpi_elements_reduce(struct nigh_mpi_elements *elements, nigh_mpi_op op, const char *in, char *inout,
                             uint64_t count);

#endif
