/* SPDX-License-Identifier: BSD-3-Clause */
/* Where an MPI that is no package of the system is installed, and what its programs need to find it there. */
#ifndef NIGH_TOOLS_MPI_HOME_H
#define NIGH_TOOLS_MPI_HOME_H

#include "tools/mpi/find.h"
#include "tools/mpi/words.h"

/* The root of an Intel MPI: I_MPI_ROOT, or two levels above its launcher. False: it has none, or it is too long. */
bool mpi_intel_root(const struct mpi_place *place, char *root, size_t size);

/* Is a library of that name in this MPI's own directory? One of the system's packages has all that the system has. */
bool mpi_has_library(const struct mpi_place *place, const char *name);

/* Appends what any program of this MPI needs, over nigh or not, when it was not installed where it looks for itself:
 * the library is found through LD_LIBRARY_PATH, in front of what the environment has there, unless that names its
 * directory already. */
void mpi_at_home(const struct mpi_place *place, struct mpi_words *settings);

#endif
