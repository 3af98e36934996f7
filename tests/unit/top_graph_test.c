/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is stuck and who is not, in jobs that are made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/top/graph.h"
#include <stdlib.h>
#include <string.h>

#define ANY    NIGH_RANK_NONE
#define SECOND UINT64_C(1000000000)

/* A rank: what it waits for, and whether it is stuck. */
struct who {
    enum top_state state;
    uint32_t op, peer;
    uint64_t members;
    bool stuck;
};

static struct top_rank ranks[8];

static struct top_job make(const struct who *who, size_t count, uint32_t size)
{
    struct top_job job = {.id = 1, .ranks = size, .rank = ranks, .count = count};

    memset(ranks, 0, sizeof(ranks));
    for (size_t i = 0; i < count; i++) {
        struct top_rank *rank = &ranks[i];

        rank->state = who[i].state;
        rank->found.arena.rank = (uint32_t)i;
        rank->now = (struct top_reading){.at_ns = 10 * SECOND,
                                         .noted = true,
                                         .note = {.state = NIGH_NOTE_BLOCKED,
                                                  .op = who[i].op,
                                                  .peer = who[i].peer,
                                                  .members = who[i].members,
                                                  .since_ns = 8 * SECOND,
                                                  .serial = 7}};
        rank->before = rank->now;
        rank->before.at_ns = 9 * SECOND;
    }
    return job;
}

#define RECV     NIGH_NOTE_OP_RECV
#define BARRIER  NIGH_NOTE_OP_BARRIER
#define WAITS    TOP_BLOCKED
#define RUNS(op) TOP_RUNNING, op, ANY, 0

static void check(const char *name, const struct who *who, size_t count, uint32_t size)
{
    struct top_job job = make(who, count, size);

    top_graph_judge(&job);
    for (size_t i = 0; i < count; i++)
        if (ranks[i].stuck != who[i].stuck || ranks[i].proven != who[i].stuck)
            fail_msg("%s: rank %zu is %sstuck, %sproven", name, i, ranks[i].stuck ? "" : "not ",
                     ranks[i].proven ? "" : "not ");
}

#define CHECK(name, size, ...)                                   \
    do {                                                         \
        const struct who who_[] = {__VA_ARGS__};                 \
        check(name, who_, sizeof(who_) / sizeof(who_[0]), size); \
    } while (0)

static void who_waits_for_whom(void **state)
{
    (void)state;
    CHECK("two", 2, {WAITS, RECV, 1, 0, true}, {WAITS, RECV, 0, 0, true});
    CHECK("itself", 1, {WAITS, RECV, 0, 0, true});
    CHECK("three and a tail", 4, {WAITS, RECV, 1, 0, true}, {WAITS, RECV, 2, 0, true},
          {WAITS, RECV, 0, 0, true}, {WAITS, RECV, 0, 0, true});
    CHECK("a chain with an end", 3, {WAITS, RECV, 1, 0, false}, {WAITS, RECV, 2, 0, false},
          {RUNS(RECV), false});
    CHECK("one runs", 2, {WAITS, RECV, 1, 0, false}, {RUNS(RECV), false});
    CHECK("one is not here", 3, {WAITS, RECV, 2, 0, false}, {WAITS, RECV, 0, 0, false});
    CHECK("one is not of the job", 2, {WAITS, RECV, 77, 0, false}, {WAITS, RECV, 0, 0, false});
}

static void any_of_several(void **state)
{
    (void)state;
    CHECK("anyone, all stuck", 2, {WAITS, RECV, ANY, UINT64_MAX, true}, {WAITS, RECV, ANY, UINT64_MAX, true});
    CHECK("anyone, one runs", 3, {WAITS, RECV, ANY, UINT64_MAX, false}, {WAITS, RECV, 0, 0, false},
          {RUNS(RECV), false});
    CHECK("anyone, one is not here", 3, {WAITS, RECV, ANY, UINT64_MAX, false}, {WAITS, RECV, 0, 0, false});
    CHECK("either of two, one runs", 3, {WAITS, RECV, ANY, 6, false}, {WAITS, RECV, 0, 0, false},
          {RUNS(RECV), false});
    CHECK("either of two that wait for it", 3, {WAITS, RECV, ANY, 6, true}, {WAITS, RECV, 0, 0, true},
          {WAITS, RECV, 0, 0, true});
    CHECK("nobody", 1, {WAITS, RECV, ANY, 0, false});
    CHECK("only itself, among several", 1, {WAITS, RECV, ANY, 1, false});
}

static void all_of_several(void **state)
{
    (void)state;
    CHECK("a barrier with one in it that waits for the first", 3, {WAITS, BARRIER, ANY, 6, true},
          {WAITS, RECV, 0, 0, true}, {RUNS(RECV), false});
    CHECK("a barrier that others will come to", 3, {WAITS, BARRIER, ANY, 6, false}, {RUNS(RECV), false},
          {RUNS(RECV), false});
    CHECK("a barrier of all: nobody waits for itself", 2, {WAITS, BARRIER, ANY, UINT64_MAX, false},
          {RUNS(RECV), false});
    CHECK("all requests", 2, {WAITS, NIGH_NOTE_OP_WAITALL, ANY, 2, true},
          {WAITS, NIGH_NOTE_OP_WAITALL, ANY, 1, true});
    CHECK("any request", 3, {WAITS, NIGH_NOTE_OP_WAITANY, ANY, 6, false}, {WAITS, RECV, 0, 0, false},
          {RUNS(RECV), false});
}

/* What has only just begun, or has moved between the readings, is a circle and not called a deadlock yet. */
static void what_is_young_is_not_proven(void **state)
{
    static const struct who two[] = {{WAITS, RECV, 1, 0, true}, {WAITS, RECV, 0, 0, true}};
    struct top_job job = make(two, 2, 2);

    (void)state;
    ranks[1].now.note.since_ns = 10 * SECOND - SECOND / 2;
    top_graph_judge(&job);
    assert_true(ranks[0].stuck && ranks[1].stuck && !ranks[0].proven && !ranks[1].proven);
    job = make(two, 2, 2);
    ranks[0].before.note.serial--;
    top_graph_judge(&job);
    assert_true(ranks[0].stuck && !ranks[0].proven && !ranks[1].proven);
    job = make(two, 2, 2);
    ranks[0].before.at_ns = 0;
    top_graph_judge(&job);
    assert_true(ranks[0].stuck && !ranks[0].proven);
    job = make(two, 2, 2);
    ranks[0].now.note.since_ns = UINT64_MAX;
    top_graph_judge(&job);
    assert_true(ranks[0].stuck && !ranks[0].proven);
}

/* However late the clock frees one: the others go on behind it. */
static void a_wait_that_ends_is_in_no_circle(void **state)
{
    static const struct who three[] = {
        {WAITS, RECV, 1, 0, true}, {WAITS, RECV, 2, 0, true}, {WAITS, RECV, 0, 0, true}};
    struct top_job job = make(three, 3, 3);

    (void)state;
    ranks[1].now.note.until_ns = ranks[1].before.note.until_ns = 3600 * SECOND;
    top_graph_judge(&job);
    for (unsigned i = 0; i < 3; i++)
        assert_true(!ranks[i].stuck && !ranks[i].proven);
    /* Its moment has passed: it has no CPU at the moment, or is stopped. */
    ranks[1].now.note.until_ns = ranks[1].before.note.until_ns = 1;
    top_graph_judge(&job);
    for (unsigned i = 0; i < 3; i++)
        assert_true(!ranks[i].stuck && !ranks[i].proven);
}

static void a_circle_is_found_from_anywhere(void **state)
{
    static const struct who who[] = {{WAITS, RECV, 3, 0, true},
                                     {WAITS, RECV, 2, 0, true},
                                     {WAITS, RECV, 4, 0, true},
                                     {WAITS, RECV, 1, 0, true},
                                     {WAITS, RECV, 1, 0, true}};
    struct top_job job = make(who, 5, 5);
    size_t at[5];

    (void)state;
    top_graph_judge(&job);
    for (size_t from = 0; from < 5; from++) {
        assert_int_equal(top_graph_circle(&job, from, at), 3);
        assert_true(at[0] == 1 && at[1] == 2 && at[2] == 4);
    }
    ranks[1].stuck = false;
    assert_int_equal(top_graph_circle(&job, 1, at), 0);
    assert_int_equal(top_graph_circle(&job, 0, at), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_for_whom),
        cmocka_unit_test(any_of_several),
        cmocka_unit_test(all_of_several),
        cmocka_unit_test(what_is_young_is_not_proven),
        cmocka_unit_test(a_wait_that_ends_is_in_no_circle),
        cmocka_unit_test(a_circle_is_found_from_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
