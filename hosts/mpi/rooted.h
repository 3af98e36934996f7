/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/rooted.h - a call in which each rank of a group gives a vector to one of them, which adds or keeps them. */
#ifndef NIGH_MPI_ROOTED_H
#define NIGH_MPI_ROOTED_H

#include "hosts/mpi/add.h"
#include "hosts/mpi/group.h"

struct nigh_mpi_rooted {
    struct nigh_mpi_group *group;
    const char *what; /* for people: the call's name */
    const char *send; /* this rank's vector */
    char *
        recv; /* the root's: the sum, which may be `send`; or all vectors, where `send` may lie in its place */
    uint32_t bytes;      /* of one vector */
    uint32_t count;      /* of its elements, which are added */
    nigh_mpi_add_fn add; /* NULL: none are */
    int root;
};

/* Where the root keeps the vector of a rank. */
static inline char *nigh_mpi_rooted_place(const struct nigh_mpi_rooted *call, int rank)
{
    return call->recv + (uint64_t)rank * call->bytes;
}

#endif
