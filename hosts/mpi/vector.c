/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/vector.c - see vector.h. */
#include "hosts/mpi/vector.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/long.h"
#include "hosts/mpi/types.h"

#include <limits.h>
#include <string.h>

/* Types with longer elements are packed: two bytes say where a byte lies, and the stack has them twice. */
#define ELEMENT_MAX 4096u
/* MPI_Pack() takes and makes no more than an int says. */
#define PIECE (UINT64_C(1) << 30)

int nigh_mpi_vector_measure(struct nigh_mpi_vector *vector)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    const struct nigh_mpi_known *known = nigh_mpi_known_type(vector->type);
    nigh_mpi_aint low, extent, true_low, true_extent;
    nigh_mpi_count size;
    int rc;

    if (known && known->width == known->size) {
        vector->size = known->size;
        vector->extent = known->width;
        vector->close = true;
        return 0;
    }
    rc = mpi->Type_size_x(vector->type, &size);
    if (!rc)
        rc = mpi->Type_get_extent(vector->type, &low, &extent);
    if (!rc)
        rc = mpi->Type_get_true_extent(vector->type, &true_low, &true_extent);
    if (rc)
        return rc;
    vector->size = size < 0 ? UINT64_MAX : (uint64_t)size;
    vector->extent = extent;
    vector->close = low == 0 && true_low == 0 && extent == true_extent && extent == size;
    return 0;
}

/* Elements from `at` on lie and are sent in ranges that are short enough, so that they can be added and taken off each other. */
static bool is_short_enough(const struct nigh_mpi_vector *vector, int64_t at, int64_t count, uint64_t *sum)
{
    int64_t extent = vector->extent, bytes, begin, length;

    if (__builtin_mul_overflow(count, vector->size, &bytes) || bytes > NIGH_MPI_BYTES_MAX ||
        __builtin_mul_overflow(at, extent, &begin) || __builtin_mul_overflow(count, extent, &length))
        return false;
    *sum += (uint64_t)bytes;
    return *sum <= NIGH_MPI_BYTES_MAX && begin <= NIGH_MPI_BYTES_MAX && begin >= -NIGH_MPI_BYTES_MAX &&
           length <= NIGH_MPI_BYTES_MAX && length >= -NIGH_MPI_BYTES_MAX;
}

bool nigh_mpi_vector_fits(const struct nigh_mpi_vector *vector)
{
    uint64_t sum = 0;
    int64_t all;

    if (!vector->counts.at)
        return !__builtin_mul_overflow(vector->count, vector->blocks, &all) &&
               is_short_enough(vector, 0, all, &sum);
    for (int i = 0; i < vector->blocks; i++) {
        int64_t count = nigh_mpi_nth(vector->counts, i);

        if (count && !is_short_enough(vector, nigh_mpi_nth(vector->offsets, i), count, &sum))
            return false;
    }
    return true;
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
static bool is_in_order(const struct nigh_mpi_vector *vector, nigh_mpi_comm comm)
{
    unsigned char from[ELEMENT_MAX], to[ELEMENT_MAX];

    if (vector->size > ELEMENT_MAX)
        return false;
    for (unsigned shift = 0; shift <= 8; shift += 8) {
        int at = 0;

        for (unsigned i = 0; i < vector->size; i++)
            from[i] = (unsigned char)(i >> shift);
        if (nigh_mpi_calls()->Pack(from, 1, vector->type, to, (int)vector->size, &at, comm) ||
            (uint64_t)at != vector->size || memcmp(from, to, vector->size) != 0)
            return false;
    }
    return true;
}

void nigh_mpi_vector_look(struct nigh_mpi_vector *vector, nigh_mpi_comm comm)
{
    vector->dense =
        vector->close && vector->buffer &&
        (nigh_mpi_known_type(vector->type) || is_named(vector->type) || is_in_order(vector, comm));
}

uint64_t nigh_mpi_vector_all_bytes(const struct nigh_mpi_vector *vector)
{
    uint64_t bytes = 0;

    if (!vector->counts.at)
        return nigh_mpi_vector_bytes(vector, 0) * (unsigned)vector->blocks;
    for (int i = 0; i < vector->blocks; i++)
        bytes += nigh_mpi_vector_bytes(vector, i);
    return bytes;
}

bool nigh_mpi_vector_span(const struct nigh_mpi_vector *vector, nigh_mpi_aint *first, nigh_mpi_aint *end)
{
    bool any = false;

    *first = *end = 0;
    for (int i = 0; i < vector->blocks; i++) {
        nigh_mpi_aint bytes = (nigh_mpi_aint)nigh_mpi_vector_bytes(vector, i), at, behind;

        if (!bytes)
            continue;
        at = nigh_mpi_vector_offset(vector, i);
        behind = at + bytes;
        *first = any && *first < at ? *first : at;
        *end = any && *end > behind ? *end : behind;
        any = true;
    }
    return any;
}

/* ---- packing ------------------------------------------------------------------------------------------- */

/* One by one, as one of them is longer than MPI_Pack() takes. */
static int walk_long(const struct nigh_mpi_vector *vector, intptr_t at, uint64_t count, intptr_t packed,
                     bool packs)
{
    int rc = 0;

    for (; count && !rc; count--) {
        rc = nigh_mpi_long_move((void *)at, vector->type, (void *)packed, vector->size, packs);
        at += vector->extent;
        packed += (intptr_t)vector->size;
    }
    return rc;
}

/* Walks over `count` elements from `at` on, in pieces that MPI takes. */
static int walk(const struct nigh_mpi_vector *vector, intptr_t at, uint64_t count, intptr_t packed,
                bool packs, nigh_mpi_comm comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    uint64_t most = vector->size && vector->size < PIECE ? PIECE / vector->size : 1;
    int rc = 0;

    while (count && vector->size && !rc) {
        uint64_t some = count < most ? count : most;
        int bytes = (int)(some * vector->size), position = 0;

        rc = packs ? mpi->Pack((void *)at, (int)some, vector->type, (void *)packed, bytes, &position, comm)
                   : mpi->Unpack((void *)packed, bytes, &position, (void *)at, (int)some, vector->type, comm);
        if (!rc && position != bytes)
            rc = NIGH_MPI_ERR_INTERN;
        at += (intptr_t)some * vector->extent;
        packed += bytes;
        count -= some;
    }
    return rc;
}

static int walk_block(const struct nigh_mpi_vector *vector, int block, intptr_t packed, bool packs,
                      nigh_mpi_comm comm)
{
    uint64_t count = nigh_mpi_vector_count(vector, block);
    intptr_t at;

    if (!count) /* then its offset may be any */
        return 0;
    at = (intptr_t)vector->buffer + nigh_mpi_vector_offset(vector, block);
    return vector->size > INT_MAX ? walk_long(vector, at, count, packed, packs)
                                  : walk(vector, at, count, packed, packs, comm);
}

static int walk_all(const struct nigh_mpi_vector *vector, intptr_t packed, bool packs, int except,
                    nigh_mpi_comm comm)
{
    int rc = 0;

    for (int i = 0; i < vector->blocks && !rc; i++) {
        if (i != except)
            rc = walk_block(vector, i, packed, packs, comm);
        packed += (intptr_t)nigh_mpi_vector_bytes(vector, i);
    }
    return rc;
}

int nigh_mpi_vector_pack_block(const struct nigh_mpi_vector *vector, int block, char *to, nigh_mpi_comm comm)
{
    return walk_block(vector, block, (intptr_t)to, true, comm);
}

int nigh_mpi_vector_pack(const struct nigh_mpi_vector *vector, char *to, nigh_mpi_comm comm)
{
    return walk_all(vector, (intptr_t)to, true, -1, comm);
}

int nigh_mpi_vector_unpack(const struct nigh_mpi_vector *vector, const char *from, int except,
                           nigh_mpi_comm comm)
{
    return walk_all(vector, (intptr_t)from, false, except, comm);
}
