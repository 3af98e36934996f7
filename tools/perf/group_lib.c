/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives of libnigh, for the tests that compare them with the table's. */
#include "tools/perf/group.h"

#include "nigh/nigh.h"

static void must(const struct perf_group *g, int rc)
{
    if (rc != 0)
        perf_fail(g->me, "libnigh: %s", nigh_error_text());
}

static int called(const struct perf_group *g, enum perf_operation_kind kind, const void *send, void *recv)
{
    struct nigh_comm *world = nigh_world();
    uint64_t n = g->bytes / sizeof(float);

    switch (kind) {
    case PERF_OP_BARRIER:
        return nigh_barrier(world);
    case PERF_OP_BROADCAST:
        return nigh_bcast(g->me->rank == 0 ? (void *)(uintptr_t)send : recv, n, NIGH_F32, 0, world);
    case PERF_OP_REDUCE:
        return nigh_reduce(send, recv, n, NIGH_F32, NIGH_SUM, 0, world);
    case PERF_OP_ALLREDUCE:
        return nigh_allreduce(send, recv, n, NIGH_F32, NIGH_SUM, world);
    case PERF_OP_GATHER:
        return nigh_gather(send, recv, n, NIGH_F32, 0, world);
    case PERF_OP_SCATTER:
        return nigh_scatter(send, recv, n, NIGH_F32, 0, world);
    case PERF_OP_ALLGATHER:
        return nigh_allgather(send, recv, n, NIGH_F32, world);
    case PERF_OP_ALLTOALL:
        return nigh_alltoall(send, recv, n, NIGH_F32, world);
    case PERF_OP_REDUCE_SCATTER:
        return nigh_reduce_scatter(send, recv, n, NIGH_F32, NIGH_SUM, world);
    case PERF_OP_SCAN:
        return nigh_scan(send, recv, n, NIGH_F32, NIGH_SUM, world);
    case PERF_OP_EXSCAN:
        return nigh_exscan(send, recv, n, NIGH_F32, NIGH_SUM, world);
    case PERF_OPERATIONS:
        break;
    }
    perf_fail(g->me, "operation %d is none", (int)kind);
}

static void lib_call(struct perf_group *g, const struct perf_operation *op, const void *send, void *recv)
{
    must(g, called(g, op->kind, send, recv));
}

const struct perf_group_layer perf_group_lib = {lib_call, NULL, NULL};
