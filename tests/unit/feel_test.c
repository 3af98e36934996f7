/* SPDX-License-Identifier: BSD-3-Clause */
/* What a pair feels of a handoff, from feelings as they were recorded: on which side of far_ns the pair then takes
 * itself to be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/feel.h"
#include "shm/pace.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { COST = 10, KIB_32 = 32768 };

static struct nigh_feel feel;
static struct nigh_pace pace;

/* A counter of nanoseconds, and far_ns as it is on CPUs of AMD's. */
static int start(void **state)
{
    static const struct nigh_strategy two[] = {
        {.sender = NIGH_COPY_PLAIN, .receiver = NIGH_COPY_PLAIN, .span = 2 << 20, .piece = 65536},
        {.sender = NIGH_COPY_PLAIN, .receiver = NIGH_COPY_PLAIN, .span = 1 << 20, .piece = 65536},
    };

    (void)state;
    feel = (struct nigh_feel){.cost = COST, .tick_ns = 1};
    return nigh_pace_open(&pace, two, COUNT(two), 0, 1, 160);
}

static void take(const uint16_t *ns, unsigned count, unsigned times)
{
    for (unsigned i = 0; i < count * times; i++)
        nigh_pace_handoff(&pace, nigh_feel_take(&feel, ns[i % count] + COST));
}

static void is_near(void)
{
    assert_int_equal(nigh_pace_current(&pace, KIB_32), pace.near);
}

static void is_far(void)
{
    assert_int_equal(nigh_pace_current(&pace, KIB_32), pace.far);
}

static const uint16_t across[] = {150, 140, 170, 160, 150, 220, 150, 140,
                                  271, 150, 20,  160, 150, 310, 140, 150};

static void test_five_make_one(void **state)
{
    static const uint16_t once[] = {60, 50, 600, 40, 70};

    (void)state;
    for (unsigned i = 0; i < NIGH_FELT - 1; i++)
        assert_true(nigh_feel_take(&feel, once[i] + COST) == 0);
    assert_true(nigh_feel_take(&feel, once[NIGH_FELT - 1] + COST) == 100);
}

/* Nor those that took less than the counter costs. */
static void test_hits_are_no_feelings(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100; i++)
        assert_true(nigh_feel_take(&feel, i % (COST + 12)) == 0);
    assert_int_equal(feel.count, 0);
}

/* One L3, L = 70 ns, sent past the cache: the pair took itself for two L3s as long as it sent, at 0.4 of the floor. */
static void test_stores_under_way_do_not_keep_it_away(void **state)
{
    static const uint16_t past[] = {220, 211, 50,  521, 521, 50,  491, 481, 50,  20, 431, 551, 50,  451,
                                    411, 50,  491, 330, 50,  551, 501, 50,  471, 50, 50,  431, 341, 50,
                                    230, 50,  240, 50,  391, 381, 60,  431, 441, 60, 521, 401};
    static const uint16_t slow[] = {50, 60, 50, 171, 50, 60, 90, 60, 60, 50, 110, 50, 60, 240, 70, 50};

    (void)state;
    take(across, COUNT(across), 4);
    is_far();
    take(past, COUNT(past), 1);
    is_near();
    take(across, COUNT(across), 4);
    is_far();
    take(slow, COUNT(slow), 2);
    is_near();
}

static void test_across_two_it_stays_there(void **state)
{
    uint64_t changes;

    (void)state;
    take(across, COUNT(across), 2);
    is_far();
    changes = pace.changes;
    take(across, COUNT(across), 1000);
    is_far();
    assert_int_equal(pace.changes, changes);
}

static void test_within_one_it_stays_there(void **state)
{
    static const uint16_t within[] = {50, 40, 40, 60, 611, 40, 70, 30, 50, 240, 250, 50, 40, 90, 50, 60};

    (void)state;
    take(within, COUNT(within), 1000);
    is_near();
    assert_int_equal(pace.changes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_five_make_one, start),
        cmocka_unit_test_setup(test_hits_are_no_feelings, start),
        cmocka_unit_test_setup(test_stores_under_way_do_not_keep_it_away, start),
        cmocka_unit_test_setup(test_across_two_it_stays_there, start),
        cmocka_unit_test_setup(test_within_one_it_stays_there, start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
