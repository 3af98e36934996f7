/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a program was linked with the MPI that is to start it. With another one each of its ranks believes that it is
 * alone, or its messages take no notice of nigh. */
#ifndef NIGH_TOOLS_MPI_LINKED_H
#define NIGH_TOOLS_MPI_LINKED_H

#include "tools/mpi/find.h"

/* Reads which libraries the file names itself; those that it opens later, or a script's interpreter does, are not
 * looked at. False: one of them belongs to another MPI; `why` says which, and how to compile the program. */
bool mpi_linked(const struct mpi_place *place, const char *file, char *why, size_t room);

#endif
