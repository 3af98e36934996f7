/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/short.h - a few elements. Reductions and gathers: each rank sends its own to the root and goes on, the root
 * adds them in the order of the ranks, so the result is the same on every run. Alltoalls: each sends every other one
 * what it has for it.
 */
#ifndef NIGH_MPI_SHORT_H
#define NIGH_MPI_SHORT_H

#include "hosts/mpi/rooted.h"

/* Alltoalls of so many ranks and fewer: 3, 8, 12, 16, 20 and 24 ranks on 2 CPUs of an Emerald Rapids exchange 64 bytes in
 * 0.79, 0.68, 0.66, 0.45, 0.51 and 0.63 of what they take by messages of Open MPI 4.1. 32 took 1.06 when alltoalls
 * still asked as senders to a root do, and were not tried since. */
#define NIGH_MPI_SHORT_EACH_MAX 24

/* Of at most NIGH_MPI_SHORT_BYTES. Waits for the other ranks at the root, or where each gets another vector; elsewhere
 * only where the root is one to two times NIGH_MPI_SHORTS_AHEAD calls behind, and NIGH_MPI_SHORTS_POSTED more where it
 * has kept or added some before. With the session's lock. Errors as those of nigh_mpi_rooted_run(). */
int nigh_mpi_short(const struct nigh_mpi_rooted *call);

#endif
