/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/types.h - MPI's own types and operations, as nigh knows them. */
#ifndef NIGH_MPI_TYPES_H
#define NIGH_MPI_TYPES_H

#include "hosts/mpi/abi.h"

#include <stdbool.h>
#include <stdint.h>

/* Which of MPI's own operations a type takes. */
enum nigh_mpi_class {
    NIGH_MPI_MOVED, /* none */
    NIGH_MPI_BITS,
    NIGH_MPI_INTEGERS,
    NIGH_MPI_FLOATS,
    NIGH_MPI_COMPLEX,
    NIGH_MPI_TRUTHS,
    NIGH_MPI_PAIRS,
};

/* One of MPI's own. */
struct nigh_mpi_known {
    nigh_mpi_type type;
    uint16_t nigh;  /* enum nigh_type; 0: nigh has none that is the same */
    uint16_t width; /* bytes of an element in memory */
    uint16_t size;  /* bytes of it that are sent: fewer where it has gaps */
    enum nigh_mpi_class of;
};

/* NULL: it is another. */
const struct nigh_mpi_known *nigh_mpi_known_type(nigh_mpi_type type);

/* How the elements of a call are reduced; `width` 0: that is left to the MPI. */
struct nigh_mpi_reduction {
    nigh_mpi_type type;
    nigh_mpi_op op;
    uint16_t nigh_type, nigh_op; /* 0: by MPI_Reduce_local() */
    bool own;                    /* one of MPI's own operations, which nobody frees */
    uint64_t width;
};

/* Depends on what all ranks of a call give alike. */
struct nigh_mpi_reduction nigh_mpi_reduction_of(nigh_mpi_type type, nigh_mpi_op op);

#endif
