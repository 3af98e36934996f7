/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that are repeated: what a group keeps of a call is used for equal ones alone, whichever argument differs, and counts
 * that change where they lie are read anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coll/shape.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct hosted one, other;
static struct hosted *const hosted[] = {&one, &other};
static struct nigh_endpoint *to[2][2];
static struct nigh_group *groups[2];
static unsigned shaped;

void __real_nigh_shape_make(const struct nigh_collective *call, uint32_t members, uint32_t me,
                            struct nigh_shape *out);
void __wrap_nigh_shape_make(const struct nigh_collective *call, uint32_t members, uint32_t me,
                            struct nigh_shape *out);

void __wrap_nigh_shape_make(const struct nigh_collective *call, uint32_t members, uint32_t me,
                            struct nigh_shape *out)
{
    shaped++;
    __real_nigh_shape_make(call, members, me, out);
}

static int start(void **state)
{
    (void)state;
    alarm(300);
    to[0][1] = hosted_open_pair(&one, &other, 0);
    to[0][0] = hosted_connect(&one, 0);
    to[1][0] = hosted_connect(&other, 0);
    to[1][1] = hosted_connect(&other, 1);
    for (unsigned i = 0; i < 2; i++) {
        struct nigh_group_options options = {.size = sizeof(options), .count = 2, .members = to[i]};

        assert_int_equal(hosted_ops->group_create(hosted[i]->context, &options, &groups[i]), 0);
    }
    shaped = 0;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(hosted_ops->group_free(groups[i]), 0);
    hosted_close_pair(&one, &other);
    return 0;
}

/* One call of both members, which completes. */
static void both(const struct nigh_collective calls[2])
{
    static uint64_t context;

    context++;
    for (unsigned i = 0; i < 2; i++) {
        struct nigh_collective call = calls[i];

        call.context = context;
        assert_int_equal(hosted_ops->post_collective(groups[i], &call), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(hosted_until(hosted[i], hosted[!i], NIGH_OP_COLLECTIVE, context)->status, 0);
    one.count = other.count = 0;
}

/* ---- kept ---------------------------------------------------------------------------------------------- */

enum { COUNT = 16 };
static uint32_t in[2][2 * COUNT], out[2][2 * COUNT];

static void sum_of(unsigned count, struct nigh_collective calls[2])
{
    for (unsigned i = 0; i < 2; i++)
        calls[i] = (struct nigh_collective){.size = sizeof(calls[i]),
                                            .op = NIGH_ALLREDUCE,
                                            .type = NIGH_U32,
                                            .reduction = NIGH_SUM,
                                            .send = in[i],
                                            .recv = out[i],
                                            .count = count};
}

/* Four calls in turn, as a program's loop makes them: each has its shape made once. Results are of each call's own input. */
static void test_kept(void **state)
{
    struct nigh_collective calls[4][2];

    (void)state;
    for (unsigned k = 0; k < 4; k++)
        sum_of(k + 1, calls[k]);
    for (unsigned round = 0; round < 100; round++) {
        unsigned k = round % 4;

        for (unsigned i = 0; i < 2; i++)
            for (unsigned n = 0; n < COUNT; n++) {
                in[i][n] = round * 1000 + n * (i + 1);
                out[i][n] = 7;
            }
        both(calls[k]);
        for (unsigned i = 0; i < 2; i++)
            for (unsigned n = 0; n < COUNT; n++)
                assert_int_equal(out[i][n], n <= k ? round * 2000 + n * 3 : 7);
    }
    assert_int_equal(shaped, 2 * 4);
}

/* ---- not kept ------------------------------------------------------------------------------------------ */

static void left(void *arg, const void *from, void *inout, uint64_t count)
{
    memcpy(inout, from, count * sizeof(uint32_t));
    *(unsigned *)arg += 1;
}

static void right(void *arg, const void *from, void *inout, uint64_t count)
{
    (void)from;
    (void)inout;
    *(unsigned *)arg += (unsigned)count;
}

static void expect(const struct nigh_collective calls[2], uint32_t first, uint32_t second)
{
    for (unsigned i = 0; i < 2; i++)
        for (unsigned n = 0; n < COUNT; n++)
            in[i][n] = 10 + 90 * i + n;
    memset(out, 0, sizeof(out));
    both(calls);
    both(calls);
    assert_int_equal(*(uint32_t *)calls[0].recv, first);
    assert_int_equal(*(uint32_t *)calls[1].recv, second);
}

/* Each argument alone. */
static void test_arguments(void **state)
{
    static uint32_t otherwise[2][COUNT];
    unsigned counted[2] = {0, 0};
    struct nigh_collective calls[2];

    (void)state;
    sum_of(1, calls);
    expect(calls, 110, 110);
    calls[0].reduction = calls[1].reduction = NIGH_MAX;
    expect(calls, 100, 100);
    calls[0].type = calls[1].type = NIGH_U64;
    expect(calls, 100, 100);
    assert_int_equal(out[0][1], 101);
    calls[0].recv = otherwise[0];
    expect(calls, 100, 100);
    calls[0].send = in[0] + 4;
    calls[1].send = in[1] + 4;
    expect(calls, 104, 104);
    calls[0].op = calls[1].op = NIGH_REDUCE;
    expect(calls, 104, 0);
    calls[0].root = calls[1].root = 1;
    memset(otherwise, 0, sizeof(otherwise));
    expect(calls, 0, 104);

    sum_of(1, calls);
    for (unsigned i = 0; i < 2; i++) {
        calls[i].reduction = NIGH_FUNCTION;
        calls[i].function = left;
        calls[i].function_arg = &counted[0];
    }
    expect(calls, 10, 10);
    calls[0].function = calls[1].function = right;
    expect(calls, 100, 100);
    assert_int_equal(counted[0], 4 + 4);
    calls[0].function_arg = calls[1].function_arg = &counted[1];
    expect(calls, 100, 100);
    assert_int_equal(counted[1], 4);
    for (unsigned i = 0; i < 2; i++) {
        calls[i].type = NIGH_OPAQUE;
        calls[i].width = 2 * sizeof(uint32_t);
    }
    expect(calls, 100, 100);
    assert_int_equal(out[0][1], 101);

    sum_of(1, calls);
    calls[1].flags = NIGH_COLLECTIVE_IN_PLACE;
    calls[1].recv = otherwise[1];
    otherwise[1][0] = 5;
    both(calls);
    assert_int_equal(out[0][0], in[0][0] + 5);
    assert_int_equal(otherwise[1][0], in[0][0] + 5);
}

/* An argument that is wrong is found behind equal calls that were not. */
static void test_refused(void **state)
{
    struct nigh_collective calls[2], wrong;

    (void)state;
    sum_of(2, calls);
    both(calls);
    both(calls);
    wrong = calls[0];
    wrong.recv = NULL;
    assert_int_equal(hosted_ops->post_collective(groups[0], &wrong), -EFAULT);
    wrong = calls[0];
    wrong.root = 1;
    assert_int_equal(hosted_ops->post_collective(groups[0], &wrong), -EINVAL);
    wrong = calls[0];
    wrong.recv = in[0] + 1;
    assert_int_equal(hosted_ops->post_collective(groups[0], &wrong), -EINVAL);
    both(calls);
    assert_int_equal(out[0][1], in[0][1] + in[1][1]);
}

/* A factor, counts and offsets belong to the call, and what they point to may change from one to the next. */
static void test_changed_in_place(void **state)
{
    static uint64_t counts[2], offsets[2];
    uint32_t factors[2] = {3, 5};
    struct nigh_collective calls[2];

    (void)state;
    for (uint32_t round = 1; round < 9; round++) {
        counts[0] = round;
        counts[1] = 9 - round;
        offsets[0] = round % 2 ? 0 : counts[1];
        offsets[1] = round % 2 ? counts[0] : 0;
        for (unsigned i = 0; i < 2; i++) {
            for (unsigned n = 0; n < COUNT; n++)
                in[i][n] = round * 100 + i * 50 + n;
            calls[i] = (struct nigh_collective){.size = sizeof(calls[i]),
                                                .op = NIGH_ALLGATHER,
                                                .type = NIGH_U32,
                                                .send = in[i],
                                                .recv = out[i],
                                                .count = counts[i],
                                                .recv_counts = counts,
                                                .recv_offsets = offsets};
        }
        both(calls);
        for (unsigned i = 0; i < 2; i++)
            for (unsigned k = 0; k < 2; k++)
                assert_memory_equal(out[i] + offsets[k], in[k], counts[k] * sizeof(uint32_t));
        sum_of(0, calls);
        for (unsigned i = 0; i < 2; i++) {
            calls[i].op = NIGH_REDUCE_SCATTER;
            calls[i].recv_counts = counts;
        }
        both(calls);
        for (unsigned i = 0; i < 2; i++)
            for (unsigned n = 0; n < counts[i]; n++)
                assert_int_equal(out[i][n], in[0][i * counts[0] + n] + in[1][i * counts[0] + n]);
        sum_of(1, calls);
        for (unsigned i = 0; i < 2; i++) {
            calls[i].reduction = NIGH_PREMUL;
            calls[i].factor = &factors[i];
            factors[i] = round + i;
        }
        both(calls);
        assert_int_equal(out[1][0], in[0][0] * round + in[1][0] * (round + 1));
    }
}

/* Many calls under way at once, and more kinds than are kept, in an order that repeats none soon. */
static void test_many(void **state)
{
    enum { KINDS = 9, CALLS = 40 };
    static uint32_t sums[2][CALLS];
    struct nigh_collective calls[2];

    (void)state;
    for (unsigned i = 0; i < 2; i++)
        for (unsigned n = 0; n < COUNT; n++)
            in[i][n] = 3 * n + i;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned k = 0; k < CALLS; k++)
            for (unsigned i = 0; i < 2; i++) {
                sum_of(1, calls);
                calls[i].send = in[i] + k * (round + 1) % KINDS;
                calls[i].recv = &sums[i][k];
                calls[i].context = k + 1;
                assert_int_equal(hosted_ops->post_collective(groups[i], &calls[i]), 0);
            }
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(hosted_until(hosted[i], hosted[!i], NIGH_OP_COLLECTIVE, CALLS)->status, 0);
        one.count = other.count = 0;
        for (unsigned k = 0; k < CALLS; k++)
            assert_true(sums[0][k] == 6 * (k * (round + 1) % KINDS) + 1 && sums[1][k] == sums[0][k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kept, start, stop),
        cmocka_unit_test_setup_teardown(test_arguments, start, stop),
        cmocka_unit_test_setup_teardown(test_refused, start, stop),
        cmocka_unit_test_setup_teardown(test_changed_in_place, start, stop),
        cmocka_unit_test_setup_teardown(test_many, start, stop),
    };

    return cmocka_run_group_tests_name("repeated_calls", tests, NULL, NULL);
}
