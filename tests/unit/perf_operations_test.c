/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/perf/operations.h: what a right call leaves is accepted, and one element that is wrong, late or elsewhere is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/perf/operations.h"

#include <stdlib.h>

enum { MOST = 5, BYTES = 264, BLOCKS = MOST * BYTES };

static uint8_t *send[MOST], *recv[MOST];

static float *floats(uint8_t *at)
{
    return (float *)(void *)at;
}

/* Elements of ranks [0, terms) at byte `from` of each, added up. */
static void add_up(int terms, size_t from, uint8_t *out)
{
    for (size_t i = 0; i < BYTES / sizeof(float); i++) {
        floats(out)[i] = 0;
        for (int r = 0; r < terms; r++)
            floats(out)[i] += floats(send[r] + from)[i];
    }
}

/* One rank's result of a right call. */
static void answer(const struct perf_operation *op, int rank, int ranks)
{
    uint8_t *out = recv[rank];

    switch (op->kind) {
    case PERF_OP_BROADCAST:
        memcpy(out, send[0], BYTES);
        break;
    case PERF_OP_REDUCE:
    case PERF_OP_ALLREDUCE:
        add_up(ranks, 0, out);
        break;
    case PERF_OP_GATHER:
    case PERF_OP_ALLGATHER:
        for (int r = 0; r < ranks; r++)
            memcpy(out + r * BYTES, send[r], BYTES);
        break;
    case PERF_OP_SCATTER:
        memcpy(out, send[0] + rank * BYTES, BYTES);
        break;
    case PERF_OP_ALLTOALL:
        for (int r = 0; r < ranks; r++)
            memcpy(out + r * BYTES, send[r] + rank * BYTES, BYTES);
        break;
    case PERF_OP_REDUCE_SCATTER:
        add_up(ranks, (size_t)rank * BYTES, out);
        break;
    case PERF_OP_SCAN:
        add_up(rank + 1, 0, out);
        break;
    case PERF_OP_EXSCAN:
        add_up(rank, 0, out);
        break;
    case PERF_OP_BARRIER:
    case PERF_OPERATIONS:
        break;
    }
}

static uint64_t check(const struct perf_operation *op, int rank, int ranks, uint64_t seq)
{
    return perf_operation_check(op, rank, ranks, seq, recv[rank], BYTES);
}

/* Whether this rank gets anything that can be checked. */
static int gets(const struct perf_operation *op, int rank)
{
    return op->kind != PERF_OP_BARRIER && !(op->root_receives && rank != 0) &&
           !((op->kind == PERF_OP_BROADCAST || op->kind == PERF_OP_EXSCAN) && rank == 0);
}

static void look_at_rank(const struct perf_operation *op, int rank, int ranks, uint64_t seq)
{
    size_t bytes = op->receives_blocks ? (size_t)ranks * BYTES : BYTES;

    if (check(op, rank, ranks, seq) != 0)
        fail_msg("%s, rank %d of %d: a right result is refused", op->name, rank, ranks);
    if (!gets(op, rank))
        return;
    if (check(op, rank, ranks, seq + 1) == 0 || check(op, rank, ranks, seq - 1) == 0)
        fail_msg("%s, rank %d of %d: the result of another call is accepted", op->name, rank, ranks);
    for (size_t i = 0; i < bytes; i += 4) {
        recv[rank][i + 2] ^= 0x10; /* of a float, a bit that counts */
        if (check(op, rank, ranks, seq) == 0)
            fail_msg("%s, rank %d of %d: byte %zu is wrong and accepted", op->name, rank, ranks, i + 2);
        recv[rank][i + 2] ^= 0x10;
    }
    memmove(recv[rank], recv[rank] + 8, bytes - 8);
    if (check(op, rank, ranks, seq) == 0)
        fail_msg("%s, rank %d of %d: a result that is shifted is accepted", op->name, rank, ranks);
}

static void test_right_results_alone_are_accepted(void **state)
{
    (void)state;
    for (int r = 0; r < MOST; r++) {
        send[r] = calloc(1, BLOCKS);
        recv[r] = calloc(1, BLOCKS);
        assert_true(send[r] && recv[r]);
    }
    for (int kind = 0; kind < PERF_OPERATIONS; kind++)
        for (int ranks = 2; ranks <= MOST; ranks++) {
            const struct perf_operation *op = perf_operation((enum perf_operation_kind)kind);
            uint64_t seq = 990 + (uint64_t)(kind * 4 + ranks);

            for (int r = 0; r < ranks; r++)
                perf_operation_write(op, r, ranks, seq, send[r], BYTES);
            for (int r = 0; r < ranks; r++)
                answer(op, r, ranks);
            for (int r = 0; r < ranks; r++)
                look_at_rank(op, r, ranks, seq);
        }
    for (int r = 0; r < MOST; r++) {
        free(send[r]);
        free(recv[r]);
    }
}

static void test_names(void **state)
{
    (void)state;
    for (int kind = 0; kind < PERF_OPERATIONS; kind++) {
        const struct perf_operation *op = perf_operation((enum perf_operation_kind)kind);

        assert_int_equal(op->kind, kind);
        assert_ptr_equal(perf_operation_named(op->name), op);
    }
    assert_null(perf_operation_named("shuffle"));
    assert_int_equal(perf_operation_blocks(perf_operation(PERF_OP_ALLTOALL), 7), 7);
    assert_int_equal(perf_operation_blocks(perf_operation(PERF_OP_REDUCE_SCATTER), 7), 7);
    assert_int_equal(perf_operation_blocks(perf_operation(PERF_OP_SCAN), 7), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_results_alone_are_accepted),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
