/* SPDX-License-Identifier: BSD-3-Clause */
/* When a run ends: with its time over and a state of the machine that has lasted, or with its patience. The clock and
 * the machine are the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "tools/perf/rounds.h"
#include "tools/perf/state.h"

#define SECOND 1e9

static struct perf_plan plan_of(double seconds)
{
    return (struct perf_plan){.sampled = PERF_COLUMN_NONE, .seconds = seconds};
}

/* So many rounds: L moves in each of the first `restless`, and rests in the others. */
static struct perf_table *rounds_of(uint32_t rounds, uint32_t restless)
{
    struct perf_table *t = calloc(1, sizeof(*t));

    assert_non_null(t);
    t->rounds = rounds;
    t->has_handoff = 1;
    for (uint32_t i = 0; i <= rounds; i++)
        t->handoff[i] = i < restless && i % 2 ? 250 : 50;
    return t;
}

static bool enough(uint32_t rounds, uint32_t restless, const struct perf_plan *plan, double ns)
{
    struct perf_table *t = rounds_of(rounds, restless);
    bool is = perf_rounds_enough(t, plan, ns);

    free(t);
    return is;
}

static void a_machine_at_rest_takes_the_time_asked_for(void **state)
{
    struct perf_plan plan = plan_of(1);

    (void)state;
    assert_false(enough(100, 0, &plan, 0.9 * SECOND));
    assert_true(enough(100, 0, &plan, 1.1 * SECOND));
    assert_false(enough(15, 0, &plan, 100 * SECOND));
    plan.least_rounds = 5;
    assert_true(enough(15, 0, &plan, 100 * SECOND));
    plan.least_rounds = 0;
    /* too few for a figure, as long as there is time */
    assert_false(enough(30, 0, &plan, (PERF_PATIENCE - 0.1) * SECOND));
    assert_true(enough(30, 0, &plan, (PERF_PATIENCE + 0.1) * SECOND));
    assert_true(enough(PERF_ROUNDS, 0, &plan, 0.1 * SECOND));
}

static void a_restless_machine_is_given_more_time(void **state)
{
    struct perf_plan plan = plan_of(1);

    (void)state;
    assert_false(enough(100, 100, &plan, 1.1 * SECOND));
    assert_false(enough(100, 100, &plan, (PERF_PATIENCE - 0.1) * SECOND));
    assert_true(enough(100, 100, &plan, (PERF_PATIENCE + 0.1) * SECOND));
    assert_true(enough(PERF_ROUNDS, PERF_ROUNDS, &plan, 1.1 * SECOND));
}

static void it_ends_as_soon_as_one_state_has_lasted(void **state)
{
    struct perf_plan plan = plan_of(1);

    (void)state;
    assert_false(enough(100, 100 - PERF_STATE_ENOUGH / 2, &plan, 2 * SECOND));
    assert_true(enough(100, 100 - 3 * PERF_STATE_ENOUGH / 2, &plan, 2 * SECOND));
}

static void what_is_no_figure_does_not_wait(void **state)
{
    struct perf_plan plan = plan_of(1);
    struct perf_table *t = rounds_of(100, 100);

    (void)state;
    plan.hasty = true;
    assert_true(perf_rounds_enough(t, &plan, 1.1 * SECOND));
    plan.hasty = false;
    t->has_handoff = 0; /* and where there is no L, nothing is waited for */
    assert_true(perf_rounds_enough(t, &plan, 1.1 * SECOND));
    free(t);
}

/* How often column `column` comes behind the last peer, or first of all, in so many rounds. */
static uint32_t times_first(const struct perf_plan *plan, uint32_t rounds, uint32_t column)
{
    uint32_t times = 0;

    for (uint32_t round = 0; round < rounds; round++)
        times += perf_rounds_column(plan, round, 0) == column;
    return times;
}

static void all_run_once_in_a_round(void **state)
{
    (void)state;
    for (uint32_t peers = 0; peers < 4; peers++)
        for (uint32_t round = 0; round < 30; round++) {
            struct perf_plan plan = {.pieces = 5 + peers, .peers = peers};
            uint32_t seen = 0;

            for (uint32_t place = 0; place < plan.pieces; place++)
                seen |= 1u << perf_rounds_column(&plan, round, place);
            assert_int_equal(seen, (1u << plan.pieces) - 1);
        }
}

/* Who follows a peer finds cold caches: the work no more often than its floors. */
static void the_work_and_its_floors_follow_the_peers_in_turn(void **state)
{
    struct perf_plan plan = {.pieces = 5 + 3, .peers = 3};

    (void)state;
    for (uint32_t column = 0; column < 5; column++)
        assert_int_equal(times_first(&plan, 20, column), 4);
    for (uint32_t round = 0; round < 20; round++)
        for (uint32_t place = 5; place < 8; place++)
            assert_in_range(perf_rounds_column(&plan, round, place), 5, 7);
}

/* With any number of them, and with the next peer when all have done so with this one. */
static void each_follows_each_peer_equally_often(void **state)
{
    (void)state;
    for (uint32_t peers = 1; peers <= 10; peers++) {
        struct perf_plan plan = {.pieces = 5 + peers, .peers = peers};
        uint32_t times[5][10] = {{0}};

        for (uint32_t round = 0; round < 5 * peers; round++) {
            uint32_t last = perf_rounds_column(&plan, round, plan.pieces - 1) - 5;

            times[perf_rounds_column(&plan, round + 1, 0)][last]++;
        }
        for (uint32_t column = 0; column < 5; column++)
            for (uint32_t peer = 0; peer < peers; peer++)
                assert_int_equal(times[column][peer], 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_run_once_in_a_round),
        cmocka_unit_test(the_work_and_its_floors_follow_the_peers_in_turn),
        cmocka_unit_test(each_follows_each_peer_equally_often),
        cmocka_unit_test(a_machine_at_rest_takes_the_time_asked_for),
        cmocka_unit_test(a_restless_machine_is_given_more_time),
        cmocka_unit_test(it_ends_as_soon_as_one_state_has_lasted),
        cmocka_unit_test(what_is_no_figure_does_not_wait),
    };
    return cmocka_run_group_tests_name("perf_rounds", tests, NULL, NULL);
}
