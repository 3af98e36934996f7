/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/add.h - loops for what is reduced most often. All else MPI_Reduce_local() does, which has no third operand:
 * a rank's own vector has to be copied first, and reductions of 256 KiB and 1 MiB take 1.4 and 1.3 times as long.
 */
#ifndef NIGH_MPI_ADD_H
#define NIGH_MPI_ADD_H

#include "hosts/mpi/abi.h"

#include <stddef.h>

/* sum[i] = a[i] OP b[i], `count` elements, wherever they lie; sum may be a or b. */
typedef void (*nigh_mpi_add_fn)(void *sum, const void *a, const void *b, size_t count);

/* For float, double, int, long and long long: sum, product, minimum and maximum. NULL: there is none. */
nigh_mpi_add_fn nigh_mpi_add(nigh_mpi_type type, nigh_mpi_op op);

/* Bytes of an element of one of these types. */
size_t nigh_mpi_width(nigh_mpi_type type);

#endif
