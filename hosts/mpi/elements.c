/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/elements.c - see elements.h. */
#include "hosts/mpi/elements.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/log.h"

#include <errno.h>
#include <stdlib.h>

/* Bytes that so many elements at a time lie in, if more than one does. */
#define ROOM  (INT64_C(64) << 10)
#define ALIGN 16

/* Of `most` elements, from the address of the first one: where their bytes begin and end. */
static void find_span(const struct nigh_mpi_elements *elements, nigh_mpi_aint true_low,
                      nigh_mpi_aint true_extent, nigh_mpi_aint *low, nigh_mpi_aint *high)
{
    nigh_mpi_aint last = (elements->most - 1) * elements->in.extent;

    *low = true_low + (last < 0 ? last : 0);
    *high = true_low + true_extent + (last > 0 ? last : 0);
}

int nigh_mpi_elements_make(struct nigh_mpi_elements *elements, nigh_mpi_type type)
{
    struct nigh_mpi_vector vector = {.type = type, .blocks = 1};
    nigh_mpi_aint true_low, true_extent, step, low, high, first, bytes;
    int rc = nigh_mpi_vector_measure(&vector);

    if (!rc)
        rc = nigh_mpi_calls()->Type_get_true_extent(type, &true_low, &true_extent);
    if (rc)
        return rc;
    elements->in = vector;
    step = vector.extent < 0 ? -vector.extent : vector.extent;
    step = step > true_extent ? step : true_extent;
    elements->most = step && step < ROOM ? ROOM / step : 1;
    find_span(elements, true_low, true_extent, &low, &high);
    /* The first element is aligned, wherever its bytes begin. */
    first = -low + (ALIGN - -low % ALIGN) % ALIGN;
    bytes = (first + high + ALIGN - 1) / ALIGN * ALIGN;
    elements->memory = calloc(2, (size_t)bytes + ALIGN);
    if (!elements->memory) {
        nigh_mpi_log("no memory for elements of %lld bytes to reduce", (long long)true_extent);
        return -ENOMEM;
    }
    elements->inout = vector;
    elements->in.buffer = (void *)((intptr_t)elements->memory + first);
    elements->inout.buffer = (void *)((intptr_t)elements->in.buffer + bytes);
    return 0;
}

void nigh_mpi_elements_free(struct nigh_mpi_elements *elements)
{
    free(elements->memory);
    elements->memory = NULL;
}

int nigh_mpi_elements_reduce(struct nigh_mpi_elements *elements, nigh_mpi_op op, const char *in, char *inout,
                             uint64_t count)
{
    struct nigh_mpi_vector *a = &elements->in, *b = &elements->inout;
    int rc = 0;

    while (count && !rc) {
        int64_t some = count < (uint64_t)elements->most ? (int64_t)count : elements->most;
        uint64_t bytes = (uint64_t)some * a->size;

        a->count = b->count = some;
        rc = nigh_mpi_vector_unpack(a, in, -1, NIGH_MPI_COMM_SELF);
        if (!rc)
            rc = nigh_mpi_vector_unpack(b, inout, -1, NIGH_MPI_COMM_SELF);
        if (!rc)
            rc = nigh_mpi_calls()->Reduce_local(a->buffer, (void *)(intptr_t)b->buffer, (int)some, a->type,
                                                op);
        if (!rc)
            rc = nigh_mpi_vector_pack(b, inout, NIGH_MPI_COMM_SELF);
        in += bytes;
        inout += bytes;
        count -= (uint64_t)some;
    }
    return rc;
}
