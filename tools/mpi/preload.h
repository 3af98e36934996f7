/* SPDX-License-Identifier: BSD-3-Clause */
/* What is preloaded to the programs of an MPI: hosts/malloc, and hosts/mpi. */
#ifndef NIGH_TOOLS_MPI_PRELOAD_H
#define NIGH_TOOLS_MPI_PRELOAD_H

#include "tools/mpi/find.h"
#include "tools/mpi/words.h"

#include <stdint.h>

/* Appends the LD_PRELOAD that keeps the programs' large blocks where peers can map them, unless NIGH_MALLOC is 0, and answers
 * collectives in the MPI's place, but for those that the user has settled himself. Nothing of what was not built; said on standard
 * error where it cannot be preloaded. `programs`: how many different ones the job has. */
void mpi_preload(const struct mpi_place *place, const char *providers, uint32_t programs,
                 struct mpi_words *settings);

#endif
