/* SPDX-License-Identifier: BSD-3-Clause */
/* What the user has told an MPI by himself, in the environment: that stands. */
#ifndef NIGH_TOOLS_MPI_CHOSEN_H
#define NIGH_TOOLS_MPI_CHOSEN_H

#include <stdbool.h>

/* Is any variable set whose name begins so? */
bool mpi_chosen_any(const char *prefix);

/* Is this one set, or one that goes with it (NAME_...)? Of a reduction that scatters that says nothing. */
bool mpi_chosen(const char *name);

/* Was a table of Intel MPI's algorithms named? */
bool mpi_chosen_table(void);

#endif
