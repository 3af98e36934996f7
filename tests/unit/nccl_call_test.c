/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests/gpu/nccl expects of NCCL's calls, against values that are worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/gpu/nccl/call.h"
#include <string.h>

/* Inputs of ranks 0 to 3: (7 i + 3 rank) % 5 + 1. */
static void inputs_differ_by_rank_and_place(void **state)
{
    static const double wanted[4][6] = {
        {1, 3, 5, 2, 4, 1}, {4, 1, 3, 5, 2, 4}, {2, 4, 1, 3, 5, 2}, {5, 2, 4, 1, 3, 5}};

    (void)state;
    for (int rank = 0; rank < 4; rank++)
        for (size_t i = 0; i < 6; i++)
            assert_true(call_input(rank, i) == wanted[rank][i]);
}

struct row {
    struct call call;
    int rank;
    size_t sends, receives;
    double first, last; /* of the output */
};

static void each_call_has_its_output(void **state)
{
    static const struct row rows[] = {
        {{ALLREDUCE, FLOAT32, SUM, 2, 0, 3}, 1, 3, 3, 5, 8},
        {{ALLREDUCE, FLOAT32, PROD, 4, 0, 3}, 0, 3, 3, 40, 60},
        {{ALLREDUCE, INT32, MAX, 4, 0, 2}, 3, 2, 2, 5, 4},
        {{ALLREDUCE, INT32, MIN, 4, 0, 2}, 3, 2, 2, 1, 1},
        {{ALLREDUCE, FLOAT64, AVG, 4, 0, 2}, 3, 2, 2, 3, 2.5},
        {{REDUCE, INT64, SUM, 2, 1, 3}, 1, 3, 3, 5, 8},
        {{REDUCE, INT64, SUM, 2, 1, 3}, 0, 3, 0, 0, 0},
        {{BROADCAST, INT64, SUM, 4, 2, 3}, 2, 3, 3, 2, 1},
        {{BROADCAST, INT64, SUM, 4, 2, 3}, 0, 0, 3, 2, 1},
        {{ALLGATHER, UINT8, SUM, 4, 0, 2}, 1, 2, 8, 1, 2},
        {{REDUCE_SCATTER, INT32, SUM, 2, 0, 3}, 0, 6, 3, 5, 8},
        {{REDUCE_SCATTER, INT32, SUM, 2, 0, 3}, 1, 6, 3, 7, 5},
        {{RING, INT32, SUM, 4, 0, 2}, 0, 2, 2, 5, 2},
        {{RING, INT32, SUM, 4, 0, 2}, 1, 2, 2, 1, 3},
        {{EXCHANGE, INT32, SUM, 2, 0, 3}, 1, 6, 6, 2, 4},
        {{ALLTOALL, INT32, SUM, 2, 0, 3}, 0, 6, 6, 1, 3},
        {{GATHER, INT32, SUM, 2, 1, 3}, 1, 3, 6, 1, 3},
        {{GATHER, INT32, SUM, 2, 1, 3}, 0, 3, 0, 0, 0},
        {{SCATTER, INT32, SUM, 2, 0, 3}, 1, 0, 3, 2, 1},
        {{SCATTER, INT32, SUM, 2, 0, 3}, 0, 6, 3, 1, 5},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        double first = 0, last = 0;

        assert_int_equal(call_sends(&row->call, row->rank), row->sends);
        assert_int_equal(call_receives(&row->call, row->rank), row->receives);
        if (row->receives) {
            first = call_expects(&row->call, row->rank, 0);
            last = call_expects(&row->call, row->rank, row->receives - 1);
        }
        if (first != row->first || last != row->last)
            fail_msg("row %zu, %s: %g and %g", i, call_name(row->call.kind), first, last);
    }
}

/* What NCCL would write is right, and any other element is found. */
static void each_wrong_element_is_found(void **state)
{
    static const enum type types[] = {UINT8, INT32, INT64, FLOAT32, FLOAT64};
    uint64_t data[40];

    (void)state;
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        /* A broadcast's output is its root's input. */
        struct call call = {.kind = BROADCAST, .type = types[t], .ranks = 3, .root = 1, .count = 40};

        memset(data, 0, sizeof(data));
        call_fill(&call, 1, data);
        assert_int_equal(call_wrong(&call, 0, data), 40);
        for (size_t i = 0; i < 40; i++) {
            uint8_t *at = (uint8_t *)data + (i + 1) * type_bytes(types[t]) - 1;

            *at ^= 1;
            assert_int_equal(call_wrong(&call, 2, data), i);
            *at ^= 1;
        }
    }
}

static void bytes_wrap(void **state)
{
    struct call call = {.kind = ALLREDUCE, .type = UINT8, .operation = PROD, .ranks = 16, .count = 1};
    uint8_t byte = 0;
    double all = 1;

    (void)state;
    for (int rank = 0; rank < 16; rank++)
        all *= call_input(rank, 0);
    assert_true(all > 255);
    byte = (uint8_t)(uint64_t)all;
    assert_int_equal(call_wrong(&call, 0, &byte), 1);
    byte++;
    assert_int_equal(call_wrong(&call, 0, &byte), 0);
}

/* NCCL's average multiplies by a rounded third. */
static void averages_are_rounded(void **state)
{
    struct call call = {.kind = ALLREDUCE, .type = FLOAT32, .operation = AVG, .ranks = 3, .count = 1};
    float value = (float)call_expects(&call, 0, 0) * (1 + 2e-7f);

    (void)state;
    assert_int_equal(call_wrong(&call, 0, &value), 1);
    value *= 1.001f;
    assert_int_equal(call_wrong(&call, 0, &value), 0);
    call.operation = SUM;
    value = (float)call_expects(&call, 0, 0) * (1 + 2e-7f);
    assert_int_equal(call_wrong(&call, 0, &value), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_differ_by_rank_and_place),
        cmocka_unit_test(each_call_has_its_output),
        cmocka_unit_test(each_wrong_element_is_found),
        cmocka_unit_test(bytes_wrap),
        cmocka_unit_test(averages_are_rounded),
    };
    return cmocka_run_group_tests_name("nccl_call", tests, NULL, NULL);
}
