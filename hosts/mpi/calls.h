/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/calls.h - the MPI under this host, by its profiling interface. It is looked up when first needed, so that
 * launchers and shells, which are given this object, too, need none. */
#ifndef NIGH_MPI_CALLS_H
#define NIGH_MPI_CALLS_H

#include "hosts/mpi/abi.h"

#include <stdbool.h>
#include <stddef.h>

struct nigh_mpi_calls {
    bool foreign; /* of the ABI that is the standard's: nothing of it can be answered here */
#define NIGH_MPI_SLOT(name, arguments) int(*name) arguments;
    NIGH_MPI_CALLS(NIGH_MPI_SLOT)
    NIGH_MPI_LARGE_CALLS(NIGH_MPI_SLOT) /* NULL in an MPI before 4 */
#undef NIGH_MPI_SLOT
#define NIGH_MPI_SLOT(name) void *name;
    NIGH_MPI_HANDLES(NIGH_MPI_SLOT)
#undef NIGH_MPI_SLOT
};

/* NULL if the MPI was not there when this object was loaded, as in Python, which loads it later. */
extern const struct nigh_mpi_calls *nigh_mpi_calls_early;
const struct nigh_mpi_calls *nigh_mpi_calls_late(void);

/* Never NULL: without an MPI, or with one that lacks a call, it says so and ends the process, as the program's own call
 * cannot be served. Any thread. */
static inline const struct nigh_mpi_calls *nigh_mpi_calls(void)
{
    return nigh_mpi_calls_early ? nigh_mpi_calls_early : nigh_mpi_calls_late();
}

#endif
