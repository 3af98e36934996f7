/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives of libnigh, for the tests that compare them with the table's. */
#include "tools/perf/group.h"

#include "nigh/nigh.h"

static void must(const struct perf_group *g, int rc)
{
    if (rc != 0)
        perf_fail(g->me, "libnigh: %s", nigh_error_text());
}

/* Blocks, or with `request` begins. */
static int called(const struct perf_group *g, enum perf_operation_kind kind, const void *send, void *recv,
                  nigh_request *request)
{
    struct nigh_comm *world = nigh_world();
    uint64_t n = g->bytes / sizeof(float);

#define EITHER(name, ...) return request ? nigh_i##name(__VA_ARGS__, request) : nigh_##name(__VA_ARGS__)
    switch (kind) {
    case PERF_OP_BARRIER:
        EITHER(barrier, world);
    case PERF_OP_BROADCAST:
        EITHER(bcast, g->me->rank == 0 ? (void *)(uintptr_t)send : recv, n, NIGH_F32, 0, world);
    case PERF_OP_REDUCE:
        EITHER(reduce, send, recv, n, NIGH_F32, NIGH_SUM, 0, world);
    case PERF_OP_ALLREDUCE:
        EITHER(allreduce, send, recv, n, NIGH_F32, NIGH_SUM, world);
    case PERF_OP_GATHER:
        EITHER(gather, send, recv, n, NIGH_F32, 0, world);
    case PERF_OP_SCATTER:
        EITHER(scatter, send, recv, n, NIGH_F32, 0, world);
    case PERF_OP_ALLGATHER:
        EITHER(allgather, send, recv, n, NIGH_F32, world);
    case PERF_OP_ALLTOALL:
        EITHER(alltoall, send, recv, n, NIGH_F32, world);
    case PERF_OP_REDUCE_SCATTER:
        EITHER(reduce_scatter, send, recv, n, NIGH_F32, NIGH_SUM, world);
    case PERF_OP_SCAN:
        EITHER(scan, send, recv, n, NIGH_F32, NIGH_SUM, world);
    case PERF_OP_EXSCAN:
        EITHER(exscan, send, recv, n, NIGH_F32, NIGH_SUM, world);
    case PERF_OPERATIONS:
        break;
    }
#undef EITHER
    perf_fail(g->me, "operation %d is none", (int)kind);
}

static void lib_call(struct perf_group *g, const struct perf_operation *op, const void *send, void *recv)
{
    must(g, called(g, op->kind, send, recv, NULL));
}

static nigh_request under_way;

static void lib_begin(struct perf_group *g, const struct perf_operation *op, const void *send, void *recv)
{
    must(g, called(g, op->kind, send, recv, &under_way));
}

static void lib_finish(struct perf_group *g)
{
    must(g, nigh_wait(&under_way, NIGH_STATUS_IGNORE));
}

const struct perf_group_layer perf_group_lib = {lib_call, lib_begin, lib_finish};
