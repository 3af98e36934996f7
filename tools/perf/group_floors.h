/* SPDX-License-Identifier: BSD-3-Clause */
/* The floors of collectives: what the same data needs between ranks 0 and 1 with no protocol. More ranks than two cannot do
 * it faster. None where ranks share CPUs, whose floors have to spin. */
#ifndef NIGH_PERF_GROUP_FLOORS_H
#define NIGH_PERF_GROUP_FLOORS_H

#include "tools/perf/floors.h"
#include "tools/perf/operations.h"
#include "tools/perf/pipe.h"

#define PERF_GROUP_FLOORS (PERF_PIPE_BEST + PERF_RING_KINDS + 1)

struct perf_group_floors {
    struct perf_pipe_load load;
    struct perf_pipe pipe[PERF_PIPE_BEST];
    struct perf_halves halves;
    struct perf_rate_kind rate[2];
    struct perf_ring_kind ring[PERF_RING_KINDS];
    struct perf_exchange exchange[PERF_EXCHANGE_KINDS];
    struct perf_piece piece[PERF_GROUP_FLOORS];
    uint32_t count;
};

/* Bytes of scratch memory that they need. */
size_t perf_group_floors_scratch(size_t bytes, uint32_t window);

/* In all ranks: chooses the floors of `op` with blocks of `bytes`, in about `seconds`. */
void perf_group_floors_open(struct perf_group_floors *floors, struct perf_rank *me,
                            const struct perf_operation *op, size_t bytes, uint32_t window, enum perf_how how,
                            double seconds);
void perf_group_floors_close(struct perf_group_floors *floors);

#endif
