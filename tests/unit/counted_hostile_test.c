/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/counted.c: a count that cannot be, or a beginning, ends its writer alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/shared.h"
#include "tests/support/counts.h"
#include <errno.h>

static void assert_broken(void)
{
    for (unsigned i = 0; i < 100 && hosted_state(&counts.victim, counts.to_foe) == NIGH_READY; i++)
        hosted_turns(&counts.victim, &counts.good, 100);
    assert_int_equal(hosted_state(&counts.victim, counts.to_foe), NIGH_BROKEN);
    assert_int_equal(hosted_recv(&counts.good, NULL, 900, 900, counts.in, 64, 0), 0);
    assert_int_equal(hosted_send(counts.to_good, 901, 900, counts.out, 64, 0), 0);
    assert_int_equal(hosted_until(&counts.good, &counts.victim, NIGH_OP_RECV, 900)->status, 0);
}

/* Whether its receive is there or not. */
static void lie(uint64_t bytes, bool posted)
{
    if (posted)
        assert_int_equal(
            hosted_recv(&counts.victim, counts.to_foe, 10, COUNTS_TAG, counts.in, COUNTS_BYTES, 0), 0);
    counts_begin();
    counts_fill(COUNTS_STEP, 2 * COUNTS_STEP);
    hosted_turns(&counts.victim, &counts.good, 20);
    counts_say(bytes);
    assert_broken();
    if (posted)
        assert_int_equal(hosted_until(&counts.victim, &counts.good, NIGH_OP_RECV, 10)->status, -EPROTO);
}

static void test_back(void **state)
{
    (void)state;
    lie(COUNTS_STEP, false);
}

static void test_too_far(void **state)
{
    (void)state;
    lie(COUNTS_BYTES + NIGH_LINE, true);
}

static void test_part_of_a_line(void **state)
{
    (void)state;
    lie(3 * COUNTS_STEP + 8, false);
}

static void test_a_slot_before_the_end(void **state)
{
    (void)state;
    counts_begin();
    foe_send(&counts.foe, nigh_head_make(NIGH_K_MESSAGE, 8, 0, 0), 78, 0, counts.out, 8);
    assert_broken();
}

/* Right in 32 bits only. */
static void test_beyond_all(void **state)
{
    (void)state;
    lie((UINT64_C(1) << 32) + 3 * COUNTS_STEP, true);
}

/* The count is wrong as soon as it is looked at. */
static void test_less_than_the_slot_says(void **state)
{
    struct nigh_wire_first first = counts_first();

    (void)state;
    counts_say(COUNTS_STEP - NIGH_LINE);
    counts_announce(&first, NIGH_F_SHUTTLE | NIGH_F_COUNTED);
    assert_broken();
}

static void test_beginnings(void **state)
{
    struct nigh_wire_first cases[] = {counts_first(), counts_first(), counts_first(),
                                      counts_first(), counts_first(), counts_first()};

    cases[0].line = 64;
    cases[1].bytes = 0;
    cases[2].bytes = COUNTS_BYTES;
    cases[3].bytes = 100;
    cases[4].eager = COUNTS_STEP;
    cases[5].total = cases[5].eager = NIGH_SHUTTLE_COUNT + 1;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (i) {
            counts_close(state);
            counts_open(state);
        }
        counts_say(COUNTS_STEP);
        counts_announce(&cases[i], NIGH_F_SHUTTLE | NIGH_F_COUNTED);
        assert_broken();
    }
}

static void test_outside_of_a_shuttle(void **state)
{
    struct nigh_wire_first first = counts_first();

    (void)state;
    first.line = foe_pool_line(&counts.foe);
    counts_announce(&first, NIGH_F_COUNTED);
    assert_broken();
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, counts_open, counts_close)

static const struct CMUnitTest tests[] = {
    CASE(test_back),           CASE(test_too_far),
    CASE(test_part_of_a_line), CASE(test_a_slot_before_the_end),
    CASE(test_beyond_all),     CASE(test_less_than_the_slot_says),
    CASE(test_beginnings),     CASE(test_outside_of_a_shuttle),
};

int main(void)
{
    hosted_quiet = true;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
