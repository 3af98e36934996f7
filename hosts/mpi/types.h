/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/types.h - MPI's own types and operations, as nigh knows them. */
#ifndef NIGH_MPI_TYPES_H
#define NIGH_MPI_TYPES_H

#include "hosts/mpi/abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* enum nigh_type; 0: nigh has none that is the same. And bytes of an element of it. */
uint16_t nigh_mpi_type_of(nigh_mpi_type type);
size_t nigh_mpi_type_width(nigh_mpi_type type);

/* enum nigh_atomic_op; 0: nigh has none. */
uint16_t nigh_mpi_reduction_of(nigh_mpi_op op);

/* One of MPI's own, which it may refuse for a type, or none? */
bool nigh_mpi_is_own_op(nigh_mpi_op op);

#endif
