/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/tree.h - who adds whose part to its own.
 *
 * Ranks that share a CPU run one behind the other, so they stand in a chain: each reads what the one before has just
 * left in that CPU's cache, and adds its own. The chains' ends, on different CPUs, form a binary tree:
 *
 *     CPU 0:  6 -> 4 -> 2 -> 0 (root)
 *     CPU 1:  7 -> 5 -> 3 -> 1 --^
 *
 * Alike in all ranks of a call; different roots give different orders of addition.
 */
#ifndef NIGH_MPI_TREE_H
#define NIGH_MPI_TREE_H

#include <stdint.h>

#define NIGH_MPI_NONE       (-1)
#define NIGH_MPI_CHILDREN   3 /* the one before in the chain, and two ends */
#define NIGH_MPI_CPUS_BYTES 128

struct nigh_mpi_tree {
    int parent; /* NIGH_MPI_NONE of the root */
    int children[NIGH_MPI_CHILDREN];
    int count;
};

/*
 * Which chain each of `ranks` is in, 0 .. the result - 1. masks: NIGH_MPI_CPUS_BYTES a rank, bit c of a mask: the rank
 * may use CPU c. By their CPU where each has one alone; else in turn, a chain for each CPU of all. Returns the number
 * of chains, at least 1; *cpus becomes how many CPUs they all have together.
 */
int nigh_mpi_chains(const uint8_t *masks, int ranks, int *chain, int *cpus);

/* Of rank `me`, for `root`; `chain` as above. Takes time in proportion to `ranks`. */
void nigh_mpi_tree(const int *chain, int chains, int ranks, int root, int me, struct nigh_mpi_tree *out);

#endif
