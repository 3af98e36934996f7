/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/vector.h - a buffer as MPI's calls describe it: blocks of elements, and whether these lie as they are sent. Where they
 * do not, or may be a device's, MPI packs and unpacks them. */
#ifndef NIGH_MPI_VECTOR_H
#define NIGH_MPI_VECTOR_H

#include "hosts/mpi/kinds.h"

#include <stdbool.h>

struct nigh_mpi_vector {
    const void *buffer;
    nigh_mpi_type type;
    int blocks;
    int64_t count; /* elements of a block */
    struct nigh_mpi_array counts,
        offsets;          /* none: blocks are alike, and lie behind each other; offsets in elements */
    uint64_t size;        /* bytes that are sent of an element */
    nigh_mpi_aint extent; /* bytes from one to the next */
    bool close;           /* elements have no gaps in them and between them */
    bool dense;           /* and are sent in the order in which they lie */
};

/* What a vector's bytes, and the range that it lies in, may be at most. */
#define NIGH_MPI_BYTES_MAX (INT64_C(1) << 55)

/* Fills in size, extent, close. For MPI's own types MPI is not asked, as that takes as long as a short call. 0, or MPI's error,
 * which it has reported. */
int nigh_mpi_vector_measure(struct nigh_mpi_vector *vector);

/* Of one that is measured: are all sums and products of its counts, offsets and size in range? What follows takes that for granted. */
bool nigh_mpi_vector_fits(const struct nigh_mpi_vector *vector);

/* And dense, with what the buffer is: that may take MPI some calls. */
void nigh_mpi_vector_look(struct nigh_mpi_vector *vector, nigh_mpi_comm comm);

/* Elements of a block; bytes that are sent of it, and of all. */
static inline uint64_t nigh_mpi_vector_count(const struct nigh_mpi_vector *vector, int block)
{
    return (uint64_t)(vector->counts.at ? nigh_mpi_nth(vector->counts, block) : vector->count);
}
static inline uint64_t nigh_mpi_vector_bytes(const struct nigh_mpi_vector *vector, int block)
{
    return nigh_mpi_vector_count(vector, block) * vector->size;
}
uint64_t nigh_mpi_vector_all_bytes(const struct nigh_mpi_vector *vector);

/* Where a block begins, in bytes behind the buffer. */
static inline nigh_mpi_aint nigh_mpi_vector_offset(const struct nigh_mpi_vector *vector, int block)
{
    return (vector->counts.at ? nigh_mpi_nth(vector->offsets, block) : block * vector->count) *
           vector->extent;
}

/* From the first byte of a dense one to behind its last, behind the buffer. False: it has none. */
bool nigh_mpi_vector_span(const struct nigh_mpi_vector *vector, nigh_mpi_aint *first, nigh_mpi_aint *end);

/* Packs one block, or all of them behind each other; unpacks all but block `except` (-1: all). 0, or MPI's error, which it has
 * reported. */
int nigh_mpi_vector_pack_block(const struct nigh_mpi_vector *vector, int block, char *to, nigh_mpi_comm comm);
int nigh_mpi_vector_pack(const struct nigh_mpi_vector *vector, char *to, nigh_mpi_comm comm);
int nigh_mpi_vector_unpack(const struct nigh_mpi_vector *vector, const char *from, int except,
                           nigh_mpi_comm comm);

#endif
