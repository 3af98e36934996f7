/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/group.h - what this host knows of a communicator: its peers and its group in nigh.
 * It comes with the communicator's first call that may be answered, is kept as an attribute, and forms when there
 * have been enough of them.
 */
#ifndef NIGH_MPI_GROUP_H
#define NIGH_MPI_GROUP_H

#include "hosts/mpi/cpus.h"
#include "hosts/mpi/session.h"

/* Counted apart. */
#define NIGH_MPI_SHORT_BYTES 256u

static inline bool nigh_mpi_is_short(uint64_t bytes)
{
    return bytes <= NIGH_MPI_SHORT_BYTES;
}

struct nigh_mpi_group {
    uint64_t weight; /* of the calls before it formed */
    bool formed;
    bool active; /* else MPI's own do: a CPU for each rank, several machines, no nigh */
    bool broken; /* a call failed: so do all later ones */
    int me;      /* NIGH_MPI_NONE in an intercommunicator */
    int ranks;
    struct nigh_mpi_peer **peers; /* a rank */
    struct nigh_group *nigh;
};

/* This rank's number in a communicator; NIGH_MPI_NONE: in none, or in one between two groups. */
int nigh_mpi_group_rank(nigh_mpi_comm comm);

/* The active group of a communicator, or NULL: this call, of so many bytes, is the MPI's. When enough bytes have come
 * by it is collective over the communicator, and so is called by all ranks or by none. */
struct nigh_mpi_group *nigh_mpi_group_of(nigh_mpi_comm comm, uint64_t bytes);

/* This rank gives up: the others, who may wait for it, are told. With the session's lock. */
void nigh_mpi_group_give_up(struct nigh_mpi_group *group);

#endif
