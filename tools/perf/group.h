/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's part in the tests of collectives: its buffers, the calls of either layer, and the three ways to time them
 * (enum perf_how). The programs of the peers time theirs in the same way, in peer_collectives.h. */
#ifndef NIGH_PERF_GROUP_H
#define NIGH_PERF_GROUP_H

#include "tools/perf/node.h"
#include "tools/perf/operations.h"
#include "tools/perf/rounds.h"

#include <stdbool.h>

struct perf_group;

/* Calls of one layer. A call that fails ends the rank. */
struct perf_group_layer {
    /* Blocking, or as far as it goes without waiting; one is under way at a time. */
    void (*call)(struct perf_group *group, const struct perf_operation *op, const void *send, void *recv);
    void (*begin)(struct perf_group *group, const struct perf_operation *op, const void *send, void *recv);
    void (*finish)(struct perf_group *group);
};

extern const struct perf_group_layer perf_group_table; /* post_collective */
extern const struct perf_group_layer perf_group_lib;   /* libnigh, where perf_lib_open() was called */

struct perf_group {
    struct perf_rank *me;
    struct perf_node node;
    struct nigh_group *group;
    const struct perf_operation *op;
    size_t bytes, stride; /* of a block; from one buffer of the window to the next */
    uint32_t window;      /* buffers of each kind, and calls in a row */
    bool stale;
    uint8_t *send, *recv;
    uint64_t seq;   /* of the last call whose data was written */
    double *spent;  /* shared: PERF_GROUP_SAMPLES times of each rank */
    uint64_t *work; /* shared: steps of computing that rank 0 has found */
};

/* What a piece of the rounds points to. */
struct perf_group_way {
    struct perf_group *group;
    const struct perf_group_layer *layer;
};

#define PERF_GROUP_SAMPLES 256u

/* Bytes of the job's scratch memory for so many ranks. */
static inline size_t perf_group_scratch(uint32_t ranks)
{
    return 4096 + (size_t)ranks * PERF_GROUP_SAMPLES * sizeof(double);
}

/* Calls in a row: as many as stay within half a MiB of data, 2 to 32. */
uint32_t perf_group_window(const struct perf_operation *op, size_t bytes, uint32_t ranks, enum perf_how how);

/* Opens the context, connects to all and makes the group. `op`, `bytes`, `window` and `stale` stand in *group, the rest is
 * zero; `scratch` is perf_group_scratch() bytes of the job's shared memory. */
void perf_group_open(struct perf_group *group, struct perf_rank *me, const struct nigh_ops *ops,
                     const char *path, uint8_t *scratch);
void perf_group_close(struct perf_group *group);

/* Pieces; the argument is a struct perf_group_way. ns of one call, those of a window in a row (one call: behind a barrier), as
 * the rank counts them that returns last; percent. */
double perf_group_calls(struct perf_rank *me, void *way, uint32_t count);
double perf_group_overlap(struct perf_rank *me, void *way, uint32_t count);

#endif
