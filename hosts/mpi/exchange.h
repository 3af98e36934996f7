/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/exchange.h - each rank has another vector for each: it lends every one a copy, from a slot that the caches
 * hold, two at a time, and they copy it to where they keep it.
 */
#ifndef NIGH_MPI_EXCHANGE_H
#define NIGH_MPI_EXCHANGE_H

#include "hosts/mpi/rooted.h"

/* The lengths and ranks that this way is faster for than the MPI's messages: 8 ranks on 2 CPUs of an Emerald Rapids
 * over Intel MPI 0.96, 0.94 and 0.95 of them at 32, 48 and 64 KiB. Longer ones are read where they lie; fewer ranks
 * find room in the caches for one copy for each peer; of more ranks each waits for two of them at a time too often. */
#define NIGH_MPI_EXCHANGE_FROM 32768u
#define NIGH_MPI_EXCHANGE_TO   65536u
#define NIGH_MPI_EXCHANGE_MIN  7
#define NIGH_MPI_EXCHANGE_MAX  12

/* Of at most NIGH_MPI_SLOT_BYTES. Waits for the other ranks. With the session's lock. Errors as those of
 * nigh_mpi_rooted_run(). */
int nigh_mpi_exchange(const struct nigh_mpi_rooted *call);

#endif
