/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/add.h - loops for what is reduced most often. Operations of a program's own MPI_Reduce_local() does, which
 * has no third operand: a rank's vector has to be copied first, and reductions of 256 KiB and 1 MiB take 1.4 and 1.3
 * times as long.
 */
#ifndef NIGH_MPI_ADD_H
#define NIGH_MPI_ADD_H

#include "hosts/mpi/abi.h"

#include <stdbool.h>
#include <stddef.h>

/* sum[i] = a[i] OP b[i], `count` elements, wherever they lie; sum may be a or b. */
typedef void (*nigh_mpi_add_fn)(void *sum, const void *a, const void *b, size_t count);

/* For types of 4 and 8 bytes: sum, product, minimum and maximum. NULL: there is none; else *width becomes the bytes of
 * an element. */
nigh_mpi_add_fn nigh_mpi_add(nigh_mpi_type type, nigh_mpi_op op, size_t *width);

/* Bytes of an element of one of these types; 0: it is another. */
size_t nigh_mpi_add_width(nigh_mpi_type type);

/* One of MPI's own, which it may refuse for a type, or none? */
bool nigh_mpi_is_own_op(nigh_mpi_op op);

#endif
