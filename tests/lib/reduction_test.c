/* SPDX-License-Identifier: BSD-3-Clause */
/* Every reduction of every type on every number of ranks, short and long, in place and not, against a fold from rank 0
 * on that one process makes by itself: to the last bit, also of floats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int group_sizes[] = {1, 2, 3, 4, 5, 8};

static void run_all(ranks_body *body)
{
    for (size_t i = 0; i < sizeof(group_sizes) / sizeof(*group_sizes); i++)
        ranks_run(group_sizes[i], body, NULL);
}

/* ---- a value of every type, and what an operation makes of two of them ---- */

union value {
    int8_t i8;
    uint8_t u8;
    int16_t i16;
    uint16_t u16;
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
    float f32;
    double f64;
};

static unsigned width_of(int type)
{
    static const unsigned width[] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8};

    return width[type];
}

static bool defined(int op, int type)
{
    return type < NIGH_F32 || op <= NIGH_MAX;
}

#define WHOLE(member, unsigned_type)                                                                      \
    return op == NIGH_SUM                                                                                 \
               ? (union value){.member =                                                                  \
                                   (typeof(a.member))((unsigned_type)a.member + (unsigned_type)b.member)} \
           : op == NIGH_PROD                                                                              \
               ? (union value){.member = (typeof(a.member))((uint64_t)a.member * (uint64_t)b.member)}     \
           : op == NIGH_MIN  ? (b.member < a.member ? b : a)                                              \
           : op == NIGH_MAX  ? (b.member > a.member ? b : a)                                              \
           : op == NIGH_LAND ? (union value){.member = a.member && b.member}                              \
           : op == NIGH_LOR  ? (union value){.member = a.member || b.member}                              \
           : op == NIGH_LXOR ? (union value){.member = !a.member != !b.member}                            \
           : op == NIGH_BAND ? (union value){.member = (typeof(a.member))(a.member & b.member)}           \
           : op == NIGH_BOR  ? (union value){.member = (typeof(a.member))(a.member | b.member)}           \
                             : (union value){.member = (typeof(a.member))(a.member ^ b.member)};

#define REAL(member)                                                        \
    return op == NIGH_SUM    ? (union value){.member = a.member + b.member} \
           : op == NIGH_PROD ? (union value){.member = a.member * b.member} \
           : op == NIGH_MIN  ? (b.member < a.member ? b : a)                \
                             : (b.member > a.member ? b : a);

static union value combine(int op, int type, union value a, union value b)
{
    switch (type) {
    case NIGH_I8:
        WHOLE(i8, uint8_t)
    case NIGH_U8:
        WHOLE(u8, uint8_t)
    case NIGH_I16:
        WHOLE(i16, uint16_t)
    case NIGH_U16:
        WHOLE(u16, uint16_t)
    case NIGH_I32:
        WHOLE(i32, uint32_t)
    case NIGH_U32:
        WHOLE(u32, uint32_t)
    case NIGH_I64:
        WHOLE(i64, uint64_t)
    case NIGH_U64:
        WHOLE(u64, uint64_t)
    case NIGH_F32:
        REAL(f32)
    default:
        REAL(f64)
    }
}

/* Element i of a rank. Floats are such that another order gives another sum. */
static union value value_of(int type, int rank, uint64_t i)
{
    uint64_t bits = (i * 2654435761u + (uint64_t)rank * 40503u) * UINT64_C(0x9e3779b97f4a7c15);
    double real = (double)(int64_t)bits / 3e15 * (rank % 3 ? 1.0 : 1e-4);
    union value value = {.u64 = bits};

    if (bits >> 60 == 3 && type < NIGH_F32)
        value.u64 = 0;
    if (type == NIGH_F32)
        value.f32 = (float)real;
    else if (type == NIGH_F64)
        value.f64 = real;
    return value;
}

static void fill(uint8_t *at, int type, int rank, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        union value value = value_of(type, rank, first + i);

        memcpy(at + i * width_of(type), &value, width_of(type));
    }
}

/* The elements `first` .. of ranks 0 .. end-1. */
static bool is_fold(const uint8_t *at, int op, int type, int end, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        union value expected = value_of(type, 0, first + i);

        for (int rank = 1; rank < end; rank++)
            expected = combine(op, type, expected, value_of(type, rank, first + i));
        if (memcmp(at + i * width_of(type), &expected, width_of(type)) != 0) {
            fprintf(stderr, "type %d, operation %d: element %llu of %llu differs\n", type, op,
                    (unsigned long long)i, (unsigned long long)count);
            return false;
        }
    }
    return true;
}

/* ---- one call, in place or not, on vectors with a guard behind them ---- */

enum { GUARD = 0x3c };

struct vectors {
    int type, op;
    uint64_t count;
    bool in_place;
    uint8_t *send, *recv;
    uint64_t send_bytes, recv_bytes;
};

static void make(struct vectors *v, uint64_t send_count, uint64_t recv_count, int rank)
{
    v->send_bytes = send_count * width_of(v->type);
    v->recv_bytes = (v->in_place && send_count > recv_count ? send_count : recv_count) * width_of(v->type);
    v->send = malloc(v->send_bytes + 1);
    v->recv = malloc(v->recv_bytes + 1);
    CHECK(v->send && v->recv);
    memset(v->recv, GUARD, v->recv_bytes + 1);
    v->send[v->send_bytes] = GUARD;
    fill(v->in_place ? v->recv : v->send, v->type, rank, 0, send_count);
}

static const void *send_of(const struct vectors *v)
{
    return v->in_place ? NULL : v->send;
}

static void drop(struct vectors *v)
{
    CHECK_INT(v->send[v->send_bytes], GUARD);
    CHECK_INT(v->recv[v->recv_bytes], GUARD);
    free(v->send);
    free(v->recv);
}

static void one_allreduce(struct vectors v, int rank, int size)
{
    make(&v, v.count, v.count, rank);
    OK(nigh_allreduce(send_of(&v), v.recv, v.count, v.type, v.op, nigh_world()));
    CHECK(is_fold(v.recv, v.op, v.type, size, 0, v.count));
    drop(&v);
}

static void one_reduce(struct vectors v, int rank, int size)
{
    int root = (int)((v.count + (unsigned)v.op) % (unsigned)size);

    make(&v, v.count, v.count, rank);
    OK(nigh_reduce(send_of(&v), v.recv, v.count, v.type, v.op, root, nigh_world()));
    if (rank == root)
        CHECK(is_fold(v.recv, v.op, v.type, size, 0, v.count));
    for (uint64_t i = 0; rank != root && !v.in_place && i < v.recv_bytes; i++)
        CHECK_INT(v.recv[i], GUARD);
    drop(&v);
}

static void one_reduce_scatter(struct vectors v, int rank, int size)
{
    make(&v, v.count * (unsigned)size, v.count, rank);
    OK(nigh_reduce_scatter(send_of(&v), v.recv, v.count, v.type, v.op, nigh_world()));
    CHECK(is_fold(v.recv, v.op, v.type, size, v.count * (unsigned)rank, v.count));
    drop(&v);
}

static void one_scan(struct vectors v, int rank, int size)
{
    (void)size;
    make(&v, v.count, v.count, rank);
    OK(nigh_scan(send_of(&v), v.recv, v.count, v.type, v.op, nigh_world()));
    CHECK(is_fold(v.recv, v.op, v.type, rank + 1, 0, v.count));
    drop(&v);
}

static void one_exscan(struct vectors v, int rank, int size)
{
    (void)size;
    make(&v, v.count, v.count, rank);
    OK(nigh_exscan(send_of(&v), v.recv, v.count, v.type, v.op, nigh_world()));
    if (rank > 0)
        CHECK(is_fold(v.recv, v.op, v.type, rank, 0, v.count));
    else
        CHECK(v.in_place ? is_fold(v.recv, v.op, v.type, 1, 0, v.count)
                         : v.recv_bytes == 0 || v.recv[0] == GUARD);
    drop(&v);
}

static void every(void (*one)(struct vectors v, int rank, int size), int rank, int size)
{
    static const uint64_t counts[] = {0, 1, 5, 300, 2049, 5003};

    for (int type = NIGH_I8; type <= NIGH_F64; type++)
        for (int op = NIGH_SUM; op <= NIGH_BXOR; op++)
            for (size_t c = 0; defined(op, type) && c < sizeof(counts) / sizeof(*counts); c++)
                for (int in_place = 0; in_place < 2; in_place++)
                    one((struct vectors){.type = type, .op = op, .count = counts[c], .in_place = in_place},
                        rank, size);
    /* Several pieces and segments. */
    for (int in_place = 0; in_place < 2; in_place++) {
        one((struct vectors){.type = NIGH_F32, .op = NIGH_SUM, .count = 300007, .in_place = in_place}, rank,
            size);
        one((struct vectors){.type = NIGH_U8, .op = NIGH_BXOR, .count = 700001, .in_place = in_place}, rank,
            size);
    }
}

static void allreduce(int rank, int size)
{
    every(one_allreduce, rank, size);
}

static void reduce(int rank, int size)
{
    every(one_reduce, rank, size);
}

static void reduce_scatter(int rank, int size)
{
    every(one_reduce_scatter, rank, size);
}

static void scan(int rank, int size)
{
    every(one_scan, rank, size);
}

static void exscan(int rank, int size)
{
    every(one_exscan, rank, size);
}

static void test_allreduce(void **state)
{
    (void)state;
    run_all(allreduce);
}

static void test_reduce(void **state)
{
    (void)state;
    run_all(reduce);
}

static void test_reduce_scatter(void **state)
{
    (void)state;
    run_all(reduce_scatter);
}

static void test_scan(void **state)
{
    (void)state;
    run_all(scan);
}

static void test_exscan(void **state)
{
    (void)state;
    run_all(exscan);
}

/* Several threads of each rank, each with a communicator of its own. */
static struct nigh_comm *of_thread[3];

static void *reduce_often(void *data)
{
    struct nigh_comm *comm = data;
    int rank, size, sum;

    OK(nigh_comm_rank(comm, &rank));
    OK(nigh_comm_size(comm, &size));
    for (int i = 0; i < 300; i++) {
        int mine = rank + i;

        OK(nigh_allreduce(&mine, &sum, 1, NIGH_I32, NIGH_SUM, comm));
        CHECK_INT(sum, size * (size - 1) / 2 + size * i);
    }
    return NULL;
}

static void threads(int rank, int size)
{
    pthread_t thread[3];

    (void)rank;
    (void)size;
    for (int i = 0; i < 3; i++)
        OK(nigh_comm_dup(nigh_world(), &of_thread[i]));
    for (int i = 0; i < 3; i++)
        CHECK_INT(pthread_create(&thread[i], NULL, reduce_often, of_thread[i]), 0);
    for (int i = 0; i < 3; i++)
        CHECK_INT(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < 3; i++)
        OK(nigh_comm_free(&of_thread[i]));
}

static void test_threads(void **state)
{
    (void)state;
    ranks_run(2, threads, &(struct ranks_how){.threads = 1});
    ranks_run(3, threads, &(struct ranks_how){.progress = 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allreduce),      cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_reduce_scatter), cmocka_unit_test(test_scan),
        cmocka_unit_test(test_exscan),         cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
