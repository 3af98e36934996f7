/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/memory.h - memory for what is packed. */
#ifndef NIGH_MPI_MEMORY_H
#define NIGH_MPI_MEMORY_H

#include <stdint.h>

/* Until it is released. NULL: there is none, which is logged. Any thread, and no lock. */
char *nigh_mpi_memory(const char *what, uint64_t bytes);
void nigh_mpi_memory_release(char *memory);

#endif
