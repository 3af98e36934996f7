/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/gpu/nccl/call.h - the calls of NCCL that are tried, and what each rank is to find afterwards. Pure: no GPU is needed. */
#ifndef NIGH_TESTS_NCCL_CALL_H
#define NIGH_TESTS_NCCL_CALL_H

#include <stdbool.h>
#include <stddef.h>

enum kind {
    ALLREDUCE,
    BROADCAST,
    REDUCE,
    ALLGATHER,
    REDUCE_SCATTER,
    RING,     /* ncclSend() to the next rank, ncclRecv() from the one before */
    EXCHANGE, /* the same from each to each */
    ALLTOALL, /* these three since NCCL 2.28 */
    GATHER,
    SCATTER,
    KINDS,
};

/* Numbers of NCCL's. */
enum type { UINT8 = 1, INT32 = 2, INT64 = 4, FLOAT32 = 7, FLOAT64 = 8 };
enum operation { SUM = 0, PROD = 1, MAX = 2, MIN = 3, AVG = 4 };

struct call {
    enum kind kind;
    enum type type;
    enum operation operation; /* of reductions */
    int ranks, root;          /* root: where there is one */
    size_t count;             /* as NCCL counts it */
};

const char *call_name(enum kind kind);
bool call_reduces(enum kind kind);
bool call_has_root(enum kind kind);
size_t type_bytes(enum type type);

/* Elements that a rank passes and gets. */
size_t call_sends(const struct call *call, int rank);
size_t call_receives(const struct call *call, int rank);

/* What rank has in element i of its input: whole numbers of 1 to 5. */
double call_input(int rank, size_t i);
/* What it is to have in element i of its output. */
double call_expects(const struct call *call, int rank, size_t i);

void call_fill(const struct call *call, int rank, void *data);
/* The first element that is wrong, or call_receives(). */
size_t call_wrong(const struct call *call, int rank, const void *data);

#endif
