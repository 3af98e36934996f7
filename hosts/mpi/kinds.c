/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/kinds.c - see kinds.h. */
#include "hosts/mpi/kinds.h"
#include "hosts/mpi/log.h"
#include "nigh/transport.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
const struct nigh_mpi_facts nigh_mpi_facts[NIGH_MPI_KINDS] = {
    /*                                                                            rooted reduces send   keep blocks */
    [NIGH_MPI_BARRIER] = {"barrier", "MPI_Barrier", NIGH_BARRIER,                 false, false, false, false},
    [NIGH_MPI_BCAST] = {"bcast", "MPI_Bcast", NIGH_BROADCAST,                     true,  false, false, false},
    [NIGH_MPI_REDUCE] = {"reduce", "MPI_Reduce", NIGH_REDUCE,                     true,  true,  false, false},
    [NIGH_MPI_ALLREDUCE] = {"allreduce", "MPI_Allreduce", NIGH_ALLREDUCE,         false, true,  false, false},
    [NIGH_MPI_GATHER] = {"gather", "MPI_Gather", NIGH_GATHER,                     true,  false, false, true},
    [NIGH_MPI_GATHERV] = {"gatherv", "MPI_Gatherv", NIGH_GATHER,                  true,  false, false, true},
    [NIGH_MPI_SCATTER] = {"scatter", "MPI_Scatter", NIGH_SCATTER,                 true,  false, true,  false},
    [NIGH_MPI_SCATTERV] = {"scatterv", "MPI_Scatterv", NIGH_SCATTER,              true,  false, true,  false},
    [NIGH_MPI_ALLGATHER] = {"allgather", "MPI_Allgather", NIGH_ALLGATHER,         false, false, false, true},
    [NIGH_MPI_ALLGATHERV] = {"allgatherv", "MPI_Allgatherv", NIGH_ALLGATHER,      false, false, false, true},
    [NIGH_MPI_ALLTOALL] = {"alltoall", "MPI_Alltoall", NIGH_ALLTOALL,             false, false, true,  true},
    [NIGH_MPI_ALLTOALLV] = {"alltoallv", "MPI_Alltoallv", NIGH_ALLTOALL,          false, false, true,  true},
    [NIGH_MPI_REDUCE_SCATTER] = {"reduce_scatter", "MPI_Reduce_scatter", NIGH_REDUCE_SCATTER,
                                                                                  false, true,  false, false},
    [NIGH_MPI_REDUCE_SCATTER_BLOCK] = {"reduce_scatter_block", "MPI_Reduce_scatter_block", NIGH_REDUCE_SCATTER,
                                                                                  false, true,  false, false},
    [NIGH_MPI_SCAN] = {"scan", "MPI_Scan", NIGH_SCAN,                             false, true,  false, false},
    [NIGH_MPI_EXSCAN] = {"exscan", "MPI_Exscan", NIGH_EXSCAN,                     false, true,  false, false},
};
/* clang-format on */

static uint32_t left; /* a bit a kind */
_Static_assert(NIGH_MPI_KINDS <= 32, "a bit a kind");

bool nigh_mpi_leaves(enum nigh_mpi_kind kind)
{
    return left >> kind & 1;
}

static void leave(const char *name, size_t length)
{
    bool all = length == 3 && memcmp(name, "all", 3) == 0, any = all;

    for (int i = 0; i < NIGH_MPI_KINDS; i++) {
        const char *one = nigh_mpi_facts[i].name;

        if (all || (strlen(one) == length && memcmp(one, name, length) == 0)) {
            left |= 1u << i;
            any = true;
        }
    }
    if (!any)
        nigh_mpi_log("NIGH_MPI_LEAVE: %.*s is no collective: write allreduce,bcast or all", (int)length,
                     name);
}

/* Before the program has threads, and can change its environment. */
__attribute__((constructor)) static void read_names(void)
{
    const char *text = getenv("NIGH_MPI_LEAVE");

    while (text && *text) {
        size_t length = strcspn(text, ",");

        if (length)
            leave(text, length);
        text += length + (text[length] == ',');
    }
}
