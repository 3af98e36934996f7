/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/gpu/nccl/check.c - the calls, what comes out of them, and how long they take. */
#include "tests/gpu/nccl/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CANARY_BYTE = 0xe7, BENCH_ROUNDS = 9, BENCH_CALLS = 5 };

bool rank_has(const struct rank *rank, enum kind kind)
{
    return kind == ALLTOALL  ? rank->nccl.alltoall != NULL
           : kind == GATHER  ? rank->nccl.gather != NULL
           : kind == SCATTER ? rank->nccl.scatter != NULL
                             : true;
}

/* Sends and receives of one group: of the ring, or from each to each. */
static int grouped(struct rank *rank, const struct call *call)
{
    int ranks = call->ranks, result = rank->nccl.group_start();
    size_t step = call->kind == RING ? 0 : call->count * type_bytes(call->type);

    for (int i = call->kind == RING ? 1 : 0; !result && i < (call->kind == RING ? 2 : ranks); i++) {
        int to = (rank->number + i) % ranks, from = (rank->number + ranks - i) % ranks;
        const char *in = (const char *)(uintptr_t)rank->in + step * (size_t)to;
        char *out = (char *)(uintptr_t)rank->out + step * (size_t)from;

        result = rank->nccl.send(in, call->count, call->type, to, rank->comm, rank->stream);
        if (!result)
            result = rank->nccl.recv(out, call->count, call->type, from, rank->comm, rank->stream);
    }
    return result ? result : rank->nccl.group_end();
}

static int started(struct rank *rank, const struct call *call)
{
    const struct nccl *nccl = &rank->nccl;
    void *in = (void *)(uintptr_t)rank->in, *out = (void *)(uintptr_t)rank->out;
    void *comm = rank->comm, *stream = rank->stream;
    size_t count = call->count;
    int type = call->type, op = call->operation, root = call->root;

    switch (call->kind) {
    case ALLREDUCE:
        return nccl->allreduce(in, out, count, type, op, comm, stream);
    case BROADCAST:
        return nccl->broadcast(in, out, count, type, root, comm, stream);
    case REDUCE:
        return nccl->reduce(in, out, count, type, op, root, comm, stream);
    case ALLGATHER:
        return nccl->allgather(in, out, count, type, comm, stream);
    case REDUCE_SCATTER:
        return nccl->reduce_scatter(in, out, count, type, op, comm, stream);
    case ALLTOALL:
        return nccl->alltoall(in, out, count, type, comm, stream);
    case GATHER:
        return nccl->gather(in, out, count, type, root, comm, stream);
    case SCATTER:
        return nccl->scatter(in, out, count, type, root, comm, stream);
    default:
        return grouped(rank, call);
    }
}

void rank_call(struct rank *rank, const struct call *call)
{
    rank_nccl(rank, started(rank, call), call_name(call->kind));
}

static void look(struct rank *rank, const struct call *call)
{
    size_t width = type_bytes(call->type), count = call_receives(call, rank->number), wrong;

    rank_cuda(rank, rank->cuda.to_host(rank->host, rank->out, count * width + CANARY), "cuMemcpyDtoH");
    wrong = call_wrong(call, rank->number, rank->host);
    if (wrong < count)
        rank_fail(
            rank,
            "%s of %zu elements of type %d, operation %d, root %d: element %zu is wrong: %g is expected",
            call_name(call->kind), call->count, (int)call->type, (int)call->operation, call->root, wrong,
            call_expects(call, rank->number, wrong));
    for (size_t i = 0; i < CANARY; i++)
        if (rank->host[count * width + i] != CANARY_BYTE)
            rank_fail(rank, "%s of %zu elements writes byte %zu behind its output", call_name(call->kind),
                      call->count, i);
}

static void check_one(struct rank *rank, const struct call *call)
{
    size_t width = type_bytes(call->type), sends = call_sends(call, rank->number) * width;

    call_fill(call, rank->number, rank->host);
    rank_cuda(rank, rank->cuda.to_device(rank->in, rank->host, sends ? sends : 1), "cuMemcpyHtoD");
    rank_cuda(rank,
              rank->cuda.set(rank->out, CANARY_BYTE, call_receives(call, rank->number) * width + CANARY),
              "cuMemsetD8");
    rank_cuda(rank, rank->cuda.wait(NULL), "cuStreamSynchronize"); /* our stream does not wait for that one */
    rank_call(rank, call);
    rank_cuda(rank, rank->cuda.wait(rank->stream), "cuStreamSynchronize");
    look(rank, call);
}

static unsigned check_count(struct rank *rank, enum kind kind, enum type type, size_t count)
{
    unsigned calls = 0;
    int operations = !call_reduces(kind) ? 1 : type == FLOAT32 || type == FLOAT64 ? 5 : 4;

    for (int operation = 0; operation < operations; operation++) {
        struct call call = {.kind = kind,
                            .type = type,
                            .operation = (enum operation)operation,
                            .ranks = rank->settings->ranks,
                            .root = call_has_root(kind) ? (int)(count % (size_t)rank->settings->ranks) : 0,
                            .count = count};

        check_one(rank, &call);
        calls++;
    }
    return calls;
}

unsigned rank_check(struct rank *rank)
{
    static const enum type types[] = {UINT8, INT32, INT64, FLOAT32, FLOAT64};
    static const size_t counts[] = {1, 2, 7, 1000, 65536, 1 << 20};
    unsigned calls = 0;

    for (int kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; rank_has(rank, (enum kind)kind) && i < sizeof(types) / sizeof(types[0]); i++)
            for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
                if (counts[k] <= rank->settings->most && (counts[k] <= 65536 || types[i] == FLOAT32))
                    calls += check_count(rank, (enum kind)kind, types[i], counts[k]);
    return calls;
}

/* ---- times -------------------------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

/* Microseconds a call: the median of rounds, behind one that is not counted. */
static double timed(struct rank *rank, const struct call *call)
{
    double rounds[BENCH_ROUNDS];

    for (int round = -1; round < BENCH_ROUNDS; round++) {
        double since;

        rank_meet(rank);
        since = now();
        for (int i = 0; i < BENCH_CALLS; i++)
            rank_call(rank, call);
        rank_cuda(rank, rank->cuda.wait(rank->stream), "cuStreamSynchronize");
        if (round >= 0)
            rounds[round] = (now() - since) * 1e6 / BENCH_CALLS;
    }
    qsort(rounds, BENCH_ROUNDS, sizeof(*rounds), ascending);
    return rounds[BENCH_ROUNDS / 2];
}

void rank_bench(struct rank *rank)
{
    static const enum kind kinds[] = {RING, ALLREDUCE};
    static const size_t sizes[] = {8, 64 << 10, 1 << 20, 16 << 20, 64 << 20};

    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct call call = {
                .kind = kinds[kind], .type = FLOAT32, .ranks = rank->settings->ranks, .count = sizes[i] / 4};
            double us;

            if (sizes[i] > rank->settings->largest)
                continue;
            us = timed(rank, &call);
            if (rank->number == 0)
                printf("row %s %zu %.2f us %.3f GB/s\n", call_name(call.kind), sizes[i], us,
                       (double)sizes[i] / us * 1e-3);
            fflush(stdout);
        }
}
