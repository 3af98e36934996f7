/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether an MPI can load nigh's libfabric provider: tried with the libfabric that this MPI uses, not guessed. */
#ifndef NIGH_TOOLS_MPI_ABLE_H
#define NIGH_TOOLS_MPI_ABLE_H

#include "tools/mpi/find.h"

/* Loads that MPI's libfabric in a child process and asks it for the provider "nigh" below `providers`. True: it has it,
 * and `says` tells by which libfabric, "libfabric 2.5 (PATH)". False: `says` is the reason, in a line. */
bool mpi_able(const struct mpi_place *place, const char *providers, char *says, size_t room);

#endif
