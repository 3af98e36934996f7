/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/cpus.c - see cpus.h. */
#include "hosts/mpi/cpus.h"

int nigh_mpi_cpus(const uint8_t *masks, int ranks)
{
    int cpus = 0;

    for (int byte = 0; byte < NIGH_MPI_CPUS_BYTES; byte++) {
        unsigned any = 0;

        for (int r = 0; r < ranks; r++)
            any |= masks[r * NIGH_MPI_CPUS_BYTES + byte];
        cpus += __builtin_popcount(any);
    }
    return cpus;
}
