/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/far.h: both ways are tried, the one that pays is taken, and a change of the machine is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/far.h"

/* How many of `slices` went past the cache, where the two ways take so long. */
static unsigned past_of(struct nigh_far *far, unsigned slices, uint64_t through, uint64_t past)
{
    unsigned count = 0;

    for (unsigned i = 0; i < slices; i++) {
        bool trial, is_past = nigh_far_choose(far, &trial);

        nigh_far_learn(far, is_past, trial, is_past ? past : through);
        count += is_past;
    }
    return count;
}

static void test_both_are_tried(void **state)
{
    struct nigh_far far = {0};
    bool trial;

    (void)state;
    assert_false(nigh_far_choose(&far, &trial));
    nigh_far_learn(&far, false, trial, 20000);
    assert_true(nigh_far_choose(&far, &trial));
    nigh_far_learn(&far, true, trial, 0); /* a clock that stands still is no reason to try for ever */
    assert_int_equal(far.ns[1], 1);
}

/* A little faster is not worth what the cache is. */
static void test_what_pays(void **state)
{
    struct nigh_far near = {0}, far = {0};

    (void)state;
    (void)past_of(&near, 2, 22000, 20000);
    assert_int_equal(past_of(&near, 20 * NIGH_FAR_TRIAL, 22000, 20000), 20);
    (void)past_of(&far, 2, 74000, 48000);
    assert_int_equal(past_of(&far, 20 * NIGH_FAR_TRIAL, 74000, 48000), 20 * NIGH_FAR_TRIAL - 20);
}

static void test_follows(void **state)
{
    struct nigh_far far = {0};

    (void)state;
    (void)past_of(&far, 1000, 22000, 20000);
    assert_in_range(past_of(&far, NIGH_FAR_TRIAL, 74000, 48000), NIGH_FAR_TRIAL - 64, NIGH_FAR_TRIAL);
    (void)past_of(&far, 2 * NIGH_FAR_TRIAL, 22000, 20000);
    assert_int_equal(past_of(&far, NIGH_FAR_TRIAL, 22000, 20000), 1);
}

/* Slices of 64 KiB take 2 us, and an interrupt as long. */
static void test_one_that_was_held_up(void **state)
{
    struct nigh_far far = {0};

    (void)state;
    (void)past_of(&far, NIGH_FAR_TRIAL / 4, 2300, 2200);
    nigh_far_learn(&far, false, false, 100000);
    assert_int_equal(past_of(&far, NIGH_FAR_TRIAL / 2, 2300, 2200), 0);
}

/* Another thread chooses before the trial has ended: the trial alone counts whole. */
static void test_one_chosen_before_a_trial_ends(void **state)
{
    struct nigh_far far = {0};
    bool trial = false, other, past = false;
    uint64_t known;

    (void)state;
    (void)past_of(&far, 2, 22000, 20000);
    while (!trial)
        past = nigh_far_choose(&far, &trial);
    assert_true(past);
    assert_false(nigh_far_choose(&far, &other));
    assert_false(other);
    known = far.ns[0];
    nigh_far_learn(&far, past, trial, 5000);
    assert_int_equal(far.ns[1], 5000);
    nigh_far_learn(&far, false, other, 10 * known);
    assert_in_range(far.ns[0], known, known + known / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_are_tried),
        cmocka_unit_test(test_what_pays),
        cmocka_unit_test(test_follows),
        cmocka_unit_test(test_one_that_was_held_up),
        cmocka_unit_test(test_one_chosen_before_a_trial_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
