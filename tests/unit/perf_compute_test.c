/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/perf/compute.h: work takes as long as it is told, however often, and what is hidden is counted right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/perf/compute.h"

static void assert_percent(double found, double expected)
{
    if (found < expected - 1e-9 || found > expected + 1e-9)
        fail_msg("%f %% where %f were hidden", found, expected);
}

static void test_what_is_hidden(void **state)
{
    (void)state;
    assert_percent(perf_hidden_share(150, 150, 150), 100);
    assert_percent(perf_hidden_share(150, 150, 300), 0);
    assert_percent(perf_hidden_share(150, 300, 300), 100);
    assert_percent(perf_hidden_share(150, 300, 375), 50); /* of the message, which is the shorter */
    assert_percent(perf_hidden_share(300, 150, 375), 50); /* of the work */
    assert_percent(perf_hidden_share(100, 100, 250), -50);
}

/* The compiler has dropped nothing: a step needs at least a cycle, and no CPU has 20 of them in a nanosecond. */
static void test_work_is_done(void **state)
{
    double shortest = 1e18;

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        double ns = perf_compute_ns(1000000);

        shortest = ns < shortest ? ns : shortest;
    }
    if (shortest < 50000)
        fail_msg("a million steps in %f ns", shortest);
}

static void test_steps_follow_the_time(void **state)
{
    uint64_t least = UINT64_MAX, most = 0;

    (void)state;
    /* An interrupt in the trial makes it fewer: of several the most counts. */
    for (unsigned i = 0; i < 50; i++) {
        uint64_t few = perf_compute_steps(10000), many = perf_compute_steps(1000000);

        least = few < least ? few : least;
        most = many > most ? many : most;
    }
    if (most < 20 * least)
        fail_msg("%lu steps in a millisecond, %lu in a hundredth of it", (unsigned long)most,
                 (unsigned long)least);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_hidden),
        cmocka_unit_test(test_work_is_done),
        cmocka_unit_test(test_steps_follow_the_time),
    };

    perf_clock_init();
    return cmocka_run_group_tests_name("perf_compute", tests, NULL, NULL);
}
