/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds are sorted into the states of the machine that they were taken in, and those that were taken while it changed
 * are dropped and counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/perf/state.h"
#include "tools/perf/table.h"

enum { MANY = 200 };

static double handoff[MANY + 1];
static uint32_t room[MANY];

static void fill(uint32_t from, uint32_t to, double value)
{
    /* 4 % of jitter, as a quiet machine has */
    for (uint32_t i = from; i <= to; i++)
        handoff[i] = value * (1 + 0.02 * ((int)(i % 3) - 1));
}

static void one_state_keeps_all_rounds(void **state)
{
    struct perf_states s;

    (void)state;
    fill(0, MANY, 50);
    assert_int_equal(perf_states_find(handoff, MANY, room, &s), 0);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.state[0].count, MANY);
    assert_int_equal(s.dropped, 0);
    assert_float_equal(s.state[0].handoff_ns, 50, 1);
    assert_int_equal(s.state[0].rounds[17], 17);
}

static void two_states_are_two_and_the_moves_between_are_dropped(void **state)
{
    struct perf_states s;

    (void)state;
    fill(0, 80, 50);
    fill(81, MANY, 250);
    assert_int_equal(perf_states_find(handoff, MANY, room, &s), 0);
    assert_int_equal(s.count, 2);
    assert_float_equal(s.state[0].handoff_ns, 250, 5);
    assert_int_equal(s.state[0].count, MANY - 81);
    assert_int_equal(s.state[0].rounds[0], 81);
    assert_float_equal(s.state[1].handoff_ns, 50, 1);
    assert_int_equal(s.state[1].count, 80);
    assert_int_equal(s.dropped, 1); /* round 80 began at 50 and ended at 250 */
}

static void a_probe_that_was_interrupted_drops_its_two_rounds(void **state)
{
    struct perf_states s;

    (void)state;
    fill(0, MANY, 50);
    handoff[100] = 9000;
    assert_int_equal(perf_states_find(handoff, MANY, room, &s), 0);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.state[0].count, MANY - 2);
    assert_int_equal(s.dropped, 2);
}

static void a_few_strange_rounds_are_no_state(void **state)
{
    struct perf_states s;

    (void)state;
    fill(0, MANY, 50);
    fill(20, 20 + PERF_STATE_LEAST - 2, 90);
    assert_int_equal(perf_states_find(handoff, MANY, room, &s), 0);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.state[0].count + s.dropped, MANY);
    assert_true(s.dropped >= PERF_STATE_LEAST - 2);
}

static void a_machine_that_never_rests_has_no_state(void **state)
{
    struct perf_states s;

    (void)state;
    for (uint32_t i = 0; i <= MANY; i++)
        handoff[i] = i % 2 ? 50 : 250;
    assert_int_equal(perf_states_find(handoff, MANY, room, &s), 0);
    assert_int_equal(s.count, 0);
    assert_int_equal(s.dropped, MANY);
}

static void no_rounds_are_no_state(void **state)
{
    struct perf_states s;

    (void)state;
    assert_int_equal(perf_states_find(handoff, 0, room, &s), 0);
    assert_int_equal(s.count, 0);
    assert_int_equal(s.dropped, 0);
}

/* Work 2 with floors 0 and 1; in the slow state the other floor is the better one. */
static struct perf_table *example(void)
{
    struct perf_table *t = calloc(1, sizeof(*t));

    assert_non_null(t);
    t->rounds = MANY;
    t->columns = 3;
    t->has_handoff = 1;
    t->sampled = PERF_COLUMN_NONE;
    fill(0, 99, 50);
    fill(100, MANY, 250);
    memcpy(t->handoff, handoff, sizeof(handoff));
    for (uint32_t i = 0; i < MANY; i++) {
        t->value[0][i] = i < 99 ? 10 : 40;
        t->value[1][i] = i < 99 ? 15 : 30;
        t->value[2][i] = i < 99 ? 12 : 60;
    }
    return t;
}

static int rows_of(const struct perf_table *t, const uint32_t *floors, uint32_t count,
                   const struct perf_result *like, struct perf_result rows[4])
{
    static const uint32_t work = 2;
    struct perf_race race = {&work, 1, floors, count};

    return perf_table_rows(t, &race, like, rows, 4);
}

static void a_row_per_state_with_the_best_floor_of_that_state(void **state)
{
    static const uint32_t floors[] = {0, 1};
    struct perf_table *t = example();
    struct perf_result like, rows[4];

    (void)state;
    perf_result_init(&like, "latency", "inline", "ns");
    assert_int_equal(rows_of(t, floors, 2, &like, rows), 2);
    assert_float_equal(rows[0].handoff_ns, 250, 5);
    assert_float_equal(rows[0].value, 60, 0);
    assert_float_equal(rows[0].floor, 30, 0);
    assert_float_equal(rows[0].ratio, 2, 1e-9);
    assert_int_equal(rows[0].dropped, 1);
    assert_float_equal(rows[1].value, 12, 0);
    assert_float_equal(rows[1].floor, 10, 0);
    assert_float_equal(rows[1].ratio, 1.2, 1e-9);
    assert_int_equal(rows[1].rounds, 99);
    assert_string_equal(rows[1].path, "inline");
    free(t);
}

static void of_several_the_best_of_each_state_counts(void **state)
{
    static const uint32_t both[] = {0, 1};
    struct perf_race race = {both, 2, NULL, 0};
    struct perf_table *t = example();
    struct perf_result like, rows[4];

    (void)state;
    strcpy(t->name[0], "plain");
    strcpy(t->name[1], "nt");
    perf_result_init(&like, "floor-oneway", "", "ns");
    assert_int_equal(perf_table_rows(t, &race, &like, rows, 4), 2);
    assert_string_equal(rows[0].path, "nt");
    assert_float_equal(rows[0].value, 30, 0);
    assert_string_equal(rows[1].path, "plain");
    assert_float_equal(rows[1].value, 10, 0);
    free(t);
}

static void peers_are_medians_of_the_rounds_that_they_took_part_in(void **state)
{
    struct perf_table *t = example();
    struct perf_result like, rows[4];

    (void)state;
    t->columns = 5;
    t->peers = 2;
    strcpy(t->name[3], "openmpi");
    strcpy(t->name[4], "ucx");
    for (uint32_t i = 0; i < MANY; i++) {
        t->value[3][i] = i % 2 ? NAN : i < 99 ? 90 : 350;
        t->value[4][i] = NAN;
    }
    perf_result_init(&like, "latency", "", "ns");
    assert_int_equal(rows_of(t, NULL, 0, &like, rows), 2);
    assert_int_equal(rows[0].peer_count, 2);
    assert_string_equal(rows[0].peers[0].name, "openmpi");
    assert_float_equal(rows[0].peers[0].value, 350, 0);
    assert_float_equal(rows[1].peers[0].value, 90, 0);
    assert_true(isnan(rows[0].peers[1].value));
    assert_float_equal(rows[0].peers[0].ratio, 60.0 / 350, 1e-9);
    assert_float_equal(rows[1].peers[0].ratio, 12.0 / 90, 1e-9);
    assert_true(isnan(rows[0].peers[1].ratio));
    perf_result_init(&like, "overlap", "", "%");
    assert_int_equal(rows_of(t, NULL, 0, &like, rows), 2);
    assert_float_equal(rows[0].peers[0].value, 350, 0);
    assert_true(isnan(rows[0].peers[0].ratio)); /* of shares there is none */
    free(t);
}

static void without_floors_the_floor_is_absent(void **state)
{
    struct perf_table *t = example();
    struct perf_result like, rows[4];

    (void)state;
    perf_result_init(&like, "idle", "", "%");
    assert_int_equal(rows_of(t, NULL, 0, &like, rows), 2);
    assert_true(isnan(rows[0].floor));
    assert_true(isnan(rows[0].ratio));
    free(t);
}

static void more_is_better_turns_floor_and_tail(void **state)
{
    static const uint32_t floors[] = {0, 1};
    struct perf_table *t = example();
    struct perf_result like, rows[4];

    (void)state;
    t->has_handoff = 0;
    for (uint32_t i = 0; i < MANY; i++)
        t->value[2][i] = i;
    perf_result_init(&like, "bandwidth", "", "GB/s");
    assert_int_equal(rows_of(t, floors, 2, &like, rows), 1);
    assert_true(isnan(rows[0].handoff_ns));
    assert_float_equal(rows[0].value, 99.5, 1e-9);
    assert_float_equal(rows[0].p99, 1.99, 1e-9); /* the slow end */
    assert_float_equal(rows[0].floor, 40, 0);    /* 40 is more than 30 in more than half of the rounds */
    free(t);
}

static void samples_give_the_p99_of_single_messages(void **state)
{
    struct perf_table *t = example();
    struct perf_result like, rows[4];

    (void)state;
    t->sampled = 2;
    for (uint32_t i = 0; i < MANY; i++) {
        t->sample[t->samples++] = i < 99 ? 12 : 60;
        t->sample[t->samples++] = i < 99 ? 500 : 700; /* every second message is slow */
        t->sample_end[i] = t->samples;
    }
    perf_result_init(&like, "latency", "", "ns");
    assert_int_equal(rows_of(t, NULL, 0, &like, rows), 2);
    assert_float_equal(rows[0].p99, 700, 0);
    assert_float_equal(rows[1].p99, 500, 0);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_state_keeps_all_rounds),
        cmocka_unit_test(two_states_are_two_and_the_moves_between_are_dropped),
        cmocka_unit_test(a_probe_that_was_interrupted_drops_its_two_rounds),
        cmocka_unit_test(a_few_strange_rounds_are_no_state),
        cmocka_unit_test(a_machine_that_never_rests_has_no_state),
        cmocka_unit_test(no_rounds_are_no_state),
        cmocka_unit_test(a_row_per_state_with_the_best_floor_of_that_state),
        cmocka_unit_test(of_several_the_best_of_each_state_counts),
        cmocka_unit_test(peers_are_medians_of_the_rounds_that_they_took_part_in),
        cmocka_unit_test(without_floors_the_floor_is_absent),
        cmocka_unit_test(more_is_better_turns_floor_and_tail),
        cmocka_unit_test(samples_give_the_p99_of_single_messages),
    };
    return cmocka_run_group_tests_name("perf_state", tests, NULL, NULL);
}
