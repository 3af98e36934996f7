/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/device.h - may a buffer be in a device's memory, which this host must not touch by itself? */
#ifndef NIGH_MPI_DEVICE_H
#define NIGH_MPI_DEVICE_H

#include <stdbool.h>

/* Does the MPI take such buffers, and has this process a device's driver (CUDA, HIP, Level Zero) by now? Where the MPI
 * does not it costs nothing; else a call of the loader, and a look at all objects when there are more than the last
 * time. Any thread. */
bool nigh_mpi_device_possible(void);

#endif
