/* SPDX-License-Identifier: BSD-3-Clause */
/* What calls do to memory where results alone do not show it: a member takes its program's memory back in the middle of a
 * reduction, kernels are given places that overlap, units differ in length, all leave while the group is forming. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coll/fold.h"
#include "coll/source.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct hosted one, other;
static struct nigh_endpoint *one_to[2], *other_to[2];

static struct nigh_group *make(struct hosted *hosted, struct nigh_endpoint **to)
{
    struct nigh_group_options options = {.size = sizeof(options), .count = 2, .members = to};
    struct nigh_group *group;

    assert_int_equal(hosted_ops->group_create(hosted->context, &options, &group), 0);
    return group;
}

static int start(void **state)
{
    (void)state;
    alarm(300);
    one_to[1] = hosted_open_pair(&one, &other, 0);
    one_to[0] = hosted_connect(&one, 0);
    other_to[0] = hosted_connect(&other, 0);
    other_to[1] = hosted_connect(&other, 1);
    hosted_meet(&one, one_to[1], &other, other_to[0]);
    return 0;
}

/* Where the kernel reads, and nothing is streamed. */
static int start_read(void **state)
{
    setenv("NIGH_PATH", "cma", 1);
    start(state);
    return unsetenv("NIGH_PATH");
}

static int stop(void **state)
{
    (void)state;
    hosted_close_pair(&one, &other);
    return 0;
}

/* ---- memory that is taken back ------------------------------------------------------------------------- */

const void *__real_nigh_source_at(const struct nigh_source *source, const struct nigh_member *member,
                                  uint64_t at, uint64_t *bytes);
const void *__wrap_nigh_source_at(const struct nigh_source *source, const struct nigh_member *member,
                                  uint64_t at, uint64_t *bytes);

static unsigned looks;

/* Both members are this process, so what the kernel would read can be read here. Each second look finds it taken back. */
const void *__wrap_nigh_source_at(const struct nigh_source *source, const struct nigh_member *member,
                                  uint64_t at, uint64_t *bytes)
{
    if (source->lies == NIGH_LIES_PROCESS)
        return looks++ % 2 ? NULL : (const void *)(uintptr_t)(source->where + at);
    return __real_nigh_source_at(source, member, at, bytes);
}

/* Posts a long call at both, which complete with 0 and what they must give. */
static void call_long(struct nigh_group *const *groups)
{
    enum { COUNT = 300000 };
    struct hosted *hosted[] = {&one, &other};
    uint32_t *in[2], *out[2];

    for (unsigned i = 0; i < 2; i++) {
        struct nigh_collective call = {.size = sizeof(call),
                                       .op = NIGH_SCAN,
                                       .type = NIGH_U32,
                                       .reduction = NIGH_SUM,
                                       .count = COUNT,
                                       .context = 1};

        in[i] = malloc(COUNT * sizeof(uint32_t));
        out[i] = malloc(COUNT * sizeof(uint32_t));
        assert_true(in[i] && out[i]);
        for (uint32_t k = 0; k < COUNT; k++)
            in[i][k] = k * (i + 3);
        call.send = in[i];
        call.recv = out[i];
        assert_int_equal(hosted_ops->post_collective(groups[i], &call), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(hosted_until(hosted[i], hosted[!i], NIGH_OP_COLLECTIVE, 1)->status, 0);
    for (uint32_t k = 0; k < COUNT; k++)
        assert_true(out[0][k] == k * 3 && out[1][k] == k * 7);
    for (unsigned i = 0; i < 2; i++) {
        free(in[i]);
        free(out[i]);
        assert_int_equal(hosted_ops->group_free(groups[i]), 0);
    }
}

static void test_taken_back(void **state)
{
    struct nigh_group *groups[] = {make(&one, one_to), make(&other, other_to)};

    (void)state;
    call_long(groups);
    if (hosted_may_read(&one))
        assert_true(looks > 2);
}

/* A heap without room for a stream: what can be read where it lies is. */
static void test_no_room(void **state)
{
    enum { MOST = 4096 };
    static void *taken[2][MOST];
    struct nigh_group *groups[] = {make(&one, one_to), make(&other, other_to)};
    struct hosted *hosted[] = {&one, &other};
    unsigned count[2] = {0, 0};

    (void)state;
    if (!hosted_may_read(&one)) {
        print_message("# skipped: process_vm_readv is not allowed here\n");
        skip();
    }
    for (unsigned i = 0; i < 2; i++)
        for (uint64_t bytes = 64 << 20; bytes >= 64 * 1024; bytes /= 2)
            while (count[i] < MOST &&
                   hosted_ops->heap_alloc(hosted[i]->context, bytes, &taken[i][count[i]]) == 0)
                count[i]++;
    looks = 0;
    call_long(groups);
    assert_true(looks > 2);
    for (unsigned i = 0; i < 2; i++)
        while (count[i])
            assert_int_equal(hosted_ops->heap_free(hosted[i]->context, taken[i][--count[i]]), 0);
}

/* ---- kernels ------------------------------------------------------------------------------------------- */

nigh_fold_fn __real_nigh_fold_select(enum nigh_type type, enum nigh_atomic_op op);
nigh_fold_fn __wrap_nigh_fold_select(enum nigh_type type, enum nigh_atomic_op op);

static nigh_fold_fn kernel;
static unsigned overlaps;

static void watched(void *into, const void *const *sources, uint32_t source_count, uint64_t count,
                    const struct nigh_fold_more *more)
{
    uintptr_t to = (uintptr_t)into;

    for (uint32_t i = 0; i < source_count; i++) {
        uintptr_t from = (uintptr_t)sources[i];

        overlaps += from != to && from < to + count * 4 && to < from + count * 4;
    }
    kernel(into, sources, source_count, count, more);
}

nigh_fold_fn __wrap_nigh_fold_select(enum nigh_type type, enum nigh_atomic_op op)
{
    kernel = __real_nigh_fold_select(type, op);
    return kernel ? watched : NULL;
}

/* In place, and the result's place overlaps that of the input: no kernel sees that. */
static void test_blocks_overlap(void **state)
{
    enum { FIRST = 4, SECOND = 100 };
    static const uint64_t counts[] = {FIRST, SECOND};
    struct nigh_group *groups[] = {make(&one, one_to), make(&other, other_to)};
    struct hosted *hosted[] = {&one, &other};
    uint32_t both[2][FIRST + SECOND];

    (void)state;
    overlaps = 0;
    for (uint32_t i = 0; i < 2; i++) {
        struct nigh_collective call = {.size = sizeof(call),
                                       .flags = NIGH_COLLECTIVE_IN_PLACE,
                                       .op = NIGH_REDUCE_SCATTER,
                                       .type = NIGH_U32,
                                       .reduction = NIGH_SUM,
                                       .recv = both[i],
                                       .recv_counts = counts,
                                       .context = 2};

        for (uint32_t k = 0; k < FIRST + SECOND; k++)
            both[i][k] = k * (i + 1);
        assert_int_equal(hosted_ops->post_collective(groups[i], &call), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(hosted_until(hosted[i], hosted[!i], NIGH_OP_COLLECTIVE, 2)->status, 0);
    for (uint32_t k = 0; k < FIRST + SECOND; k++)
        assert_int_equal(k < FIRST ? both[0][k] : both[1][k - FIRST], 3 * k);
    assert_int_equal(overlaps, 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(hosted_ops->group_free(groups[i]), 0);
}

/* ---- windows ------------------------------------------------------------------------------------------- */

static void take_left(void *arg, const void *left, void *inout, uint64_t count)
{
    memcpy(inout, left, count * *(const uint64_t *)arg);
}

/* Long elements make short units: what a call of them has left to the group is long enough for the next one all the same. */
static void test_window_of_another_width(void **state)
{
    enum { BYTES = 400000 };
    static uint64_t widths[] = {40000, 4, 80000, 4};
    struct nigh_group *groups[] = {make(&one, one_to), make(&other, other_to)};
    struct hosted *hosted[] = {&one, &other};
    uint8_t *both[2] = {malloc(BYTES), malloc(BYTES)};

    (void)state;
    assert_true(both[0] && both[1]);
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < 2; i++) {
            struct nigh_collective call = {.size = sizeof(call),
                                           .flags = NIGH_COLLECTIVE_IN_PLACE,
                                           .op = NIGH_ALLREDUCE,
                                           .type = NIGH_OPAQUE,
                                           .width = (uint32_t)widths[round],
                                           .reduction = NIGH_FUNCTION,
                                           .function = take_left,
                                           .function_arg = &widths[round],
                                           .recv = both[i],
                                           .count = BYTES / widths[round],
                                           .context = 3 + round};

            memset(both[i], (int)(2 * round + i), BYTES);
            assert_int_equal(hosted_ops->post_collective(groups[i], &call), 0);
        }
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(hosted_until(hosted[i], hosted[!i], NIGH_OP_COLLECTIVE, 3 + round)->status, 0);
        for (unsigned k = 0; k < BYTES; k++)
            assert_true(both[0][k] == 2 * round && both[1][k] == 2 * round);
    }
    for (unsigned i = 0; i < 2; i++) {
        free(both[i]);
        assert_int_equal(hosted_ops->group_free(groups[i]), 0);
    }
}

/* ---- the end of a group that is forming ---------------------------------------------------------------- */

static void poll_much(struct hosted *hosted)
{
    for (unsigned i = 0; i < 5000; i++)
        hosted_poll(hosted);
}

/* Both leave; what the group took of both heaps comes back, whoever finds whom first. */
static void test_left_while_forming(void **state)
{
    struct nigh_group *groups[] = {make(&one, one_to), make(&other, other_to)};
    uint64_t used[2];

    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        assert_int_equal(hosted_ops->group_free(groups[1]), 0);
        hosted_poll(&other); /* shows its board, and finds none */
        poll_much(&one);     /* finds it */
        assert_int_equal(hosted_ops->group_free(groups[0]), 0);
        poll_much(&one); /* may it take its board away? */
        poll_much(&other);
        poll_much(&one);
        poll_much(&other);
        if (round) {
            assert_int_equal(hosted_facts(&one).heap_used, used[0]);
            assert_int_equal(hosted_facts(&other).heap_used, used[1]);
            return;
        }
        used[0] = hosted_facts(&one).heap_used;
        used[1] = hosted_facts(&other).heap_used;
        groups[0] = make(&one, one_to);
        groups[1] = make(&other, other_to);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_taken_back, start_read, stop),
        cmocka_unit_test_setup_teardown(test_no_room, start, stop),
        cmocka_unit_test_setup_teardown(test_blocks_overlap, start, stop),
        cmocka_unit_test_setup_teardown(test_window_of_another_width, start, stop),
        cmocka_unit_test_setup_teardown(test_left_while_forming, start, stop),
    };

    return cmocka_run_group_tests_name("calls", tests, NULL, NULL);
}
