/* SPDX-License-Identifier: BSD-3-Clause */
/* How often a rank that waits yields before it sleeps: where each yield costs a time slice, because others compute on its CPU,
 * not more than once. sched_yield() is the test's own (-Wl,--wrap). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/hosted.h"
#include <errno.h>
#include <unistd.h>

enum { MS = 1000000 };

static struct hosted one;
static unsigned yields;
static useconds_t slice_us;

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    yields++;
    return slice_us ? usleep(slice_us) : 0;
}

static int start(void **state)
{
    (void)state;
    alarm(300);
    hosted_open(&one, hosted_job(), 0, 0);
    yields = 0;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    hosted_close(&one);
    return 0;
}

static void test_others_of_the_job_get_many_turns(void **state)
{
    (void)state;
    slice_us = 0;
    assert_int_equal(hosted_ops->wait(one.context, UINT64_C(300) * MS), -ETIMEDOUT);
    assert_in_range(yields, 1, 64);
}

static void test_a_long_slice_is_given_once(void **state)
{
    (void)state;
    slice_us = 5000;
    assert_int_equal(hosted_ops->wait(one.context, UINT64_C(500) * MS), -ETIMEDOUT);
    assert_int_equal(yields, 1);
}

/* A time-out that passes meanwhile is not slept behind. */
static void test_the_time_out_bounds_it(void **state)
{
    (void)state;
    slice_us = 300;
    assert_int_equal(hosted_ops->wait(one.context, UINT64_C(500000)), -ETIMEDOUT);
    assert_in_range(yields, 0, 2);
    assert_int_equal(hosted_stats(&one).sleeps, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_others_of_the_job_get_many_turns, start, stop),
        cmocka_unit_test_setup_teardown(test_a_long_slice_is_given_once, start, stop),
        cmocka_unit_test_setup_teardown(test_the_time_out_bounds_it, start, stop),
    };

    return cmocka_run_group_tests_name("yield", tests, NULL, NULL);
}
