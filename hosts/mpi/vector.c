/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/vector.c - see vector.h. */
#include "hosts/mpi/vector.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/device.h"
#include "hosts/mpi/types.h"

#include <errno.h>
#include <string.h>

/* Types with longer elements are packed: two bytes say where a byte lies, and the stack has them twice. */
#define ELEMENT_MAX 4096u

static size_t known_width(nigh_mpi_type type)
{
    return type == NIGH_MPI_BYTE || type == NIGH_MPI_CHAR ? 1 : nigh_mpi_type_width(type);
}

static size_t width_of(nigh_mpi_type type)
{
    size_t width = known_width(type);
    int size;

    if (width || type == NIGH_MPI_DATATYPE_NULL)
        return width;
    return nigh_mpi_calls()->Type_size(type, &size) || size <= 0 ? 0 : (size_t)size;
}

bool nigh_mpi_vector_measure(struct nigh_mpi_vector *vector, int64_t count, nigh_mpi_type type)
{
    if (count <= 0 || (uint64_t)count > NIGH_MPI_VECTOR_MAX)
        return false;
    vector->count = (uint64_t)count;
    vector->width = width_of(type);
    vector->bytes = vector->count * vector->width;
    vector->dense = false;
    return vector->width && vector->bytes <= NIGH_MPI_VECTOR_MAX;
}

bool nigh_mpi_vector_is_close(const struct nigh_mpi_vector *vector, nigh_mpi_type type)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    nigh_mpi_aint low, extent, true_low, true_extent;

    return !mpi->Type_get_extent(type, &low, &extent) &&
           !mpi->Type_get_true_extent(type, &true_low, &true_extent) && low == 0 && true_low == 0 &&
           extent == true_extent && extent == (nigh_mpi_aint)vector->width;
}

static bool is_named(nigh_mpi_type type)
{
    int integers, addresses, types, combiner;

    return !nigh_mpi_calls()->Type_get_envelope(type, &integers, &addresses, &types, &combiner) &&
           combiner == NIGH_MPI_COMBINER_NAMED;
}

/*
 * Of other types that are close the bytes may be sent in another order than that in which they lie. MPI packs one
 * element whose bytes say where they lie, and then one in which they say the rest of it: they come out as they went in,
 * or are in another order. What the CPU need not pack it reads and writes once less.
 */
static bool is_in_order(const struct nigh_mpi_vector *vector, nigh_mpi_type type, nigh_mpi_comm comm)
{
    unsigned char from[ELEMENT_MAX], to[ELEMENT_MAX];

    if (vector->width > ELEMENT_MAX)
        return false;
    for (unsigned shift = 0; shift <= 8; shift += 8) {
        int at = 0;

        for (unsigned i = 0; i < vector->width; i++)
            from[i] = (unsigned char)(i >> shift);
        if (nigh_mpi_calls()->Pack(from, 1, type, to, (int)vector->width, &at, comm) ||
            (uint64_t)at != vector->width || memcmp(from, to, vector->width) != 0)
            return false;
    }
    return true;
}

void nigh_mpi_vector_look(struct nigh_mpi_vector *vector, const void *buffer, nigh_mpi_type type,
                          nigh_mpi_comm comm)
{
    vector->dense = buffer && (known_width(type) || (nigh_mpi_vector_is_close(vector, type) &&
                                                     (is_named(type) || is_in_order(vector, type, comm))));
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

int nigh_mpi_vector_place(const struct nigh_mpi_vector *vector, const void *first, nigh_mpi_type type,
                          int rank, void **place)
{
    nigh_mpi_aint low, extent;

    if (nigh_mpi_calls()->Type_get_extent(type, &low, &extent))
        return -EIO;
    *place = (void *)((intptr_t)first + rank * (intptr_t)vector->count * extent);
    return 0;
}

int nigh_mpi_vector_pack_each(const struct nigh_mpi_vector *vector, const void *from, nigh_mpi_type type,
                              char *to, int ranks, nigh_mpi_comm comm)
{
    int rc = 0;

    for (int r = 0; r < ranks && !rc; r++) {
        void *place;

        rc = nigh_mpi_vector_place(vector, from, type, r, &place);
        if (!rc)
            rc = nigh_mpi_vector_pack(vector, place, type, to + (unsigned)r * vector->bytes, comm);
    }
    return rc;
}

int nigh_mpi_vector_unpack_each(const struct nigh_mpi_vector *vector, const char *packed, void *to,
                                nigh_mpi_type type, int ranks, int except, nigh_mpi_comm comm)
{
    int rc = 0;

    for (int r = 0; r < ranks && !rc; r++) {
        void *place;

        if (r == except)
            continue;
        rc = nigh_mpi_vector_place(vector, to, type, r, &place);
        if (!rc)
            rc = nigh_mpi_vector_unpack(vector, packed + (unsigned)r * vector->bytes, place, type, comm);
    }
    return rc;
}
