/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/vector.h - a buffer as MPI's calls describe it: how many bytes it sends, and whether they lie as they are
 * sent. Where they do not, or may be a device's, MPI packs and unpacks them. */
#ifndef NIGH_MPI_VECTOR_H
#define NIGH_MPI_VECTOR_H

#include "hosts/mpi/abi.h"

#include <limits.h>
#include <stdbool.h>

#define NIGH_MPI_VECTOR_MAX ((uint64_t)INT_MAX) /* MPI_Pack() takes no more */

struct nigh_mpi_vector {
    uint64_t count;
    uint64_t bytes; /* 1 to NIGH_MPI_VECTOR_MAX */
    uint64_t width; /* of an element */
    bool dense;     /* they lie as they are sent */
};

/* All but `dense`, which becomes false. For the types used most MPI is not asked, as that takes as long as a short
 * call. False: too long, nothing, or no type that MPI knows. */
bool nigh_mpi_vector_measure(struct nigh_mpi_vector *vector, int64_t count, nigh_mpi_type type);

/* Elements lie close, without gaps between them and in them. */
bool nigh_mpi_vector_is_close(const struct nigh_mpi_vector *vector, nigh_mpi_type type);

/* And is it `dense`, from `buffer` on, which is one? That may take MPI some calls. */
void nigh_mpi_vector_look(struct nigh_mpi_vector *vector, const void *buffer, nigh_mpi_type type,
                          nigh_mpi_comm comm);

/* Is it not, or may it be a device's? With the session's lock. */
bool nigh_mpi_vector_needs_packing(const struct nigh_mpi_vector *vector);

/* 0, or -EIO: MPI does not, or has another length in mind. */
int nigh_mpi_vector_pack(const struct nigh_mpi_vector *vector, const void *from, nigh_mpi_type type, void *to,
                         nigh_mpi_comm comm);
int nigh_mpi_vector_unpack(const struct nigh_mpi_vector *vector, const void *packed, void *to,
                           nigh_mpi_type type, nigh_mpi_comm comm);

/* Where the vector of a rank lies behind `first`, that of rank 0. 0, or -EIO: MPI does not say. */
int nigh_mpi_vector_place(const struct nigh_mpi_vector *vector, const void *first, nigh_mpi_type type,
                          int rank, void **place);

/* All ranks' vectors, from or to what MPI's calls have, where they lie packed one behind the other; of rank `except`
 * nothing is unpacked. Errors as above. */
int nigh_mpi_vector_pack_each(const struct nigh_mpi_vector *vector, const void *from, nigh_mpi_type type,
                              char *to, int ranks, nigh_mpi_comm comm);
int nigh_mpi_vector_unpack_each(const struct nigh_mpi_vector *vector, const char *packed, void *to,
                                nigh_mpi_type type, int ranks, int except, nigh_mpi_comm comm);

#endif
