/* SPDX-License-Identifier: BSD-3-Clause */
/* How a pair's choice of copies begins: before anything is known a single figure, or a strategy that was found by
 * figures in another state, must not decide for long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/pace.h"

enum { MIB = 1 << 20, FAR_NS = 160 };

/* Two ways to write, and for each what is for long messages, one of which writes in quarters; 0 is
 * right in one L3, 1 across two. */
static const struct nigh_strategy four[] = {
    {.sender = NIGH_COPY_PLAIN, .receiver = NIGH_COPY_PLAIN, .span = 2 * MIB, .piece = 65536},
    {.sender = NIGH_COPY_PREFETCHW, .receiver = NIGH_COPY_PLAIN, .span = 2 * MIB, .piece = 65536},
    {.sender = NIGH_COPY_QUARTERS,
     .receiver = NIGH_COPY_PREFETCHW,
     .span = 2 * MIB,
     .piece = 65536,
     .from = 4 * MIB},
    {.sender = NIGH_COPY_PREFETCHW,
     .receiver = NIGH_COPY_PREFETCHW,
     .span = 2 * MIB,
     .piece = 65536,
     .from = 4 * MIB},
};

static void begin(struct nigh_pace *pace, unsigned strategies)
{
    assert_int_equal(nigh_pace_open(pace, four, strategies, 0, 1, FAR_NS), 0);
}

/* One message of a stream, which costs what `ns_per_kib` says of its strategy. */
static unsigned one(struct nigh_pace *pace, size_t bytes, const double ns_per_kib[4])
{
    unsigned strategy = nigh_pace_choose(pace, bytes);

    assert_in_range(strategy, 0, 3);
    if (nigh_pace_asks(pace, strategy, bytes, true))
        nigh_pace_learn(pace, strategy, bytes, (uint64_t)(ns_per_kib[strategy] * (double)bytes / 1024));
    return strategy;
}

static void what_is_for_long_messages_stands_in_for_its_like(void **state)
{
    static const double better[] = {20, 40, 60, 60};
    unsigned taken[4] = {0};
    struct nigh_pace pace;

    (void)state;
    begin(&pace, 4);
    nigh_pace_handoff(&pace, 50);
    for (unsigned i = 0; i < 3000; i++)
        taken[one(&pace, 4 * MIB, better)]++;
    assert_int_equal(taken[0], 0);
    assert_int_equal(taken[1], 0);
    assert_true(taken[3] > 0); /* what writes otherwise is tried, as everywhere */
    for (unsigned i = 0; i < 100; i++)
        assert_in_range(one(&pace, 4 * MIB - 1, better), 0, 1);
}

static void long_messages_begin_with_what_is_for_them(void **state)
{
    struct nigh_pace pace;

    (void)state;
    begin(&pace, 4);
    assert_int_equal(nigh_pace_choose(&pace, 4 * MIB), 2);
    assert_int_equal(nigh_pace_choose(&pace, 4 * MIB - 1), 0);
    for (unsigned i = 0; i < 2; i++) /* one that differs says nothing yet */
        nigh_pace_handoff(&pace, 245);
    assert_int_equal(nigh_pace_choose(&pace, 4 * MIB), 3);
    assert_int_equal(nigh_pace_choose(&pace, 4 * MIB - 1), 1);
}

/* How many of 3000 messages of a stream take strategy 2, which is tried from 1 MiB on and is for 4. */
static unsigned tried(size_t bytes, const double ns_per_kib[4])
{
    struct nigh_strategy with[] = {four[0], four[1], four[2]};
    struct nigh_pace pace;
    unsigned taken = 0;

    with[2].tried = MIB;
    assert_int_equal(nigh_pace_open(&pace, with, 3, 0, 1, FAR_NS), 0);
    nigh_pace_handoff(&pace, 50);
    assert_int_equal(nigh_pace_choose(&pace, bytes), bytes < 4 * MIB ? 0 : 2);
    for (unsigned i = 0; i < 3000; i++)
        taken += one(&pace, bytes, ns_per_kib) == 2;
    return taken;
}

static void what_is_tried_before_has_to_win(void **state)
{
    static const double better[] = {40, 80, 30, 0}, alike[] = {40, 80, 38, 0}, worse[] = {30, 80, 40, 0};

    (void)state;
    assert_in_range(tried(2 * MIB, better), 2500, 3000);
    assert_in_range(tried(2 * MIB, alike), 1, 300);
    assert_in_range(tried(2 * MIB, worse), 1, 300);
    assert_int_equal(tried(MIB - 1, better), 0);
    assert_in_range(tried(4 * MIB, worse), 2500, 3000);
}

static void a_cold_first_message_does_not_make_others_look_better(void **state)
{
    static const double cold[] = {60, 38, 0, 0}, warm[] = {40, 38, 0, 0};
    struct nigh_pace pace;

    (void)state;
    begin(&pace, 2);
    for (unsigned i = 0; i < 200; i++) {
        one(&pace, MIB, i == 0 ? cold : warm);
        assert_int_equal(nigh_pace_current(&pace, MIB), 0);
    }
}

static void what_was_found_before_the_handoff_is_known_does_not_stay(void **state)
{
    static const double across[] = {400, 60, 400, 60}, within[] = {60, 70, 55, 75};
    struct nigh_pace pace;
    unsigned found = 0;

    (void)state;
    begin(&pace, 4);
    for (unsigned i = 0; i < 40; i++)
        found = one(&pace, 4 * MIB, across);
    assert_int_equal(found, 3);
    nigh_pace_handoff(&pace, 50);
    assert_int_equal(one(&pace, 4 * MIB, within), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_messages_begin_with_what_is_for_them),
        cmocka_unit_test(what_is_for_long_messages_stands_in_for_its_like),
        cmocka_unit_test(what_is_tried_before_has_to_win),
        cmocka_unit_test(a_cold_first_message_does_not_make_others_look_better),
        cmocka_unit_test(what_was_found_before_the_handoff_is_known_does_not_stay),
    };

    return cmocka_run_group_tests_name("pace_begin", tests, NULL, NULL);
}
