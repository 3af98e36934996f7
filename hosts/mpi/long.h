/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/long.h - elements that are longer than MPI_Pack() takes: the MPI packs and unpacks them in a message to this process. */
#ifndef NIGH_MPI_LONG_H
#define NIGH_MPI_LONG_H

#include "hosts/mpi/abi.h"

#include <stdbool.h>

/* Packs one element of `type`, of `bytes`, at `element` to `packed`; or unpacks it. 0; or -EIO, logged. Any thread, and no lock: MPI
 * may call it, with its own. */
int nigh_mpi_long_move(void *element, nigh_mpi_type type, void *packed, uint64_t bytes, bool packs);

#endif
