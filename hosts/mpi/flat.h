/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/flat.h - reductions and gathers of some KiB, without a tree of ranks: each lends the root a copy of its own
 * and goes on, the root reads them where they lie. It adds them by pairs of ranks, pairs of pairs and so on, which is
 * the same sum on every run, whoever comes first and whichever rank is the root; or it keeps them.
 */
#ifndef NIGH_MPI_FLAT_H
#define NIGH_MPI_FLAT_H

#include "hosts/mpi/rooted.h"

/* From so many bytes on 8 ranks on 2 CPUs of an Emerald Rapids take less time than with messages (1 KiB takes more, 5.3
 * us in place of 3). Reductions go by a tree from nigh_mpi_limits.reduce_from on, if that is not later than FLAT_TO,
 * for which a root has room. */
#define NIGH_MPI_FLAT_FROM 2048u
#define NIGH_MPI_FLAT_TO   65536u
/* Where more ranks than these add, all wait for what the root has to do. */
#define NIGH_MPI_FLAT_RANKS 32

/* Of at most NIGH_MPI_SLOT_BYTES, if added NIGH_MPI_FLAT_TO and of NIGH_MPI_FLAT_RANKS. Waits for the other ranks at
 * the root; elsewhere only where what was lent by the last two calls has not been read. With the session's lock. Errors
 * as those of nigh_mpi_rooted_run(). */
int nigh_mpi_flat(const struct nigh_mpi_rooted *call);

#endif
