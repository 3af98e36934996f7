/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives that are measured: what each rank gives to a call, and what it must hold afterwards. nigh's own tests
 * and the programs of the peers share this file, so both rewrite and check the same data. Root is rank 0. */
#ifndef NIGH_PERF_OPERATIONS_H
#define NIGH_PERF_OPERATIONS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How calls are timed. Both sides of a comparison do the same. */
enum perf_how {
    PERF_HOW_USUAL,   /* the peer program's choice by size: tools/perf/peers.h */
    PERF_HOW_ROW,     /* a window of calls on buffers of their own behind one barrier */
    PERF_HOW_BARRIER, /* each call behind a barrier */
    PERF_HOW_OVERLAP, /* begun, a computation as long as the call, waited for: percent that was hidden */
};

enum perf_operation_kind {
    PERF_OP_BARRIER,
    PERF_OP_BROADCAST,
    PERF_OP_REDUCE,
    PERF_OP_ALLREDUCE,
    PERF_OP_GATHER,
    PERF_OP_SCATTER,
    PERF_OP_ALLGATHER,
    PERF_OP_ALLTOALL,
    PERF_OP_REDUCE_SCATTER,
    PERF_OP_SCAN,
    PERF_OP_EXSCAN,
    PERF_OPERATIONS,
};

struct perf_operation {
    const char *name;
    enum perf_operation_kind kind;
    uint8_t sends_blocks, receives_blocks; /* a block for, or of, each rank; else one */
    uint8_t root_sends, root_receives;     /* the root alone */
    uint8_t sums;                          /* of f32; else bytes move */
    uint8_t one_way;                       /* between two ranks data goes in one direction */
};

static inline const struct perf_operation *perf_operation(enum perf_operation_kind kind)
{
    static const struct perf_operation all[PERF_OPERATIONS] = {
        {"barrier", PERF_OP_BARRIER, 0, 0, 0, 0, 0, 0},
        {"broadcast", PERF_OP_BROADCAST, 0, 0, 1, 0, 0, 1},
        {"reduce", PERF_OP_REDUCE, 0, 0, 0, 1, 1, 1},
        {"allreduce", PERF_OP_ALLREDUCE, 0, 0, 0, 0, 1, 0},
        {"gather", PERF_OP_GATHER, 0, 1, 0, 1, 0, 1},
        {"scatter", PERF_OP_SCATTER, 1, 0, 1, 0, 0, 1},
        {"allgather", PERF_OP_ALLGATHER, 0, 1, 0, 0, 0, 0},
        {"alltoall", PERF_OP_ALLTOALL, 1, 1, 0, 0, 0, 0},
        {"reduce_scatter", PERF_OP_REDUCE_SCATTER, 1, 0, 0, 0, 1, 0},
        {"scan", PERF_OP_SCAN, 0, 0, 0, 0, 1, 1},
        {"exscan", PERF_OP_EXSCAN, 0, 0, 0, 0, 1, 1},
    };

    return &all[kind];
}

/* The operation of this name; NULL: there is none. */
static inline const struct perf_operation *perf_operation_named(const char *name)
{
    for (int kind = 0; kind < PERF_OPERATIONS; kind++)
        if (strcmp(perf_operation((enum perf_operation_kind)kind)->name, name) == 0)
            return perf_operation((enum perf_operation_kind)kind);
    return NULL;
}

/* Blocks that a buffer must have room for, of sending and of receiving. */
static inline size_t perf_operation_blocks(const struct perf_operation *op, int ranks)
{
    return op->sends_blocks || op->receives_blocks ? (size_t)ranks : 1;
}

/* ---- data: no two calls, blocks or neighbours hold the same ---- */

enum { PERF_OPERATION_TURN = 997, PERF_OPERATION_RUN = 64 };

/* Small integers, so that a sum is exact in any order. */
static inline void perf_floats_write(void *buffer, size_t bytes, int base)
{
    float *f = (float *)buffer;

    for (size_t i = 0; i < bytes / sizeof(*f); i++)
        f[i] = (float)(base + (int)(i % PERF_OPERATION_RUN));
}

/* 0 when element i is base + times * (i, in runs), counted from element `first` of the vector. */
static inline uint64_t perf_floats_check(const void *buffer, size_t bytes, size_t first, int base, int times)
{
    const float *f = (const float *)buffer;
    uint64_t wrong = 0;

    for (size_t i = 0; i < bytes / sizeof(*f); i++)
        wrong |= f[i] != (float)(base + times * (int)((first + i) % PERF_OPERATION_RUN));
    return wrong;
}

static inline void perf_words_write(void *buffer, size_t bytes, uint64_t first)
{
    uint64_t *word = (uint64_t *)buffer;

    for (size_t i = 0; i < bytes / sizeof(*word); i++)
        word[i] = first + i;
}

static inline uint64_t perf_words_check(const void *buffer, size_t bytes, uint64_t first)
{
    const uint64_t *word = (const uint64_t *)buffer;
    uint64_t wrong = 0;

    for (size_t i = 0; i < bytes / sizeof(*word); i++)
        wrong |= word[i] ^ (first + i);
    return wrong;
}

/* The first word of the block from one rank to another. An odd multiplier keeps running words of two blocks apart. */
static inline uint64_t perf_block_word(uint64_t seq, int from, int to)
{
    return ((seq * 1024 + (uint64_t)from) * 1024 + (uint64_t)to) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Writes what this rank gives to call `seq`; `bytes` of one block, a multiple of 8. */
static inline void perf_operation_write(const struct perf_operation *op, int rank, int ranks, uint64_t seq,
                                        void *send, size_t bytes)
{
    size_t blocks = op->sends_blocks ? (size_t)ranks : 1;

    if (op->kind == PERF_OP_BARRIER || (op->root_sends && rank != 0))
        return;
    if (op->sums)
        perf_floats_write(send, bytes * blocks, rank + (int)(seq % PERF_OPERATION_TURN));
    for (size_t to = 0; !op->sums && to < blocks; to++)
        perf_words_write((char *)send + to * bytes, bytes, perf_block_word(seq, rank, (int)to));
}

static inline uint64_t perf_sum_check(const struct perf_operation *op, int rank, int ranks, uint64_t seq,
                                      const void *recv, size_t bytes)
{
    int terms = op->kind == PERF_OP_SCAN ? rank + 1 : op->kind == PERF_OP_EXSCAN ? rank : ranks;
    size_t first = op->kind == PERF_OP_REDUCE_SCATTER ? (size_t)rank * (bytes / sizeof(float)) : 0;

    if (terms == 0)
        return 0; /* the first rank's result of an exscan is not defined */
    return perf_floats_check(recv, bytes, first,
                             terms * (int)(seq % PERF_OPERATION_TURN) + terms * (terms - 1) / 2, terms);
}

/* 0 when this rank has got what call `seq` must have left in `recv`. */
static inline uint64_t perf_operation_check(const struct perf_operation *op, int rank, int ranks,
                                            uint64_t seq, const void *recv, size_t bytes)
{
    size_t blocks = op->receives_blocks ? (size_t)ranks : 1;
    uint64_t wrong = 0;

    if (op->kind == PERF_OP_BARRIER || (op->root_receives && rank != 0) ||
        (op->kind == PERF_OP_BROADCAST && rank == 0))
        return 0;
    if (op->sums)
        return perf_sum_check(op, rank, ranks, seq, recv, bytes);
    for (size_t from = 0; from < blocks; from++)
        wrong |= perf_words_check((const char *)recv + from * bytes, bytes,
                                  perf_block_word(seq, (int)from, op->sends_blocks ? rank : 0));
    return wrong;
}

#endif
