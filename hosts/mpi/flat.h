/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/flat.h - reductions and gathers of some KiB, without a tree: each rank lends the root a copy of its own and
 * goes on, the root reads them where they lie. It adds them in the order of the ranks, to its own; or keeps them in the
 * order in which they come.
 */
#ifndef NIGH_MPI_FLAT_H
#define NIGH_MPI_FLAT_H

#include "hosts/mpi/rooted.h"

/* From so many bytes on 8 ranks on 2 CPUs of an Emerald Rapids take less time than with messages (of 1 KiB 5.3 us in
 * place of 3), up to so many than with messages or trees (docs/rationale/crowd-collectives.md). */
#define NIGH_MPI_FLAT_FROM 2048u
#define NIGH_MPI_FLAT_TO   65536u
/* Where more ranks than these add, the root is what all wait for. */
#define NIGH_MPI_FLAT_RANKS 32

/* Of at most NIGH_MPI_SLOT_BYTES. Waits for the other ranks at the root; elsewhere only where what was lent by the last
 * two calls has not been read. Errors as those of nigh_mpi_flow_run(). */
int nigh_mpi_flat_run(const struct nigh_mpi_rooted *call);

#endif
