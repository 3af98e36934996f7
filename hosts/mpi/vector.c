/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/vector.c - see vector.h. */
#include "hosts/mpi/vector.h"
#include "hosts/mpi/add.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/device.h"

#include <errno.h>

bool nigh_mpi_vector_measure(struct nigh_mpi_vector *vector, int64_t count, nigh_mpi_type type)
{
    int size;

    if (count <= 0 || (uint64_t)count > NIGH_MPI_VECTOR_MAX || type == NIGH_MPI_DATATYPE_NULL ||
        nigh_mpi_calls()->Type_size(type, &size) || size <= 0)
        return false;
    vector->count = (uint64_t)count;
    vector->width = (unsigned)size;
    vector->bytes = vector->count * vector->width;
    vector->dense = false;
    return vector->bytes <= NIGH_MPI_VECTOR_MAX;
}

bool nigh_mpi_vector_is_close(const struct nigh_mpi_vector *vector, nigh_mpi_type type)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    nigh_mpi_aint low, extent, true_low, true_extent;

    return !mpi->Type_get_extent(type, &low, &extent) &&
           !mpi->Type_get_true_extent(type, &true_low, &true_extent) && low == 0 && true_low == 0 &&
           extent == true_extent && extent == (nigh_mpi_aint)vector->width;
}

/* A type of MPI's own: of others the bytes may lie close, but in another order than that in which they are sent. */
static bool is_named(nigh_mpi_type type)
{
    int integers, addresses, types, combiner;

    return !nigh_mpi_calls()->Type_get_envelope(type, &integers, &addresses, &types, &combiner) &&
           combiner == NIGH_MPI_COMBINER_NAMED;
}

bool nigh_mpi_vector_is_dense(const struct nigh_mpi_vector *vector, const void *buffer, nigh_mpi_type type)
{
    return buffer && is_named(type) && nigh_mpi_vector_is_close(vector, type);
}

static size_t known_width(nigh_mpi_type type)
{
    return type == NIGH_MPI_BYTE || type == NIGH_MPI_CHAR ? 1 : nigh_mpi_add_width(type);
}

bool nigh_mpi_vector_describe(struct nigh_mpi_vector *vector, const void *buffer, int64_t count,
                              nigh_mpi_type type)
{
    size_t width = known_width(type);

    if (!width) {
        if (!nigh_mpi_vector_measure(vector, count, type))
            return false;
        vector->dense = nigh_mpi_vector_is_dense(vector, buffer, type);
        return true;
    }
    vector->count = (uint64_t)count;
    vector->width = width;
    vector->bytes = vector->count * width;
    vector->dense = buffer != NULL;
    return count > 0 && vector->count <= NIGH_MPI_VECTOR_MAX && vector->bytes <= NIGH_MPI_VECTOR_MAX;
}

bool nigh_mpi_vector_needs_packing(const struct nigh_mpi_vector *vector)
{
    return !vector->dense || nigh_mpi_device_possible();
}

int nigh_mpi_vector_pack(const struct nigh_mpi_vector *vector, const void *from, nigh_mpi_type type, void *to,
                         nigh_mpi_comm comm)
{
    int at = 0;

    if (nigh_mpi_calls()->Pack(from, (int)vector->count, type, to, (int)vector->bytes, &at, comm))
        return -EIO;
    return (uint64_t)at == vector->bytes ? 0 : -EIO;
}

int nigh_mpi_vector_unpack(const struct nigh_mpi_vector *vector, const void *packed, void *to,
                           nigh_mpi_type type, nigh_mpi_comm comm)
{
    int at = 0;

    return nigh_mpi_calls()->Unpack(packed, (int)vector->bytes, &at, to, (int)vector->count, type, comm)
               ? -EIO
               : 0;
}
