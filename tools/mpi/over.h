/* SPDX-License-Identifier: BSD-3-Clause */
/* What has to be said to an MPI so that it sends its messages over nigh. hosts/libfabric/README.md says the same to
 * people. */
#ifndef NIGH_TOOLS_MPI_OVER_H
#define NIGH_TOOLS_MPI_OVER_H

#include "tools/mpi/find.h"
#include "tools/mpi/words.h"

#include <stdint.h>

/* The directory of libnigh-fi.so: $NIGH_PROVIDERS, else where it was installed. 0; -ENOENT there is none, `why` says
 * where it was looked for. */
int mpi_providers(char *path, size_t size, char *why, size_t room);

/* Appends "NAME=VALUE" of every variable that this MPI needs, and of those that make it faster where its ranks are more
 * than CPUs: `crowd` of them, else 0, of so many `programs`. What the environment has in FI_PROVIDER_PATH stays behind
 * ours; collectives and tunables of glibc that it chooses stay its own. */
void mpi_over_nigh(const struct mpi_place *place, const char *providers, uint32_t crowd, uint32_t programs,
                   struct mpi_words *settings);

#endif
