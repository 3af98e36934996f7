/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/spread.h - each rank's vector goes to all others in parts: it lends them a copy of the next part, from a
 * slot that the caches hold, and they copy it past the caches to where they keep it. So a vector is read from
 * memory by its own rank alone, and results are written without being read.
 */
#ifndef NIGH_MPI_SPREAD_H
#define NIGH_MPI_SPREAD_H

#include "hosts/mpi/rooted.h"

/* Where more ranks than these take part, shorter vectors than SPREAD_FROM go in fewer steps by messages: here each is
 * lent to each. */
#define NIGH_MPI_SPREAD_RANKS 32
#define NIGH_MPI_SPREAD_FROM  65536u

/* Waits for the other ranks. With the session's lock. Errors as those of nigh_mpi_rooted_run(). */
int nigh_mpi_spread(const struct nigh_mpi_rooted *call);

#endif
