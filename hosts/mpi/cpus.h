/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/cpus.h - how many CPUs the ranks of a communicator may use together. */
#ifndef NIGH_MPI_CPUS_H
#define NIGH_MPI_CPUS_H

#include <stdint.h>

#define NIGH_MPI_NONE       (-1)
#define NIGH_MPI_CPUS_BYTES 128

/* masks: NIGH_MPI_CPUS_BYTES a rank, bit c of a mask: the rank may use CPU c. */
int nigh_mpi_cpus(const uint8_t *masks, int ranks);

#endif
