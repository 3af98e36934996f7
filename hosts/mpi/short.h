/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/short.h - reductions and gathers of a few elements: each rank sends its own to the root and goes on, the
 * root adds them in the order of the ranks, so the result is the same on every run.
 */
#ifndef NIGH_MPI_SHORT_H
#define NIGH_MPI_SHORT_H

#include "hosts/mpi/rooted.h"

/* Of at most NIGH_MPI_SHORT_BYTES. Waits for the other ranks at the root; elsewhere only where the root is one to two
 * times NIGH_MPI_SHORTS_AHEAD calls behind, and NIGH_MPI_SHORTS_POSTED more where it has been a root before. With the
 * session's lock. Errors as those of nigh_mpi_rooted_run(). */
int nigh_mpi_short(const struct nigh_mpi_rooted *call);

#endif
