/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/gpu/nccl/call.c - see call.h. */
#include "tests/gpu/nccl/call.h"

#include <math.h>
#include <stdint.h>

const char *call_name(enum kind kind)
{
    static const char *const names[KINDS] = {"allreduce",     "broadcast", "reduce",   "allgather",
                                             "reducescatter", "ring",      "exchange", "alltoall",
                                             "gather",        "scatter"};

    return kind < KINDS ? names[kind] : "unknown";
}

bool call_reduces(enum kind kind)
{
    return kind == ALLREDUCE || kind == REDUCE || kind == REDUCE_SCATTER;
}

bool call_has_root(enum kind kind)
{
    return kind == BROADCAST || kind == REDUCE || kind == GATHER || kind == SCATTER;
}

size_t type_bytes(enum type type)
{
    return type == UINT8 ? 1 : type == INT32 || type == FLOAT32 ? 4 : 8;
}

size_t call_sends(const struct call *call, int rank)
{
    size_t all = call->count * (size_t)call->ranks;

    switch (call->kind) {
    case REDUCE_SCATTER:
    case EXCHANGE:
    case ALLTOALL:
        return all;
    case SCATTER:
        return rank == call->root ? all : 0;
    case BROADCAST:
        return rank == call->root ? call->count : 0;
    default:
        return call->count;
    }
}

size_t call_receives(const struct call *call, int rank)
{
    size_t all = call->count * (size_t)call->ranks;

    switch (call->kind) {
    case ALLGATHER:
    case EXCHANGE:
    case ALLTOALL:
        return all;
    case GATHER:
        return rank == call->root ? all : 0;
    case REDUCE:
        return rank == call->root ? call->count : 0;
    default:
        return call->count;
    }
}

double call_input(int rank, size_t i)
{
    return (double)((i * 7 + i / 1000 + (size_t)rank * 3) % 5 + 1);
}

static double reduced(const struct call *call, size_t i)
{
    double value = call_input(0, i);

    for (int rank = 1; rank < call->ranks; rank++) {
        double more = call_input(rank, i);

        value = call->operation == PROD  ? value * more
                : call->operation == MAX ? fmax(value, more)
                : call->operation == MIN ? fmin(value, more)
                                         : value + more;
    }
    return call->operation == AVG ? value / call->ranks : value;
}

double call_expects(const struct call *call, int rank, size_t i)
{
    size_t count = call->count, mine = (size_t)rank * count;

    switch (call->kind) {
    case ALLREDUCE:
    case REDUCE:
        return reduced(call, i);
    case REDUCE_SCATTER:
        return reduced(call, mine + i);
    case BROADCAST:
        return call_input(call->root, i);
    case SCATTER:
        return call_input(call->root, mine + i);
    case RING:
        return call_input((rank + call->ranks - 1) % call->ranks, i);
    case ALLGATHER:
    case GATHER:
        return call_input((int)(i / count), i % count);
    default: /* EXCHANGE, ALLTOALL */
        return call_input((int)(i / count), mine + i % count);
    }
}

static void store(void *data, enum type type, size_t i, double value)
{
    if (type == UINT8)
        ((uint8_t *)data)[i] = (uint8_t)(uint64_t)value; /* wraps, as NCCL's products do */
    else if (type == INT32)
        ((int32_t *)data)[i] = (int32_t)value;
    else if (type == INT64)
        ((int64_t *)data)[i] = (int64_t)value;
    else if (type == FLOAT32)
        ((float *)data)[i] = (float)value;
    else
        ((double *)data)[i] = value;
}

static double load(const void *data, enum type type, size_t i)
{
    return type == UINT8     ? ((const uint8_t *)data)[i]
           : type == INT32   ? ((const int32_t *)data)[i]
           : type == INT64   ? (double)((const int64_t *)data)[i]
           : type == FLOAT32 ? ((const float *)data)[i]
                             : ((const double *)data)[i];
}

void call_fill(const struct call *call, int rank, void *data)
{
    for (size_t i = 0; i < call_sends(call, rank); i++)
        store(data, call->type, i, call_input(rank, i));
}

size_t call_wrong(const struct call *call, int rank, const void *data)
{
    size_t count = call_receives(call, rank);
    double slack = call->operation == AVG ? 1e-6 : 0; /* NCCL multiplies by a rounded 1/ranks */
    double one;

    for (size_t i = 0; i < count; i++) {
        store(&one, call->type, 0, call_expects(call, rank, i));
        one = load(&one, call->type, 0);
        if (!(fabs(load(data, call->type, i) - one) <= slack * one))
            return i;
    }
    return count;
}
