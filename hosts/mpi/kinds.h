/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/kinds.h - the collectives that this host answers: what each of them takes and gives. */
#ifndef NIGH_MPI_KINDS_H
#define NIGH_MPI_KINDS_H

#include "hosts/mpi/abi.h"

#include <stdbool.h>
#include <string.h>

#define NIGH_MPI_KIND(name, lower, kind, takes) NIGH_MPI_##kind,
enum nigh_mpi_kind { NIGH_MPI_COLLECTIVES(NIGH_MPI_KIND) NIGH_MPI_KINDS };
#undef NIGH_MPI_KIND

struct nigh_mpi_facts {
    const char *name; /* as NIGH_MPI_LEAVE and the account have it */
    const char *call;
    int op; /* enum nigh_collective_op */
    bool rooted, reduces;
    bool sends_blocks, keeps_blocks; /* one a rank */
};

extern const struct nigh_mpi_facts nigh_mpi_facts[NIGH_MPI_KINDS];

/* Is it left to the MPI (NIGH_MPI_LEAVE)? The same in all ranks. */
bool nigh_mpi_leaves(enum nigh_mpi_kind kind);

/* Counts or offsets, one a rank: an int, or of a call with large counts as long as MPI_Count. */
struct nigh_mpi_array {
    const void *at; /* NULL: the call has none */
    bool large;
};

static inline int64_t nigh_mpi_nth(struct nigh_mpi_array array, int rank)
{
    int64_t wide;
    int narrow;

    if (array.large) {
        memcpy(&wide, (const char *)array.at + (size_t)rank * sizeof(wide), sizeof(wide));
        return wide;
    }
    memcpy(&narrow, (const char *)array.at + (size_t)rank * sizeof(narrow), sizeof(narrow));
    return narrow;
}

/* A call's arguments: those that it has. */
struct nigh_mpi_arguments {
    const void *send;
    void *recv;
    int64_t sends, recvs;
    nigh_mpi_type send_type, recv_type;
    struct nigh_mpi_array send_counts, send_offsets, recv_counts, recv_offsets;
    nigh_mpi_op op;
    int root;
    nigh_mpi_comm comm;
};

#endif
