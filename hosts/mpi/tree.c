/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/tree.c - see tree.h. */
#include "hosts/mpi/tree.h"

#include <stdbool.h>
#include <string.h>

static int ones(const uint8_t *mask)
{
    int count = 0;

    for (int i = 0; i < NIGH_MPI_CPUS_BYTES; i++)
        count += __builtin_popcount(mask[i]);
    return count;
}

static int lowest(const uint8_t *mask)
{
    for (int i = 0; i < NIGH_MPI_CPUS_BYTES; i++)
        if (mask[i])
            return 8 * i + __builtin_ctz(mask[i]);
    return 0;
}

/* The place of a CPU among those of all: CPUs 3 and 9 are chains 0 and 1. */
static int place(const uint8_t *all, int cpu)
{
    int before = 0;

    for (int c = 0; c < cpu; c++)
        before += all[c / 8] >> c % 8 & 1;
    return before;
}

int nigh_mpi_chains(const uint8_t *masks, int ranks, int *chain, int *cpus)
{
    uint8_t all[NIGH_MPI_CPUS_BYTES] = {0};
    bool single = true;
    int chains;

    for (int r = 0; r < ranks; r++) {
        const uint8_t *mask = masks + (size_t)r * NIGH_MPI_CPUS_BYTES;

        for (int i = 0; i < NIGH_MPI_CPUS_BYTES; i++)
            all[i] |= mask[i];
        single &= ones(mask) == 1;
    }
    *cpus = ones(all);
    chains = *cpus < 1 ? 1 : *cpus < ranks ? *cpus : ranks;
    for (int r = 0; r < ranks; r++)
        chain[r] = single ? place(all, lowest(masks + (size_t)r * NIGH_MPI_CPUS_BYTES)) : r % chains;
    return chains;
}

/* In a chain the rank nearest behind the root ends it; `from` itself is looked at last. */
static int next_in_chain(const int *chain, int ranks, int of, int from, int step)
{
    for (int i = 1; i <= ranks; i++) {
        int rank = (from + i * step + i * (step < 0 ? ranks : 0)) % ranks;

        if (chain[rank] == of)
            return rank;
    }
    return NIGH_MPI_NONE;
}

static int end_of(const int *chain, int ranks, int of, int root)
{
    return chain[root] == of ? root : next_in_chain(chain, ranks, of, root, 1);
}

void nigh_mpi_tree(const int *chain, int chains, int ranks, int root, int me, struct nigh_mpi_tree *out)
{
    int mine = chain[me], first = chain[root], end = end_of(chain, ranks, mine, root);
    int order = (mine - first + chains) % chains; /* of the ends: 0 is the root */
    int before = next_in_chain(chain, ranks, mine, me, 1);

    out->count = 0;
    if (before != end)
        out->children[out->count++] = before;
    if (me != end) {
        out->parent = next_in_chain(chain, ranks, mine, me, -1);
        return;
    }
    out->parent = order == 0 ? NIGH_MPI_NONE : end_of(chain, ranks, ((order - 1) / 2 + first) % chains, root);
    for (int child = 2 * order + 1; child <= 2 * order + 2 && child < chains; child++)
        out->children[out->count++] = end_of(chain, ranks, (child + first) % chains, root);
}
