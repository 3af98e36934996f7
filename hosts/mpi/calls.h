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
#define NIGH_MPI_SLOTS(name, lower, kind, takes) \
    NIGH_MPI_BLOCKING(NIGH_MPI_SLOT, name, takes) NIGH_MPI_STARTING(NIGH_MPI_SLOT, lower, takes)
#define NIGH_MPI_LARGE_SLOTS(name, lower, kind, takes) NIGH_MPI_LARGE(NIGH_MPI_SLOT, name, lower, takes)
    NIGH_MPI_COLLECTIVES(NIGH_MPI_SLOTS)
    NIGH_MPI_COUNTED(NIGH_MPI_LARGE_SLOTS) /* NULL in an MPI before 4 */
    NIGH_MPI_CALLS(NIGH_MPI_SLOT)
#undef NIGH_MPI_LARGE_SLOTS
#undef NIGH_MPI_SLOTS
#undef NIGH_MPI_SLOT
#ifdef NIGH_MPI_OPENMPI
#define NIGH_MPI_SLOT(name)                   void *name;
#define NIGH_MPI_TYPE_SLOT(name, symbol, ...) void *ompi_mpi_##symbol;
#define NIGH_MPI_OP_SLOT(name, symbol, ...)   void *ompi_mpi_op_##symbol;
    NIGH_MPI_HANDLES(NIGH_MPI_SLOT)
    NIGH_MPI_TYPES(NIGH_MPI_TYPE_SLOT)
    NIGH_MPI_OPS(NIGH_MPI_OP_SLOT)
#undef NIGH_MPI_OP_SLOT
#undef NIGH_MPI_TYPE_SLOT
#undef NIGH_MPI_SLOT
#endif
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

/* Another function of the MPI's, or of its libraries; NULL: it has none. */
void *nigh_mpi_find(const char *name);

#endif
