/* SPDX-License-Identifier: BSD-3-Clause */
/* Which way a collective's input goes that the other members have not mapped: by NIGH_PATH and the CPU, and that calls keep to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coll/call.h"
#include "plugin/collective.h"
#include "tests/support/hosted.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };

/* ---- the choice ---------------------------------------------------------------------------------------- */

static void test_chosen(void **state)
{
    static const struct {
        int path;
        bool once, copies_only, streams;
    } rows[] = {
        {-1, false, false, true},
        {-1, true, false, false},
        {NIGH_PATH_EAGER, false, true, true},
        {NIGH_PATH_EAGER, true, true, false},
        {NIGH_PATH_CHUNKED, false, true, true},
        {NIGH_PATH_CHUNKED, true, true, false},
        {NIGH_PATH_HEAP, false, false, true},
        {NIGH_PATH_HEAP, true, false, false},
        {NIGH_PATH_CMA, false, false, false},
        {NIGH_PATH_CMA, true, false, false},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct nigh_collective_ways ways = nigh_collective_ways(rows[i].path, rows[i].once);

        assert_int_equal(ways.copies_only, rows[i].copies_only);
        assert_int_equal(ways.streams, rows[i].streams);
    }
}

/* The CPU that is better off with one copy is one in a table. */
static void test_by_cpu(void **state)
{
    static const enum nigh_cpu cpus[] = {NIGH_CPU_OTHER, NIGH_CPU_ZEN3, NIGH_CPU_INTEL, NIGH_CPU_GOLDEN_COVE};
    struct nigh_context context = {.coll = {.moving = NULL}};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        context.config.place_from = nigh_plan_crowded_from(cpus[i]);
        assert_int_equal(nigh_plan_prefers_once(&context), cpus[i] == NIGH_CPU_GOLDEN_COVE);
    }
}

/* ---- the calls ----------------------------------------------------------------------------------------- */

static struct hosted one, other;
static struct nigh_endpoint *to[2][2];
static struct nigh_group *groups[2];

static int start(void **state)
{
    struct hosted *const hosted[] = {&one, &other};

    (void)state;
    alarm(60);
    to[0][1] = hosted_open_pair(&one, &other, 0);
    to[0][0] = hosted_connect(&one, 0);
    to[1][0] = hosted_connect(&other, 0);
    to[1][1] = hosted_connect(&other, 1);
    hosted_meet(&one, to[0][1], &other, to[1][0]);
    for (unsigned i = 0; i < 2; i++) {
        struct nigh_group_options options = {.size = sizeof(options), .count = 2, .members = to[i]};

        assert_int_equal(hosted_ops->group_create(hosted[i]->context, &options, &groups[i]), 0);
    }
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

static void test_kept_to(void **state)
{
    uint8_t *memory = malloc(2 * BYTES);

    (void)state;
    assert_non_null(memory);
    if (!hosted_may_read(&one)) {
        printf("a process may not read another one's memory here\n");
        fflush(stdout);
        skip();
    }
    for (unsigned round = 0; round < 4; round++) {
        bool streams = round % 2;
        struct nigh_collective call = {
            .size = sizeof(call), .op = NIGH_BROADCAST, .type = NIGH_U8, .count = BYTES};

        one.context->coll.streams = streams;
        one.count = other.count = 0;
        call.context = round + 1;
        call.send = memory;
        assert_int_equal(hosted_ops->post_collective(groups[0], &call), 0);
        while (!groups[0]->formed || groups[0]->waiting) {
            hosted_poll(&one);
            hosted_poll(&other);
        }
        assert_int_equal(groups[0]->first->lies, streams ? NIGH_LIES_STREAM : NIGH_LIES_PROCESS);
        call.send = NULL;
        call.recv = memory + BYTES;
        assert_int_equal(hosted_ops->post_collective(groups[1], &call), 0);
        assert_int_equal(hosted_until(&one, &other, NIGH_OP_COLLECTIVE, round + 1)->status, 0);
        assert_int_equal(hosted_until(&other, &one, NIGH_OP_COLLECTIVE, round + 1)->status, 0);
    }
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chosen),
        cmocka_unit_test(test_by_cpu),
        cmocka_unit_test_setup_teardown(test_kept_to, start, stop),
    };

    return cmocka_run_group_tests_name("collective_ways", tests, NULL, NULL);
}
