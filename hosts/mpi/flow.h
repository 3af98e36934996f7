/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/flow.h - a vector goes through a group in parts: up the tree, where each rank adds its own to what its
 * children lend it, and down, where the root lends what it has to all others.
 *
 *     reduce: up      broadcast: down      allreduce: both, the first parts come down while later ones go up
 *
 * Parts are read where they lie; only the first of a chain copies its own, and each receiver what it keeps.
 */
#ifndef NIGH_MPI_FLOW_H
#define NIGH_MPI_FLOW_H

#include "hosts/mpi/add.h"
#include "hosts/mpi/group.h"

/* Bytes of a part of what is added: 8 ranks on 2 CPUs of an Emerald Rapids reduce 1 MiB by parts of 16, 32, 64, 128,
 * 256 and 512 KiB in 348, 329, 341, 362, 430 and 531 us, if parts lie in memory that all write. */
#define NIGH_MPI_PART_BYTES 65536u

struct nigh_mpi_flow {
    struct nigh_mpi_group *group;
    const char *what; /* for people: the call's name */
    const char *in;   /* this rank's vector, `bytes` of it; up, and the root's down */
    char *out;        /* where the result goes, also `in` itself; the root's up, all others' down */
    uint64_t bytes;
    uint64_t extent; /* of an element, at most NIGH_MPI_PART_BYTES */
    nigh_mpi_type type;
    nigh_mpi_op op;
    nigh_mpi_add_fn add; /* NULL: MPI_Reduce_local() */
    int root;
    bool up, down;
    /* Filled in by the run: */
    struct nigh_mpi_tree tree;
    uint64_t part, parts; /* bytes of all parts but the last, and how many */
    uint64_t sent, came;  /* parts that this rank is through with, up (or lent by the root), and down */
};

/* Does this rank give something, and does it get something? */
bool nigh_mpi_flow_reads(const struct nigh_mpi_flow *flow);
bool nigh_mpi_flow_writes(const struct nigh_mpi_flow *flow);

/*
 * Runs one to its end; waits for the other ranks of the group, which all call it with the same but for `in` and `out`.
 * 0; or a negative errno, logged: -ECONNRESET, -EPROTO a peer has ended or is broken, -EMSGSIZE one has another length,
 * -EIO MPI cannot add. The group is broken then.
 */
int nigh_mpi_flow_run(struct nigh_mpi_flow *flow);

#endif
