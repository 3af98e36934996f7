/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/kinds.h - the collectives that this host answers: what each of them takes and gives. */
#ifndef NIGH_MPI_KINDS_H
#define NIGH_MPI_KINDS_H

#include "hosts/mpi/abi.h"

#include <stdbool.h>

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

/* A call's arguments: those that it has. */
struct nigh_mpi_arguments {
    const void *send;
    void *recv;
    int64_t sends, recvs;
    nigh_mpi_type send_type, recv_type;
    const int *send_counts, *send_offsets, *recv_counts, *recv_offsets;
    nigh_mpi_op op;
    int root;
    nigh_mpi_comm comm;
};

#endif
