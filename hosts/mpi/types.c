/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/types.c - see types.h. */
#include "hosts/mpi/types.h"
#include "hosts/mpi/calls.h"
#include "nigh/transport.h"

static uint16_t integer(size_t bytes, uint16_t narrow, uint16_t wide)
{
    return bytes == 4 ? narrow : wide;
}

uint16_t nigh_mpi_type_of(nigh_mpi_type type)
{
    if (type == NIGH_MPI_DOUBLE)
        return NIGH_F64;
    if (type == NIGH_MPI_FLOAT)
        return NIGH_F32;
    if (type == NIGH_MPI_INT || type == NIGH_MPI_INT32_T)
        return NIGH_I32;
    if (type == NIGH_MPI_LONG)
        return integer(sizeof(long), NIGH_I32, NIGH_I64);
    if (type == NIGH_MPI_LONG_LONG || type == NIGH_MPI_INT64_T)
        return NIGH_I64;
    if (type == NIGH_MPI_UNSIGNED || type == NIGH_MPI_UINT32_T)
        return NIGH_U32;
    if (type == NIGH_MPI_UNSIGNED_LONG)
        return integer(sizeof(long), NIGH_U32, NIGH_U64);
    if (type == NIGH_MPI_UNSIGNED_LONG_LONG || type == NIGH_MPI_UINT64_T)
        return NIGH_U64;
#ifndef NIGH_MPI_OPENMPI /* whose Fortran programs do not come by here */
    if (type == NIGH_MPI_DOUBLE_PRECISION)
        return NIGH_F64;
    if (type == NIGH_MPI_REAL)
        return NIGH_F32;
    if (type == NIGH_MPI_INTEGER)
        return NIGH_I32;
#endif
    return 0;
}

size_t nigh_mpi_type_width(nigh_mpi_type type)
{
    uint16_t of = nigh_mpi_type_of(type);

    if (!of)
        return 0;
    return of == NIGH_F32 || of == NIGH_I32 || of == NIGH_U32 ? 4 : 8;
}

uint16_t nigh_mpi_reduction_of(nigh_mpi_op op)
{
    if (op == NIGH_MPI_SUM)
        return NIGH_SUM;
    if (op == NIGH_MPI_PROD)
        return NIGH_PROD;
    if (op == NIGH_MPI_MIN)
        return NIGH_MIN;
    return op == NIGH_MPI_MAX ? NIGH_MAX : 0;
}

bool nigh_mpi_is_own_op(nigh_mpi_op op)
{
#ifdef NIGH_MPI_OPENMPI
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();

#define NIGH_MPI_IS(name) (void *)op == mpi->name ||
    return NIGH_MPI_OWN_OPS(NIGH_MPI_IS) op == NIGH_MPI_OP_NULL;
#else
    return (op & ~0xff) == (NIGH_MPI_SUM & ~0xff) || op == NIGH_MPI_OP_NULL;
#endif
}
