/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/spread.h - each rank's vector goes to all others in parts: it lends them a copy of the next part, from a slot
 * that the caches hold, and they copy what they keep. So a vector is read from memory once, and not once by each rank.
 */
#ifndef NIGH_MPI_SPREAD_H
#define NIGH_MPI_SPREAD_H

#include "hosts/mpi/rooted.h"

/* Its `root`, `add` and `count` are not looked at: all keep all. Waits for the other ranks of the group, which all call
 * it with the same length. Errors as those of nigh_mpi_flow_run(). */
int nigh_mpi_spread_run(const struct nigh_mpi_rooted *call);

#endif
