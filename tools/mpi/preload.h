/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi, for the programs of an MPI whose ranks share CPUs. */
#ifndef NIGH_TOOLS_MPI_PRELOAD_H
#define NIGH_TOOLS_MPI_PRELOAD_H

#include "tools/mpi/find.h"
#include "tools/mpi/words.h"

#include <stdint.h>

/* Appends the LD_PRELOAD that answers long reductions and broadcasts in the MPI's place, and what leaves it those that
 * the user has settled himself. Nothing where he has settled both, or where the object was not built; said on standard
 * error where it cannot be preloaded. `programs`: how many different ones the job has. */
void mpi_preload(const struct mpi_place *place, const char *providers, uint32_t programs,
                 struct mpi_words *settings);

#endif
